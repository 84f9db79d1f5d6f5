"""The command line: what may be typed, and how errors leave. What the commands do is in scalec/commands/.

Results go to stdout, diagnostics to stderr. Exit codes: 0 done, 1 the program or the machine refused, 2 misuse, 130
interrupted. Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from scalec import __version__
from scalec.bench import method
from scalec.commands import program
from scalec.commands.compile import SUFFIXES, Request
from scalec.errors import ScalecError
from scalec.sizes import Size
from scalec.targets import TARGETS


class _Commands(click.Group):
    """A group whose commands end as Unix expects: one message on stderr and an exit code, no traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except ScalecError as error:
            _complain(str(error))
            ctx.exit(1)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader is gone: whoever reads on will not miss us
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                ctx.exit(1)
            where = f"{error.filename}: " if error.filename else ""
            _complain(f"{where}{error.strerror or error}")
            ctx.exit(1)
        except KeyboardInterrupt:
            ctx.exit(130)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of use, not of the alphabet


def _complain(message: str) -> None:
    """One diagnostic on stderr; `error:` in red where stderr is a terminal and NO_COLOR is not set."""
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    label = click.style("error:", fg="red", bold=True) if colour else "error:"
    click.echo(f"{label} {message}", err=True, color=colour)


class _Parsed(click.ParamType):
    """An option whose text is read by one of scalec.commands.program's functions."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self.parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _stages(text: str) -> list[str]:
    """A comma list of stages."""
    names = [n.strip() for n in text.split(",") if n.strip()]
    for name in names:
        if name not in SUFFIXES:
            raise ValueError(f"{name!r} is not one of {', '.join(SUFFIXES)}")
    return names


def _passes(text: str) -> list[str]:
    """A comma list of passes."""
    from scalec.passes.pipeline import find

    names = [n.strip() for n in text.split(",") if n.strip()]
    try:
        find(names)
    except ScalecError as error:
        raise ValueError(f"{error.message}; expected some of {error.expected}") from None
    return names


def _target(text: str) -> str:
    """A row of scalec.targets."""
    if text not in TARGETS:
        raise ValueError(f"{text!r} is not one of {', '.join(TARGETS)}")
    return text


def _merge_dims(ctx: click.Context, param: click.Parameter, parts: Sequence[dict[str, Size]]) -> dict[str, Size]:
    try:
        return program.merge_dims(parts)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from None


def _flatten(ctx: click.Context, param: click.Parameter, parts: Sequence[list[str]]) -> list[str]:
    return [name for part in parts for name in part]


def _all(*decorators: Callable) -> Callable:
    """One decorator for several, applied so that `--help` lists them in this order."""

    def apply(command: Callable) -> Callable:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


_DIM = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE|LOW:HIGH,...",
    type=_Parsed("NAME=SIZE", program.parse_dims),
    callback=_merge_dims,
    help="Size of a dimension, or a range of sizes; repeats, and takes comma lists. Dimensions left out stay dynamic.",
)
_TARGET = click.option(
    "--target",
    metavar="NAME",
    type=_Parsed("NAME", _target),
    help="GPU to compile for; see `scalec targets`.  [default: sm_90a]",
)
_SCHEDULE = click.option(
    "--schedule",
    default=None,
    metavar="FIELD=VALUE,...",
    type=_Parsed("FIELD=VALUE", program.parse_schedule),
    help="Decisions to take instead of the compiler, as in a `with` clause.",
)
_PROGRAM = _all(_TARGET, _DIM, _SCHEDULE)
_OUTPUT = click.option("-o", "output", metavar="PATH", help="Write there instead of stdout; - is stdout.")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="scalec", message="%(prog)s %(version)s")
def main() -> None:
    """Compile one line of scaled einsum into a GPU kernel.

    EXPR is a program, the name of a file that holds one, or - for standard input.

    \b
    Examples:
      scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --dim n=7168,k=2048
      scalec run 'C[m,n] = A[m,k]@B[n,k]' --dim m=4096,n=4096,k=4096
      scalec COMMAND --help
    """


@main.command("compile")
@click.argument("expr")
@_PROGRAM
@click.option(
    "--emit",
    multiple=True,
    metavar="STAGE,...",
    type=_Parsed("STAGE", _stages),
    callback=_flatten,
    help=f"What to write: {', '.join(SUFFIXES)}. Several need -o DIR.  [default: by the suffix of -o, else ptx]",
)
@_OUTPUT
@click.option(
    "--bundle",
    metavar="DIR",
    help="Add the kernel to a bundle, for scalec.load(DIR); with neither --emit nor -o, only that.",
)
@click.option(
    "--print-after",
    multiple=True,
    metavar="PASS,...",
    type=_Parsed("PASS", _passes),
    callback=_flatten,
    help="Print the IR after these passes, on stderr.",
)
@click.option("--print-after-all", is_flag=True, help="Print the IR after every pass, on stderr.")
@click.option("--time-passes", is_flag=True, help="Print the time of every stage and pass, on stderr.")
def compile_command(
    expr: str,
    target: str | None,
    dims: dict[str, Size],
    schedule: dict[str, str] | None,
    emit: list[str],
    output: str | None,
    bundle: str | None,
    print_after: list[str],
    print_after_all: bool,
    time_passes: bool,
) -> None:
    """Compile EXPR to one of its stages.

    \b
    Examples:
      scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --dim n=7168,k=2048 --emit tile
      scalec compile gemm.scale --emit cubin -o gemm.cubin
      scalec compile gemm.scale --emit ptx,cubin,sass -o build/
      scalec compile gemm.scale --schedule tile=128x128x128,stages=5 --emit sass | less
      scalec compile gemm.scale --dim n=7168,k=2048,m=1:8192 --bundle kernels/
      echo 'C[m,n] = A[m,k]@B[n,k]' | scalec compile - --emit scale --print-after-all --time-passes
    """
    from scalec.commands.compile import compile_program, stage_of

    request = Request(program.read_source(expr), target, dims, schedule or {})
    compile_program(
        request,
        emit or ([] if bundle and output is None else [stage_of(output)]),
        output,
        bundle=bundle,
        print_after=print_after,
        print_after_all=print_after_all,
        time_passes=time_passes,
    )


@main.command()
@click.argument("expr")
@_PROGRAM
@click.option("--seed", default=0, show_default=True, help="Of the data.")
def run(expr: str, target: str | None, dims: dict[str, Size], schedule: dict[str, str] | None, seed: int) -> None:
    """Run EXPR on made-up data and check it against the reference.

    Runs on the GPU, or, where there is none (or with SCALEC_DEVICE=emulator), on the emulator, which is slow and
    prints no time. The reference is numpy in float64. Every dimension needs a size. Prints the error and the time of
    each result; exits with 1 if the error is too large. The error is diff = 1 - 2<x,y>/(|x|^2+|y|^2), with
    max|x-y|/max|y| beside it.

    \b
    Examples:
      scalec run 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --dim m=200,n=7168,k=2048
      scalec run gemm.scale --dim m=4096 --dim n=7168,k=2048 --schedule tile=128x128x128
    """
    from scalec.commands.run import run_program

    sizes = program.fixed_sizes(dims, "run")
    run_program(Request(program.read_source(expr), target, sizes, schedule or {}), seed)


def _extents(text: str) -> tuple[int, int, int]:
    """X, X,Y or X,Y,Z."""
    parts = text.replace("x", ",").split(",")
    if not 1 <= len(parts) <= 3 or not all(p.strip().isdigit() and int(p) > 0 for p in parts):
        raise ValueError(f"{text!r} is not X, X,Y or X,Y,Z")
    x, y, z = (*map(int, parts), 1, 1)[:3]
    return x, y, z


def _numbered_file(text: str) -> tuple[int, str]:
    """N=FILE."""
    number, found, path = text.partition("=")
    if not found or not number.isdigit() or not path:
        raise ValueError(f"{text!r} is not N=FILE.npy")
    return int(number), path


_SHAPE = _Parsed("X[,Y[,Z]]", _extents)


@main.command()
@click.argument("ptx")
@click.option("--entry", metavar="NAME", help="The kernel, where the text has several.")
@click.option("--grid", type=_SHAPE, default="1", show_default=True, metavar="X[,Y[,Z]]", help="CTAs of the grid.")
@click.option("--block", type=_SHAPE, metavar="X[,Y[,Z]]", help="Threads of a CTA.  [default: the kernel's .reqntid]")
@click.option("--cluster", type=_SHAPE, metavar="X[,Y[,Z]]", help="CTAs of a cluster, where the kernel does not say.")
@click.option("--shared", default=0, metavar="BYTES", help="Dynamic shared memory of a CTA.")
@click.option("--arg", "arguments", multiple=True, metavar="ARG", help="One for each parameter, in order; see below.")
@click.option("--seed", "seeds", default="0", show_default=True, metavar="N|FIRST:END", help="Of the order of things.")
@click.option("--ignore", multiple=True, metavar="KIND", help="A kind of finding that does not stop the run.")
@click.option("--tensor-core", type=click.Choice(["exact", "hopper"]), default="exact", show_default=True)
@click.option("--sms", default=4, show_default=True, help="CTAs that run at the same time.")
@click.option(
    "--save",
    multiple=True,
    metavar="N=FILE.npy",
    type=_Parsed("N=FILE", _numbered_file),
    help="Argument N after the run.",
)
@click.option("--stats", is_flag=True, help="Print what the run counted.")
@click.option("--stats-json", metavar="PATH", help="Write that as JSON; - is stdout.")
def emulate(ptx: str, stats: bool, stats_json: str | None, **launch: Any) -> None:
    """Run the PTX of any producer on this machine's processor, and say what is wrong with it.

    Exits with 0 if the kernel ran to its end without a finding, with 1 if it was stopped.

    An ARG is a number, in:FILE.npy, inout:FILE.npy, out:TYPE[SHAPE] (unwritten), zeros:, iota: or random:TYPE[SHAPE],
    or map:N/box=64x64/swizzle=128, the tensor map of buffer N.

    \b
    Examples:
      scalec emulate add.ptx --block 128 --arg random:f32[128] --arg out:f32[128] --save 1=sum.npy
      scalec emulate gemm.ptx --grid 4 --arg in:a.npy --arg map:0/box=64x64/swizzle=128 --seed 0:8 --stats
    """
    from scalec.commands.emulate import Launch
    from scalec.commands.emulate import emulate as run_it

    run_it(Launch(source=ptx, **launch), stats=stats, stats_json=stats_json)


@main.command()
@click.argument("expr", required=False)
@_PROGRAM
@click.option("--suite", metavar="NAME", help="Shapes to measure; `peers` unless --dim is given.")
@click.option(
    "--rounds", default=method.ROUNDS, show_default=True, help="Measurements of each contender after a pause."
)
@click.option(
    "--sustained",
    default=method.SUSTAINED_ROUNDS,
    show_default=True,
    help="Measurements of each contender without any pause; 0 for none.",
)
@click.option(
    "--block-ms",
    default=round(1e3 * method.BLOCK_SECONDS),
    show_default=True,
    help="Length of one without pause: long enough for the clocks to settle.",
)
@click.option(
    "--contenders", multiple=True, metavar="FILE.py", help="More contenders, e.g. benchmarks/block_fp8_triton.py."
)
@click.option("--load", "bundle", metavar="DIR", help="Measure the kernels of this bundle; needs no compiler.")
@_OUTPUT
def bench(
    expr: str | None,
    target: str | None,
    dims: dict[str, Size],
    schedule: dict[str, str] | None,
    suite: str | None,
    rounds: int,
    sustained: int,
    block_ms: int,
    contenders: tuple[str, ...],
    bundle: str | None,
    output: str | None,
) -> None:
    """Measure EXPR against torch's own kernels, interleaved.

    CUDA graphs of launches that rotate over inputs larger than L2, contenders in shuffled rounds: first with a pause
    before each, then sustained, without any. Prints the median with its quartiles in microseconds, TFLOP/s, GB/s, how
    many times as fast scalec is (ratio), and how many times as fast each is as the first contender (over base); -o
    writes JSON. Without EXPR: block-scaled FP8, C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128).

    \b
    Examples:
      scalec bench
      scalec bench --dim m=4096,n=7168,k=2048 -o result.json
      scalec bench 'C[m,n] = A[m,k]@B[n,k]' --dim m=4096,n=4096,k=4096 --rounds 101
      scalec bench --suite hopper-fp8 --contenders benchmarks/block_fp8_triton.py -o result.json
      scalec bench --load kernels/ --suite hopper-fp8
    """
    from scalec.commands.bench import bench_program

    if suite and dims:
        raise click.UsageError("--suite and --dim both give shapes: choose one")
    for name, value, least in (("--rounds", rounds, 1), ("--sustained", sustained, 0), ("--block-ms", block_ms, 1)):
        if value < least:
            raise click.BadParameter(f"at least {least}", param_hint=name)
    bench_program(
        program.read_source(expr) if expr else None,
        target,
        program.fixed_sizes(dims, "bench"),
        schedule or {},
        suite=suite,
        rounds=rounds,
        sustained=sustained,
        block_seconds=1e-3 * block_ms,
        bundle=bundle,
        contenders=contenders,
        output=output,
    )


def _sizes(text: str) -> list[int]:
    """A comma list of sizes."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"{text!r} is not a list of positive integers")
    return [int(part) for part in parts]


