"""Single elements of tensors in global memory: where they lie, and how they are loaded."""

from __future__ import annotations

from scalec.ir.mlir import ir
from scalec.lowering.builder import Builder
from scalec.lowering.common import elements, rounding
from scalec.lowering.common.state import State


def address_of(s: State, pointer: ir.Value, index: ir.Value, element: str) -> ir.Value:
    """Address of an element; narrow ones, which are no types of LLVM's, lie in bytes."""
    b = s.b
    kind = b.i8 if rounding.bits_of(element) < 16 else ir.Type.parse(element)
    return b.integer(b.offset(pointer, index, kind))


def around(b: Builder, column: ir.Value, gaps: tuple[int, int, int] | None) -> ir.Value:
    """Where a column goes, as i64: around gaps, if there are any."""
    if gaps is None:
        return b.widen(column)
    size, every, phase = gaps
    return b.add(b.widen(column), b.mul(b.widen(b.div(b.add(column, phase), every)), size))


def load_behind(s: State, pointer: ir.Value, element: str, offset: int, count: int) -> list[ir.Value]:
    """`count` elements (1, or 2 adjacent and aligned) that lie `offset` bytes behind a pointer, as f32."""
    b = s.b
    address = b.integer(pointer)
    if element == "f32" and count == 2:
        return b.asm(f"ld.global.v2.f32 {{$0, $1}}, [$2 + {offset}];", [b.f32] * 2, [address])
    if element == "f32":
        return b.asm(f"ld.global.f32 $0, [$1 + {offset}];", [b.f32], [address])
    if element == "i32" and count == 2:
        return b.asm(f"ld.global.v2.b32 {{$0, $1}}, [$2 + {offset}];", [b.i32] * 2, [address])
    if element == "i32":
        return b.asm(f"ld.global.b32 $0, [$1 + {offset}];", [b.i32], [address])
    size = count * rounding.bits_of(element)
    if size != 16:
        (raw,) = b.asm(f"ld.global.{'b32' if size == 32 else 'u8'} $0, [$1 + {offset}];", [b.i32], [address])
    else:
        text = f"{{\n.reg .b16 H;\nld.global.b16 H, [$1 + {offset}];\ncvt.u32.u16 $0, H;\n}}"
        (raw,) = b.asm(text, [b.i32], [address])
    return [unpack(s, raw, element, i) for i in range(count)]


def load(s: State, pointer: ir.Value, element: str, inside: ir.Value, count: int) -> list[ir.Value]:
    """`count` elements (1, or 2 adjacent and aligned) as f32, of i32 as they are; zeros where not inside.

    Not `.nc`: with `+=` the kernel writes what it reads here (PTX ISA 9.7.9.9 wants read-only memory for the kernel).
    """
    b = s.b
    address = b.integer(pointer)
    zero = [b.constant(0.0)] * count
    if element == "i32":
        none, names = [b.constant(0)] * count, ("{$0, $1}" if count == 2 else "$0")
        text = f"@${count + 1} ld.global{'.v2' * (count == 2)}.b32 {names}, [${count}];"
        return b.asm(text, [b.i32] * count, [address, inside, *none], tied=count)
    if element == "f32":
        if count == 2:
            return b.asm("@$3 ld.global.v2.f32 {$0, $1}, [$2];", [b.f32] * 2, [address, inside, *zero], tied=2)
        return b.asm("@$2 ld.global.f32 $0, [$1];", [b.f32], [address, inside, *zero], tied=1)
    nothing, size = b.constant(0), count * rounding.bits_of(element)
    if size != 16:
        text = f"@$2 ld.global.{'b32' if size == 32 else 'u8'} $0, [$1];"
        raw = b.asm(text, [b.i32], [address, inside, nothing], tied=1)[0]
    else:
        text = "{\n.reg .b16 H;\nmov.b16 H, 0;\n@$2 ld.global.b16 H, [$1];\ncvt.u32.u16 $0, H;\n}"
        raw = b.asm(text, [b.i32], [address, inside])[0]
    return [unpack(s, raw, element, i) for i in range(count)]


def unpack(s: State, raw: ir.Value, element: str, half: int) -> ir.Value:
    """The lower (0) or upper (1) of two elements in the lower bits of a register as f32."""
    b = s.b
    if element == "i8":
        return elements.of_integer(b, b.pure(f"bfe.s32 $0, $1, {8 * half}, 8;", b.i32, raw))
    if element == "bf16":  # bf16 is the upper half of an f32
        bits = b.and_(raw, 0xFFFF0000) if half else b.shl(raw, 16)
        return b.float_of(bits)
    lower, upper = ("_", "H") if half else ("H", "_")
    text = f"{{\n.reg .b16 H;\nmov.b32 {{{lower}, {upper}}}, $1;\ncvt.f32.f16 $0, H;\n}}"
    return b.asm(text, [b.f32], [raw], volatile=False, memory=False)[0]
