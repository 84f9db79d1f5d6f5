"""From text to cubin: every stage in order, each timed and kept as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from scalec import frontend, lowering
from scalec.abi import KernelSpec
from scalec.errors import ScalecError, ScheduleError, SlowKernelError
from scalec.ir import context as contexts
from scalec.ir import schedule as schedules
from scalec.ir.mlir import ir
from scalec.ir.schedule import Schedule
from scalec.lowering import llvm, ptxas, signature
from scalec.passes.pipeline import PIPELINE, run_pipeline
from scalec.passes.problem import Problem
from scalec.targets import DEFAULT_TARGET, Target, get_target

OnPass = Callable[[str, Callable[[], str], float], None]
STAGES = ("scale", "tile", "nvvm", "llvm", "ptx", "cubin")


@dataclass
class Compilation:
    """What a compilation made, as far as it went.

    Attributes:
        source: the program.
        target: the target's name.
        texts: the stages reached, as text: "scale" (as the front end built it), "tile", "nvvm", "llvm", "ptx".
        cubin: the machine code, with `until="cubin"`.
        spec: what the runtime needs to know, once `tile` is reached.
        schedule: every decision, once `tile` is reached.
        times: (stage or pass, seconds) in order.
        ptxas: ptxas's -v log.
        registers: registers of a thread at entry.
    """

    source: str
    target: str
    texts: dict[str, str] = field(default_factory=dict)
    cubin: bytes | None = None
    spec: KernelSpec | None = None
    schedule: Schedule | None = None
    times: list[tuple[str, float]] = field(default_factory=list)
    ptxas: str = ""
    registers: int = 0

    @property
    def ptx(self) -> str:
        """The PTX."""
        return self.texts["ptx"]

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Adds the time of the body to `times`."""
        start = time.perf_counter()
        yield
        self.times.append((name, time.perf_counter() - start))


def compile_source(
    source: str,
    target: str | None = None,
    dims: Mapping[str, int] | None = None,
    schedule: Mapping[str, str] | None = None,
    *,
    until: str = "cubin",
    on_pass: OnPass | None = None,
) -> Compilation:
    """Compiles a program.

    Args:
        source: the program's text.
        target: a row of scalec.targets; the default target if None.
        dims: sizes of dimensions to fix; the others stay dynamic.
        schedule: decisions as text ({"tile": "128x128x128"}), over those of a `with` clause.
        until: the last stage to reach, one of STAGES.
        on_pass: called after each pass with its name, a function that gives the module's text, and its seconds.

    Raises:
        ScalecError: any refusal, by the stage that found it.
    """
    if until not in STAGES:
        raise ScalecError(f"no stage {until!r}", expected=", ".join(STAGES))
    row = get_target(target or DEFAULT_TARGET)
    made = Compilation(source, row.name)
    with contexts.context():
        with made.timed("frontend"):
            module = frontend.build(source, dims)
            function = _function(module)
            given = schedules.read(function).with_fields(**schedules.from_mapping(schedule or {}).decided())
            schedules.write(function, given)
        made.texts["scale"] = str(module)
        if until == "scale":
            return made
        # The register estimates behind a choice are estimates; ptxas is the judge. Where it spills, what was chosen
        # here (never what the user decided) is chosen again, more modestly.
        spilled: SlowKernelError | None = None
        for last, retry in _attempts(given):
            schedules.write(function, given.with_fields(**retry(made.schedule)))
            try:
                _compile(made, str(module), row, until, on_pass)
                break
            except SlowKernelError as error:
                if last:
                    raise
                spilled = error
            except ScheduleError:  # a retry that does not suit what the user decided: the first refusal counts
                if spilled is None:
                    raise
                if last:
                    raise spilled from None
    return made


Retry = Callable[[Schedule | None], dict[str, schedules.Value]]


def _attempts(given: Schedule) -> Iterator[tuple[bool, Retry]]:
    """(whether it is the last, fields to decide, from the schedule that spilled) of each attempt."""

    def tile(rows: int, columns: int) -> Retry:
        return lambda spilled: {"tile": (rows, columns, spilled.tile[2] if spilled and spilled.tile else 128)}

    attempts: list[Retry] = [lambda _: {}]
    if given.unroll is None:
        attempts.append(lambda _: {"unroll": 1})
    if given.tile is None:
        attempts += [tile(128, 128), tile(64, 64)]
    for i, attempt in enumerate(attempts):
        yield i == len(attempts) - 1, attempt


def _compile(made: Compilation, text: str, row: Target, until: str, on_pass: OnPass | None) -> None:
    """One attempt: from a `scale` module with the user's schedule as far as `until`."""
    reached = STAGES.index(until)
    module = contexts.parse(text)
    kernel = _to_tile(made, module, row, on_pass)
    if reached >= STAGES.index("nvvm"):
        _to_ptx(made, kernel, row, reached)
    if until == "cubin":
        with made.timed("ptxas"):
            assembled = ptxas.assemble(made.ptx, row.name, str(made.schedule))
        made.cubin, made.ptxas, made.registers = assembled.cubin, assembled.log, assembled.registers


def _function(module: ir.Module) -> ir.OpView:
    return next(o for o in module.body.operations if o.operation.name == "func.func")


def _to_tile(made: Compilation, module: ir.Module, row: Target, on_pass: OnPass | None) -> ir.OpView:
    def after(name: str, module: ir.Module, seconds: float) -> None:
        made.times.append((name, seconds))
        if on_pass is not None:
            on_pass(name, lambda: str(module), seconds)

    *decisions, emit = PIPELINE
    run_pipeline(module, row, passes=decisions, on_pass=after)
    operands, results = signature.tensors(_function(module))
    dims = signature.sizes(_function(module))
    made.schedule = schedules.read(_function(module))
    problem = Problem.of(_function(module), row)
    roles = (problem.m.name, problem.n.name, problem.k.name)
    run_pipeline(module, row, passes=[emit], on_pass=after)
    made.texts["tile"] = str(module)
    kernel = next(o for o in module.body.operations if o.operation.name == "tile.kernel")
    made.spec = signature.spec(kernel, operands, results, dims, roles, made.schedule, made.source, row.name)
    return kernel


def _to_ptx(made: Compilation, kernel: ir.OpView, row: Target, reached: int) -> None:
    with made.timed("lowering"):
        module = lowering.lower(kernel, row.name)
        contexts.verify(module, "lowering")
    if reached <= STAGES.index("nvvm"):
        made.texts["nvvm"] = str(module)
        return
    with made.timed("mlir-to-llvm"):
        llvm.to_llvm_dialect(module)
        text = llvm.to_llvm_ir(module)
    made.texts["llvm"] = text
    if reached >= STAGES.index("ptx"):
        with made.timed("llvm-to-ptx"):
            made.texts["ptx"] = llvm.to_ptx(text, row.name, row.ptx_version)
