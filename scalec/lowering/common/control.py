"""Roles, loops over K, rings and cursors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.builder import Variable
from scalec.lowering.common.state import COMMON, Cursor, Ring, State, first_of

NO_CLUSTER = 0xFFFFFFFF
"""What `tile.query_cancel` gives where no cluster was taken over."""


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
    # beside warps that count tiles a consumer's 128 sums spilled 4 bytes else (FP8, 128x256, ptxas 13.0)
    settles = s.table.settles or any(first_of(o, "tile.store_left") for o in ops)
    # nor where B stays in registers: 2 words, FP8 without scales
    settles |= any(first_of(o, "tile.run_tiles") and first_of(o, "tile.multiply") for o in ops)

    def emit(remaining: list[ir.OpView]) -> None:
        last = remaining[-1]
        low, _ = tile.ints_of(last.warps)

        def body() -> None:
            s.enter_role(low)
            count = tile.int_of(last.registers)
            action = ir.Attribute.parse(f"#nvvm<action {'increase' if count > s.registers else 'decrease'}>")
            s.b.op("nvvm.setmaxregister", [], [], action=action, regCount=ir.IntegerAttr.get(s.b.i32, count))
            if settles:
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
    around, s.before_k = s.before_k, b.anchor() if s.dealt else None

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
    s.before_k = around


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
    move_on(s, s.get(op.cursor))


def move_on(s: State, c: Cursor) -> None:
    """A cursor to the next stage."""
    b = s.b
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


def await_full(s: State, ring: Ring, c: Cursor) -> None:
    """Until the cursor's stage is full."""
    text, barrier = _awaited(s, ring.full, c)
    s.b.asm(text, [], [barrier, c.parity(s.b)])


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
        await_full(s, s.get(op.ring), c)
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
    """Predicated inside the instruction: a branch here would split the block between wgmma and promotion (rule 3 of
    sm90/multiply.py).

    An arrival overtakes loads of shared memory that are under way, and so does the copy into the stage: where stores of
    a tile's end keep loads waiting, 0.2 % of sums were wrong, in clusters and without (H100, 2026-11-28). So its
    address depends on the last of them. A fence took 1 to 3 % of the time."""
    b, c = s.b, s.get(op.cursor)
    stage = c.before(b) if tile.int_of(op.lag) else c.stage.get()
    offset = b.shl(stage, 3)
    if s.ctas > 1:
        # .release.cluster here makes a full memory barrier of each K block: the plain form
        chosen = b.compare("lt", s.lane, s.ctas)
        address, space = b.add(s.remote_empty[op.ring], offset), "cluster"
    else:
        chosen = b.compare("eq", s.lane, 0)
        address, space = b.add(s.get(op.ring).empty, offset), "cta"
    loaded = [v.get() for x in (*op.a, *op.b) for v in s.get(x).read()]
    if op.sums is not None:
        loaded += [v.get() for v in s.get(op.sums).read()]
    elif (last := b.last_taken()) is not None:
        loaded.append(last)
    address = behind(s, address, loaded)
    if op.unless is not None:
        chosen = b.and_(chosen, b.xor(s.get(op.unless), b.constant(1, b.i1)))
    b.asm(f"@$1 mbarrier.arrive.shared::{space}.b64 _, [$0];", [], [address, chosen])


def behind(s: State, address: ir.Value, last: Sequence[ir.Value]) -> ir.Value:
    """The address of a barrier, for which an arrival has to wait until registers have been loaded, if there are any.

    Barriers are aligned to 8 bytes (PTX ISA 9.7.13.15.1), which ptxas does not know: three bits are changed by nothing.
    A zero in a register of its own made the default kernel of groups of whole blocks spill on sm_120a."""
    if not last:
        return address
    every = reduce(lambda x, y: s.b.pure(_BOTH, s.b.i32, x, y), last)
    return s.b.pure(_SAME, s.b.i32, every, address)


_SAME = "{ .reg .b32 T; mov.b32 T, $1; and.b32 T, T, $2; and.b32 T, T, 7; xor.b32 $0, T, $2; }"
_BOTH = "{ .reg .b32 T<2>; mov.b32 T0, $1; mov.b32 T1, $2; xor.b32 $0, T0, T1; }"


@COMMON.lowers("tile.hand_back")
def hand_back(s: State, op: ir.OpView) -> None:
    b, barrier = s.b, _barrier(s, s.get(op.ring).empty, s.get(op.cursor))
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    b.asm("@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", [], [barrier, b.compare("eq", s.lane, 0)])
