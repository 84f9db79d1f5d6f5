"""Block-scaled FP8 on Hopper against cuBLASLt, at the shapes of a suite.

    python benchmarks/hopper_fp8.py -o result.json                  compiles and measures on this machine
    python benchmarks/hopper_fp8.py --write-bundle DIR              compiles here, needs no GPU
    python benchmarks/hopper_fp8.py --bundle DIR -o result.json     measures there, needs no compiler

The method is in scalec/bench/. Runs from a checkout, whether or not scalec is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scalec.bench import provenance
from scalec.bench.suites import DEFAULT_SUITE, SUITES, get_suite
from scalec.commands.bench import bench_program
from scalec.errors import ScalecError


def write_bundle(directory: str, suite: str) -> None:
    """Compiles every shape of the suite into a bundle, with a note of what compiled it."""
    import scalec
    from scalec.runtime import bundle

    chosen = get_suite(suite)
    bundle.write(directory, [scalec.compile(chosen.source, target="sm_90a", dims=dims) for dims in chosen.shapes])
    provenance.write(directory)


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.option("--suite", type=click.Choice(list(SUITES)), default=DEFAULT_SUITE, show_default=True)
@click.option("--write-bundle", "written", metavar="DIR", help="Compile into this bundle and stop.")
@click.option("--bundle", metavar="DIR", help="Measure the kernels of this bundle.")
@click.option("--rounds", default=31, show_default=True, help="Measurements of each contender.")
@click.option("-o", "output", metavar="PATH", help="Write JSON there.")
def main(suite: str, written: str | None, bundle: str | None, rounds: int, output: str | None) -> None:
    try:
        if written:
            write_bundle(written, suite)
        else:
            bench_program(None, None, {}, {}, suite=suite, rounds=rounds, bundle=bundle, output=output)
    except ScalecError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
