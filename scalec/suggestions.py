"""What a message offers for a name that nothing has: the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

ALIASES: dict[str, tuple[str, ...]] = {
    # element types, formats and scales by the names of torch, numpy, CUDA and the OCP formats
    "fp8": ("e4m3", "fp8_block"),
    "float8": ("e4m3",),
    "f8": ("e4m3",),
    "float8_e4m3fn": ("e4m3",),
    "f8e4m3fn": ("e4m3",),
    "float8_e5m2": ("e5m2",),
    "f8e5m2": ("e5m2",),
    "float8_e8m0fnu": ("ue8m0",),
    "e8m0": ("ue8m0",),
    "fp6": ("e3m2",),
    "fp4": ("e2m1",),
    "float4": ("e2m1",),
    "float4_e2m1fn_x2": ("e2m1",),
    "bfloat16": ("bf16",),
    "bfloat": ("bf16",),
    "half": ("f16",),
    "fp16": ("f16",),
    "float16": ("f16",),
    "float": ("f32",),
    "fp32": ("f32",),
    "float32": ("f32",),
    "int4": ("i4",),
    "uint4": ("u4",),
    "s4": ("i4",),
    "int8": ("i8",),
    "s8": ("i8",),
    "int32": ("i32",),
    "s32": ("i32",),
    "int": ("i32",),
    # functions
    "swish": ("silu",),
    "logistic": ("sigmoid",),
    "maximum": ("max",),
    "minimum": ("min",),
    "amax": ("max",),
    "fabs": ("abs",),
    "sgn": ("sign",),
    # layouts of scales
    "column": ("col",),
    "col_major": ("col",),
    "column_major": ("col",),
    "row_major": ("row",),
    "swizzled": ("blocked",),
    # schedule fields
    "split_k": ("split",),
    "splitk": ("split",),
    "num_stages": ("stages",),
    "num_warps": ("warps",),
    "num_warpgroups": ("warpgroups",),
    "block": ("tile",),
    "tile_shape": ("tile",),
    "cluster_shape": ("cluster",),
    "group": ("band",),
    "group_m": ("band",),
    "swap_ab": ("swap",),
    "swizzle": ("swizzle_a",),
    # stages
    "mlir": ("tile",),
    "asm": ("sass",),
    "ir": ("llvm",),
    "bin": ("cubin",),
    # targets: architectures and GPUs
    **dict.fromkeys(("hopper", "h100", "h200", "h800", "h20", "gh200", "sm90", "sm_90", "90", "90a"), ("sm_90a",)),
    **dict.fromkeys(("blackwell", "b100", "b200", "gb200", "sm100", "sm_100", "100", "100a"), ("sm_100a",)),
    **dict.fromkeys(("b300", "gb300", "sm103", "sm_103", "103", "103a"), ("sm_103a",)),
    **dict.fromkeys(("rtx5090", "5090", "rtx5080", "5080", "rtx", "sm120", "sm_120", "120", "120a"), ("sm_120a",)),
}
"""What other projects call a thing, in lower case, and what scalec calls it."""


WRITTEN = {
    "sum": "write sum[k](...) with the indices to sum over",
    "rsqrt": "write 1 / sqrt(x)",
    "reciprocal": "write 1 / x",
    "square": "write x^2",
    "pow": "write x^2, an integer power",
    "clamp": "write max(min(x, high), low)",
    "clip": "write max(min(x, high), low)",
    "softmax": "write M[m] = max[n](T); S[m] = sum[n](exp(T - M)); Y[m,n] = exp(T - M) / S",
    "mean": "write sum[k](...) / size, a number or a scalar",
    "size": "size(k) stands in indices alone: write a number, or a scalar of another name, e.g. k_size",
    "where": "say with a range which points there are: for n < len[m] else 0",
}
"""What stands for a function or a reduction of other projects that is none here, and that no name alone replaces."""


def instead(name: str, known: Iterable[str]) -> str:
    """What to write for a function or a reduction that there is not, "" for nothing."""
    return WRITTEN.get(_plain(name), "") or did_you_mean(name, known)


def near(name: str, known: Iterable[str]) -> str:
    """The known name that `name` was probably meant to be, "" for none: the same but for case and for `-` or `_`, that
    of an alias, or one that is written much like it."""
    names = {_plain(k): k for k in reversed(list(known))}
    plain = _plain(name)
    if plain in names:
        return names[plain]
    for alias in ALIASES.get(plain, ()):
        if _plain(alias) in names:
            return names[_plain(alias)]
    from difflib import get_close_matches

    found = get_close_matches(plain, [k for k in names if k], n=1)
    return names[found[0]] if found else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean X?` where a known name is near `name`, else nothing."""
    found = near(name, known)
    return f"did you mean {found}?" if found else ""


def _plain(name: str) -> str:
    return name[:64].strip().casefold().replace("-", "_").replace(" ", "_")
