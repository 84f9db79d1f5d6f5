"""Zero points as checkpoints store them: less one, and in the order of a word; on all paths that read zero points."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec.reference.packing import numpy_dtype, pack4
from scalec.runtime.emulated import EmulatedDevice
from scalec.zero_points import SHIFTED, Order
from tests.emulator.running import TARGETS, refusals, run_on
from tests.emulator.test_several_results import run
from tests.tiers import SEEDS

AWQ = "n/8*8 + n%2*4 + n%8/2"

PROGRAMS = {
    "less one": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - (Z[n,k/128]:u4 + 1)) scale(none, 1x128:f16)",
    "GPTQ": "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:u4 - (Z[k/128,n]:u4 + 1)) scale(none, 1x128:f16@col)",
    "AWQ": f"C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:u4 - Z[k/128, {AWQ}]:u4) scale(none, 1x128:f16@col)",
    "e4m3, GPTQ": "C[m,n]:f32 += A[m,k]:e4m3 @ (B[n,k]:u4 - (1 + Z[k/128,n]:u4)) scale(1x128, 1x128:f16)",
    "e4m3, AWQ": f"C[m,n]:f32 = A[m,k]:e4m3 @ (B[n,k]:u4 - Z[k/128, {AWQ}]) scale(1x128, 1x128:f16)",
    "tf32": f"C[m,n]:f32 = A[m,k]:tf32 @ (B[n,k]:u4 - (Z[{AWQ}, k/32]:i8 + 3)) scale(none, 1x32:f16)",
    "left": f"C[m,n]:f32 = (A[m,k]:u4 - (Z[k/64, {AWQ.replace('n', 'm')}] - 8)) @ B[n,k]:bf16 scale(1x64:bf16, none)",
    "words along k": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:i4 - (Z[n, k/256*8 + k/32%2*4 + k/32%8/2] + 1))",
    "reversed, of blocks": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[n/40*10 + 9 - n/4%10, k/64]:i4)",
    "periodic": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - (Z[k/48%2, n%24]:i4 - 5)) scale(none, 1x64)",
    "beyond the number": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - (Z[n,k/64]:i8 + 100)) scale(none, 1x64:f16)",
    "far": "C[m,n]:f32 = A[m,k]:f16 @ (B[n,k]:i4 - (Z[n*3, k/64]:i8 + 127))",
    "far the other way": "C[m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - (Z[k/16*5]:i8 - 100))",
}

SIZES: list[tuple[dict[str, int], tuple[str, ...]]] = [
    ({"m": 80, "n": 144, "k": 416}, ("n", "k")),
    ({"m": 1, "n": 270, "k": 160}, ("m", "n", "k")),
    ({"m": 300, "n": 15, "k": 1056}, ()),
    ({"m": 1, "n": 1, "k": 32}, ()),
    ({"m": 3, "n": 9, "k": 0}, ()),
]
"""Sizes, and which of them the kernel knows: tails of tiles, and of words."""


@pytest.mark.once("target", "name", "size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(target: str, name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    run_on(PROGRAMS[name], dims, fixed, 3, 1e-5, target=target)


@pytest.mark.once("name", "size")
@pytest.mark.parametrize("size", range(len(SIZES)))
@pytest.mark.parametrize("name", [x for x in PROGRAMS if x not in ("tf32", "far the other way")])
def test_in_registers(name: str, size: int) -> None:
    dims, fixed = SIZES[size]
    run_on(f"{PROGRAMS[name]} with convert=registers, swap={int(name != 'left')}", dims, fixed, 3, 1e-5)


MORE: list[tuple[str, dict[str, int]]] = [
    (f"C[m,b,n]:f32 = A[b,m,k]:bf16 @ (B[b,n,k]:u4 - (Z[b%2,k/128,{AWQ}] + 1)) scale(none, 1x128)", {"b": 3}),
    (f"C[b,m,n]:f32 = A[b,m,k]:bf16 @ (B[n,k]:u4 - Z[k/128,{AWQ}])", {"b": 3}),
    (f"C[m,b,n]:f32 = A[m,k]:bf16 @ (B[b,n,k]:u4 - Z[k/128,{AWQ}])", {"b": 2}),
    (f"C[m,n]:f32 = A[m,b,k]:bf16 @ (B[n,b,k]:u4 - (Z[b,k/32,{AWQ}] - 1)) scale(none, 1x1x64:f16)", {"b": 2}),
    (
        f"C[m,n]:f32 = A[m,k]:e4m3 @ (B[e[m/16],n,k]:u4 - Z[e[m/16],k/128,{AWQ}]) scale(1x128, 1x128:f16)",
        {"B_0": 3},
    ),
    ("C[m,n]:f32 = A[m,k]:bf16 @ (B[e[m/16],n,k]:u4 - (Z[e[m/16]/2,k/64,n] + 1))", {"B_0": 5}),
    (
        f"C[m,n]:f32 = A[m,k]:bf16 @ (B[g,n,k]:u4 - (Z[g,k/64,{AWQ}] + 1)) scale(none,1x64) for m in off[g]:off[g+1]",
        {"g": 3},
    ),
    (f"C[g,m,n]:f32 = A[m,k]:bf16 @ (B[n,k]:u4 - Z[k/64,{AWQ}]) for k in off[g]:off[g+1]", {"g": 3}),
    (f"C[m,n]:f32 = A[idx[m],k]:bf16 @ (B[n,k]:u4 - (Z[k/128,{AWQ}] + 1)) scale(none, 1x128)", {"A_0": 50}),
    (f"C[m,n]:f32 = A[m,k] @ quantize(B[n,k]:u4 - (Z[k/64,{AWQ}] + 1), e4m3, 1x128) scale(1x128, 1x64:f16)", {}),
]
"""With what else programs have."""


@pytest.mark.once("target", "program")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("program", "sizes"), MORE)
def test_more(program: str, sizes: dict[str, int], target: str) -> None:
    dims = {"m": 80, "n": 140, "k": 288, **sizes}
    run_on(program, dims, tuple(d for d in "nk" if d not in sizes), 3, 1e-5, target=target)


def test_dimensions_of_which_one_has_an_order_are_not_walked_as_one() -> None:
    """Batch and rows of a permuted B lie as one in memory, and zero points begin anew with each batch."""
    kernel = scalec.compile("C[m,b,n]:f32 = A[m,k]:bf16 @ (B[n,b,k]:u4 - Z[n%24]:i8)", target="sm_90a", dims={"k": 128})
    kernel.fixed = EmulatedDevice("sm_90a")
    rng = np.random.default_rng(0)
    a, z = rng.integers(-2, 3, (5, 128)).astype(ml_dtypes.bfloat16), rng.integers(0, 16, 24).astype(np.int8)
    b = rng.integers(0, 16, (3, 20, 128)).astype(ml_dtypes.uint4)
    got = np.asarray(kernel(a, pack4(b).transpose(1, 0, 2), z))
    wanted = np.einsum("mk,bnk->mbn", a.astype(np.float64), b.astype(np.float64) - z[None, :20, None])
    assert (got == wanted).all()


IN_REGISTERS = [x for x in MORE if not any(some in x[0] for some in ("for k in", "quantize"))]


@pytest.mark.once("program")
@pytest.mark.parametrize(("program", "sizes"), IN_REGISTERS)
def test_more_in_registers(program: str, sizes: dict[str, int]) -> None:
    dims = {"m": 24, "n": 140, "k": 288, **sizes}
    run_on(f"{program} with convert=registers, swap=1", dims, ("n", "k"), 3, 1e-5)


SCHEDULES = [
    ("sm_90a", "GPTQ", "tile=64x64x64, swap=1, convert=shared, converters=1"),
    ("sm_90a", "AWQ", "tile=192x40x64, converters=2, stages=3"),
    ("sm_90a", "AWQ", "tile=128x32x64, cluster=2x1, split=2, parts=cluster, convert=shared"),
    ("sm_90a", "e4m3, AWQ", "tile=128x24x128, converters=2"),
    ("sm_90a", "periodic", "tile=64x24x64, stages=2"),
    ("sm_100a", "AWQ", "tile=128x32x64, cluster=4x1, stages=4, scheduler=dynamic"),
    ("sm_100a", "e4m3, GPTQ", "tile=128x64x128, cluster=1x1, split=2"),
    ("sm_120a", "left", "swap=1"),
    ("sm_120a", "e4m3, AWQ", "tile=128x32x128, split=2"),
]


@pytest.mark.once("target", touches=lambda schedule, **_: re.findall(r"\w+(?==)", schedule))
@pytest.mark.parametrize(("target", "name", "schedule"), SCHEDULES)
def test_schedule(target: str, name: str, schedule: str) -> None:
    dims = {"m": 80, "n": 140, "k": 416}
    run_on(f"{PROGRAMS[name]} with {schedule}", dims, ("n", "k"), 3, 1e-5, target=target, times=2)


def gate(v: str, w: str, scale: str = "") -> str:
    """Two contractions of the same rows, with zero points of their own."""
    return f"H[m,n]:f32 = silu(X[m,k]:f16 @ (V[n,k]:u4 - {v}){scale}) * (X[m,k]:f16 @ (W[n,k]:u4 - {w}){scale})"


GATES = {
    "GPTQ": gate("(Z[k/64,n] + 1)", "(Y[k/64,n] + 1)", " scale(none, 1x64:f16@col)"),
    "AWQ": gate(f"Z[k/128,{AWQ}]", f"Y[k/128,{AWQ}]", " scale(none, 1x128:f16@col)"),
    "halves of one, less one": "G[m,n] = X[m,k]:bf16 @ (W[n,k]:u4 - (Z[n,k/64] + 1)); U[m,n] = X[m,k]:bf16 @ "
    "(W[n+size(n),k]:u4 - (Z[n+size(n),k/64] + 1)); H[m,n]:f32 = silu(G) * U",
    "halves of one, words along k": "G[m,n] = X[m,k]:bf16 @ (W[n,k]:u4 - Z[n,k/128*2 + 1 - k/64%2]); "
    "U[m,n] = X[m,k]:bf16 @ (W[n+size(n),k]:u4 - Z[n+size(n),k/128*2 + 1 - k/64%2]); H[m,n]:f32 = silu(G) * U",
}
GATE_SIZES = [(9, 72, 128), (70, 136, 192), (1, 40, 256), (0, 64, 128), (33, 0, 128), (1, 1, 128)]


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("target", TARGETS)
def test_gates(target: str, name: str, seed: int) -> None:
    m, n, k = GATE_SIZES[seed % len(GATE_SIZES)]
    run(GATES[name], target, {"m": m, "n": n, "k": k}, ("nk", "mnk", "k")[seed % 3], seed)


@pytest.mark.once
@pytest.mark.parametrize("seed", SEEDS)
def test_random_orders(seed: int) -> None:
    """Any sum of what / and % make of a row and of K, by any tile, where warps convert and where consumers do."""
    rng = np.random.default_rng(200 + seed)
    made, stored, zeros = (str(rng.choice(x)) for x in (("bf16", "f16", "e4m3"), SHIFTED, ("u4", "i4")))
    zeros = stored if made == "e4m3" else zeros
    plus = int(rng.integers(0, 2)) if made == "e4m3" else int(rng.integers(-20, 21))
    index = rng.permutation([order(rng, "n", 1), order(rng, "k", 16)])
    program = f"C[m,n]:f32 = A[m,k]:{made} @ (B[n,k]:{stored} - (Z[{', '.join(index)}]:{zeros} + {plus}))"
    program = program.replace("+ -", "- ")
    convert = str(rng.choice(["shared", "registers"]))
    depth = 128 if made == "e4m3" else 64
    tile = f"{64 * rng.integers(1, 5)}x{8 * rng.integers(1, 9)}x{depth}"
    left = "none" if made != "e4m3" else "1x128"
    tail = f" scale({left}, 1x64:f16) with swap=1, convert={convert}, tile={tile}"
    dims = {"m": int(rng.integers(1, 70)), "n": int(rng.integers(1, 300)), "k": 8 * int(rng.integers(1, 90))}
    run_on(program + tail, dims, ("k", *(d for d in "mn" if rng.integers(2))), seed, 1e-5)


def order(rng: Any, dim: str, least: int) -> str:
    """One to three terms of an index, which stays the same over `least` of the dimension."""
    terms = []
    for _ in range(rng.integers(1, 4)):
        block = least * int(rng.choice([1, 2, 3, 4, 8]))
        term = f"{dim}/{block}" if block > 1 else dim
        term += f"%{rng.integers(2, 13)}" if rng.integers(3) else ""
        terms.append(f"{term}*{rng.integers(1, 6)}")
    return " + ".join([*terms, str(rng.integers(0, 4))])


@pytest.mark.parametrize("seed", SEEDS)
def test_an_order_steps_by_what_its_places_differ(seed: int) -> None:
    rng = np.random.default_rng(seed)
    draw = rng.integers((1, 1, 0), (5, 5, 5), (rng.integers(1, 4), 3)).tolist()
    made = Order(tuple((c, d, m) for c, d, m in draw), int(rng.integers(0, 3)))
    assert Order.of(made.flat) == made

    def at(x: int) -> int:
        return made.constant + sum(c * (x // d % m if m else x // d) for c, d, m in made.terms)

    for blocks in range(1, 40):
        apart = {at(x + blocks) - at(x) for x in range(480)}
        step = made.step(blocks)
        assert step is None or apart == {step}
        assert step is not None or len(apart) > 1 or len(draw) > 1


@pytest.mark.once("convert", "made")
@pytest.mark.parametrize(("made", "plus"), [("bf16", 1), ("f16", 100), ("e4m3", 1), ("tf32", -7)])
@pytest.mark.parametrize("convert", ["shared", "registers"])
def test_every_element_less_every_zero_point(made: str, plus: int, convert: str) -> None:
    """Row z of the weights has zero point z plus a number."""
    if made == "tf32" and convert == "registers":
        pytest.skip("4 bits become tf32 in shared memory alone")
    codes = np.arange(256, dtype=np.uint8)
    elements = np.stack([codes & 15, codes >> 4], axis=-1).reshape(1, 512).view(numpy_dtype("u4"))
    points = np.arange(16, dtype=np.uint8).reshape(-1, 1).view(numpy_dtype("u4"))
    said = f"Z[n]:u4 {'+' if plus > 0 else '-'} {abs(plus)}"
    kernel = scalec.compile(
        f"C[m,n]:f32 = A[m,k]:{made} @ (B[n,k]:u4 - ({said})) with swap=1, convert={convert}", target="sm_90a"
    )
    kernel.fixed = EmulatedDevice("sm_90a")
    got = np.asarray(
        kernel(np.eye(512).astype(numpy_dtype(made)), pack4(np.repeat(elements, 16, axis=0)), pack4(points[:, 0]))
    )
    assert (got == elements.astype(np.int32).T - (points.astype(np.int32).T + plus)).all()


test_refused = refusals(
    [
        ("C[m,n] = A[m,k]:bf16 @ (B[n,k]:u4 - Z[k/8*8 + k%8,n])", "one zero point for each 1 elements of k"),
        ("C[m,n] = A[m,k]:bf16 @ (B[n,k]:u4 - Z[k/128,(n%8 + 3)/2])", r"is read at \(n%8 \+ 3\)/2"),
        ("C[b,m,n] = A[b,m,k]:bf16 @ (B[b,n,k]:u4 - Z[b/2*2 + 1 - b%2,n])", "has another order along b"),
        (GATES["GPTQ"].replace("(Y[k/64,n] + 1)", "Y[k/64,n]"), "V and W .* differ in their zero points"),
        (GATES["AWQ"].replace(f"Y[k/128,{AWQ}]", "Y[k/128,n]"), "V and W .* differ in their zero points"),
        (
            "G[m,n] = X[m,k]:f16 @ (W[n,k]:u4 - Z[n%8]:i8); U[m,n] = X[m,k]:f16 @ (W[n+64,k]:u4 - Z[(n+64)%8]); "
            "H[m,n] = G * U",
            "Z in another order along that index",
        ),
    ]
)
