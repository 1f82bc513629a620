"""What `import motorlite` loads: not what most programs never use, and not what they may use later.

Counts of modules stand for the time, which varies with the machine. A module costs a quarter of a millisecond or more.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import motorlite

ROOT: Final = Path(motorlite.__file__).parents[1]
# The driver's own modules, out of about 270: after the import, and after a client was made without any options.
MOST_MODULES: Final = 103
MOST_WITH_A_CLIENT: Final = 150
# Modules besides those of the driver, of `bson` and of `dataclasses`.
MOST_OTHERS: Final = 5

HEAVY: Final = (
    "anyio",
    "asyncio",
    "concurrent",
    "difflib",
    "dns",
    "email",
    "hashlib",
    "http",
    "ipaddress",
    "json",
    "logging",
    "multiprocessing",
    "pathlib",
    "pickle",
    "socket",
    "ssl",
    "statistics",
    "stringprep",
    "subprocess",
    "tempfile",
    "trio",
    "typing_extensions",
    "unicodedata",
    "urllib",
    "zlib",
)
# Parts of the driver, each for a few programs.
RARE: Final = (
    "_api.cursors.change_stream",
    "_client.abandoned_operations",
    "_client.limits",
    "_client.statistics",
    "_connection.auth",
    "_connection.authenticate",
    "_connection.compressed_stream",
    "_connection.requests",
    "_encryption",
    "_execution.encrypting",
    "_gridfs",
    "_execution.watching",
    "_net.dns",
    "_net.on_asyncio",
    "_net.on_trio",
    "_net.probe",
    "_net.processes",
    "_net.proxy",
    "_net.tls",
    "_observe.log_messages",
    "_operations.client_bulk",
    "_operations.change_stream",
    "_operations.collections",
    "_operations.indexes",
    "_options.credentials",
    "_options.keywords",
    "_options.parts",
    "_options.tracing",
    "_admission.circuit_breaker",
    "_admission.concurrency_limit",
    "_admission.rate_limiter",
    "_admission.bounded_queue",
    "_sessions.convenient",
    "_topology.srv",
    "_wire.compression",
    "client_options",
    "collation",
    "doctor",
    "encryption",
    "encryption_options",
    "event_loggers",
    "arrow",
    "exporters",
    "gridfs",
    "stats",
    "testing",
    "top",
)


def loaded(program: str) -> set[str]:
    """The modules that a new interpreter has after `program`."""
    # An environment of its own: that of the test run may load a coverage tool.
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", "")}
    command = [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"]
    result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=60)
    return set(result.stdout.split())


@pytest.fixture(scope="module")
def after_import() -> set[str]:
    return loaded("import motorlite")


def is_loaded(name: str, modules: set[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for module in modules)


def test_nothing_heavy_is_loaded(after_import: set[str]) -> None:
    # What `bson` loads, motorlite needs not avoid. Its versions differ.
    unavoidable = loaded("import bson")
    assert [name for name in HEAVY if is_loaded(name, after_import) and not is_loaded(name, unavoidable)] == []


def test_no_rare_part_is_loaded(after_import: set[str]) -> None:
    for name in RARE:
        assert (ROOT / "motorlite" / name.replace(".", "/")).exists() or (
            ROOT / "motorlite" / (name.replace(".", "/") + ".py")
        ).exists(), f"{name} has moved"
    assert [name for name in RARE if is_loaded(f"motorlite.{name}", after_import)] == []


def test_the_number_of_modules_is_bounded(after_import: set[str]) -> None:
    own = {name for name in after_import if is_loaded("motorlite", {name})}
    # From Python 3.15 on, `inspect` is loaded not by the module, but by the first class that has slots.
    baseline = "import bson, contextlib, dataclasses; dataclasses.make_dataclass('A', [('a', int)], slots=True)"
    others = after_import - own - loaded(baseline)
    assert len(own) <= MOST_MODULES, sorted(own)
    assert len(others) <= MOST_OTHERS, sorted(others)


def test_a_plain_client_loads_nothing_of_what_it_lacks() -> None:
    modules = loaded("import motorlite; motorlite.AsyncMongoClient('mongodb://localhost/?replicaSet=rs&w=majority')")
    found = [name for name in RARE if is_loaded(f"motorlite.{name}", modules)]
    assert found == []
    assert not is_loaded("ssl", modules)
    assert len([name for name in modules if is_loaded("motorlite", {name})]) <= MOST_WITH_A_CLIENT


def test_the_live_view_is_loaded_by_its_call() -> None:
    modules = loaded("import motorlite.exporters; motorlite.AsyncMongoClient('mongodb://localhost')")
    for name in ("exporters._serving", "exporters._sockets", "exporters._snapshots", "_execution.watching", "top"):
        assert not is_loaded(f"motorlite.{name}", modules)
    with_a_view = loaded("from motorlite.exporters import live; live().close()")
    assert is_loaded("motorlite.exporters._serving", with_a_view)
    assert not is_loaded("motorlite._execution.watching", with_a_view), "nobody watches"


def test_the_first_operation_loads_nothing_of_what_it_lacks() -> None:
    program = """
