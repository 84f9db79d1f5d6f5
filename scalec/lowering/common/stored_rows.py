"""Results that are staged in shared memory, out of which threads store rows, each where it goes."""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.epilogue import address_of
from scalec.lowering.common.gather import RowIndex
from scalec.lowering.common.staging import Staging
from scalec.lowering.common.state import COMMON, State, swizzle
from scalec.targets import WAVES

OWN = WAVES["warp"]
"""Rows of a wave that a warp has."""

TOGETHER = tile.LANES // OWN
"""Waves of which a lane has a row each."""


@dataclass(frozen=True)
class OwnRows:
    """What an index has for a warp's rows of each wave: of every TOGETHER waves a lane has a row's."""

    index: RowIndex
    found: list[ir.Value]

    def at(self, s: State, wave: int, own: ir.Value, row: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where the warp's row `own` of a wave goes, `row` of the tensors, and whether anywhere; all lanes ask."""
        b, lane = s.b, s.b.add(own, wave % TOGETHER * OWN)
        (found,) = b.asm("shfl.sync.idx.b32 $0, $1, $2, 31, -1;", [b.i32], [self.found[wave // TOGETHER], lane])
        return self.index.told(b, found, row)


def _first(s: State, m0: ir.Value, waves: int) -> ir.Value:
    """The first row of the tensors that a warp has of a tile."""
    b = s.b
    return b.add(m0, b.add(b.mul(s.unit(0), waves * s.geometry.wave), b.mul(s.warp_in_unit, OWN)))


@COMMON.lowers("tile.own_rows")
def own_rows(s: State, op: ir.OpView) -> None:
    b, waves, index, found = s.b, tile.int_of(op.waves), s.get(op.index), []
    behind = b.add(b.mul(b.div(s.lane, OWN), s.geometry.wave), b.and_(s.lane, OWN - 1))
    first = b.add(_first(s, s.get(op.m0), waves), behind)
    for wave in range(0, waves, TOGETHER):
        row = b.add(first, wave * s.geometry.wave)
        found.append(index.load(b, row, b.compare("lt", row, s.get(op.m))))
    s.values[op.result] = OwnRows(index, found)


@COMMON.lowers("tile.store_staged")
def store_staged(s: State, op: ir.OpView) -> None:
    """A warp's rows are its own, in shared memory too: only its lanes meet. As many of them as share a row have the
    chunks of a box's row."""
    b, fragment = s.b, s.get(op.accumulator)
    bits, staged = tile.bits_of(tile.element_of(op.staging.type)), tile.swizzle_of(op.staging.type)
    staging = Staging.of(s, op, (8 * staged // bits, s.geometry.wave))
    chunks = staging.pitch // tile.VECTOR
    together = tile.LANES // chunks  # rows
    which, chunk = b.div(s.lane, chunks), b.and_(s.lane, chunks - 1)
    along = b.add(s.get(op.n0), b.add(b.mul(s.unit(1), staging.columns), b.mul(chunk, 8 * tile.VECTOR // bits)))
    own = [b.add(which, i) for i in range(0, OWN, together)]
    within = b.mul(s.warp_in_unit, OWN * staging.pitch)
    sources = [
        b.add(
            b.add(staging.own, within),
            b.add(b.mul(r, staging.pitch), b.shl(b.xor(chunk, swizzle(b, r, staging.pitch)), 4)),
        )
        for r in own
    ]
    to = tile.int_of(op.operation.attributes["to"]) if "to" in op.operation.attributes else -1
    skips = [s.get(x) for x in op.skips]

    def goes(wave: int) -> list[tuple[ir.Value, ir.Value]]:
        """Of each of this lane's rows of a wave, where it begins in memory, and whether it is stored."""
        found, first = [], b.add(_first(s, s.get(op.m0), staging.waves), wave * s.geometry.wave)
        for r in own:
            row = b.add(first, r)
            at, inside = row, b.compare("lt", row, s.get(op.m))
            for number, skip in enumerate(skips):
                place, named = skip.at(s, wave, r, row)
                at, inside = place if number == to else at, b.and_(inside, named)
            index = b.add(b.mul(b.widen(at), s.get(op.stride)), b.widen(b.div(along, max(1, 8 // bits))))
            found.append((address_of(s, s.get(op.target), index, staging.element), inside))
        return found

    known: dict[int, list[tuple[ir.Value, ir.Value]]] = {}
    for load in staging.loads():
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        staging.put(s, fragment, load)
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        for i, wave in enumerate(load.waves):
            rows = known.setdefault(wave, goes(wave)) if wave not in known else known[wave]
            for j, box in enumerate(load.boxes):
                above = load.above + (i * (staging.columns // staging.width) + j) * staging.tall * staging.pitch
                there = b.compare("lt", b.add(along, box * staging.width), s.get(op.n))
                words = [
                    b.asm(f"ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4 + {above}];", [b.i32] * 4, [x]) for x in sources
                ]
                for (address, inside), loaded in zip(rows, words, strict=True):
                    text = f"@$1 st.global.v4.b32 [$0 + {box * staging.pitch}], {{$2, $3, $4, $5}};"
                    b.asm(text, [], [address, b.and_(inside, there), *loaded])
