"""Probes of floating-point arithmetic: PTX ISA 9.7.3 to 9.7.5 (f32, f64, f16, bf16) and 9.7.6 (comparisons)."""

from __future__ import annotations

import numpy as np

from .probe import Probe, elementwise
from .values import extremes, floats, packed, pairs

COUNT = 512
ROUNDINGS = ("rn", "rz", "rm", "rp")
RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def compare(kind: str, relations: tuple[str, ...] = RELATIONS) -> list[str]:
    """setp of every relation, as 1 or 0."""
    return [f"{{{{ .reg .pred p; setp.{r}.{kind} p, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, p; }}}}" for r in relations]


def single_precision() -> list[Probe]:
    a, b = pairs(32, COUNT, 101)
    binary = [
        f"{op}.{r}{ftz}{sat}.f32"
        for op in ("add", "sub", "mul")
        for r in ROUNDINGS
        for ftz in ("", ".ftz")
        for sat in ("", ".sat")
    ]
    binary += [f"div.{r}{ftz}.f32" for r in ROUNDINGS for ftz in ("", ".ftz")]
    binary += [
        f"{op}{ftz}{nan}{xor}.f32"
        for op in ("min", "max")
        for ftz in ("", ".ftz")
        for nan in ("", ".NaN")
        for xor in ("", ".xorsign.abs")
    ]
    binary += ["copysign.f32"]
    x, y, z = floats(32, 3, COUNT, 102)
    with np.errstate(all="ignore"):  # near cancellation
        z[: COUNT // 4] = (x.view(np.float32) * -y.view(np.float32)).view(np.uint32)[: COUNT // 4]
    ternary = [f"fma.{r}{ftz}{sat}.f32" for r in ROUNDINGS for ftz in ("", ".ftz") for sat in ("", ".sat")]
    unary = [f"{op}.{r}{ftz}.f32" for op in ("rcp", "sqrt") for r in ROUNDINGS for ftz in ("", ".ftz")]
    unary += ["abs.f32", "abs.ftz.f32", "neg.f32", "neg.ftz.f32"]
    unary += [
        f"{{{{ .reg .pred p; testp.{t}.f32 p, {{a}}; selp.b32 {{d}}, 1, 0, p; }}}}"
        for t in ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    ]
    other = compare("f32") + compare("ftz.f32")
    other += [
        "{{ .reg .b32 s; mov.b32 s, {b}; slct.f32.f32 {d}, {a}, 0f40400000, s; }}",
        "{{ .reg .b32 s; mov.b32 s, {b}; slct.ftz.f32.f32 {d}, {a}, 0f40400000, s; }}",
        "set.lt.u32.f32 {d}, {a}, {b};",
        "set.gtu.f32.f32 {d}, {a}, {b};",
        "set.le.ftz.s32.f32 {d}, {a}, {b};",
    ]
    values = np.concatenate([extremes(32), floats(32, 1, COUNT - extremes(32).size, 103)[0]])
    return [
        elementwise("f32_binary", binary, {"a": a, "b": b}, 32),
        elementwise("f32_compare", other, {"a": a, "b": b}, 32),
        elementwise("f32_ternary", ternary, {"a": x, "b": y, "c": z}, 32),
        elementwise("f32_unary", unary, {"a": values}, 32),
    ]


def approximations() -> list[Probe]:
    """Instructions whose last bits are the implementation's: stored to set tolerances, landmarks exact."""
    marks = extremes(32)
    wide = floats(32, 1, COUNT, 110)[0]
    generator = np.random.default_rng(111)
    near = (generator.random(COUNT) * 24 - 12).astype(np.float32).view(np.uint32)
    values = np.concatenate([marks, wide, near])
    values = np.resize(values, -(-values.size // 128) * 128)
    cases = [
        f"{op}.approx{ftz}.f32" for op in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2") for ftz in ("", ".ftz")
    ]
    cases += ["tanh.approx.f32"]
    a, b = pairs(32, 2 * COUNT, 112)
    quotients = ["div.approx.f32", "div.approx.ftz.f32", "div.full.f32", "div.full.ftz.f32"]
    halves = np.resize(np.concatenate([extremes(16), floats(16, 1, COUNT, 113)[0]]), 640)
    brains = np.resize(np.concatenate([extremes("bf16"), floats("bf16", 1, COUNT, 114)[0]]), 640)
    doubles = np.resize(np.concatenate([extremes(64), floats(64, 1, 384, 115)[0]]), 384)
    return [
        elementwise("approx_f32", cases, {"a": values}, 32),
        elementwise("approx_div", quotients, {"a": a, "b": b}, 32),
        elementwise("approx_f16", ["ex2.approx.f16", "tanh.approx.f16"], {"a": halves}, 16),
        elementwise("approx_bf16", ["ex2.approx.ftz.bf16", "tanh.approx.bf16"], {"a": brains}, 16),
        elementwise("approx_f64", ["rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"], {"a": doubles}, 64),
    ]


def double_precision() -> list[Probe]:
    a, b = pairs(64, 256, 121)
    binary = [f"{op}.{r}.f64" for op in ("add", "sub", "mul", "div") for r in ROUNDINGS] + ["min.f64", "max.f64"]
    binary += ["copysign.f64"]
    x, y, z = floats(64, 3, 256, 122)
    with np.errstate(all="ignore"):
        z[:64] = (x.view(np.float64) * -y.view(np.float64)).view(np.uint64)[:64]
    unary = [f"{op}.{r}.f64" for op in ("rcp", "sqrt") for r in ROUNDINGS] + ["abs.f64", "neg.f64"]
    return [
        elementwise("f64_binary", binary, {"a": a, "b": b}, 64),
        elementwise("f64_compare", compare("f64"), {"a": a, "b": b}, 32),
        elementwise("f64_fma", [f"fma.{r}.f64" for r in ROUNDINGS], {"a": x, "b": y, "c": z}, 64),
        elementwise("f64_unary", unary, {"a": a}, 64),
    ]


def half_precision() -> list[Probe]:
    """f16 and bf16, scalar and packed."""
    result = []
    a, b = pairs(16, 1024, 131)
    x, y, z = floats(16, 3, 1024, 132)
    with np.errstate(all="ignore"):
        z[:256] = (x.view(np.float16) * -y.view(np.float16)).view(np.uint16)[:256]
    binary = [f"{op}{rn}{ftz}{sat}.f16" for op in ("add", "sub", "mul") for rn in ("", ".rn") for ftz in ("", ".ftz")
              for sat in ("", ".sat")]  # fmt: skip
    low_high = [f"{op}{ftz}{nan}{xor}" for op in ("min", "max") for ftz in ("", ".ftz") for nan in ("", ".NaN")
                for xor in ("", ".xorsign.abs")]  # fmt: skip
    result += [
        elementwise("f16_binary", binary + [f"{m}.f16" for m in low_high], {"a": a, "b": b}, 16),
        elementwise("f16_compare", compare("f16") + compare("ftz.f16"), {"a": a, "b": b}, 32),
        elementwise(
            "f16_fma",
            [
                f"fma.rn{ftz}{tail}.f16"
                for ftz, tail in (("", ""), (".ftz", ""), ("", ".sat"), (".ftz", ".sat"), ("", ".relu"))
            ]
            + ["fma.rn.ftz.relu.f16", "fma.rn.oob.f16", "fma.rn.oob.relu.f16"],
            {"a": x, "b": y, "c": z},
            16,
        ),
        elementwise("f16_unary", ["abs.f16", "abs.ftz.f16", "neg.f16", "neg.ftz.f16"], {"a": a}, 16),
    ]
    doubled = {"a": packed(a[:512], a[512:]), "b": packed(b[:512], b[512:])}
    tripled = {"a": packed(x[:512], x[512:]), "b": packed(y[:512], y[512:]), "c": packed(z[:512], z[512:])}
    two = ["add.f16x2", "sub.rn.ftz.f16x2", "mul.rn.sat.f16x2", "add.ftz.sat.f16x2", "min.f16x2", "max.ftz.NaN.f16x2"]
    two += ["min.xorsign.abs.f16x2", "max.NaN.xorsign.abs.f16x2"]
    result += [
        elementwise("f16x2_binary", two, doubled, 32),
        elementwise("f16x2_fma", ["fma.rn.f16x2", "fma.rn.ftz.sat.f16x2", "fma.rn.relu.f16x2"], tripled, 32),
        elementwise("f16x2_unary", ["abs.f16x2", "neg.f16x2"], {"a": doubled["a"]}, 32),
    ]
    pairwise = []
    for relation in ("lt", "neu", "geu"):
        pairwise.append(
            f"{{{{ .reg .pred p, q; .reg .b32 s, t; setp.{relation}.f16x2 p|q, {{a}}, {{b}}; selp.b32 s, 1, 0, p; "
            f"selp.b32 t, 65536, 0, q; or.b32 {{d}}, s, t; }}}}"
        )
    pairwise += ["set.lt.f16x2.f16x2", "set.gtu.f16x2.f16x2"]
    result.append(elementwise("f16x2_compare", pairwise, doubled, 32))

    a, b = pairs("bf16", 1024, 141)
    x, y, z = floats("bf16", 3, 1024, 142)
    with np.errstate(all="ignore"):
        product = (x.astype(np.uint32) << 16).view(np.float32) * -(y.astype(np.uint32) << 16).view(np.float32)
    z[:256] = (product.view(np.uint32) >> 16).astype(np.uint16)[:256]
    binary = [f"{op}{rn}.bf16" for op in ("add", "sub", "mul") for rn in ("", ".rn")]
    binary += [f"{m}.bf16" for m in low_high if "ftz" not in m]
    result += [
        elementwise("bf16_binary", binary, {"a": a, "b": b}, 16),
        elementwise("bf16_compare", compare("bf16"), {"a": a, "b": b}, 32),
        elementwise(
            "bf16_fma",
            ["fma.rn.bf16", "fma.rn.relu.bf16", "fma.rn.oob.bf16", "fma.rn.oob.relu.bf16"],
            {"a": x, "b": y, "c": z},
            16,
        ),
        elementwise("bf16_unary", ["abs.bf16", "neg.bf16"], {"a": a}, 16),
    ]
    doubled = {"a": packed(a[:512], a[512:]), "b": packed(b[:512], b[512:])}
    tripled = {"a": packed(x[:512], x[512:]), "b": packed(y[:512], y[512:]), "c": packed(z[:512], z[512:])}
    two = ["add.bf16x2", "sub.bf16x2", "mul.rn.bf16x2", "min.bf16x2", "max.NaN.bf16x2", "min.NaN.xorsign.abs.bf16x2"]
    result += [
        elementwise("bf16x2_binary", two, doubled, 32),
        elementwise("bf16x2_fma", ["fma.rn.bf16x2", "fma.rn.relu.bf16x2"], tripled, 32),
        elementwise("bf16x2_unary", ["abs.bf16x2", "neg.bf16x2"], {"a": doubled["a"]}, 32),
    ]
    return result


def probes() -> list[Probe]:
    return single_precision() + approximations() + double_precision() + half_precision()
