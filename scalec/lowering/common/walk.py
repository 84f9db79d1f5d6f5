"""Which tiles a cluster takes, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_control import run_of
from scalec.lowering.builder import Builder
from scalec.lowering.common.control import NO_CLUSTER
from scalec.lowering.common.state import COMMON, State, first_of

_SMALL_BAND = 15
"""So many times the tiles along a dimension, at most 2^28 (8 of 2^31 elements each), are counted in 32 bits."""


@dataclass(frozen=True)
class Walk:
    """The order in which clusters of tiles are numbered.

    Attributes:
        tile, cluster: along M and N.
        blocks: clusters of tiles along M and N.
        by_n: whether M is walked within a band of `band` along N.
        inverses: those (see `inverse`) of the clusters of a band, and of the width of a band and of the last one, where
            they are made before a loop.
    """

    tile: tuple[int, ...]
    cluster: tuple[int, ...]
    blocks: tuple[ir.Value | int, ir.Value | int]
    by_n: bool
    band: int
    inverses: tuple[ir.Value | int, ...] = ()

    @staticmethod
    def of(s: State, op: ir.OpView) -> Walk:
        b = s.b
        (bm, bn), (cm, cn) = tile.ints_of(op.tile), tile.ints_of(op.cluster)
        blocks_m = b.ceildiv(b.ceildiv(s.get(op.m), bm), cm)
        blocks_n = b.ceildiv(b.ceildiv(s.get(op.n), bn), cn)
        return Walk((bm, bn), (cm, cn), (blocks_m, blocks_n), tile.str_of(op.order) == "n", tile.int_of(op.band))

    def clusters(self, s: State) -> ir.Value | int:
        return s.b.mul(*self.blocks)

    def corner(self, s: State, t: ir.Value) -> tuple[ir.Value | int, ir.Value | int]:
        """First row and column of this CTA's tile of cluster `t`."""
        return self.first(s, *self.place(s, t))

    def place(self, s: State, t: ir.Value) -> tuple[ir.Value | int, ir.Value | int]:
        """Which of the clusters along M and along N cluster `t` is."""
        b, (outer, band, per_band) = s.b, self._bands(s.b)
        of_band, whole, last = self.inverses or (None,) * 3
        index, within = divided(b, t, per_band, of_band)
        first = b.mul(index, band)
        if isinstance(outer, int) and isinstance(band, int) and outer % band == 0:
            along, rest = divided(b, within, band)
        else:
            width = b.min(b.sub(outer, first), band)
            own = None if whole is None or last is None else b.select(b.compare("eq", width, band), whole, last)
            along, rest = divided(b, within, width, own)
        across = b.add(first, rest)
        return (along, across) if self.by_n else (across, along)

    def _bands(self, b: Builder) -> tuple[ir.Value | int, ir.Value | int, ir.Value | int]:
        """Clusters across all bands, and across one, but for the last one; and how many it has."""
        inner, outer = self.blocks if self.by_n else self.blocks[::-1]  # a band holds `band` of outer
        # all clusters at most, of which there are fewer than 2^31
        band = b.min(outer, self.band) if self.band > _SMALL_BAND else self.band
        return outer, band, b.mul(inner, band)

    def changing(self, axis: int) -> tuple[int, ...]:
        """Which of the inverses change with the clusters along M (0) or N (1)."""
        if (axis == 0) == self.by_n:
            return (0,)
        return (0, 1, 2) if self.band > _SMALL_BAND else (2,)

    def hastened(self, s: State) -> Walk:
        """The same walk, with all that a loop over it need not compute anew."""
        outer, band, per_band = self._bands(s.b)
        last = divided(s.b, outer, band)[1]
        return replace(self, inverses=tuple(inverse(s.b, x) for x in (per_band, band, last)))

    def first(self, s: State, mb: ir.Value | int, nb: ir.Value | int) -> tuple[ir.Value | int, ir.Value | int]:
        """First row and column of this CTA's tile of the cluster that is number `mb` along M and `nb` along N."""
        b, (cm, cn) = s.b, self.cluster
        both = cm > 1 and cn > 1  # ranks then go along M first
        if cm > 1:
            mb = b.add(b.mul(mb, cm), b.and_(s.rank, cm - 1) if both else s.rank)
        if cn > 1:
            nb = b.add(b.mul(nb, cn), b.shr(s.rank, cm.bit_length() - 1) if both else s.rank)
        return b.mul(mb, self.tile[0]), b.mul(nb, self.tile[1])


