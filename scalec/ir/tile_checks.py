"""What several verifiers of the `tile` dialect ask."""

# no `from __future__ import annotations` here: the bindings read the annotations as classes

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from scalec.formats import NUMBERS
from scalec.ir.mlir import ext, ir
from scalec.ir.tile_types import *
from scalec.ir.verify import refuse, verifier
from scalec.targets import ATOM, MAX_BOX


class Op(Tile.Operation):
    """An op of the dialect: it says by the types of its attributes, and by verifiers, what it refuses. The cursor of
    one that has a ring goes in step with it."""

    def __init_subclass__(cls, **how: Any) -> None:
        fields, own = cls.__annotations__, cls.__dict__
        checks = [_plain(own["verify_invariants"])] if "verify_invariants" in own else []
        if {"ring", "cursor"} <= fields.keys() | {x.name for x in getattr(cls, "_fields", ())}:
            checks.insert(0, _ring_in_step)
        if checks or any(hasattr(kind, "able") for kind in fields.values()):
            cls.verify_invariants = verifier(*checks)
        if "verify_region_invariants" in own:
            cls.verify_region_invariants = verifier(_plain(own["verify_region_invariants"]))
        super().__init_subclass__(**how)


def _plain(check: Any) -> Callable[[ir.OpView], object]:
    return check.__func__ if isinstance(check, staticmethod) else check


def _ring_in_step(op: ir.OpView) -> None:
    if op.ring is not None:
        in_step(op, op.ring)


class StageOp(Op):
    """An op on the stage of a ring that a cursor is at."""

    ring: ext.Operand[RingType]
    cursor: ext.Operand[CursorType]


def at_least(op: ir.OpView, low: int, *names: str) -> None:
    """Refuses an integer attribute below `low`."""
    for name in names:
        value = int_of(op.operation.attributes[name])
        if value < low:
            refuse(f"{name} is {value}, expected at least {low}")


def flag(op: ir.OpView, *names: str) -> None:
    """Refuses an integer attribute that is neither 0 nor 1."""
    for name in names:
        value = int_of(op.operation.attributes[name])
        if value not in (0, 1):
            refuse(f"{name} is {value}, expected 0 or 1")


def extents(op: ir.OpView, *names: str) -> None:
    """Refuses an attribute that is not two positive integers, along M and N."""
    for name in names:
        values = ints_of(op.operation.attributes[name])
        if len(values) != 2 or min(values) < 1:
            refuse(f"{name} is {list(values)}, expected two positive integers (M, N)")


def gaps(op: ir.OpView) -> None:
    """Refuses gaps (`gaps_of`) that are none."""
    if "gaps" not in op.operation.attributes:
        return
    values = ints_of(op.operation.attributes["gaps"])
    if len(values) != 3 or min(values[:2]) < 1 or values[2] < 0:
        refuse(f"gaps is {list(values)}, expected a size, a distance and a phase of at least 1, 1 and 0")


def into_memory(op: ir.OpView, target: ir.Value | None = None) -> None:
    """Refuses a target, the op's where none is given, that is not memory."""
    kind = (op.target if target is None else target).type
    if not isinstance(kind, ir.MemRefType):
        refuse(f"stores into {kind}, expected a memref")


def scattered(op: ir.OpView, *axes: str) -> None:
    """Refuses numbers of some of `skips` (`to`) that are none, or of those that are not each along another one of these
    axes."""
    if "to" not in op.operation.attributes:
        return
    left = list(axes)
    for number in (numbers := ints_of(op.operation.attributes["to"])):
        if not 0 <= number < len(op.skips):
            refuse(f"to is {list(numbers)}, of {len(op.skips)} skips")
        made = maker(op.skips[number], "tile.row_index")
        along = str_of(made.axis) if made is not None else "".join(left[:1])
        if along not in left:
            refuse(f"scatters along {along}, expected {' or '.join(left) or 'one index of an axis'}")
        left.remove(along)


def takes(op: ir.OpView, wanted: Sequence[ir.Type]) -> None:
    """Refuses a body that is not one block of these arguments."""
    blocks = list(op.body.blocks)
    if len(blocks) != 1:
        refuse(f"body has {len(blocks)} blocks, expected 1")
    got = [str(a.type) for a in blocks[0].arguments]
    if got != [str(w) for w in wanted]:
        refuse(f"body takes ({', '.join(got)}), expected ({', '.join(map(str, wanted))})")


def computes(op: ir.OpView, numbers: int, made: int = 1) -> None:
    """Refuses a body that does not yield so many values, `made`, of so many f32."""
    takes(op, [ir.F32Type.get()] * numbers)
    last = list(op.body.blocks[0].operations)[-1]
    if last.operation.name != "tile.yield":
        refuse(f"body ends in {last.operation.name}, expected tile.yield")
    if len(last.operation.operands) != made:
        refuse(f"body yields {len(last.operation.operands)} values, expected {made}")


