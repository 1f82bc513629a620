"""The rules of the house that a machine can check: who may import whom, who may await, who may send.

The tables come first. A rule is a function from one module of the package to the sentences about what it does wrong;
those at the end are about the imports of the whole repository. Every rule has a self-test that shows it a violation.
"""

from __future__ import annotations

import ast
import graphlib
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.syntax import nodes, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

REPOSITORY: Final = Path(__file__).resolve().parents[1]
ROOT: Final = REPOSITORY / "motorlite"

# The folders of the repository, and from which others each may import.
FOLDERS: Final[dict[str, tuple[str, ...]]] = {
    "motorlite": (),
    "pytest_motorlite": ("motorlite",),
    "benchmarks": ("motorlite",),
    "tests.support": ("motorlite", "benchmarks"),
    "tests.fuzz": ("motorlite", "tests.support"),
    "scripts": ("motorlite", "benchmarks", "tests.support"),
    "tests": ("motorlite", "benchmarks", "tests.support", "scripts"),
}
# Programs that `motorlite.port` changes.
NOT_OURS: Final = REPOSITORY / "tests" / "port_projects"

# The modules of the root hold public values, which every layer may use, but for these, which show what lies below them.
FACES: Final = (
    "monitoring",
    "client_options",
    "client_session",
    "change_stream",
    "cursor",
    "encryption",
    "compat",
    "event_loggers",
)
# Open to every layer that comes later, in this order.
OPEN: Final = ("_base", "values", "retry", "overload", "monitoring", "_options", "_observe")
# What the layers above the codec read in replies.
REPLIES: Final = ("_wire.replies", "_wire.replies")
# A layer, or a module of one, and what it may import from below it.
LAYERS: Final[dict[str, tuple[str, ...]]] = {
    **{layer: OPEN[:position] for position, layer in enumerate(OPEN)},
    "_wire": OPEN,
    # The delays of retries, which others wait for too.
    "_retry.backoff": OPEN,
    # The waiter that they share with the runtimes.
    "_net.runtime": OPEN,
    "_sessions": (*OPEN, "_retry.backoff", "_net.runtime"),
    "_net": OPEN,
    "_connection": (*OPEN, "_wire", "_net"),
    "_admission": (*OPEN, "_retry.backoff", "_net.runtime", "_connection.connection", "_connection.handshake"),
    "_pool": (*OPEN, "_retry.backoff", "_connection", "_net", "_admission"),
    "_topology": (*OPEN, "_pool", "_connection", "_net", "_admission", *REPLIES),
    "_operations": (*OPEN, "_sessions", "_connection.messages", "_topology.selection", *REPLIES),
    "_retry": (*OPEN, "_operations.contract"),
    "_execution": (
        *OPEN,
        "_operations.contract",
        "_retry",
        "_topology",
        "_pool",
        "_net.runtime",
        "_connection",
        "_sessions",
        "_admission",
        # Replies that were decrypted.
        "_wire.documents",
        *REPLIES,
    ),
    "_client": (  # the composition root
        *OPEN,
        "_operations",
        "_execution",
        "_retry",
        "_topology",
        "_pool",
        "_connection",
        "_net",
        "_sessions",
        "_admission",
        "_wire",
    ),
    "_api": (*OPEN, "_client", "_operations", "_execution.reports", "_sessions", *REPLIES),
    "_gridfs": (*OPEN, "_api"),
    "gridfs": ("_gridfs",),
    # It has clients, and key management and metadata services beside them. Replies of mongocryptd stay encoded.
    "_encryption": (
        *OPEN,
        "_api",
        "_client",
        "_connection.auth",
        "_connection.requests",
        "_net",
        "_wire.documents",
        "_wire.http",
    ),
    "encryption": ("_encryption",),
    "client_options": ("_options",),
    "client_session": ("_api",),
    "change_stream": ("_api",),
    "cursor": ("_api",),
    # Nothing may import it: it imports PyMongo.
    "compat": (*OPEN, "gridfs"),
    "event_loggers": OPEN[: OPEN.index("_options")],
    "testing": (*OPEN, "_net", "_wire", "_client"),
    "exporters": OPEN,
    # A command, which reads the sockets that the exporter `live` opens in other programs.
    "top": ("_base.values", "exporters._sockets", "exporters._snapshots"),
    # A command; it goes the way of a client with the driver's own parts, and asks each of them what it found.
    "doctor": (*OPEN, "_wire", "_net", "_connection", "_topology", "_client"),
    # Its threads are the runtime's, under the limits of the API.
    "arrow": (*OPEN, "_api", "_client.core", "_net.runtime"),
    # A command; it knows the driver from a table.
    "port": (),
}
# Who may import names of the package itself (`from motorlite import AsyncMongoClient`), which come from the
# top.
PUBLIC_NAMES: Final = ("testing", "exporters", "arrow")

