from __future__ import annotations

import argparse
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import motorlite.testing
from benchmarks.figures import Round
from benchmarks.scale import command
from benchmarks.scale.sections import Case, Section
from benchmarks.speed.rounds import Loaded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    return parser.parse_args(words)


def test_all_sections_are_the_default() -> None:
    found = arguments()
    assert found.sections == ["a", "b", "c", "d", "e", "f"]
    assert found.arms == ["bare", "motorlite", "motorlite-uvloop", "motorlite-trio", "pymongo", "mongojet"]
    assert (found.rounds, found.seconds, str(found.reports)) == (5, 1.0, "reports")
    assert arguments("--sections", "a,f").sections == ["a", "f"]
    with pytest.raises(argparse.ArgumentError, match="unknown sections"):
        arguments("--sections", "a,x")


class FakeRun:
    """Notes what is asked; the arm "idle" never does anything."""

    log: list[tuple[Any, ...]]

    def __init__(self, arms: list[str], uri: str, loaded: Any, *, copies: int) -> None:
        FakeRun.log.append((tuple(arms), uri, copies))
        self.results: list[Round] = []
        self.failures: dict[str, str] = {}
        self.arms, self.bytes = arms, 0

    def turns(self, _number: int) -> list[str]:
        return list(self.arms)

    def ask(self, arm: str, limit: float, copies: int, **request: Any) -> None:
        Network.received += arm != "idle"

    def leave_out(self, arm: str, why: str) -> None:
        self.failures[arm] = why

    def once(self, operation: str, tasks: int, number: int, extent: Any, *, title: str, copies: int) -> None:
        FakeRun.log.append((title, tasks, number, copies))
        self.results.append(Round(title, "motorlite", tasks, number + 1, 10, 1.0, 0.1, 0.1, 0.2))

    def __enter__(self) -> FakeRun:
        return self

    def __exit__(self, *_exc: object) -> None:
        pass


class Network:
    received = 0


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    @contextmanager
    def start(**options: Any) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(uri="mongodb://h/?tls=true" if options.get("tls") else "mongodb://h/")

    @contextmanager
    def documents(uri: str, **_options: Any) -> Iterator[Loaded]:
        assert uri.endswith("&w=1")
        yield Loaded("7.0", lambda: None, lambda: None)

    monkeypatch.setattr(motorlite.testing, "LocalServer", SimpleNamespace(start=start))
    monkeypatch.setattr(command, "documents", documents)
    monkeypatch.setattr(command, "Run", FakeRun)
    monkeypatch.setattr(command, "compressed", lambda _uri, name: Network.received if name == "zlib" else None)
    FakeRun.log, Network.received = [], 0
    return FakeRun.log


SECTION = Section(
    "x",
    (Case("plain", "find_one"), Case("small", "find_one", variant="zlib"), Case("safe", "find_one", 8, 2, "TLS")),
)


def test_all_variants_take_part_in_each_round(log: list[tuple[Any, ...]]) -> None:
    rounds, failures, version = command.measure(SECTION, ["bare", "motorlite"], arguments("--rounds", "2"))
    pool = "maxPoolSize=100"
    assert log[:3] == [
        (("bare", "motorlite"), f"mongodb://h/?{pool}", 1),
        (("motorlite",), f"mongodb://h/?{pool}&compressors=zlib", 1),
        (("motorlite",), f"mongodb://h/?tls=true&{pool}", 2),
    ]
    assert [(one[0], one[2], one[3]) for one in log[3:]] == [
        (title, number, copies) for number in (0, 1) for title, copies in (("plain", 1), ("small", 1), ("safe", 2))
    ]
    assert [one.operation for one in rounds] == ["plain", "plain", "small", "small", "safe", "safe"]
    assert (failures, version) == ({}, "7.0")


@pytest.mark.usefixtures("log")
def test_an_arm_that_does_not_compress_is_left_out() -> None:
    _, failures, _ = command.measure(SECTION, ["motorlite", "idle"], arguments("--rounds", "1"))
    assert failures == {"idle with zlib": "it does not compress with zlib"}


@pytest.mark.usefixtures("log")
def test_a_run_leaves_a_report_and_a_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--quick", "--sections", "a", "--arms", "motorlite", "--reports", str(tmp_path))
    assert command.run(arguments(*words)) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"scale.md", "scale.json", "scale.svg"}
    text = (tmp_path / "scale.md").read_text(encoding="utf-8")
    assert "Mixed operations are 70 % find_one, 15 % update_one, 10 % insert_one, 5 % find_10." in text
    assert "Load average before the run: " in text
    assert "| find_one by _id, 500 tasks | motorlite |" in text
    assert "after 200 discarded operations" in capsys.readouterr().out