def maker(value: ir.Value, name: str) -> Any:
    """The op `name` that made a handle, None where another did (a block argument)."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != name else owner.opview


def in_rounds(op: ir.OpView, cursors: Sequence[ir.Value], bodies: int) -> None:
    """Refuses cursors of which a round of so many bodies does not know the stages."""
    whole, rounds = bodies, f"{bodies} bodies"
    for cursor in cursors:
        made = maker(cursor, "tile.cursor")
        if made is None:
            refuse("a cursor of its iterations is not made by tile.cursor")
        depth = int_of(made.depth)
        if whole % depth:
            refuse(f"an iteration is {rounds} and a cursor has {depth} stages, expected a divisor")
        moves = sum(o.operation.name == "tile.advance" and o.cursor == cursor for o in op.body.blocks[0].operations)
        if moves != 1:
            refuse(f"body advances a cursor of its iterations {moves} times, expected once")
        if cursor == cursors[0]:
            whole, rounds = depth, f"{depth} stages of the first cursor"


def in_step(op: ir.OpView, ring: ir.Value | None, *buffers: ir.Value) -> None:
    """Refuses a cursor of another depth than its ring or the buffers whose stages it picks."""
    cursor = maker(op.cursor, "tile.cursor")
    if cursor is None:
        return
    depth, of = int_of(cursor.depth), [("buffer", int_of(v.type.stages)) for v in buffers]
    for view in ("tile.leader", "tile.of_turn", "tile.detour"):
        if ring is not None and (seen := maker(ring, view)) is not None:
            ring = seen.ring
    rings = ("tile.ring", "tile.turn_ring", "tile.cut_ring")
    if ring is not None and (made := next((m for x in rings if (m := maker(ring, x)) is not None), None)) is not None:
        of.insert(0, ("ring", int_of(made.depth)))
    for what, stages in of:
        if stages != depth:
            refuse(f"the cursor goes through {depth} stages, the {what} has {stages}")


def plainly_swizzled(op: ir.OpView, *tiles: ir.Value) -> None:
    """Refuses tiles whose swizzle keeps together more than 16 bytes, where they are read as if it did not."""
    for value in tiles:
        if atom_of(value.type) != ATOM:
            refuse(f"reads a tile whose swizzle keeps together {atom_of(value.type)} bytes, expected {ATOM}")


def in_panels(op: ir.OpView, side: str, name: str, tile: ir.Type) -> None:
    """Refuses a tile of [K, rows] that wgmma cannot read so (PTX ISA 9.7.15.5.1.2: whole panels of a swizzle; imm-trans
    is for 16 bits alone, ibid., wgmma.mma_async), or of whose rows, B's, a product takes some."""
    if not isinstance(op.operation.attributes[name], ir.UnitAttr):
        refuse(f"{name} is {op.operation.attributes[name]}, expected a unit attribute")
    rows, swizzle, element = shape_of(tile)[1], swizzle_of(tile), element_of(tile)
    if bits_of(element) != 16:
        refuse(f"{side} is [K, rows] of {element}, expected a type of 16 bits")
    if not swizzle or rows * 2 % swizzle:
        refuse(f"K of {side} has rows of {rows * 2} bytes, no panels of a swizzle of {swizzle}")
    if side == "B" and int_of(op.column):
        refuse(f"columns from {int_of(op.column)} on of B, which is [K, rows]")


def copies(op: ir.OpView, panels: bool = False) -> None:
    """Refuses a bulk copy whose box is not the tile, or with `panels` a panel, in shape, element and swizzle."""
    box, tile = shape_of(op.source.type), shape_of(op.target.type)
    if panels and len(box) == 5:
        if box[1:3] != (2, 4) or min(box) < 1:
            refuse(f"box {list(box)} permutes rows, expected [columns, 2, 4, of each 8, groups]")
        box = (box[0], prod(box[1:]))
    given = box
    if panels and len(box) == 3:
        box = (box[0], prod(box[1:]))
    swizzled = box[0] * bits_of(element_of(op.source.type)) == 8 * swizzle_of(op.source.type)
    panel = panels and swizzled and tile[1] % box[0] == 0
    some = panels and "row" in op.operation.attributes
    if some and not 0 <= (row := int_of(op.operation.attributes["row"])) <= tile[0] - box[1]:
        refuse(f"row {row} and {box[1]} rows of a box, of a tile of {list(tile)}")
    if len(box) != 2 or not (some or box[1] == tile[0]) or not (box[0] == tile[1] or panel):
        refuse(f"box {list(given)} (innermost first) does not fill a tile of {list(tile)}")
    if max(box) > MAX_BOX:
        refuse(f"box {list(box)} is larger than {MAX_BOX} elements along a dimension")
    if element_of(op.source.type) != element_of(op.target.type):
        refuse(f"copies {element_of(op.source.type)} into a tile of {element_of(op.target.type)}")
    if swizzle_of(op.source.type) != swizzle_of(op.target.type):
        refuse(f"swizzles differ: {swizzle_of(op.source.type)} and {swizzle_of(op.target.type)}")
    if atom_of(op.source.type) != atom_of(op.target.type):
        refuse(f"swizzles keep together {atom_of(op.source.type)} and {atom_of(op.target.type)} bytes")
    multicast = int_of(op.multicast)
    if not 0 <= multicast <= 2:
        refuse(f"multicast is {multicast}, expected 0, or of 1 or 2 different tiles")


