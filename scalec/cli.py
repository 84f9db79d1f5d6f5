"""The command line: what may be typed. What the commands do, and how errors leave, is in scalec/commands/.

Results go to stdout, diagnostics to stderr. Exit codes: 0 done, 1 the program or the machine refused, 2 misuse, 130
interrupted. Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

from typing import Any

import click

from scalec.commands import options, program
from scalec.commands.compile import SUFFIXES, Request
from scalec.commands.endings import Commands
from scalec.sizes import MOST, Range, Size
from scalec.version import __version__


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
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
@options.PROGRAM
@click.option(
    "--emit",
    multiple=True,
    metavar="STAGE,...",
    type=options.Parsed("STAGE", options.stage_list),
    callback=options.flattened,
    help=f"What to write: {', '.join(SUFFIXES)}. Several need -o DIR.  [default: by the suffix of -o, else ptx]",
)
@options.OUTPUT
@click.option(
    "--bundle",
    metavar="DIR",
    help="Add the kernel to a bundle, for scalec.load(DIR); with neither --emit nor -o, only that.",
)
@options.PRINTS
@click.option("--no-cache", is_flag=True, help="Compile anew, and keep nothing; without it see `scalec cache`.")
def compile_command(
    expr: str,
    target: str | None,
    dims: dict[str, Size],
    schedule: dict[str, str] | None,
    emit: list[str],
    output: str | None,
    bundle: str | None,
    no_cache: bool,
    **prints: Any,
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
    stages = emit or ([] if bundle and output is None else [stage_of(output)])
    compile_program(request, stages, output, bundle=bundle, cache=not no_cache, **prints)


@main.command()
@click.argument("expr")
@options.GRADIENTS
def grad(expr: str, **said: Any) -> None:
    """Print the programs of EXPR's gradients, in the order in which they run.

    \b
    Examples:
      scalec grad 'C[m,n] = gelu(A[m,k]@B[n,k] + b[n])'
      scalec grad 'C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]' --type dB=f32
      scalec grad 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --quantize deepseek_v3
    """
    from scalec.gradients import grad as gradients

    given = {name: value for name, value in said.items() if value is not None}
    print(gradients(program.read_source(expr), **given), end="")


@main.command()
@click.argument("expr")
@options.PROGRAM
@options.count("--seed", 0, "Of the data.", least=0)
@click.option("-v", "--verbose", is_flag=True, help="Print the schedule too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(
    expr: str,
    target: str | None,
    dims: dict[str, Size],
    schedule: dict[str, str] | None,
    seed: int,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run EXPR on made-up data and check it against the reference.

    Runs on the GPU, or, where there is none (or with SCALEC_DEVICE=emulator), on the emulator, which is slow and
    prints no time. The reference is numpy in float64. A dimension without a size is dynamic, and 192 in the run, 256
    if it is summed over, or 3 if no tile runs along it (a batch). Prints for each result its errors, the most that is
    accepted, the time, and PASS or FAIL; exits with 1 if any failed. The errors are diff = 1 - 2<x,y>/(|x|^2+|y|^2)
    and max|x-y|/max|y|.

    \b
    Examples:
      scalec run 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)'
      scalec run 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --dim m=200,n=7168,k=2048
      scalec run gemm.scale --dim m=4096 --dim n=7168,k=2048 --schedule tile=128x128x128 --json
    """
    from scalec.commands.run import run_program

    sizes = program.fixed_sizes(dims, "run")
    request = Request(program.read_source(expr), target, sizes, schedule or {})
    run_program(request, seed, verbose=verbose, as_json=as_json)


