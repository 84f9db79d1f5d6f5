"""`scalec bench`: kernels against torch's own, shape by shape."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalec.bench import method
from scalec.bench.suites import BLOCK_FP8, DEFAULT_SUITE, Suite, get_suite
from scalec.commands.output import note, note_dropped, print_table, write_result
from scalec.errors import DeviceError, ScalecError
from scalec.runtime.dispatch import runs
from scalec.runtime.sequence import Sequence as Several
from scalec.runtime.sequence import kernels_of

if TYPE_CHECKING:
    from scalec.bench.contenders import Source
    from scalec.bench.result import Row

Maker = Callable[[dict[str, int]], Any]
"""Sizes to the kernel that runs them."""


def bench_program(
    source: str | None,
    target: str | None,
    dims: Mapping[str, int],
    schedule: Mapping[str, str],
    *,
    suite: str | None = None,
    rounds: int = method.ROUNDS,
    sustained: int = method.SUSTAINED_ROUNDS,
    block_seconds: float = method.BLOCK_SECONDS,
    bundle: str | None = None,
    contenders: Sequence[str] = (),
    output: str | None = None,
) -> None:
    """Measures a program at the sizes `dims`, or at a suite's; prints a table, writes JSON to `output`.

    With `output` "-" the JSON goes to stdout and the table to stderr.

    Args:
        rounds: replays of each contender after a pause.
        sustained: blocks of replays of each contender without any; 0 for none.
        block_seconds: length of such a block.
        contenders: Python files that have more contenders, see `load_contenders`.

    Raises:
        ScalecError: a refusal of the compiler, a wrong result, an unknown suite.
        DeviceError: no GPU, or no torch.
    """
    chosen = None if dims and not suite else get_suite(suite or DEFAULT_SUITE)
    program = source or (chosen.source if chosen else BLOCK_FP8)
    require_torch()
    if bundle is None:
        make = _compiler(program, target, schedule)
    else:
        make = from_bundle(bundle, program if source or chosen else None)
    measure(
        make,
        chosen or Suite(program, (dict(dims),)),
        rounds=rounds,
        sustained=sustained,
        block_seconds=block_seconds,
        bundle=bundle,
        sources=[load_contenders(path) for path in contenders],
        output=output,
    )


def measure(
    make: Maker,
    suite: Suite,
    *,
    rounds: int,
    sustained: int,
    block_seconds: float,
    bundle: str | None = None,
    sources: Sequence[Source] = (),
    output: str | None = None,
) -> None:
    """Measures the kernel that `make` gives for each shape of the suite, and reports.

    A shape that fails does not stop the others; the file at `output` is written after each.

    Raises:
        ScalecError, DeviceError: as `bench_program`, after the report of the shapes that did not fail.
    """
    from scalec.bench import provenance, report
    from scalec.bench.shape import Effort, bench_shape, require_gpu

    require_gpu()
    effort = Effort(rounds, sustained, block_seconds)
    compiler = provenance.read(bundle) if bundle else provenance.of_compiler()
    how = method.summary(rounds, sustained, block_seconds)
    rows: list[Row] = []
    failed: dict[str, str] = {}
    target, source = "", suite.source

    def document() -> str:
        return report.document(rows, source, target, how, compiler, groups=suite.groups, failed=failed)

    for index, shape in enumerate(suite.shapes):
        sizes, label = dict(shape), suite.label(shape) if suite.labels else ""
        at = ", ".join(f"{name}={size}" for name, size in sizes.items())
        note(f"{index + 1}/{len(suite.shapes)}: {at}{f' ({label})' if label else ''}")
        try:
            kernel = make(sizes)
            for one in kernel.kernels if isinstance(kernel, Several) else [kernel]:
                for dropped in one.spec.dropped:
                    note_dropped(dropped)
            if isinstance(kernel, Several):
                note(f"{len(kernel.launches)} launches a call, timed together")
            target, source = kernel.spec.target, kernel.spec.source
            published = suite.published_at(shape) if suite.published else {}
            rows.append(
                bench_shape(
                    kernel, kernel.spec, sizes, effort=effort, sources=sources, label=label, published=published
                )
            )
        except ScalecError as error:
            if len(suite.shapes) == 1:
                raise
            failed[at] = str(error)
            note(f"failed: {error}")
        if output not in (None, "-"):
            write_result(document(), output)
    print_table(report.table(rows), stderr=output == "-")
    for line in report.mean_lines(rows, suite.groups):
        note(line) if output == "-" else print(line)
    if output == "-":
        write_result(document(), output)
    if failed:
        raise ScalecError(f"{len(failed)} of {len(suite.shapes)} shapes failed", got="; ".join(failed))


def load_contenders(path: str) -> Source:
    """The function `contenders` of a Python file, which names contenders beside torch's (scalec.bench.contenders).

    Raises:
        ScalecError: no such file, one that cannot be imported here or ends in an error, or one without that function.
    """
    spec = spec_from_file_location(f"scalec_contenders_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ScalecError(f"{path} has no contenders", expected="a Python file")
    module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ScalecError(
            f"the contenders of {path} cannot be used here", got=str(error), fix="install that, or measure without them"
        ) from None
    except Exception as error:  # whatever another's file does
        raise ScalecError(
            f"the contenders of {path} cannot be read", got=f"{type(error).__name__}: {error}", fix=f"python {path}"
        ) from error
    found: Source | None = getattr(module, "contenders", None)
    if found is None:
        raise ScalecError(f"{path} has no contenders", expected="a function contenders(spec, dims)")
    return found


def require_torch() -> None:
    """Refuses a machine without torch.

    Raises:
        DeviceError: torch is not installed.
    """
    if find_spec("torch") is None:
        raise DeviceError(
            "a benchmark needs torch: its kernels are what scalec is measured against",
            fix="pip install 'scalec[gpu,torch]' on a machine with a GPU",
        )


def _compiler(program: str, target: str | None, schedule: Mapping[str, str]) -> Maker:
    import scalec

    return lambda dims: scalec.compile(program, target=target, dims=dims, schedule=dict(schedule) or None)


def from_bundle(directory: str, program: str | None = None) -> Maker:
    """Picks from a bundle the kernel of `program` (of any, if None) for each shape: the one that fixes most sizes.

    Raises:
        ScalecError: no bundle there; later, no kernel of it runs the shape.
    """
    import scalec

    entries = scalec.load(directory).values()
    every = [x for entry in entries for x in ([entry] if isinstance(entry, Several) else entry.kernels)]
    kernels = [k for k in every if program is None or _same(k.spec.source, program)]
    return lambda dims: pick(kernels, dims, directory)


def _same(one: str, other: str) -> bool:
    return "".join(one.split()) == "".join(other.split())


def _runs(kernel: Any, dims: Mapping[str, int]) -> bool:
    """Whether a kernel, or a kernel for each launch of several, runs these sizes."""
    launches = [kernels_of(x) for x in kernel.launches] if isinstance(kernel, Several) else [[kernel]]
    return all(any(runs(k.spec, dims) for k in x) for x in launches)


def pick(kernels: Sequence[Any], dims: Mapping[str, int], directory: str) -> Any:
    """The kernel that runs these sizes and fixes most of them.

    Raises:
        ScalecError: none does.
    """

    fitting = [k for k in kernels if _runs(k, dims)]
    if not fitting:
        raise ScalecError(
            f"no kernel of {directory} runs {', '.join(f'{n}={s}' for n, s in dims.items())}",
            got="; ".join(str(k.spec.dims) for k in kernels) or "no kernel of this program",
            fix="compile one into it: scalec compile EXPR --dim ... --bundle DIR",
        )
    fixed = {id(k): sum(size is not None for size in k.spec.dims.values()) for k in fitting}
    return max(fitting, key=lambda k: (fixed[id(k)], len(k.spec.ranges)))
