"""Pure: judges what the user's roles permit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite.doctor._finding import Finding, Severity, Step
from motorlite.doctor._reading import document, documents, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# It need not exist, and programs do not use it.
COLLECTION: Final = "motorlite_doctor"
DEFAULT_DATABASE: Final = "test"
_UNAUTHORIZED: Final = 13
_WRITES: Final = ("insert", "update", "remove")


class Roles:
    """What the server says about the user (``connectionStatus`` with privileges)."""

    def __init__(self, reply: Mapping[str, Any]) -> None:
        found = document(reply.get("authInfo"))
        roles = documents(found.get("authenticatedUserRoles"))
        self.names = [f"{role.get('role')} on {role.get('db')!r}" for role in roles]
        self._privileges = documents(found.get("authenticatedUserPrivileges"))

    def place(self, database: str, *actions: str) -> tuple[str, str] | None:
        """A database and collection where one of the actions is permitted, in `database` if possible; or None."""
        places = list(self._places(database, actions))
        return min(places, key=lambda place: place[0] != database, default=None)

    def _places(self, database: str, actions: Sequence[str]) -> Iterator[tuple[str, str]]:
        for privilege in self._privileges:
            resource = document(privilege.get("resource"))
            collection = resource.get("collection", "" if resource.get("anyResource") else None)
            # Each role may read some collections of the system.
            is_data = isinstance(collection, str) and not collection.startswith("system.")
            if is_data and not set(actions).isdisjoint(texts(privilege.get("actions"))):
                # No name stands for all, but not for those of the server's own databases.
                own = DEFAULT_DATABASE if not collection and database in ("admin", "config", "local") else database
                yield str(resource.get("db") or own), collection or COLLECTION


def is_refused(reply: Mapping[str, Any]) -> bool:
    """Whether the user's roles do not permit the command."""
    return _failure(reply).get("code") == _UNAUTHORIZED


def _failure(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    errors = documents(reply.get("writeErrors"))
    if reply.get("ok") == 1 and not errors:
        return {}
    return errors[0] if errors else reply


def judge_command(server: str, what: str, namespace: str, reply: Mapping[str, Any], roles: Sequence[str]) -> Finding:
    """The outcome of a ping, a find or a write."""
    failure = _failure(reply)
    if not failure:
        return Finding(Step.ACCESS, Severity.OK, f"{what} on {namespace} is permitted", "", server)
    code, message = failure.get("code"), str(failure.get("errmsg", "no message"))[:300]
    if code == _UNAUTHORIZED:
        has = ", ".join(roles) or "no role"
        needed = "readWrite" if what == "write" else "read"
        database = namespace.partition(".")[0]
        advice = f"the connection has {has}: grant the role {needed} on {database!r}, or set username and password"
    else:
        advice = "the server's log says more"
    text = f"{what} on {namespace} failed: {message} (code {code})"
    return Finding(Step.ACCESS, Severity.ERROR, text, advice, server, {"code": code})


def judge_other_find(
    server: str, database: str | None, place: tuple[str, str], reply: Mapping[str, Any], roles: Roles
) -> Finding:
    """The outcome of a find where the roles permit it. `database`: that of the connection string, which refused one."""
    namespace = ".".join(place)
    found = judge_command(server, "find", namespace, reply, roles.names)
    if found.severity is not Severity.OK or database in (None, place[0]):
        return found
    text = f"find is not permitted on {database!r}, the database of the connection string, but on {namespace}"
    advice = f"name {place[0]!r} in the connection string or in the program, or grant the role read on {database!r}"
    return Finding(Step.ACCESS, Severity.WARNING, text, advice, server)


def judge_refused_find(server: str, namespace: str, reply: Mapping[str, Any], roles: Roles) -> Finding:
    """A find that the roles permit in no collection: some users only write."""
    place = roles.place(namespace.partition(".")[0], *_WRITES)
    if place is None:
        return judge_command(server, "find", namespace, reply, roles.names)
    text = f"the roles permit no find, but writes on {'.'.join(place)}"
    return Finding(Step.ACCESS, Severity.WARNING, text, "grant the role read, if the program reads", server)


def judge_write(server: str, namespace: str, reply: Mapping[str, Any], roles: Roles) -> Finding:
    """The outcome of an insert into the doctor's collection, where not all users may write."""
    place = roles.place(namespace.partition(".")[0], *_WRITES) if is_refused(reply) else None
    if place is None:
        return judge_command(server, "write", namespace, reply, roles.names)
    text = f"no write was tried: the roles permit them on {'.'.join(place)}, but not on {namespace}"
    advice = f"name {place[0]!r} in the connection string" if place[1] == COLLECTION else ""
    return Finding(Step.ACCESS, Severity.WARNING, text, advice, server)


def judge_removal(server: str, namespace: str, identifier: object, reply: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether the inserted document has gone."""
    if _failure(reply) or not reply.get("n"):
        problem = _failure(reply).get("errmsg", "the server did not find it")
        text = f"the document of the write has stayed in {namespace}: {problem}"
        advice = f"delete the document with the _id {identifier}"
        yield Finding(Step.ACCESS, Severity.WARNING, text, advice, server)
