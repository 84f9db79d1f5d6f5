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
        end = max((_end(o) for o in blocks[0].operations), default=0)
        if end > int_of(op.shared_bytes):
            return fail(op, f"buffers and rings end at byte {end}, beyond the shared memory of {op.shared_bytes} bytes")
        warps = [ints_of(o.attributes["warps"]) for o in blocks[0].operations if o.operation.name == "tile.role"]
        taken = [w for low, high in warps for w in range(low, high)]
        if len(taken) != len(set(taken)):
            return fail(op, f"roles share warps: {warps}")
        if taken and max(taken) >= int_of(op.threads) // 32:
            return fail(
                op, f"a role has warp {max(taken)}, but {op.threads} threads are {int_of(op.threads) // 32} warps"
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
        if int_of(op.registers) % 8 or not 24 <= int_of(op.registers) <= 240:
            return fail(op, f"registers {op.registers} must be a multiple of 8 from 24 to 240")
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


class SyncOp(Tile.Operation, name="sync"):
    """All threads of the `scope` ("cta" or "cluster") meet."""

    scope: ir.StringAttr


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


class StepsOp(Tile.Operation, name="steps", traits=[ir.NoTerminatorTrait]):
    """Walks K in steps of `step` elements: body(k0). `unroll` bodies stand in one iteration."""

    k: ext.Operand[I32]
    step: ir.IntegerAttr
    unroll: ir.IntegerAttr
    body: ext.Region


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
        if int_of(op.offset) % align:
            return fail(op, f"offset {op.offset} is not a multiple of {align} (the period of a {swizzle}-byte swizzle)")
        return True


class RingOp(Tile.Operation, name="ring"):
    """`depth` pairs of barriers at byte `offset`: `full` arrivals fill a stage, `empty` arrivals hand it back."""

    result: ext.Result[RingType]
    offset: ir.IntegerAttr
    depth: ir.IntegerAttr
    full: ir.IntegerAttr
    empty: ir.IntegerAttr


class CursorOp(Tile.Operation, name="cursor"):
    """A position in a ring of `depth` stages, at its first stage."""

    result: ext.Result[CursorType]
    depth: ir.IntegerAttr


class AcquireOp(Tile.Operation, name="acquire"):
    """Producer: waits until the stage is empty."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]


class ExpectOp(Tile.Operation, name="expect"):
    """Producer: arrives at the stage's full barrier and announces `bytes` of bulk copies."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    bytes: ir.IntegerAttr


class CommitOp(Tile.Operation, name="commit"):
    """Producer: this warp arrives at the full barrier; what its threads stored before is visible to who waits."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]


class WaitOp(Tile.Operation, name="wait"):
    """Consumer: waits until the stage is full (returns at once where `peek` has seen it full)."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]


class PeekOp(Tile.Operation, name="peek"):
    """Consumer: tests whether the stage is full, without waiting; the next `wait` uses the answer."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]


class ReleaseOp(Tile.Operation, name="release"):
    """Consumer: hands the stage `lag` before the cursor's back to every CTA whose copies fill it.

    `unless`, where given, is a condition under which nothing is handed back.
    """

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    unless: ext.Operand[I1] | None
    lag: ir.IntegerAttr


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
        box, tile = shape_of(op.source.type), shape_of(op.target.type)
        if box[::-1] != tile:
            return fail(op, f"box {list(box)} (innermost first) does not fill a tile of {list(tile)}")
        if element_of(op.source.type) != element_of(op.target.type):
            return fail(op, f"copies {element_of(op.source.type)} into a tile of {element_of(op.target.type)}")
        if int_of(op.source.type.swizzle) != int_of(op.target.type.swizzle):
            return fail(op, f"swizzles differ: {op.source.type.swizzle} and {op.target.type.swizzle}")
        return True


class WindowOp(Tile.Operation, name="windows"):
    """A position in a ring of `slots` windows of `blocks` K blocks each (a power of two), at its start."""

    result: ext.Result[WindowType]
    blocks: ir.IntegerAttr
    slots: ir.IntegerAttr


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


class RowScalesOp(Tile.Operation, name="row_scales"):
    """Registers for the scales of `rows` rows and `blocks` blocks of K, spread over the threads of `warps` warps."""

    result: ext.Result[RowScalesType]
    rows: ir.IntegerAttr
    blocks: ir.IntegerAttr
    warps: ir.IntegerAttr


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


class StoreRowsOp(Tile.Operation, name="store_rows"):
    """Stores block `index` of the rows' scales into the cursor's stage of a shared vector."""

    source: ext.Operand[RowScalesType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    index: ir.IntegerAttr


class ScalarsOp(Tile.Operation, name="scalars"):
    """Room for `count` f32, uniform over the warpgroup."""

    result: ext.Result[ScalarsType]
    count: ir.IntegerAttr


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


# ---------------------------------------------------------------------------------------------------------- compute


class FragmentOp(Tile.Operation, name="fragment"):
    """An accumulator of this warpgroup."""

    result: ext.Result[FragmentType]


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
        if c[0] <= int_of(op.wave) * 64 or int_of(op.a_wave) >= int_of(op.waves):
            return fail(op, f"wave {op.wave} of A's wave {op.a_wave} is outside an accumulator of {c[0]} rows")
        return True


class MmaWaitOp(Tile.Operation, name="mma_wait"):
    """Waits until at most `pending` groups of products are in flight; the accumulator may then be read."""

    accumulator: ext.Operand[FragmentType]
    pending: ir.IntegerAttr


class RowFactorsOp(Tile.Operation, name="row_factors"):
    """Scale factors of the rows of a wave: from the cursor's stage of a shared vector, or from a window's block."""

    source: ext.Operand[SharedType]
    position: ext.Operand[CursorType | WindowType]
    result: ext.Result[ScalesType]
    wave: ir.IntegerAttr
    waves: ir.IntegerAttr


class ColumnFactorsOp(Tile.Operation, name="column_factors"):
    """Scale factors of the tile's columns, found likewise; read where they are used, so release after."""

    source: ext.Operand[SharedType]
    position: ext.Operand[CursorType | WindowType]
    result: ext.Result[ScalesType]


class UniformFactorsOp(Tile.Operation, name="uniform_factors"):
    """What `fetch` brought: scalars [first, first + count), each for `span` columns (0: for all)."""

    source: ext.Operand[ScalarsType]
    result: ext.Result[ScalesType]
    first: ir.IntegerAttr
    count: ir.IntegerAttr
    span: ir.IntegerAttr


class PromoteOp(Tile.Operation, name="promote"):
    """accumulator[wave] += partial * a_factors * b_factors, in FP32 registers."""

    accumulator: ext.Operand[FragmentType]
    partial: ext.Operand[FragmentType]
    a_factors: ext.Operand[ScalesType] | None
    b_factors: ext.Operand[ScalesType] | None
    wave: ir.IntegerAttr


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


class EpilogueOp(Tile.Operation, name="epilogue"):
    """accumulator = body(accumulator, inputs...), element by element; the body yields f32 (`tile.yield`)."""

    accumulator: ext.Operand[FragmentType]
    m0: ext.Operand[I32]
    n0: ext.Operand[I32]
    m: ext.Operand[I32]
    n: ext.Operand[I32]
    inputs: Sequence[ext.Operand[InputType]]
    body: ext.Region


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


class DrainOp(Tile.Operation, name="drain"):
    """Waits until this role's bulk stores are complete."""