def inverse(b: Builder, number: ir.Value | int) -> ir.Value | int:
    """floor((2^32 - 1) / number), by which any x of 32 bits, times it, is 2^32 times x / number, or less than 2^32
    below that."""
    most = 0xFFFFFFFF
    return most // max(number, 1) if isinstance(number, int) else b.div(b.constant(most), b.max(number, 1))


def divided(
    b: Builder, x: ir.Value | int, by: ir.Value | int, inverse: ir.Value | int | None = None
) -> tuple[ir.Value | int, ir.Value | int]:
    """x / by and what is left; by its inverse in 5 instructions where `by` is not known, instead of 15."""
    if inverse is None or isinstance(by, int):
        quotient = b.div(x, by)
        return quotient, x % by if isinstance(x, int) and isinstance(by, int) else b.sub(x, b.mul(quotient, by))
    below = b.pure("mul.hi.u32 $0, $1, $2;", b.i32, b.value(x), inverse)  # x / by, or one less
    left = b.sub(x, b.mul(below, by))
    return b.select(b.compare("lt", left, by), below, b.add(below, 1)), b.min(left, b.sub(left, by))


@COMMON.lowers("tile.tiles")
def tiles(s: State, op: ir.OpView) -> None:
    b = s.b
    walk = Walk.of(s, op)
    split = tile.int_of(op.split)
    block = op.body.blocks[0]
    following = next((o.opview.following for o in block.operations if o.operation.name == "tile.query_cancel"), None)
    clusters = b.div(b.special("nctaid_x"), s.cluster_ctas) if following is None else 0
    first, turns = b.div(b.special("ctaid_x"), s.cluster_ctas), tile.int_of(op.turns)
    if turns > 1:
        first, clusters = b.add(first, b.mul(s.turn, clusters)), b.mul(clusters, turns)
    sizes = [s.get(size) for size in op.outer]
    if run_of(op) > 1:
        _in_runs(s, op, walk, first, clusters, sizes)
        return
    each = None
    if first_of(op, "tile.post") is not None:  # it has the registers for what a tile need not compute anew
        walk, each = walk.hastened(s), inverse(b, walk.clusters(s))
    unit = b.variable(b.i32, first)

    def body() -> None:
        t = unit.get()
        if s.parts > 1:
            s.values[block.arguments[2]] = s.part
        elif split > 1:
            t, work = b.div(t, split), t
            s.values[block.arguments[2]] = b.sub(work, b.mul(t, split))
        if split > 1:
            s.values[block.arguments[3]] = b.add(b.mul(t, s.ctas), s.rank)
        if sizes:
            t = point_of(s, list(block.arguments)[-len(sizes) :], sizes, walk.clusters(s), t, each)
        s.values[block.arguments[0]], s.values[block.arguments[1]] = walk.corner(s, t)
        s.table.block(s, block)
        unit.set(b.add(unit.get(), clusters) if following is None else s.get(following))

    if following is not None:
        # tested at the start too, where it always holds: with a test at the end alone ptxas hoists until it spills (36
        # bytes: 1x128 by 128x128 on sm_120a, tile 128x128x128, ptxas 13.0)
        b.loop(lambda: b.compare("ne", unit.get(), NO_CLUSTER), body)
        return
    total = b.mul(walk.clusters(s), 1 if s.parts > 1 else split)
    for size in sizes:
        total = b.mul(total, size)
    if "alone" in op.operation.attributes:
        with b.when(b.compare("lt", unit.get(), total)):
            body()
        return
    s.goes_on = lambda: b.compare("lt", b.add(unit.get(), clusters), total)
    b.loop(lambda: b.compare("lt", unit.get(), total), body)
    s.goes_on = None


RUNS = 16
"""Runs of tiles that each cluster of the launch has at least: the last ones all end within a sixteenth of its time."""