EFFECTS: Final = frozenset(
    {
        "asyncio",
        "concurrent",
        "contextvars",
        "datetime",
        "multiprocessing",
        "random",
        "secrets",
        "select",
        "selectors",
        "socket",
        "ssl",
        "subprocess",
        "threading",
        "time",
        "trio",
        "uuid",
    }
)
EFFECTS_ALLOWED: Final[dict[str, frozenset[str]]] = {
    "_net": EFFECTS,
    "testing": frozenset({"asyncio", "select", "socket", "ssl", "subprocess", "threading"}),
    "_api": frozenset({"contextvars", "datetime", "uuid"}),
    # The type of time zones, for type checkers.
    "_options": frozenset({"datetime"}),
    # The ids of data keys.
    "_encryption": frozenset({"uuid"}),
    # The time at which a file is stored.
    "_gridfs": frozenset({"datetime"}),
    # Clients in several threads may share a budget.
    "retry": frozenset({"threading"}),
    # `live` serves readers from a thread of its own, which needs no event loop and also shows one that is stuck; each
    # module with a socket is imported by `live()` alone.
    "exporters": frozenset({"selectors", "socket", "threading", "time"}),
    # `asyncio.run`, and the type of the times in BSON.
    "doctor": frozenset({"asyncio", "datetime"}),
    # A thread hands over Python's global lock.
    "arrow": frozenset({"time"}),
    # How long the command has run, for its messages.
    "port": frozenset({"time"}),
}

# Packages besides the standard library, `bson` (open to all) and motorlite itself; patterns of module names.
THIRD_PARTY: Final[dict[str, tuple[str, ...]]] = {
    "anyio": (
        "_net.*",
        "_connection.connection*",
        "_connection.auth.oidc_callbacks",
        "_pool.pool*",
        "_topology.monitor*",
        "_topology.srv*",
        "_topology.topology*",
        "_execution.executor*",
        "_retry.consultation",
        "_client.*",
        "_api.*",
        "_gridfs.*",
        "testing.*",
    ),
    "trio": ("_net.*",),
    # Trio's own values of its tasks.
    "outcome": ("_net.on_trio.*",),
    # For type checkers only, which bring it along.
    "typing_extensions": ("_api.typings",),
    "dns": ("_net.*",),
    "pymongo": ("compat",),
    "gridfs": ("compat",),
    "trustme": ("testing.server.certificates",),
    "libcst": ("port.*",),
    "prometheus_client": ("exporters.prometheus",),
    "opentelemetry": ("exporters.opentelemetry.*",),
    "rich": ("doctor._rendering", "top._command", "top._screen"),
    "pymongoarrow": ("arrow.*",),
    "pyarrow": ("arrow.*",),
    "numpy": ("arrow._frames",),
    "polars": ("arrow._frames",),
    "snappy": ("_wire.compression*",),
    "backports": ("_wire.compression*",),  # of the standard library's zstd
    "compression": ("_wire.compression*",),  # where Python 3.14 has it
}

# Who may import by name: packages without types or that may be missing; the exporter of traces, a plug-in of the
# driver; and the top of the package, which imports rare names at their first use, and shows them to type checkers and
# to the rules here.
RESOLVERS: Final = ("_net.aws_sdk", "_net.kerberos", "_encryption.library", "_client.optional", "__init__")
# What imports rare names there (PEP 562).
LATER: Final = ("_LATER", "__getattr__", "__dir__")

