"""Probes of integer arithmetic, bits and bytes: PTX ISA 9.7.1, 9.7.2, 9.7.7, 9.7.8."""

from __future__ import annotations

import numpy as np

from .probe import Probe, elementwise
from .values import integers, packed

COUNT = 256


def arithmetic() -> list[Probe]:
    result = []
    for width in (16, 32, 64):
        a, b, c = integers(width, 3, COUNT, 500 + width)
        binary = [f"{op}.{s}{width}" for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max") for s in "su"]
        ternary = [f"{op}.{s}{width}" for op in ("mad.lo", "mad.hi") for s in "su"]
        unary = [f"{op}.s{width}" for op in ("abs", "neg")]
        if width == 32:
            binary += ["add.sat.s32", "sub.sat.s32", "mul24.lo.s32", "mul24.hi.s32", "mul24.lo.u32", "mul24.hi.u32"]
            binary += ["min.relu.s32", "max.relu.s32"]
            ternary += [f"mad24.{half}.{s}32" for half in ("lo", "hi") for s in "su"]
            ternary += ["mad.hi.sat.s32", "mad24.hi.sat.s32"]
            carry = [
                "{{ .reg .b32 t; add.cc.u32 t, {a}, {b}; addc.u32 {d}, {c}, 0; }}",
                "{{ .reg .b32 t; add.cc.s32 t, {a}, {b}; addc.cc.u32 t, {c}, {b}; addc.u32 {d}, {a}, {c}; }}",
                "{{ .reg .b32 t; sub.cc.u32 t, {a}, {b}; subc.u32 {d}, {c}, {b}; }}",
                "{{ .reg .b32 t; sub.cc.u32 t, {a}, {b}; subc.cc.u32 t, {c}, {a}; subc.u32 {d}, {b}, {c}; }}",
                "{{ .reg .b32 t; mad.lo.cc.u32 t, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, {c}; }}",
                "{{ .reg .b32 t; mad.lo.cc.s32 t, {a}, {b}, {c}; madc.hi.s32 {d}, {a}, {b}, {c}; }}",
                "{{ .reg .b32 t; mad.hi.cc.u32 t, {a}, {b}, {c}; addc.u32 {d}, {a}, t; }}",
            ]
            result.append(elementwise("carry_32", carry, {"a": a, "b": b, "c": c}, 32))
        ternary += [f"sad.{s}{width}" for s in "su"]
        result.append(elementwise(f"integer_binary_{width}", binary, {"a": a, "b": b}, width))
        result.append(elementwise(f"integer_ternary_{width}", ternary, {"a": a, "b": b, "c": c}, width))
        result.append(elementwise(f"integer_unary_{width}", unary, {"a": a}, width))
        divisor = np.where(b == 0, b + b.dtype.type(7), b)
        least = (a == 1 << (width - 1)) & (divisor == (1 << width) - 1)  # overflows: the ISA leaves it open
        divisor = np.where(least, divisor.dtype.type(3), divisor)
        quotient = [f"{op}.{s}{width}" for op in ("div", "rem") for s in "su"]
        result.append(elementwise(f"integer_quotient_{width}", quotient, {"a": a, "b": divisor}, width))
        relations = [f"{r}.s{width}" for r in ("eq", "ne", "lt", "le", "gt", "ge")]
        relations += [f"{r}.u{width}" for r in ("lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")] + [f"eq.b{width}"]
        cases = [f"{{{{ .reg .pred p; setp.{r} p, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, p; }}}}" for r in relations]
        result.append(elementwise(f"integer_compare_{width}", cases, {"a": a, "b": b}, 32))
        if width < 64:
            wide = [f"mul.wide.{s}{width}" for s in "su"]
            result.append(elementwise(f"integer_wide_{width}", wide, {"a": a, "b": b}, 2 * width))
            big = integers(2 * width, 1, COUNT, 550 + width)[0]
            cases = [f"mad.wide.{s}{width}" for s in "su"]
            result.append(elementwise(f"integer_mad_wide_{width}", cases, {"a": a, "b": b, "c": big}, 2 * width))
    a, b = (packed(*integers(16, 2, COUNT, 560 + i)) for i in range(2))
    two = ["add.s16x2", "add.u16x2", "min.s16x2", "max.u16x2", "min.relu.s16x2", "max.relu.s16x2", "max.s16x2"]
    return [*result, elementwise("integer_16x2", [*two, "min.u16x2"], {"a": a, "b": b}, 32)]


def bits() -> list[Probe]:
    result = []
    for width in (32, 64):
        a, b = integers(width, 2, COUNT, 570 + width)
        generator = np.random.default_rng(580 + width)
        marks = np.array([0, 1, 5, 8, 31, 32, 33, 63, 64, 65, 100, 255, 256, 257, 1 << 31, (1 << 32) - 1], np.uint32)
        b32, c32 = (marks[generator.integers(0, marks.size, COUNT)] for _ in range(2))
        half = generator.integers(0, width, COUNT).astype(np.uint32)
        b32 = np.where(generator.random(COUNT) < 0.5, b32, half).astype(np.uint32)
        c32 = np.where(generator.random(COUNT) < 0.5, c32, half[::-1]).astype(np.uint32)
        counts = [f"popc.b{width}", f"clz.b{width}"]
        counts += [f"bfind{amount}.{s}{width}" for s in "su" for amount in ("", ".shiftamt")]
        result.append(elementwise(f"count_{width}", counts, {"a": a}, 32))
        unary = [f"brev.b{width}", f"not.b{width}", f"cnot.b{width}"]
        result.append(elementwise(f"bit_unary_{width}", unary, {"a": a}, width))
        binary = [f"{op}.b{width}" for op in ("and", "or", "xor")]
        result.append(elementwise(f"bit_binary_{width}", binary, {"a": a, "b": b}, width))
        shifts = [f"shl.b{width}", f"shr.b{width}", f"shr.u{width}", f"shr.s{width}"]
        result.append(elementwise(f"shift_{width}", shifts, {"a": a, "b": b32}, width))
        position, length = (x & np.uint32(255) for x in (b32, c32))  # more is not allowed: 9.7.1.18, 9.7.1.19
        fields = [f"bfe.{s}{width}" for s in "su"]
        result.append(elementwise(f"bfe_{width}", fields, {"a": a, "b": position, "c": length}, width))
        operands = {"a": a, "b": b, "c": position, "e": length}
        result.append(elementwise(f"bfi_{width}", [f"bfi.b{width}"], operands, width, sources="abce"))
    (a,) = integers(16, 1, COUNT, 590)
    amounts = np.resize(np.array([0, 1, 7, 15, 16, 17, 31, 32, 255, 1 << 16, (1 << 32) - 1], np.uint32), COUNT)
    cases = ["shl.b16", "shr.b16", "shr.u16", "shr.s16"]
    result.append(elementwise("shift_16", cases, {"a": a, "b": amounts}, 16))
    cases = ["and.b16", "or.b16", "xor.b16", "{{ not.b16 {d}, {a}; }}", "{{ cnot.b16 {d}, {b}; }}"]
    result.append(elementwise("bit_16", cases, {"a": a, "b": integers(16, 1, COUNT, 591)[0]}, 16))
    return result


def words() -> list[Probe]:
    a, b, c = integers(32, 3, COUNT, 600)
    generator = np.random.default_rng(601)
    selector = generator.integers(0, 1 << 32, COUNT, dtype=np.uint64).astype(np.uint32)
    modes = ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16")
    result = [elementwise("prmt", [f"prmt.b32{m}" for m in modes], {"a": a, "b": b, "c": selector}, 32)]
    amounts = generator.integers(0, 80, COUNT).astype(np.uint32)
    cases = [f"shf.{side}.{mode}.b32" for side in "lr" for mode in ("wrap", "clamp")]
    result.append(elementwise("shf", cases, {"a": a, "b": b, "c": amounts}, 32))
    tables = (0x00, 0x01, 0x80, 0x96, 0xCA, 0xE8, 0xFE, 0xFF, 0x3C, 0x6A)
    cases = [f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {t:#x};" for t in tables]
    cases += [
        f"{{{{ .reg .pred p, q; setp.gt.s32 q, {{a}}, {{b}}; lop3.{op}.b32 {{d}}|p, {{a}}, {{b}}, {{c}}, {t:#x}, q; "
        f"@p add.u32 {{d}}, {{d}}, 1; }}}}"
        for op, t in (("or", 0x80), ("and", 0xE8))
    ]
    result.append(elementwise("lop3", cases, {"a": a, "b": b, "c": c}, 32))
    cases = [f"dp4a.{x}.{y}" for x in ("s32", "u32") for y in ("s32", "u32")]
    cases += [f"dp2a.{half}.{x}.{y}" for half in ("lo", "hi") for x in ("s32", "u32") for y in ("s32", "u32")]
    result.append(elementwise("dp", cases, {"a": a, "b": b, "c": c}, 32))
    position = generator.integers(0, 40, COUNT).astype(np.uint32)
    cases = [
        "bmsk.clamp.b32",
        "bmsk.wrap.b32",
        "szext.clamp.s32",
        "szext.wrap.s32",
        "szext.clamp.u32",
        "szext.wrap.u32",
    ]
    cases = [f"{op} {{d}}, {{{'b' if op.startswith('bmsk') else 'a'}}}, {{c}};" for op in cases]
    result.append(elementwise("bmsk", cases, {"a": a, "b": position, "c": amounts % np.uint32(40)}, 32))
    base = generator.integers(0, 32, COUNT).astype(np.uint32)
    offset = generator.integers(-34, 35, COUNT).astype(np.int32).view(np.uint32)
    result.append(elementwise("fns", ["fns.b32"], {"a": a, "b": base, "c": offset}, 32))
    moves = [
        "{{ .reg .b16 x, y; mov.b32 {{x, y}}, {a}; mov.b32 {d}, {{y, x}}; }}",
        "{{ .reg .b8 x, y, z, w; mov.b32 {{x, y, z, w}}, {a}; mov.b32 {d}, {{w, z, y, x}}; }}",
        "slct.s32.s32 {d}, {a}, {b}, {c};",
        "slct.u32.f32 {d}, {a}, {b}, {c};",
        "set.gt.u32.s32 {d}, {a}, {b};",
        "set.hs.f32.u32 {d}, {a}, {b};",
    ]
    result.append(elementwise("moves", moves, {"a": a, "b": b, "c": c}, 32))
    return result


def probes() -> list[Probe]:
    return arithmetic() + bits() + words()
