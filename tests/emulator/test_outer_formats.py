"""Batches and several M or N indices in every operand format and with every kind of result, judged as the fuzzer does:
against bounds of each element, NaN between rows and around results, two runs bit-equal.

Sizes, what the compiler knows of them, and views whose outer indices lie apart or in another order follow from a seed.
"""

from __future__ import annotations

import re
from random import Random

import pytest

from tests.fuzz.case import SUMS, Case, Operand, Tree
from tests.fuzz.draw import multiple, steps_of
from tests.fuzz.running import check
from tests.tiers import SEEDS, fields

HOPPER, DATACENTER, CONSUMER = "sm_90a", "sm_100a", "sm_120a"
ALL, BLACKWELL = (HOPPER, DATACENTER, CONSUMER), (DATACENTER, CONSUMER)

ARRANGED: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "batch outermost": (("b", "m", "n"), ("b", "m", "k"), ("b", "n", "k")),
    "batch within": (("m", "b", "n"), ("m", "b", "k"), ("b", "n", "k")),
    "rows": (("b", "m", "n"), ("b", "m", "k"), ("n", "k")),
    "columns": (("m", "b", "n"), ("m", "k"), ("b", "n", "k")),
    "result turned": (("n", "m"), ("m", "k"), ("n", "k")),
    "several": (("b", "m", "h", "n"), ("m", "b", "k"), ("b", "h", "n", "k")),
    "rows beside batches": (("h", "b", "m", "n"), ("b", "h", "m", "k"), ("b", "n", "k")),
}
"""Indices of the result and of the operands."""

OPERANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "1x128, 128x128": (ALL, "C[m,n] = A[m,k] @ B[n,k] scale(1x128, 128x128)"),
    "1x128@col": (ALL, "C[m,n]:f32 = A[m,k] @ B[n,k] scale(1x128@col, 1x128@col)"),
    "1xk": (ALL, "C[m,n] = A[m,k] @ B[n,k] scale(1xk, tensor)"),
    "e5m2, one side": (ALL, "C[m,n]:f16 = A[m,k] @ B[n,k]:e5m2 scale(1x128, none)"),
    "bf16": (ALL, "C[m,n] = A[m,k] @ B[n,k]"),
    "f16": (ALL, "C[m,n]:f32 = A[m,k]:f16 @ B[n,k]:f16"),
    "tf32": (ALL, "C[m,n]:f32 = A[m,k]:tf32 @ B[n,k]:tf32"),
    "mxfp8": (ALL, "C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8"),
    "mxfp8 packed, blocked": (
        ALL, "C[m,n] = A[m,k] @ B[n,k] scale(1x32:ue8m0@packed, 1x32:ue8m0@blocked)"),
    "mxfp6": (BLACKWELL, "C[m,n]:f32 = A[m,k]:mxfp6 @ B[n,k]:mxfp6"),
    "mxfp4": (ALL, "C[m,n] = A[m,k]:mxfp4 @ B[n,k]:mxfp4"),
    "nvfp4": (ALL, "C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4"),
    "nvfp4 blocked": (
        ALL,
        "C[m,n] = A[m,k]:e2m1 @ B[n,k]:e2m1 scale(1x16:ue4m3@blocked*tensor, 1x16:ue4m3@blocked*tensor)"),
    "e4m3 by e2m1": (ALL, "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e2m1 scale(1x128:ue8m0, 1x32:ue8m0)"),
    "bf16 by M and N": (ALL, "C[m,n] = A[k,m] @ B[k,n]"),
    "e4m3 by M and N": (ALL, "C[m,n] = A[k,m]:e4m3 @ B[k,n]:e4m3"),
    "bf16 by nvfp4": (ALL, "C[m,n] = A[m,k]:bf16 @ B[n,k]:nvfp4"),
    "mxfp4 by bf16": (ALL, "C[m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:bf16"),
    "mxfp4 by nvfp4": (ALL, "C[m,n]:f32 = A[m,k]:mxfp4 @ B[n,k]:nvfp4"),
    "e4m3 by nvfp4": (ALL, "C[m,n] = A[m,k]:e4m3 @ B[n,k]:nvfp4 scale(1x128)"),
    "bf16 by e4m3": (ALL, "C[m,n] = A[m,k]:bf16 @ B[n,k]:e4m3 scale(none, 128x128)"),
    "bf16 by i4": (ALL, "C[m,n] = A[m,k]:bf16 @ B[n,k]:i4 scale(none, 1x64:bf16)"),
    "i4 by e4m3": (ALL, "C[m,n]:f32 = A[m,k]:i4 @ B[n,k]:e4m3 scale(1x128, 128x128:f16)"),
    "bf16 by e4m3 by N": (ALL, "C[m,n]:f32 = A[m,k]:bf16 @ B[k,n]:e4m3"),
    "e2m1 by N": ((CONSUMER,), "C[m,n]:f32 = A[m,k]:e2m1 @ B[k,n]:e2m1"),
}  # fmt: skip
"""Targets, and the program without further indices."""

