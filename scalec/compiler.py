"""From text to cubin: every stage in order, each timed and kept as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from scalec import frontend, lowering
from scalec.abi import Dropped, KernelSpec, Launch, Limit
from scalec.attempts import Attempt
from scalec.errors import ApartError, ScalecError, ScheduleError, SlowKernelError, UnsupportedError
from scalec.frontend.diagnostics import Source
from scalec.ir import context as contexts
from scalec.ir import schedule as schedules
from scalec.ir.mlir import ir
from scalec.ir.schedule import Request, Schedule
from scalec.lowering import llvm, ptxas, signature
from scalec.measured.database import Entry
from scalec.measured.key import describe
from scalec.passes.base import problem_of, reading_once
from scalec.passes.choose.place_reductions import PlaceReductions
from scalec.passes.choose.recall_tuned import RecallTuned
from scalec.passes.choose.refusals import widest_blocks
from scalec.passes.choose.tiling import ChooseTiling
from scalec.passes.emit.kernel import EmitTile
from scalec.passes.pipeline import FUSE, PIPELINE, find, run_pipeline
from scalec.passes.plan.joined_folds import joins_folds
from scalec.passes.plan.loop import in_a_loop
from scalec.passes.plan.mma_n import narrower
from scalec.passes.plan.pointwise import SPILLS, Spread
from scalec.passes.plan.registers import free_registers, sums_of_thread
from scalec.passes.plan.resources import converting_registers, fullest_registers, most_registers
from scalec.passes.problem import read_pointwise
from scalec.passes.problem.access import Dim
from scalec.passes.problem.contraction import contractions
from scalec.passes.problem.types import Problem
from scalec.passes.problem.whole_sums import longest
from scalec.sizes import MOST, Size
from scalec.suggestions import did_you_mean
from scalec.targets import DEFAULT_TARGET, Target, get_target

OnPass = Callable[[str, Callable[[], str], float], None]
OnDrop = Callable[[Dropped], None]
STAGES = ("scale", "tile", "nvvm", "llvm", "ptx", "cubin")


@dataclass
class Compilation:
    """What a compilation made, as far as it went.

    Attributes:
        source: the program.
        target: the target's name.
        texts: the stages, as text: "scale" (as the front end built it), "tile", "llvm", "ptx"; "nvvm" where asked for.
        cubin: the machine code.
        spec: what the runtime needs to know.
        schedule: every decision.
        free: registers that the estimate leaves a consumer thread.
        step: registers that a smaller tile must leave beyond these: half of the accumulators of a thread.
        narrower: instructions that take fewer registers for partial sums than those of `mma_n`, the widest first.
        looped: K blocks in one iteration of a loop, where all of a tile's are walked without one; else 0.
        folds: whether tiles have all of an index that is reduced.
        most: the `registers` of the schedule if its launch took all that an SM has (resources.most_registers).
        widest: the result in the widest blocks of scales, "" where none is quantised.
        fullest: those that leave consumers the most that there are (resources.fullest_registers).
        converting: those that leave warps that convert more (resources.converting_registers).
        dropped: the schedules that were tried before this one, and why ptxas's kernel of each is not shipped.
        times: (stage or pass, seconds) in order, those of dropped schedules too.
        registers: registers of a thread at entry.
        tuned: what the tuning database had for the program; None where it had nothing, or nothing that compiles.
    """

    source: str
    target: str
    texts: dict[str, str] = field(default_factory=dict)
    cubin: bytes | None = None
    spec: KernelSpec | None = None
    schedule: Schedule | None = None
    free: int = 0
    step: int = 0
    narrower: tuple[int, ...] = ()
    looped: int = 0
    folds: bool = False
    most: tuple[int, int] | None = None
    fullest: tuple[int, int] | None = None
    converting: tuple[int, int] | None = None
    widest: str = ""
    dropped: list[Dropped] = field(default_factory=list)
    times: list[tuple[str, float]] = field(default_factory=list)
    registers: int = 0
    tuned: Entry | None = None

    @property
    def ptx(self) -> str:
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
    dims: Mapping[str, Size] | None = None,
    schedule: Mapping[str, str] | None = None,
    *,
    until: str = "cubin",
    on_pass: OnPass | None = None,
    on_drop: OnDrop | None = None,
    tuned: bool = True,
) -> Compilation:
    """Compiles a program.

    The register estimates behind a schedule are estimates; ptxas is the judge. Where it spills, what was chosen here
    (never what the user decided) is chosen again, more modestly. So every stage but `scale` goes as far as the cubin:
    what is printed is the kernel that is shipped.

    Args:
        source: the program's text.
        target: a row of scalec.targets; the default target if None.
        dims: sizes of dimensions to fix; the others stay dynamic. One with a range does too: the schedule is chosen for
            the range's upper end, and the runtime refuses other sizes.
        schedule: decisions as text ({"tile": "128x128x128"}), over those of a `with` clause.
        until: one of STAGES: "scale" ends there; "nvvm" keeps that text, which the next stage rewrites in place.
        on_pass: called after each pass with its name, a function that gives the module's text, and its seconds.
        on_drop: called with each schedule that is dropped.
        tuned: whether the tuning database is asked (SCALEC_TUNING=off turns it off for all).

    Raises:
        ScalecError: any refusal, by the stage that found it.
    """
    if until not in STAGES:
        raise ScalecError(f"no stage {until!r:.80}", expected=", ".join(STAGES), fix=did_you_mean(until, STAGES))
    row = get_target(target or DEFAULT_TARGET)
    if until != "scale":
        lowering.check(row.name)  # before the passes refuse what a kernel that nobody can emit would need
    made = Compilation(source, row.name)
    with contexts.context():
        with made.timed("frontend"):
            module = frontend.build(source, dims)
            function = _function(module)
            given = schedules.asked(function, schedule)
            schedules.write(function, given)
        made.texts["scale"] = str(module)
        if until == "scale":
            return made
        text, attempt = made.texts["scale"], Attempt(tuned=tuned, convert=given.convert)
        slow: SlowKernelError | None = None
        while True:
            tried = given.with_fields(
                unroll=attempt.unroll or given.unroll,
                order=attempt.order or given.order,
                scheduler=attempt.scheduler or given.scheduler,
                adds=attempt.adds or given.adds,
                inputs=given.inputs if attempt.inputs is None else attempt.inputs,
                mma_n=attempt.mma_n or given.mma_n,
                permute_n=given.permute_n if attempt.permute_n is None else attempt.permute_n,
                epilogue=attempt.epilogue or given.epilogue,
                registers=attempt.registers or given.registers,
                stationary=given.stationary if attempt.stationary is None else attempt.stationary,
                convert=attempt.convert,
                split=attempt.split or given.split,
            )
            schedules.write(function, tried)
            try:
                _compile(made, module.operation.clone(), row, until, on_pass, attempt)
                break
            except UnsupportedError as error:
                following = attempt.further(given, made) if slow is not None and isinstance(error, ApartError) else None
                if following is None:
                    error.place = Source(source, frontend.NAME).shown(error.place)
                    raise
                attempt = following
                continue
            except SlowKernelError as error:
                if made.schedule is None and attempt.spilled < SPILLS:
                    attempt = replace(attempt, spilled=attempt.spilled + 1)
                    continue
                if made.schedule is None:  # nothing to choose again
                    error.fix = "compute it in several programs, of fewer tensors each"
                    raise
                error.fix = ", ".join([*_fewer_registers(made), error.fix])
                slow, reason, what = error, f"ptxas: {error.got}", str(made.schedule)
            except ScheduleError as error:  # a retry that does not suit what the user decided: the first refusal counts
                if made.tuned is None:
                    following = attempt.further(given, made) if slow is not None else None
                    if following is None:
                        refused = _apart(slow, given, made) if slow else _whose(error, given)
                        raise refused from (None if slow or refused is error else error)
                    attempt = following
                    continue
                slow, reason, what = None, error.message, made.tuned.text
            if made.tuned is not None:  # measured with another toolchain, it need not be known to this one
                attempt, reason, made.tuned = replace(attempt, tuned=False), f"tuned: {reason}", None
            else:
                assert slow is not None
                following = attempt.after(slow, given, made)
                if following is None:
                    raise _apart(slow, given, made)
                attempt = following
            made.dropped.append(Dropped(what, reason))
            if on_drop is not None:
                on_drop(made.dropped[-1])
        made.texts["scale"] = text
        if made.spec is not None:
            made.spec = replace(made.spec, dropped=tuple(made.dropped))
    return made


def _apart(slow: SlowKernelError, given: Request, made: Compilation) -> ScalecError:
    """What a program is refused for of which all kernels are slow: where another launch may quantise a result, that."""
    if given.decided() or not made.widest:
        return slow
    return ApartError(slow.message, got=slow.got, expected=slow.expected, fix=slow.fix, result=made.widest)


def _whose(error: ScheduleError, given: Request) -> ScalecError:
    """What a schedule is refused for: where the user decided nothing of it, the program."""
    if given.decided():
        return error
    return UnsupportedError(error.message, got=error.got, expected=error.expected, fix=error.fix)


def _fewer_registers(made: Compilation) -> list[str]:
    """Fields, with values, of which ptxas's kernel might take fewer registers than it has."""
    schedule = made.schedule
    assert schedule is not None
    return [
        *(f"mma_n={n}" for n in made.narrower[:1]),
        *(["unroll=1"] if schedule.unroll > 1 else []),
        *(["adds=memory"] if schedule.adds == "loaded" else []),
        *(["inputs=0"] if schedule.inputs else []),
        *(["permute_n=0"] if schedule.permute_n else []),
        *(["epilogue=direct"] if schedule.epilogue in ("rows", "turned") else []),
    ]


