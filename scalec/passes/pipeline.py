"""The passes in order, and how they run: timed, and what they leave verified."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import zip_longest

from scalec.errors import ScalecError
from scalec.ir import context as contexts
from scalec.ir.mlir import ir
from scalec.passes.base import Decision, Pass, forget, reading_once
from scalec.passes.choose.dependent import ChooseDependent
from scalec.passes.choose.fix_order import FixOrder
from scalec.passes.choose.mma_n import ChooseMmaN
from scalec.passes.choose.parts import ChooseParts
from scalec.passes.choose.place_reductions import PlaceReductions
from scalec.passes.choose.recall_tuned import RecallTuned
from scalec.passes.choose.scheduler import ChooseScheduler
from scalec.passes.choose.split import ChooseSplit
from scalec.passes.choose.stages import ChooseStages
from scalec.passes.choose.stream_results import StreamResults
from scalec.passes.choose.swizzle import ChooseSwizzle
from scalec.passes.choose.tile_order import TileOrder
from scalec.passes.choose.tiling import ChooseTiling
from scalec.passes.choose.warp_specialize import WarpSpecialize
from scalec.passes.emit.kernel import EmitTile
from scalec.passes.fuse.cse import EliminateCommonSubexpressions
from scalec.passes.fuse.epilogue import FuseEpilogue
from scalec.passes.fuse.infer_roles import InferRoles
from scalec.passes.fuse.join_products import JoinProducts
from scalec.passes.fuse.sum_exponentials import SumExponentials
from scalec.passes.fuse.views import TakeViews
from scalec.passes.plan.check_schedule import CheckSchedule
from scalec.suggestions import did_you_mean
from scalec.targets import DEFAULT_TARGET, Target, get_target

PIPELINE: list[Pass] = [
    TakeViews(),
    InferRoles(),
    FuseEpilogue(),
    JoinProducts(),
    EliminateCommonSubexpressions(),
    SumExponentials(),
    PlaceReductions(),
    RecallTuned(),
    StreamResults(),
    FixOrder(),
    ChooseTiling(),
    ChooseSplit(),
    ChooseScheduler(),
    ChooseDependent(),
    ChooseSwizzle(),
    WarpSpecialize(),
    ChooseMmaN(),
    ChooseParts(),
    ChooseStages(),
    TileOrder(),
    CheckSchedule(),
    EmitTile(),
]


FUSE = ("take-views", "infer-roles", "fuse-epilogue", "join-products", "cse", "sum-exponentials", "place-reductions")
"""Those after which a program can be read (scalec.passes.base.problem_of)."""


def find(names: Sequence[str]) -> list[Pass]:
    """The passes of PIPELINE with these names, in the order given.

    Raises:
        ScalecError: no such pass.
    """
    known = {p.name: p for p in PIPELINE}
    for name in names:
        if name not in known:
            raise ScalecError(f"no pass {name!r:.80}", expected=", ".join(known), fix=did_you_mean(name, known))
    return [known[name] for name in names]


def run_pipeline(
    module: ir.Module,
    target: Target,
    *,
    passes: Sequence[Pass] | None = None,
    on_pass: Callable[[str, ir.Module, float], None] | None = None,
) -> None:
    """Runs `passes` (all of PIPELINE, unless given) on `module`, in place, and verifies it after each, but after those
    that decide fields in a row, which change the schedule alone, once.

    `on_pass(name, module, seconds)` is called after each pass.

    Raises:
        UnsupportedError, ScheduleError: from a pass.
        IRError: a pass left an invalid module.
    """
    chosen = PIPELINE if passes is None else passes
    with reading_once():
        for step, following in zip_longest(chosen, chosen[1:]):
            start = time.perf_counter()
            step.run(module, target)
            seconds = time.perf_counter() - start
            if not _only_decides(step):
                forget()
            if not (_only_decides(step) and _only_decides(following)):
                contexts.verify(module, step.name)
            if on_pass is not None:
                on_pass(step.name, module, seconds)


def _only_decides(step: Pass | None) -> bool:
    """Whether a pass changes the schedules of programs alone."""
    return isinstance(step, Decision | CheckSchedule)


def opt(text: str, passes: Sequence[str], target: str = DEFAULT_TARGET, name: str = "<module>") -> str:
    """The module in `text`, which messages call `name`, after the named passes, as text: what `scalec opt` prints.

    Raises:
        IRError: `text` is not a valid module, or a pass left an invalid one.
        ScalecError: no such pass or target, or a refusal of a pass.
    """
    chosen, row = find(passes), get_target(target)
    with contexts.context():
        module = contexts.parse(text, name)
        for step in chosen:
            try:
                run_pipeline(module, row, passes=[step])
            except ScalecError:
                raise
            except Exception as error:  # IR that no front end of ours wrote: an attribute is missing or of another kind
                raise contexts.IRError(
                    f"{step.name} cannot read the module",
                    got=f"{type(error).__name__}: {error}",
                    expected="a module as `scalec compile --emit scale` prints it, after the passes before this one",
                ) from error
        return str(module)
