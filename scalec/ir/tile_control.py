"""Ops of `tile` that say who does what when: the kernel, its roles, loops, stages and their barriers."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Iterator, Sequence
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, StageOp, at_least, extents, in_rounds, maker, positive_tile, takes
from scalec.ir.tile_types import *
from scalec.ir.verify import Axis, Count, Flag, Natural, Offset, Transaction, refuse
from scalec.targets import ATOM, ATOMIC_SPAN

# ---------------------------------------------------------------------------------------------- kernel and its roles


class KernelOp(Op, name="kernel", traits=[ir.NoTerminatorTrait]):
    """One kernel. Block arguments are its parameters; `arguments` says, for each, where its value comes from.

    cluster = CTAs along (M, N); `shared_bytes` is the dynamic shared memory; offsets of buffers and rings are into it.
    With an attribute `parts` a cluster has as many times these CTAs, each of them with one part of K. With `registers`
    a thread is launched with so many, which the roles then share out; else with as many as the SM has.
    """

    sym_name: ir.StringAttr
    threads: ir.IntegerAttr
    cluster: Any
    shared_bytes: ir.IntegerAttr
    arguments: ir.ArrayAttr
    body: ext.Region

    def verify_region_invariants(op: ir.OpView) -> None:
        blocks = list(op.body.blocks)
        if len(blocks) != 1:
            refuse(f"body has {len(blocks)} blocks, expected 1")
        if len(blocks[0].arguments) != len(op.arguments):
            refuse(f"has {len(blocks[0].arguments)} parameters but {len(op.arguments)} sources in `arguments`")
        if int_of(op.threads) % 32 or not 32 <= int_of(op.threads) <= 1024:
            refuse(f"threads is {int_of(op.threads)}, expected a multiple of 32 from 32 to 1024")
        extents(op, "cluster")
        together = parts_of(op)
        walks = [w for o in blocks[0].operations if o.operation.name == "tile.role" for w in _walks(o)]
        if together > 1 and any(int_of(w.opview.split) != together for w in walks):
            refuse(f"parts is {together}, and a role walks tiles of another number of parts")
        end = max((_end(o) for o in blocks[0].operations), default=0)
        if end > int_of(op.shared_bytes):
            refuse(f"buffers and rings end at byte {end}, beyond the shared memory of {int_of(op.shared_bytes)} bytes")
        roles = [o for o in blocks[0].operations if o.operation.name == "tile.role"]
        launched, most = launch_registers(op), sum(_registers(o) for o in roles)
        if launched and (launched % 8 or not 24 <= launched <= 256):
            refuse(f"registers is {launched}, expected a multiple of 8 from 24 to 256")
        if launched and most > launched * int_of(op.threads):
            of = f"{int_of(op.threads)} threads with {launched} each"
            refuse(f"its roles have {most} registers, {of} {launched * int_of(op.threads)}")
        warps = [ints_of(o.attributes["warps"]) for o in roles]
        taken = [w for low, high in warps for w in range(low, high)]
        if len(taken) != len(set(taken)):
            refuse(f"roles share warps: {warps}")
        if taken and max(taken) >= int_of(op.threads) // 32:
            refuse(
                f"a role has warp {max(taken)}, but {int_of(op.threads)} threads are {int_of(op.threads) // 32} warps"
            )


def parts_of(kernel: ir.OpView) -> int:
    """Parts of K that the CTAs of a cluster have; 1 where all have the same."""
    return optional(kernel, "parts", 1)


def launch_registers(kernel: ir.OpView) -> int:
    """Registers that a thread is launched with; 0 where that is left to the SM."""
    return optional(kernel, "registers")


def _registers(role: ir.OpView) -> int:
    """Registers of all threads of a role."""
    low, high = ints_of(role.attributes["warps"])
    return 32 * (high - low) * int_of(role.attributes["registers"])


def _walks(op: Any) -> Iterator[Any]:
    for region in op.operation.regions:
        for inner in (o.operation for block in region.blocks for o in block.operations):
            if inner.name == "tile.tiles":
                yield inner
            elif inner.name == "tile.warp":
                yield from _walks(inner)


def _end(op: ir.OpView) -> int:
    """First byte after a buffer, a ring or an address of tensor memory, 0 for other ops."""
    o = op.operation
    if o.name == "tile.shared":
        return int_of(o.attributes["offset"]) + shared_bytes(o.results[0].type)
    if o.name == "tile.sums":
        return int_of(o.attributes["offset"]) + 4
    if o.name == "tile.items":
        kind = o.results[0].type
        return int_of(o.attributes["offset"]) + 4 * int_of(kind.words) * int_of(kind.slots)
    if o.name == "tile.responses":
        return int_of(o.attributes["offset"]) + RESPONSE_BYTES * int_of(o.results[0].type.stages)
    if o.name == "tile.ring":
        return int_of(o.attributes["offset"]) + 16 * int_of(o.attributes["depth"])
    if o.name == "tile.cut_ring":
        return int_of(o.attributes["offset"]) + 8 * int_of(o.attributes["depth"])
    if o.name == "tile.turn_ring":
        return int_of(o.attributes["offset"]) + 8 * (1 + int_of(o.attributes["turns"])) * int_of(o.attributes["depth"])
    return 0


class RoleOp(Op, name="role", traits=[ir.NoTerminatorTrait]):
    """What the warps [warps[0], warps[1]) do, with `registers` for each thread."""

    label: ir.StringAttr
    warps: Any
    registers: ir.IntegerAttr
    body: ext.Region

    def verify_invariants(op: ir.OpView) -> None:
        low, high = ints_of(op.warps)
        if low % 4 or high % 4 or high <= low:
            refuse(f"warps {low}..{high} are not whole warpgroups (multiples of 4)")
        if int_of(op.registers) % 8 or not 24 <= int_of(op.registers) <= 256:
            refuse(f"registers {int_of(op.registers)} must be a multiple of 8 from 24 to 256")


class WhenOp(Op, name="when", traits=[ir.NoTerminatorTrait]):
    """What happens under a condition."""

    condition: ext.Operand[I1]
    body: ext.Region


class WarpOp(Op, name="warp", traits=[ir.NoTerminatorTrait]):
    """What `count` warps of a role do, from the `index`-th on; with `elected`, one thread of each."""

    index: Natural
    count: Count
    elected: Flag
    body: ext.Region

    def verify_invariants(op: ir.OpView) -> None:
        role = op.operation.parent
        if role is None or role.name != "tile.role":
            refuse("is not in a tile.role")
        low, high = ints_of(role.opview.warps)
        end = int_of(op.index) + int_of(op.count)
        if end > high - low:
            refuse(f"has warps {int_of(op.index)}..{end} of a role of {high - low} warps")


class SyncOp(Op, name="sync"):
    """All threads of the `scope` ("cta" or "cluster") meet.

    `releases` 1: what they wrote before is seen by all behind it; 0: rings are, and nothing else.
    """

    scope: ir.StringAttr
    releases: Flag

    def verify_invariants(op: ir.OpView) -> None:
        if str_of(op.scope) not in ("cta", "cluster"):
            refuse(f"scope is {op.scope}, expected cta or cluster")


# ------------------------------------------------------------------------------------------------------------ loops


def run_of(op: Any) -> int:
    """The `run` of a `tile.tiles`, 1 where it has none; of other ops that walk tiles too."""
    return optional(op, "run", 1)


class TilesOp(Op, name="tiles", traits=[ir.NoTerminatorTrait]):
    """Walks the output tiles of this CTA, persistently: body(m0, n0) with the tile's first row and column.

    The clusters of the launch share the tiles out among themselves, each taking every so many-th. Where the body has a
    `query_cancel`, there is a cluster for each tile: one begins with its own, and goes on with those whose clusters it
    takes over.
    order "n": consecutive tiles walk M within a band of `band` clusters of N tiles; "m": the reverse.
    `split` above 1: walks the parts of K of each tile, those of one tile one after the other:
    body(m0, n0, part, number) with the part's number within its tile, and the tile's among all tiles. Where the kernel
    says that a cluster's CTAs have the `parts`, each walks the same one of all tiles.
    `outer` are the sizes of further dimensions, each point of which has all these tiles, one point after the other, the
    last dimension first: the body takes the tile's indices there too, behind its other arguments.
    `run`, an optional integer: a cluster takes up to so many tiles that follow each other along M, of the same columns,
    before it goes on to others, as many as the tiles of all clusters allow (the body has no parts of K then, turns, nor
    `query_cancel`). `whole`, an optional unit attribute: body(m0, n0, end) is for all tiles of a run at once, up to the
    row `end`.
    `alone`, an optional unit attribute: the launch has a cluster for each tile, which takes this one and no other.
    `turns` above 1: the role's warpgroups take the tiles of the CTA by turns, the first of so many its tiles 0,
    `turns`, 2 * `turns`, ..., the second those behind these.
    """

    m: ext.Operand[I32]
    n: ext.Operand[I32]
    outer: Sequence[ext.Operand[I32]]
    tile: Any
    cluster: Any
    order: Axis
    band: Count
    split: Count
    turns: Count
    body: ext.Region

    def verify_invariants(op: ir.OpView) -> None:
        i32 = ir.IntegerType.get_signless(32)
        extents(op, "tile", "cluster")
        role, turns = op.operation.parent, int_of(op.turns)
        if "whole" in op.operation.attributes and run_of(op) == 1:
            refuse("whole runs, and there are none: run is 1")
        if "alone" in op.operation.attributes and (run_of(op) > 1 or turns > 1):
            refuse(f"runs of {run_of(op)} tiles and {turns} turns of who takes one alone")
        if run_of(op) > 1 and (turns > 1 or int_of(op.split) > 1):
            refuse(f"a run of {run_of(op)} tiles with {turns} turns and {int_of(op.split)} parts of K")
        if turns > 1 and role is not None and role.name == "tile.role":
            low, high = ints_of(role.opview.warps)
            if high - low != 4 * turns:
                refuse(f"{turns} turns in a role of {high - low} warps, expected {4 * turns}: a warpgroup each")
        asked = sum(o.operation.name == "tile.query_cancel" for b in op.body.blocks for o in b.operations)
        if asked > 1:
            refuse(f"body has {asked} tile.query_cancel, expected at most 1: the next tile is one")
        if asked and turns > 1:
            refuse(f"{turns} turns, and a response of tile.query_cancel is the next tile of all warpgroups")
        own = 3 if "whole" in op.operation.attributes else 4 if int_of(op.split) > 1 else 2
        takes(op, [i32] * (own + len(op.outer)))


class FollowsOp(Op, name="follows"):
    """Whether another tile follows of those that the `tiles` around walks, which takes all as they come."""

    result: ext.Result[I1]

    def verify_invariants(op: ir.OpView) -> None:
        around = op.operation.parent
        while around is not None and around.name != "tile.tiles":
            around = around.parent
        if around is None:
            refuse("is in no tile.tiles")
        asks = any(o.operation.name == "tile.query_cancel" for b in around.opview.body.blocks for o in b.operations)
        if asks or run_of(around) > 1:
            refuse("is in a tile.tiles that does not know what follows: it asks, or takes runs")


class StepsOp(Op, name="steps", traits=[ir.NoTerminatorTrait]):
    """Walks K from element `start` in steps of `step`: body(k0). `unroll` bodies stand in one iteration.

    With `cursors`, which body advances by one, such an iteration begins where the first of them is at stage 0, and the
    steps before and behind are walked one by one: so each of its bodies has known stages. Where the first is at stage
    0, so are the others, of depths that divide that of the first, as that divides `unroll`.

    `once`, an optional unit attribute: there is one such iteration, of a K that is known, and no loop.
    """

    k: ext.Operand[I32]
    cursors: Sequence[ext.Operand[CursorType]]
    start: ir.IntegerAttr
    step: ir.IntegerAttr
    unroll: ir.IntegerAttr
    body: ext.Region

    def verify_invariants(op: ir.OpView) -> None:
        at_least(op, 0, "start")
        at_least(op, 1, "step", "unroll")
        if "once" in op.operation.attributes:
            _once(op)
        takes(op, [ir.IntegerType.get_signless(32)])
        in_rounds(op, op.cursors, int_of(op.unroll))


def _once(op: ir.OpView) -> None:
    """Refuses `once` of steps that are not one iteration."""
    made = maker(op.k, "arith.constant")
    k = None if made is None else ir.IntegerAttr(made.operation.attributes["value"]).value
    steps = None if k is None else -(-(k - int_of(op.start)) // int_of(op.step))
    if not isinstance(op.operation.attributes["once"], ir.UnitAttr) or list(op.cursors) or steps != int_of(op.unroll):
        found = f"{steps or 'an unknown number of'} steps of which an iteration has {int_of(op.unroll)}"
        refuse(f"once, and {found}, expected as many")


# ----------------------------------------------------------------------------------------------- storage and barriers


class SharedOp(Op, name="shared"):
    """A ring of shared tiles at byte `offset`."""

    result: ext.Result[SharedType]
    offset: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        swizzle, atom = swizzle_of(op.result.type), atom_of(op.result.type)
        align = {0: 128, 32: 256, 64: 512, 128: 1024}.get(swizzle)
        if align is None:
            refuse(f"swizzle of {swizzle} bytes, expected 0, 32, 64 or 128")
        if atom != ATOM and (atom, swizzle) != (32, ATOMIC_SPAN):
            refuse(f"swizzle of {swizzle} bytes keeps {atom} together, expected 16, or of 128 bytes 32")
        if int_of(op.offset) % align or int_of(op.offset) < 0:
            refuse(f"offset {int_of(op.offset)} is not a multiple of {align} (the period of a {swizzle}-byte swizzle)")
        positive_tile(op, op.result.type)


class RingOp(Op, name="ring"):
    """`depth` pairs of barriers at byte `offset`: `full` arrivals fill a stage, `empty` arrivals hand it back."""

    result: ext.Result[RingType]
    offset: Offset
    depth: Count
    full: Count
    empty: Count


class CursorOp(Op, name="cursor"):
    """A position in a ring of `depth` stages, at its first stage."""

    result: ext.Result[CursorType]
    depth: Count


class AcquireOp(StageOp, name="acquire"):
    """Producer: waits until the stage is empty."""


class ExpectOp(StageOp, name="expect"):
    """Producer: arrives at the stage's full barrier and announces `bytes` of bulk copies."""

    bytes: Transaction


