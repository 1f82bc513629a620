"""Pure: read preferences (server selection specification, "Read Preference")."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from motorlite._pymongo_objects import is_like
from motorlite.errors import ConfigurationError

__all__ = [
    "Nearest",
    "Primary",
    "PrimaryPreferred",
    "ReadPreference",
    "Secondary",
    "SecondaryPreferred",
    "make_read_preference",
    "read_pref_mode_from_name",
]

TagSets: TypeAlias = Sequence[Mapping[str, str]]
"""In order of preference: the first tag set that any member satisfies is used; ``{}`` is satisfied by all."""

MODES: Final = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")
"""The names of the modes in connection strings and commands, at the index that `mode` is."""

_WIRE_VERSION_OF_MAX_STALENESS = 5


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


def _checked_hedge(hedge: object) -> dict[str, Any] | None:
    if hedge is None:
        return None
    if not isinstance(hedge, Mapping):
        raise TypeError(f"hedge must be a mapping, not {hedge!r}")
    return dict(hedge)


class _ServerMode:
    """What all read preferences are: immutable values, made to be dictionary keys.

    Attributes:
        mode: 0 to 4, in the order primary, primaryPreferred, secondary, secondaryPreferred, nearest.
        mongos_mode: The mode as connection strings and commands name it: ``"secondaryPreferred"``.
        max_staleness: Seconds that a secondary may lag behind, -1 for no limit.
        hedge: The hedged read options of MongoDB 4.4 to 7.0, or None.
        document: What is sent as ``$readPreference``. Shared: do not change it.
        min_wire_version: The wire version that all servers must have.
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
        # [{}], any member, when none were given.
        self.tag_sets: Final = _checked_tag_sets(tag_sets)
        self.max_staleness: Final = _checked_max_staleness(max_staleness)
        self.hedge: Final = _checked_hedge(hedge)
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
        # Server selection looks its cached answers up by the preference, once for every operation.
        self._hash: Final = hash(self._key)

    @property
    def name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, _ServerMode) else NotImplemented

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # The stored hash is only good in the process that made it (strings hash differently elsewhere).
        return _restore, (type(self), self.mode, self.tag_sets, self.max_staleness, self.hedge)

    def __repr__(self) -> str:
        fields = f"tag_sets={self.tag_sets!r}, max_staleness={self.max_staleness}"
        return f"{self.name}({fields}, hedge={self.hedge!r})" if self.hedge else f"{self.name}({fields})"


class Primary(_ServerMode):
    """Read from the primary only. The default."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0)

    def __repr__(self) -> str:
        return "Primary()"


class _WithSecondaries(_ServerMode):
    __slots__ = ()

    _MODE: ClassVar[int]

    def __init__(
        self,
        tag_sets: TagSets | None = None,
        max_staleness: int = -1,
        hedge: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(self._MODE, tag_sets, max_staleness, hedge)
        if hedge is not None:
            warnings.warn(
                "hedged reads are deprecated, MongoDB 8.0 ignores them: leave hedge out",
                DeprecationWarning,
                stacklevel=2,
            )


class PrimaryPreferred(_WithSecondaries):
    """Read from the primary, or from a secondary when there is none.

    With overload retargeting (the default) a retry avoids the server that was overloaded, so it may read from
    a secondary although there is a primary.

    Args:
        tag_sets: Which secondaries, in order of preference.
        max_staleness: Seconds that the secondary may lag behind: at least 90, or -1 for no limit.
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
    """Read from a secondary, or from the primary when there is none. Arguments as for `PrimaryPreferred`."""

    __slots__ = ()
    _MODE = 3


class Nearest(_WithSecondaries):
    """Read from any member within the latency window. Arguments as for `PrimaryPreferred`."""

    __slots__ = ()
    _MODE = 4


class ReadPreference:
    """The read preferences without tags or a limit to staleness."""

    PRIMARY: Final = Primary()
    PRIMARY_PREFERRED: Final = PrimaryPreferred()
    SECONDARY: Final = Secondary()
    SECONDARY_PREFERRED: Final = SecondaryPreferred()
    NEAREST: Final = Nearest()


_WITH_SECONDARIES = (PrimaryPreferred, Secondary, SecondaryPreferred, Nearest)


def as_read_preference(value: Any) -> _ServerMode:
    """A read preference, which may be PyMongo's. Raises TypeError."""
    if isinstance(value, _ServerMode):
        return value
    for kind in (Primary, *_WITH_SECONDARIES):
        if is_like(value, kind):
            # Not `value.hedge`, which warns: making the preference did that already.
            return _restore(kind, value.mode, value.tag_sets, value.max_staleness, value.document.get("hedge"))
    raise TypeError("allowed is a read preference (ReadPreference.NEAREST ...)")


def make_read_preference(mode: int, tag_sets: TagSets | None, max_staleness: int = -1) -> _ServerMode:
    """The read preference of a mode.

    Raises:
        ConfigurationError: Mode 0, primary, with tag sets or a limit to staleness.
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
    """The number of a mode, from its name in connection strings.

    Raises:
        ValueError: There is no such mode.
    """
    if name not in MODES:
        raise ValueError(f"read preference mode must be one of {', '.join(MODES)}, not {name!r}")
    return MODES.index(name)


def _restore(
    kind: type[_ServerMode], mode: int, tag_sets: TagSets, max_staleness: int, hedge: Mapping[str, Any] | None
) -> _ServerMode:
    # Past the subclass, which would warn of `hedge` once more.
    preference = object.__new__(kind)
    _ServerMode.__init__(preference, mode, tag_sets, max_staleness, hedge)
    return preference
