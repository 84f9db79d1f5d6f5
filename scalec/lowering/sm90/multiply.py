"""wgmma and its waits on sm_90a.

The rules of wgmma through LLVM are built in here, each of which cost 20 to 60 % when broken:

1. a chain starts from the old values of its accumulator, never from undef;
2. a wait ties every accumulator;
3. nothing branches between a product and its promotion, here or in what is emitted there.
"""

from __future__ import annotations

from dataclasses import dataclass

from scalec.ir import tile
from scalec.ir.mlir import ir, nvvm
from scalec.lowering.builder import Builder, Variable
from scalec.lowering.common.state import State
from scalec.lowering.sm90.table import TABLE
from scalec.targets import WAVES

_WAVE = WAVES["registers"]
MMA_TYPE = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "bf16": "bf16", "f16": "f16", "tf32": "tf32", "i8": "s8"}
# shared-memory matrix descriptor (PTX ISA 9.7.15.5.1.2): bits 16-29 the leading-dimension byte offset, bits 32-45 the
# stride byte offset, both in units of 16 bytes, bits 62-63 the swizzle
_SWIZZLE_MODE = {128: 1, 64: 2, 32: 3}
_LINES = 8  # of a swizzle's bytes, that follow each other in a canonical layout (9.7.15.5.1)
_STEP = 32  # bytes of K that one instruction takes