# Methods with which a connection talks to its server: on anything, and on what is called a connection.
SENDING: Final = frozenset({"exchange", "start_exchange", "round_trip", "send_only", "next_reply"})
SENDING_ON_CONNECTIONS: Final = frozenset({"receive", "send"})
SENDERS: Final = ("_execution.sender", "_topology.monitor*", "_connection.*")

# Kinds of module, and the layers where only some are allowed.
KINDS: Final = ("Pure", "Shell", "Net")
LAYER_KINDS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("_base", "values", "overload", "monitoring", "_options", "_wire"), ("Pure",)),
    **dict.fromkeys(("_admission", "_sessions", "_operations", "gridfs"), ("Pure",)),
    "_net": ("Pure", "Net"),
    **dict.fromkeys(("retry", "_retry", "port", "doctor"), ("Pure", "Shell")),
    **dict.fromkeys(
        ("_observe", "_connection", "_pool", "_topology", "_execution", "_client", "_api", "_gridfs", "_encryption"),
        ("Pure", "Shell"),
    ),
}


@dataclass(frozen=True)
class Module:
    """One source file; `name` is relative to the package: ``_pool.pool``, ``_pool.__init__``, ``errors``."""

    name: str
    source: str

    @property
    def tree(self) -> ast.Module:
        return parsed(self.source)

    @property
    def layer(self) -> str:
        first, dot, _ = self.name.partition(".")
        return first if dot or first in FACES else "values"

    @property
    def is_init(self) -> bool:
        return self.name.split(".")[-1] == "__init__"

    @property
    def kind(self) -> str:
        docstring = ast.get_docstring(self.tree) or ""
        return docstring.partition("\n")[0].partition(":")[0]

    def imports(self) -> Iterator[str]:
        """Every imported name in full; those under TYPE_CHECKING and inside of functions too."""
        return imported(self.source, ("motorlite", *self.name.split(".")[:-1]))


