"""`scalec bench`: kernels against torch's own, shape by shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from scalec.bench.suites import BLOCK_FP8, DEFAULT_SUITE, get_suite
from scalec.commands.output import note, note_dropped, print_table, write_result
from scalec.errors import DeviceError, ScalecError

Maker = Callable[[dict[str, int]], Any]
"""Sizes to the kernel that runs them."""


def bench_program(
    source: str | None,
    target: str | None,
    dims: Mapping[str, int],
    schedule: Mapping[str, str],
    *,
    suite: str | None = None,
    rounds: int = 31,
    bundle: str | None = None,
    output: str | None = None,
) -> None:
    """Measures a program at the sizes `dims`, or at a suite's; prints a table, writes JSON to `output`.

    With `output` "-" the JSON goes to stdout and the table to stderr.

    Raises:
        ScalecError: a refusal of the compiler, a wrong result, an unknown suite.
        DeviceError: no GPU, or no torch.
    """
    chosen = None if dims and not suite else get_suite(suite or DEFAULT_SUITE)
    program = source or (chosen.source if chosen else BLOCK_FP8)
    shapes = chosen.shapes if chosen else (dict(dims),)
    require_torch()
    if bundle is None:
        make = _compiler(program, target, schedule)
    else:
        make = from_bundle(bundle, program if source or chosen else None)
    measure(make, shapes, rounds=rounds, bundle=bundle, output=output)


def measure(
    make: Maker,
    shapes: Iterable[Mapping[str, int]],
    *,
    rounds: int,
    bundle: str | None = None,
    output: str | None = None,
) -> None:
    """Measures the kernel that `make` gives for each shape, and reports.

    Raises:
        ScalecError, DeviceError: as `bench_program`.
    """
    from scalec.bench import provenance, report
    from scalec.bench.shape import bench_shape, require_gpu

    require_gpu()
    rows, target, source = [], "", ""
    for shape in shapes:
        sizes = dict(shape)
        note(", ".join(f"{name}={size}" for name, size in sizes.items()))
        kernel = make(sizes)
        for dropped in kernel.spec.dropped:
            note_dropped(dropped)
        target, source = kernel.spec.target, kernel.spec.source
        rows.append(bench_shape(kernel, kernel.spec, sizes, rounds=rounds))
    print_table(report.table(rows), stderr=output == "-")
    for name, ratio in report.geometric_means(rows).items():
        line = f"geometric mean over {len(rows)} shapes: {ratio:.3f} times as fast as {name}"
        note(line) if output == "-" else print(line)
    if output is not None:
        compiler = provenance.read(bundle) if bundle else provenance.of_compiler()
        write_result(report.document(rows, source, target, rounds, compiler), output)


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

    every = [kernel for entry in scalec.load(directory).values() for kernel in entry.kernels]
    kernels = [k for k in every if program is None or _same(k.spec.source, program)]
    return lambda dims: pick(kernels, dims, directory)


def _same(one: str, other: str) -> bool:
    return "".join(one.split()) == "".join(other.split())


def pick(kernels: Sequence[Any], dims: Mapping[str, int], directory: str) -> Any:
    """The kernel that runs these sizes and fixes most of them.

    Raises:
        ScalecError: none does.
    """

    def runs(spec: Any) -> bool:
        return all(name in dims and size in (None, dims[name]) for name, size in spec.dims.items())

    fitting = [k for k in kernels if runs(k.spec)]
    if not fitting:
        raise ScalecError(
            f"no kernel of {directory} runs {', '.join(f'{n}={s}' for n, s in dims.items())}",
            got="; ".join(str(k.spec.dims) for k in kernels) or "no kernel of this program",
            fix="compile one into it: scalec compile EXPR --dim ... --bundle DIR",
        )
    return max(fitting, key=lambda k: sum(size is not None for size in k.spec.dims.values()))