class CommitOp(StageOp, name="commit"):
    """Producer: arrives at the full barrier; what this thread stored before is visible to who waits.

    Each thread arrives for itself, or with the optional unit attribute `warp`, and at the ring of a leader
    (tile.leader), one for all of its warp.
    """


class WaitOp(StageOp, name="wait"):
    """Consumer: waits until the stage is full (returns at once where `peek` has seen it full)."""


class PeekOp(StageOp, name="peek"):
    """Consumer: tests whether the stage is full, without waiting; the next `wait` uses the answer."""


class ReleaseOp(StageOp, name="release"):
    """Consumer: hands the stage `lag` (0 or 1) before the cursor's back to every CTA whose copies fill it.

    `unless`, where given, is a condition under which nothing is handed back; `a` and `b` are registers that were loaded
    of the stage, `sums` those of what was: they are there by then.
    """

    unless: ext.Operand[I1] | None
    a: Sequence[ext.Operand[MultiplicandType]]
    b: Sequence[ext.Operand[MultiplicandType]]
    sums: ext.Operand[FragmentType] | None
    lag: Flag


class HandBackOp(StageOp, name="hand_back"):
    """Consumer: a warp hands the stage back to its own CTA's producers; what its lanes loaded of it they have used."""


class AdvanceOp(Op, name="advance"):
    """Moves the cursor to the next stage."""

    cursor: ext.Operand[CursorType]