import asyncio, motorlite, socket
# It never answers. That a server cannot be reached would be logged, which loads the texts of log messages.
server = socket.create_server(("127.0.0.1", 0))
async def main():
    uri = f"mongodb://127.0.0.1:{server.getsockname()[1]}/?serverSelectionTimeoutMS=1"
    async with motorlite.AsyncMongoClient(uri) as client:
        try:
            await client.db.coll.find_one()
        except motorlite.errors.ServerSelectionTimeoutError:
            return
asyncio.run(main())
"""
    modules = loaded(program)
    assert is_loaded("motorlite._net.on_asyncio", modules)
    assert [name for name in RARE if is_loaded(f"motorlite.{name}", modules)] == ["_net.on_asyncio"]


def test_the_machinery_is_loaded_with_the_first_client(after_import: set[str]) -> None:
    for name in ("_client.core", "_execution.executor", "_pool.pool", "_topology.topology"):
        assert not is_loaded(f"motorlite.{name}", after_import)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("mongodb://localhost/?tls=true", "_net.tls"),
        ("mongodb://user:password@localhost/", "_connection.auth"),
        ("mongodb://localhost/?compressors=zlib", "_wire.compression"),
        ("mongodb://localhost/?compressors=zlib", "_connection.compressed_stream"),
        ("mongodb://localhost/?killAbandoned=true", "_client.abandoned_operations"),
        ("mongodb://localhost/?proxyHost=p", "_options.parts"),
    ],
)
def test_what_a_client_has_is_loaded_by_its_constructor(uri: str, expected: str) -> None:
    """A mechanism that is not supported, or a file that cannot be read, thus fails where it is named.

    And no operation fails because the process has no file left for an import.
    """
    assert is_loaded(f"motorlite.{expected}", loaded(f"import motorlite; motorlite.AsyncMongoClient({uri!r})"))


# --- the names of the package ---


def test_every_public_name_can_be_had() -> None:
    for name in motorlite.__all__:
        assert getattr(motorlite, name) is not None


def test_dir_shows_names_that_were_not_used_yet() -> None:
    program = "import motorlite; names = dir(motorlite); assert set(motorlite.__all__) <= set(names), names"
    assert "motorlite.stats" not in loaded(program)


def test_a_star_import_has_every_public_name() -> None:
    loaded("from motorlite import *; assert AsyncChangeStream.__module__ == 'motorlite'; assert event_loggers.__all__")


def test_a_rare_name_is_imported_once() -> None:
    loaded("import motorlite; assert motorlite.ServerStats is motorlite.stats.ServerStats is motorlite.ServerStats")


def test_a_package_of_options_needs_no_import_of_its_own() -> None:
    """The messages about these options name the classes as attributes of `motorlite`."""
    names = "BreakerState", "CallBlock", "CircuitBreaker", "ConcurrencyLimit", "Fallback", "RateLimit", "WaitQueue"
    loaded("import motorlite; " + "; ".join(f"motorlite.overload.{name}" for name in names))


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="module 'motorlite' has no attribute 'AsyncMongoCleint'"):
        motorlite.AsyncMongoCleint  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_see_what_is_imported_later() -> None:
    tree = ast.parse((ROOT / "motorlite" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    shown = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    (table,) = [node.value for node in block.orelse if isinstance(node, ast.Assign)]
    later = {
        name: f"motorlite.{module}" if module != name else "motorlite"
        for name, module in ast.literal_eval(table).items()
    }
    assert later == shown
