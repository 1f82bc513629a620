"""Pure: where the names of PyMongo and Motor are in motorlite, and what differs, from `table.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# The packages that a program is ported from.
PACKAGES: Final = ("pymongo", "motor", "gridfs")
_SYNCHRONOUS: Final = "motorlite is asynchronous only"
# Where the classes are whose objects may be PyMongo's. (InvalidDocument is bson's, and the same in both.)
_VALUES: Final = tuple(
    f"motorlite.{name}."
    for name in (
        *("client_session.TransactionOptions", "collation", "driver_info", "errors.InvalidDocument", "operations"),
        *("read_concern", "read_preferences", "server_api", "write_concern"),
    )
)
# The same in the package itself, and constants.
_VALUE_NAMES: Final = frozenset(
    {
        *("ASCENDING", "DESCENDING", "GEO2D", "GEOSPHERE", "HASHED", "TEXT", "CursorType", "ReturnDocument"),
        *("DeleteMany", "DeleteOne", "IndexModel", "InsertOne", "ReplaceOne", "UpdateMany", "UpdateOne"),
        *("ReadPreference", "WriteConcern"),
    }
)


@dataclass(frozen=True, slots=True)
class Target:
    """What becomes of a name of PyMongo or Motor."""

    # Its path in motorlite; empty if there is none.
    path: str
    # Why there is none.
    reason: str = ""

    @property
    def is_synchronous(self) -> bool:
        """Whether it belongs to PyMongo's synchronous API, which a program may go on using."""
        return _SYNCHRONOUS in self.reason


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """The members of one of motorlite's classes."""

    members: frozenset[str]
    awaited: frozenset[str]


class Table:
    """The facts of `table.toml`. A member is ``Class.name``, with the name of motorlite's class."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        # Modules, and where their names are; those of Motor have no counterpart but the package.
        self.modules: Mapping[str, str] = {**content["modules"], **dict.fromkeys(content["motor"], "motorlite")}
        self._no_module: Mapping[str, str] = content["no_module"]
        self._missing: Mapping[str, str] = content["missing"]
        self._names: dict[str, str] = dict(content["renamed"])
        for module, places in content["names"].items():
            for place, names in places.items():
                self._names.update({f"{module}.{name}": f"{place}.{name}" for name in names})
        # Motor's class names, which begin with AsyncIOMotor, or Motor for Tornado: a program's own module may export
        # them.
        self._motor_names: Mapping[str, str] = {
            path.rpartition(".")[2]: path
            for path in (*self._names, *self._missing)
            if path.startswith(("motor.motor_asyncio.", "motor.motor_tornado."))
        }
        self.classes: Mapping[str, ClassFacts] = {
            name: ClassFacts(frozenset(facts["members"]), frozenset(facts["awaited"]))
            for name, facts in content["classes"].items()
        }
        # The methods of all that are awaited, with names that say a good deal.
        self.operations: frozenset[str] = frozenset(
            name for facts in self.classes.values() for name in facts.awaited if "_" in name.strip("_")
        )
        self.returns: Mapping[str, str] = content["returns"]
        # By origin: members that motorlite lacks, and what to write instead.
        self.no_member: Mapping[str, Mapping[str, str]] = content["no_member"]
        # What motorlite awaits and Motor does not.
        self.awaited_methods: frozenset[str] = frozenset(content["awaits"]["methods"])
        self.awaited_properties: frozenset[str] = frozenset(content["awaits"]["properties"])
        # By method, or by class for its constructor: arguments that motorlite lacks, and what to write instead.
        self.no_argument: Mapping[str, Mapping[str, str]] = content["no_argument"]
        # Classes whose constructors have other parameters, and the reason.
        self.constructors: Mapping[str, str] = content["constructors"]
        self.renamed_argument: Mapping[str, Mapping[str, str]] = content["renamed_argument"]
        self._positional: Mapping[str, Any] = content["positional"]
        self.behaviour: Mapping[str, str] = content["behaviour"]

    def target(self, path: str) -> Target | None:
        """Return what becomes of ``pymongo.errors.AutoReconnect``; None if it is none of these packages' names."""
        if path.partition(".")[0] not in PACKAGES:
            motors = self._motor_names.get(path.rpartition(".")[2])
            return self.target(motors) if motors else None
        if path in self._names:
            return Target(self._names[path])
        for whole, reasons in ((path, self._missing), (path, self._no_module)):
            if whole in reasons:
                return Target("", reasons[whole])
        if path in self.modules:
            return Target(self.modules[path])
        if ".synchronous" in path:
            return Target("", _SYNCHRONOUS)
        return self._part(path)

    def _part(self, path: str) -> Target | None:
        """What is not in the table: an attribute of something that is, or a name in the wrong module."""
        parent, _, name = path.rpartition(".")
        if not parent:
            return Target("", "motorlite has no counterpart")
        if parent in self.modules or parent in self._no_module:
            # Modules also export what they import.
            found = self._names.get(f"pymongo.{name}")
            reason = self._no_module.get(parent, f"{self.modules.get(parent, 'motorlite')} has no such name")
            return Target(found) if found else Target("", reason)
        target = self.target(parent)
        return Target(f"{target.path}.{name}") if target and target.path else target

    def is_known(self, path: str) -> bool:
        """Whether `path` names something of these packages, or a part of such a thing or of one of their modules."""
        while "." in path:
            if path in self._names or path in self._missing or self.is_module(path) or path.endswith(".synchronous"):
                return True
            path = path.rpartition(".")[0]
        return False

    def is_value(self, path: str) -> bool:
        """Whether a path in motorlite names a value, or a class of values; motorlite takes PyMongo's as well."""
        _, _, rest = path.partition(".")
        return f"{path}.".startswith(_VALUES) or rest.partition(".")[0] in _VALUE_NAMES

    def known_paths(self) -> list[str]:
        """Return the paths of all names that have a counterpart."""
        return list(self._names)

    def is_module(self, path: str) -> bool:
        """Whether `path` is a module of these packages."""
        return path in self.modules or path in self._no_module or path in PACKAGES or path.endswith(".synchronous")

    def kind(self, path: str) -> str:
        """Return the name of motorlite's class that a path names here or there; "" if its objects are not followed."""
        target = self.target(path)
        found = (target.path if target else path).rpartition(".")[2]
        is_ours = path.partition(".")[0] == "motorlite" or target is not None
        return found if is_ours and found in self.classes else ""

    def positional(self, method: str) -> tuple[int, list[str]] | None:
        """Return how many arguments `method` takes by position, and PyMongo's names of all; None if all are."""
        facts = self._positional.get(method)
        return None if facts is None else (facts["count"], facts["names"])

    def missing_member(self, kind: str, name: str) -> str:
        """Return what to write instead of a member that motorlite lacks; "" if there is such a member."""
        return next((rows[f"{kind}.{name}"] for rows in self.no_member.values() if f"{kind}.{name}" in rows), "")
