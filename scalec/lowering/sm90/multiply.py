"""wgmma and its waits on sm_90a.

The rules of wgmma through LLVM (hopper.md; each cost 20 to 60 % when broken) are built in here: a chain starts from
the old accumulator values, never from undef; a wait ties every accumulator; nothing here branches.
"""

from __future__ import annotations

from scalec.ir import tile
from scalec.ir.mlir import ir, nvvm
from scalec.lowering.common.state import State
from scalec.lowering.sm90.table import TABLE
from scalec.targets import WAVES

_WAVE = WAVES["registers"]
_WGMMA_TYPE = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "bf16": "bf16", "f16": "f16"}
# Shared-memory matrix descriptor (PTX ISA 9.7.15.5.1.2): bits 62-63 say the swizzle, bits 32-45 the distance of
# 8-row groups in units of 16 bytes; the leading dimension offset is not used for swizzled K-major tiles.
_SWIZZLE_MODE = {128: 1, 64: 2, 32: 3}


def _descriptor(s: State, start: ir.Value, swizzle: int) -> ir.Value:
    """A matrix descriptor; `start` is the shared address divided by 16."""
    constant = _SWIZZLE_MODE[swizzle] << 62 | (8 * swizzle >> 4) << 32
    return s.b.or_(s.b.widen(start), s.b.constant(constant, s.b.i64))


@TABLE.lowers("tile.mma")
def mma(s: State, op: ir.OpView) -> None:
    b, cursor = s.b, s.get(op.cursor)
    a, bb = s.get(op.a), s.get(op.b)
    registers = s.get(op.accumulator).waves[tile.int_of(op.wave)]
    columns = s.get(op.accumulator).columns
    types = [_WGMMA_TYPE[str(tile.element_of(v.type))] for v in (a, bb)]
    swizzles = [tile.swizzle_of(v.type) for v in (a, bb)]
    waves = tile.int_of(op.waves)
    depth = 32 * 8 // tile.bits_of(tile.element_of(a.type))  # K of one wgmma is 32 bytes
    # addresses in units of 16 bytes, as descriptors hold them; what does not change is computed once
    own = s.once(
        ("a", op.a, waves),
        lambda: b.shr(b.add(a.base, b.mul(s.unit(0), waves * _WAVE * swizzles[0])), 4),
    )
    a_start = b.add(a.at(b, cursor, own, 16), tile.int_of(op.a_wave) * _WAVE * swizzles[0] // 16)
    b_start = bb.at(b, cursor, s.once(("b", op.b), lambda: b.shr(bb.base, 4)), 16)
    attribute = ir.Attribute.parse
    rows = tile.int_of(op.column)  # of B; eight are a period of the swizzle, so that they lie at a plain distance
    b_start = b.add(b_start, rows * swizzles[1] // 16)
    shape = attribute(f"#nvvm.shape<m = {_WAVE}, n = {columns}, k = {depth}>")
    type_a, type_b, type_d = (attribute(f"#nvvm.wgmma_type<{t}>") for t in (*types, "f32"))
    one_in, row, col = (attribute(f"#nvvm.{t}") for t in ("wgmma_scale_in<one>", "mma_layout<row>", "mma_layout<col>"))
    struct = ir.Type.parse(f"!llvm.struct<({', '.join(['f32'] * len(registers))})>")
    current = b.op("llvm.mlir.undef", [struct], [])
    # rule 1: tied to the old values, so that FMAs on them cannot float past; through no instruction, before the fence,
    # so that neither can the moves that give equal values (zeros) registers of their own
    old = b.asm("", [b.f32] * len(registers), [v.get() for v in registers], tied=len(registers), memory=False)
    for i, value in enumerate(old):
        current = b.insert(current, i, value)
    nvvm.WgmmaFenceAlignedOp()
    accumulate = bool(tile.int_of(op.accumulate))
    number, count = tile.slice_of(op)
    steps = tile.shape_of(a.type)[1] // depth // count
    for step in range(number * steps, (number + 1) * steps):
        scale_out = attribute(f"#nvvm.wgmma_scale_out<{'one' if accumulate or step % steps else 'zero'}>")
        operands = [_descriptor(s, b.add(x, 2 * step), w) for x, w in zip((a_start, b_start), swizzles, strict=True)]
        current = nvvm.wgmma_mma_async(
            struct, current, *operands, shape, type_a, type_b, type_d, scale_out, one_in, one_in, row, col
        )
    nvvm.WgmmaGroupSyncAlignedOp()
    for i, v in enumerate(registers):
        v.set(b.extract(current, i, b.f32))


@TABLE.lowers("tile.mma_wait")
def mma_wait(s: State, op: ir.OpView) -> None:
    """Rule 2: volatile, with every accumulator tied in and out: `nvvm.wgmma.wait.group` orders nothing in SSA."""
    b = s.b
    registers = [v for wave in s.get(op.accumulator).waves for v in wave]
    text = f"wgmma.wait_group.sync.aligned {tile.int_of(op.pending)};"
    results = b.asm(text, [b.f32] * len(registers), [v.get() for v in registers], tied=len(registers))
    for v, x in zip(registers, results, strict=True):
        v.set(x)
