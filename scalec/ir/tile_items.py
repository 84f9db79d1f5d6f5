"""Ops of `tile` by which one warp finds what there is to do and tells the others, where tensors say what that is."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Sequence
from typing import Any

from scalec.ir.mlir import ext, ir
from scalec.ir.tile_checks import Op, StageOp, extents, memory_of, takes
from scalec.ir.tile_types import I1, I32, FragmentType, ItemsType, int_of, optional, str_of
from scalec.ir.verify import Axis, Count, Natural, refuse

ITEM_ALIGN = 16
"""Bytes that an item is a multiple of: it is read and written by vectors."""


class ItemsOp(Op, name="items"):
    """A ring of items at byte `offset`, each of so many words of 32 bits."""

    result: ext.Result[ItemsType]
    offset: Natural

    def verify_invariants(op: ir.OpView) -> None:
        if int_of(op.offset) % ITEM_ALIGN:
            refuse(f"offset {int_of(op.offset)} is not a multiple of {ITEM_ALIGN}, which items are aligned to")
        words, slots = int_of(op.result.type.words), int_of(op.result.type.slots)
        if words < 1 or words % (ITEM_ALIGN // 4):
            refuse(f"has items of {words} words, expected a multiple of {ITEM_ALIGN // 4}: vectors move them")
        if not (slots > 0 and slots.bit_count() == 1):
            refuse(f"has {slots} slots, expected a power of two")


class WorkOp(StageOp, name="work", traits=[ir.NoTerminatorTrait]):
    """Takes items until the last one: body(words). Each is handed back as soon as it is read.

    `tile` are the extents of a tile, `turns` is 1: warpgroups share each. `runs`, optional numbers of words: items,
    one behind the other, of which these are the same are a run, and differ in their first word alone.
    """

    items: ext.Operand[ItemsType]
    tile: Any
    turns: ir.IntegerAttr
    body: ext.Region

    def verify_invariants(op: ir.OpView) -> None:
        if int_of(op.turns) != 1:
            refuse(f"turns is {int_of(op.turns)}, expected 1: who takes an item does not know the next one's")
        words, runs = int_of(op.items.type.words), optional(op, "runs", ())
        if any(not 0 < i < words for i in runs):
            refuse(f"runs are told apart by words {list(runs)}, expected some of 1 to {words - 1}")
        marks = sum(o.operation.name == "tile.next_item" for o in op.body.blocks[0].operations)
        if marks > 1:
            refuse(f"body has {marks} tile.next_item, expected 1 at most")
        extents(op, "tile")
        takes(op, [ir.IntegerType.get_signless(32)] * words)


class NextItemOp(Op, name="next_item"):
    """Where a body of `tile.work` takes the next item, which is else taken behind it: what waits for that is then done
    beside what follows. The body's own item stays what it is."""


class OwnRowOp(Op, name="own_row"):
    """The first row that this thread's unit has of a tile, counted from the tile's first, of which it has sums."""

    accumulator: ext.Operand[FragmentType]
    result: ext.Result[I32]


class PostOp(StageOp, name="post"):
    """A warp posts an item when its slot is empty, and its cursor moves on; without values, that there are no more."""

    items: ext.Operand[ItemsType]
    values: Sequence[ext.Operand[I32]]

    def verify_invariants(op: ir.OpView) -> None:
        words = int_of(op.items.type.words)
        if len(op.values) not in (0, words):
            refuse(f"has {len(op.values)} values, expected the {words} words of an item, or none: the end")


class LoadIndexOp(Op, name="load_index"):
    """An element of an i32 tensor: at so many indices, each with the stride of its axis."""

    source: ext.Operand[Any]
    at: Sequence[ext.Operand[I32]]
    strides: Sequence[ext.Operand[ir.IntegerType[64]]]
    result: ext.Result[I32]

    def verify_invariants(op: ir.OpView) -> None:
        if len(op.at) != len(op.strides):
            refuse(f"{len(op.at)} indices and {len(op.strides)} strides, expected as many")
        memory_of(op, "source", "i32")


class FindGroupOp(Op, name="find_group"):
    """Which of `groups` has the index `at`: the last one that begins at or below it, by offsets that do not fall, group
    g's and at g + 1 its end; where it begins, `low`, and whether `at` lies `inside`. 0 and 0 where no group does."""

    offsets: ext.Operand[Any]
    stride: ext.Operand[ir.IntegerType[64]]
    groups: ext.Operand[I32]
    at: ext.Operand[I32]
    group: ext.Result[I32]
    low: ext.Result[I32]
    inside: ext.Result[I1]

    verify_invariants = staticmethod(lambda op: memory_of(op, "offsets", "i32"))


