"""Programs that take several launches: which, and the program of each (scalec.frontend.cut)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from scalec.errors import ApartError, ScheduleError, SourceError, UnsupportedError
from scalec.formats import ELEMENT_TYPES
from scalec.sizes import Range, Size

if TYPE_CHECKING:
    from scalec.ir.mlir import ir
    from scalec.ir.schedule import Schedule
    from scalec.passes.problem.types import Problem

APART = 3e-6
"""Seconds that a launch in front of a product takes beyond its bytes. H100, 2026-11-28: 16 and 256 rows of bf16
quantised by 1x128 before 8192x8192 and 7168x2048 took 3.3 to 4.2 us."""

GAIN = 1.35
"""What a launch before must be predicted to gain: it takes memory, and predictions are of an H200's, of which an H100
has two thirds. Of 8192x8192 by nvfp4 16 rows are predicted to gain 1.30 and lost 0.74 on an H100 (2026-11-28), 256 1.28
and 1.02, 512 1.69 and 1.42, 4096 2.49 and 2.19."""

_ROWS = re.compile(r"\bscale\s*\(\s*[\dx\s]*x\s*[A-Za-z_]|\bquantize\s*\(")
"""What every program with scales of whole rows, or operands that are quantised anew, has: others need not be parsed."""


@dataclass(frozen=True)
class Launches:
    """The launches of a program, in order; one that is the program itself where it takes no more.

    Attributes:
        texts: the program of each.
        between: what each but the last leaves to later ones that the program has no word for: sums in f32, or an
            operand with its scales.
        operands: names of what a caller passes, in the order of the program; empty for one launch.
        results: likewise of what a caller receives.
        main: which of them multiplies: what a schedule is given for.
    """

    texts: tuple[str, ...]
    between: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    main: int = 0


def may_be_several(source: str) -> bool:
    """Whether a program may take several launches, as far as that costs nothing to say."""
    return _ROWS.search(source) is not None


def launches(
    source: str,
    target: str,
    dims: Mapping[str, Size] | None = None,
    schedule: Mapping[str, str] | None = None,
    *,
    tuned: bool = True,
) -> Launches:
    """The launches that a program takes; arguments are those of scalec.compiler.decide.

    Of a result that no tile has whole rows of, the values reach memory in f32 and another launch quantises them: that
    is what the compiler's refusal asks for (ApartError), as often as there are such results; or what is predicted to be
    faster than the CTAs of a cluster that share rows, as where there are few of them, or a range has few. An operand
    that is quantised by whole rows is so in a launch before.

    Raises:
        ScalecError: a refusal of the compiler, of what no cut helps.
    """
    if not may_be_several(source):
        return Launches((source,))
    from scalec.frontend.cut import by_whole_rows, cut

    least = {name: size.low if isinstance(size, Range) else size for name, size in (dims or {}).items()}

    def decided(text: str, sizes: Mapping[str, Size] | None = least) -> _Decided:
        return _Decided.of(text, target, sizes, schedule, tuned)

    first, before, made = _operands_apart(source, target, dims, decided)
    texts, between = list[str](), list[str]()
    left = by_whole_rows(first)
    while left:
        refused = one = None
        try:
            one = decided(first, dims)
            apart = [x for x in one.shared if x in left][:1]
        except ApartError as error:
            refused, apart = error, [error.result] if error.result in left else []
        parts = cut(first, apart[0]) if apart else None
        if refused is not None and parts is None:
            raise refused
        if parts is None:
            break
        if one is not None and not decided(first).is_slower(partial(decided, parts.first)):
            break
        left.remove(apart[0])
        first = parts.first
        texts.append(parts.second)
        between.append(parts.between)
    if not before and not texts:
        return Launches((source,))
    operands, results = _names(source, dims)
    return Launches((*before, first, *texts), (*made, *between), operands, results, len(before))


def _operands_apart(
    source: str, target: str, dims: Mapping[str, Size] | None, decided: Callable[..., _Decided]
) -> tuple[str, list[str], list[str]]:
    """A program without operands that launches before quantise, the programs of these, and the names of what they
    leave; as it is where it then is refused, as the refusal is to be of what was written."""
    from scalec import compiler
    from scalec.frontend.cut_operands import cut_operand, quantised_operands

    text, before, between = source, list[str](), list[str]()
    try:
        quantised = quantised_operands(source)
        for name in sorted(quantised, key=quantised.__getitem__):  # what no tile has first
            parts = cut_operand(text, name)
            if parts is None and not quantised[name]:
                return source, [], []
            if parts is None or (quantised[name] and not _is_faster(text, parts.second, name, dims, decided)):
                continue
            text = parts.second
            before.append(parts.first)
            between.append(parts.between)
            compiler.compile_source(parts.first, target, of_later(parts.first, dims or {}), until="tile")
        if before:
            decided(text, dims)
    except ApartError:  # of a result, which is asked about next
        pass
    except (SourceError, UnsupportedError):
        return source, [], []
    return text, before, between


def _is_faster(
    text: str, second: str, name: str, dims: Mapping[str, Size] | None, decided: Callable[..., _Decided]
) -> bool:
    """Whether a program is, of which a launch quantises the operand `name` before, than that in one kernel, by GAIN;
    over a range of sizes, whether the former is at its worst less behind the latter than the latter is."""
    ends = [{x: getattr(s, end, s) for x, s in (dims or {}).items()} for end in ("low", "high")]
    gains = list[float]()
    try:
        for sizes in ends if ends[0] != ends[1] else ends[:1]:
            one = decided(text, sizes)
            if one.converts:
                return False
            gains.append(one.seconds / (decided(second, sizes).seconds + one.quantised(name)))
    except (ApartError, ScheduleError, SourceError, UnsupportedError):  # of what cannot be apart, or is anyway
        return False
    return max(gains) * min(gains) > GAIN**2


@dataclass(frozen=True)
class _Decided:
    """What the compiler decides for a program.

    Attributes:
        problem, schedule: the program, as that sees it.
        shared: the results whose rows CTAs of a cluster share, unless the cluster was asked for.
        converts: whether it was said where operands are converted.
    """

    problem: Problem
    schedule: Schedule
    shared: list[str]
    converts: bool = False

    @staticmethod
    def of(
        source: str, target: str, dims: Mapping[str, Size] | None, schedule: Mapping[str, str] | None, tuned: bool
    ) -> _Decided:
        """Arguments are those of `launches`."""
        from scalec import compiler

        problem, chosen, given = compiler.decided(source, target, dims, schedule, tuned=tuned)
        shared = [r.name for r in problem.results if r.scale is not None and r.scale.ctas > 1]
        shared = shared if given.cluster is None else []
        return _Decided(problem, chosen, shared, given.convert is not None)

    @property
    def seconds(self) -> float:
        """The predicted time of a launch."""
        from scalec.model.predict import Prediction

        prediction = Prediction.of(self.problem, self.schedule, self.problem.sizes())
        return prediction.seconds if prediction.fitted is None else prediction.fitted

    def quantised(self, name: str) -> float:
        """The predicted time of a launch that quantises an operand."""
        from scalec.passes.problem.access import elements

        every = [y for x in self.problem.products for side in (x.lhs, x.rhs) for y in side.panes]
        operand = next(x for x in every if x.name == name)
        moved = elements(operand.coords, self.problem.sizes()) * (operand.stored.bits + operand.element.bits) / 8
        return APART + moved / self.problem.target.rates.memory

    def is_slower(self, other: Callable[[], _Decided]) -> bool:
        """Whether this takes longer than another program, of which one result in f32 is then read and quantised."""
        if not self.shared:
            return False
        from scalec.passes.problem.access import elements

        try:
            apart = other()
        except ScheduleError:  # of fields that the other cannot have
            return False
        rates, (result,) = self.problem.target.rates, (r for r in self.problem.results if r.name in self.shared[:1])
        count = elements(result.coords, self.problem.sizes())
        moved = ELEMENT_TYPES["f32"].bytes(count) + result.element.bytes(count)
        return apart.seconds + rates.launch + moved / rates.memory < self.seconds


def of_later(text: str, dims: Mapping[str, Size]) -> dict[str, Size]:
    """The sizes that a later launch's program speaks of."""
    return {name: size for name, size in dims.items() if re.search(rf"\b{re.escape(name)}\b", text)}