def _compile(made: Compilation, module: Any, row: Target, until: str, on_pass: OnPass | None, attempt: Attempt) -> None:
    """One attempt: from a `scale` module with the user's schedule to the cubin."""
    with reading_once():
        kernel = _to_tile(made, module, row, on_pass, attempt)
    _to_ptx(made, kernel, row, until == "nvvm")
    with made.timed("ptxas"):
        assembled = ptxas.assemble(made.ptx, row.name, made.spec.schedule if made.spec else "")
    made.cubin, made.registers = assembled.cubin, assembled.registers


def _function(module: ir.Module) -> ir.OpView:
    return next(o for o in module.body.operations if o.operation.name == "func.func")


def _to_tile(made: Compilation, module: Any, row: Target, on_pass: OnPass | None, attempt: Attempt) -> ir.OpView:
    def after(name: str, module: ir.Module, seconds: float) -> None:
        made.times.append((name, seconds))
        if on_pass is not None:
            on_pass(name, lambda: str(module), seconds)

    def found(entry: Entry) -> None:
        made.tuned = entry

    changed = ChooseTiling(attempt.spare, attempt.search), RecallTuned(attempt.tuned, found), EmitTile(attempt.spilled)
    own = {p.name: p for p in (*changed, PlaceReductions(attempt.crowded))}
    *decisions, emit = (own.get(p.name, p) for p in PIPELINE)
    run_pipeline(module, row, passes=decisions, on_pass=after)
    interface = signature.Interface.of(_function(module), made.source, row.name)

    def emitted(
        launch: Callable[[ir.OpView], Launch], schedule: str, flops: tuple[str, ...], panes: int = 1
    ) -> ir.OpView:
        run_pipeline(module, row, passes=[emit], on_pass=after)
        made.texts["tile"] = str(module)
        kernel = next(o for o in module.body.operations if o.operation.name == "tile.kernel")
        made.spec = interface.spec(kernel, launch(kernel), schedule, flops, panes)
        return kernel

    if not contractions(_function(module)):
        flat = read_pointwise.read(_function(module), row)
        spread = Spread.of(flat)
        return emitted(lambda _: signature.launch_of_spread(flat, spread), str(spread), flat.flops)
    schedule = made.schedule = schedules.read(_function(module)).complete()
    problem = problem_of(_function(module), row, made.schedule)
    made.free = free_registers(problem, made.schedule)
    # of folds that lanes have rows of, threads hold as many sums with any tile
    made.step = 0 if joins_folds(problem, made.schedule) else sums_of_thread(problem, made.schedule) // 2
    made.narrower = narrower(problem, made.schedule)
    made.looped, made.folds = in_a_loop(problem, made.schedule), problem.column_fold is not None
    made.most = most_registers(problem, made.schedule)
    if attempt.registers is None:  # both are of what is chosen, not of one another
        made.fullest = fullest_registers(problem, made.schedule)
        made.converting = converting_registers(problem, made.schedule)
    made.widest = getattr(widest_blocks(problem), "name", "")
    several = [d for d in (problem.m, problem.n) if d.within and d.size is None and d.name not in interface.ranges]
    interface = interface.limited({d.name: _counted(d) for d in several} | longest(problem))
    return emitted(
        lambda kernel: signature.launch_of(kernel, problem, schedule),
        str(schedule),
        signature.flops_of(problem, interface.reads),
        problem.panes,
    )