class GroupOfTileOp(Op, name="group_of_tile"):
    """Which of `groups` has the tile that begins at `at`, of tiles of P = `rows` rows each, where group g, whose rows
    begin at `low` and end before `high`, has those from (low / P + g) P on: the last one that begins there or before.
    0, 0 and 0 where no group does. Offsets are as those of `tile.find_group`. All threads of a warp come here with the
    same `at`."""

    offsets: ext.Operand[Any]
    stride: ext.Operand[ir.IntegerType[64]]
    groups: ext.Operand[I32]
    at: ext.Operand[I32]
    group: ext.Result[I32]
    low: ext.Result[I32]
    high: ext.Result[I32]
    rows: Count

    verify_invariants = staticmethod(lambda op: memory_of(op, "offsets", "i32"))


class ClampOp(Op, name="clamp"):
    """The number, signed, nearest to `value` that is at least `low` and, as far as that goes, at most `high`."""

    value: ext.Operand[I32]
    low: ext.Operand[I32]
    high: ext.Operand[I32]
    result: ext.Result[I32]


class BoundsOp(Op, name="bounds"):
    """Ends `bounds` of `tile.ragged_tiles`: the range of a group, [low, high)."""

    low: ext.Operand[I32]
    high: ext.Operand[I32]


class SameOp(Op, name="same"):
    """Ends `values` of `tile.run`."""

    values: Sequence[ext.Operand[I32]]


class RunOp(Op, name="run", traits=[ir.NoTerminatorTrait]):
    """Of `blocks` blocks, whether the one `at` begins a run of such that have the same values(block), and the first one
    behind that run; of one that begins none the next one."""

    at: ext.Operand[I32]
    blocks: ext.Operand[I32]
    begins: ext.Result[I1]
    behind: ext.Result[I32]
    values: ext.Region

    def verify_invariants(op: ir.OpView) -> None:
        found = list(op.values.blocks)
        if len(found) != 1 or [str(a.type) for a in found[0].arguments] != ["i32"]:
            refuse("values is not one block that takes the number of a block")
        last = found[0].operations[len(found[0].operations) - 1]
        if last.operation.name != "tile.same" or not len(last.operands):
            refuse(f"values ends in {last.operation.name}, expected tile.same of one or more values")


class RaggedTilesOp(Op, name="ragged_tiles", traits=[ir.NoTerminatorTrait]):
    """Walks the tiles of this CTA's cluster, as `tile.tiles` does, of groups that each have a range of rows or columns.

    bounds(group) gives a group's range of dimension `axis` ("m" or "n"), of which what lies outside the dimension does
    not count; its tiles begin where the range does. body(m0, n0, low, high, group, *outer), with the range. A warp
    walks them, which looks at `each` times as many groups together as it has lanes. `outer` are sizes as those of
    `tile.tiles`. `run`, optional: a cluster takes that many tiles or fewer one after the other, as in `tile.tiles`.
    `whole`, an optional unit attribute: each cluster has a share of all tiles, one behind the other, and walks runs:
    the body takes one more number, where the run's rows end. `empty`, optional: a group without rows or columns has a
    tile, too, in which none are: it begins and ends at the multiple of this at or before where the group does.
    """

    m: ext.Operand[I32]
    n: ext.Operand[I32]
    groups: ext.Operand[I32]
    outer: Sequence[ext.Operand[I32]]
    axis: Axis
    each: Count
    tile: Any
    cluster: Any
    order: Axis
    band: Count
    bounds: ext.Region
    body: ext.Region

    def verify_invariants(op: ir.OpView) -> None:
        blocks = list(op.bounds.blocks)
        if len(blocks) != 1 or [str(a.type) for a in blocks[0].arguments] != ["i32"]:
            refuse("bounds is not one block that takes the group")
        last = blocks[0].operations[len(blocks[0].operations) - 1]
        if last.operation.name != "tile.bounds":
            refuse(f"bounds ends in {last.operation.name}, expected tile.bounds")
        i32, whole = ir.IntegerType.get_signless(32), "whole" in op.operation.attributes
        if (step := optional(op, "empty", 1)) < 1:
            refuse(f"empty is {step}, expected a step of at least 1")
        if whole and (str_of(op.axis), str_of(op.order), int_of(op.band)) != ("m", "n", 1):
            refuse("runs are of one column of tiles each, expected axis m, order n and a band of 1")
        extents(op, "tile", "cluster")
        takes(op, [i32] * (5 + len(op.outer) + whole))
