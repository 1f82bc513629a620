"""`motorlite.compat`: handlers for PyMongo's exceptions, and listeners registered with PyMongo."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import gridfs.errors
import pymongo.errors
import pymongo.monitoring
import pytest

from motorlite import AsyncMongoClient, compat, errors
from motorlite import monitoring as registry
from tests.unit.error_samples import DETAILS, all_classes, facts, make

if TYPE_CHECKING:
    from collections.abc import Iterator

THEIRS = {
    name: kind
    for module in (pymongo.errors, gridfs.errors)
    for name, kind in vars(module).items()
    if inspect.isclass(kind) and issubclass(kind, Exception) and kind.__module__ == module.__name__
}
OURS = {kind.__name__: kind for kind in all_classes()}
# Their names that motorlite does not have.
MISSING = {"EncryptionError", "EncryptedCollectionError", "_OperationCancelled"}
NAMES = sorted(THEIRS.keys() - MISSING)
assert len(NAMES) > 25


def caught_by(kind: type[BaseException], error: Exception) -> bool:
    try:
        raise error
    except kind:
        return True
    except Exception:
        return False


@pytest.fixture
def installed() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("installed")
def test_except_clauses_of_pymongo(name: str) -> None:
    error = make(OURS[name])
    kinds: Any = THEIRS[name].__mro__[:-1]
    for kind in kinds:
        assert caught_by(kind, error)
    assert isinstance(error, errors.PyMongoError)


@pytest.mark.usefixtures("installed")
def test_ours_are_what_they_are_derived_from() -> None:
    assert issubclass(errors.CircuitBreakerOpenError, pymongo.errors.ConnectionFailure)
    assert not issubclass(errors.CircuitBreakerOpenError, pymongo.errors.AutoReconnect)
    assert issubclass(errors.ProxyTimeout, pymongo.errors.NetworkTimeout)
    assert issubclass(errors.BulkWriteExecutionTimeout, pymongo.errors.BulkWriteError)
    assert issubclass(errors.BulkWriteExecutionTimeout, pymongo.errors.ExecutionTimeout)
    assert issubclass(errors.RetryStrategyError, pymongo.errors.PyMongoError)
    assert not caught_by(errors.PyMongoError, pymongo.errors.AutoReconnect("lost")), "theirs are not ours"
    assert not any(issubclass(kind, errors.PyMongoError) for kind in THEIRS.values())
    for name, kind in OURS.items():
        for other, their in THEIRS.items():
            expected = other in {base.__name__ for base in kind.__mro__ if base.__module__.startswith("motorlite")}
            assert issubclass(kind, their) is expected, (name, other)


@pytest.mark.parametrize("kind", all_classes(), ids=lambda kind: kind.__name__)
def test_errors_say_the_same(kind: type[errors.PyMongoError]) -> None:
    before = make(kind)
    compat.install()
    try:
        after, known = make(kind), facts(before)
        assert facts(after) == known
        assert vars(after).keys() == vars(before).keys()
        for twin in (copy.copy(after), copy.deepcopy(after), pickle.loads(pickle.dumps(after))):
            assert type(twin) is kind
            assert facts(twin) == known
        data = pickle.dumps(after)
    finally:
        compat.uninstall()
    assert facts(pickle.loads(data)) == facts(after) == known


@pytest.mark.usefixtures("installed")
def test_what_handlers_read() -> None:
    error: Any = errors.DuplicateKeyError(
        "E11000", 11000, {"code": 11000, "keyPattern": {"a": 1}, "errorLabels": ["L"]}
    )
    with pytest.raises(pymongo.errors.DuplicateKeyError) as caught:
        raise error
    assert (caught.value.code, caught.value.timeout) == (11000, False)
    assert caught.value.details is not None
    assert caught.value.details["keyPattern"] == {"a": 1}
    assert caught.value.has_error_label("L")
    caught.value._add_error_label("M")
    assert caught.value.has_error_label("M")
    caught.value._remove_error_label("M")
    assert error.error_labels == caught.value._error_labels == {"L"}
    assert error._max_wire_version is None
    bulk: Any = make(errors.BulkWriteError)
    assert bulk.details is DETAILS
    lost: Any = make(errors.AutoReconnect)
    assert lost.errors == lost.details == DETAILS


# Their private machinery, which nothing of motorlite calls.
# `_remove_error_label` works as it is.
UNUSED = {"_base_backoff_ms", "_remove_error_label"}


@pytest.mark.usefixtures("installed")
def test_motorlite_s_definitions_come_first() -> None:
    for name, kind in OURS.items():
        owners = [base.__module__.partition(".")[0] for base in kind.__mro__]
        last = max(index for index, owner in enumerate(owners) if owner == "motorlite")
        assert owners[: last + 1] == ["motorlite"] * (last + 1), name
        for base in kind.__mro__[last + 1 :]:
            if base.__module__ in ("pymongo.errors", "gridfs.errors"):
                inherited = {each for each in vars(base) if not each.startswith("__")} - UNUSED
                defined = {each for ours in kind.__mro__[: last + 1] for each in vars(ours)}
                assert inherited <= defined, (name, base)


def test_it_can_be_called_twice_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {kind: (kind.__bases__, kind.__mro__) for kind in OURS.values()}
    sources = [list[object]]
    monkeypatch.setattr(registry, "sources", list(sources))
    compat.install()
    during = {kind: kind.__mro__ for kind in OURS.values()}
    assert all(during[kind] != mro for kind, (_, mro) in before.items())
    compat.install()
    assert {kind: kind.__mro__ for kind in OURS.values()} == during
    assert len(registry.sources) == len(sources) + 1
    compat.uninstall()
    assert {kind: (kind.__bases__, kind.__mro__) for kind in OURS.values()} == before
    assert registry.sources == sources
    compat.uninstall()
    assert not issubclass(errors.PyMongoError, pymongo.errors.PyMongoError)


@pytest.mark.parametrize(
    "again",
    ["importlib.reload(compat)", "sys.modules.pop(compat.__name__) and importlib.import_module(compat.__name__)"],
    ids=["reloaded", "imported again"],
)
def test_a_reload_of_the_module_changes_nothing(again: str) -> None:
    code = (
        "import importlib, sys, motorlite.compat as compat, motorlite.errors, pymongo.errors\n"
        "from motorlite import monitoring as registry\n"
        "def show(): print(issubclass(motorlite.errors.WriteError, pymongo.errors.WriteError), len(registry.sources))\n"
        "before = [kind.__mro__ for kind in vars(motorlite.errors).values() if isinstance(kind, type)]\n"
        f"compat.install(); compat = {again}; compat.install(); show(); compat.uninstall(); show()\n"
        "assert before == [kind.__mro__ for kind in vars(motorlite.errors).values() if isinstance(kind, type)]\n"
        "compat.install(); show()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True 1", "False 0", "True 1"]


class Ported(errors.DuplicateKeyError):
    """An application's own."""


