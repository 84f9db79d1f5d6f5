"""Probes of cvt: PTX ISA 9.7.9.21, every pair of formats and every rounding that sm_90a has."""

from __future__ import annotations

import numpy as np

from .probe import Probe, elementwise
from .values import extremes, floats, integers, packed, spread

FLOAT_ROUNDINGS = ("rn", "rz", "rm", "rp")
INTEGER_ROUNDINGS = ("rni", "rzi", "rmi", "rpi")
ALL_HALVES = np.arange(1 << 16, dtype=np.uint32)


def boundaries(bits: int, exponents: range, count: int, seed: int) -> np.ndarray:
    """float32 patterns on, just under and just over the points where rounding to `bits` of mantissa changes."""
    generator = np.random.default_rng(seed)
    mantissa = generator.integers(0, 1 << (bits + 2), count).astype(np.uint32) << np.uint32(23 - bits - 2)
    exponent = generator.choice(np.arange(exponents.start + 127, exponents.stop + 127), count).astype(np.uint32)
    pattern = (exponent << np.uint32(23)) | mantissa
    pattern = (pattern.astype(np.int64) + generator.integers(-1, 2, count)).astype(np.uint32)
    return pattern | (generator.integers(0, 2, count).astype(np.uint32) << np.uint32(31))


