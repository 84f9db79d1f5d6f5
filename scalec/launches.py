"""Programs that take several launches: which, and the program of each (scalec.frontend.cut)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from scalec.decided import Decided
from scalec.errors import ApartError, ScheduleError, SourceError, SumApartError, UnsupportedError
from scalec.formats import ELEMENT_TYPES, FORMATS
from scalec.sizes import AnySize, Size, axis_of, of_later, speaks_of
from scalec.targets import get_target

if TYPE_CHECKING:
    from scalec.frontend.cut import Cut
    from scalec.ir.mlir import ir

GAIN = 1.2
"""What a launch before must be predicted to gain: it takes memory, and predictions are off by as much. On an H100
(2026-11-28) 16 rows by 8192x8192 of nvfp4 are predicted to gain 0.93 and gained 0.74, 256 1.03 and 1.01, 512 1.46 and
1.39, 4096 2.42 and 1.97; eight groups of 30 and 128 rows by 7168x2048 1.27 and 0.92, 1.33 and 1.21."""

FEW = 8
"""Registers beyond which nothing spilled that ptxas left no tile: of 100 programs with quantised results, sm_90a and
sm_100a (ptxas 13.0, 2026-11-29), two were refused for all kernels and one had its third, all estimated to leave 8."""

BEFORE = "before"
"""The value of the schedule's field `convert` that asks for launches before a product, whatever is predicted."""

WIDE = "bf16"
"""What operands with scales of a byte may be made."""