def imported(source: str, package: tuple[str, ...]) -> Iterator[str]:
    """The full name of all that a module of a package imports."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            head = (*base, *(node.module.split(".") if node.module else ()))
            yield from (".".join((*head, alias.name)) for alias in node.names)


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def is_within(name: str, parents: Iterable[str]) -> bool:
    return any(name == parent or name.startswith(parent + ".") for parent in parents)


def imports_point_down(module: Module, roots: frozenset[str]) -> Iterator[str]:
    if module.name == "__init__":
        return
    allowed = LAYERS.get(module.name, LAYERS.get(module.layer, ()))
    for name in module.imports():
        package, _, target = name.partition(".")
        if package != "motorlite":
            continue
        first = target.partition(".")[0]
        layer = "values" if first in roots else first
        if layer in LAYERS:
            if layer != module.layer and not is_within("values" if layer == "values" else target, allowed):
                yield f"{module.name} imports {target}"
        elif module.layer not in PUBLIC_NAMES:
            yield f"{module.name} imports {first or 'motorlite'} from the top of the package"


# Gives the driver the clock of the event loop, which on asyncio is `time.monotonic`.
CLOCK = "_net.on_asyncio.runtime"


def effects_stay_in_net(module: Module) -> Iterator[str]:
    allowed = EFFECTS_ALLOWED.get(module.layer, frozenset())
    for name in module.imports():
        if name.partition(".")[0] in EFFECTS - allowed:
            yield f"{module.name} imports {name}"
    for node in nodes(module.source) if module.name != CLOCK else ():
        if isinstance(node, ast.Attribute | ast.alias) and "monotonic" in (
            node.attr if isinstance(node, ast.Attribute) else node.name
        ):
            yield f"{module.name} reads time.monotonic; the time is that of the event loop"


def packages_are_known(module: Module) -> Iterator[str]:
    for name in module.imports():
        package = name.partition(".")[0]
        if package in sys.stdlib_module_names or package in ("motorlite", "bson"):
            continue
        if not matches(module.name, THIRD_PARTY.get(package, ())):
            yield f"{module.name} imports {name}"


def only_three_send(module: Module) -> Iterator[str]:
    if matches(module.name, SENDERS):
        return
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    own = {node.name for node in nodes(module.source) if isinstance(node, functions)}
    for node in nodes(module.source):
        if not isinstance(node, ast.Attribute) or (ast.unparse(node.value) == "self" and node.attr in own):
            continue
        receiver = ast.unparse(node.value).rpartition(".")[2].lower()
        if node.attr in SENDING or (node.attr in SENDING_ON_CONNECTIONS and "conn" in receiver):
            yield f"{module.name} uses {ast.unparse(node)}"


def kinds_are_named(module: Module) -> Iterator[str]:
    allowed = LAYER_KINDS.get(module.layer, KINDS)
    if module.kind not in allowed:
        yield f"{module.name} begins with {module.kind[:20]!r}, not one of {', '.join(allowed)}"


def pure_is_pure(module: Module) -> Iterator[str]:
    if module.kind != "Pure":
        return
    waiting = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    for node in nodes(module.source):
        if isinstance(node, waiting) or (isinstance(node, ast.comprehension) and node.is_async):
            yield f"{module.name} is pure and contains {type(node).__name__}"
    yield from (f"{module.name} is pure and imports {name}" for name in module.imports() if "anyio" in name)


def init_only_names(module: Module) -> Iterator[str]:
    if not module.is_init:
        return
    for node in _statements(module):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_all = isinstance(node, ast.Assign) and [ast.unparse(each) for each in node.targets] == ["__all__"]
        if not (isinstance(node, ast.Import | ast.ImportFrom) or is_docstring or is_all):
            yield f"{module.name} contains {ast.unparse(node)[:60]}"


def _statements(module: Module) -> Iterator[ast.stmt]:
    """The statements of an `__init__`, without those that import rare names at the top of the package."""
    for node in module.tree.body:
        if module.name == "__init__" and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from node.body
            for each in node.orelse:
                is_table = isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) in LATER
                if not is_table and not (isinstance(each, ast.FunctionDef) and each.name in LATER):
                    yield each
        else:
            yield node


@cache
def modules() -> tuple[Module, ...]:
    return tuple(
        Module(".".join(path.relative_to(ROOT).with_suffix("").parts), path.read_text(encoding="utf-8"))
        for path in sorted(ROOT.rglob("*.py"))
    )


@cache
def root_names() -> frozenset[str]:
    return frozenset(path.stem for path in ROOT.glob("*.py")) - set(FACES)


def names_are_imported(module: Module) -> Iterator[str]:
    if module.name in RESOLVERS:
        return
    for name in module.imports():
        if name in (
            "importlib.import_module",
            "importlib.util.find_spec",
            "pkgutil.resolve_name",
            "importlib",
            "pkgutil",
        ):
            yield f"{module.name} imports {name}: what it imports by name, no other rule sees"


RULES: Final[dict[str, Callable[[Module], Iterator[str]]]] = {
    "imports point down": lambda module: imports_point_down(module, root_names()),
    "effects stay in _net": effects_stay_in_net,
    "packages are known": packages_are_known,
    "only three send": only_three_send,
    "kinds are named": kinds_are_named,
    "pure is pure": pure_is_pure,
    "__init__ holds names only": init_only_names,
    "names are imported": names_are_imported,
}


@pytest.mark.parametrize("rule", RULES)
def test_house_rule(rule: str) -> None:
    found = [sentence for module in modules() for sentence in RULES[rule](module)]
    assert not found, "\n".join(found)


def test_every_layer_is_in_the_table() -> None:
    packages = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages <= LAYERS.keys()


PURE = '"""Pure: x."""\n'
SHELL = '"""Shell: x."""\n'
LATER_SOURCE = "if TYPE_CHECKING:\n    from x import y\nelse:\n    _LATER = {}\n    def __getattr__(name): ...\n"


@pytest.mark.parametrize(
    ("rule", "name", "source", "is_caught"),
    [
        ("imports point down", "_wire.op_msg", "from motorlite._net import clock", True),
        ("imports point down", "_wire.op_msg", "from motorlite import errors", False),
        ("imports point down", "_wire.op_msg", "from motorlite.errors import ProtocolError", False),
        ("imports point down", "_wire.op_msg", "from motorlite import AsyncMongoClient", True),
        ("imports point down", "_wire.op_msg", "import motorlite", True),
        ("imports point down", "errors", "def f():\n    from motorlite._pool import pool", True),
        (
            "imports point down",
            "_operations.find",
            "from motorlite._execution.executor import Executor",
            True,
        ),
        (
            "imports point down",
            "_operations.find",
            "from motorlite._operations.contract import Command",
            False,
        ),
        ("imports point down", "_operations.find", "from motorlite._topology import selection", False),
        ("imports point down", "_operations.find", "from motorlite._execution import operations_x", True),
        (
            "imports point down",
            "_topology.monitor",
            "if TYPE_CHECKING:\n    from .._execution import x",
            True,
        ),
        ("imports point down", "_topology.monitor", "from . import selection", False),
        ("imports point down", "testing.server", "from motorlite._net import failures", False),
        ("imports point down", "testing.server", "from motorlite import AsyncMongoClient", False),
        ("imports point down", "testing.server", "from motorlite._pool import pool", True),
        ("imports point down", "_client.core", "from motorlite._pool.pool import Pool", False),
        ("imports point down", "_api.collection", "from motorlite._pool.pool import Pool", True),
        ("imports point down", "_pool.pool", "from motorlite.testing import LocalServer", True),
        ("imports point down", "_pool.pool", "from motorlite._options.uri import parse", False),
        ("imports point down", "_options.table", "from motorlite import monitoring", False),
        ("imports point down", "_options.table", "from motorlite._observe import publishing", True),
        ("imports point down", "_base.values", "from motorlite.errors import PyMongoError", True),
        ("imports point down", "monitoring", "from motorlite.overload import breaker", False),
        ("imports point down", "errors", "from motorlite import monitoring", True),
        ("imports point down", "errors", "from motorlite import results", False),
        ("only three send", "_pool.pool", "async def f(c):\n    await c.exchange(b'')", True),
        ("effects stay in _net", "_pool.state", "import time", True),
        ("effects stay in _net", "_pool.state", "import asyncio.events", True),
        ("effects stay in _net", "_net.clock", "import asyncio, time", False),
        ("effects stay in _net", "_net.clock", "import time\ntime.monotonic()", True),
        ("effects stay in _net", "_net.clock", "from time import monotonic", True),
        ("effects stay in _net", "_api.session", "import uuid", False),
        ("effects stay in _net", "_sessions.session", "def f():\n    import uuid", True),
        ("effects stay in _net", "_execution.executor", "from contextvars import ContextVar", True),
        ("effects stay in _net", "testing.local", "import subprocess, socket", False),
        ("effects stay in _net", "testing.local", "import multiprocessing", True),
        ("packages are known", "_connection.handshake", "import pymongo", True),
        ("packages are known", "compat", "import pymongo", False),
        ("imports point down", "_client.core", "from motorlite.compat import install", True),
        ("imports point down", "exporters.prometheus", "from motorlite import compat", True),
        ("packages are known", "_gridfs.bucket", "from gridfs.errors import NoFile", True),
        ("packages are known", "_gridfs.bucket", "from bson import ObjectId", False),
        ("imports point down", "_gridfs.bucket", "from motorlite._api.handles import AsyncDatabase", False),
        ("imports point down", "_gridfs.bucket", "from motorlite._execution.executor import Executor", True),
        ("imports point down", "_gridfs.bucket", "from motorlite.gridfs import errors", True),
        ("imports point down", "_api.handles", "from motorlite._gridfs.bucket import AsyncGridFSBucket", True),
        ("packages are known", "_pool.pool", "import anyio", False),
        ("packages are known", "_pool.state", "import anyio", True),
        ("packages are known", "_connection.handshake", "if TYPE_CHECKING:\n    from anyio import Event", True),
        ("packages are known", "_retry.decision", "import anyio", True),
        ("packages are known", "_base.deadline", "import anyio", True),
        ("packages are known", "_net.on_trio.stream", "import trio", False),
        ("packages are known", "_topology.srv", "import dns.resolver", True),
        ("packages are known", "_net.anything", "import requests", True),
        ("only three send", "_api.cursor", "async def f(c):\n    await c.round_trip(b'')", True),
        ("only three send", "_api.cursor", "async def f(self):\n    await self._connection.send(b'')", True),
        ("only three send", "_topology.topology", "async def f(conn):\n    await conn.receive()", True),
        ("only three send", "_topology.topology", "send = pool.exchange", True),
        ("only three send", "_net.stream", "def exchange(self):\n    self.start_exchange()", True),
        ("only three send", "_net.stream", "def exchange(self):\n    self.exchange()", False),
        (
            "only three send",
            "_execution.sender",
            "async def f(c):\n    await c.connection.send(b'')",
            False,
        ),
        ("only three send", "_topology.monitor", "async def f(c):\n    await c.exchange(b'')", False),
        ("only three send", "_connection.establish", "async def f(c):\n    await c.exchange(b'')", False),
        ("only three send", "_api.cursor", "def f(generator):\n    generator.send(None)", False),
        ("kinds are named", "_pool.state", '"""The pool."""', True),
        ("kinds are named", "_pool.state", "x = 1", True),
        ("kinds are named", "_pool.pool", SHELL, False),
        ("kinds are named", "_wire.op_msg", SHELL, True),
        ("kinds are named", "errors", '"""Net: x."""', True),
        ("kinds are named", "_pool.pool", '"""Net: x."""', True),
        ("pure is pure", "_pool.state", PURE + "async def f(): ...", True),
        ("pure is pure", "_pool.state", PURE + "x = [y async for y in z]", True),
        ("pure is pure", "_pool.state", PURE + "import anyio.abc", True),
        ("pure is pure", "_pool.state", PURE + "def f(): ...", False),
        ("pure is pure", "_pool.pool", SHELL + "async def f(): ...", False),
        ("__init__ holds names only", "_pool.__init__", PURE + "from x import y\n__all__ = ['y']", False),
        ("__init__ holds names only", "_pool.__init__", "from x import y\ny()", True),
        ("__init__ holds names only", "__init__", "def f(): ...", True),
        ("__init__ holds names only", "__init__", "LIMIT = 5", True),
        ("__init__ holds names only", "__init__", "def __getattr__(name): ...", True),
        ("__init__ holds names only", "__init__", LATER_SOURCE, False),
        ("__init__ holds names only", "_pool.__init__", LATER_SOURCE, True),
        ("__init__ holds names only", "__init__", LATER_SOURCE + "    def f(): ...", True),
        ("__init__ holds names only", "__init__", "if TYPE_CHECKING:\n    LIMIT = 5", True),
        ("__init__ holds names only", "_pool.pool", "LIMIT = 5", False),
        ("names are imported", "_pool.pool", "import importlib", True),
        ("names are imported", "_pool.pool", "def f():\n    from importlib import import_module", True),
        ("names are imported", "_pool.pool", "from pkgutil import resolve_name", True),
        ("names are imported", "_client.optional", "from pkgutil import resolve_name", False),
        ("names are imported", "testing.server", "from importlib import metadata", False),
        ("packages are known", "exporters.prometheus", "import prometheus_client", False),
        ("packages are known", "_client.core", "import prometheus_client", True),
        ("packages are known", "top._screen", "from rich.table import Table", False),
        ("packages are known", "exporters._serving", "import rich", True),
        ("imports point down", "top._command", "from motorlite.exporters import _sockets", False),
        ("imports point down", "top._command", "from motorlite import AsyncMongoClient", True),
        ("packages are known", "port._names", "import libcst as cst", False),
        ("packages are known", "_api.database", "import libcst", True),
        ("imports point down", "port._names", "from motorlite.port._table import Table", False),
        ("imports point down", "port._names", "from motorlite.errors import PyMongoError", True),
        ("imports point down", "testing.server", "from motorlite.port import _table", True),
        ("packages are known", "_client.optional", "from opentelemetry import trace", True),
        ("imports point down", "_client.optional", "from motorlite.exporters import prometheus", True),
        ("imports point down", "exporters.prometheus", "from motorlite import AsyncMongoClient", False),
        ("imports point down", "exporters.prometheus", "from motorlite._client.core import Core", True),
    ],
)
def test_the_rule_itself(rule: str, name: str, source: str, is_caught: bool) -> None:
    assert bool(list(RULES[rule](Module(name, source)))) is is_caught


# --- the whole repository ---


def graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that each module imports; an imported name counts for the module that it is in."""
    names = {name.removesuffix(".__init__") for name in sources}
    found: dict[str, set[str]] = {}
    for name, source in sources.items():
        package = tuple(name.split(".")[:-1])
        own = name.removesuffix(".__init__")
        found[own] = {each for target in imported(source, package) if (each := _module_of(target, names))} - {own}
    return found


