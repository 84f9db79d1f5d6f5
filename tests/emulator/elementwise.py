"""Runs one instruction on arrays: thread i does element i."""

from __future__ import annotations

import numpy as np

from .harness import Out, module, run_ptx

_REGISTER = {1: "%h", 2: "%h", 4: "%r", 8: "%rd"}


def f32(*values: float) -> np.ndarray:
    return np.array(values, "f4")


def u16(*values: int) -> np.ndarray:
    return np.array(values, "u2")


def apply(text: str, result: str, *operands: np.ndarray, target: str = "sm_90a") -> np.ndarray:
    """Results of an instruction as an array of the dtype `result`.

    Args:
        text: an opcode, which takes a destination and all operands in order; or PTX with {d} and {0}, {1}, ...
        operands: of one length, up to 1024; a value of n bytes is in a register of n bytes (of 2, if n is 1).
    """
    arrays = [np.ascontiguousarray(x) for x in operands]
    (count,) = {x.size for x in arrays}
    size = np.dtype(result).itemsize
    lines = ["mov.u32 %r0, %tid.x;", f"setp.ge.u32 %p0, %r0, {count};", "@%p0 bra END;"]
    names = []
    for i, array in enumerate(arrays):
        name = f"{_REGISTER[array.itemsize]}{i + 40}"
        names.append(name)
        lines += [
            f"ld.param.u64 %rd1, [p{i}];",
            f"mad.wide.u32 %rd2, %r0, {array.itemsize}, %rd1;",
            f"ld.global.{'u8' if array.itemsize == 1 else f'b{8 * array.itemsize}'} {name}, [%rd2];",
        ]
    to = f"{_REGISTER[size]}50"
    lines.append(text.format(*names, d=to) if " " in text else f"{text} {', '.join([to, *names])};")
    lines += [
        f"ld.param.u64 %rd1, [p{len(arrays)}];",
        f"mad.wide.u32 %rd2, %r0, {size}, %rd1;",
        f"st.global.b{8 * size} [%rd2], {to};",
        "END:",
    ]
    params = ", ".join(f".param .u64 p{i}" for i in range(len(arrays) + 1))
    out = Out(count * size)
    run_ptx(module("\n".join(lines), params, target), [*arrays, out], block=(-(-count // 32) * 32, 1, 1))
    return out.view(result)
