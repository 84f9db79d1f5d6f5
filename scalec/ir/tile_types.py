"""The `tile` dialect's types, and how to read them and the attributes of its ops."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.targets import ATOM, WAVES

I32 = ir.IntegerType[32]
I1 = ir.IntegerType[1]

RESPONSE_BYTES = 16
"""Bytes of a response of clusterlaunchcontrol.try_cancel, and its alignment (PTX ISA 9.7.13.18.1)."""


class Tile(ext.Dialect, name="tile"):
    """Tiles, roles, rings of stages, copies, tensor-core products."""


# ----------------------------------------------------------------------------------------------------------- types


class DescriptorType(Tile.Type, name="descriptor"):
    """A global tensor as bulk copies see it: box (innermost first), element type, swizzle as of a shared tile.

    A box of five extents, [columns, 2, 4, H, G], permutes rows, of which it has G times 8 H: of each 8 H, number
    2H q + 2h + e comes as number 8h + 2q + e (e < 2, q < 4, h < H). The sums of a product with such a B have their
    columns in that order: a thread, which has two of each eight (PTX ISA 9.7.15.5.1, figure D), has 2H adjacent ones.

    A box of three extents, [columns, H, G], has the H rows of each of G indices of a further axis, one after the other.
    """

    box: Any
    element: Any
    swizzle: Any


class SharedType(Tile.Type, name="buffer"):
    """A ring of tiles in shared memory: shape of one tile (rows, columns), element type, swizzle, stages.

    The swizzle is its bytes, or (bytes, atom) where it keeps `atom` bytes together and not 16 (PTX ISA 5.5.7).
    No row of a swizzled tile is longer in memory than its swizzle. A wider tile is a sequence of panels: the first
    columns of all rows, as many as the swizzle has bytes for, then the next columns of all rows (where `store` stages
    results: of all rows of a wave).
    """

    shape: Any
    element: Any
    swizzle: Any
    stages: Any


class FragmentType(Tile.Type, name="accumulator"):
    """An FP32 accumulator: shape (rows, columns), and the space it lives in.

    "registers": of a warpgroup; "warp": of a warp; "lane": of a warp of which each lane has a row, all its columns;
    "tensor": tensor memory.
    """

    shape: Any
    space: ir.StringAttr


class AddendsType(Tile.Type, name="addends"):
    """Which scales a warpgroup makes addends of, for whose elements its sums stand: a mutable value of each thread."""


class PowersType(Tile.Type, name="powers"):
    """The largest and the least of the scales of a K block, powers of two."""


class RelayType(Tile.Type, name="relay"):
    """A mutable place in registers for a value of any type, which an iteration of a loop leaves there for the next."""


class FoldsType(Tile.Type, name="folded_rows"):
    """A reduction along K of each of a thread's `count` rows, of what the thread has of these, as f32 in registers."""

    count: Any


class ElementsType(Tile.Type, name="element_inputs"):
    """f32 in registers of a thread, for each of its rows, or each element of its chunk, of an operand."""


class MultiplicandType(Tile.Type, name="slice"):
    """A warp's rows of A or columns of B in registers: shape (rows, K of one instruction), element, side "a" or "b"."""

    shape: Any
    element: Any
    side: ir.StringAttr


class WordsType(Tile.Type, name="scale_words"):
    """Scale bytes of a warp's rows of A or columns of B, four to a register: shape (words, rows), side "a" or "b"."""

    shape: Any
    side: ir.StringAttr


class ByteScalesType(Tile.Type, name="scale_bytes"):
    """Scale bytes of a tile's rows on their way from memory to a stage, in registers."""


class SumsType(Tile.Type, name="tensor_memory"):
    """A ring of `slots` FP32 accumulators in tensor memory: shape (rows, columns) of one."""

    shape: Any
    slots: Any


class ResponsesType(Tile.Type, name="response_slots"):
    """A ring of `stages` responses of cluster launch control in shared memory, RESPONSE_BYTES each."""

    stages: Any


class ItemsType(Tile.Type, name="item_slots"):
    """A ring of `slots` items in shared memory, of so many `words` of 32 bits each."""

    words: Any
    slots: Any


