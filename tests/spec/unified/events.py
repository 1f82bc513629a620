"""Records a client's events and log records, and compares them with those that a test expects."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.objectid import ObjectId

from motorlite import monitoring
from tests.spec.unified.extensions import RETRY_EVENT
from tests.spec.unified.matching import MISSING
from tests.spec.unified.outcomes import BadTest, Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tests.spec.unified.matching import Matcher

COMMAND: Final[Mapping[str, type]] = {
    "commandStartedEvent": monitoring.CommandStartedEvent,
    "commandSucceededEvent": monitoring.CommandSucceededEvent,
    "commandFailedEvent": monitoring.CommandFailedEvent,
}
CMAP: Final[Mapping[str, type]] = {
    "poolCreatedEvent": monitoring.PoolCreatedEvent,
    "poolReadyEvent": monitoring.PoolReadyEvent,
    "poolClearedEvent": monitoring.PoolClearedEvent,
    "poolClosedEvent": monitoring.PoolClosedEvent,
    "connectionCreatedEvent": monitoring.ConnectionCreatedEvent,
    "connectionReadyEvent": monitoring.ConnectionReadyEvent,
    "connectionClosedEvent": monitoring.ConnectionClosedEvent,
    "connectionCheckOutStartedEvent": monitoring.ConnectionCheckOutStartedEvent,
    "connectionCheckOutFailedEvent": monitoring.ConnectionCheckOutFailedEvent,
    "connectionCheckedOutEvent": monitoring.ConnectionCheckedOutEvent,
    "connectionCheckedInEvent": monitoring.ConnectionCheckedInEvent,
}
SDAM: Final[Mapping[str, type]] = {
    "serverDescriptionChangedEvent": monitoring.ServerDescriptionChangedEvent,
    "serverHeartbeatStartedEvent": monitoring.ServerHeartbeatStartedEvent,
    "serverHeartbeatSucceededEvent": monitoring.ServerHeartbeatSucceededEvent,
    "serverHeartbeatFailedEvent": monitoring.ServerHeartbeatFailedEvent,
    "topologyDescriptionChangedEvent": monitoring.TopologyDescriptionChangedEvent,
    "topologyOpeningEvent": monitoring.TopologyOpenedEvent,
    "topologyClosedEvent": monitoring.TopologyClosedEvent,
}
# An extension (spec-tests/EXTENSIONS.md).
RETRY: Final[Mapping[str, type]] = {RETRY_EVENT: monitoring.RetryEvent}
KINDS: Final = {"command": COMMAND, "cmap": CMAP, "sdam": SDAM, "retry": RETRY}
NAMES: Final = {kind: name for kinds in KINDS.values() for name, kind in kinds.items()}

# Command logging and monitoring specification, "Security"; and hello, when it authenticates.
_SENSITIVE: Final = frozenset(
    {
        "authenticate",
        "saslStart",
        "saslContinue",
        "getnonce",
        "createUser",
        "updateUser",
        "copydbgetnonce",
        "copydbsaslstart",
        "copydb",
    }
)
_HELLO: Final = frozenset({"hello", "isMaster", "ismaster"})


def _listener(kind: type, record: Callable[[Any], None]) -> object:
    """A listener that records all events."""
    made: object = kind()
    for name in vars(kind):
        if not name.startswith("_"):
            setattr(made, name, record)
    return made


class EventRecord:
    """The events of one client that its test observes, oldest first."""

    def __init__(self, observed: Sequence[str], ignored_commands: Collection[str], *, with_sensitive: bool) -> None:
        self.events: list[Any] = []
        self.connections_checked_out: int = 0
        # Events before this is set are not for the test (`awaitMinPoolSizeMS`), nor those after it is over.
        self.is_recording: bool = True
        # Called with each recorded event, before the driver goes on.
        self.reactions: list[Callable[[Any], None]] = []
        self._observed = tuple(kinds[name] for kinds in KINDS.values() for name in observed if name in kinds)
        self._ignored = {"configureFailPoint", *ignored_commands}
        self._with_sensitive = with_sensitive

    def listeners(self) -> list[object]:
        """Listeners for the client: one for each kind of event that is observed, and one for its pools."""
        found = [_listener(monitoring.ConnectionPoolListener, self._pool_event)]
        if any(kind in self._observed for kind in COMMAND.values()):
            found.append(_listener(monitoring.CommandListener, self._command_event))
        if any(kind in self._observed for kind in SDAM.values()):
            kinds = (monitoring.ServerHeartbeatListener, monitoring.ServerListener, monitoring.TopologyListener)
            found += [_listener(kind, self._record) for kind in kinds]
        if monitoring.RetryEvent in self._observed:
            found.append(_listener(monitoring.RetryListener, self._record))
        return found

    def _record(self, event: Any) -> None:
        if self.is_recording and isinstance(event, self._observed):
            self.events.append(event)
            for react in self.reactions:
                react(event)

    def _pool_event(self, event: Any) -> None:
        if isinstance(event, monitoring.ConnectionCheckedOutEvent):
            self.connections_checked_out += 1
        elif isinstance(event, monitoring.ConnectionCheckedInEvent):
            self.connections_checked_out -= 1
        self._record(event)

    def _command_event(self, event: Any) -> None:
        name = event.command_name
        if name not in self._ignored and (self._with_sensitive or not _is_sensitive(event)):
            self._record(event)


def _is_sensitive(event: Any) -> bool:
    if event.command_name in _SENSITIVE:
        return True
    # That a hello authenticated is seen from its being redacted.
    shown = getattr(event, "command", None) or getattr(event, "reply", None) or getattr(event, "failure", None)
    return event.command_name in _HELLO and not shown


# --- comparing events ---


def check_events(expectation: Mapping[str, Any], observed: Sequence[Any], matcher: Matcher) -> None:
    """Compare the events of a client with one entry of `expectEvents`.

    Raises:
        Failed: They do not match.
    """
    kinds = KINDS[expectation.get("eventType", "command")]
    found = [event for event in observed if isinstance(event, tuple(kinds.values()))]
    expected = expectation["events"]
    listed = "".join(f"\n    {short(event)}" for event in found)
    if len(found) < len(expected) or (len(found) > len(expected) and not expectation.get("ignoreExtraEvents", False)):
        raise Failed(
            f"client {expectation['client']!r}: expected {len(expected)} events"
            f" ({', '.join(map(_expected_name, expected))}), found {len(found)}:{listed}"
        )
    for index, (one, event) in enumerate(zip(expected, found, strict=False)):
        try:
            check_event(one, event, matcher)
        except Failed as failure:
            raise Failed(f"event {index}: {failure}; events:{listed}") from None


def _expected_name(expected: Mapping[str, Any]) -> str:
    ((name, fields),) = expected.items()
    command = fields.get("commandName") or next(iter(fields.get("command", ())), None)
    return f"{name} {command}" if command else name


def short(event: Any) -> str:
    """An event in a line."""
    name = NAMES[type(event)]
    if isinstance(event, monitoring.CommandEvent):
        document = getattr(event, "command", None) or getattr(event, "reply", None) or getattr(event, "failure", None)
        return f"{name} {event.command_name} {document!r}"[:400]
    return f"{event!r}"[:200]


def matches(expected: Mapping[str, Any], event: Any, matcher: Matcher) -> bool:
    """Whether an event is the expected one."""
    try:
        check_event(expected, event, matcher)
    except Failed:
        return False
    return True


def check_event(expected: Mapping[str, Any], event: Any, matcher: Matcher) -> None:
    """Compare one event.

    Raises:
        Failed: It does not match.
        BadTest: The expectation is malformed.
    """
    ((name, fields),) = expected.items()
    if name not in NAMES.values():
        raise BadTest(f"unknown event {name}")
    if NAMES[type(event)] != name:
        raise Failed(f"expected {_expected_name(expected)}, found {short(event)}")
    known = _RETRY_FIELDS if name == RETRY_EVENT else _FIELDS
    for field, value in fields.items():
        if field not in known:
            raise BadTest(f"{name}.{field} is not known")
        known[field](event, value, f"{name}.{field}", matcher)


def _document(attribute: str) -> Callable[[Any, Any, str, Matcher], None]:
    def check(event: Any, value: Any, where: str, matcher: Matcher) -> None:
        # As the server would see it: through BSON.
        shown = bson.decode(bson.encode(getattr(event, attribute)))
        matcher.match(value, shown, where, is_root=True)

    return check


def _attribute(attribute: str) -> Callable[[Any, Any, str, Matcher], None]:
    def check(event: Any, value: Any, where: str, matcher: Matcher) -> None:
        matcher.match(value, getattr(event, attribute), where)

    return check


def _has_service_id(event: Any, value: Any, where: str, matcher: Matcher) -> None:
    found = event.service_id
    if (isinstance(found, ObjectId) and found != ObjectId(bytes(12))) is not value:
        raise Failed(f"{where}: expected {value}, found {found!r}")


def _has_server_connection_id(event: Any, value: Any, where: str, matcher: Matcher) -> None:
    found = event.server_connection_id
    if (isinstance(found, int) and found > 0) is not value:
        raise Failed(f"{where}: expected {value}, found {found!r}")


def _description(attribute: str) -> Callable[[Any, Any, str, Matcher], None]:
    def check(event: Any, value: Any, where: str, matcher: Matcher) -> None:
        found = getattr(event, attribute)
        name = getattr(found, "server_type_name", None) or getattr(found, "topology_type_name", None)
        matcher.match(value, {"type": name}, where, is_root=True)

    return check


def _camel_case(words: str) -> str:
    """The extension's form of the driver's words: ``"not retryable"`` is ``"notRetryable"``."""
    first, *others = words.split()
    return first + "".join(word.capitalize() for word in others)


def _retry_value(value: Callable[[Any], Any]) -> Callable[[Any, Any, str, Matcher], None]:
    def check(event: Any, expected: Any, where: str, matcher: Matcher) -> None:
        found = value(event)
        matcher.match(expected, _camel_case(found) if isinstance(found, str) else found, where)

    return check


_RETRY_FIELDS: Final[Mapping[str, Callable[[Any, Any, str, Matcher], None]]] = {
    "commandName": _attribute("command_name"),
    "willRetry": _attribute("permitted"),
    "reason": _retry_value(lambda event: event.reason),
    "rule": _retry_value(lambda event: MISSING if event.rule is None else event.rule),
    "refusal": _retry_value(lambda event: MISSING if event.refusal is None else event.refusal),
    "attempt": _attribute("attempt"),
    # Seconds become milliseconds, and a millionth of one is not what a test is about.
    "delayMS": _retry_value(lambda event: round(event.delay * 1000, 6)),
    "tokens": _retry_value(lambda event: MISSING if event.tokens == inf else event.tokens),
    "deprioritized": _attribute("deprioritized"),
}
_FIELDS: Final[Mapping[str, Callable[[Any, Any, str, Matcher], None]]] = {
    "command": _document("command"),
    "reply": _document("reply"),
    "commandName": _attribute("command_name"),
    "databaseName": _attribute("database_name"),
    "hasServiceId": _has_service_id,
    "hasServerConnectionId": _has_server_connection_id,
    "interruptInUseConnections": _attribute("interrupt_connections"),
    "reason": _attribute("reason"),
    "awaited": _attribute("awaited"),
    "previousDescription": _description("previous_description"),
    "newDescription": _description("new_description"),
}
