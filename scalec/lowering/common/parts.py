"""Parts of K: their sums meet in memory, and are added in the order of the parts."""

from __future__ import annotations

from math import prod

from scalec.abi import COUNTER_BYTES
from scalec.ir import tile
from scalec.ir.mlir import ir
from scalec.lowering.common.state import COMMON, State

BARRIER = 8
"""Named barrier of all consumers: above those of the units (state.py), below 16 (PTX ISA 9.7.13.1)."""

VECTOR = 4
"""f32 that a thread moves at once: neighbouring threads then move neighbouring 16 bytes."""


@COMMON.lowers("tile.sum_parts")
def sum_parts(s: State, op: ir.OpView) -> None:
    """Each thread finds in every part what the thread of its number stored: sums are moved in the order of registers.

    What all consumers stored happens before the first thread's release, by the barrier between them, and its acquire
    before what they load, by the next one (PTX ISA 8.9: causality order). The increment wraps from split - 1 to 0, so
    that the last to arrive also readies the counter for the next launch.
    """
    b, split = s.b, tile.int_of(op.split)
    sums = [v for wave in s.get(op.accumulator).waves for v in wave]
    threads = 32 * s.geometry.warps * prod(s.geometry.units)
    thread = s.once("thread", lambda: b.sub(s.tid, b.constant(32 * s.first_warp)))
    part_bytes = 4 * threads * len(sums)

    def pointer(source: ir.Value) -> ir.Value:
        return b.op("llvm.ptrtoint", [b.i64], [s.get(source)])

    number = b.widen(s.get(op.number))
    first = b.add(pointer(op.parts), b.mul(number, b.constant(split * part_bytes, b.i64)))
    first = b.add(first, b.widen(b.mul(thread, 4 * VECTOR)))
    mine = b.add(first, b.mul(b.widen(s.get(op.part)), b.constant(part_bytes, b.i64)))
    groups = [(4 * threads * i, sums[i : i + VECTOR]) for i in range(0, len(sums), VECTOR)]
    for offset, group in groups:
        b.asm(f"st.global.v4.f32 [$0 + {offset}], {{$1, $2, $3, $4}};", [], [mine, *(v.get() for v in group)])
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    b.asm(f"bar.sync {BARRIER}, {threads};")
    arrived = b.variable(b.i32, 0)
    with b.when(b.compare("eq", thread, 0)):
        counter = b.add(pointer(op.counters), b.mul(number, b.constant(COUNTER_BYTES, b.i64)))
        text = f"atom.acq_rel.gpu.global.inc.u32 $0, [$1], {split - 1};"
        arrived.set(b.asm(text, [b.i32], [counter])[0])
    b.op("nvvm.bar.warp.sync", [], [b.constant(-1)])
    text = (
        f"{{\n.reg .pred P, Q;\nsetp.eq.u32 P, $1, {split - 1};\n"
        f"bar.red.or.pred Q, {BARRIER}, {threads}, P;\nselp.b32 $0, 1, 0, Q;\n}}"
    )
    last = b.compare("ne", b.asm(text, [b.i32], [arrived.get()])[0], 0)
    s.values[op.result] = last
    with b.when(last):
        at = b.variable(b.i64, first)
        end = b.add(first, b.constant(split * part_bytes, b.i64))
        for v in sums:
            v.set(0.0)

        def add_part() -> None:
            address = at.get()
            for offset, group in groups:
                text = f"ld.global.v4.f32 {{$0, $1, $2, $3}}, [$4 + {offset}];"
                for v, x in zip(group, b.asm(text, [b.f32] * VECTOR, [address]), strict=True):
                    v.set(b.fadd(v.get(), x))
            at.set(b.add(address, b.constant(part_bytes, b.i64)))

        b.loop_once(add_part, lambda: b.compare("lt", at.get(), end))