_FORMATS = "|".join(x.name for x in FORMATS.values() if ELEMENT_TYPES[x.lhs[0].type].bits == 8)
_ROWS = re.compile(
    rf"\bscale\s*\([^()=]*\)\s*=|:\s*({'|'.join(FORMATS)})\s*="
    rf"|\bscale\s*\(\s*(tensor\b|[\dA-Za-z_]*x\s*[A-Za-z_]|[A-Za-z_]\w*x\d)|\bquantize\s*\(|\bue[48]m|:\s*({_FORMATS})\b"
    r"|,\s*(?P<last>\w+)\s*\](\s*:\s*\w+)?[\s)]*@(?![^@;]*,\s*(?P=last)\s*\])|\b(sum|max|min)\s*\["
    r"|@[^@]*@[^@]*[+-]|@[^@]*[+-][^@]*@"
)
"""What every program with quantised results, with scales of a byte, with operands that are quantised anew, or that
differ in their last index, with reductions, or with products that are added up, has: others need not be parsed."""


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
        lookups: dimensions of tensors that are read by indices from memory, as the program and the main launch call
            them: `B_0` of what a launch before quantised, `B_e4m3_0`.
        turned: operands, all scales, that the main launch reads with their last two indices exchanged: what it calls
            them, and what the program does.
    """

    texts: tuple[str, ...]
    between: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    main: int = 0
    lookups: tuple[tuple[str, str], ...] = ()
    turned: tuple[tuple[str, str], ...] = ()

    def sizes(self, launch: int, dims: Mapping[str, AnySize]) -> dict[str, AnySize]:
        """What is said of a program's dimensions, as one of its launches calls them."""
        from scalec.frontend.cut_reductions import multiplies

        text = self.texts[launch]
        if len(self.texts) == 1 or (launch == self.main and multiplies(text)):
            called = dict(self.lookups)
            own = of_main if len(self.texts) == 1 else of_later
            return own(text, {called.get(name, name): size for name, size in dims.items()})
        return of_later(text, dims)

    def schedule(self, launch: int, given: Mapping[str, str]) -> dict[str, str]:
        """What is decided for a program, as one of its launches has it."""
        if len(self.texts) == 1:
            return dict(given)
        mine = given if launch == self.main else {}
        return {name: value for name, value in mine.items() if (name, value) != ("convert", BEFORE)}


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
    compiles: Callable[[str, Mapping[str, Size], Mapping[str, str]], object] | None = None,
    doubtful: bool = False,
) -> Launches:
    """The launches that a program takes; arguments are those of scalec.compiler.decide.

    Of a result that no tile has whole rows, or blocks, of, the values reach memory in f32 and another launch quantises
    them: that is what the compiler's refusal asks for (ApartError), as often as there are such results; or what is
    predicted to be faster than the CTAs of a cluster that share rows, as where there are few of them, or a range has
    few. An operand that is quantised by whole rows is so in a launch before; a reduction over the rows of all groups is
    that of what each group has, by the launch behind.

    Args:
        compiles: compiles a text with quantised results, with sizes and decisions: ptxas may leave it no tile, which is
            an ApartError, too.
        doubtful: whether it is asked of those alone whose schedule leaves at most FEW registers.

    Raises:
        ScalecError: a refusal of the compiler, of what no cut helps.
    """
    if not may_be_several(source):
        return Launches((source,))
    from scalec.frontend.cut import by_whole_rows, cut, quantised, without
    from scalec.frontend.cut_groups import cut_groups, reduced
    from scalec.frontend.cut_reductions import multiplies
    from scalec.frontend.cut_sums import INVARIANT

    whole, decisions = without(source, "convert", BEFORE), dict(schedule or {})
    before = whole != source or decisions.get("convert") == BEFORE
    if before:
        decisions.pop("convert", None)
    known = dict[tuple[str, tuple[tuple[str, Size], ...]], Decided]()

    def decided(text: str, sizes: Mapping[str, Size]) -> Decided:
        key = text, tuple(sizes.items())
        if key not in known:
            own = sizes if text == whole else of_later(text, sizes)
            known[key] = Decided.of(text, target, own, decisions, tuned)
        return known[key]

    given = dict(dims or {})
    if not multiplies(source):
        from scalec.reduced_apart import reduced_apart

        found = reduced_apart(source, target, given)
        return Launches(*found, *_names(source, given), len(found.between)) if found else Launches((source,))
    asked = _Asked(target, given, decided, before)
    made = _operands_apart(_Made(whole), asked)
    if not made.before and INVARIANT not in decisions:
        made = _sums_apart(made, asked)
    if before and not made.before:
        decided(whole, given)  # which may be refused for more
        return Launches((source,))
    first, sizes = made.text, made.sizes(given)
    least = _ends(sizes)[0]
    texts, between = list[str](), list[str]()
    left, rows, sums = quantised(first), by_whole_rows(first), reduced(first)
    while left or sums:
        try:
            one = decided(first, sizes)
            name = next((x for x in one.shared if x in left and x in rows), "")
            parts = cut(first, name) if name else None
            if parts is None or not decided(first, least).is_slower(partial(decided, parts.first, least)):
                if left and compiles is not None and (not doubtful or one.free <= FEW):
                    compiles(first, (of_main if first == whole else of_later)(first, sizes), decisions)
                break
        except ApartError as refused:
            name = refused.result
            parts = cut(first, name) if name in left else cut_groups(first, name) if name in sums else None
            if parts is None:
                raise
        (left if name in left else sums).remove(name)
        first = parts.first
        texts.append(parts.second)
        between.append(parts.between)
    if not made.before and not texts:
        return Launches((source,))
    operands, results = _names(source, given)
    before, every = len(made.before), (*made.before, first, *texts)
    return Launches(every, (*made.between, *between), operands, results, before, made.lookups, made.turned)


@dataclass(frozen=True)
class _Made:
    """What launches before a program make.

    Attributes:
        text: the program that reads it.
        before, between: the programs of these launches, and the names of what they leave.
        lookups, turned: see Launches.
    """

    text: str
    before: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
    lookups: tuple[tuple[str, str], ...] = ()
    turned: tuple[tuple[str, str], ...] = ()

    def also(self, parts: Cut, lookups: tuple[tuple[str, str], ...]) -> _Made:
        """This, and one launch more."""
        between, turned = (*self.between, parts.between), (*self.turned, *parts.turned)
        return _Made(parts.second, (*self.before, parts.first), between, (*self.lookups, *lookups), turned)

    def in_several(self, target: str, dims: Mapping[str, Size]) -> _Made:
        """This, where the last of its launches before takes several: of whole columns, say."""
        from scalec.reduced_apart import reduced_apart

        found = reduced_apart(self.before[-1], target, dims)
        if found is None or {*found.between} & {*self.between}:
            return self
        between = (*self.between[:-1], *found.between, self.between[-1])
        return replace(self, before=(*self.before[:-1], *found.texts), between=between)

    def sizes(self, dims: Mapping[str, Size]) -> dict[str, Size]:
        """What is said of a program's dimensions, as the one here calls them."""
        called = dict(self.lookups)
        return {called.get(name, name): size for name, size in dims.items()}


