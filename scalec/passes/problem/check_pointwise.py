"""What no kernel has of a program without a contraction, once it is known which index lies side by side."""

from __future__ import annotations

from math import lcm
from typing import Any

from scalec.errors import UnsupportedError
from scalec.formats import PACKED_BITS, TRANSFORMED
from scalec.ir.location import place_of
from scalec.passes.problem.access import Coord, Domain, Index, Lookup
from scalec.passes.problem.pointwise import Blocks, Output, Pointwise, dims_of
from scalec.targets import Target

SHARED = 8
"""Columns, a multiple, of which each reads one element of what has another index last: a warp's threads then have few
sectors of it."""


class PointwiseChecks:
    """Of the walk over one function; each method refuses what it is named after."""

    target: Target
    function: Any

    def refused(self, what: str, at: Any, expected: str, fix: str = "compute it outside the program") -> Exception:
        """An error that says what this target has no kernel for."""
        return UnsupportedError(
            f"{what}, which has no kernel on {self.target.name} yet", expected=expected, fix=fix, place=place_of(at)
        )

    def check(self, p: Pointwise) -> None:
        """Refuses what threads that share out rows as they lie in memory do not have: results and sums of other
        indices, and reads whose rows a warp's threads would be in, one each: every load would be of as many sectors."""
        lookups, columns = {x.name: x for x in p.lookups}, p.columns.name
        rows, largest = {d.name for d in p.rows}, max(p.outputs, key=lambda o: len(o.coords))
        for o in (x for x in p.outputs if x.copied is not None and not (p.copies and walked_alike(x, p.outputs[0]))):
            what = f"{o.name}, scales that are copied, beside results that are computed, or read in another order"
            fix = f"copy them by a program of their own: {o.name} alone"
            raise self.refused(what, self.function, "scales of the same indices alone", fix)
        for o in p.outputs:
            own = set(o.dims)
            if own not in (rows, {*rows, columns}) or (p.is_turned(o) and o.dims[-1] != p.rows[-1].name):
                raise self.refused(
                    f"{o.name} has the indices {', '.join(o.dims)}, and other results have "
                    f"{', '.join((*(d.name for d in p.rows), columns))}",
                    self.function,
                    f"the same, {columns} or {p.rows[-1].name if p.rows else columns} last, or all but {columns}",
                    f"compute {o.name} in a program of its own",
                )
            if not p.is_row(o) and o.coords[-1] == Coord():
                what = f"{o.name}, which has 0 as its last index and {columns} before"
                raise self.refused(what, self.function, "0 in front of the others, or for each row")
            if p.is_row(o) and (o.scale is not None or o.element.bits < 8):
                what = f"{o.name} has an element a row, and is quantised, or of {o.element.name}"
                raise self.refused(what, self.function, "a type of whole bytes, without scales")
            along = any(c.dim == columns for x in p.lookups for c in x.index.coords)
            if p.is_turned(o) and along:
                raise self.refused(
                    f"{o.name} with another last index than what it is computed of, and an index from memory for each "
                    f"{columns}",
                    self.function,
                    f"{columns} last, or an index for each {p.rows[-1].name}",
                    f"compute {o.name} of a copy in a program of its own",
                )
            if p.is_turned(o) and p.apart is not None:
                self.check_beginnings(p, o, p.apart)
            if o.hadamard and (p.is_row(o) or along):
                what = "has an element a row" if p.is_row(o) else f"is read at an index from memory for each {columns}"
                raise self.refused(
                    f"{o.name}, which is transformed and {what}", self.function, f"{columns} last, plain"
                )
            alone = all(p.of_row(p.reductions[i]) for i in o.body.all_sums)
            if p.is_row(o) and not (alone and all(columns not in x.dims(lookups) for x in o.body.all_reads)):
                raise self.refused(
                    f"{o.name} has an element a row, and is computed of what changes along {columns}",
                    self.function,
                    f"reductions over {columns}, and tensors without it",
                )
            if p.named_by(o) != p.named_by(p.outputs[0]):
                names = " and ".join(sorted(p.named_by(o) ^ p.named_by(p.outputs[0])))
                raise self.refused(
                    f"{o.name} and {p.outputs[0].name}, of which one is not written where {names} names nothing",
                    self.function,
                    "the same indices from memory for all results",
                    f"compute {o.name} in a program of its own",
                )
            self.check_result_blocks(p, o, lookups)
        self.check_copied(p)
        self.check_ranges(p, rows)
        self.check_windows(p, rows)
        if any(r.within is not None and not p.of_row(r) for r in p.reductions) and p.folds is None:
            what = (
                "a sum over a range, beside others, or for a result that is quantised, of less than a byte, or read at"
            )
            raise self.refused(f"{what} an index from memory", self.function, "sums over one range, and plain results")
        for r in p.reductions:
            if r.dim.name in rows:
                raise self.refused(
                    f"a {r.kind} over {r.dim.name}, an index of the results that is not their last",
                    self.function,
                    f"a {r.kind} over {columns}, or over an index that no result has",
                    "compute it in a program of its own",
                )
            if not r.kept <= {*rows, columns}:
                names = " and ".join(sorted(r.kept - {*rows, columns}))
                what = f"a {r.kind} for each {names}, which no result has"
                raise self.refused(what, self.function, "indices of results")
        self.check_halves(p)
        for x in p.every:
            if any(level.columns for level in x.levels) and not x.adjacent(columns, lookups):
                what = f"{x.name} has scales along its last index, and is not read along {columns} there"
                raise self.refused(what, self.function, f"{columns} as its last index")
            if beyond := x.dims(lookups) - {d.name for d in (*p.dims, *p.groups)}:
                names = " and ".join(sorted(beyond))
                raise self.refused(
                    f"{x.name} is read along {names}, which neither the result nor its sum has",
                    self.function,
                    "a sum over each other index",
                )
            last = dims_of(x.coords[-1], lookups) if x.coords else set()
            if columns in x.dims(lookups) and columns not in last and x.same(columns, lookups) % SHARED:
                raise self.refused(
                    f"{x.name} is read along {columns}, the last index of {largest.name}, and has another one last",
                    self.function,
                    f"{columns} last in {x.name} too",
                    f"pass a copy of {x.name} that has {columns} last",
                )

    def check_copied(self, p: Pointwise) -> None:
        """Refuses scales that are copied of which one is of several indices of a third dimension, or in an order that
        no thread walks, or that tiles of groups have which results tell apart."""
        outer = {d.name for d in p.rows[:-1]}
        for o in (x for x in p.outputs if x.copied is not None):
            if any(c.divisor > 1 and c.dim in outer for c in (o.copied.every if o.copied else ())):
                what = f"{o.name}, scales of blocks of several indices of {' or '.join(sorted(outer))}"
                fix = f"write one index for each such block, as all of {' and '.join(sorted(outer))} are copied"
                raise self.refused(what, self.function, f"blocks of {p.rows[-1].name} and {p.columns.name}", fix)
        for d in p.by_tile if p.copies else ():
            if d.group not in {x.name for x in p.groups}:
                what = f"scales that are copied along {d.dim}, whose groups are apart and an index of them"
                fix = f"leave {d.group} out of the result, in which each group then has scales of its own"
                raise self.refused(what, self.function, f"results without {d.group}", fix)

    def check_beginnings(self, p: Pointwise, o: Output, d: Domain) -> None:
        """Refuses groups that are apart and may begin within a byte of a turned result, or within what is transformed
        together: two CTAs would have some of it."""
        least = TRANSFORMED if o.hadamard else o.element.unit
        if d.step % least == 0:
            return
        size = least * o.element.bits // 8
        shared = f"share {'a byte' if size == 1 else f'{size} bytes'}"
        shared = "are transformed together" if o.hadamard else shared
        what = (
            f"{o.name} with another last index than what it is computed of, whose groups may begin anywhere, where "
            f"{least} elements {shared}"
        )
        fix = f"promise that they begin at multiples: for {d.dim} in ... by {lcm(d.step, least)} apart"
        raise self.refused(what, self.function, f"groups that begin at multiples of {least}", fix)

    def check_halves(self, p: Pointwise) -> None:
        """Refuses elements of which several share a byte where threads have one at a time, but for those of 4 bits that
        are read."""
        halves = [x for x in p.every if x.element.bits < 8 and x.element.bits != PACKED_BITS]
        alone = [x for x in halves if not p.along(x)]
        halves += [o for o in p.outputs if o.element.bits < 8]
        if not halves or not (alone or p.single):
            return
        found, last = (alone or halves)[0], p.columns.name
        raise self.refused(
            f"{found.name} of {found.element.name}, of which threads have one element each",
            self.function,
            f"a type of whole bytes, or {last} itself last in {found.name} and in all that changes with {last}",
            f"pass {found.name} in a type of whole bytes" if alone else f"pass copies of what has not {last} last",
        )

    def check_result_blocks(self, p: Pointwise, o: Output, lookups: dict[str, Lookup]) -> None:
        """Refuses scales of several rows where no thread knows which of these there are."""
        scale, why, fix = o.scale, "", "compute it outside the program"
        if scale is None or (scale.rows == 1 and scale.largest is None and not scale.beside):
            return
        several = "along its last index" if scale.beside else "of several rows"
        if scale.beside and (not p.is_turned(o) or o.coords[-1].dim in lookups):
            why = f"in blocks along {o.dims[-1]}, whose groups are apart, of what has {o.dims[-1]} last, too"
            fix = f"compute it of a copy that has another index than {o.dims[-1]} last"
        elif p.skips and scale.largest is not None and (scale.rows != 1 or p.is_turned(o)):
            if not self.left_out_within(p, o, scale):
                why = "by magnitudes that are given, of rows of which some may be left out"
        elif p.skips and not scale.rows:
            why = "in blocks of several rows, of which some may be left out"
        elif scale.rows > 1 and o.coords[-2].dim in lookups:
            why = "in blocks of several rows, which are scattered"
            fix = (
                "gather: read what it is of at an index that names, for each row of the result, the one that goes there"
            )
        elif p.apart is not None and p.apart.group not in {d.name for d in p.groups}:
            why = f"in blocks {several}, whose groups are apart and an index of it"
        if why:
            raise self.refused(f"{o.name} quantised {why}", self.function, "blocks of one row, or all rows", fix)

    def left_out_within(self, p: Pointwise, o: Output, scale: Blocks) -> bool:
        """Whether what leaves rows out leaves a part of a block out, whichever: blocks are of all indices that it is
        of, so that each has a scale whatever it leaves."""
        blocks = (*scale.leading, scale.rows, scale.columns)[-len(o.coords) :]
        spanned = {c.dim for c, size in zip(o.coords, blocks, strict=True) if not size}
        of_all = not scale.columns if p.is_turned(o) else not scale.rows
        ranges = all(d.dim in spanned for d in p.domains)
        named = all(dims_of(Coord(x.name), {x.name: x}) & spanned for x in p.gates)
        return of_all and ranges and named and p.apart is None

    def check_windows(self, p: Pointwise, rows: set[str]) -> None:
        """Refuses what is left out, or filled, where ends are read at another index than rows, or elements share what
        is written."""
        columns, every = p.columns.name, (*p.outputs, *p.reductions)
        for o in p.outputs:
            shared = "quantised" if o.scale else "transformed" if o.hadamard else "of less than a byte"
            if o.within and (o.scale or o.hadamard or o.element.bits < 8):
                what = f"{o.name}, which is {shared}, in a range of {columns}, which may end within what is together"
                raise self.refused(what, self.function, "all of it", f"fill the rest: for {columns} in ... else 0")
            if o.within and p.is_turned(o):
                what = f"{o.name} with another last index than what it is computed of, in a range of {columns}"
                raise self.refused(what, self.function, f"{columns} last", "fill the rest (else)")
        if any(r.body.filled and not p.of_row(r) for r in p.reductions):
            what = f"a reduction of what is filled outside a range (else), over another index than {columns}"
            raise self.refused(what, self.function, "a range without else: what is outside then is no term")
        own = [d for o in p.outputs for d in o.within] + [r.within for r in p.reductions if r.within and p.of_row(r)]
        for d in (*own, *(d for x in every for body in x.body.every for d in body.within)):
            if d.dim not in (*rows, columns) or not set(d.groups) <= rows:
                what = f"a range of {d.dim}" + f" for each {' and '.join(d.groups)}" * bool(d.group)
                filled = ", outside of which it is filled (else)" if d not in own else ""
                each = f"one for each {' or '.join(sorted(rows))}, or for all" if rows else "one for all"
                raise self.refused(what + filled, self.function, each)
        if any(x.body.filled for x in every) and p.lookups:
            what = "what is filled outside a range (else) beside an index from memory, which may leave rows out"
            raise self.refused(what, self.function, "one of them", "gather, or fill, in a program of its own")

    def check_ranges(self, p: Pointwise, rows: set[str]) -> None:
        """Refuses ranges of other indices than rows, and lookups that a row has several of and is reduced over."""
        for d in p.domains:
            shared = {*d.beside} <= rows and d.group != p.columns.name and follow_one_another(d)
            told = set(d.groups) <= rows or shared
            if d.dim not in {*rows, *[p.columns.name] * p.copies} or not told:
                what = f"a range of {d.dim}" + (f" for each {' and '.join(d.groups)}" if d.group else "")
                raise self.refused(what, self.function, f"one of {' or '.join(sorted(rows))}, for each of these")
        shared = [d.group for d in p.domains if d.group in {x.name for x in p.groups}]
        if twice := {x for x in shared if shared.count(x) > 1}:
            (g, *_), dims = sorted(twice), " and ".join(d.dim for d in p.domains)
            fix = f"write {g} into the result, which then has what is of both ranges of each {g}"
            raise self.refused(f"ranges of {dims} for each {g}, which no result has", self.function, f"{g} in it", fix)
        groups, looked_up = {d.name for d in p.groups}, {c.dim for x in p.lookups for c in x.index.coords}
        if several := groups & (looked_up | {r.dim.name for r in p.reductions}):
            what = f"an index from memory for each {' and '.join(several)}, or a sum over it, beside its ranges"
            raise self.refused(what, self.function, "tensors that have it")
        columns = p.columns.name
        if any(map(p.of_row, p.reductions)) and any(c.dim == columns for x in p.lookups for c in x.index.coords):
            what = f"reductions over {columns} beside an index from memory for each {columns}"
            raise self.refused(what, self.function, "an index from memory for each row")


def walked_alike(one: Output, other: Output) -> bool:
    """Whether results that copy scales have the same indices and blocks."""
    a, b = one.copied, other.copied
    return (
        one.dims == other.dims and a is not None and b is not None and all(a.block(d) == b.block(d) for d in one.dims)
    )


def follow_one_another(d: Domain) -> bool:
    """Whether a range's groups begin where one index of a tensor says, each where the one before ends."""
    if not isinstance(d.low, Index) or not d.follows:
        return False
    own = [c for c in d.low.coords if c.dim == d.group]
    return own == [Coord(d.group, offset=own[0].offset)]
