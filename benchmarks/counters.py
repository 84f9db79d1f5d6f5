"""What bounds kernels on Hopper: hardware counters of one launch each, read by ncu.

    ncu --profile-from-start off --clock-control none --section SpeedOfLight --section WarpStateStats \\
        --section ComputeWorkloadAnalysis --section MemoryWorkloadAnalysis --page raw --csv --log-file ncu.csv \\
        python benchmarks/counters.py --launch
    python benchmarks/counters.py ncu.csv -o result.json

Launched are the shapes of SHAPES, once warm, with clocks as they are. ncu replays a launch for each group of counters,
with pauses: the clock of the SMs is that of a burst. Both run on the machine with the GPU, from a checkout, whether or
not scalec is installed.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scalec.bench import provenance

BLOCKS = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
ADDED = "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128)"
SHAPES = [
    *((BLOCKS, s) for s in ((8192, 8192, 8192), (4096, 7168, 16384), (4096, 2112, 7168), (4096, 24576, 1536))),
    *((BLOCKS, s) for s in ((4096, 4096, 7168), (4096, 5120, 8192), (4096, 32768, 512), (128, 24576, 1536))),
    *((ADDED, s) for s in ((8192, 8192, 8192), (4096, 24576, 1536))),
]

COUNTERS = {
    "us": ("gpu__time_duration.sum", 1e-3),
    "sm_ghz": ("gpc__cycles_elapsed.avg.per_second", 1e-9),
    "tensor_pct": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 1),
    "shared_pct": ("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", 1),
    "l2_pct": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "dram_pct": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "dram_tbytes_per_s": ("dram__bytes.sum.per_second", 1e-12),
    "issue_pct": ("sm__issue_active.avg.pct_of_peak_sustained_elapsed", 1),
    "dispatch_stalls": ("smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio", 1),
    "short_scoreboard_stalls": ("smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio", 1),
}
"""ncu's counter, and what makes our unit of its: percents of the peak over the launch, stalled warps for each issue."""


def launch() -> None:
    """Launches each kernel, the last time under the profiler."""
    import torch

    import scalec
    from scalec.bench.inputs import make_inputs

    for source, sizes in SHAPES:
        dims = dict(zip("mnk", sizes, strict=True))
        kernel = scalec.compile(source, target="sm_90a", dims=dims)
        inputs = make_inputs(kernel.spec, dims, 3)
        arguments = [inputs.values[t.name] for t in kernel.spec.operands]
        for profiled in (False, False, True):
            if profiled:
                torch.cuda.profiler.start()
            kernel(*arguments, out=inputs.outputs["C"])
            torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def read(path: Path) -> list[dict[str, object]]:
    """A row for each launch of what ncu wrote."""
    lines = csv.reader(line for line in path.read_text().splitlines() if line.startswith('"'))
    names, _, *launches = lines
    if len(launches) != len(SHAPES):
        raise click.ClickException(f"{path} has {len(launches)} launches, expected {len(SHAPES)}")
    at = {name: names.index(counter) for name, (counter, _) in COUNTERS.items()}
    rows = []
    for (source, sizes), values in zip(SHAPES, launches, strict=True):
        found = {n: round(float(values[i].replace(",", "")) * COUNTERS[n][1], 3) for n, i in at.items()}
        rows.append({"expression": source, "dims": dict(zip("mnk", sizes, strict=True)), **found})
    return rows


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.argument("log", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--launch", "launching", is_flag=True, help="Launch the kernels, for ncu to look at.")
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
def main(log: Path | None, launching: bool, output: str | None) -> None:
    if launching:
        launch()
        return
    if log is None:
        raise click.UsageError("name the file that ncu wrote, or say --launch")
    rows = read(log)
    for row in rows:
        click.echo(json.dumps(row))
    if output:
        counters = {name: counter for name, (counter, _) in COUNTERS.items()}
        data = {**provenance.of_machine(), **provenance.of_compiler(), "counters": counters, "rows": rows}
        Path(output).write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
