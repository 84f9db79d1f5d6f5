"""The `tile` dialect: how to compute it, on any target.

A `tile.kernel` reads as the kernel's schedule: which warps do what, which tiles they walk in which order, what is
copied where, when a stage is handed over, what the tensor core multiplies and how the result reaches memory.

Storage is explicit and named by handles: shared tiles (rings of stages), accumulator fragments (registers of a
warpgroup, or tensor memory), rings (the full and empty barriers of the stages), cursors (which stage a role is at).
Ops on a handle happen in program order within one role; roles meet only at rings. Handles, not SSA values, carry
loop state: accumulators are memory on some targets, and what a loop carries would have to be of one type in IRDL.

Coordinates are in elements of the whole tensor. `wave` numbers the groups of rows that one tensor-core instruction
covers within the rows of one warpgroup.
"""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.verify import fail, verifier

I32 = ir.IntegerType[32]
I1 = ir.IntegerType[1]


class Tile(ext.Dialect, name="tile"):
    """Tiles, roles, rings of stages, copies, tensor-core products."""


# ----------------------------------------------------------------------------------------------------------- types


class DescriptorType(Tile.Type, name="descriptor"):
    """A global tensor as bulk copies see it: box (innermost first), element type, swizzle bytes."""

    box: Any
    element: Any
    swizzle: Any


class SharedType(Tile.Type, name="buffer"):
    """A ring of tiles in shared memory: shape of one tile (rows, columns), element type, swizzle bytes, stages."""

    shape: Any
    element: Any
    swizzle: Any
    stages: Any


class FragmentType(Tile.Type, name="accumulator"):
    """An FP32 accumulator of one warpgroup: shape (rows, columns), and the space it lives in: registers or tensor."""

    shape: Any
    space: ir.StringAttr


class RingType(Tile.Type, name="stages"):
    """The full and empty barriers of a ring of stages."""


class CursorType(Tile.Type, name="position"):
    """Where a role is in a ring: stage and phase."""


class ScalarsType(Tile.Type, name="registers"):
    """A few f32 in registers, uniform over the warpgroup, fetched ahead of their use."""


class RowScalesType(Tile.Type, name="rows"):
    """Scales of a tile's rows on their way from memory to a stage, in registers."""


class WindowType(Tile.Type, name="window"):
    """Which of a window's K blocks a role is at, and which slot of a ring of windows holds it."""


class ScalesType(Tile.Type, name="factors"):
    """Scale factors ready for promotion: by row, by column, or uniform over stretches of columns."""


class InputType(Tile.Type, name="operand"):
    """A tensor or scalar that the epilogue reads at the element's coordinates."""


def shape_of(t: ir.Type) -> tuple[int, ...]:
    """Shape (or box) of a tile type."""
    return tuple(ir.DenseI64ArrayAttr(t.box if isinstance(t, DescriptorType) else t.shape))


def element_of(t: ir.Type) -> ir.Type:
    """Element type of a descriptor or shared tile."""
    return ir.TypeAttr(t.element).value


def int_of(attribute: ir.Attribute) -> int:
    """Value of an integer attribute."""
    return ir.IntegerAttr(attribute).value


def ints_of(attribute: ir.Attribute) -> tuple[int, ...]:
    """Values of an integer array attribute."""
    return tuple(ir.DenseI64ArrayAttr(attribute))


def str_of(attribute: ir.Attribute) -> str:
    """Value of a string attribute."""
    return ir.StringAttr(attribute).value


def bits_of(t: ir.Type) -> int:
    """Storage bits of an element type."""
    return t.width


# ------------------------------------------------------------------------------------------- what the verifiers share


def _at_least(op: ir.OpView, low: int, *names: str) -> bool:
    """Refuses an integer attribute below `low`."""
    for name in names:
        value = int_of(op.operation.attributes[name])
        if value < low:
            return fail(op, f"{name} is {value}, expected at least {low}")
    return True


def _flag(op: ir.OpView, *names: str) -> bool:
    """Refuses an integer attribute that is neither 0 nor 1."""
    for name in names:
        value = int_of(op.operation.attributes[name])
        if value not in (0, 1):
            return fail(op, f"{name} is {value}, expected 0 or 1")
    return True


