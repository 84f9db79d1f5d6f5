"""What a tuning run has found so far: a file that only grows, so that a second start goes on where the first ended.

    {"job": "<digest>", "what": "C[m,n] = ... on sm_90a, n=7168, k=2048, NVIDIA H200", "began": "2026-11-21 20:00"}
    {"m": [1, 16], "refused": "tile=64x16x128, ...", "reason": "..."}
    {"m": [1, 16], "slow": "tile=64x64x128, ...", "us": 9.1, "best_us": 7.0}
    {"m": [1, 16], "done": {...}}

A line is written whole or, where the machine stopped, not: what cannot be read is skipped. Lines belong to the job
named last before them; those of another job (another program, GPU or scalec) are kept and not read.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from scalec import files, schema
from scalec.abi import Count
from scalec.errors import FormatError, ScalecError
from scalec.schema import ordered, within
from scalec.sizes import Range


@dataclass(frozen=True)
class Found:
    """The fastest schedule for a range of M.

    Attributes:
        m: the range.
        at: the size of M that was measured: the range's upper end.
        winner: the fields that the winner's name says; DEFAULT where it is the compiler's own choice.
        schedule: all fields of the winner.
        us, default_us: medians of the winner and of the compiler's own choice.
        roofline_us: what no kernel is faster than, by the documented rates.
        times: medians of all that were timed, peers too.
        flop: floating-point operations of a launch.
        routings: of a program with groups, whose times are means over these, the medians with each.
    """

    m: Annotated[Range, ordered]
    at: Count
    winner: str
    schedule: dict[str, str]
    us: float
    default_us: float
    roofline_us: float
    flop: Annotated[int, within(0, 1 << 100)]
    times: dict[str, float]
    peers: tuple[str, ...] = ()
    routings: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Line:
    """A line: of a job, or of a range of it that was finished, or of a candidate that was refused or is slow."""

    job: str = ""
    what: str = ""
    began: str = ""
    m: Annotated[Range, ordered] | None = None
    done: Found | None = None
    refused: str | None = None
    reason: str = ""
    slow: str | None = None
    us: float = 0.0
    best_us: float = 0.0


class Journal:
    """The journal of one job.

    Raises:
        ScalecError: the file is there, and cannot be read, or is no journal.

    Attributes:
        path: the file.
        done: what was found of each range of M that was finished.
    """

    def __init__(self, path: str | os.PathLike[str], job: Any, what: str) -> None:
        self.path = Path(path)
        self.done: dict[Range, Found] = {}
        self._out: dict[Range, dict[str, str]] = {}
        self._job = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()
        self._what, self._begun = what, False
        self._read()

    def out(self, m: Range) -> dict[str, str]:
        """Candidates of a range that need not be tried again, and why: refused, or clearly slower."""
        return dict(self._out.get(m, {}))

    def refused(self, m: Range, name: str, reason: str) -> None:
        """Notes a candidate that does not compile, or computes something else."""
        self._note({"m": list(m), "refused": name, "reason": reason})

    def slow(self, m: Range, name: str, us: float, best_us: float) -> None:
        """Notes a candidate that was clearly slower than the best."""
        self._note({"m": list(m), "slow": name, "us": us, "best_us": best_us})

    def finish(self, found: Found) -> None:
        """Notes what was found of a range."""
        self._note({"m": list(found.m), "done": asdict(found)})

    def _read(self) -> None:
        try:
            lines = files.read(self.path).split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise ScalecError(
                f"{self.path} cannot be read as a journal", got=error.strerror or repr(error), fix="name another file"
            ) from None
        mine = begun = False
        for line in lines:
            try:
                entry = schema.read(_Line, schema.parse(line))
            except FormatError:
                continue
            if entry.job:
                begun, mine = True, entry.job == self._job
            elif mine:
                self._take(entry)
        if not begun and any(lines):
            raise ScalecError(
                f"{self.path} is no journal: nothing is added to it", expected="lines of JSON", fix="name another file"
            )
        if lines[-1]:  # the last line was not finished: what follows begins its own
            with self.path.open("ab") as file:
                file.write(b"\n")

    def _take(self, line: _Line) -> None:
        if line.done is not None:
            self.done[line.done.m] = line.done
        elif line.m is None:
            return
        elif line.refused is not None:
            self._out.setdefault(line.m, {})[line.refused] = line.reason
        elif line.slow is not None:
            reason = f"{line.us:.2f} us where the best took {line.best_us:.2f}"
            self._out.setdefault(line.m, {})[line.slow] = reason

    def _note(self, entry: dict[str, Any]) -> None:
        if not self._begun:
            self._begun = True
            now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
            self._write({"job": self._job, "what": self._what, "began": now})
        self._write(entry)
        self._take(schema.read(_Line, schema.parse(json.dumps(entry))))

    def _write(self, entry: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
