"""`scalec selftest`: every kind of program on whatever device is there, against the reference."""

from __future__ import annotations

import datetime
import json
import os
import time
import warnings
from typing import Any

from scalec.bench import provenance
from scalec.checking import report, workers
from scalec.checking.item import Result, run_item, spent
from scalec.checking.programs import PROGRAMS, Item, items
from scalec.commands.output import note, plain_table, print_table, write_result
from scalec.errors import ScalecError

TIMEOUT = 60.0
"""Seconds of one kernel on a GPU: compiled, launched six times, compared; most take one."""

EMULATED_TIMEOUT = 300.0
"""Likewise in the emulator."""

HANGS = 3
"""Kernels that may hang; after so many nothing is learnt from the rest."""

ON_A_GPU = 16
"""Processes that share a GPU unless more are asked for: each has a context in its memory, of some hundred megabytes."""


def selftest(target: str | None, only: str, jobs: int | None, timeout: float | None, output: str | None) -> None:
    """Runs the list of scalec.checking.programs; prints a table, and writes JSON where `output` says.

    Args:
        target: a row of scalec.targets; that of the device if None.
        only: a part of the names of the programs to run.
        jobs: processes that check at the same time; kernels are timed one by one. See `processes` for None.
        timeout: seconds of a kernel.
        output: a file, or - for stdout.

    Raises:
        ScalecError: no program has such a name, none that has is for the target, or a kernel failed.
    """
    from scalec.api import default_target
    from scalec.runtime import devices

    name = target or default_target()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the next line says where the kernels run
        device = devices.default(name)
    emulated = device.image == "ptx"
    listed = list(items(name, emulated=emulated, only=only))
    if not listed:
        raise ScalecError(f"no program has {only!r:.80} in its name", expected=", ".join(PROGRAMS))
    note(f"{len(listed)} kernels for {name} on {device.name}")
    started, left = time.monotonic(), timeout or (EMULATED_TIMEOUT if emulated else TIMEOUT)
    checked = [item for item in listed if not item.timed]
    found = _run(checked, jobs or processes(emulated=emulated), left)
    if not any(r.kind == "timeout" for _, r in found):
        found += _run([item for item in listed if item.timed], 1, left)
    done = {id(item) for item, _ in found}
    skipped = [item for item in listed if id(item) not in done]
    seconds = time.monotonic() - started
    table = plain_table(*report.COLUMNS, right=("max error", "us", "predicted us"))
    for row in report.rows(found):
        table.add_row(*row)
    if output != "-":
        print_table(table)
        print(f"{report.summary(found, len(skipped))}; {seconds:.0f} s")
    if output is not None:
        where = {**_where(device, name), "timeout": left}
        write_result(json.dumps(report.document(found, skipped, where, seconds), indent=1), output)
    failed = sum(result.failed for _, result in found)
    if failed or skipped:
        raise ScalecError(
            f"{failed} of {len(listed)} kernels failed" + f", {len(skipped)} were not run" * bool(skipped),
            fix="" if output else "-o selftest.json writes what to attach to a report",
        )
    if all(result.kind == "unsupported" for _, result in found):
        raise ScalecError(f"nothing was checked: {name} has none of {len(listed)} kernels", fix="another --only")


def processes(*, emulated: bool) -> int:
    """As many as there are cores, on a GPU at most ON_A_GPU."""
    cores = os.cpu_count() or 1
    return cores if emulated else min(cores, ON_A_GPU)


def _run(listed: list[Item], jobs: int, timeout: float) -> list[tuple[Item, Result]]:
    """Each item with its result, in the order of the list; up to those that hang."""
    found: dict[int, tuple[Item, Result]] = {}
    hangs = 0
    for (i, item), answer in workers.run(_numbered, enumerate(listed), jobs, timeout, spent=spent):
        result = Result(answer.kind, answer.message) if isinstance(answer, workers.Ended) else answer
        found[i] = (item, result)
        hangs += result.kind == "timeout"
        if hangs == HANGS:
            note(f"{HANGS} kernels gave no answer: the rest is not run")
            break
    return [found[i] for i in sorted(found)]


def _numbered(numbered: tuple[int, Item]) -> Result:
    return run_item(numbered[1])


def _where(device: Any, target: str) -> dict[str, Any]:
    """What the document says of the machine and of scalec."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "target": target,
        "device": device.name,
        "driver": provenance.driver(),
        **provenance.of_compiler(),
        "predictions": "predicted from documented rates, not measured",
    }