def _extents(op: ir.OpView, *names: str) -> bool:
    """Refuses an attribute that is not two positive integers, along M and N."""
    for name in names:
        values = ints_of(op.operation.attributes[name])
        if len(values) != 2 or min(values) < 1:
            return fail(op, f"{name} is {list(values)}, expected two positive integers (M, N)")
    return True


def _takes(op: ir.OpView, wanted: Sequence[ir.Type]) -> bool:
    """Refuses a body that is not one block of these arguments."""
    blocks = list(op.body.blocks)
    if len(blocks) != 1:
        return fail(op, f"body has {len(blocks)} blocks, expected 1")
    got = [str(a.type) for a in blocks[0].arguments]
    if got != [str(w) for w in wanted]:
        return fail(op, f"body takes ({', '.join(got)}), expected ({', '.join(map(str, wanted))})")
    return True


def _maker(value: ir.Value, name: str) -> Any:
    """The op `name` that made a handle, None where another did (a block argument)."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != name else owner.opview


def _in_step(op: ir.OpView, ring: ir.Value | None, *buffers: ir.Value) -> bool:
    """Refuses a cursor of another depth than its ring or the buffers whose stages it picks."""
    cursor = _maker(op.cursor, "tile.cursor")
    if cursor is None:
        return True
    depth, of = int_of(cursor.depth), [("buffer", int_of(v.type.stages)) for v in buffers]
    if ring is not None and (made := _maker(ring, "tile.ring")) is not None:
        of.insert(0, ("ring", int_of(made.depth)))
    for what, stages in of:
        if stages != depth:
            return fail(op, f"the cursor goes through {depth} stages, the {what} has {stages}")
    return True


WAVE_ROWS = 64
"""Rows of a wave: those of one warpgroup instruction (PTX ISA 9.7.15: wgmma is m64nNkK)."""

MAX_BOX = 256
"""Elements of a box along each dimension (CUDA driver API, cuTensorMapEncodeTiled, boxDim)."""

MAX_TRANSACTION = (1 << 20) - 1
"""Bytes that a barrier can expect (PTX ISA 9.7.13.15, mbarrier: range of the tx-count)."""


def _copies(op: ir.OpView) -> bool:
    """Refuses a bulk copy whose box is not the tile, in shape, element and swizzle."""
    box, tile = shape_of(op.source.type), shape_of(op.target.type)
    if box[::-1] != tile:
        return fail(op, f"box {list(box)} (innermost first) does not fill a tile of {list(tile)}")
    if max(box) > MAX_BOX:
        return fail(op, f"box {list(box)} is larger than {MAX_BOX} elements along a dimension")
    if element_of(op.source.type) != element_of(op.target.type):
        return fail(op, f"copies {element_of(op.source.type)} into a tile of {element_of(op.target.type)}")
    if int_of(op.source.type.swizzle) != int_of(op.target.type.swizzle):
        return fail(op, f"swizzles differ: {int_of(op.source.type.swizzle)} and {int_of(op.target.type.swizzle)}")
    return _flag(op, "multicast")


def _positive_tile(op: ir.OpView, t: ir.Type) -> bool:
    """Refuses a shared tile without extents or stages."""
    if len(shape_of(t)) != 2 or min(shape_of(t)) < 1 or int_of(t.stages) < 1:
        return fail(
            op, f"has {int_of(t.stages)} stages of {list(shape_of(t))}, expected positive rows, columns and stages"
        )
    return True


def _announces(op: ir.OpView) -> bool:
    """Refuses a number of bytes that a barrier cannot expect."""
    count = int_of(op.bytes)
    if not 0 < count <= MAX_TRANSACTION:
        return fail(op, f"announces {count} bytes, expected 1 to {MAX_TRANSACTION}")
    return _in_step(op, op.ring)


def _reads_f32(op: ir.OpView) -> bool:
    """Refuses scales in memory that are not f32."""
    t = op.source.type
    if not isinstance(t, ir.MemRefType) or str(t.element_type) != "f32":
        return fail(op, f"reads scales from {t}, expected a memref of f32")
    return True


def _holds_factors(op: ir.OpView) -> int:
    """Rows whose factors `source` holds, one f32 each at `position`; 0 once it has refused the op."""
    rows, blocks = shape_of(op.source.type)
    if str(element_of(op.source.type)) != "f32":
        fail(op, f"reads factors of {element_of(op.source.type)}, expected f32")
        return 0
    stages = int_of(op.source.type.stages)
    if isinstance(op.position.type, WindowType):
        window = _maker(op.position, "tile.windows")
        if window is not None and (blocks, stages) != (int_of(window.blocks), int_of(window.slots)):
            wanted = f"{int_of(window.slots)} slots of {int_of(window.blocks)} K blocks"
            fail(op, f"the buffer has {stages} slots of {blocks} K blocks, the window goes through {wanted}")
            return 0
        return rows
    cursor = _maker(op.position, "tile.cursor")
    if rows != 1:
        fail(op, f"a stage of factors is one row, got a tile of [{rows}, {blocks}]")
        return 0
    if cursor is not None and int_of(cursor.depth) != stages:
        fail(op, f"the cursor goes through {int_of(cursor.depth)} stages, the buffer has {stages}")
        return 0
    return blocks


# ---------------------------------------------------------------------------------------------- kernel and its roles


class KernelOp(Tile.Operation, name="kernel", traits=[ir.NoTerminatorTrait]):
    """One kernel. Block arguments are its parameters; `arguments` says, for each, where its value comes from.

    cluster = CTAs along (M, N); `shared_bytes` is the dynamic shared memory; offsets of buffers and rings are into it.
    """

    sym_name: ir.StringAttr
    threads: ir.IntegerAttr
    cluster: Any
    shared_bytes: ir.IntegerAttr
    arguments: ir.ArrayAttr
    body: ext.Region

    @verifier
    def verify_region_invariants(op: ir.OpView) -> bool:
        blocks = list(op.body.blocks)
        if len(blocks) != 1:
            return fail(op, f"body has {len(blocks)} blocks, expected 1")
        if len(blocks[0].arguments) != len(op.arguments):
            return fail(op, f"has {len(blocks[0].arguments)} parameters but {len(op.arguments)} sources in `arguments`")
        if int_of(op.threads) % 32 or not 32 <= int_of(op.threads) <= 1024:
            return fail(op, f"threads is {int_of(op.threads)}, expected a multiple of 32 from 32 to 1024")
        if not _extents(op, "cluster"):
            return False
        end = max((_end(o) for o in blocks[0].operations), default=0)
        if end > int_of(op.shared_bytes):
            return fail(
                op, f"buffers and rings end at byte {end}, beyond the shared memory of {int_of(op.shared_bytes)} bytes"
            )
        warps = [ints_of(o.attributes["warps"]) for o in blocks[0].operations if o.operation.name == "tile.role"]
        taken = [w for low, high in warps for w in range(low, high)]
        if len(taken) != len(set(taken)):
            return fail(op, f"roles share warps: {warps}")
        if taken and max(taken) >= int_of(op.threads) // 32:
            return fail(
                op,
                f"a role has warp {max(taken)}, but {int_of(op.threads)} threads are {int_of(op.threads) // 32} warps",
            )
        return True


def _end(op: ir.OpView) -> int:
    """First byte after a buffer or ring, 0 for other ops."""
    o = op.operation
    if o.name == "tile.shared":
        return int_of(o.attributes["offset"]) + shared_bytes(o.results[0].type)
    if o.name == "tile.ring":
        return int_of(o.attributes["offset"]) + 16 * int_of(o.attributes["depth"])
    return 0


def stage_bytes(t: ir.Type) -> int:
    """Bytes of one stage of a shared tile: rows padded to 128 bytes where it is a vector."""
    rows, columns = shape_of(t)
    size = rows * columns * bits_of(element_of(t)) // 8
    return -(-size // 128) * 128


def shared_bytes(t: ir.Type) -> int:
    """Bytes of all stages of a shared tile."""
    return stage_bytes(t) * int_of(t.stages)


class RoleOp(Tile.Operation, name="role", traits=[ir.NoTerminatorTrait]):
    """What the warps [warps[0], warps[1]) do, with `registers` for each thread."""

    label: ir.StringAttr
    warps: Any
    registers: ir.IntegerAttr
    body: ext.Region

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        low, high = ints_of(op.warps)
        if low % 4 or high % 4 or high <= low:
            return fail(op, f"warps {low}..{high} are not whole warpgroups (multiples of 4)")
        if int_of(op.registers) % 8 or not 24 <= int_of(op.registers) <= 256:
            return fail(op, f"registers {int_of(op.registers)} must be a multiple of 8 from 24 to 256")
        return True


class WhenOp(Tile.Operation, name="when", traits=[ir.NoTerminatorTrait]):
    """What happens under a condition."""

    condition: ext.Operand[I1]
    body: ext.Region


class WarpOp(Tile.Operation, name="warp", traits=[ir.NoTerminatorTrait]):
    """What `count` warps of a role do, from the `index`-th on; with `elected`, one thread of each."""

    index: ir.IntegerAttr
    count: ir.IntegerAttr
    elected: ir.IntegerAttr
    body: ext.Region

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        if not (_at_least(op, 0, "index") and _at_least(op, 1, "count") and _flag(op, "elected")):
            return False
        role = op.operation.parent
        if role is None or role.name != "tile.role":
            return fail(op, "is not in a tile.role")
        low, high = ints_of(role.opview.warps)
        end = int_of(op.index) + int_of(op.count)
        if end > high - low:
            return fail(op, f"has warps {int_of(op.index)}..{end} of a role of {high - low} warps")
        return True


class SyncOp(Tile.Operation, name="sync"):
    """All threads of the `scope` ("cta" or "cluster") meet."""

    scope: ir.StringAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        if str_of(op.scope) not in ("cta", "cluster"):
            return fail(op, f"scope is {op.scope}, expected cta or cluster")
        return True


# ------------------------------------------------------------------------------------------------------------ loops


class TilesOp(Tile.Operation, name="tiles", traits=[ir.NoTerminatorTrait]):
    """Walks the output tiles of this CTA, persistently: body(m0, n0) with the tile's first row and column.

    order "n": consecutive tiles walk M within a group of `group` clusters of N tiles; "m": the reverse.
    """

    m: ext.Operand[I32]
    n: ext.Operand[I32]
    tile: Any
    cluster: Any
    order: ir.StringAttr
    group: ir.IntegerAttr
    body: ext.Region

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        if str_of(op.order) not in ("n", "m"):
            return fail(op, f"order is {op.order}, expected n or m")
        i32 = ir.IntegerType.get_signless(32)
        return _extents(op, "tile", "cluster") and _at_least(op, 1, "group") and _takes(op, [i32, i32])


class StepsOp(Tile.Operation, name="steps", traits=[ir.NoTerminatorTrait]):
    """Walks K in steps of `step` elements: body(k0). `unroll` bodies stand in one iteration."""

    k: ext.Operand[I32]
    step: ir.IntegerAttr
    unroll: ir.IntegerAttr
    body: ext.Region

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _at_least(op, 1, "step", "unroll") and _takes(op, [ir.IntegerType.get_signless(32)])


# ----------------------------------------------------------------------------------------------- storage and barriers


class SharedOp(Tile.Operation, name="shared"):
    """A ring of shared tiles at byte `offset`."""

    result: ext.Result[SharedType]
    offset: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        swizzle = int_of(op.result.type.swizzle)
        align = {0: 128, 32: 256, 64: 512, 128: 1024}.get(swizzle)
        if align is None:
            return fail(op, f"swizzle of {swizzle} bytes, expected 0, 32, 64 or 128")
        if int_of(op.offset) % align or int_of(op.offset) < 0:
            return fail(
                op, f"offset {int_of(op.offset)} is not a multiple of {align} (the period of a {swizzle}-byte swizzle)"
            )
        return _positive_tile(op, op.result.type)


class RingOp(Tile.Operation, name="ring"):
    """`depth` pairs of barriers at byte `offset`: `full` arrivals fill a stage, `empty` arrivals hand it back."""

    result: ext.Result[RingType]
    offset: ir.IntegerAttr
    depth: ir.IntegerAttr
    full: ir.IntegerAttr
    empty: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        if int_of(op.offset) % 8:
            return fail(op, f"offset {int_of(op.offset)} is not a multiple of 8, the size of a barrier")
        return _at_least(op, 0, "offset") and _at_least(op, 1, "depth", "full", "empty")


class CursorOp(Tile.Operation, name="cursor"):
    """A position in a ring of `depth` stages, at its first stage."""

    result: ext.Result[CursorType]
    depth: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _at_least(op, 1, "depth")


class AcquireOp(Tile.Operation, name="acquire"):
    """Producer: waits until the stage is empty."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _in_step(op, op.ring)


