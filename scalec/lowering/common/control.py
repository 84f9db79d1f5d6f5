"""Roles, loops, rings and cursors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.ir.tile_control import run_of
from scalec.lowering.builder import Variable
from scalec.lowering.common.state import COMMON, Cursor, Ring, State

NO_CLUSTER = 0xFFFFFFFF
"""What `tile.query_cancel` gives where no cluster was taken over."""

_SMALL_BAND = 15
"""So many times the tiles along a dimension, at most 2^28 (8 of 2^31 elements each), are counted in 32 bits."""


@COMMON.lowers("tile.sync")
def sync(s: State, op: ir.OpView) -> None:
    b = s.b
    # .aligned needs converged warps (PTX ISA 9.7.13.4): elected threads come back first
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    if tile.str_of(op.scope) == "cluster" and s.cluster_ctas > 1:
        # with fence.mbarrier_init a relaxed arrival publishes barriers (PTX ISA 9.7.13.4, example); a releasing one
        # waits for all that its thread has under way, in SASS a membar.gpu
        arrive = "nvvm.cluster.arrive" if tile.int_of(op.releases) else "nvvm.cluster.arrive.relaxed"
        b.op(arrive, [], [], aligned=ir.UnitAttr.get())
        b.op("nvvm.cluster.wait", [], [], aligned=ir.UnitAttr.get())
    else:
        b.asm("bar.sync 0;")


@COMMON.lowers("tile.ring", "tile.turn_ring")
def ring(s: State, op: ir.OpView) -> None:
    b, depth = s.b, tile.int_of(op.depth)
    base, turns = b.add(s.shared, tile.int_of(op.offset)), 1
    if op.operation.name == "tile.turn_ring":
        turns = tile.int_of(op.turns)
    made = Ring(base, b.add(base, 8 * depth * turns))
    s.values[op.result] = made
    full, empty = tile.int_of(op.full), tile.int_of(op.empty)
    set_up(s, (made.full, full, depth * turns), (made.empty, empty, depth))
    if s.ctas > 1:
        # lane i of a consumer warp arrives at CTA i's empty barriers
        target = b.add(b.and_(s.lane, s.ctas - 1), b.mul(s.part, s.ctas))
        remote = b.op("nvvm.mapa", [ir.Type.parse("!llvm.ptr<7>")], [b.address(3, made.empty), target])
        s.remote_empty[op.result] = b.op("llvm.ptrtoint", [b.i32], [remote])


def set_up(s: State, *barriers: tuple[ir.Value | int, int, int]) -> None:
    """Initialises barriers: the address of the first, the arrivals of each, and how many there are."""
    b = s.b
    with b.when(b.compare("eq", s.warp, 0)), b.when(b.op("nvvm.elect.sync", [b.i1], [])):
        for first, arrivals, number in barriers:
            for i in range(number):
                operands = [b.address(3, b.add(first, 8 * i)), b.constant(arrivals)]
                b.op("nvvm.mbarrier.init", [], operands)
        b.op("nvvm.fence.mbarrier.init", [], [])


def roles(s: State, ops: list[ir.OpView]) -> None:
    """One if/else chain over the warps, so that ptxas sees each role as one branch (setmaxnreg needs it)."""
    ops = sorted(ops, key=lambda o: tile.ints_of(o.warps)[0])

    def emit(remaining: list[ir.OpView]) -> None:
        last = remaining[-1]
        low, _ = tile.ints_of(last.warps)

        def body() -> None:
            s.enter_role(low)
            count = tile.int_of(last.registers)
            action = ir.Attribute.parse(f"#nvvm<action {'increase' if count > s.registers else 'decrease'}>")
            s.b.op("nvvm.setmaxregister", [], [], action=action, regCount=ir.IntegerAttr.get(s.b.i32, count))
            if s.table.settles:
                s.settle(low)
            s.table.block(s, last.body.blocks[0])

        if len(remaining) == 1:
            body()
        else:
            s.b.either(s.b.compare("ge", s.warp, low), body, lambda: emit(remaining[:-1]))

    lane = s.lane
    emit(ops)
    s.lane = lane


@COMMON.lowers("tile.warp")
def warp(s: State, op: ir.OpView) -> None:
    b, role = s.b, s.first_warp
    first, count = role + tile.int_of(op.index), tile.int_of(op.count)
    mine = b.compare("eq", s.warp, first)
    if count > 1:
        mine = b.compare("lt", b.sub(s.warp, first), count)  # unsigned: warps below wrap around to large numbers
    with b.when(mine):
        s.enter_role(first)
        if tile.int_of(op.elected):
            with b.when(b.op("nvvm.elect.sync", [b.i1], [])):
                s.table.block(s, op.body.blocks[0])
        else:
            s.table.block(s, op.body.blocks[0])
    s.enter_role(role)


@COMMON.lowers("tile.when")
def when(s: State, op: ir.OpView) -> None:
    with s.b.when(s.get(op.condition)):
        s.table.block(s, op.body.blocks[0])


@dataclass(frozen=True)
class Walk:
    """The order in which clusters of tiles are numbered.

    Attributes:
        tile, cluster: along M and N.
        blocks: clusters of tiles along M and N.
        by_n: whether M is walked within a band of `band` along N.
    """

    tile: tuple[int, ...]
    cluster: tuple[int, ...]
    blocks: tuple[ir.Value | int, ir.Value | int]
    by_n: bool
    band: int

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
        b, band = s.b, self.band
        inner, outer = self.blocks if self.by_n else self.blocks[::-1]  # a band holds `band` of outer
        if band > _SMALL_BAND:
            band = b.min(outer, band)  # all clusters at most, of which there are fewer than 2^31
        per_band = b.mul(inner, band)
        index = b.div(t, per_band)
        within = b.sub(t, b.mul(index, per_band))
        first = b.mul(index, band)
        whole = isinstance(outer, int) and isinstance(band, int) and outer % band == 0
        width = band if whole else b.min(b.sub(outer, first), band)
        along = b.div(within, width)
        across = b.add(first, b.sub(within, b.mul(along, width)))
        return (along, across) if self.by_n else (across, along)

    def first(self, s: State, mb: ir.Value | int, nb: ir.Value | int) -> tuple[ir.Value | int, ir.Value | int]:
        """First row and column of this CTA's tile of the cluster that is number `mb` along M and `nb` along N."""
        b, (cm, cn) = s.b, self.cluster
        both = cm > 1 and cn > 1  # ranks then go along M first
        if cm > 1:
            mb = b.add(b.mul(mb, cm), b.and_(s.rank, cm - 1) if both else s.rank)
        if cn > 1:
            nb = b.add(b.mul(nb, cn), b.shr(s.rank, cm.bit_length() - 1) if both else s.rank)
        return b.mul(mb, self.tile[0]), b.mul(nb, self.tile[1])


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
            t = point_of(s, list(block.arguments)[-len(sizes) :], sizes, walk.clusters(s), t)
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
    s.goes_on = lambda: b.compare("lt", b.add(unit.get(), clusters), total)
    b.loop(lambda: b.compare("lt", unit.get(), total), body)
    s.goes_on = None