def _counted(d: Dim) -> tuple[int, Limit]:
    """The most indices of a dimension that is walked as one with another."""
    reason = f"a kernel counts {d.name} and {d.within} as one index, in 32 bits"
    return MOST // d.inner, Limit(reason, f"call it for parts of {d.name}")


@contextmanager
def placed(source: str) -> Iterator[None]:
    """Refusals in the body show the line that they speak of; a pass has but its number."""
    try:
        yield
    except UnsupportedError as error:
        error.place = Source(source, frontend.NAME).shown(error.place)
        raise


def decide(
    source: str,
    target: str,
    dims: Mapping[str, Size] | None = None,
    schedule: Mapping[str, str] | None = None,
    *,
    tuned: bool = True,
) -> tuple[Schedule, tuple[str, ...]]:
    """What the passes decide for a program, without emitting it, and the names of its M, N and K and of its further
    dimensions (Problem.dims); arguments are those of `compile_source`.

    Raises:
        ScalecError: a refusal of the front end or of a pass.
    """
    problem, chosen, _ = decided(source, target, dims, schedule, tuned=tuned)
    return chosen, tuple(d.name for d in problem.dims)


def decided(
    source: str,
    target: str,
    dims: Mapping[str, Size] | None = None,
    schedule: Mapping[str, str] | None = None,
    *,
    tuned: bool = True,
) -> tuple[Problem, Schedule, Request]:
    """A program as what the passes decide sees it, what that is, and what the program and `schedule` do; likewise."""
    with contexts.context(), placed(source):
        module = frontend.build(source, dims)
        given = schedules.asked(_function(module), schedule)
        problem, chosen = decisions(module, get_target(target), given, tuned)
        return problem, chosen, given