def positive_tile(op: ir.OpView, t: ir.Type) -> None:
    """Refuses a shared tile without extents or stages."""
    if len(shape_of(t)) != 2 or min(shape_of(t)) < 1 or int_of(t.stages) < 1:
        refuse(f"has {int_of(t.stages)} stages of {list(shape_of(t))}, expected positive rows, columns and stages")


def memory_of(op: ir.OpView, name: str, element: str) -> None:
    """Refuses an operand that is no memory of these elements."""
    t = getattr(op, name).type
    if not isinstance(t, ir.MemRefType) or str(t.element_type) != element:
        refuse(f"{name} of {t}, expected a memref of {element}")


def fetches(op: ir.OpView) -> None:
    """Refuses registers of a fetch that its room has not."""
    room, (first, count) = maker(op.into, "tile.scalars"), part_of(op)
    if room is not None and count and not 0 <= first <= int_of(room.count) - count:
        refuse(f"fetches {count} from the {first}th on into room for {int_of(room.count)}")


def strips_of(op: ir.OpView) -> tuple[int, int, int]:
    """(first, rows, apart): row i of those whose scales an op stores is row first + i + i / rows * apart of the stage;
    (0, 0, 0): row i."""
    return optional(op, "strips", (0, 0, 0))


def fills(op: ir.OpView, room: Any, rows: int) -> None:
    """Refuses scales of other rows than a stage has: all, or in strips some of them."""
    count, (first, strip, apart) = int_of(room.rows), strips_of(op)
    if not strip:
        if count != rows:
            refuse(f"stores scales of {count} rows in {op.target.type}")
        return
    last = first + count - 1 + (count - 1) // strip * apart
    within = strip > 0 and first >= 0 and apart >= 0 and last < rows
    if not within:
        refuse(f"stores scales of {count} rows, in strips of {strip}, up to row {last} of {op.target.type}")


def part_of(op: ir.OpView) -> tuple[int, int]:
    """(first, number) of the registers of its room that a fetch loads; (0, 0): all."""
    return optional(op, "part", (0, 0))


def reads_numbers(op: ir.OpView, expected: str = "") -> None:
    """Refuses scales in memory that are none of NUMBERS, or not of the type `expected`."""
    t, able = op.source.type, (expected,) if expected else NUMBERS
    if not isinstance(t, ir.MemRefType) or str(t.element_type) not in able:
        refuse(f"reads scales from {t}, expected a memref of {' or '.join(able)}")


def in_pages(op: ir.OpView) -> None:
    """Refuses pages of scales of which nothing says how far apart they are, and that where there are none."""
    if ("page" in op.operation.attributes) != (op.page_stride is not None):
        refuse("has a page and no stride of pages, or a stride and no page")
    at_least(op, 1, *(["page"] if "page" in op.operation.attributes else []))


def element_in(room: ir.OpView) -> str:
    """The element type of a `tile.scalars` or `tile.row_scales`."""
    return optional(room, "element", "f32")


def plane_of(op: ir.OpView) -> int:
    """Which of a stage's vectors of factors an op reads."""
    return optional(op, "plane")


def holds_factors(op: ir.OpView) -> int:
    """Rows whose factors `source` holds, one f32 each at `position`."""
    rows, blocks = shape_of(op.source.type)
    if str(element_of(op.source.type)) != "f32":
        refuse(f"reads factors of {element_of(op.source.type)}, expected f32")
    stages = int_of(op.source.type.stages)
    if isinstance(op.position.type, WindowType):
        window = maker(op.position, "tile.windows")
        if window is not None and (blocks, stages) != (int_of(window.blocks), int_of(window.slots)):
            wanted = f"{int_of(window.slots)} slots of {int_of(window.blocks)} K blocks"
            refuse(f"the buffer has {stages} slots of {blocks} K blocks, the window goes through {wanted}")
        return rows
    cursor = maker(op.position, "tile.cursor")
    if not 0 <= (number := plane_of(op)) < rows:
        refuse(f"plane {number} of a stage of factors of [{rows}, {blocks}]")
    if cursor is not None and int_of(cursor.depth) != stages:
        refuse(f"the cursor goes through {int_of(cursor.depth)} stages, the buffer has {stages}")
    return blocks