RUNS = 16
"""Runs of tiles that each cluster of the launch has at least: the last ones all end within a sixteenth of its time."""


def _in_runs(
    s: State, op: ir.OpView, walk: Walk, first: ir.Value | int, clusters: ir.Value | int, sizes: list[ir.Value | int]
) -> None:
    """`tile.tiles` with a `run`: that many tiles along M or fewer, so that clusters have RUNS of them."""
    b, block, (along, across) = s.b, op.body.blocks[0], walk.blocks
    points: ir.Value | int = 1
    for size in sizes:
        points = b.mul(points, size)
    run = b.min(b.div(b.mul(walk.clusters(s), points), b.mul(clusters, RUNS)), run_of(op))
    run = b.select(b.compare("eq", run, 0), 1, run)
    runs = replace(walk, blocks=(b.div(b.add(along, b.sub(run, 1)), run), across))
    unit, row = b.variable(b.i32, first), b.variable(b.i32)
    total = b.mul(runs.clusters(s), points)

    def tiles() -> None:
        t = unit.get()
        if sizes:
            t = point_of(s, list(block.arguments)[-len(sizes) :], sizes, runs.clusters(s), t)
        mb, nb = runs.place(s, t)
        start = b.mul(mb, run)
        end = b.min(b.add(start, run), along)
        row.set(start)

        def body() -> None:
            s.run = unit.get()
            s.values[block.arguments[0]], s.values[block.arguments[1]] = walk.first(s, row.get(), nb)
            s.table.block(s, block)
            row.set(b.add(row.get(), 1))

        b.loop(lambda: b.compare("lt", row.get(), end), body)
        unit.set(b.add(unit.get(), clusters))

    b.loop(lambda: b.compare("lt", unit.get(), total), tiles)
    s.run = None


