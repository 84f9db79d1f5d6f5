"""One instruction, or a few, on values that a test gives lane by lane."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.emulator.harness import Out, run_ptx

_DTYPES = {
    "pred": np.dtype("u4"), "b128": np.dtype("u8"), "f16": np.dtype("u2"), "bf16": np.dtype("u2"),
    "f32": np.dtype("f4"), "f64": np.dtype("f8"),
    **{f"{k}{bits}": np.dtype(f"{'i' if k == 's' else 'u'}{bits // 8}") for k in "bus" for bits in (16, 32, 64)},
}  # fmt: skip


def u16(*values: int) -> np.ndarray:
    return np.array([v & 0xFFFF for v in values], np.uint16)


def u32(*values: int) -> np.ndarray:
    return np.array([v & 0xFFFFFFFF for v in values], np.uint32)


def u64(*values: int) -> np.ndarray:
    return np.array([v & 0xFFFFFFFFFFFFFFFF for v in values], np.uint64)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def lanes(
    body: str,
    *,
    target: str = "sm_90a",
    seed: int = 0,
    head: str = "",
    ignore: frozenset[str] = frozenset(),
    **registers: str | Sequence | np.ndarray,
) -> np.ndarray | tuple[np.ndarray, ...]:
    """Runs `body` on one warp, with a register for every keyword.

    An array is an input: lane i starts with element i (those past its end with the last one), bool arrays are
    predicates. A type is an output: the register's value in every lane, up to the length of the longest input.
    """
    inputs = {k: np.asarray(v) for k, v in registers.items() if not isinstance(v, str)}
    outputs = {k: v for k, v in registers.items() if isinstance(v, str)}
    count = max((len(v) for v in inputs.values()), default=32)
    declare, load, store, arguments = [], [], [], []
    for i, (name, values) in enumerate(inputs.items()):
        full = np.concatenate([values, np.repeat(values[-1:], 32 - len(values))])
        size = 4 if full.dtype == bool else full.dtype.itemsize
        arguments.append(full.astype(np.uint32) if full.dtype == bool else full)
        declare.append(f".reg .{'pred' if full.dtype == bool else f'b{8 * size}'} {name};")
        load.append(f"ld.param.u64 %at, [p{i}]; mad.wide.u32 %at, %lane, {size}, %at;")
        if full.dtype == bool:
            load.append(f"ld.global.b32 %word, [%at]; setp.ne.u32 {name}, %word, 0;")
        else:
            load.append(f"ld.global.b{8 * size} {name}, [%at];")
    for i, (name, kind) in enumerate(outputs.items(), len(inputs)):
        dtype = _DTYPES[kind]
        bits = 128 if kind == "b128" else 8 * dtype.itemsize
        arguments.append(Out(32 * bits // 8))
        declare.append(f".reg .{'pred' if kind == 'pred' else f'b{bits}'} {name};")
        store.append(f"ld.param.u64 %at, [p{i}]; mad.wide.u32 %at, %lane, {bits // 8}, %at;")
        if kind == "pred":
            store.append(f"selp.u32 %word, 1, 0, {name}; st.global.b32 [%at], %word;")
        else:
            store.append(f"st.global.b{bits} [%at], {name};")
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(arguments)))
    lines = ["mov.u32 %lane, %laneid;", *load, body, *store]
    text = f"""
.version 8.8
.target {target}
.address_size 64
{head}
.visible .entry k({parameters})
{{
    .reg .b64 %at; .reg .b32 %word, %lane; .reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
    .reg .b128 %q<2>;
    {" ".join(declare)}
    {(chr(10) + "    ").join(lines)}
    ret;
}}
"""
    run_ptx(text, arguments, seed=seed, ignore=ignore)
    found = []
    for out, kind in zip(arguments[len(inputs) :], outputs.values(), strict=True):
        value = out.view(_DTYPES[kind])
        value = value.reshape(32, 2)[:count] if kind == "b128" else value[:count]
        found.append(value.astype(bool) if kind == "pred" else value)
    return found[0] if len(found) == 1 else tuple(found)