def _module_of(target: str, known: Iterable[str]) -> str | None:
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target or None


def cycle(imports: Mapping[str, set[str]]) -> str | None:
    """One import cycle, or None."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return " <- ".join(error.args[1])
    return None


def wrong_folders(imports: Mapping[str, set[str]]) -> list[str]:
    """The imports from folders that FOLDERS does not permit, and those from test modules."""
    return [
        f"{name} imports {target}"
        for name, targets in imports.items()
        for target in targets
        if target.rpartition(".")[2].startswith("test_")
        or _folder_of(target) not in (_folder_of(name), *FOLDERS[_folder_of(name)])
    ]


def _folder_of(name: str) -> str:
    return next(folder for folder in sorted(FOLDERS, key=len, reverse=True) if is_within(name, [folder]))


@pytest.fixture(scope="module")
def repository() -> dict[str, set[str]]:
    """What imports what, in all folders."""
    paths = [path for folder in FOLDERS if "." not in folder for path in (REPOSITORY / folder).rglob("*.py")]
    return graph(
        {
            ".".join(path.relative_to(REPOSITORY).with_suffix("").parts): path.read_text(encoding="utf-8")
            for path in paths
            if NOT_OURS not in path.parents
        }
    )


def test_there_is_no_import_cycle(repository: dict[str, set[str]]) -> None:
    found = cycle(repository)
    assert found is None


def test_folders_import_what_they_may(repository: dict[str, set[str]]) -> None:
    assert wrong_folders(repository) == []


@pytest.mark.parametrize(
    ("sources", "is_caught"),
    [
        ({"m.a": "from m import b", "m.b": "import bson"}, False),
        ({"m.a": "from m import b", "m.b": "from m.a import A"}, True),
        ({"m.a": "from . import b", "m.b": "def f():\n    from .a import A"}, True),
        ({"m.a": "if TYPE_CHECKING:\n    from .b import V", "m.b": "from . import a"}, True),
        ({"m.a": "from m.b import x", "m.b": "from n.c import x", "n.c": "import m.a"}, True),
        ({"m.__init__": "from m.a import A", "m.a": "from m import A"}, True),
        ({"m.__init__": "from m.a import A", "m.a": "from m import b"}, True),
    ],
)
def test_cycles_are_found(sources: dict[str, str], is_caught: bool) -> None:
    assert bool(cycle(graph(sources))) is is_caught


@pytest.mark.parametrize(
    ("name", "target", "is_caught"),
    [
        ("motorlite.errors", "benchmarks.virtual", True),
        ("pytest_motorlite.a", "motorlite.errors", False),
        ("tests.support.core", "scripts.check", True),
        ("tests.support.core", "tests.unit.data", True),
        ("scripts.check", "tests.support.core", False),
        ("scripts.check", "tests.conftest", True),
        ("tests.unit.test_a", "tests.unit.data", False),
        ("tests.unit.test_a", "tests.unit.test_b", True),
    ],
)
def test_wrong_folders_are_found(name: str, target: str, is_caught: bool) -> None:
    assert bool(wrong_folders({name: {target}})) is is_caught