def decisions(
    module: ir.Module, row: Target, given: Request, tuned: bool = True, found: Callable[[Entry], None] = lambda _: None
) -> tuple[Problem, Schedule]:
    """What all passes but the one that emits decide, on a copy of the module, and the program as that sees it.

    `found` is called with what the tuning database had and the passes could complete. As in `compile_source`, what they
    cannot complete is left, and the compiler chooses.

    Raises:
        ScheduleError: the fields given cannot be completed.
        UnsupportedError: the program has no contraction.
    """
    if not contractions(_function(module)):
        raise UnsupportedError(
            "the program has no contraction, so there is no schedule to choose",
            expected="a contraction, as A[m,k] @ B[n,k]",
            fix="scalec compile and scalec run take it as it is",
        )
    taken: list[Entry] = []
    copy = module.operation.clone()
    schedules.write(_function(copy), given)
    passes = [RecallTuned(tuned, taken.append) if isinstance(p, RecallTuned) else p for p in PIPELINE[:-1]]
    try:
        with reading_once():
            run_pipeline(copy, row, passes=passes)
            schedule = schedules.read(_function(copy)).complete()
            problem = problem_of(_function(copy), row, schedule)
    except ScheduleError as error:
        if not taken:
            refused = _whose(error, given)
            raise refused from (None if refused is error else error)
        return decisions(module, row, given, tuned=False)
    for entry in taken:
        found(entry)
    return problem, schedule


def has_schedule(source: str, dims: Mapping[str, Size] | None = None) -> bool:
    """Whether there is a schedule to choose for a program: whether it has a contraction."""
    with contexts.context():
        module = frontend.build(source, dims)
        return bool(contractions(_function(module)))


def given_fields(
    source: str, dims: Mapping[str, Size] | None = None, schedule: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The fields that a program's `with` and `schedule` decide, as text."""
    with contexts.context():
        module = frontend.build(source, dims)  # an op does not keep its module
        return schedules.asked(_function(module), schedule).texts()


def program_key(source: str, target: str, dims: Mapping[str, Size] | None = None) -> str:
    """What a program is to the tuning database (scalec.measured.key)."""
    with contexts.context():
        module = frontend.build(source, dims)
        run_pipeline(module, get_target(target), passes=find(FUSE))
        return describe(problem_of(_function(module), get_target(target), Request()))


def reached(source: str, target: str, dims: Mapping[str, Size] | None = None) -> dict[str, str]:
    """The dimensions without a size that indices read from memory alone reach, as `B_0` in `B[e[m/128],n,k]`: each with
    the dimension for each of which there is an index, "" where one is for many."""
    with contexts.context():
        module = frontend.build(source, dims)
        run_pipeline(module, get_target(target), passes=find(FUSE))
        problem = problem_of(_function(module), get_target(target), Request())
        own = {d.name for d in problem.dims}
        every = [(x, extent) for x in problem.lookups for extent in x.extents]
        return {
            d.name: x.dim if x.by_row and not x.paged else "" for x, d in every if d.size is None and d.name not in own
        }


def _to_ptx(made: Compilation, kernel: ir.OpView, row: Target, keep_nvvm: bool) -> None:
    with made.timed("lowering"):
        module = lowering.lower(kernel, row.name)
        contexts.verify(module, "lowering")
    if keep_nvvm:
        made.texts["nvvm"] = str(module)
    with made.timed("mlir-to-llvm"):
        llvm.to_llvm_dialect(module)
        text = llvm.to_llvm_ir(module)
    made.texts["llvm"] = text
    with made.timed("llvm-to-ptx"):
        made.texts["ptx"] = llvm.to_ptx(text, row.name, row.ptx_version)