def singles(count: int, seed: int, bits: int, exponents: range) -> np.ndarray:
    """float32 operands for a narrowing conversion: landmarks, boundaries, random bits."""
    marks = extremes(32)
    rest = count - marks.size
    return np.concatenate(
        [marks, boundaries(bits, exponents, rest * 3 // 4, seed), floats(32, 1, rest - rest * 3 // 4, seed)[0]]
    )


def narrow() -> list[Probe]:
    """e4m3 and e5m2, packed by two."""
    result = []
    for form, bits, exponents in (("e4m3x2", 3, range(-13, 11)), ("e5m2x2", 2, range(-20, 18))):
        cases = [f"cvt.rn.satfinite{relu}.{form}.f32" for relu in ("", ".relu")]
        a, b = singles(2048, 201, bits, exponents), singles(2048, 202, bits, exponents)[::-1].copy()
        result.append(elementwise(f"cvt_{form}_f32", cases, {"a": a, "b": b}, 16))
        every = packed(ALL_HALVES[0::2], ALL_HALVES[1::2])
        cases = [f"cvt.rn.satfinite{relu}.{form}.f16x2" for relu in ("", ".relu")]
        result.append(elementwise(f"cvt_{form}_f16x2", cases, {"a": every}, 16))
        low = np.arange(256, dtype=np.uint16)
        pairs = low | (low[::-1] << np.uint16(8))
        cases = [f"cvt.rn{relu}.f16x2.{form}" for relu in ("", ".relu")]
        result.append(elementwise(f"cvt_f16x2_{form}", cases, {"a": pairs}, 32))
    return result


def halves() -> list[Probe]:
    """f16, bf16, tf32 and f32 among themselves."""
    a, b = singles(1024, 211, 10, range(-26, 18)), singles(1024, 212, 10, range(-26, 18))[::-1].copy()
    to_f16 = [f"cvt.{r}{ftz}{sat}.f16.f32" for r in FLOAT_ROUNDINGS for ftz in ("", ".ftz") for sat in ("", ".sat")]
    to_f16 += [f"cvt.{r}{tail}.f16.f32" for r in ("rn", "rz") for tail in (".relu", ".satfinite", ".relu.satfinite")]
    to_f16x2 = [f"cvt.{r}{tail}.f16x2.f32" for r in ("rn", "rz") for tail in ("", ".relu", ".satfinite")]
    x, y = singles(1024, 213, 7, range(-126, 128)), singles(1024, 214, 7, range(-126, 128))[::-1].copy()
    to_bf16 = [f"cvt.{r}.bf16.f32" for r in FLOAT_ROUNDINGS]
    to_bf16 += [f"cvt.{r}{tail}.bf16.f32" for r in ("rn", "rz") for tail in (".relu", ".satfinite", ".relu.satfinite")]
    to_bf16x2 = [f"cvt.{r}{tail}.bf16x2.f32" for r in ("rn", "rz") for tail in ("", ".relu", ".satfinite")]
    t = singles(1024, 215, 10, range(-126, 128))
    to_tf32 = ["cvt.rna.tf32.f32", "cvt.rna.satfinite.tf32.f32"]
    to_tf32 += [f"cvt.{r}{relu}.tf32.f32" for r in ("rn", "rz") for relu in ("", ".relu")]
    same = [f"cvt.{r}{ftz}{sat}.f32.f32" for r in INTEGER_ROUNDINGS for ftz in ("", ".ftz") for sat in ("", ".sat")]
    same += ["cvt.f32.f32", "cvt.ftz.f32.f32", "cvt.sat.f32.f32", "cvt.ftz.sat.f32.f32"]
    u = singles(512, 216, 8, range(-3, 25))
    marks = extremes(16)
    h = np.concatenate([marks, floats(16, 1, 512 - marks.size, 217)[0]])
    marks = extremes("bf16")
    g = np.concatenate([marks, floats("bf16", 1, 512 - marks.size, 218)[0]])
    return [
        elementwise("cvt_f16_f32", to_f16, {"a": a}, 16),
        elementwise("cvt_f16x2_f32", to_f16x2, {"a": a, "b": b}, 32),
        elementwise("cvt_bf16_f32", to_bf16, {"a": x}, 16),
        elementwise("cvt_bf16x2_f32", to_bf16x2, {"a": x, "b": y}, 32),
        elementwise("cvt_tf32_f32", to_tf32, {"a": t}, 32),
        elementwise("cvt_f32_f32", same, {"a": u}, 32),
        elementwise("cvt_f32_f16", ["cvt.f32.f16", "cvt.ftz.f32.f16", "cvt.sat.f32.f16"], {"a": h}, 32),
        elementwise("cvt_f16_f16", [f"cvt.{r}.f16.f16" for r in INTEGER_ROUNDINGS] + ["cvt.sat.f16.f16"], {"a": h}, 16),
        elementwise("cvt_f32_bf16", ["cvt.f32.bf16"], {"a": g}, 32),
        elementwise("cvt_bf16_bf16", [f"cvt.{r}.bf16.bf16" for r in INTEGER_ROUNDINGS], {"a": g}, 16),
        elementwise("cvt_f16_bf16", [f"cvt.{r}.f16.bf16" for r in FLOAT_ROUNDINGS], {"a": g}, 16),
        elementwise("cvt_bf16_f16", [f"cvt.{r}.bf16.f16" for r in FLOAT_ROUNDINGS], {"a": h}, 16),
        elementwise("cvt_f64_f16_bf16", ["cvt.f64.f16", "cvt.f64.bf16"], {"a": h}, 64),
    ]


def doubles() -> list[Probe]:
    generator = np.random.default_rng(221)
    near = spread(generator, -155, 130, 384)
    with np.errstate(over="ignore"):
        near[::2] = near[::2].astype(np.float32) * (1 + generator.choice([0, 2.0**-25, 2.0**-24, 2.0**-52], 192))
    marks = extremes(64)
    d = np.concatenate([marks, near.view(np.uint64), floats(64, 1, 512 - marks.size - 384, 222)[0]])
    f = np.concatenate([extremes(32), floats(32, 1, 256 - extremes(32).size, 223)[0]])
    to_f32 = [f"cvt.{r}{ftz}{sat}.f32.f64" for r in FLOAT_ROUNDINGS for ftz in ("", ".ftz") for sat in ("", ".sat")]
    return [
        elementwise("cvt_f32_f64", to_f32, {"a": d}, 32),
        elementwise("cvt_f16_f64", [f"cvt.{r}.f16.f64" for r in FLOAT_ROUNDINGS], {"a": d}, 16),
        elementwise("cvt_bf16_f64", [f"cvt.{r}.bf16.f64" for r in FLOAT_ROUNDINGS], {"a": d}, 16),
        elementwise("cvt_f64_f32", ["cvt.f64.f32", "cvt.ftz.f64.f32", "cvt.sat.f64.f32"], {"a": f}, 64),
        elementwise("cvt_f64_f64", [f"cvt.{r}.f64.f64" for r in INTEGER_ROUNDINGS] + ["cvt.sat.f64.f64"], {"a": d}, 64),
    ]


def from_integers() -> list[Probe]:
    result = []
    for width in (16, 32, 64):
        a = integers(width, 1, 256, 230 + width)[0]
        for target, size in (("f16", 16), ("bf16", 16), ("f32", 32), ("f64", 64)):
            cases = [f"cvt.{r}.{target}.{s}{width}" for s in "su" for r in FLOAT_ROUNDINGS]
            if target in ("f16", "f32", "f64"):
                cases += [f"cvt.rn.sat.{target}.s{width}"]
            result.append(elementwise(f"cvt_{target}_s{width}", cases, {"a": a}, size))
    bytes_ = integers(16, 1, 256, 239)[0]
    cases = [f"cvt.{r}.f16.{s}8" for s in "su" for r in FLOAT_ROUNDINGS]
    result.append(elementwise("cvt_f16_s8", cases, {"a": bytes_}, 16))
    result.append(elementwise("cvt_f32_s8", ["cvt.rn.f32.s8", "cvt.rn.f32.u8"], {"a": bytes_}, 32))
    return result


def to_integers() -> list[Probe]:
    result = []
    for source, exponents in (("f16", (-3, 16)), ("bf16", (-3, 70)), ("f32", (-3, 70)), ("f64", (-3, 70))):
        generator = np.random.default_rng(240)
        near = spread(generator, *exponents, 192)
        near[::3] = np.round(near[::3]) + 0.5
        if source == "bf16":
            values, marks = (near.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), extremes("bf16")
        else:
            with np.errstate(over="ignore"):
                width = int(source[1:])
                values = near.astype(f"f{width // 8}").view(f"u{width // 8}")
            marks = extremes(width)
        a = np.concatenate([marks, values, values[: 256 - marks.size - values.size]])
        for target in (16, 32, 64):
            cases = [f"cvt.{r}.{s}{target}.{source}" for s in "su" for r in INTEGER_ROUNDINGS]
            if source == "f32":
                cases += [f"cvt.rzi.ftz.{s}{target}.f32" for s in "su"] + [f"cvt.rpi.ftz.s{target}.f32"]
            result.append(elementwise(f"cvt_s{target}_{source}", cases, {"a": a}, target))
        if source != "bf16":
            cases = [f"cvt.{r}.{s}8.{source}" for s in "su" for r in INTEGER_ROUNDINGS]
            result.append(elementwise(f"cvt_s8_{source}", cases, {"a": a}, 32))
    return result


def between(target: int, source: int) -> list[str]:
    """cvt of integers of given widths; .sat only where the source holds what the target does not (ptxas refuses it)."""
    pairs = [(t, s) for t in "su" for s in "su"]
    cases = [f"cvt.{t}{target}.{s}{source}" for t, s in pairs]
    return cases + [
        f"cvt.sat.{t}{target}.{s}{source}"
        for t, s in pairs
        if target < source or (target == source and t != s) or (t == "u" and s == "s")
    ]


def among_integers() -> list[Probe]:
    result = []
    for source in (16, 32, 64):
        a = integers(source, 1, 128, 250 + source)[0]
        for target in (8, 16, 32, 64):
            size = max(target, 16)
            result.append(elementwise(f"cvt_s{target}_s{source}", between(target, source), {"a": a}, size))
    a = integers(16, 1, 128, 259)[0]
    for target in (16, 32, 64):
        result.append(elementwise(f"cvt_s{target}_s8", between(target, 8), {"a": a}, target))
    return result


def packs() -> list[Probe]:
    a, b, c = integers(32, 3, 256, 260)
    two = [f"cvt.pack.sat.{t}16.s32 {{d}}, {{a}}, {{b}};" for t in "su"]
    four = [f"cvt.pack.sat.{t}{bits}.s32.b32 {{d}}, {{a}}, {{b}}, {{c}};" for t in "su" for bits in (2, 4, 8)]
    return [elementwise("cvt_pack", two + four, {"a": a, "b": b, "c": c}, 32)]


def probes() -> list[Probe]:
    return narrow() + halves() + doubles() + from_integers() + to_integers() + among_integers() + packs()