@dataclass(frozen=True)
class Matrix:
    """A tile of A or B as descriptors describe it: one for each step along K.

    The stride byte offset leads to the next 8 lines: of rows where K is contiguous, of K where the rows are. There a
    line is as many rows as the swizzle is wide, and the leading-dimension byte offset leads to the next panel of rows;
    else it is not used, and a panel has as much of K as the swizzle is wide.
    """

    mn: bool  # whether the rows are contiguous
    swizzle: int  # its bytes
    row: int  # bytes from the first of some rows to that of as many others, for each
    panel: int  # bytes from one panel to the next, 0 where K is contiguous
    step: int  # bytes from one step along K to the next. Within a line, the swizzle of absolute addresses allows that.
    lines: int = 0  # of all rows, where K is contiguous: bytes of a panel

    @staticmethod
    def of(op: ir.OpView, side: str) -> Matrix:
        t = getattr(op, side).type
        (lines, _), swizzle, element = tile.shape_of(t), tile.swizzle_of(t), tile.bits_of(tile.element_of(t)) // 8
        if f"{side}_mn" not in op.operation.attributes:
            return Matrix(False, swizzle, swizzle, 0, _STEP, lines * swizzle)
        return Matrix(True, swizzle, lines * element, lines * swizzle, _STEP // element * swizzle)

    def place(self, b: Builder, address: ir.Value) -> ir.Value:
        """A shared address as descriptors hold it, in 14 bits. In a cluster it may have the CTA's rank above them,
        which would change the leading-dimension byte offset, where that is used."""
        return b.and_(b.shr(address, 4), 0x3FFF) if self.panel else b.shr(address, 4)

    def descriptor(self, s: State, start: ir.Value, step: int) -> ir.Value:
        """The descriptor of a step; `start` is the shared address divided by 16."""
        constant = _SWIZZLE_MODE[self.swizzle] << 62 | (_LINES * self.swizzle >> 4) << 32 | (self.panel >> 4) << 16
        behind = step * self.step
        if not self.mn:
            panel, within = divmod(behind, self.swizzle)
            behind = panel * self.lines + within
        return s.b.or_(s.b.widen(s.b.add(start, behind >> 4)), s.b.constant(constant, s.b.i64))


@TABLE.lowers("tile.mma")
def mma(s: State, op: ir.OpView) -> None:
    b, cursor = s.b, s.get(op.cursor)
    a, bb = s.get(op.a), s.get(op.b)
    registers = s.get(op.accumulator).waves[tile.int_of(op.wave)]
    columns = s.get(op.accumulator).columns
    types = [MMA_TYPE[str(tile.element_of(v.type))] for v in (a, bb)]
    sides = Matrix.of(op, "a"), Matrix.of(op, "b")
    waves, wave = tile.int_of(op.waves), tile.int_of(op.a_wave)
    if "by_turns" in op.operation.attributes:
        waves, wave = 1, wave * s.geometry.units[0]
    depth = _STEP * 8 // tile.bits_of(tile.element_of(a.type))  # K of one wgmma
    # addresses in units of 16 bytes, as descriptors hold them; what does not change is computed once
    own = s.once(
        ("a", op.a, waves), lambda: sides[0].place(b, b.add(a.base, b.mul(s.unit(0), waves * _WAVE * sides[0].row)))
    )
    a_start = b.add(a.at(b, cursor, own, 16), wave * _WAVE * sides[0].row // 16)
    b_start = bb.at(b, cursor, s.once(("b", op.b), lambda: sides[1].place(b, bb.base)), 16)
    rows = tile.int_of(op.column)  # of B; eight are a period of the swizzle, so that they lie at a plain distance
    b_start = b.add(b_start, rows * sides[1].row // 16)
    attribute = ir.Attribute.parse
    shape = attribute(f"#nvvm.shape<m = {_WAVE}, n = {columns}, k = {depth}>")
    whole = types[0] == "s8"  # sums of i32, whose bits variables have as f32
    type_a, type_b, type_d = (attribute(f"#nvvm.wgmma_type<{t}>") for t in (*types, "s32" if whole else "f32"))
    one_in = attribute("#nvvm.wgmma_scale_in<one>")
    row, col = (attribute(f"#nvvm.mma_layout<{t}>") for t in ("row", "col"))  # of A, [rows, K]; of B, [K, rows]
    layouts = [col if sides[0].mn else row, row if sides[1].mn else col]
    kind = b.i32 if whole else b.f32
    struct = b.struct([kind] * len(registers))
    current = b.op("llvm.mlir.undef", [struct], [])
    for i, value in enumerate(renewed(b, registers)):
        current = b.insert(current, i, b.bits(value) if whole else value)
    nvvm.WgmmaFenceAlignedOp()
    accumulate = bool(tile.int_of(op.accumulate))
    number, count = tile.slice_of(op)
    steps = tile.shape_of(a.type)[0 if sides[0].mn else 1] // depth // count
    for step in range(number * steps, (number + 1) * steps):
        scale_out = attribute(f"#nvvm.wgmma_scale_out<{'one' if accumulate or step % steps else 'zero'}>")
        operands = [x.descriptor(s, at, step) for x, at in zip(sides, (a_start, b_start), strict=True)]
        current = nvvm.wgmma_mma_async(
            struct, current, *operands, shape, type_a, type_b, type_d, scale_out, one_in, one_in, *layouts
        )
    nvvm.WgmmaGroupSyncAlignedOp()
    for i, v in enumerate(registers):
        value = b.extract(current, i, kind)
        v.set(b.float_of(value) if whole else value)


def renewed(b: Builder, registers: list[Variable]) -> list[ir.Value]:
    """Rule 1: a chain is tied to the old values, so that FMAs on them cannot float past; through no instruction, before
    the fence, so that neither can the moves that give equal values (zeros) registers of their own."""
    return b.asm("", [b.f32] * len(registers), [v.get() for v in registers], tied=len(registers), memory=False)


@TABLE.lowers("tile.mma_wait")
def mma_wait(s: State, op: ir.OpView) -> None:
    """Rule 2: volatile, with every accumulator tied in and out: `nvvm.wgmma.wait.group` orders nothing in SSA."""
    b = s.b
    registers = [v for wave in s.get(op.accumulator).waves for v in wave]
    text = f"wgmma.wait_group.sync.aligned {tile.int_of(op.pending)};"
    results = b.asm(text, [b.f32] * len(registers), [v.get() for v in registers], tied=len(registers))
    for v, x in zip(registers, results, strict=True):
        v.set(x)