@main.command()
@click.argument("expr", required=False)
@_PROGRAM
@click.option("--m", "rows", metavar="SIZE,...", type=_Parsed("SIZE", _sizes), help="Sizes to predict a dynamic M for.")
@click.option("--suite", metavar="NAME", help="Explain each shape of this suite, e.g. `peers`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(
    expr: str | None,
    target: str | None,
    dims: dict[str, Size],
    schedule: dict[str, str] | None,
    rows: list[int] | None,
    suite: str | None,
    as_json: bool,
) -> None:
    """Explain the schedule that EXPR gets, and predict its time.

    Prints tile, stages, waves of CTAs, bytes, FLOP, the predicted time and what bounds it, and why each decision was
    taken. Predictions are made of the documented rates of the target's GPU, not measured, and need no GPU. Without
    EXPR: the suite's own program.

    \b
    Examples:
      scalec explain 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --dim m=4096,n=7168,k=2048
      scalec explain 'C[m,n] = A[m,k]@B[n,k]' --target sm_120a --dim n=7168,k=2048 --m 1,64,4096
      scalec explain --target sm_120a --suite peers --json
    """
    from scalec.commands.explain import explain_program

    if suite and (dims or rows):
        raise click.UsageError("--suite and --dim or --m both give shapes: choose one")
    source = program.read_source(expr) if expr else None
    explain_program(source, target, dims, schedule or {}, rows=rows or (), suite=suite, as_json=as_json)


