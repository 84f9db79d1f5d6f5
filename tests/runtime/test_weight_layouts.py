"""GPTQ's and AWQ's packed weights, beside a plain dequantisation: of numpy and torch, and in a program."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.errors import ArgumentError
from scalec.frontend import build
from scalec.ir.context import context
from scalec.layouts import awq_weights, gptq_weights
from scalec.runtime.emulated import EmulatedDevice

K, N, GROUP = 256, 24, 64
PROGRAM = "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:u4 - Z[k/64,n]:u4) scale(none, 1x64:f16@col)"
AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)  # of a word, from the lowest bits on


def drawn() -> tuple[Any, Any, Any]:
    """Weights [K, N], zero points [K/g, N] of 1 to 15, scales [K/g, N] in f16."""
    rng = np.random.default_rng(5)
    scales = np.exp2(rng.integers(-3, 3, (K // GROUP, N))).astype(np.float16)
    return rng.integers(0, 16, (K, N)), rng.integers(1, 16, (K // GROUP, N)), scales


def words(numbers: Any, axis: int, order: tuple[int, ...] = tuple(range(8))) -> Any:
    """Eight numbers along an axis in an int32, one at a time."""
    moved = np.moveaxis(numbers, axis, -1)
    out = np.zeros((*moved.shape[:-1], moved.shape[-1] // 8), np.uint32)
    for word in range(out.shape[-1]):
        for i, column in enumerate(order):
            out[..., word] |= moved[..., 8 * word + column].astype(np.uint32) << np.uint32(4 * i)
    return np.moveaxis(out, -1, axis).view(np.int32)


def gptq(less_one: bool) -> tuple[Any, Any, Any]:
    weights, zeros, scales = drawn()
    return words(weights, 0), words(zeros - int(less_one), 1), scales


def awq() -> tuple[Any, Any, Any]:
    weights, zeros, scales = drawn()
    return words(weights, 1, AWQ_COLUMNS), words(zeros, 1, AWQ_COLUMNS), scales


def expected(a: Any) -> Any:
    weights, zeros, scales = drawn()
    group = np.arange(K) // GROUP
    return a.astype(np.float64) @ ((weights - zeros[group]) * scales[group].astype(np.float64))


STORED = {
    "gptq": (lambda: gptq(True), "(Z[k/64,n]:u4 + 1)"),
    "gptq_v2": (lambda: gptq(False), "Z[k/64,n]:u4"),
    "awq": (awq, "Z[k/64, n/8*8 + n%2*4 + n%8/2]:u4"),
}
"""Checkpoints, and the zero points that their words are."""

CHECKPOINTS = {
    "gptq": lambda f: gptq_weights(*map(f, gptq(True))),
    "gptq_v2": lambda f: gptq_weights(*map(f, gptq(False)), less_one=False, g_idx=f(np.arange(K) // GROUP)),
    "awq": lambda f: awq_weights(*map(f, awq())),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_program_takes_a_checkpoint(name: str) -> None:
    kernel = scalec.compile(PROGRAM, target="sm_90a")
    kernel.fixed = EmulatedDevice("sm_90a")
    a = np.random.default_rng(6).integers(-2, 3, (5, K)).astype(np.float16)
    b, z, scale = CHECKPOINTS[name](np.ascontiguousarray)
    assert (b.shape, z.shape, scale.shape) == ((N, K // 2), (K // GROUP, N // 2), (N, K // GROUP))
    assert (np.asarray(kernel(a, b, z, scale)) == expected(a)).all()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_torch_has_the_same_bytes(name: str) -> None:
    torch = pytest.importorskip("torch")
    for x, y in zip(CHECKPOINTS[name](torch.from_numpy), CHECKPOINTS[name](np.ascontiguousarray), strict=True):
        assert (x.numpy() == y).all()
        assert x.numpy().dtype == y.dtype


@pytest.mark.parametrize("convert", ["shared", "registers"])
@pytest.mark.parametrize("name", STORED)
def test_a_program_takes_zero_points_as_they_are_stored(name: str, convert: str) -> None:
    """The int32 words of a torch tensor as bytes, which are a view; also some columns of a larger tensor."""
    torch = pytest.importorskip("torch")
    made, zeros = STORED[name]
    text = PROGRAM.replace("Z[k/64,n]:u4", zeros) + f" with swap=1, convert={convert}"
    kernel = scalec.compile(text, target="sm_90a")
    kernel.fixed = EmulatedDevice("sm_90a")
    a = np.random.default_rng(6).integers(-2, 3, (5, K)).astype(np.float16)
    b, _, scale = CHECKPOINTS[name](torch.from_numpy)
    words = torch.from_numpy(made()[1])
    stored = words.view(torch.uint8)
    assert stored.data_ptr() == words.data_ptr()
    assert stored.shape == (K // GROUP, N // 2)
    wider = torch.nn.functional.pad(words, (2, 3), value=-1)[:, 2:-3].view(torch.uint8)
    for z in (stored, wider):
        assert (np.asarray(kernel(torch.from_numpy(a), b, z, scale)) == expected(a)).all()


def as_numpy(words: Any) -> Any:
    return words


def as_bytes(words: Any) -> Any:
    return words.view(np.uint8).reshape(*words.shape, 4)


def as_torch(words: Any) -> Any:
    return pytest.importorskip("torch").from_numpy(words)


def of_wider(words: Any) -> Any:
    torch = pytest.importorskip("torch")
    return torch.nn.functional.pad(torch.from_numpy(words), (4, 12), value=-1)[:, 4:-12]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("passed", [as_numpy, as_bytes, as_torch, of_wider])
def test_a_program_takes_weights_as_they_are_stored(passed: Any, target: str) -> None:
    """GPTQ's qweight itself, some columns of a larger one, or its bytes."""
    text = PROGRAM.replace("B[n,k]", "B[k/8,n,k%8]").replace("Z[k/64,n]:u4", "(Z[k/64,n]:u4 + 1)")
    kernel = scalec.compile(text, target=target)
    kernel.fixed = EmulatedDevice(target)
    weights, zeros, scales = map(np.ascontiguousarray, gptq(True))
    a = np.random.default_rng(6).integers(-2, 3, (5, K)).astype(np.float16)
    found = kernel(a, passed(weights), zeros.view(np.uint8), scales.T)
    assert (np.asarray(found) == expected(a)).all()
    with context(), np.errstate(all="ignore"):
        module = build(text)
        (made,) = reference.run(module, [a, weights, zeros.view(np.uint8), scales.T]).values()
    assert (made == expected(a)).all()


