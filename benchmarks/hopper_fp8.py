"""Block-scaled FP8 on Hopper against cuBLASLt and Triton, at the shapes of a suite.

    python benchmarks/hopper_fp8.py -o result.json                  compiles and measures on this machine
    python benchmarks/hopper_fp8.py --write-bundle DIR              compiles here, needs no GPU
    python benchmarks/hopper_fp8.py --bundle DIR -o result.json     measures there, needs no compiler

The method is in scalec/bench/, the Triton kernel in block_fp8_triton.py; where Triton is missing it is left out with a
note. Runs from a checkout, whether or not scalec is installed.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scalec.bench import method, provenance
from scalec.bench.suites import SUITES, get_suite
from scalec.commands.bench import bench_program
from scalec.errors import ScalecError

TRITON = Path(__file__).with_name("block_fp8_triton.py")


def write_bundle(directory: str, suite: str) -> None:
    """Compiles every shape of the suite into a bundle, with a note of what compiled it."""
    import scalec
    from scalec.runtime import bundle

    chosen = get_suite(suite)
    bundle.write(directory, [scalec.compile(chosen.source, target="sm_90a", dims=dims) for dims in chosen.shapes])
    provenance.write(directory)


def sources(wanted: bool) -> list[str]:
    """The file with Triton's contender, where it is wanted and can be had."""
    if wanted and find_spec("triton") is None:
        click.echo("note: Triton is not installed: its kernel is left out", err=True)
        return []
    return [str(TRITON)] if wanted else []


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--suite", type=click.Choice(list(SUITES)), default="hopper-fp8", show_default=True)
@click.option("--write-bundle", "written", metavar="DIR", help="Compile into this bundle and stop.")
@click.option("--bundle", metavar="DIR", help="Measure the kernels of this bundle.")
@click.option(
    "--rounds", default=method.ROUNDS, show_default=True, help="Measurements of each contender after a pause."
)
@click.option("--sustained", default=method.SUSTAINED_ROUNDS, show_default=True, help="Of each without pause; 0: none.")
@click.option(
    "--block-ms", default=round(1e3 * method.BLOCK_SECONDS), show_default=True, help="Length of one of those."
)
@click.option("--triton/--no-triton", default=True, show_default=True, help="Measure the Triton kernel too.")
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
def main(
    suite: str,
    written: str | None,
    bundle: str | None,
    rounds: int,
    sustained: int,
    block_ms: int,
    triton: bool,
    output: str | None,
) -> None:
    try:
        if written:
            write_bundle(written, suite)
        else:
            bench_program(
                None,
                None,
                {},
                {},
                suite=suite,
                rounds=rounds,
                sustained=sustained,
                block_seconds=1e-3 * block_ms,
                bundle=bundle,
                contenders=sources(triton),
                output=output,
            )
    except ScalecError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