@main.command()
@click.argument("ptx")
@options.LAUNCH
@click.option("--stats", is_flag=True, help="Print what the run counted.")
@click.option("--stats-json", metavar="PATH", help="Write that as JSON; - is stdout.")
def emulate(ptx: str, stats: bool, stats_json: str | None, **launch: Any) -> None:
    """Run the PTX of any producer on this machine's processor, and say what is wrong with it.

    Exits with 0 if the kernel ran to its end without a finding, with 1 if it was stopped. With --jobs, seeds run side
    by side, or the CTAs of one seed where these share no memory.

    \b
    An ARG, one for each parameter:
      128, -1, 0x10, 5.5                       a number, as the parameter's type has it
      in:FILE.npy, inout:FILE.npy              a pointer to the array in a file
      out:TYPE[SHAPE]                          a pointer to memory that nobody has written
      zeros:, iota: or random:TYPE[SHAPE]      a pointer to numbers; types: u8 to s64, f16 to f64, bf16, e4m3, e5m2
      at:N, at:N+BYTES                         an address in buffer N, which is an earlier ARG's number or a --buffer
      map:N/box=64x64                          the tensor map (CUtensorMap) of buffer N, sizes innermost last, with
        /swizzle=128 /atom=32                    a swizzle, and what it keeps together: 16, 32, 32+8 or 64 bytes
        /shape=200x64 /strides=256 /offset=4096  another shape than the buffer's; bytes of all strides but the
                                                 innermost, and to where it begins
        /element=b4x16_p64                       u8 ... f32_ftz, tf32, b4x16, b4x16_p64 or b6x16_p32
        /steps=1x2 /interleave=16 /fill=nan      every second element; channels in slices; out of bounds
        /lower=-1x-1 /upper=-1x-1                im2col: corners of the box of pixels; /box=PIXELSxCHANNELS

    \b
    Examples:
      scalec emulate add.ptx --block 128 --arg random:f32[128] --arg out:f32[128] --save 1=sum.npy
      scalec emulate gemm.ptx --grid 4 --arg in:a.npy --arg map:0/box=64x64/swizzle=128 --seed 0:8 --stats
      scalec emulate gemm.ptx --buffer A=random:bf16[128,256] --buffer D=out:bf16[128,64] --shared 200000
          --arg 128 --arg map:A/box=64x64/swizzle=128 --arg map:D/box=64x64 --save D=d.npy
    """
    from scalec.commands.emulate import emulate as run_it
    from scalec.commands.emulate_launch import Launch

    run_it(Launch(source=ptx, **launch), stats=stats, stats_json=stats_json)


@main.command()
@options.TARGET
@click.option("--only", default="", metavar="TEXT", help="Programs with this in their names, e.g. nvfp4.")
@click.option(
    "--jobs", metavar="N", type=click.IntRange(1, 256), help="Kernels at once.  [default: all cores, on a GPU up to 16]"
)
@click.option("--timeout", metavar="SECONDS", type=options.SECONDS, help="Of one kernel, after which it hangs.")
@options.OUTPUT
def selftest(target: str | None, only: str, jobs: int | None, timeout: float | None, output: str | None) -> None:
    """Check every kind of program on this machine's GPU, or in the emulator.

    Formats, layouts, epilogues, quantised results and schedules of every family, at sizes with tails, each against the
    reference, twice, with guard bytes around every tensor; a kernel that hangs or dies costs no other. On a GPU some
    are timed, beside predictions. Prints a table; -o writes JSON, to attach to a report. Takes minutes.

    \b
    Examples:
      scalec selftest -o selftest.json
      SCALEC_DEVICE=emulator scalec selftest --target sm_100a --only nvfp4
    """
    from scalec.commands.selftest import selftest as run_all

    run_all(target, only, jobs, timeout, output)


