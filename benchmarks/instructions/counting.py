"""Shell: runs a client under callgrind against the constant peer, and reads what callgrind counted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.instructions.marks import Mark, by_part
from benchmarks.processes import ROOT, serving

if TYPE_CHECKING:
    from benchmarks.instructions.marks import Part

CLIENT = Path(__file__).with_name("client.py")
TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)


class CountingError(Exception):
    """The program under callgrind failed."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to count."""

    arm: str
    operation: str
    tasks: int
    # Documents for each operation that has many.
    documents: int
    # Operations: discarded, for each sample, and samples.
    warm_up: int
    each: int
    samples: int
    # The checkout whose motorlite runs.
    root: Path = ROOT
    # Of a replica set; 0: a standalone server.
    members: int = 0
    # Of commands, which do nothing.
    listeners: int = 0

    def count(self) -> list[float]:
        """Instructions per operation, of each sample."""
        marks, spans, _ = self._run(self.each, self.samples, parts=False)
        assert len(marks) == self.samples + 1
        return [span / self.each for span in spans[1:]]

    def parts(self) -> tuple[dict[str, Part], list[str]]:
        """Instructions per operation by part, and the functions that this version does not have."""
        each = min(self.each, self.tasks * 2)
        marks, spans, missing = self._run(each, 1, parts=True)
        return by_part(marks, spans, each), missing

    def _run(self, each: int, samples: int, *, parts: bool) -> tuple[list[Mark], list[int], list[str]]:
        order = {**asdict(self), "each": each, "samples": samples, "parts": parts}
        with (
            tempfile.TemporaryDirectory() as folder,
            serving("benchmarks.instructions.peer", str(self.documents), "--members", str(self.members)) as port,
        ):
            client = subprocess.Popen(
                [
                    *("valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-before=getppid", "-q"),
                    *("--combine-dumps=yes", f"--callgrind-out-file={folder}/out"),
                    *(sys.executable, str(CLIENT), json.dumps({**order, "root": str(self.root), "port": port})),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=_environment(),
            )
            assert client.stdin is not None
            assert client.stdout is not None
            try:
                if client.stdout.readline() != "warm\n":
                    raise CountingError("the client ended before it was warm")
                subprocess.run(
                    ["vgdb", f"--pid={client.pid}", "instrumentation", "on"],
                    check=True,
                    capture_output=True,
                    timeout=60,
                )
                client.stdin.write("go\n")
                client.stdin.flush()
                line = client.stdout.readline()
            finally:
                client.stdin.close()
                client.stdout.close()
                client.wait()
            if not line:
                raise CountingError("the client ended early")
            answer = json.loads(line)
            spans = [int(one) for one in TOTALS.findall(Path(folder, "out").read_text(encoding="utf-8"))]
        marks = [Mark(*one) for one in answer["marks"]]
        # The last one was written at the end of the program.
        if len(spans) != len(marks) + 1:
            raise CountingError(f"callgrind wrote {len(spans)} dumps for {len(marks)} marks")
        return marks, spans[:-1], answer["missing"]


def compile_driver(root: Path) -> None:
    """Write the bytecode of a checkout's driver: under callgrind, compiling it would take minutes."""
    command = [sys.executable, "-m", "compileall", "-q", "motorlite", "benchmarks"]
    subprocess.run(command, cwd=root, env=_environment(), check=True)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONHASHSEED": "0"}
