"""`scalec emulate`: any PTX, run and judged on this machine's processor."""

from __future__ import annotations

import json
from typing import Any

from scalec.commands.emulate_launch import Launch, run_seed
from scalec.commands.output import note, plain_table, print_table, write_result
from scalec.commands.program import read_text
from scalec.errors import ScalecError
from scalec.sizes import natural


def emulate(request: Launch, *, stats: bool, stats_json: str | None) -> None:
    """Runs the kernel once for each seed, and prints what was found, or that nothing was.

    Raises:
        ScalecError: the text, the launch or an argument is wrong; a finding.
        OSError: a file.
    """
    from scalec.commands import emulate_jobs

    text, seeds = read_text(request.source), _seeds(request.seeds)
    done = emulate_jobs.run(request, text, seeds) if request.jobs > 1 else None
    for seed in () if done else seeds:
        done = run_seed(request, text, seed)
    assert done is not None
    note(f"no findings in {len(seeds)} run{'s' if len(seeds) > 1 else ''}, seeds {request.seeds}")
    for name, path in request.save:
        if name not in done.buffers:
            raise ScalecError(f"{name:.80} is no buffer", expected=", ".join(done.buffers))
        import numpy as np

        np.save(path, done.buffers[name].array)
    report = done.stats.report(done.kernel)
    if stats:
        _print(report)
    if stats_json:
        write_result(json.dumps(report, indent=1) + "\n", stats_json)


def _seeds(text: str) -> range:
    first, colon, end = text.partition(":")
    seeds = range(natural(first), natural(end) if colon else natural(first) + 1)
    if natural(first) < 0 or not seeds:
        raise ScalecError(f"seeds {text!r:.80}", expected="N, or FIRST:END with END above FIRST")
    return seeds


def _print(report: dict[str, Any]) -> None:
    """The counters as tables, on stdout."""
    for title in ("by class", "bytes", "counts", "waits"):
        if report[title]:
            table = plain_table(title, "", right=("",))
            for name, value in report[title].items():
                table.add_row(name, f"{value:,}")
            print_table(table)
            print()
    for loop in report["tensor loops"]:
        first, last = loop["lines"]
        table = plain_table(f"a pass of the loop at lines {first}-{last} ({loop['passes']:,} passes)", "", right=("",))
        for name, value in loop["instructions in a pass"].items():
            table.add_row(name, f"{value:,}")
        print_table(table)
        print()
    print(f"{report['warp instructions']:,} warp instructions")
