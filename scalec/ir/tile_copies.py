"""Ops of `tile` that bring tiles and scales in."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.formats import NUMBERS
from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import (
    Op,
    StageOp,
    copies,
    element_in,
    fetches,
    fills,
    in_pages,
    in_step,
    maker,
    reads_numbers,
)
from scalec.ir.tile_cut import CHUNK
from scalec.ir.tile_types import *
from scalec.ir.verify import Axis, Count, Natural, Power, Transaction, refuse

WIDENED = ("ue8m0", "ue4m3")
"""Types of scales of a byte that kernels make f32 of where they use them, as of NUMBERS."""


PERMUTED_USES = {
    "tile.copy": 1, "tile.mma": 2, "tile.mma_converted": 2, "tile.cut_k": 0, "tile.wrap_k": 0, "tile.interleave_k": 0
}  # fmt: skip
"""What may use a tile whose rows are permuted, as which operand: B of products, or each row by itself."""


class CopyOp(Op, name="copy"):
    """Bulk copy of the tile at (x, y), x innermost, into the cursor's stage; completes on the ring's full barrier.

    The box is the tile, or one panel of it (`buffer`): the panels are then copied one by one, to the right along x.
    The ring may be the one of a leader (tile.leader): the tile is this CTA's, and the leader waits for it.
    With `multicast` above 0 the cluster's CTAs have so many different tiles, by turns: the first of them issue it, each
    for all CTAs that have the same.
    A box of five extents permutes rows (`descriptor`), of B of tile.mma alone, whose sums are read as columns in that
    order; y is then a multiple of the rows within which it does. With a box of three, y is likewise a multiple of the
    rows that each index of its last axis has.
    `row`, an optional integer: the box has some rows of the tile, or panel, which begin with that one.
    """

    source: ext.Operand[DescriptorType]
    target: ext.Operand[SharedType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    x: ext.Operand[I32]
    y: ext.Operand[I32]
    multicast: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        copies(op, panels=True)
        in_step(op, None, op.target)
        permuted = permuted_of(shape_of(op.source.type))
        for use in op.target.uses if permuted else ():
            if use.operand_number != PERMUTED_USES.get(use.owner.operation.name):
                refuse(f"permutes rows within {permuted} of a tile that is not B of tile.mma alone")


class ClearRowsOp(Op, name="clear_rows"):
    """All threads of the CTA make zero of the rows of each stage of `target` from `first` on, which no copy brings;
    what syncs them follows."""

    target: ext.Operand[SharedType]
    first: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        rows, columns = shape_of(op.target.type)
        line = columns * bits_of(element_of(op.target.type)) // 8
        if line > (swizzle_of(op.target.type) or line) or line % CHUNK:
            refuse(f"clears rows of {line} bytes of {op.target.type}, expected one panel of whole {CHUNK} bytes")
        if not 0 < int_of(op.first) < rows:
            refuse(f"clears rows from {int_of(op.first)} of {rows} on")


class ViewOp(Op, name="view"):
    """A tensor in global memory at some indices along axes that a tile does not run along: what copies, or threads, see
    of it begins there. Memory has a stride for each, in elements (bytes of packed ones); a `descriptor` of a tensor map
    has these indices behind x and y, with an extent of 1 in its box."""

    source: ext.Operand[Any]
    at: Sequence[ext.Operand[I32]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    result: ext.Result[Any]

    def verify_invariants(op: ir.OpView) -> None:
        if op.result.type != op.source.type:
            refuse(f"makes {op.result.type} of {op.source.type}, expected the same type")
        wanted = 0 if isinstance(op.source.type, DescriptorType) else len(op.at)
        if not len(op.at) or len(op.strides) != wanted:
            refuse(f"{len(op.at)} indices and {len(op.strides)} strides, expected {wanted} strides")


class WindowOp(Op, name="windows"):
    """A position in a ring of `slots` windows of `blocks` K blocks each (a power of two), at its start."""

    result: ext.Result[WindowType]
    blocks: Power
    slots: Power


class OpenWindowOp(Op, name="open_window"):
    """Moves to the first block of the next window, unless already at one: a new tile starts a new window."""

    window: ext.Operand[WindowType]


class SkipBlocksOp(Op, name="skip_blocks"):
    """Moves on to the block of an open window that is number `block` of all K blocks: a part of K begins there."""

    window: ext.Operand[WindowType]
    block: ext.Operand[I32]


class NextBlockOp(Op, name="next_block"):
    """Moves to the next K block."""

    window: ext.Operand[WindowType]


class AnnounceOp(StageOp, name="announce"):
    """Producer: announces `bytes` more of bulk copies to the stage's full barrier, without arriving."""

    bytes: Transaction


class CopyWindowOp(Op, name="copy_window"):
    """Bulk copy of the box at (x, y) into the window's slot; completes on the ring's full barrier at `cursor`."""

    source: ext.Operand[DescriptorType]
    target: ext.Operand[SharedType]
    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]
    window: ext.Operand[WindowType]
    x: ext.Operand[I32]
    y: ext.Operand[I32]
    multicast: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        copies(op)
        window, (_, blocks), slots = maker(op.window, "tile.windows"), shape_of(op.target.type), op.target.type.stages
        if window is not None and (blocks, int_of(slots)) != (int_of(window.blocks), int_of(window.slots)):
            wanted = f"{int_of(window.slots)} slots of {int_of(window.blocks)} K blocks"
            refuse(f"the buffer has {int_of(slots)} slots of {blocks} K blocks, the window goes through {wanted}")