class RingType(Tile.Type, name="stages"):
    """The full and empty barriers of a ring of stages."""


class CursorType(Tile.Type, name="position"):
    """Where a role is in a ring: stage and phase."""


class ScalarsType(Tile.Type, name="registers"):
    """A few f32 in registers, uniform over the warpgroup or warp, fetched ahead of their use."""


class TotalsType(Tile.Type, name="row_totals"):
    """What a thread has of each of its rows of a tile that are being reduced, f32 in registers."""


class RowScalesType(Tile.Type, name="rows"):
    """Scales of a tile's rows on their way from memory to a stage, in registers."""


class RowIndexType(Tile.Type, name="index"):
    """An index in memory for each row, or column, of the tensors."""


class GatheredType(Tile.Type, name="gathered_rows"):
    """Indices of a tile's rows, in registers of a warp or a warpgroup."""


class WindowType(Tile.Type, name="window"):
    """Which of a window's K blocks a role is at, and which slot of a ring of windows holds it."""


class ScalesType(Tile.Type, name="factors"):
    """Scale factors ready for promotion: by row, by column, or uniform over stretches of columns."""


class InputType(Tile.Type, name="operand"):
    """A tensor or scalar that the epilogue reads at the element's coordinates."""


def shape_of(t: ir.Type) -> tuple[int, ...]:
    """Shape (or box) of a tile type."""
    return tuple(ir.DenseI64ArrayAttr(t.box if isinstance(t, DescriptorType) else t.shape))


def permuted_of(box: tuple[int, ...]) -> int:
    """Rows within which copies of a box change the order, 0: none."""
    return 8 * box[3] if len(box) > 3 else 0


def inner_of(box: tuple[int, ...]) -> int:
    """Rows of a box for each index of a further axis; 0 where rows have one axis."""
    return box[1] if len(box) == 3 else 0


def element_of(t: ir.Type) -> ir.Type:
    """Element type of a descriptor or shared tile."""
    return ir.TypeAttr(t.element).value


def int_of(attribute: ir.Attribute) -> int:
    return ir.IntegerAttr(attribute).value


def ints_of(attribute: ir.Attribute) -> tuple[int, ...]:
    return tuple(ir.DenseI64ArrayAttr(attribute))


def optional(op: Any, name: str, otherwise: Any = 0) -> Any:
    """An attribute that an op may have, of the type of what it stands for `otherwise`."""
    if name not in op.operation.attributes:
        return otherwise
    read = {int: int_of, str: str_of, tuple: ints_of}[type(otherwise)]
    return read(op.operation.attributes[name])


def gaps_of(op: ir.OpView) -> tuple[int, int, int] | None:
    """The `gaps` of an op that stores: size, every and phase; None where it has none."""
    return optional(op, "gaps", ()) or None


def str_of(attribute: ir.Attribute) -> str:
    return ir.StringAttr(attribute).value


def bits_of(t: ir.Type) -> int:
    """Storage bits of an element type: tf32 is stored as f32."""
    return 32 if str(t) == "tf32" else t.width


def swizzle_of(t: ir.Type) -> int:
    """Bytes of the swizzle of a shared tile or a descriptor, 0 for none."""
    return _swizzle(t)[0]


def atom_of(t: ir.Type) -> int:
    """Bytes that it keeps together."""
    return _swizzle(t)[1]


def _swizzle(t: ir.Type) -> tuple[int, int]:
    swizzle = t.swizzle.maybe_downcast()
    return tuple(swizzle) if isinstance(swizzle, ir.DenseI64ArrayAttr) else (int_of(swizzle), ATOM)


def wave_rows(t: ir.Type) -> int:
    """Rows of a wave of an accumulator."""
    space = str_of(t.space)
    return WAVES["warp" if space == "lane" else space]


def stage_bytes(t: ir.Type) -> int:
    """Bytes of one stage of a shared tile: rows padded to 128 bytes where it is a vector."""
    rows, columns = shape_of(t)
    size = rows * columns * bits_of(element_of(t)) // 8
    return -(-size // 128) * 128


def shared_bytes(t: ir.Type) -> int:
    """Bytes of all stages of a shared tile."""
    return stage_bytes(t) * int_of(t.stages)