def test_classes_of_the_application() -> None:
    # Both have private attributes of the same names, which motorlite annotates.
    class Both(errors.WriteError, pymongo.errors.OperationFailure):  # type: ignore[misc]
        pass

    compat.install()
    try:
        assert issubclass(Ported, pymongo.errors.DuplicateKeyError)
        assert issubclass(Both, pymongo.errors.WriteError)

        class Later(errors.InvalidName):
            pass

        assert issubclass(Later, pymongo.errors.InvalidName)
    finally:
        compat.uninstall()
    assert not issubclass(Ported, pymongo.errors.PyMongoError)
    assert Both.__mro__.count(pymongo.errors.OperationFailure) == 1


def test_an_impossible_order_changes_nothing() -> None:
    before = {kind: kind.__mro__ for kind in OURS.values()}
    kind: Any = type("Theirs1st", (pymongo.errors.WriteError, errors.WriteError), {})
    name = re.escape(f"{__name__}.Theirs1st")
    with pytest.raises(TypeError, match=rf"must name those of motorlite first; look at {name}$"):
        compat.install()
    assert {each: each.__mro__ for each in OURS.values()} == before
    assert registry.sources == []
    kind.__bases__ = (errors.WriteError, pymongo.errors.WriteError)
    compat.install()
    assert issubclass(kind, pymongo.errors.OperationFailure)
    compat.uninstall()


def test_a_pymongo_without_the_lists_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pymongo.monitoring, "_LISTENERS")
    with pytest.raises(RuntimeError, match=r"global listeners of PyMongo .*event_listeners"):
        compat.install()
    assert not issubclass(errors.PyMongoError, pymongo.errors.PyMongoError)


# --- listeners ---


def listener(*kinds: str) -> Any:
    """A listener of PyMongo's kinds."""
    return type("Mine", tuple(getattr(pymongo.monitoring, f"{kind}Listener") for kind in kinds), {})()


@pytest.fixture
def unregistered() -> Iterator[None]:
    """Take back what the test registers with PyMongo."""
    lists: Any = getattr(pymongo.monitoring, "_LISTENERS")  # noqa: B009  # not in the stubs
    before = [list(each) for each in lists]
    yield
    for listeners, kept in zip(lists, before, strict=True):
        listeners[:] = kept


def listeners() -> tuple[object, ...]:
    return AsyncMongoClient().options.event_listeners


@pytest.mark.usefixtures("unregistered")
def test_what_is_registered_with_pymongo_hears_later_clients() -> None:
    before, own = listener("Command"), listener("Command")
    pymongo.monitoring.register(before)
    assert listeners() == ()
    compat.install()
    try:
        assert listeners() == (before,)
        after = [listener(kind) for kind in ("Server", "ServerHeartbeat", "Topology", "ConnectionPool")]
        after.append(listener("Command", "ConnectionPool"))
        for each in after:
            pymongo.monitoring.register(each)
        assert len(listeners()) == 6, "each of them once, though one is in two lists"
        assert set(listeners()) == {before, *after}
        assert AsyncMongoClient(event_listeners=[own]).options.event_listeners[-1] is own
    finally:
        compat.uninstall()
    assert listeners() == ()


def test_importing_it_changes_nothing() -> None:
    code = (
        "import sys, motorlite; assert 'pymongo' not in sys.modules; import motorlite.compat, pymongo.errors; "
        "assert not issubclass(motorlite.errors.PyMongoError, pymongo.errors.PyMongoError); "
        "motorlite.compat.install(); import motorlite.gridfs; from motorlite.errors import BulkWriteError\n"
        "try: raise BulkWriteError({'writeErrors': [{'code': 50}]})\n"
        "except pymongo.errors.BulkWriteError as error: print(error.timeout, error.code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True 65\n"
