"""Scales that a program copies from one layout to another, on every target: bit for bit what the reference gives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.checking.guarded import FILLS, between_guards, written
from scalec.errors import ArgumentError, SourceError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.reference.packing import numpy_dtype, to_layout
from scalec.runtime import emulated
from scalec.runtime.array import DeviceArray
from scalec.runtime.kernel import Kernel
from tests.emulator.test_several_results import TARGETS
from tests.tiers import SEEDS

FORMS = {
    "f32 to tiles": "R[m,j]:ue8m0@blocked = S[m,j]:f32",
    "f32 to words": "R[m,j]:ue8m0@packed = S[m,j]:f32",
    "bytes to tiles": "R[m,j]:ue8m0@blocked = S[m,j]:ue8m0",
    "words to tiles": "R[m,j]:ue8m0@blocked = S[m,j]:ue8m0@packed",
    "tiles to words": "R[m,j]:ue8m0@packed = S[m,j]:ue8m0@blocked",
    "tiles to bytes": "R[m,j]:ue8m0 = S[m,j]:ue8m0@blocked",
    "words to f32, turned": "R[j,m]:f32 = S[m,j]:ue8m0@packed",
    "f32 turned to words": "R[m,j]:ue8m0@packed = S[j,m]:f32",
    "columns of f32": "R[m,j]:f32@col = S[m,j]:f32",
    "columns of f32 to words": "R[m,j]:ue8m0@packed = S[m,j]:f32@col",
    "bf16 to columns": "R[m,j]:ue8m0@col = S[m,j]:bf16",
    "f16 to ue4m3": "R[m,j]:ue4m3@blocked = S[m,j]:f16",
    "ue4m3 to tiles": "R[m,j]:ue4m3@blocked = S[m,j]:ue4m3",
    "ue4m3 of tiles to f32": "R[m,j]:f32 = S[m,j]:ue4m3@blocked",
    "of batches": "R[g,m,j]:ue8m0@blocked = S[g,m,j]:ue8m0@packed",
    "of batches, in rows": "R[g,h,m,j]:ue8m0 = S[g,h,m,j]:f32",
    "two": "R[m,j]:ue8m0@blocked = S[m,j]:f32; T[m,j]:ue8m0@packed = U[m,j]:f32@col",
    "one index": "R[j]:ue8m0 = S[j]:f32",
}
SIZES = [(130, 16), (1, 1), (257, 7), (64, 56), (5, 130), (0, 8), (9, 0), (128, 4)]
SPECIAL = [2.0**-127, 2.0**127, 2.0**-126, 1.0, 448.0, 2.0**-9, 0.0, -2.0, 3.0, np.inf, np.nan, 2.0**-128, 0.75]
"""Of f32; other types have those that they have."""


def arguments(source: str, dims: dict[str, int], seed: int) -> dict[str, Any]:
    """Scales of all bits that their types have."""
    rng, made = np.random.default_rng(seed), {}
    for name, index, kind, layout in re.findall(r"([SU])\[([\w,]+)\]:(\w+)@?(\w*)", source):
        shape = [dims[d] for d in index.split(",")]
        if kind == "f32":
            powers = np.exp2(rng.integers(-126, 128, shape).astype(np.float64))
            x = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), powers).astype(np.float32)
        else:
            bits = 8 * numpy_dtype(kind).itemsize
            most = 128 if kind == "ue4m3" else 1 << bits
            x = rng.integers(0, most, shape).astype(f"u{bits // 8}").view(numpy_dtype(kind))
        made[name] = to_layout(x, layout or "row")
    return made


def code(x: float, to: str) -> int:
    """The bits of one number as a scale."""
    if to == "ue8m0":
        return next((e + 127 for e in range(-127, 128) if x == 2.0**e), 255)
    every = np.arange(127, dtype=np.uint8).view(numpy_dtype(to)).astype(np.float64)
    found = np.nonzero((every == x) & ~np.signbit(x))[0]
    return int(found[0]) if len(found) else 127


@pytest.mark.once("target", "name")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, target: str, seed: int) -> None:
    source, (m, j) = FORMS[name], SIZES[(list(FORMS).index(name) + seed) % len(SIZES)]
    dims = {d: n for d, n in {"g": 2, "h": 3, "m": m, "j": j}.items() if re.search(rf"[\[,]{d}\b", source)}
    padded = all(x in ("packed", "blocked") for x in re.findall(r"@(\w+)|\] =", source)) and source.count("@") > 1
    fixed = "mj" if padded else ("", "j", "mj", "m")[seed % 4]
    kernel = scalec.compile(source, target=target, dims={d: n for d, n in dims.items() if d in fixed})
    kernel.fixed = emulated.EmulatedDevice(target)
    launched(kernel, kernel.fixed, source, dims, seed)


def launched(kernel: Kernel, device: Any, source: str, dims: dict[str, int], seed: int) -> None:
    """Twice between guards, over two bytes: all scales are right, and nothing else is written but what pads a word."""
    values = arguments(source, dims, seed)
    with context.context(), np.errstate(all="ignore"):
        expected = reference.run(build(source), values, dims=dims)
    for fill in FILLS:
        given, outs = between_guards(device, kernel.spec, values, dims, fill)
        kernel(*given, **{x.spec.name: x for x in outs})
        device.synchronize(0)
        assert not any(x.changed() for x in given)
        for out in outs:
            assert not out.changed(dims)
            there = written(out.spec, out, dims, out.bytes.size - 512)
            got = np.frombuffer(out.contents(dims), np.uint8)
            want = expected[out.spec.name]
            if out.spec.layout in ("col", "packed"):
                want = want.swapaxes(-1, -2)
            flat = np.ascontiguousarray(want).view(np.uint8).reshape(-1)
            flat = flat[there[: flat.size]] if out.spec.layout == "blocked" else flat
            if out.spec.dtype == "f32":  # of which one NaN is as good as another
                assert np.array_equal(got.view(np.float32), flat.view(np.float32), equal_nan=True), (source, dims)
            else:
                assert np.array_equal(got, flat), (source, dims, kernel.spec.dims)


@pytest.mark.parametrize("to", ["ue8m0", "ue4m3", "f32"])
def test_numbers(to: str) -> None:
    """Nothing is rounded: what a type has not is NaN. Of one type all bits are kept."""
    x = np.array([SPECIAL], np.float32)
    bits = np.arange(256, dtype=np.uint8).reshape(1, -1)
    with context.context(), np.errstate(all="ignore"):
        program = build(f"R[m,j]:{to} = S[m,j]:f32")
        got = reference.run(program, {"S": x})["R"]
        if to == "f32":
            assert np.array_equal(got, x, equal_nan=True)
            return
        assert got.view(np.uint8)[0].tolist() == [code(float(v), to) for v in x[0]]
        kept = reference.run(build(f"R[m,j]:{to}@blocked = S[m,j]:{to}"), {"S": bits})["R"]
    assert np.array_equal(reference.from_blocked(kept, 1, 256).view(np.uint8), bits)


REFUSED = {
    "R[m,j]:ue8m0@blocked = 2*S[m,j]:f32": "R copies scales, which are not computed",
    "R[m,j]:ue8m0@blocked = S[m,j]:f32 for m < len[0] else 0": "R copies scales, and is filled outside a range (else)",
    "R[m/128,j]:ue8m0@blocked = S[m/128,j]:f32 for m in off[g]:off[g+1]": "of which a range may begin within one",
    "R[m/128,j]:ue8m0@blocked = S[m/64,j]:f32": "S has other indices",
    "R[m,j]:ue8m0@blocked = S[m,idx[j]]:f32": "scales are copied from or to a last index from memory",
    "R[m/32,j]:f32@col = S[m/32,j]:f32; T[m/64,j]:f32@col = S[m/64,j]:f32": "S would have two granularities",
    "R[g,m,j]:f32@col = S[g,m,j]:f32 for m in lo[g]:hi[g] apart": "the range does not tell where each begins",
    "R[m,j]:ue8m0 += S[m,j]:f32": "R copies scales, which are not computed",
    "R[m,j] = S[m,j]:ue8m0@packed": "R is bf16, and scales are copied",
    "R[m,j]:e4m3@blocked = S[m,j]": "e4m3 is no type of scales",
    "R[m,j]:f32@packed = S[m,j]:f32": "packed scales are four ue8m0 in an i32",
    "R[m,j]:f32@blocked = S[m,j]:f32": "blocked scales are tiles of 8-bit scales",
    "R[m,j] = S[m,j]:f32@col + x[m]": "S has a layout, and is no scales that a statement copies",
    "R[m]:ue8m0@blocked = S[m]:f32": "R has one index, and layout blocked",
    "R[m,j]:ue8m0@packed = S[j,m]:ue8m0@packed": "four scales of different indices in a word",
    "R[m,j]:ue8m0 = S[m,j/2]:ue8m0": "got: S[m,j/2]",
    "R[m,j]:ue8m0 = S[m,j]:ue8m0@packed; Y[m,j] = S[m,j] * x[m]": "is read as no scales are",
    "R[m,j]:f32 = S[m,j]:f32@col; T[m,j]:f32 = S[m,j]:f32@row": "S would have two layouts",
    "C[m,n] = A[m,k]:ue8m0 @ B[n,k]": "ue8m0 is a type of scales only",
}


@pytest.mark.parametrize("source", REFUSED)
def test_refusals(source: str) -> None:
    with context.context(), pytest.raises(SourceError) as found:
        build(source)
    assert REFUSED[source] in str(found.value)


@pytest.mark.parametrize(
    "source",
    [
        "R[m,j]:ue8m0@blocked = S[m,j]:f32; Y[m,j] = relu(X[m,j])",
        "R[m,j]:ue8m0@blocked = S[m,j]:f32; T[j,m]:ue8m0@packed = U[j,m]:f32",
    ],
)
def test_programs_of_more(source: str) -> None:
    with pytest.raises(UnsupportedError, match="scales that are copied, beside results that are computed, or read in"):
        scalec.compile(source, target="sm_90a")


def test_a_layout_is_no_operand() -> None:
    """`@packed[n,k]` is a product."""
    with context.context():
        assert "scale.contract" in str(build("C[m,n] = A[m,k]:bf16@packed[n,k]"))


def test_an_extent_that_nothing_tells() -> None:
    """Words and tiles are padded."""
    source, dims = "R[m,j]:ue8m0@packed = S[m,j]:ue8m0@blocked", {"m": 5, "j": 6}
    kernel = scalec.compile(source, target="sm_90a")
    device = kernel.fixed = emulated.EmulatedDevice("sm_90a")
    given, _ = between_guards(device, kernel.spec, arguments(source, dims, 1), dims, 0)
    with pytest.raises(ArgumentError, match="no argument tells the size of m"):
        kernel(*given)


@pytest.mark.parametrize("layout", ["ue8m0@packed", "f32@col"])
def test_results_that_a_call_makes(layout: str) -> None:
    """Their columns begin at multiples of 16 bytes, as DeepGEMM's do."""
    kernel = scalec.compile(f"R[m,j]:{layout} = S[m,j]:f32", target="sm_90a")
    device = kernel.fixed = emulated.EmulatedDevice("sm_90a")
    x = np.exp2(np.arange(130 * 8) % 17 - 8.0).astype(np.float32).reshape(130, 8)
    made = kernel(DeviceArray.from_host(device, x, "f32"))
    assert (made.shape, made.strides) == ((130, 2) if "packed" in layout else (130, 8), (1, 132))
    each = reference.from_packed(made.numpy(), 8) if "packed" in layout else made.numpy()
    assert np.array_equal(each.astype(np.float32), x)


@pytest.mark.thorough
def test_turned_scales_need_no_copy() -> None:
    """Who has them the other way round is told how to write so, and that way is right."""
    dims, scales = {"m": 64, "j": 8}, np.exp2(np.arange(512).reshape(8, 64) % 7).astype(np.float32)
    kernel = scalec.compile(FORMS["f32 to words"], "sm_90a", dims)
    with pytest.raises(ArgumentError) as caught:
        kernel(scales.T)
    assert caught.value.fix.endswith("or write S[j,m] and pass S.T")
    turned = scalec.compile(FORMS["f32 turned to words"], "sm_90a", dims)
    assert np.array_equal(np.asarray(turned(scales)), np.asarray(kernel(scales.T.copy())))
