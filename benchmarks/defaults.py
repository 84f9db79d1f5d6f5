"""Turns timed schedules into the tuning database's shipped defaults: what beat the compiler's own choice.

    python benchmarks/defaults.py benchmarks/results/*-schedules-fp8*.json -o scalec/measured/data/h200.json

Of each shape that benchmarks/schedules.py timed, where the compiler's choice was among those timed and the fastest took
less by more than the timing varies: an entry for the rows from the next smaller number that was timed up to it. What
else the database has of these shapes is taken out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.schedules import ROWS
from scalec import compiler
from scalec.measured import database
from scalec.measured.database import Entry
from scalec.sizes import Range

GAIN = 0.03
"""Share of the time that a schedule must save: medians of four rounds repeat within 1 to 2 %."""


def entries(path: Path) -> Iterator[Entry]:
    """Of each shape of a file at most one."""
    data = json.loads(path.read_text())
    source, target = data["expression"], "sm_90a"
    for m, n, k, rows in data["points"]:
        *names, _ = data["columns"][3]
        older = {} if "parts" in names else {"parts": "memory"}
        names, timed = [*names, *older], {(*fields, *older.values()): us for *fields, us in rows}
        chosen, _ = compiler.decide(source, target, {"m": m, "n": n, "k": k}, None, tuned=False)
        texts = chosen.texts()
        default = timed.get(tuple(texts[name] for name in names))
        best = min(timed, key=lambda fields: timed[fields])
        if default is None or timed[best] > (1 - GAIN) * default:
            continue
        yield Entry(
            target=target,
            program=compiler.program_key(source, target, {"m": m, "n": n, "k": k}),
            n=n,
            k=k,
            m=Range(max((r for r in ROWS if r < m), default=0) + 1, m),
            given={},
            schedule=dict(zip(names, best, strict=True)),
            facts=_facts(data, us=timed[best], default_us=default, at=m),
        )


def timed(path: Path) -> set[tuple[str, int, int, int]]:
    """(program, n, k, rows) of a file's shapes."""
    data = json.loads(path.read_text())
    return {
        (compiler.program_key(data["expression"], "sm_90a", {"m": m, "n": n, "k": k}), n, k, m)
        for m, n, k, _ in data["points"]
    }


def needed(entry: Entry, sources: set[str]) -> bool:
    """Whether the compiler by itself takes another schedule than an entry's: not so where the costs have been fitted
    anew since. Entries of programs that no file times are left alone."""
    dims = {"m": entry.facts["at"], "n": entry.n, "k": entry.k}
    for source in sources:
        if compiler.program_key(source, entry.target, dims) == entry.program:
            texts = compiler.decide(source, entry.target, dims, None, tuned=False)[0].texts()
            return any(texts[name] != value for name, value in entry.schedule.items())
    return True


def _facts(data: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**more, **{name: data[name] for name in ("gpu", "driver", "date", "commit")}}


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("-o", "output", required=True, metavar="FILE", help="The database; what it has of other shapes stays.")
def main(files: tuple[Path, ...], output: str) -> None:
    found: list[Entry] = []
    for path in files:
        some = list(entries(path))
        click.echo(f"{path.name}: {len(some)} shapes where another schedule was faster", err=True)
        found = database.merge(found, some)
    again = set[tuple[str, int, int, int]]().union(*map(timed, files))
    kept = {e.identity for e in found}
    old = [e for e in database.read(output) if e.identity not in kept and (e.program, e.n, e.k, e.facts["at"]) in again]
    click.echo(f"{len(old)} entries are of shapes where none is faster by now", err=True)
    sources = {json.loads(path.read_text())["expression"] for path in files}
    gone = [e for e in database.merge(database.read(output), found) if not needed(e, sources)]
    click.echo(f"{len(gone)} entries are the compiler's own choice by now", err=True)
    database.write(output, found, gone=[*old, *gone])


if __name__ == "__main__":
    main()