AT = "n/8*8 + n%2*4 + n%8/2"


def of_wider_words(words: Any) -> Any:
    torch = pytest.importorskip("torch")
    return torch.nn.functional.pad(torch.from_numpy(words), (4, 4), value=-1)[:, 4:-4]


def as_rows_of_bytes(words: Any) -> Any:
    return words.view(np.uint8)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("passed", [as_numpy, as_rows_of_bytes, as_torch, of_wider_words])
def test_a_program_takes_awq_as_it_is_stored(passed: Any, target: str) -> None:
    """AWQ's qweight and qzeros themselves, some columns of larger ones, or their bytes; scales as they are."""
    text = f"C[m,n]:f32 = A[m,k]:f16 @ (B[k, {AT}]:u4 - Z[k/64, {AT}]) scale(none, 64x1:f16)"
    kernel = scalec.compile(text, target=target)
    kernel.fixed = EmulatedDevice(target)
    numbers, points, factors = (np.concatenate([x, x[:, ::-1]], 1)[:, : N + 8] for x in drawn())
    weights, zeros = (words(x, 1, AWQ_COLUMNS) for x in (numbers, points))
    a = np.random.default_rng(6).integers(-2, 3, (5, K)).astype(np.float16)
    group = np.arange(K) // GROUP
    wanted = a.astype(np.float64) @ ((numbers - points[group]) * factors[group].astype(np.float64))
    assert (np.asarray(kernel(a, passed(weights), passed(zeros), np.ascontiguousarray(factors))) == wanted).all()
    with context(), np.errstate(all="ignore"):
        (made,) = reference.run(build(text), [a, weights, zeros, factors]).values()
    assert (made == wanted).all()


REFUSED_WORDS = [
    (lambda w: w.T, "words that are 128 bytes apart along index 1"),
    (lambda w: w[:, :-2].copy(), "a multiple of 16"),
    (lambda w: w[:-1], "extent 31 along index 0"),
    (lambda w: w.astype(np.float32), "words of int32"),
    (lambda w: w.view(np.uint8), "3 dimensions|has 2 dimensions"),
    (lambda w: w.view(np.uint8).reshape(*w.shape, 4)[..., :3], "extent 3 along index 2"),
]


@pytest.mark.parametrize("number", range(len(REFUSED_WORDS)))
def test_words_that_kernels_cannot_read_are_refused(number: int) -> None:
    wrong, message = REFUSED_WORDS[number]
    kernel = scalec.compile("C[m,n] = A[m,k]:f16 @ B[k/8,n,k%8]:u4", target="sm_90a")
    kernel.fixed = EmulatedDevice("sm_90a")
    weights = np.zeros((32, 32) if number == 0 else (K // 8, N), np.int32)
    with pytest.raises(ArgumentError) as refusal:
        kernel(np.zeros((5, K), np.float16), wrong(weights))
    assert re.search(message, str(refusal.value)), str(refusal.value)


def test_what_does_not_fit_is_refused() -> None:
    weights, zeros, scales = gptq(True)
    with pytest.raises(ArgumentError, match="a matrix of int32"):
        gptq_weights(weights.astype(np.int64), zeros, scales)
    with pytest.raises(ArgumentError, match="with K = 256 and N = 24"):
        gptq_weights(weights, zeros, scales[:2])
    with pytest.raises(ArgumentError, match="with K = 32 and N = 192"):
        awq_weights(weights, zeros, scales)
    with pytest.raises(ArgumentError, match="not adjacent"):
        gptq_weights(weights, zeros, scales, g_idx=np.arange(K)[::-1] // GROUP)
    with pytest.raises(ArgumentError, match="is 16"):
        gptq_weights(weights, np.full_like(zeros, -1), scales)