@main.command()
@click.argument("expr", required=False)
@options.PROGRAM
@click.option("--suite", metavar="NAME", help="Shapes to measure; `peers` unless --dim is given.")
@options.EFFORT
@click.option(
    "--contenders", multiple=True, metavar="FILE.py", help="More contenders, e.g. benchmarks/block_fp8_triton.py."
)
@click.option("--load", "bundle", metavar="DIR", help="Measure the kernels of this bundle; needs no compiler.")
@options.OUTPUT
def bench(
    expr: str | None,
    target: str | None,
    dims: dict[str, Size],
    schedule: dict[str, str] | None,
    suite: str | None,
    block_ms: int,
    **how: Any,
) -> None:
    """Measure EXPR against torch's own kernels, interleaved.

    CUDA graphs of launches that rotate over inputs larger than L2, contenders in shuffled rounds: first with a pause
    before each, then without any. Prints medians and quartiles in microseconds, TFLOP/s, GB/s, how many times as fast
    scalec is (ratio), and each is as the first contender (over base). Without EXPR: block-scaled FP8, the README's.

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
    source, sizes = program.read_source(expr) if expr is not None else None, program.fixed_sizes(dims, "bench", 1)
    bench_program(source, target, sizes, schedule or {}, suite=suite, block_seconds=1e-3 * block_ms, **how)


@main.command()
@click.argument("expr", required=False)
@options.PROGRAM
@options.rows("SIZE,...", options.size_list, "Sizes to predict a dynamic M for.")
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
    source = program.read_source(expr) if expr is not None else None
    explain_program(source, target, dims, schedule or {}, rows=rows or (), suite=suite, as_json=as_json)


@main.command()
@click.argument("expr", required=False)
@options.PROGRAM
@options.rows("LOW:HIGH", options.size_range, "Sizes of M to tune for.")
@options.count("--candidates", 12, "Schedules to try for each part of the range.", least=0)
@options.count("--rounds", 31, "Measurements of those that stay to the end.")
@click.option("--peers", is_flag=True, help="Measure torch's own kernels beside them.")
@click.option(
    "--workers", metavar="N", type=click.IntRange(1, MOST), help="Processes that compile.  [default: all cores]"
)
@click.option("--database", metavar="FILE", help="Keep the winners there.  [default: the user's, see `scalec env`]")
@click.option("--journal", metavar="FILE", help="Where to go on after an interruption.  [default: beside the database]")
@click.option("--plot", metavar="FILE.svg", help="Write a plot: time over M, with the roofline (needs matplotlib).")
@options.OUTPUT
@click.option("--list", "list_them", is_flag=True, help="List the schedules that are kept, and do nothing else.")
@click.option("--forget", metavar="N,...|all", help="Remove these of them, and do nothing else.")
def tune(
    expr: str | None,
    target: str | None,
    dims: dict[str, Size],
    schedule: dict[str, str] | None,
    rows: Range | None,
    candidates: int,
    rounds: int,
    peers: bool,
    workers: int | None,
    list_them: bool,
    forget: str | None,
    **files: str | None,
) -> None:
    """Measure schedules for EXPR on this machine's GPU, and keep the fastest for each range of M.

    Compiles what is predicted to be fast, checks it, times it interleaved and drops what is clearly slower. What is
    kept, `scalec compile` and scalec.compile use from then on. Interrupted, it goes on where it was. Prints a table;
    -o writes JSON.

    \b
    Examples:
      scalec tune 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --dim n=7168,k=2048 --m 1:8192 --plot times.svg
      scalec tune gemm.scale --dim n=7168,k=2048 --m 64 --candidates 40 --peers
      scalec tune --list
      scalec tune --forget 1,3
    """
    from scalec.commands import tune as command

    kept = command.Files(**files)
    if list_them and forget is not None:
        raise click.UsageError("--list and --forget each do nothing else: choose one")
    if list_them:
        return command.list_entries(kept)
    if forget is not None:
        return command.forget(forget, kept)
    if expr is None:
        raise click.UsageError("Missing argument 'EXPR'.")
    if rows is None:
        raise click.UsageError("Missing option '--m': the sizes of M to tune for, e.g. --m 1:8192.")
    command.require_gpu()
    from scalec.api import default_target, launches
    from scalec.tuning.tuner import Job

    sizes, name = program.fixed_sizes(dims, "tune", 1), target or default_target()
    every = launches(program.read_source(expr), name, sizes, schedule or {}, made={})
    if len(every.texts) > 1:
        which = f"launch {every.main + 1} of {len(every.texts)}"
        command.note(f"{which} is tuned: the others have no schedule to choose")
    text, sizes = every.texts[every.main], every.sizes(every.main, sizes)
    job = Job(text, name, sizes, rows, every.schedule(every.main, schedule or {}), candidates, rounds)
    return command.tune_program(job, kept, peers=peers, workers=workers)


@main.command()
@click.argument("file")
@click.option(
    "--passes",
    required=True,
    metavar="PASS,...",
    type=options.Parsed("PASS", options.pass_list),
    help="Passes to run, in this order.",
)
@options.TARGET
@options.OUTPUT
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


@main.group(invoke_without_command=True)
@click.pass_context
def cache(context: click.Context) -> None:
    """Say how many compiled kernels are kept and what they take, list or clear them.

    \b
    Examples:
      scalec cache
      scalec cache list
      scalec cache path
      scalec cache clear
    """
    if context.invoked_subcommand is None:
        from scalec.commands.cache import print_summary

        print_summary()


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