@dataclass(frozen=True)
class _Asked:
    """What is asked for.

    Attributes:
        target, dims: as the caller says them.
        decided: what the compiler decides for a text, with sizes.
        before: whether launches before are, whatever is predicted.
    """

    target: str
    dims: Mapping[str, Size]
    decided: Callable[[str, Mapping[str, Size]], Decided]
    before: bool = False


def _operands_apart(source: _Made, of: _Asked) -> _Made:
    """A program without operands that launches before quantise or convert: those that no kernel finds the blocks of,
    and others where that is faster; as it is where it then is refused, as the refusal is to be of what was written."""
    from scalec.frontend.cut_operands import quantised_operands

    made, quantised = source, dict[str, bool]()
    try:
        quantised = quantised_operands(made.text)
        for name in sorted(quantised, key=quantised.__getitem__):  # what no kernel finds first
            if also := _also(made, name):
                also = also.in_several(of.target, of.dims)
                if not quantised[name]:
                    _compile_before(also, of)
                elif not _is_faster({name: 0}, made, also, of):
                    continue
                made = _written_turned(made, also, name, of)
            elif not quantised[name]:
                return source
        made = _widened(made, of)
        made = _stored_turned(made, of)
        if made.before:
            of.decided(made.text, made.sizes(of.dims))
    except ApartError:  # of a result, which is asked about next
        pass
    except (SourceError, UnsupportedError):
        return source
    except ScheduleError:
        if not all(quantised.values()):
            raise
        return source  # of fields that are for the one kernel, whose refusal is told
    return made


def _sums_apart(source: _Made, of: _Asked) -> _Made:
    """A program without the products that no kernel adds to others, which launches before leave in f32; as it is where
    it then is refused for more."""
    from scalec.frontend.cut_reductions import said
    from scalec.frontend.cut_sums import cut_sum, differ

    if not differ(source.text):
        return source
    made = replace(source, text=said(source.text))
    try:
        while True:
            try:
                of.decided(made.text, made.sizes(of.dims))
                break
            except SumApartError as refused:
                parts = cut_sum(made.text, refused.place) if refused.place is not None else None
                if parts is None:
                    return source
                made = made.also(parts, ())
                _compile_before(made, of, len(made.before) - 1)
    except ApartError:  # of a result, which is asked about next
        pass
    except (SourceError, UnsupportedError):
        return source
    return _operands_apart(made, of) if made.before else source


def _written_turned(before: _Made, made: _Made, name: str, of: _Asked) -> _Made:
    """A program of which a launch before quantises one operand more than `before`: with that stored the way round in
    which the target multiplies it, if that is faster."""
    from scalec.frontend.cut_operands import turned_operands

    if made.between[-1] not in turned_operands(made.text):
        return made
    also = _also(before, name, turns=True)
    also = also and also.in_several(of.target, of.dims)
    asked = replace(of, before=False)  # that asks for launches, not for their order
    return also if also and _is_faster({}, made, also, asked, len(before.before)) else made


def _also(made: _Made, name: str, becomes: str = "", turns: bool = False) -> _Made | None:
    """A program of which one operand more is made by a launch before; None where its text cannot be cut."""
    from scalec.frontend.cut_operands import cut_operand

    parts = cut_operand(made.text, name, becomes, turns)
    if parts is None:
        return None
    axes = dict.fromkeys(re.findall(rf"\b{name}_(\d+)\b", parts.first))
    return made.also(parts, tuple((f"{name}_{x}", f"{parts.between}_{x}") for x in axes))


def _compile_before(made: _Made, of: _Asked, since: int = 0) -> None:
    """Compiles the launches before a program, those from number `since` on.

    Raises:
        UnsupportedError, SourceError: one has no kernel.
    """
    from scalec import compiler

    for text in made.before[since:]:
        compiler.compile_source(text, of.target, of_later(text, of.dims), until="tile")


def _widened(made: _Made, of: _Asked) -> _Made:
    """A program of whose operands with scales of a byte, which the target has no instruction for, launches before make
    16 bits, if that is faster."""
    from scalec.frontend.cut_operands import scaled_operands

    applied = get_target(of.target).scale_types()
    names = [name for name, kinds in scaled_operands(made.text).items() if not kinds <= applied]
    also: _Made | None = made
    for name in names:
        also = also and _also(also, name, WIDE)
    bits = ELEMENT_TYPES[WIDE].bits
    return also if also and names and _is_faster(dict.fromkeys(names, bits), made, also, of) else made