class RowScalesOp(Op, name="row_scales"):
    """Registers for the scales of `rows` rows and `blocks` blocks of K, spread over the threads of `warps` warps: f32,
    or of the type `element`, an optional string, one of NUMBERS."""

    result: ext.Result[RowScalesType]
    rows: Count
    blocks: Count
    warps: Count

    def verify_invariants(op: ir.OpView) -> None:
        if (element := element_in(op)) not in NUMBERS:
            refuse(f"room for {element}, expected {' or '.join(NUMBERS)}")


class LoadRowsOp(Op, name="load_rows"):
    """Loads source[(row0 + i) / row_block, k0 / block + j] for all rows i and blocks j of `into`, while inside k.

    Block j is that of K element k0 + j * step. Rows are clamped below `rows`; strides in elements. `zeros` or `ones`,
    an optional unit attribute: beyond k it is 0 or 1, and else what was there, which nobody multiplies by. Where `into`
    is looked up (`tile.look_up`), the rows are those that it names, and where it names none, nothing is loaded. With
    `page`, an optional integer, it names pages, `page_stride` apart, and row i is (row0 + i) % page of its own.
    """

    into: ext.Operand[RowScalesType]
    source: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    k_stride: ext.Operand[ir.IntegerType[64]]
    row0: ext.Operand[I32]
    rows: ext.Operand[I32]
    k0: ext.Operand[I32]
    k: ext.Operand[I32]
    page_stride: ext.Operand[ir.IntegerType[64]] | None
    step: Count
    block: Count
    row_block: Count

    def verify_invariants(op: ir.OpView) -> None:
        in_pages(op)
        room = maker(op.into, "tile.row_scales")
        element = element_in(room) if room is not None else ""
        reads_numbers(op, element)


class StoreRowsOp(Op, name="store_rows"):
    """Stores block `index` of the rows' scales, as f32, into the cursor's stage of a shared vector; of several vectors
    [blocks, rows] as many blocks, `index` times as many further. With `strips`, (first, rows, apart), row i is the
    tile's row first + i + i / rows * apart. With `pairs`, an optional string attribute, each is two equal numbers of
    that type of 16 bits, an i32."""

    source: ext.Operand[RowScalesType]
    target: ext.Operand[SharedType]
    cursor: ext.Operand[CursorType]
    index: ir.IntegerAttr

    def verify_invariants(op: ir.OpView) -> None:
        room, shape = maker(op.source, "tile.row_scales"), shape_of(op.target.type)
        if room is not None and not 0 <= int_of(op.index) < int_of(room.blocks) // shape[0]:
            refuse(f"stores block {int_of(op.index)} of {int_of(room.blocks) // shape[0]}")
        wanted = "i32" if "pairs" in op.operation.attributes else "f32"
        if str(element_of(op.target.type)) != wanted:
            refuse(f"stores into tiles of {element_of(op.target.type)}, expected {wanted}")
        if room is not None:
            fills(op, room, shape[1])
        in_step(op, None, op.target)


class ScalarsOp(Op, name="scalars"):
    """Room for `count` f32, uniform over the warpgroup or warp, or for scales of the type `element`, an optional
    string."""

    result: ext.Result[ScalarsType]
    count: Count

    def verify_invariants(op: ir.OpView) -> None:
        if (element := element_in(op)) not in (*NUMBERS, *WIDENED):
            refuse(f"room for {element}, expected {' or '.join((*NUMBERS, *WIDENED))}")


class PrefetchOp(Op, name="prefetch"):
    """Asks L2 for the scales source[row / row_block, k / k_block] of all `k` elements of K, `count` rows, which are
    row0 + i * spacing, clamped below `rows`; a warp, whose lanes ask for a sector each."""

    source: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    k_stride: ext.Operand[ir.IntegerType[64]]
    row0: ext.Operand[I32]
    rows: ext.Operand[I32]
    k0: ext.Operand[I32]
    k: ext.Operand[I32]
    row_block: Count
    k_block: Count
    count: Count
    spacing: Natural

    def verify_invariants(op: ir.OpView) -> None:
        reads_numbers(op)


class FetchOp(Op, name="fetch"):
    """Loads into `into` the scales source[row / row_block, k0 / k_block] of `count` rows, while k0 < k.

    The rows are row0 + own * (index along `axis`, "m" or "n", of the warpgroup or warp) + i * spacing, clamped below
    `rows`. `zeros` and `ones` as of `load_rows`. With `part`, (first, count), the registers of `into` from `first` on
    are those of `count` rows, and the others stay.
    """

    into: ext.Operand[ScalarsType]
    source: ext.Operand[Any]
    row_stride: ext.Operand[ir.IntegerType[64]]
    k_stride: ext.Operand[ir.IntegerType[64]]
    row0: ext.Operand[I32]
    rows: ext.Operand[I32]
    k0: ext.Operand[I32]
    k: ext.Operand[I32]
    row_block: Count
    k_block: Count
    axis: Axis
    own: Natural
    spacing: Natural

    def verify_invariants(op: ir.OpView) -> None:
        room = maker(op.into, "tile.scalars")
        fetches(op)
        reads_numbers(op, element_in(room) if room is not None else "")