class ExpectOp(Tile.Operation, name="expect"):
    """Producer: arrives at the stage's full barrier and announces `bytes` of bulk copies."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    bytes: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _announces(op)


class CommitOp(Tile.Operation, name="commit"):
    """Producer: this thread arrives at the full barrier; what it stored before is visible to who waits."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _in_step(op, op.ring)


class WaitOp(Tile.Operation, name="wait"):
    """Consumer: waits until the stage is full (returns at once where `peek` has seen it full)."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _in_step(op, op.ring)


class PeekOp(Tile.Operation, name="peek"):
    """Consumer: tests whether the stage is full, without waiting; the next `wait` uses the answer."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _in_step(op, op.ring)


class ReleaseOp(Tile.Operation, name="release"):
    """Consumer: hands the stage `lag` (0 or 1) before the cursor's back to every CTA whose copies fill it.

    `unless`, where given, is a condition under which nothing is handed back.
    """

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    unless: ext.Operand[I1] | None
    lag: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _flag(op, "lag") and _in_step(op, op.ring)


class AdvanceOp(Tile.Operation, name="advance"):
    """Moves the cursor to the next stage."""

    cursor: ext.Operand[CursorType]


# ----------------------------------------------------------------------------------------------------------- copies


class CopyOp(Tile.Operation, name="copy"):
    """Bulk copy of the box at (x, y), x innermost, into the cursor's stage; completes on the ring's full barrier.

    With `multicast` 1 the cluster's first CTA issues it for all its CTAs.
    """

    source: ext.Operand[DescriptorType]
    target: ext.Operand[SharedType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    x: ext.Operand[I32]
    y: ext.Operand[I32]
    multicast: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _copies(op) and _in_step(op, op.ring, op.target)


class WindowOp(Tile.Operation, name="windows"):
    """A position in a ring of `slots` windows of `blocks` K blocks each (a power of two), at its start."""

    result: ext.Result[WindowType]
    blocks: ir.IntegerAttr
    slots: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        for name in ("blocks", "slots"):
            value = int_of(op.operation.attributes[name])
            if value < 1 or value & (value - 1):
                return fail(op, f"{name} is {value}, expected a power of two")
        return True


class OpenWindowOp(Tile.Operation, name="open_window"):
    """Moves to the first block of the next window, unless already at one: a new tile starts a new window."""

    window: ext.Operand[WindowType]


class NextBlockOp(Tile.Operation, name="next_block"):
    """Moves to the next K block."""

    window: ext.Operand[WindowType]


class AnnounceOp(Tile.Operation, name="announce"):
    """Producer: announces `bytes` more of bulk copies to the stage's full barrier, without arriving."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    bytes: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _announces(op)


class CopyWindowOp(Tile.Operation, name="copy_window"):
    """Bulk copy of the box at (x, y) into the window's slot; completes on the ring's full barrier at `cursor`."""

    source: ext.Operand[DescriptorType]
    target: ext.Operand[SharedType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    window: ext.Operand[WindowType]
    x: ext.Operand[I32]
    y: ext.Operand[I32]
    multicast: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        if not _copies(op) or not _in_step(op, op.ring):
            return False
        window, (_, blocks), slots = _maker(op.window, "tile.windows"), shape_of(op.target.type), op.target.type.stages
        if window is not None and (blocks, int_of(slots)) != (int_of(window.blocks), int_of(window.slots)):
            wanted = f"{int_of(window.slots)} slots of {int_of(window.blocks)} K blocks"
            return fail(
                op, f"the buffer has {int_of(slots)} slots of {blocks} K blocks, the window goes through {wanted}"
            )
        return True


class RowScalesOp(Tile.Operation, name="row_scales"):
    """Registers for the scales of `rows` rows and `blocks` blocks of K, spread over the threads of `warps` warps."""

    result: ext.Result[RowScalesType]
    rows: ir.IntegerAttr
    blocks: ir.IntegerAttr
    warps: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _at_least(op, 1, "rows", "blocks", "warps")


class LoadRowsOp(Tile.Operation, name="load_rows"):
    """Loads source[row0 + i, k0 / block + j] for all rows i and blocks j of `into`, while inside k.

    Block j is that of K element k0 + j * step. Rows are clamped below `rows`; strides in elements.
    """

    into: ext.Operand[RowScalesType]
    source: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    k_stride: ext.Operand[ir.IntegerType[64]]
    row0: ext.Operand[I32]
    rows: ext.Operand[I32]
    k0: ext.Operand[I32]
    k: ext.Operand[I32]
    step: ir.IntegerAttr
    block: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _at_least(op, 1, "step", "block") and _reads_f32(op)


class StoreRowsOp(Tile.Operation, name="store_rows"):
    """Stores block `index` of the rows' scales into the cursor's stage of a shared vector."""

    source: ext.Operand[RowScalesType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    index: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        room, shape = _maker(op.source, "tile.row_scales"), shape_of(op.target.type)
        if room is not None and not 0 <= int_of(op.index) < int_of(room.blocks):
            return fail(op, f"stores block {int_of(op.index)} of {int_of(room.blocks)}")
        if str(element_of(op.target.type)) != "f32" or (room is not None and shape != (1, int_of(room.rows))):
            wanted = int_of(room.rows) if room is not None else shape[1]
            return fail(
                op, f"stores into {element_of(op.target.type)} tiles of {list(shape)}, expected f32, [1, {wanted}]"
            )
        return _in_step(op, None, op.target)


class ScalarsOp(Tile.Operation, name="scalars"):
    """Room for `count` f32, uniform over the warpgroup."""

    result: ext.Result[ScalarsType]
    count: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _at_least(op, 1, "count")


class FetchOp(Tile.Operation, name="fetch"):
    """Loads into `into` the scales source[row / row_block, k0 / k_block] of `count` rows, while k0 < k.

    The rows are row0 + own * (index of the warpgroup) + i * spacing, clamped below `rows`.
    """

    into: ext.Operand[ScalarsType]
    source: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    k_stride: ext.Operand[ir.IntegerType[64]]
    row0: ext.Operand[I32]
    rows: ext.Operand[I32]
    k0: ext.Operand[I32]
    k: ext.Operand[I32]
    row_block: ir.IntegerAttr
    k_block: ir.IntegerAttr
    own: ir.IntegerAttr
    spacing: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _at_least(op, 1, "row_block", "k_block") and _at_least(op, 0, "own", "spacing") and _reads_f32(op)


# ---------------------------------------------------------------------------------------------------------- compute


class FragmentOp(Tile.Operation, name="fragment"):
    """An accumulator of this warpgroup."""

    result: ext.Result[FragmentType]

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        shape, space = shape_of(op.result.type), str_of(op.result.type.space)
        if len(shape) != 2 or min(shape) < 1 or shape[0] % WAVE_ROWS or shape[1] % 8:
            return fail(op, f"an accumulator of {list(shape)}, expected rows by {WAVE_ROWS} and columns by 8")
        if space not in ("registers", "tensor"):
            return fail(op, f"an accumulator in {space}, expected registers or tensor")
        return True


class ClearOp(Tile.Operation, name="clear"):
    """Sets an accumulator to zero."""

    accumulator: ext.Operand[FragmentType]


class MmaOp(Tile.Operation, name="mma"):
    """accumulator[wave] (+)= A[rows of the wave] * B^T over the K of the cursor's stage; asynchronous.

    A's tile holds the rows of all warpgroups; `waves` of them belong to each. `accumulate` 0 overwrites.
    """

    accumulator: ext.Operand[FragmentType]
    a: ext.Operand[SharedType]
    b: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    a_wave: ir.IntegerAttr
    wave: ir.IntegerAttr
    waves: ir.IntegerAttr
    accumulate: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        a, b, c = (shape_of(v.type) for v in (op.a, op.b, op.accumulator))
        if a[1] != b[1]:
            return fail(op, f"A has {a[1]} columns of K, B {b[1]}")
        if c[1] != b[0]:
            return fail(op, f"the accumulator has {c[1]} columns, B {b[0]} rows")
        if not (_at_least(op, 0, "wave", "a_wave") and _at_least(op, 1, "waves") and _flag(op, "accumulate")):
            return False
        if c[0] <= int_of(op.wave) * WAVE_ROWS or int_of(op.a_wave) >= int_of(op.waves):
            return fail(
                op, f"wave {int_of(op.wave)} of A's wave {int_of(op.a_wave)} is outside an accumulator of {c[0]} rows"
            )
        if a[0] % (WAVE_ROWS * int_of(op.waves)):
            return fail(op, f"A has {a[0]} rows, expected a multiple of {int_of(op.waves)} waves of {WAVE_ROWS} rows")
        widths = [bits_of(element_of(v.type)) for v in (op.a, op.b)]
        if widths[0] != widths[1]:
            return fail(op, f"A's elements have {widths[0]} bits, B's {widths[1]}")
        return _in_step(op, None, op.a, op.b)


class MmaWaitOp(Tile.Operation, name="mma_wait"):
    """Waits until at most `pending` groups of products are in flight; the accumulator may then be read."""

    accumulator: ext.Operand[FragmentType]
    pending: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _at_least(op, 0, "pending")


class RowFactorsOp(Tile.Operation, name="row_factors"):
    """Scale factors of the rows of a wave: from the cursor's stage of a shared vector, or from a window's block."""

    source: ext.Operand[SharedType]
    position: ext.Operand[CursorType | WindowType]
    result: ext.Result[ScalesType]
    wave: ir.IntegerAttr
    waves: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        wave, waves = int_of(op.wave), int_of(op.waves)
        if not 0 <= wave < waves:
            return fail(op, f"wave {wave} of {waves}")
        rows = _holds_factors(op)
        if rows % (WAVE_ROWS * waves):
            return fail(op, f"factors of {rows} rows, expected a multiple of {waves} waves of {WAVE_ROWS} rows")
        return rows > 0


class ColumnFactorsOp(Tile.Operation, name="column_factors"):
    """Scale factors of the tile's columns, found likewise; read where they are used, so release after."""

    source: ext.Operand[SharedType]
    position: ext.Operand[CursorType | WindowType]
    result: ext.Result[ScalesType]

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        return _holds_factors(op) > 0


class UniformFactorsOp(Tile.Operation, name="uniform_factors"):
    """What `fetch` brought: scalars [first, first + count), each for `span` columns (0: for all)."""

    source: ext.Operand[ScalarsType]
    result: ext.Result[ScalesType]
    first: ir.IntegerAttr
    count: ir.IntegerAttr
    span: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        if not (_at_least(op, 0, "first", "span") and _at_least(op, 1, "count")):
            return False
        end, span, room = int_of(op.first) + int_of(op.count), int_of(op.span), _maker(op.source, "tile.scalars")
        if room is not None and end > int_of(room.count):
            return fail(op, f"takes scalars {int_of(op.first)}..{end} of {int_of(room.count)}")
        if span % 8 or (not span and int_of(op.count) > 1):
            return fail(
                op,
                f"{int_of(op.count)} factors of {span} columns each, expected a multiple of 8 (0: one factor for all)",
            )
        return True


class PromoteOp(Tile.Operation, name="promote"):
    """accumulator[wave] += partial * a_factors * b_factors, in FP32 registers."""

    accumulator: ext.Operand[FragmentType]
    partial: ext.Operand[FragmentType]
    a_factors: ext.Operand[ScalesType] | None
    b_factors: ext.Operand[ScalesType] | None
    wave: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        (rows, columns), (_, partial) = shape_of(op.accumulator.type), shape_of(op.partial.type)
        if columns != partial:
            return fail(op, f"the accumulator has {columns} columns, the partial sums {partial}")
        if not 0 <= int_of(op.wave) * WAVE_ROWS < rows:
            return fail(op, f"wave {int_of(op.wave)} is outside an accumulator of {rows} rows")
        return True


# --------------------------------------------------------------------------------------------------------- epilogue


class InputOp(Tile.Operation, name="input"):
    """An epilogue input: source[row / row_block * row_stride + column / column_block * column_stride].

    kind: "row" (one value a row), "col", "both" or "scalar"; strides in elements. `pair` 1: two adjacent columns may
    be loaded at once.
    """

    source: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    column_stride: ext.Operand[ir.IntegerType[64]]
    result: ext.Result[InputType]
    kind: ir.StringAttr
    row_block: ir.IntegerAttr
    column_block: ir.IntegerAttr
    pair: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        if str_of(op.kind) not in ("row", "col", "both", "scalar"):
            return fail(op, f"kind is {op.kind}, expected row, col, both or scalar")
        return _at_least(op, 1, "row_block", "column_block") and _flag(op, "pair")


class EpilogueOp(Tile.Operation, name="epilogue"):
    """accumulator = body(accumulator, inputs...), element by element; the body yields f32 (`tile.yield`)."""

    accumulator: ext.Operand[FragmentType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    inputs: Sequence[ext.Operand[InputType]]
    body: ext.Region

    @verifier
    def verify_region_invariants(op: ir.OpView) -> bool:
        if not _takes(op, [ir.F32Type.get()] * (1 + len(op.inputs))):
            return False
        last = op.body.blocks[0].operations[len(op.body.blocks[0].operations) - 1]
        if last.operation.name != "tile.yield":
            return fail(op, f"body ends in {last.operation.name}, expected tile.yield")
        return True


class YieldOp(Tile.Operation, name="yield", traits=[ir.IsTerminatorTrait]):
    """Ends the body of `tile.epilogue`."""

    value: ext.Operand[ir.F32Type]


class StoreOp(Tile.Operation, name="store"):
    """Rounds the accumulator to the element type and stores it at (m0, n0) through shared memory, by bulk copies."""

    accumulator: ext.Operand[FragmentType]
    staging: ext.Operand[SharedType]
    target: ext.Operand[DescriptorType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        staging, target, (rows, columns) = op.staging.type, op.target.type, shape_of(op.accumulator.type)
        box, element, swizzle = shape_of(target), element_of(target), int_of(target.swizzle)
        if element != element_of(staging) or swizzle != int_of(staging.swizzle):
            return fail(
                op, f"stages {element_of(staging)} with swizzle {int_of(staging.swizzle)}, stores {element}, {swizzle}"
            )
        if box[1] != WAVE_ROWS or box[0] * bits_of(element) != 8 * swizzle:
            return fail(op, f"box {list(box)} of {element}, expected {WAVE_ROWS} rows of {swizzle} bytes (the swizzle)")
        if shape_of(staging)[0] % rows or shape_of(staging)[1] != columns or columns % box[0]:
            return fail(
                op, f"stages [{rows}, {columns}] by boxes of {box[0]} columns in tiles of {list(shape_of(staging))}"
            )
        return True


class StoreDirectOp(Tile.Operation, name="store_direct"):
    """Rounds the accumulator and stores it from registers, within (m, n); `pair` 1 stores two columns at once."""

    accumulator: ext.Operand[FragmentType]
    target: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    pair: ir.IntegerAttr

    @verifier
    def verify_invariants(op: ir.OpView) -> bool:
        if not isinstance(op.target.type, ir.MemRefType):
            return fail(op, f"stores into {op.target.type}, expected a memref")
        return _flag(op, "pair")


class DrainOp(Tile.Operation, name="drain"):
    """Waits until this role's bulk stores are complete."""
