"""Pure: read preferences (server selection specification, "Read Preference")."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, cast

from motorlite._base.arguments import WrongType, is_like
from motorlite._base.wire_versions import V3_4
from motorlite.errors import ConfigurationError

__all__ = [
    "Nearest",
    "Primary",
    "PrimaryPreferred",
    "ReadPreference",
    "Secondary",
    "SecondaryPreferred",
    "ServerMode",
    "make_read_preference",
    "read_pref_mode_from_name",
]

TagSets: TypeAlias = Sequence[Mapping[str, str]]
"""Tag sets in order of preference: the first one that any member matches is used. ``{}`` matches all members."""

MODES: Final = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")
"""The names of the modes in connection strings and commands, indexed by `mode`."""

_WIRE_VERSION_OF_MAX_STALENESS = V3_4


def _checked_tag_sets(tag_sets: object) -> list[dict[str, str]]:
    if tag_sets is None:
        return [{}]
    if not isinstance(tag_sets, Sequence) or isinstance(tag_sets, str):
        raise TypeError(f"tag_sets must be a list of mappings, not {tag_sets!r}")
    if not tag_sets:
        raise ValueError("tag_sets must be None or contain at least one set of tags, not []")
    for tags in tag_sets:
        if not isinstance(tags, Mapping):
            raise TypeError(f"tag_sets must be a list of mappings, but contains {tags!r}")
        for item in tags.items():
            if not all(isinstance(part, str) for part in item):
                raise TypeError(f"the tags in tag_sets must be strings, but one is {item!r}")
    return [dict(tags) for tags in tag_sets]


def _checked_max_staleness(max_staleness: object) -> int:
    allowed = "a positive number of seconds, or -1 for no limit"
    if not isinstance(max_staleness, int) or isinstance(max_staleness, bool):
        raise TypeError(f"max_staleness must be {allowed}, not {max_staleness!r}")
    if max_staleness < 1 and max_staleness != -1:
        raise ValueError(f"max_staleness must be {allowed}, not {max_staleness!r}")
    return max_staleness


class ServerMode:
    """The base class of read preferences: immutable values, usable as dictionary keys.

    Attributes:
        mode: 0 to 4, in the order primary, primaryPreferred, secondary, secondaryPreferred, nearest.
        mongos_mode: The mode as connection strings and commands name it: ``"secondaryPreferred"``.
        max_staleness: The maximum lag of a secondary in seconds, -1 for no limit.
        hedge: The hedged read options of MongoDB 4.4 to 7.0, or None.
        document: The document sent as ``$readPreference``. Shared: do not change it.
        min_wire_version: The wire version that all servers must support.
    """

    __slots__ = (
        "_hash",
        "_key",
        "document",
        "hedge",
        "max_staleness",
        "min_wire_version",
        "mode",
        "mongos_mode",
        "tag_sets",
    )

    def __init__(
        self,
        mode: int,
        tag_sets: TagSets | None = None,
        max_staleness: int = -1,
        hedge: Mapping[str, Any] | None = None,
    ) -> None:
        self.mode: Final = mode
        self.mongos_mode: Final = MODES[mode]
        # [{}], any member, by default.
        self.tag_sets: Final = _checked_tag_sets(tag_sets)
        self.max_staleness: Final = _checked_max_staleness(max_staleness)
        if hedge is not None and not isinstance(hedge, Mapping):
            raise TypeError(f"hedge must be a mapping, not {hedge!r}")
        self.hedge: Final = None if hedge is None else dict(hedge)
        self.min_wire_version: Final = 0 if max_staleness == -1 else _WIRE_VERSION_OF_MAX_STALENESS
        self.document: Final[dict[str, Any]] = {"mode": self.mongos_mode}
        if self.tag_sets != [{}]:
            self.document["tags"] = self.tag_sets
        if max_staleness != -1:
            self.document["maxStalenessSeconds"] = max_staleness
        if hedge:
            self.document["hedge"] = self.hedge
        tags = tuple(frozenset(tag_set.items()) for tag_set in self.tag_sets)
        self._key: Final = (mode, tags, max_staleness, frozenset((hedge or {}).items()))
        # Server selection looks up its cached results by preference, once per operation.
        self._hash: Final = hash(self._key)

    @property
    def name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ServerMode):
            return self._key == other._key
        # PyMongo's has a document too.
        return self.document == cast("Any", other).document if is_like(other, type(self)) else NotImplemented

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # The stored hash is valid only in the process that computed it (strings hash differently elsewhere).
        return _restore, (type(self), self.mode, self.tag_sets, self.max_staleness, self.hedge)

    def __repr__(self) -> str:
        fields = f"tag_sets={self.tag_sets!r}, max_staleness={self.max_staleness}"
        return f"{self.name}({fields}, hedge={self.hedge!r})" if self.hedge else f"{self.name}({fields})"


class Primary(ServerMode):
    """Read from the primary only. The default."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0)

    def __repr__(self) -> str:
        return "Primary()"


