"""Products of i8: sums are whole numbers, rounded to f32 once, whatever the schedule; compared bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.errors import ArgumentError, ScheduleError, UnsupportedError
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from scalec.runtime.dispatch import Program
from tests.emulator.running import TARGETS, launched, refusals
from tests.emulator.test_several_results import run

PLAIN = "C[m,n]:f32 = A[m,k]:i8 @ B[n,k]:i8"
LONG = 1200
"""Of products of nearly 2^14: their sums have more bits than f32."""


def whole(m: int, n: int, k: int, seed: int = 5) -> dict[str, np.ndarray]:
    """Operands whose sums are beyond 2^24 where K is LONG, some as far as i32 has them, and odd."""
    draw = np.random.default_rng(seed)
    a, b = (draw.integers(90, 128, (rows, k)).astype(np.int8) for rows in (m, n))
    a[::3], b[1::4] = draw.integers(-128, 128, a[::3].shape), draw.integers(-128, 128, b[1::4].shape)
    a[1::5] = -128
    return {"A": a, "B": b}


def sums(values: dict[str, np.ndarray]) -> np.ndarray:
    """As i32 has them, rounded to nearest f32."""
    return (values["A"].astype(np.int64) @ values["B"].astype(np.int64).T).astype(np.float32)


EVERY, HOPPER = tuple(TARGETS), ("sm_90a",)
CASES = {
    "": (9, 24, LONG, "nk", EVERY),
    "tails": (70, 132, LONG, "nk", EVERY),
    "no rows": (0, 5, 16, "", EVERY),
    "one": (1, 1, 16, "", EVERY),
    "no K": (33, 7, 0, "", EVERY),
    "odd": (3, 21, 48, "", EVERY),
    "split=3": (33, 40, LONG, "nk", EVERY),
    "parts=cluster, split=2": (9, 16, LONG, "nk", HOPPER),
    "parts=columns, split=4": (65, 64, LONG, "nk", HOPPER),
    "split=20": (17, 24, 2560, "nk", EVERY),
    "swap=1": (21, 160, LONG, "nk", EVERY),
    "split=2, swap=1": (5, 160, LONG, "nk", EVERY),
}


@pytest.mark.once(touches=lambda case: {case[1]} | ({case[0]} & {"no K", "parts=cluster, split=2"}))
@pytest.mark.parametrize("case", [(name, target) for name, (*_, targets) in CASES.items() for target in targets])
def test_sums(case: tuple[str, str]) -> None:
    (name, target), (m, n, k, fixed, _) = case, CASES[case[0]]
    dims, fields = {"m": m, "n": n, "k": k}, f" with {name}" if "=" in name else ""
    kernel = scalec.compile(PLAIN + fields, target, {d: dims[d] for d in fixed})
    assert all(x in kernel.spec.schedule for x in fields.removeprefix(" with ").split(", "))
    kernel.fixed = emulated.EmulatedDevice(target)
    values = whole(m, n, k)
    with context.context():
        expected = reference.run(build(PLAIN, dims), values, dims=dims, exact=True)
    got = launched(kernel, values, expected, dims, 3)["C"]
    assert np.array_equal(got, sums(values))


def test_longer_sums_at_a_call() -> None:
    kernel = scalec.compile(PLAIN, "sm_90a")
    assert kernel.spec.ranges == {"k": (1, 131071)}
    kernel.fixed = emulated.EmulatedDevice("sm_90a")
    a, b = (np.zeros((rows, 200000), np.int8) for rows in (1, 2))
    message = (
        r"A has k = 200000, and i32 is sure to hold the sum of 131071 products of i8\n  got: A of shape \[1, 200000\]\n"
        r"  expected: .* with k from 1 to 131071\n  fix: multiply parts of the sum, the second with \+="
    )
    open_n, fixed_n = (scalec.compile(PLAIN, "sm_90a", dims) for dims in ({}, {"n": 3}))
    for call in (kernel, Program("C", [open_n, fixed_n])):
        with pytest.raises(ArgumentError, match=message):
            call(a, b)


def test_longest_sums() -> None:
    assert not scalec.compile(PLAIN, "sm_90a", {"k": 131071 // 16 * 16}).spec.ranges
    two = "C[m,n]:f32 = A[b,m,k]:i8 @ B[b,n,k]:i8"
    assert scalec.compile(two, "sm_90a", {"b": 9}).spec.ranges == {"k": (1, 131071 // 9)}


@pytest.mark.parametrize(
    ("more", "dims", "ranges"),
    [
        ("D[m,k]:i8 @ E[n,k]:i8", {}, {"k": 131071 // 2}),
        ("D[b,m,k]:i8 @ E[b,n,k]:i8", {"b": 4}, {"k": 131071 // 5}),
        ("D[b,m,r]:i8 @ E[b,n,r]:i8", {"b": 100000}, {"k": 1 + 31070 // 2, "r": 1}),
    ],
)
def test_several_sums_share(more: str, dims: dict[str, int], ranges: dict[str, int]) -> None:
    """All together they are no longer than i32 has them, also along one dimension, or many times along one."""
    found = scalec.compile(f"{PLAIN} + {more}", "sm_90a", dims).spec.ranges
    assert found == {name: (1, most) for name, most in ranges.items()}


@pytest.mark.parametrize("right", ["B[n,k]", "B[k,n]"])
def test_no_instruction(right: str) -> None:
    with pytest.raises(UnsupportedError, match="sm_103a has no tensor-core instruction for i8"):
        scalec.compile(f"C[m,n] = A[m,k]:i8 @ {right}:i8", "sm_103a")


OTHERS = {  # what is around a product: another order of operands, groups, scales along K, several products, results
    "rows last": ("C[m,n] = A[k,m]:i8 @ B[k,n]:i8 scale(kx1, kx1)", {"m": 48, "n": 32, "k": 160}, "mnk"),
    "groups": (
        "C[m,n] = A[idx[m],k]:i8 @ B[g,n,k]:i8 scale(1xk, 1x1xk) for m in off[g]:off[g+1]",
        {"m": 90, "n": 72, "k": 64, "g": 3, "A_0": 50},
        "nk",
    ),
    "batches": (
        "C[b,m,n]:f16 = gelu(A[b,m,k]:i8 @ B[b,n,k]:i8 scale(tensor, 1x1xk))",
        {"b": 2, "m": 9, "n": 40, "k": 64},
        "nk",
    ),
    "scattered": ("C[idx[m],n] = A[m,k]:i8 @ B[n,k]:i8 scale(1xk, 1xk)", {"m": 30, "n": 72, "k": 64, "C_0": 41}, "nk"),
    "scales along K": (
        "C[m,n]:f32 += A[m,k]:i8 @ B[n,k]:i8 scale(1x128, 128x128)",
        {"m": 70, "n": 200, "k": 320},
        "nk",
    ),
    "gated": (
        "G[m,n] = X[m,k]:i8 @ V[n,k]:i8 scale(1xk, 1xk); H[m,n]:mxfp8 = silu(G) * (X[m,k] @ W[n,k]:i8 scale(1xk, 1xk))",
        {"m": 60, "n": 128, "k": 64},
        "nk",
    ),
    "added": (
        "C[m,n]:f32 = A[m,k]:i8 @ B[n,k]:i8 + D[m,r]:i8 @ E[n,r]:i8 with split=2",
        {"m": 9, "n": 40, "k": 320, "r": 32},
        "nkr",
    ),
    "added, computed": (
        "C[m,n]:f32 = relu(A[m,k]:i8 @ B[n,k]:i8) + D[m,r]:i8 @ E[n,r]:i8",
        {"m": 9, "n": 40, "k": 64, "r": 32},
        "nkr",
    ),
    "reduced": (
        "T[m,n] = A[m,k]:i8 @ B[n,k]:i8 scale(1xk, 1xk); C[m,n]:i8 scale(1xn) = T; R[m]:f32 = max[n](abs(T))",
        {"m": 40, "n": 128, "k": 64},
        "nk",
    ),
    "a fold": (
        "L[q,t]:f32 = sum[h](relu(Q[q,h,d]:i8 @ K[t,d]:i8 scale(1x1xd, 1xd)) * W[q,h]:i8)",
        {"q": 5, "t": 150, "h": 32, "d": 128},
        "hd",
    ),
}


@pytest.mark.once("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str, target: str) -> None:
    source, dims, fixed = OTHERS[name]
    run(source, target, dims, fixed)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_rounded_on_the_way(target: str) -> None:
    with pytest.raises(ScheduleError, match=r"promote = 128 .*\n  expected: 0 \(sums stay in the tensor core\)\n"):
        scalec.compile(f"{PLAIN} with promote=128", target, {"k": 512})


test_refused = refusals(
    [
        (
            "C[m,n] = A[m,k]:i8 @ B[n,k]:i8 scale(tensor, 1xk)",
            "sums 131088 products of i8, and i32 is sure to hold 131071",
        ),
        ("C[m,n] = A[b,m,k]:i8 @ B[b,n,k]:i8", "sums 131088 products"),
    ],
    dims={"k": 131088},
)