@main.command()
@click.argument("file")
@click.option(
    "--passes", required=True, metavar="PASS,...", type=_Parsed("PASS", _passes), help="Passes to run, in this order."
)
@_TARGET
@_OUTPUT
def opt(file: str, passes: list[str], target: str | None, output: str | None) -> None:
    """Run passes on the MLIR module in FILE and print it.

    FILE may be - for standard input.

    \b
    Examples:
      scalec opt --passes=infer-roles,fuse-epilogue module.mlir
      scalec compile gemm.scale --emit scale | scalec opt --passes=infer-roles -
    """
    from scalec.commands.opt import optimise

    optimise(file, passes, target, output)


@main.command()
def targets() -> None:
    """List the GPUs that scalec compiles for.

    \b
    Example:
      scalec targets
    """
    from scalec.commands.info import print_targets

    print_targets()


@main.command()
def env() -> None:
    """List scalec's environment variables and versions.

    \b
    Examples:
      scalec env
      SCALEC_CACHE_DIR=/tmp/cache scalec env
    """
    from scalec.commands.info import print_env

    print_env()


@main.group()
def cache() -> None:
    """Look at or clear the cache of compiled kernels.

    \b
    Examples:
      scalec cache list
      scalec cache path
      scalec cache clear
    """


@cache.command("list")
def cache_list() -> None:
    """List the cached kernels: size, age, target, program.

    \b
    Example:
      scalec cache list
    """
    from scalec.commands.cache import print_entries

    print_entries()


@cache.command("path")
def cache_path() -> None:
    """Print the folder of the cache.

    \b
    Example:
      du -sh "$(scalec cache path)"
    """
    from scalec.commands.cache import print_path

    print_path()


@cache.command("clear")
def cache_clear() -> None:
    """Remove all cached kernels.

    \b
    Example:
      scalec cache clear
    """
    from scalec.commands.cache import clear

    clear()


if __name__ == "__main__":
    main()