class _WithSecondaries(ServerMode):
    __slots__ = ()

    _MODE: ClassVar[int]

    def __init__(
        self, tag_sets: TagSets | None = None, max_staleness: int = -1, hedge: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(self._MODE, tag_sets, max_staleness, hedge)
        if hedge is not None:
            warnings.warn(
                "hedged reads are deprecated, MongoDB 8.0 ignores them: leave hedge out",
                DeprecationWarning,
                stacklevel=2,
            )


class PrimaryPreferred(_WithSecondaries):
    """Read from the primary, or from a secondary if there is no primary.

    With overload retargeting (the default) a retry avoids the overloaded server, so it may read from a secondary
    although there is a primary.

    Args:
        tag_sets: The tags of eligible secondaries, in order of preference.
        max_staleness: The maximum lag of the secondary in seconds: at least 90, or -1 for no limit.
        hedge: Deprecated with MongoDB 8.0.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `tag_sets` is empty, or `max_staleness` is neither positive nor -1.
    """

    __slots__ = ()
    _MODE = 1


class Secondary(_WithSecondaries):
    """Read from a secondary only. Arguments as for `PrimaryPreferred`."""

    __slots__ = ()
    _MODE = 2


class SecondaryPreferred(_WithSecondaries):
    """Read from a secondary, or from the primary if there is no secondary. Arguments as for `PrimaryPreferred`."""

    __slots__ = ()
    _MODE = 3


class Nearest(_WithSecondaries):
    """Read from any member within the latency window. Arguments as for `PrimaryPreferred`."""

    __slots__ = ()
    _MODE = 4


class ReadPreference:
    """The read preferences without tags or a staleness limit."""

    PRIMARY: Final = Primary()
    PRIMARY_PREFERRED: Final = PrimaryPreferred()
    SECONDARY: Final = Secondary()
    SECONDARY_PREFERRED: Final = SecondaryPreferred()
    NEAREST: Final = Nearest()


_WITH_SECONDARIES = (PrimaryPreferred, Secondary, SecondaryPreferred, Nearest)


def as_read_preference(value: Any) -> ServerMode:
    """Return `value`, which may be PyMongo's, as a read preference. Raises TypeError."""
    if isinstance(value, ServerMode):
        return value
    for kind in (Primary, *_WITH_SECONDARIES):
        if is_like(value, kind):
            # Not `value.hedge`, which warns: the constructor already did.
            return _restore(kind, value.mode, value.tag_sets, value.max_staleness, value.document.get("hedge"))
    named = (
        name
        for name in vars(ReadPreference)
        if isinstance(value, str) and name.replace("_", "").lower() == value.lower()
    )
    raise WrongType("a read preference", f"write ReadPreference.{next(named, 'NEAREST')}")


def make_read_preference(mode: int, tag_sets: TagSets | None, max_staleness: int = -1) -> ServerMode:
    """Make the read preference of a mode.

    Raises:
        ConfigurationError: Mode 0, primary, is combined with tag sets or a staleness limit.
        TypeError: An argument has the wrong type.
        ValueError: An argument has the wrong value.
    """
    if mode not in range(len(MODES)):
        raise ValueError(f"mode must be an integer from 0 to {len(MODES) - 1}, not {mode!r}")
    if mode > 0:
        return _WITH_SECONDARIES[mode - 1](tag_sets, max_staleness)
    if tag_sets is not None and any(tag_sets):
        raise ConfigurationError(f"read preference primary cannot be combined with tag sets, got {tag_sets!r}")
    if max_staleness != -1:
        raise ConfigurationError(
            f"read preference primary cannot be combined with maxStalenessSeconds={max_staleness!r}"
        )
    return ReadPreference.PRIMARY


def read_pref_mode_from_name(name: str) -> int:
    """Return the number of a mode from its name in connection strings.

    Raises:
        ValueError: The mode does not exist.
    """
    if name not in MODES:
        raise ValueError(f"read preference mode must be one of {', '.join(MODES)}, not {name!r}")
    return MODES.index(name)


def _restore(
    kind: type[ServerMode], mode: int, tag_sets: TagSets, max_staleness: int, hedge: Mapping[str, Any] | None
) -> ServerMode:
    # Bypasses the subclass, which would warn about `hedge` again.
    preference = object.__new__(kind)
    ServerMode.__init__(preference, mode, tag_sets, max_staleness, hedge)
    return preference
