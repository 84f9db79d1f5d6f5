"""Results that are staged in shared memory, out of which threads store rows, each where it goes."""

from __future__ import annotations

from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.gather import Asked
from scalec.lowering.common.global_elements import address_of
from scalec.lowering.common.staging import Staging
from scalec.lowering.common.state import COMMON, State, swizzle
from scalec.targets import WAVES

OWN = WAVES["warp"]
"""Rows of a wave that a warp has."""


def _goes(s: State, asked: Asked, wave: int, own: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where a warp's row `own` of a wave goes, and whether anywhere. All lanes ask that which has
    what the index has for it; which of its registers that is in, is the warp's."""
    b, rows = s.b, s.geometry.wave
    behind = b.mul(s.warp_in_unit, OWN)
    first, *others = asked.found[wave * rows // tile.LANES : -(-(wave + 1) * rows // tile.LANES)]
    for number, found in enumerate(others, 1):
        first = b.select(b.compare("ge", behind, number * tile.LANES), found, first)
    lane = b.add(own, b.and_(behind, tile.LANES - 1))
    (found,) = b.asm("shfl.sync.idx.b32 $0, $1, $2, 31, -1;", [b.i32], [first, lane])
    return found, asked.index.names(b, found)


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
    unit = b.add(s.get(op.m0), b.mul(s.unit(0), staging.waves * s.geometry.wave))
    first_row = b.add(unit, b.mul(s.warp_in_unit, OWN))
    own = [b.add(which, i) for i in range(0, OWN, together)]
    within = b.mul(s.warp_in_unit, OWN * staging.pitch)
    sources = [
        b.add(
            b.add(staging.own, within),
            b.add(b.mul(r, staging.pitch), b.shl(b.xor(chunk, swizzle(b, r, staging.pitch)), 4)),
        )
        for r in own
    ]
    (to,) = tile.optional(op, "to", (-1,))
    skips = [s.get(x) for x in op.skips]

    def goes(wave: int) -> list[tuple[ir.Value, ir.Value]]:
        """Of each of this lane's rows of a wave, where it begins in memory, and whether it is stored."""
        found, first = [], b.add(first_row, wave * s.geometry.wave)
        for r in own:
            row = b.add(first, r)
            at, inside = row, b.compare("lt", row, s.get(op.m))
            for number, skip in enumerate(skips):
                place, named = _goes(s, skip, wave, r)
                at, inside = place if number == to else at, b.and_(inside, named)
            index = b.add(b.mul(b.widen(at), s.get(op.stride)), b.widen(b.div(along, max(1, 8 // bits))))
            found.append((address_of(s, s.get(op.target), index, staging.element), inside))
        return found

    if "copied" in op.operation.attributes:
        staging.await_copies(s, s.lead, 0)
    known: dict[int, list[tuple[ir.Value, ir.Value]]] = {}
    for load in staging.loads():
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        staging.put(s, fragment, load)
        b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
        for i, wave in enumerate(load.waves):
            rows = known[wave] = known.get(wave) or goes(wave)
            for j, box in enumerate(load.boxes):
                behind = load.above + (i * (staging.columns // staging.width) + j) * staging.tall * staging.pitch
                there = b.compare("lt", b.add(along, box * staging.width), s.get(op.n))
                words = [
                    b.asm(f"ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4 + {behind}];", [b.i32] * 4, [x]) for x in sources
                ]
                for (address, inside), loaded in zip(rows, words, strict=True):
                    text = f"@$1 st.global.v4.b32 [$0 + {box * staging.pitch}], {{$2, $3, $4, $5}};"
                    b.asm(text, [], [address, b.and_(inside, there), *loaded])