def _stored_turned(made: _Made, of: _Asked) -> _Made:
    """A program of whose operands of e4m3, which the kernel turns as the target multiplies none so stored, launches
    before store all, or one, the other way round, if that is faster."""
    from scalec.frontend.cut_operands import TURNED, turned_operands

    names = [x for x in turned_operands(made.text) if x not in made.between]  # those are written so where it gains
    if not names:
        return made
    one = of.decided(made.text, made.sizes(_ends(of.dims)[0]))
    kept = {x.name for x in one.multiplied if not x.turned}
    names = [x for x in names if x not in kept]
    for some in dict.fromkeys([tuple(names), *((name,) for name in names)]):
        also: _Made | None = made
        for name in some:
            also = also and _also(also, name, TURNED)
        if also and some and _is_faster(dict.fromkeys(some, 0), made, also, of):
            return also
    return made


def _is_faster(names: Mapping[str, int], made: _Made, also: _Made, of: _Asked, since: int | None = None) -> bool:
    """Whether a program takes less time with launches before more, those from number `since` on, which then have
    kernels; of the other arguments says _is_predicted_faster."""
    if not _is_predicted_faster(names, made, also, of):
        return False
    try:
        _compile_before(also, of, len(made.before) if since is None else since)
    except (SourceError, UnsupportedError):
        return False
    return True


def _is_predicted_faster(names: Mapping[str, int], made: _Made, also: _Made, of: _Asked) -> bool:
    """Whether a program is, of whose operands `names` launches before make elements of so many bits (0: as many as the
    one kernel does), than that in one kernel, by GAIN, or is asked for, or is the only one that has kernels. Over a
    range of sizes, or of any M, whether the former is at its worst less behind the latter than the latter is."""
    low, high = _ends(of.dims)
    gains = list[float]()
    for sizes in (low, high) if low != high else (low,):
        try:
            one = of.decided(made.text, made.sizes(sizes))
        except (ApartError, ScheduleError):  # of a result, or of what was asked for: as it was written
            return False
        except UnsupportedError:
            return True
        if one.alone:
            return False
        try:
            other = of.decided(also.text, also.sizes(sizes))
        except (ScheduleError, UnsupportedError):
            return False
        if of.before:
            return True
        m = one.problem.m
        for rows in ({}, {m.name: 1}) if m.size is None and low == high else ({},):
            before = sum(one.before(name, bits, rows) for name, bits in names.items())
            gains.append(one.seconds(rows) / (other.seconds(rows) + before))
    return max(gains) * min(gains) > GAIN**2


def _ends(dims: Mapping[str, Size]) -> tuple[dict[str, Size], dict[str, Size]]:
    """Sizes with the least of each range, and the largest."""
    low, high = ({x: getattr(size, end, size) for x, size in dims.items()} for end in ("low", "high"))
    return low, high


def of_main(text: str, dims: Mapping[str, AnySize]) -> dict[str, AnySize]:
    """The sizes of the launch that multiplies: all but of `D_0` where it does not write `D[idx[m],n]`."""
    return {name: size for name, size in dims.items() if not axis_of(name) or speaks_of(text, name)}


def told(every: Launches, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """For people: a line for each launch of several, and the bytes between them at these sizes."""
    if len(every.texts) == 1:
        return ()
    lines = [f"launch {i} of {len(every.texts)}: {' '.join(text.split())}" for i, text in enumerate(every.texts, 1)]
    for i, name in enumerate(every.between):
        where = i if i < every.main else i + 1  # who leaves an operand to the others, or reads what is left to it
        (at, kind), *_ = re.findall(rf"\b{name}(\[.*?\]):(\w+)", every.texts[where])
        dims = {dim for dim in re.findall(r"\w+", at) if not dim.isdecimal()}
        said = "between it and those behind it" if i < every.main else "between them"
        count = math.prod(sizes[dim] for dim in dims) if dims <= sizes.keys() else None
        moved = f" {ELEMENT_TYPES[kind].bytes(count) / 1e6:.1f} MB," if count is not None else ""
        lines[where] += f" ({said} {name},{moved} written and read once)"
    for name, given in every.turned:
        lines[every.main] += f" ({name} is {given} with its last two indices exchanged)"
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
