"""`scalec tune`: measures schedules on this machine's GPU, and keeps the fastest for the compiler."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalec import env
from scalec.commands.output import note, plain_table, print_table, write_result
from scalec.errors import DeviceError, ScalecError
from scalec.measured import database
from scalec.sizes import natural

if TYPE_CHECKING:
    from rich.table import Table

    from scalec.measured.database import Entry
    from scalec.tuning.journal import Found
    from scalec.tuning.tuner import Job, Progress, Timer

SHORT = ("swap", "tile", "cluster", "split", "parts", "stages")
"""Fields of a schedule that a table has room for."""


@dataclass(frozen=True)
class Files:
    """Where a run reads and writes: the database (the user's, if None), the journal (beside it, if None), and on
    request JSON and a plot."""

    database: str | None = None
    journal: str | None = None
    output: str | None = None
    plot: str | None = None

    def database_path(self) -> Path:
        """The database's file.

        Raises:
            ScalecError: a folder.
        """
        path = Path(os.path.expanduser(self.database)) if self.database is not None else database.user_file()
        if path.is_dir():
            raise ScalecError(
                f"the tuning database {path} is a folder", expected="a file", fix=f"{path / 'tuning.json'}"
            )
        return path

    def journal_path(self) -> Path:
        return Path(self.journal) if self.journal is not None else self.database_path().with_suffix(".journal")


def tune_program(job: Job, files: Files, *, peers: bool = False, workers: int | None = None) -> None:
    """Tunes on this machine's GPU; prints a table, writes the database and what else is asked for.

    Raises:
        ScalecError: a refusal of the compiler, a wrong kernel, or a plot without matplotlib.
        DeviceError: no GPU, no torch, or a GPU of another kind.
    """
    require_gpu()
    if files.plot is not None and find_spec("matplotlib") is None:
        raise ScalecError("a plot needs matplotlib", fix="pip install 'scalec[bench]', or leave --plot out")
    from scalec.tuning.build import pool
    from scalec.tuning.gpu_timer import GpuTimer

    timer = GpuTimer(peers)
    with pool(workers) as compile_all, progress_bar() as progress:
        found = run(job, files, timer, compile_all, progress)
    report(job, found, files, timer.facts())


def run(job: Job, files: Files, timer: Timer, compile_all: Any, progress: Progress) -> list[Found]:
    """Tunes with any timer, and writes the database."""
    from scalec.tuning.journal import Journal
    from scalec.tuning.tuner import entries, tune

    def journal(identity: Any, what: str) -> Journal:
        notes = Journal(files.journal_path(), identity, what)
        if notes.done:
            note(f"{notes.path}: {len(notes.done)} ranges are measured already")
        return notes

    found = tune(job, timer, compile_all, journal, progress)
    database.write(files.database_path(), entries(job, found, timer.facts()))
    return found


def require_gpu() -> None:
    """Refuses a machine that cannot measure.

    Raises:
        DeviceError: the emulator is asked for, torch is not installed, or there is no GPU.
    """
    if env.DEVICE.get() == "emulator":
        raise DeviceError(
            "tuning measures, and in the emulator nothing takes the time that it takes on a GPU",
            got="SCALEC_DEVICE=emulator",
            fix="unset it on a machine with a GPU; `scalec explain` predicts without one",
        )
    if find_spec("torch") is None:
        raise DeviceError(
            "tuning needs torch: it makes the inputs and captures the graphs that are timed",
            fix="pip install 'scalec[gpu,torch]' on a machine with a GPU",
        )
    import torch

    if not torch.cuda.is_available():
        raise DeviceError(
            "tuning measures, and there is no CUDA GPU that torch can use",
            fix="run it on a machine with one; `scalec explain` predicts without",
        )


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on stderr for each thing that is done, with the time left; a line where that is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _told
        return
    columns = (TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bar:
        tasks: dict[str, Any] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield update


def _told(what: str, done: int, total: int) -> None:
    """A line for each tenth of what is done."""
    if done * 10 // max(total, 1) > (done - 1) * 10 // max(total, 1) or done == 0:
        note(f"{what}: {done} of {total}")


# ------------------------------------------------------------------------------------------------------------- results


def report(job: Job, found: Sequence[Found], files: Files, facts: Mapping[str, str]) -> None:
    """The table on stdout (on stderr, where JSON goes to stdout), and the files asked for."""
    print_table(table(found), stderr=files.output == "-")
    note(f"{files.database_path()}: {len(found)} ranges, which `scalec compile` now uses")
    if files.output is not None:
        data = {**facts, "target": job.target, "expression": job.source, "dims": job.dims,
                "ranges": [asdict(one) for one in found]}  # fmt: skip
        write_result(json.dumps(data, indent=1), files.output)
    if files.plot is not None:
        write_result(plot(job, found, facts), files.plot)


def table(found: Sequence[Found]) -> Table:
    """One line for each range of M; of groups, whose times are means over routings, with the winner's time in each."""
    peers = list(dict.fromkeys(name for one in found for name in one.peers))
    routings = list(dict.fromkeys(name for one in found for name in one.routings))
    numbers = ("us", *(f"{name} us" for name in routings), "default us", "gain", "TFLOP/s", "of roofline", *peers)
    made = plain_table("m", "schedule", *numbers, right=numbers)
    for one in found:
        made.add_row(
            str(one.m),
            ", ".join(f"{f}={one.schedule[f]}" for f in SHORT if f in one.schedule),
            f"{one.us:.2f}",
            *(f"{one.routings[name][one.winner]:.2f}" if name in one.routings else "" for name in routings),
            f"{one.default_us:.2f}",
            f"{one.default_us / one.us - 1:.1%}",
            f"{one.flop / one.us / 1e6:.0f}",
            f"{one.roofline_us / one.us:.0%}",
            *(f"{one.times[name]:.2f}" if name in one.times else "" for name in peers),
        )
    return made


def plot(job: Job, found: Sequence[Found], facts: Mapping[str, str]) -> str:
    """Times over M as an SVG, both axes logarithmic: the winners, the compiler's own choices, peers, the roofline."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    lines = {
        "tuned": [(one.at, one.us) for one in found],
        "default": [(one.at, one.default_us) for one in found],
        **{
            name: [(one.at, one.times[name]) for one in found if name in one.times]
            for name in dict.fromkeys(name for one in found for name in one.peers)
        },
        "roofline (documents)": [(one.at, one.roofline_us) for one in found],
    }
    sizes = ", ".join(f"{name}={size}" for name, size in job.dims.items())
    where = ", ".join(part for part in (facts.get("gpu"), facts.get("date")) if part)
    figure, made = Figure(figsize=(9, 5), layout="constrained"), StringIO()
    axes = figure.subplots()
    for name, line in lines.items():
        style = "--" if name.startswith("roofline") else "o-"  # which nobody measured
        axes.plot(*zip(*line, strict=True), style, label=name, markersize=4)
    axes.set(xscale="log", yscale="log", xlabel="m", ylabel="us")
    axes.set_title(f"{' '.join(job.source.split())}; {sizes}; {where}", fontsize=9)
    axes.grid(which="both", linewidth=0.3)
    axes.legend()
    with rc_context({"svg.fonttype": "none"}):  # text stays text
        figure.savefig(made, format="svg", metadata={"Date": None})
    return made.getvalue()


# ------------------------------------------------------------------------------------------------------------ database


def list_entries(files: Files) -> None:
    """Prints the entries of the user's database with their numbers, then those that ship with scalec."""
    own = database.read(files.database_path())
    shipped = [e for path in sorted(database.SHIPPED.glob("*.json")) for e in database.read(path)]
    if not own and not shipped:
        note(f"no measured schedules: {files.database_path()} has none, and none are shipped")
        return
    made = plain_table("", "target", "program", "n", "k", "m", "us", "gpu", "date", "given", right=("n", "k", "us"))
    for i, e in enumerate(own, 1):
        made.add_row(str(i), *_row(e))
    for e in shipped:
        made.add_row("-", *_row(e))
    print_table(made)


def _row(e: Entry) -> list[str]:
    given = ", ".join(f"{f}={v}" for f, v in e.given.items())
    facts = [str(e.facts.get(name, "")) for name in ("us", "gpu", "date")]
    return [e.target, e.program, str(e.n), str(e.k), str(e.m), *facts, given]


def forget(which: str, files: Files) -> None:
    """Takes entries out of the user's database: "all", or the numbers of `list_entries`, joined by commas.

    Raises:
        ScalecError: no such entry.
    """
    own = database.read(files.database_path())
    numbers = [natural(part) for part in which.split(",")]
    if which != "all" and not all(1 <= number <= len(own) for number in numbers):
        expected = f"all, or numbers from 1 to {len(own)}" if own else "the database has no entries"
        raise ScalecError(f"no entries {which!r:.80}", expected=expected, fix="scalec tune --list shows their numbers")
    gone = own if which == "all" else [own[number - 1] for number in numbers]
    database.write(files.database_path(), (), gone=gone)
    note(f"{files.database_path()}: {len(gone)} forgotten, {len(own) - len(gone)} left")
