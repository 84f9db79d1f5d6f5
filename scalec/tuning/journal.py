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
from pathlib import Path
from typing import Any

from scalec.sizes import Range


class Journal:
    """The journal of one job.

    Attributes:
        path: the file.
        done: what was found of each range of M that was finished.
    """

    def __init__(self, path: str | os.PathLike[str], job: Any, what: str) -> None:
        self.path = Path(path)
        self.done: dict[Range, dict[str, Any]] = {}
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

    def finish(self, m: Range, found: dict[str, Any]) -> None:
        """Notes what was found of a range."""
        self._note({"m": list(m), "done": found})

    def _read(self) -> None:
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        mine = False
        for line in lines:
            try:
                entry = json.loads(line)
                if "job" in entry:
                    mine = entry["job"] == self._job
                elif mine:
                    self._take(entry)
            except (ValueError, KeyError, TypeError):
                continue
        if lines and lines[-1]:  # the last line was not finished: what follows begins its own
            with self.path.open("ab") as file:
                file.write(b"\n")

    def _take(self, entry: dict[str, Any]) -> None:
        m = Range(*entry["m"])
        if "done" in entry:
            self.done[m] = entry["done"]
        elif "refused" in entry:
            self._out.setdefault(m, {})[entry["refused"]] = entry["reason"]
        elif "slow" in entry:
            reason = f"{entry['us']:.2f} us where the best took {entry['best_us']:.2f}"
            self._out.setdefault(m, {})[entry["slow"]] = reason

    def _note(self, entry: dict[str, Any]) -> None:
        if not self._begun:
            self._begun = True
            now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
            self._write({"job": self._job, "what": self._what, "began": now})
        self._write(entry)
        self._take(entry)

    def _write(self, entry: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