def point_of(
    s: State, indices: list[ir.Value], sizes: list[ir.Value | int], each: ir.Value | int, t: ir.Value
) -> ir.Value:
    """Sets the indices of cluster `t` along further dimensions, whose points have `each` clusters; its number there."""
    b = s.b
    point = b.div(t, each)
    within = b.sub(t, b.mul(point, each))
    for index, size in list(zip(indices, sizes, strict=True))[:0:-1]:
        above = b.div(point, size)
        s.values[index] = b.sub(point, b.mul(above, size))
        point = above
    s.values[indices[0]] = point
    return within


@COMMON.lowers("tile.steps")
def steps(s: State, op: ir.OpView) -> None:
    b = s.b
    step, unroll, k = tile.int_of(op.step), tile.int_of(op.unroll), s.get(op.k)
    start = tile.int_of(op.start)
    at = b.variable(b.i32, start)
    if list(op.cursors):
        _rounds(s, op, at)
        return
    body, bodies = bodies_of(s, op, at)
    if not isinstance(k, int) and unroll == 1 and not start:
        # K is never 0 (the runtime sees to it): tested at the end, so that no path reads an accumulator that no wgmma
        # has written, which ptxas answers by serialising them (C7514)
        b.loop_once(body, lambda: b.compare("lt", at.get(), k))
        return
    if "once" in op.operation.attributes:
        bodies()
        promotes = [o for o in op.body.blocks[0].operations if o.operation.name == "tile.promote"]
        for wave, promote in {tile.int_of(o.wave): o for o in promotes}.items():
            _made_here(s, s.get(promote.accumulator).waves[wave])
        return
    if unroll > 1:
        b.loop(lambda: b.compare("lt", b.add(at.get(), (unroll - 1) * step), k), bodies)
        if isinstance(k, int) and -(-(k - start) // step) % unroll == 0:
            return
    b.loop(lambda: b.compare("lt", at.get(), k), body)


def bodies_of(s: State, op: ir.OpView, at: Variable) -> tuple[Callable[[], None], Callable[[], None]]:
    """What emits one step of a `tile.steps` at the element `at`, and what emits the steps of an iteration."""
    block, step, unroll = op.body.blocks[0], tile.int_of(op.step), tile.int_of(op.unroll)

    def body() -> None:
        s.values[block.arguments[0]] = at.get()
        s.table.block(s, block)
        at.set(s.b.add(at.get(), step))

    def bodies() -> None:
        s.unrolled = unroll
        for _ in range(unroll):
            body()
        s.unrolled = 1

    return body, bodies


def _made_here(s: State, sums: list[Variable]) -> None:
    """Keeps LLVM from computing sums of straight-line code in the block of the epilogue that is alone to use them
    (MachineSink), those of a later wave or panel: the products of all K blocks would stay in registers until there,
    copied behind the wgmma.fence of the next one's, and ptxas spills or serialises wgmma (C7511)."""
    kept = s.b.asm("", [s.b.f32] * len(sums), [x.get() for x in sums], tied=len(sums), memory=False)
    for x, value in zip(sums, kept, strict=True):
        x.set(value)


def _rounds(s: State, op: ir.OpView, at: Variable) -> None:
    """Whole rounds of the cursors in a loop of their own, other steps one by one."""
    b, k, step, unroll = s.b, s.get(op.k), tile.int_of(op.step), tile.int_of(op.unroll)
    block, cursors = op.body.blocks[0], [s.get(c) for c in op.cursors]

    def body(moved: int) -> None:
        s.values[block.arguments[0]] = b.add_within(at.get(), moved)
        s.table.block(s, block)

    def whole() -> ir.Value:
        return b.compare("lt", b.add(at.get(), (unroll - 1) * step), k)

    def bodies() -> None:
        # 0: K has fewer than 2^31 elements, which neither LLVM nor ptxas knows
        s.fresh = b.asm("shr.u32 $0, $1, 31;", [b.i32], [at.get()], volatile=False, memory=False)[0]
        for c in cursors:
            c.known = 0
        for i in range(unroll):
            body(i * step)
        for c in cursors:
            c.known = None
        s.fresh = None
        at.set(b.add(at.get(), unroll * step))

    def one() -> None:
        body(0)
        at.set(b.add(at.get(), step))

    def either() -> None:
        begins = b.and_(b.compare("eq", cursors[0].at(), 0), whole())
        b.either(begins, lambda: b.loop_once(bodies, whole), one)

    b.loop(lambda: b.compare("lt", at.get(), k), either)


@COMMON.lowers("tile.cursor")
def cursor(s: State, op: ir.OpView) -> None:
    b = s.b
    uses = [use.owner.opview for use in op.result.uses]
    ready = b.variable(b.i32, 0) if any(o.operation.name == "tile.peek" for o in uses) else None
    made = Cursor(tile.int_of(op.depth), b.variable(b.i32, 0), b.variable(b.i32, 0), ready)
    rings = [o.ring.owner for o in uses if o.operation.name == "tile.wait"]
    # who waits at a ring of other warpgroups, or of stages that are cut, passes over some of them
    if any(not isinstance(r, ir.Block) and r.name in ("tile.of_turn", "tile.cut_ring") for r in rings):
        made.rounds = b.variable(b.i32, 0)
    s.values[op.result] = made


@COMMON.lowers("tile.advance")
def advance(s: State, op: ir.OpView) -> None:
    b, c = s.b, s.get(op.cursor)
    if c.known is not None:
        c.known = (c.known + 1) % c.depth
        if c.known == 0:
            c.phase.set(b.xor(c.phase.get(), 1))
        return
    following = b.add(c.stage.get(), 1)
    wraps = b.compare("eq", following, c.depth)
    if c.rounds is None:
        c.phase.set(b.xor(c.phase.get(), b.select(wraps, b.constant(1), 0)))
    else:  # this warpgroup's next round of the stage
        c.rounds.set(b.xor(c.rounds.get(), b.op("arith.shli", [b.i32], [b.constant(1), c.stage.get()])))
    c.stage.set(b.select(wraps, b.constant(0), following))


def _barrier(s: State, first: ir.Value | int, c: Cursor) -> ir.Value:
    return s.b.add(first, s.b.shl(c.at(), 3))


# try_wait suspends the thread for up to the hinted time (ns) before it answers; PTX ISA 9.7.13.15.16
WAIT = """{
.reg .pred P1;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 P1, [$0], $1, 0x989680;
@P1 bra DONE;
bra WAIT;
DONE:
}"""


def _awaited(s: State, first: ir.Value | int, c: Cursor) -> tuple[str, ir.Value | int]:
    """How to wait at the barrier of the cursor's stage: the text, and its address; `first` is that of stage 0."""
    if c.known is None:
        return WAIT, _barrier(s, first, c)
    return WAIT.replace("[$0]", f"[$0+{8 * c.known}]"), first  # in the instruction, where it costs nothing


_WAIT_UNLESS_READY = """{
.reg .pred P1;
setp.ne.b32 P1, $2, 0;
@P1 bra DONE;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 P1, [$0], $1, 0x989680;
@P1 bra DONE;
bra WAIT;
DONE:
}"""


@COMMON.lowers("tile.acquire")
def acquire(s: State, op: ir.OpView) -> None:
    c = s.get(op.cursor)
    # a fresh barrier is in phase 0, so the parity before it counts as complete: the first round does not wait
    text, barrier = _awaited(s, s.get(op.ring).empty, c)
    s.b.asm(text, [], [barrier, s.b.xor(c.phase.get(), 1)])


@COMMON.lowers("tile.wait")
def wait(s: State, op: ir.OpView) -> None:
    c = s.get(op.cursor)
    if c.ready is None:
        text, barrier = _awaited(s, s.get(op.ring).full, c)
        s.b.asm(text, [], [barrier, c.parity(s.b)])
    else:
        s.b.asm(_WAIT_UNLESS_READY, [], [_barrier(s, s.get(op.ring).full, c), c.parity(s.b), c.ready.get()])


@COMMON.lowers("tile.peek")
def peek(s: State, op: ir.OpView) -> None:
    b, c = s.b, s.get(op.cursor)
    text = "{\n.reg .pred P1;\nmbarrier.test_wait.parity.shared::cta.b64 P1, [$1], $2;\nselp.b32 $0, 1, 0, P1;\n}"
    c.ready.set(b.asm(text, [b.i32], [_barrier(s, s.get(op.ring).full, c), c.parity(s.b)])[0])


@COMMON.lowers("tile.expect")
def expect(s: State, op: ir.OpView) -> None:
    b, c = s.b, s.get(op.cursor)
    barrier = b.address(3, _barrier(s, s.get(op.ring).full, c))
    b.op(
        "nvvm.mbarrier.arrive.expect_tx",
        [],
        [barrier, b.constant(tile.int_of(op.bytes))],
        relaxed=ir.BoolAttr.get(False),
        scope=ir.Attribute.parse("#nvvm.mem_scope<cta>"),
    )


@COMMON.lowers("tile.announce")
def announce(s: State, op: ir.OpView) -> None:
    barrier = _barrier(s, s.get(op.ring).full, s.get(op.cursor))
    operands = [barrier, s.b.constant(tile.int_of(op.bytes))]
    s.b.asm("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], $1;", [], operands)


@COMMON.lowers("tile.commit")
def commit(s: State, op: ir.OpView) -> None:
    """An arrive releases its own thread's stores (PTX ISA 9.7.13.15.13), and those of the warp that bar.warp.sync puts
    before it (9.7.13.2)."""
    b, barrier = s.b, _barrier(s, s.get(op.ring).full, s.get(op.cursor))
    if "warp" not in op.operation.attributes:
        b.asm("mbarrier.arrive.shared::cta.b64 _, [$0];", [], [barrier])
        return
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    b.asm("@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", [], [barrier, b.compare("eq", s.lane, 0)])


@COMMON.lowers("tile.release")
def release(s: State, op: ir.OpView) -> None:
    """Predicated inside the instruction: a branch here would split the block between wgmma and promotion (rule 3)."""
    b, c = s.b, s.get(op.cursor)
    stage = c.stage.get()
    if tile.int_of(op.lag):
        stage = b.select(b.compare("eq", stage, 0), b.constant(c.depth - 1), b.sub(stage, 1))
    offset = b.shl(stage, 3)
    if s.ctas > 1:
        # .release.cluster here makes a full memory barrier of each K block (hopper.md rule 6): the plain form
        chosen = b.compare("lt", s.lane, s.ctas)
        address, space = b.add(s.remote_empty[op.ring], offset), "cluster"
    else:
        chosen = b.compare("eq", s.lane, 0)
        address, space = b.add(s.get(op.ring).empty, offset), "cta"
    if op.unless is not None:
        chosen = b.and_(chosen, b.xor(s.get(op.unless), b.constant(1, b.i1)))
    b.asm(f"@$1 mbarrier.arrive.shared::{space}.b64 _, [$0];", [], [address, chosen])