def told(every: Launches, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """For people: a line for each launch of several, and the bytes between them at these sizes."""
    if len(every.texts) == 1:
        return ()
    lines = [f"launch {i} of {len(every.texts)}: {' '.join(text.split())}" for i, text in enumerate(every.texts, 1)]
    for i, name in enumerate(every.between):
        where = i if i < every.main else i + 1  # who leaves an operand to the others, or reads what is left to it
        (at, kind), *_ = re.findall(rf"\b{name}(\[.*?\]):(\w+)", every.texts[where])
        count = prod(sizes[dim] for dim in set(re.findall(r"\w+", at)) if dim in sizes)
        said = "between it and those behind it" if i < every.main else "between them"
        moved = ELEMENT_TYPES[kind].bytes(count) / 1e6
        lines[where] += f" ({said} {name}, {moved:.1f} MB, written and read once)"
    return tuple(lines)


def _names(source: str, dims: Mapping[str, Size] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a program's operands and results, in order: of += among the results alone, as a kernel has them."""
    from scalec import frontend
    from scalec.ir import context as contexts
    from scalec.ir.mlir import ir

    def read(attributes: ir.Attribute) -> tuple[str, ...]:
        return tuple(ir.StringAttr(ir.DictAttr(x)["scale.name"]).value for x in ir.ArrayAttr(attributes))

    with contexts.context():
        module = frontend.build(source, dims)  # an op does not keep its module
        function = module.body.operations[0]
        results = read(function.attributes["res_attrs"])
        return tuple(x for x in read(function.attributes["arg_attrs"]) if x not in results), results