def _in_runs(
    s: State, op: ir.OpView, walk: Walk, first: ir.Value | int, clusters: ir.Value | int, sizes: list[ir.Value | int]
) -> None:
    """`tile.tiles` with a `run`: that many tiles along M or fewer, so that clusters have RUNS of them; runs that are
    `whole` are as long as each other.

    Those, and runs of further dimensions, clusters take there and back, the first of a row of them the last of the
    next: where a window says how much there is to do, and the runs of a point divide the clusters, one would else have
    all first runs. 0.75 of the time in pages of lengths from 0 to 8192 (H100, 2026-11-27)."""
    b, block, (along, across) = s.b, op.body.blocks[0], walk.blocks
    points: ir.Value | int = 1
    for size in sizes:
        points = b.mul(points, size)
    whole = "whole" in op.operation.attributes
    if whole:
        run = _even_run(b, along, b.mul(across, points), clusters, run_of(op))
    else:
        run = b.min(b.div(b.mul(walk.clusters(s), points), b.mul(clusters, RUNS)), run_of(op))
        run = b.select(b.compare("eq", run, 0), 1, run)
    runs = replace(walk, blocks=(b.div(b.add(along, b.sub(run, 1)), run), across))
    unit, row = b.variable(b.i32, first), b.variable(b.i32)
    both = b.mul(clusters, 2)  # a step there and one back
    step = b.variable(b.i32, b.sub(b.sub(both, 1), b.mul(first, 2))) if sizes or whole else None
    total = b.mul(runs.clusters(s), points)

    def tiles() -> None:
        t = unit.get()
        if sizes:
            t = point_of(s, list(block.arguments)[-len(sizes) :], sizes, runs.clusters(s), t)
        mb, nb = runs.place(s, t)
        start = b.mul(mb, run)
        end = b.min(b.add(start, run), along)

        def body() -> None:
            s.values[block.arguments[0]], s.values[block.arguments[1]] = walk.first(s, row.get(), nb)
            s.table.block(s, block)

        def one() -> None:
            s.run = unit.get()
            body()
            row.set(b.add(row.get(), 1))

        row.set(start)
        if whole:
            s.values[block.arguments[2]] = walk.first(s, end, nb)[0]
            body()
        else:
            b.loop(lambda: b.compare("lt", row.get(), end), one)
        unit.set(b.add(unit.get(), clusters if step is None else step.get()))
        if step is not None:
            step.set(b.sub(both, step.get()))

    b.loop(lambda: b.compare("lt", unit.get(), total), tiles)
    s.run = None


LENGTHS = 4
"""Lengths of runs that are looked at, of which the one is taken with which clusters end first if all tiles are
computed; what a run takes beside its tiles is about as long as one (MQA logits, H100, 2026-11-27)."""

EVEN_RUNS = 3
"""Runs of each cluster, at least: windows may have less of some columns than of others."""


def _even_run(
    b: Builder, along: ir.Value | int, across: ir.Value | int, clusters: ir.Value | int, most: int
) -> ir.Value:
    """Cluster tiles of a run, at most `most`, of `along` in each of `across` columns, in runs as long as each other."""

    def up(x: ir.Value | int, y: ir.Value | int) -> ir.Value:
        return b.value(b.div(b.add(x, b.sub(y, 1)), y))

    fewest = b.op("arith.maxui", [b.i32], [up(along, most), up(b.mul(clusters, EVEN_RUNS), across)])

    def length(more: int) -> tuple[ir.Value, ir.Value]:
        """A length, and the tiles, and runs, of a cluster then."""
        run = up(along, b.add(fewest, more))
        run = b.select(b.compare("eq", run, 0), 1, run)
        return run, b.value(b.mul(up(b.mul(up(along, run), across), clusters), b.add(run, 1)))

    run, time = length(0)
    for more in range(1, LENGTHS):
        other, others = length(more)
        less = b.compare("lt", others, time)
        run, time = b.select(less, other, run), b.select(less, others, time)
    return run


def point_of(
    s: State,
    indices: list[ir.Value],
    sizes: list[ir.Value | int],
    each: ir.Value | int,
    t: ir.Value,
    inverse: ir.Value | int | None = None,
) -> ir.Value | int:
    """Sets the indices of cluster `t` along further dimensions, whose points have `each` clusters; its number there."""
    b = s.b
    point, within = divided(b, t, each, inverse)
    for index, size in list(zip(indices, sizes, strict=True))[:0:-1]:
        above = b.div(point, size)
        s.values[index] = b.sub(point, b.mul(above, size))
        point = above
    s.values[indices[0]] = point
    return within