RESULTS: dict[str, str] = {
    "mxfp8": "C[m,n]:mxfp8 = A[m,k] @ B[n,k] scale(1x128, 128x128)",
    "nvfp4 result": "C[m,n]:nvfp4 = A[m,k] @ B[n,k]",
    "fp8_block": "C[m,n]:fp8_block = A[m,k] @ B[n,k] scale(1x128, 1x128)",
    "blocked": "C[m,n]:e4m3 scale(1x32:ue8m0@blocked) = A[m,k] @ B[n,k]",
    "packed": "C[m,n]:e4m3 scale(1x32:ue8m0@packed) = A[m,k] @ B[n,k]",
    "col": "C[m,n]:e5m2 scale(1x64@col) = A[m,k] @ B[n,k]",
    "e2m1": "C[m,n]:e2m1 = A[m,k] @ B[n,k]",
    "f32 +=": "C[m,n]:f32 += A[m,k] @ B[n,k] scale(1x128, 1x128)",
    "bf16 +=": "C[m,n] += A[m,k] @ B[n,k]",
}

FP8, FP4 = (OPERANDS[name][1] for name in ("1x128, 128x128", "nvfp4"))
ADDS = "C[m,n]:f32 += A[m,k] @ B[n,k]"

SCHEDULES: list[tuple[str, str, str]] = [
    *((target, FP8, schedule) for target in ALL for schedule in (
        "swap=1", "split=2", "split=3, swap=1", "scale_path=thread", "stages=2", "epilogue=direct", "order=m, band=1",
        "unroll=1", "invariant=1")),
    *((HOPPER, FP8, schedule) for schedule in (
        "split=2, parts=cluster", "split=2, parts=memory", "consumers=pingpong, tile=64x64x128",
        "consumers=pingpong, swap=1, tile=64x16x128, epilogue=turned", "cluster=2x1, tile=64x32x128",
        "cluster=1x2, tile=64x32x128", "early_wait=0", "staged=1, tile=128x64x128")),
    *((target, ADDS, f"adds={adds}, tile=64x64x64") for target in ALL[::2] for adds in ("loaded", "memory")),
    *((DATACENTER, text, schedule) for text in (FP8, FP4) for schedule in (
        "cta_group=2", "scheduler=dynamic", "cluster=2x1", "cluster=1x2", "scheduler=dynamic, cluster=2x1",
        "scheduler=dynamic, cta_group=2, swap=1")),
    (DATACENTER, FP4, "scale_copier=1"),
    *((CONSUMER, FP4, schedule) for schedule in ("scale_path=thread", "warps=2x2", "swap=1, split=2")),
]  # fmt: skip

USUAL = {"mxfp8 packed, blocked", "nvfp4", "e4m3 by e2m1", "e4m3 by M and N", "nvfp4 result", "blocked", "f32 +="}
FIELDS = {"consumers", "parts", "cta_group", "scheduler", "adds"}
"""What a usual run has once, beside what test_outer.py has."""

X, Y, Z, R = (Operand(*x) for x in (("x", ("b",)), ("y", ("b/2", "n"), "f32"), ("z", ("0", "m")), ("r", ("m", "b"))))
W = Operand("w", ("m", "b", "n"), "f16")
VALUES: dict[str, tuple[Tree, tuple[Operand, ...]]] = {
    "a number of a batch": (("*", SUMS, ("in", "x")), (X,)),
    "columns of two batches": (("+", SUMS, ("in", "y")), (Y,)),
    "rows and a number": (("*", ("+", SUMS, ("in", "z")), ("scalar", "alpha")), (Z,)),
    "all of them": (
        ("max", ("*", ("gelu", ("+", SUMS, ("in", "r"))), ("in", "x")), ("+", ("in", "w"), ("in", "y"))), (R, X, W, Y)),
}  # fmt: skip


