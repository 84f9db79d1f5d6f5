"""Results that are rounded by chance: the reference's, bit for bit, on every target; and what chance is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scalec
from scalec.errors import SourceError
from scalec.reference.quantize import GRIDS, cast_by_chance, round_to
from scalec.reference.stochastic import philox4x32, random_bits
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from tests.emulator.pointwise import TARGETS, Values, bit_equal, bits_of_0_and_1, fault_is_found, ran, spoiled
from tests.emulator.running import refusals

KNOWN = [  # counter, key, words: Random123's known-answer vectors
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]) -> None:
    assert philox4x32(np.array(counter), key).tolist() == list(words)


@pytest.mark.parametrize("target", TARGETS)
def test_known_answers_of_kernels(target: str) -> None:
    """Counter 0 with key 0 is that of the first four elements: 1 + f/2^23 is rounded up to bf16 where f and the upper
    16 bits are 2^16 or more."""
    kernel: Kernel = scalec.compile("Q[m,k] = stochastic(X[m,k]:f32, seed[0])", target)
    kernel.fixed = emulated.EmulatedDevice(target)
    kernel.load(kernel.fixed)
    zeros, upper = np.zeros(1, np.int32), np.array(KNOWN[0][2]) >> 16
    for up in (0, 1):
        x = (1 + (2**16 - upper - 1 + up) / 2**23).astype(np.float32)[None]
        assert (np.asarray(kernel(x, zeros), np.float32) == 1 + up / 128).all()


FORMATS = [  # a result of X, its sizes, those that are known
    ("mxfp8", {"m": 9, "k": 100}, ""),
    ("mxfp8", {"m": 9, "k": 96}, "k"),
    ("mxfp8", {"m": 3, "k": 99}, "k"),
    ("mxfp8_e5m2", {"m": 6, "k": 256}, "mk"),
    ("mxfp4", {"m": 6, "k": 160}, "k"),
    ("mxfp4", {"m": 6, "k": 161}, ""),
    ("nvfp4", {"m": 6, "k": 96}, "k"),
    ("nvfp4", {"m": 6, "k": 101}, "k"),
    ("fp8_block", {"m": 6, "k": 200}, ""),
    ("e4m3 scale(1x24)", {"m": 6, "k": 75}, "k"),  # three columns a thread
    ("e4m3 scale(32x32:ue8m0@blocked)", {"m": 70, "k": 80}, ""),
    ("e4m3 scale(1xk)", {"m": 10, "k": 251}, "k"),
    ("e5m2 scale(1xk)", {"m": 3, "k": 2500}, ""),  # walked
    ("bf16", {"m": 9, "k": 101}, ""),
    ("bf16", {"m": 9, "k": 96}, "k"),
    ("f16", {"m": 9, "k": 102}, "k"),
    ("e4m3", {"m": 9, "k": 96}, "k"),
    ("e5m2", {"m": 9, "k": 101}, ""),
    ("e2m1", {"m": 9, "k": 98}, "k"),
]


@pytest.mark.once("result", "target")
@pytest.mark.parametrize("element", ["bf16", "f32"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("result", "dims", "fixed"), FORMATS)
def test_formats(result: str, dims: dict[str, int], fixed: str, target: str, element: str) -> None:
    bit_equal(f"Q[m,k]:{result} = stochastic(X[m,k]:{element}, seed[0], seed[1])", dims, fixed, target, change=spoiled)


MK, BMK = {"m": 5, "k": 96}, {"b": 2, "m": 5, "k": 96}
SEVERAL = [
    (
        "Q[m,k]:mxfp8 = stochastic(X[m,k], r[0]); P[m,k]:mxfp8 = stochastic(X[m,k], r[1]); O[m,k]:mxfp8 = X[m,k]",
        MK,
        "k",
    ),
    ("Q[m,k]:mxfp8 = stochastic(X[m,k], r[0], r[1], r[2], r[3]); T[k,m]:mxfp8 = stochastic(X[m,k], r[3])", MK, "k"),
    ("T[k,m]:e4m3 scale(1x16) = stochastic(X[m,k], r[1])", {"m": 21, "k": 67}, ""),
    ("T[b,k,m]:mxfp4 = stochastic(X[b,m,k], r[1])", {"b": 2, "m": 6, "k": 96}, "k"),
    ("Q[b,c,m,k]:mxfp8 = stochastic(X[b,c,m,k], r[1,1])", {"b": 2, "c": 3, "m": 5, "k": 99}, ""),
    ("Q[k]:e4m3 = stochastic(X[k], r[0])", {"k": 99}, ""),
    ("R[m]:e4m3 = stochastic(max[k](X[m,k]), r[0]); Q[m,k] = stochastic(X[m,k]:f32, r[0])", MK, "k"),
    ("Q[m,k] = stochastic(X[m,k]:f32 * x[k/4]:f32, r[0])", MK, "k"),  # one column a thread
    ("Q[idx[m],k]:mxfp8 = stochastic(X[m,k], r[0])", MK | {"Q_0": 9}, "k"),
    ("Q[b,idx[b,m],k]:e4m3 = stochastic(X[b,m,k], r[0])", BMK | {"Q_1": 9}, ""),
    ("Q[b,m,k]:mxfp8 = stochastic(X[b,m,k], r[0]) for m < n[b]", BMK, "k"),
]


@pytest.mark.once("source", "target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "dims", "fixed"), SEVERAL)
def test_several_results_and_indices(source: str, dims: dict[str, int], fixed: str, target: str) -> None:
    bit_equal(source, dims, fixed, target, change=spoiled if "x[k/4]" not in source else lambda _: None)


test_sizes_of_0_and_1 = bits_of_0_and_1(
    "Q[m,k]:{} = stochastic(X[m,k], seed[0])", ["mxfp8", "nvfp4", "bf16", "e4m3 scale(1xk)"]
)


def edges(element: str) -> Any:
    """Numbers of a type, and what lies between them: subnormal ones, and beyond the largest."""
    mantissa, least = GRIDS[element]
    unit = np.ldexp(1.0, max(least - mantissa, -149))
    steps = [0, 0.3, 1, 1.5, 2, 2**mantissa - 0.25, 2**mantissa, 2**mantissa + 0.5, 2.0 ** (mantissa + 1) - 0.5]
    most = float(round_to(np.finfo(np.float32).max, element)) if element != "bf16" else 3.3895313892515355e38
    most = 65504.0 if element == "f16" else most
    x = [unit * s for s in steps] + [most * f for f in (0.99, 1.0, 1.001, 1.4)] + [np.inf, np.nan, 1e-30, 1e-45]
    with np.errstate(over="ignore"):
        return np.array([*x, *(-y for y in x)]).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ["bf16", "f16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_edges(element: str, target: str) -> None:
    """Rows are draws of the same numbers."""
    x = edges(element)

    def change(values: Values) -> None:
        values["X"][...] = x

    source, dims = f"Q[m,k]:{element} = stochastic(X[m,k]:f32, seed[0])", {"m": 24, "k": len(x)}
    bit_equal(source, dims, "k", target, change=change)
    made, _, _, _ = ran(source, dims, "k", target, change=change)
    found = np.asarray(made["Q"], np.float32)
    exact = round_to(x, element) == x
    assert exact.sum() >= 10
    assert (found[:, exact] == x[exact]).all(), "what the type has is rounded"
    assert (np.signbit(found) == np.signbit(x))[:, ~np.isnan(x)].all(), "a sign is lost"
    assert (found != found[:1])[:, ~exact & ~np.isnan(x)].any(), "nothing depends on an element's place"


@pytest.mark.parametrize("element", ["bf16", "f16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_the_mean_of_many_draws_is_the_value(element: str) -> None:
    """Each is one of two numbers, so that of n draws the mean is off by spacing / 2 / sqrt(n) in deviations at most."""
    mantissa, least = GRIDS[element]
    rng, count = np.random.default_rng(1), 4096
    low = max(least, -100) - 2
    x = (rng.uniform(-1, 1, 64) * 2.0 ** rng.integers(low, low + 5, 64)).astype(np.float32)
    bits = random_bits((count, 64), (7, 1, 2, 3))
    made = cast_by_chance(np.broadcast_to(x, bits.shape), element, bits).astype(np.float64)
    spacing = np.exp2(np.maximum(np.floor(np.log2(np.abs(x))), least) - mantissa)
    assert np.abs(made - x).max(axis=0).max() <= spacing.max()
    off = (made.mean(axis=0) - x) / (spacing / 2 / np.sqrt(count))
    assert np.abs(off).max() < 4.5
    assert 0.5 < np.sqrt(np.mean(off**2)) < 1.1  # chance, and not something more even
    to_nearest = np.abs(round_to(x, element) - x) / (spacing / 2 / np.sqrt(count))
    assert to_nearest.max() > 30


def test_seeds_and_places_have_bits_of_their_own() -> None:
    words = {s: random_bits((8, 12), s) for s in [(0,), (1,), (0, 1), (0, 0, 1), (0, 0, 0, 1)]}
    every = np.concatenate([x.ravel() for x in words.values()])
    assert len(np.unique(every)) == every.size
    assert (random_bits((8, 9), (1,)) == random_bits((8, 12), (1,))[:, :9]).all()  # a row begins with a counter
    assert (random_bits((2, 4, 12), (1,)).reshape(8, 12) == words[1,]).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"(shr\.u32[^;]*,) 10;", r"\g<1> 11;"),  # less of the random bits
        (r"-1640531527|2654435769", "2654435768"),  # the key's step
        (r"2139095040|2143289344", "4294967295"),  # a NaN's bits run over
    ],
)
def test_faults_are_found(old: str, new: str) -> None:
    fault_is_found("Q[m,k]:e2m1 = stochastic(X[m,k]:f32, seed[0])", {"m": 60, "k": 256}, "k", old, new, change=spoiled)


test_wrong_programs = refusals(
    [
        ("Q[m,k]:f32 = stochastic(X[m,k], s[0])", "nothing is rounded by chance to f32"),
        ("Q[m,k]:i8 = stochastic(X[m,k], s[0])", "nothing is rounded by chance to i8"),
        ("Q[m,k]:e4m3 = 2 * stochastic(X[m,k], s[0])", "stands within an expression"),
        ("Q[m,k]:e4m3 = stochastic(stochastic(X[m,k], s[0]), s[0])", "stands within an expression"),
        ("Q[m,k]:e4m3 = stochastic(X[m,k])", "1 to 4 numbers of a tensor"),
        ("Q[m,k]:e4m3 = stochastic(X[m,k], s[0], s[1], s[2], s[3], s[4])", "1 to 4 numbers of a tensor"),
        ("Q[m,k]:e4m3 = stochastic(X[m,k], seed)", "an element of an i32 tensor"),
        ("Q[m,k]:e4m3 = stochastic(X[m,k], 3)", "an element of an i32 tensor"),
        ("Q[m,k]:e4m3 = stochastic(X[m,k], s[m])", "differs from point to point"),
        ("Q[m,k]:e4m3 = stochastic(X[m,k], s[e[0]])", "differs from point to point"),
        ("Q[m,k]:e4m3 = stochastic(X[m,k], s[0]:bf16)", "s is an index and a tensor of bf16"),
        ("T[m,k] = stochastic(X[m,k], s[0]); Q[m,k] = T", "a temporary never reaches memory"),
        ("Q[m,k]:bf16 += stochastic(X[m,k], s[0])", "rounded by chance and accumulated into"),
        ("Q[m,2*k]:e4m3 = stochastic(X[m,k], s[0])", "rounded by chance and its indices are computed"),
        ("stochastic[m,k]:e4m3 = X[m,k]", "stochastic is two things"),
    ],
    SourceError,
)
