"""Shell: the settings that databases and collections inherit from their client or database."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn

from bson.codec_options import CodecOptions

from motorlite._api.arguments.checks import optional
from motorlite._api.call_options import BLOCK as OPTION_BLOCK
from motorlite._api.call_options import effective
from motorlite._api.missing import name_after
from motorlite._api.session import BOUND, begin, is_in_transaction
from motorlite._api.time_limits import BLOCK as LIMIT_BLOCK
from motorlite._api.time_limits import MODULES, deadline, duration_from_ms
from motorlite._api.turns import refuse
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import instance
from motorlite._base.deadline import NO_DEADLINE
from motorlite._base.values import recognized
from motorlite._operations.contract import DEFAULT_OPTIONS, Call, CallOptions
from motorlite.errors import PyMongoError
from motorlite.read_concern import as_read_concern
from motorlite.read_preferences import as_read_preference
from motorlite.retry.overload import is_asked
from motorlite.retry.strategy import as_retry_strategy
from motorlite.write_concern import DEFAULT_WRITE_CONCERN, as_write_concern

if TYPE_CHECKING:
    from motorlite._api.session import AsyncClientSession
    from motorlite._client.core import Core
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode
    from motorlite.retry import RetryStrategy
    from motorlite.write_concern import WriteConcern


_NOT_ITERABLE: Final = (
    "an {} cannot be iterated: use `async for` with a cursor, as from collection.find(), database.list_collections() "
    "or client.list_databases()"
)


@dataclass(slots=True, eq=False, repr=False)
class Settings:
    """Codec options, preference, concerns and timeout of a client, database or collection. Not changed once made."""

    codec_options: CodecOptions[Any]
    read_preference: ServerMode
    write_concern: WriteConcern
    read_concern: ReadConcern
    # Seconds. None: timeoutMS is unset at all levels. Infinity: it was set to 0.
    timeout: float | None
    # The defaults of what `motorlite.call_options` sets.
    call_options: CallOptions = DEFAULT_OPTIONS
    # Shared by all calls without a session, a deadline and options of their own.
    usual_call: Call = field(init=False)

    def __post_init__(self) -> None:
        self.codec_options = recognized(self.codec_options)
        self.usual_call = Call(None, NO_DEADLINE, None, self.call_options)

    def derive(
        self,
        codec_options: CodecOptions[Any] | None,
        read_preference: ServerMode | None,
        write_concern: WriteConcern | None,
        read_concern: ReadConcern | None,
        timeout_ms: float | None,
        retry_strategy: RetryStrategy | None = None,
    ) -> Settings:
        """Return these settings with every argument that is not None replaced.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: `timeout_ms` is negative.
        """
        given = (codec_options, read_preference, write_concern, read_concern, timeout_ms, retry_strategy)
        if all(setting is None for setting in given):
            return self
        if codec_options is not None:
            allowed = "an instance of CodecOptions, such as CodecOptions(tz_aware=True)"
            instance("codec_options", codec_options, CodecOptions, allowed)
        timeout = self.timeout if timeout_ms is None else duration_from_ms(timeout_ms)
        options = self.call_options
        if retry_strategy is not None:
            options = options.with_options(retry_strategy=as_retry_strategy(retry_strategy))
            if is_asked(options.retry_strategy):
                options.unread.discard("context")  # a block may be around calls with and without this strategy
        return Settings(
            codec_options or self.codec_options,
            optional("read_preference", read_preference, as_read_preference) or self.read_preference,
            optional("write_concern", write_concern, as_write_concern) or self.write_concern,
            optional("read_concern", read_concern, as_read_concern) or self.read_concern,
            timeout,
            options,
        )

    def without_fallback(self) -> Settings:
        """Return these settings for the driver's own operations, which no fallback of the application may answer."""
        return replace(self, call_options=self.call_options.with_options(takes_fallback=False))


# Bound here, since Python looks the method of an imported object up at each call.
_limit_block: Final = LIMIT_BLOCK.get
_option_block: Final = OPTION_BLOCK.get


def usual_call(settings: Settings, scope: float) -> Call | None:
    """Return the call that has nothing but `settings`; None: ask `made_call`, since something may add to it.

    `scope`: what `core.enter` returned.
    """
    if (
        scope == inf
        and settings.timeout is None
        and _limit_block() is None
        and _option_block() is None
        and "pymongo" not in MODULES
    ):
        return settings.usual_call
    return None


def made_call(core: Core, settings: Settings, scope: float, timeout_ms: float | None = None) -> Call:
    """Return the call of an operation without a session that starts now."""
    options, limit = effective(settings.call_options), deadline(core, settings.timeout, timeout_ms, scope)
    if limit is NO_DEADLINE and options is settings.call_options:
        return settings.usual_call
    return Call(None, limit, None, options)


class Configured(Generic[DocumentT]):
    """The common base of client, database and collection: the machinery and the settings."""

    # With a `__dict__`, tests can replace a method of one object, as with PyMongo's.
    __slots__ = ("__dict__", "__weakref__", "_core", "_settings")

    if TYPE_CHECKING:
        # Otherwise Python would iterate by calling `__getitem__` with 0, 1, 2 ..., and a collection has all: c.0, c.1
        __iter__: ClassVar[None] = None
    else:

        def __iter__(self) -> NoReturn:
            """Reject ``for``."""
            raise TypeError(_NOT_ITERABLE.format(type(self).__name__))

        def __aiter__(self) -> NoReturn:
            """Reject ``async for``, which needs the cursor of a query."""
            raise TypeError(_NOT_ITERABLE.format(type(self).__name__))

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__ == "motorlite":  # a public class
            name_after(cls)

    def __init__(self, core: Core, settings: Settings) -> None:
        self._core = core
        self._settings = settings

    @property
    def codec_options(self) -> CodecOptions[DocumentT]:
        """Codec options for encoding and decoding documents."""
        return self._settings.codec_options

    @property
    def read_preference(self) -> ServerMode:
        """The servers to read from."""
        return self._settings.read_preference

    @property
    def write_concern(self) -> WriteConcern:
        """The acknowledgement that writes wait for."""
        return self._settings.write_concern

    @property
    def read_concern(self) -> ReadConcern:
        """The isolation level that reads ask for."""
        return self._settings.read_concern

    @property
    def timeoutMS(self) -> float | None:
        """Time limit of each operation in milliseconds; 0 is no limit, None is unset."""
        timeout = self._settings.timeout
        if timeout is None:
            return None
        return 0 if timeout == float("inf") else timeout * 1000

    def _begin(
        self,
        session: AsyncClientSession | None,
        timeout_ms: float | None,
        is_acknowledged: bool = True,
    ) -> Call | None:
        """Return the call settings of an operation that starts now, or None if it is refused: then await `refused`."""
        core = self._core
        try:
            scope = core.enter()
            settings = self._settings
            if session is None and not BOUND:
                usual = usual_call(settings, scope) if timeout_ms is None else None
                return usual or made_call(core, settings, scope, timeout_ms)
            options = effective(settings.call_options)
            state, limit = begin(session, core, settings.timeout, timeout_ms, is_acknowledged)
        except PyMongoError as error:
            refuse(error)
            return None
        return Call(state, limit, options=options)

    def _write_concern(self, session: AsyncClientSession | None) -> WriteConcern:
        """Return the write concern of an operation: in a transaction, only its commit and its abort have one."""
        if session is None and not BOUND:
            return self._settings.write_concern
        return DEFAULT_WRITE_CONCERN if is_in_transaction(session) else self._settings.write_concern
