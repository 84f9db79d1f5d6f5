"""Elementwise inputs that copies bring: read out of shared memory, box by box."""

from __future__ import annotations

from dataclasses import dataclass, field

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.control import await_full, move_on
from scalec.lowering.common.epilogue import Place, Read
from scalec.lowering.common.global_elements import unpack
from scalec.lowering.common.state import COMMON, Buffer, Cursor, Ring, State, swizzle


@dataclass
class LoadedInput:
    """What reads it: a thread has two adjacent elements of a row, and of the row 8 below.

    Attributes:
        staging: of each warpgroup, or warp, slots one behind the other.
        columns: of a box, whose rows are swizzled as far as they are long.
        at: this lane's first element in the box that is read, as shared memory has it: what tells columns apart is
            XORed into it.
        in_place: the slot is the result's, too, and handed back when that is there.
        empty: the address of that slot's empty barrier.
    """

    s: State
    staging: Buffer
    ring: Ring
    cursor: Cursor
    element: str
    columns: int
    in_place: bool
    at: ir.Value | None = field(default=None, init=False)
    empty: ir.Value | int = field(default=0, init=False)

    integers = False
    kind = "both"

    def once(self, place: Place) -> None:
        """Nothing is invariant."""

    def of_wave(self, _wave: int) -> Read:
        """What reads a wave's values."""
        return lambda group, _place: self.read(group)

    def read(self, group: int) -> list[ir.Value]:
        """Those of a group of columns; of the first in a box when that is there, behind the last the slot is handed
        back."""
        s, b, groups = self.s, self.s.b, self.columns // 8
        if group % groups == 0:
            await_full(s, self.ring, self.cursor)
            self.at, self.empty = self._first(), b.add(self.ring.empty, b.shl(self.cursor.at(), 3))
            move_on(s, self.cursor)  # to the box of the next input
        assert self.at is not None
        size = 4 if self.element == "f32" else 2
        across = s.geometry.column(group) % self.columns * size
        values = self._loaded(b.xor(self.at, across) if across else self.at, 8 * self.columns * size)
        if group % groups == groups - 1 and not self.in_place:
            # copies, of another proxy, else overwrite what is still to be loaded (PTX ISA 9.7.13.4, fence.proxy): seen
            # on an H200 beside direct stores (docs/notes/results.md)
            b.asm("fence.proxy.async.shared::cta;")
            b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
            b.asm("@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", [], [self.empty, b.compare("eq", s.lane, 0)])
        return values

    def _first(self) -> ir.Value:
        s, b, size = self.s, self.s.b, 4 if self.element == "f32" else 2
        pitch, row = self.columns * size, s.row_in_wave
        own = tile.stage_bytes(self.staging.type) // (s.geometry.units[0] * s.geometry.units[1])
        slot = b.mul(self.cursor.at(), own // self.cursor.depth)
        box = b.add(b.add(self.staging.base, b.mul(s.unit_index, own)), slot)
        turned = b.shl(swizzle(b, row, pitch), 4) if pitch > 16 else 0
        return b.add(b.add(box, b.mul(row, pitch)), b.xor(b.mul(s.first_column, size), turned))

    def _loaded(self, at: ir.Value, below: int) -> list[ir.Value]:
        b, found = self.s.b, list[ir.Value]()
        for distance in (0, below):
            if self.element == "f32":
                found += b.asm(f"ld.shared.v2.f32 {{$0, $1}}, [$2 + {distance}];", [b.f32] * 2, [at])
            else:
                (raw,) = b.asm(f"ld.shared.b32 $0, [$1 + {distance}];", [b.i32], [at])
                found += [unpack(self.s, raw, self.element, half) for half in (0, 1)]
        return found


@COMMON.lowers("tile.loaded_input")
def loaded_input(s: State, op: ir.OpView) -> None:
    staging, ring, cursor = (s.get(x) for x in (op.staging, op.ring, op.cursor))
    columns, in_place = tile.int_of(op.columns), "in_place" in op.operation.attributes
    s.values[op.result] = LoadedInput(s, staging, ring, cursor, str(op.element.value), columns, in_place)
