"""Probes of atomics and reductions: PTX ISA 9.7.13.5 to 7. Each thread has its own word: old value and new."""

from __future__ import annotations

import numpy as np

from .probe import BLOCK, Buffer, Probe, module, output
from .values import integers, packed, pairs

COUNT = 256


def atomic(name: str, opcodes: list[str], memory: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> Probe:
    """For each opcode: the word set anew, the old value that atom returns, and the word after."""
    size = memory.dtype.itemsize
    bits = size * 8
    shared = any(".shared" in o for o in opcodes)
    scratch = Buffer("scratch", memory.copy())
    out = output("d", (2 * len(opcodes), COUNT), memory.dtype.type)
    arguments = (
        Buffer("a", memory), Buffer("b", b), *([] if c is None else [Buffer("c", c)]), scratch, out,
    )  # fmt: skip
    lines = [
        ".reg .b32 %index, %cta, %local, %window;",
        ".reg .b64 %base, %at, %to, %word;",
        f".reg .b{bits} %a, %b, %c, %old, %new;",
        "mov.u32 %index, %tid.x;",
        "mov.u32 %window, window;",
        f"mad.lo.u32 %local, %index, {size}, %window;",
        "mov.u32 %cta, %ctaid.x;",
        f"mad.lo.u32 %index, %cta, {BLOCK}, %index;",
    ]
    for operand in ("a", "b") if c is None else ("a", "b", "c"):
        lines += [f"ld.param.u64 %base, [{operand}];", f"mad.wide.u32 %at, %index, {size}, %base;"]
        lines.append(f"ld.global.b{bits} %{operand}, [%at];")
    lines += ["ld.param.u64 %base, [scratch];", f"mad.wide.u32 %word, %index, {size}, %base;"]
    lines += ["ld.param.u64 %base, [d];", f"mad.wide.u32 %to, %index, {size}, %base;"]
    place, space = ("[%local]", "shared") if shared else ("[%word]", "global")
    for row, opcode in enumerate(opcodes):
        extra = ", %c" if ".cas" in opcode else ""
        lines.append(f"st.{space}.b{bits} {place}, %a;")
        if opcode.startswith("atom"):
            lines.append(f"{opcode} %old, {place}, %b{extra};")
        else:
            lines += [f"mov.b{bits} %old, %b;", f"{opcode} {place}, %b;"]
        lines.append(f"ld.{space}.b{bits} %new, {place};")
        for i, register in enumerate(("%old", "%new")):
            lines.append(f"st.global.b{bits} [%to+{(2 * row + i) * COUNT * size}], {register};")
    text = module("probe", arguments, "\n".join(lines))
    labels = tuple(f"{o} {what}" for o in opcodes for what in ("old", "new"))
    return Probe(
        name, text, "probe", arguments, (COUNT // BLOCK, 1, 1), shared=BLOCK * size if shared else 0, labels=labels
    )


def quiet(x: np.ndarray) -> np.ndarray:
    """float64 patterns with one NaN: which NaN comes of two is the implementation's."""
    return np.where(np.isnan(x.view(np.float64)), np.uint64(0x7FF8 << 48), x)


def vectors() -> list[Probe]:
    """Vectors of f32, f16x2 and bf16x2 in global memory: 9.7.13.5, .vec."""
    result = []
    for head, count, element, form in (
        ("atom.global.add", 2, "f32", 32),
        ("red.global.add", 4, "f32", 32),
        ("atom.global.add.noftz", 4, "f16x2", 16),
        ("red.global.min.noftz", 2, "f16x2", 16),
        ("red.global.max.noftz", 8, "f16", 16),
        ("atom.global.add.noftz", 8, "bf16", "bf16"),
        ("red.global.add.noftz", 2, "bf16x2", "bf16"),
    ):
        bits = 16 if element in ("f16", "bf16") else 32
        size = bits // 8
        old, new = pairs(form, BLOCK * count * (2 if "x2" in element else 1), 830)
        old, new = (np.ascontiguousarray(x).view(f"u{size}") for x in (old, new))
        arguments = (Buffer("target", old, result=True), Buffer("data", new), output("d", (old.size,), old.dtype.type))
        name = f"{head}.v{count}.{element}"
        result_vector, vector = ("{" + ", ".join(f"%{r}{i}" for i in range(count)) + "}" for r in "ab")
        call = f"{name} {result_vector}, [%at], {vector};" if head.startswith("atom") else f"{name} [%at], {vector};"
        lines = [f".reg .b{bits} %a<{count}>, %b<{count}>;", ".reg .b32 %t;", ".reg .b64 %base, %at, %offset;"]
        lines += ["mov.u32 %t, %tid.x;", f"mul.wide.u32 %offset, %t, {size * count};"]
        lines += ["ld.param.u64 %base, [data];", "add.u64 %at, %base, %offset;"]
        lines += [f"ld.global.b{bits} %b{i}, [%at+{size * i}];\nmov.b{bits} %a{i}, %b{i};" for i in range(count)]
        lines += ["ld.param.u64 %base, [target];", "add.u64 %at, %base, %offset;", call]
        lines += ["ld.param.u64 %base, [d];", "add.u64 %at, %base, %offset;"]
        lines += [f"st.global.b{bits} [%at+{size * i}], %a{i};" for i in range(count)]
        text = module("probe", arguments, "\n".join(lines))
        result.append(Probe("atomic_" + name.replace(".", "_"), text, "probe", arguments))
    return result


def probes() -> list[Probe]:
    result = []
    for space in ("global", "shared"):
        prefix = f"atom.{space}"
        for width in (32, 64):
            a, b, c = integers(width, 3, COUNT, 800 + width)
            b[::5] = a[::5]
            ops = [f"{prefix}.add.u{width}", f"{prefix}.exch.b{width}", f"{prefix}.cas.b{width}"]
            ops += [f"{prefix}.{op}.{s}{width}" for op in ("min", "max") for s in "su"]
            ops += [f"{prefix}.{op}.b{width}" for op in ("and", "or", "xor")]
            ops += [f"red.{space}.add.u{width}", f"red.{space}.min.s{width}"]
            if width == 32:
                ops += [f"{prefix}.inc.u32", f"{prefix}.dec.u32", f"{prefix}.add.s32", f"red.{space}.inc.u32"]
            result.append(atomic(f"atomic_{space}_{width}", ops, a, b, c))
        a, b = pairs(32, COUNT, 810)
        result.append(atomic(f"atomic_{space}_f32", [f"{prefix}.add.f32", f"red.{space}.add.f32"], a, b))
        a, b = (quiet(x) for x in pairs(64, COUNT, 811))
        result.append(atomic(f"atomic_{space}_f64", [f"{prefix}.add.f64"], a, b))
        a, b = pairs(16, COUNT, 812)
        result.append(atomic(f"atomic_{space}_f16", [f"{prefix}.add.noftz.f16"], a, b))
        two = packed(a, a[::-1]), packed(b, b[::-1])
        result.append(atomic(f"atomic_{space}_f16x2", [f"{prefix}.add.noftz.f16x2"], *two))
        a, b = pairs("bf16", COUNT, 813)
        result.append(atomic(f"atomic_{space}_bf16", [f"{prefix}.add.noftz.bf16"], a, b))
        two = packed(a, a[::-1]), packed(b, b[::-1])
        ops = [f"{prefix}.add.noftz.bf16x2", f"red.{space}.add.noftz.bf16x2"]
        result.append(atomic(f"atomic_{space}_bf16x2", ops, *two))
    return result + vectors()