def put(case: Case, arrangement: str) -> Case:
    """The case with the indices of an arrangement; operands keep their last one, blocks of scales 1 along new ones."""
    index, *operands = ARRANGED[arrangement]

    def at(x: Operand, index: tuple[str, ...]) -> Operand:
        turned = x.index[-1] not in ("k", "n") or (x.name == "B" and x.index[-1] == "n")
        if turned:  # contiguous along M or N
            index = (*(i for i in index if i != x.index[-1]), x.index[-1])
        levels = []
        for level in x.levels:
            blocks = dict(zip(x.index, level.block, strict=False))
            block = level.block if level.block == ("tensor",) else tuple(blocks.get(i, "1") for i in index)
            levels.append(type(level)(block, level.type, level.layout))
        return Operand(x.name, index, x.type, tuple(levels))

    lhs, rhs = (at(x, i) for x, i in zip(case.operands, operands, strict=True))
    result = case.result
    levels = tuple(type(x)(("1",) * (len(index) - 2) + x.block, x.type, x.layout) for x in result.levels)
    return case.but(operands=(lhs, rhs), result=Operand("C", index, result.type, levels))


def sized(case: Case, seed: int, blocks: int = 1) -> Case:
    """With sizes of two launches, of which the compiler knows some, `blocks` of K or a few more; with views. Where a
    schedule is given, it knows K and the result's rows, whole vectors, which that may need."""
    random = Random(seed)
    steps = steps_of(case)
    last = case.result.index[-1]
    names = [*dict.fromkeys(i for x in (*case.operands, case.result) for i in x.index)]

    def size(name: str) -> int:
        if name in ("b", "h"):
            return random.choice((1, 2, 3))
        if name == "k":
            return multiple(128 * (blocks - 1) + random.choice((8, 56, 128, 160, 200)), steps["k"])
        whole = 16 if name == last and case.schedule else 1
        return multiple(random.choice((3, 9, 33, 64, 70, 72)), max(steps[name], whole))

    first = {name: size(name) for name in names}
    known = tuple(n for n in names if random.random() < 0.6 or (n in (last, "k") and case.schedule))
    second = {n: first[n] if n in known else random.choice((size(n), 0)) if n in ("b", "h") else size(n) for n in names}
    views = tuple(random.choice((0, random.randrange(1, 99))) for _ in range(12))
    pads = tuple(random.choice((0, 0, 1)) for _ in range(12))
    exact = seed % 2 == 0
    return case.but(launches=(first, second), known=known, views=views, pads=pads, exact=exact, seed=seed)


def need_right(case: Case) -> None:
    """It runs, and is right; or is refused as layouts of scales are of the last two indices, and a tile has others: b
    or h is second to last."""
    found = check(case)
    if found.kind == "refused":
        tensors = (*case.operands, case.result)
        assert any(level.layout != "row" and x.index[-2] in ("b", "h") for x in tensors for level in x.levels)
        assert re.search("second to last|the last two indices of", found.message)
        return
    ran = found.case or case
    assert found.kind == "ok", f"{ran.text()} {ran.schedule} {ran.launches} {found.kind}: {found.message}"
    assert ran.schedule == case.schedule, found.refusals


def arrangement(name: str, seed: int) -> str:
    """Another one for each seed, and for each name with the same."""
    return list(ARRANGED)[(seed + sum(map(ord, name))) % len(ARRANGED)]


@pytest.mark.once("target", touches=lambda name, **_: {name} & USUAL)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "target"), [(n, t) for n, (targets, _) in OPERANDS.items() for t in targets])
def test_operands(name: str, target: str, seed: int) -> None:
    need_right(sized(put(Case.of(target, OPERANDS[name][1]), arrangement(name, seed)), seed))


@pytest.mark.once("target", touches=lambda name, **_: {name} & USUAL)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str, target: str, seed: int) -> None:
    need_right(sized(put(Case.of(target, RESULTS[name]), arrangement(name, seed)), seed))


@pytest.mark.once("target")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("name", VALUES)
def test_elementwise(name: str, target: str, seed: int) -> None:
    value, inputs = VALUES[name]
    case = put(Case.of(target, FP8), list(ARRANGED)[seed % 4])
    need_right(sized(case.but(value=value, inputs={x.name: x for x in inputs}), seed))


@pytest.mark.once("target", touches=lambda schedule, **_: set(fields(schedule)) & FIELDS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("target", "text", "schedule"), SCHEDULES)
def test_schedules(target: str, text: str, schedule: str, seed: int) -> None:
    drawn = dict(field.split("=") for field in schedule.split(", "))
    case = put(Case.of(target, text), arrangement(schedule, seed))
    need_right(sized(case.but(schedule=drawn), seed, blocks=3))
