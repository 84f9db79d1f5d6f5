"""Groups in every operand format and with every kind of result: an index for each block of rows, so many rows of each
group, ranges of rows. Judged as the fuzzer does: against bounds of each element; results are NaN before, points that
nobody writes keep their bytes, as do those between and around rows; rows of no group and groups without rows are NaN;
two runs are bit-equal.

Sizes, what the compiler knows of them, what tensors of indices hold and how tensors lie in memory follow from a seed.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest

import scalec
from scalec import reference
from scalec.formats import ELEMENT_TYPES
from scalec.frontend import build
from scalec.ir import context
from scalec.runtime import emulated
from scalec.runtime.kernel import Kernel
from scalec.runtime.stored import itemsize, stored_shape
from tests.emulator.running import run_on
from tests.emulator.test_outer_formats import ALL, CONSUMER, DATACENTER, FP4, FP8, HOPPER, OPERANDS, RESULTS
from tests.fuzz.case import SUMS, Case, Operand, Tree
from tests.fuzz.draw import multiple, steps_of
from tests.fuzz.groups import ROUTINGS, grouped
from tests.fuzz.running import check, placed
from tests.tiers import SEEDS, fields

FORMS: dict[str, tuple[str, int]] = {
    "blocks of 128": ("blocks", 128),
    "ragged": ("ragged", 0),
    "blocks of 32": ("blocks", 32),
    "masked": ("masked", 0),
    "blocks of 24": ("blocks", 24),
    "blocks of 8": ("blocks", 8),
}
"""Kinds of groups, and rows of a block."""

KINDS = ("blocks", "masked", "ragged")

ADDS = RESULTS["f32 +="]

SCHEDULES: list[tuple[str, str, str]] = [
    *((target, FP8, schedule) for target in ALL for schedule in (
        "swap=0", "swap=1", "order=m, band=1", "order=n, band=2", "scale_path=thread", "stages=2",
        "epilogue=direct", "epilogue=bulk, swap=0", "unroll=1", "invariant=1")),
    *((HOPPER, FP8, schedule) for schedule in (
        "cluster=2x1, tile=64x32x128", "cluster=1x2, tile=64x32x128", "warpgroups=1, tile=64x64x128",
        "tile=128x64x128, staged=1", "swap=1, epilogue=turned", "swap=1, tile=64x8x128", "mma_n=16, tile=64x32x128")),
    *((target, "C[m,n] = A[m,k] @ B[n,k]", "epilogue=bulk, swap=0, tile=128x32x64") for target in ALL),
    *((DATACENTER, text, schedule) for text in (FP8, FP4) for schedule in (
        "cta_group=2", "cluster=2x1", "cluster=1x2", "cta_group=2, swap=1", "warpgroups=2, swap=0")),
    (DATACENTER, FP4, "scale_copier=1"),
    (DATACENTER, FP4, "scale_copier=0"),
    *((CONSUMER, FP4, schedule) for schedule in ("scale_path=thread", "warps=2x2", "swap=1")),
]  # fmt: skip

USUAL_OPERANDS = {"mxfp8 packed, blocked", "nvfp4", "1x128@col", "bf16 by M and N"}
USUAL_RESULTS = {"nvfp4 result", "blocked", "f32 +="}

X, R, W = Operand("x", ("n",)), Operand("r", ("m",), "f32"), Operand("w", ("m", "n"), "f16")
VALUES: dict[str, tuple[Tree, tuple[Operand, ...]]] = {
    "columns": (("+", SUMS, ("in", "x")), (X,)),
    "rows": (("*", ("gelu", SUMS), ("in", "r")), (R,)),
    "both": (("max", ("*", ("+", SUMS, ("in", "r")), ("in", "w")), ("in", "x")), (X, R, W)),
}


def turn(name: str, seed: int, of: Any) -> Any:
    """Another one for each seed, and for each name with the same."""
    return list(of)[(seed + sum(map(ord, name))) % len(of)]


def made(case: Case, form: str, name: str, seed: int, blocks: int = 1) -> Case:
    """The case in one of FORMS; sizes of two launches, of which the compiler knows some, `blocks` of K or a few more.
    Where a schedule is given, it knows K and the result's rows, whole vectors, which that may need."""
    random = Random(f"{name} {seed}")
    kind, block = FORMS[form]
    routing = turn(name, 5 * seed, ROUTINGS)
    tiled = any(level.layout != "row" for x in (*case.operands, case.result) for level in x.levels)
    case = grouped(case, kind, "m", block, routing, at=0 if tiled else random.choice((0, 0, 1)))
    assert case.groups is not None
    steps, group = steps_of(case), case.groups.name
    last = case.result.index[-1]

    def size(d: str) -> int:
        if d == group:
            return random.choice((1, 2, 3, 5) if kind == "masked" else (1, 2, 5, 34))
        if d == "k":
            return multiple(128 * (blocks - 1) + random.choice((8, 56, 128, 160, 200)), steps["k"])
        whole = 16 if d == last and case.schedule else 1
        sizes = (3, 9, 33, 64, 70, 72) if d == "n" or kind == "masked" else (1, 9, 64, 70, 130, 200)
        return multiple(random.choice(sizes), max(steps[d], whole))

    names = ["m", "n", "k", group]
    first = {d: size(d) for d in names}
    known = tuple(d for d in names if random.random() < 0.5 or (d in (last, "k") and case.schedule))
    second = {d: first[d] if d in known else random.choice((size(d), 0)) if d == "m" else size(d) for d in names}
    views = tuple(random.choice((0, random.randrange(1, 99))) for _ in range(12))
    pads = tuple(random.choice((0, 0, 1)) for _ in range(12))
    return case.but(launches=(first, second), known=known, views=views, pads=pads, exact=seed % 2 == 0, seed=seed)


def need_right(case: Case) -> None:
    """It runs, with the schedule given, and is right; or is refused as copies of rows that lie along K do not begin
    where groups do."""
    found = check(case)
    ran = found.case or case
    if found.kind == "refused" and case.operands[0].index[-1] == "m":
        assert case.groups is not None
        assert case.groups.kind == "ragged" or case.groups.block * ELEMENT_TYPES[case.operands[0].element].bits % 128
        assert "is contiguous along it" in found.message
        return
    assert found.kind == "ok", f"{ran.text()} {ran.schedule} {ran.launches} {ran.groups} {found.kind}: {found.message}"
    assert ran.schedule == case.schedule, found.refusals


@pytest.mark.once("target", touches=lambda name, **_: {name} & USUAL_OPERANDS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "target"), [(n, t) for n, (targets, _) in OPERANDS.items() for t in targets])
def test_operands(name: str, target: str, seed: int) -> None:
    need_right(made(Case.of(target, OPERANDS[name][1]), turn(name, seed, FORMS), name, seed))


@pytest.mark.once("target", touches=lambda name, **_: {name} & USUAL_RESULTS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str, target: str, seed: int) -> None:
    need_right(made(Case.of(target, RESULTS[name]), turn(name, seed, FORMS), name, seed))


@pytest.mark.once("target")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("name", VALUES)
def test_elementwise(name: str, target: str, seed: int) -> None:
    value, inputs = VALUES[name]
    case = Case.of(target, FP8).but(value=value, inputs={x.name: x for x in inputs})
    need_right(made(case, turn(name, seed, FORMS), name, seed))


BY_GROUP: dict[str, tuple[str, Tree, tuple[Operand, ...]]] = {
    "of rows": (
        FP8,
        ("+", ("*", SUMS, ("in", "s")), ("in", "b")),
        (Operand("s", ("g",), "f32"), Operand("b", ("g", "n"))),
    ),
    "of both": (FP4, ("max", ("in", "w"), SUMS), (Operand("w", ("m", "g", "n"), "f16"),)),
    "quantised": (RESULTS["mxfp8"], ("relu", ("+", SUMS, ("in", "b"))), (Operand("b", ("g", "n"), "f32"),)),
}
"""Programs, and what of a group they read beside the contraction."""


@pytest.mark.once("target")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("name", BY_GROUP)
def test_elementwise_by_group(name: str, target: str, seed: int) -> None:
    text, value, inputs = BY_GROUP[name]
    case = Case.of(target, text).but(value=value, inputs={x.name: x for x in inputs})
    need_right(made(case, ("ragged", "masked")[seed % 2], name, seed))


@pytest.mark.once("target", touches=lambda schedule, **_: {*fields(schedule)} & {"cta_group", "cluster", "epilogue"})
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("target", "text", "schedule"), SCHEDULES)
def test_schedules(target: str, text: str, schedule: str, seed: int) -> None:
    drawn = dict(field.split("=") for field in schedule.split(", "))
    need_right(made(Case.of(target, text).but(schedule=drawn), turn(schedule, seed, FORMS), schedule, seed, blocks=2))


SEVERAL = (
    Operand("D", ("m", "n"), "f32"), Operand("E", ("m", "n"), "mxfp8"),
)  # fmt: skip


@pytest.mark.once("target")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ALL)
def test_several_results(target: str, form: str) -> None:
    trees: tuple[Tree, ...] = (("relu", SUMS), SUMS)
    case = Case.of(target, FP8).but(further=tuple(zip(SEVERAL, trees, strict=True)))
    need_right(made(case, form, form, 1))


@pytest.mark.once
@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ALL)
def test_hundreds_of_groups(target: str, kind: str, routing: str) -> None:
    """More than lanes of a warp look at once, several times."""
    case = grouped(Case.of(target, "C[m,n] = A[m,k] @ B[n,k]"), kind, "m", 8, routing)
    assert case.groups is not None
    launches = tuple(
        {"m": 8 if kind == "masked" else m, "n": 16, "k": 8, case.groups.name: groups}
        for groups, m in ((300, 90), (33, 70), (31, 30), (0, 9))
        if groups or kind != "blocks"
    )
    need_right(case.but(launches=launches, exact=True, known=("n", "k"), sms=3))


ONES = ["C[m,n]:f32 = A[m,k]:e2m1 @ B[n,k]:e2m1", "C[m,n]:f32 = A[m,k]:mxfp8 @ B[n,k]:fp8_block"]


@pytest.mark.once("target")
@pytest.mark.parametrize("schedule", ["cta_group=1", "cta_group=2"])
@pytest.mark.parametrize("routing", ["none", "one"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("target", "text"), [(t, x) for t in ALL[1:] for x in ONES])
def test_ctas_without_work(target: str, text: str, kind: str, routing: str, schedule: str) -> None:
    """Some, or all: what a role does before its first tile, as writing scales of ones, must not need one."""
    case = grouped(Case.of(target, text), kind, "m", 128, routing)
    assert case.groups is not None
    sizes = {"m": 140, "n": 72, "k": 128, case.groups.name: 3}
    drawn = dict([schedule.split("=")]) if target == DATACENTER else {}
    need_right(case.but(launches=(sizes,), exact=True, known=("n", "k"), schedule=drawn))


@pytest.mark.once("target", "text")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("text", ["C[m,n] = A[m,k] @ B[n,k]", "C[n,m]:f32 = A[m,k] @ B[n,k] scale(1x128,128x128)"])
def test_groups_of_columns(text: str, target: str, form: str) -> None:
    """The left operand has the matrices, or a row of the result runs along the groups."""
    kind, block = FORMS[form]
    dim = "m" if text.startswith("C[n,m]") else "n"
    case = grouped(Case.of(target, text), kind, dim, block, at=1)
    assert case.groups is not None
    sizes = {"m": 70, "n": 90, "k": 160, case.groups.name: 4}
    need_right(case.but(launches=(sizes, {**sizes, "m": 9, "n": 200}), exact=True))


# ------------------------------------------------------------------------------------------- what a case does not say


class Device:
    """A program's kernel on an emulated device, and its tensors, which stay where they are from launch to launch."""

    def __init__(
        self, target: str, source: str, dims: dict[str, int], fixed: tuple[str, ...] = (), seed: int = 3, sms: int = 4
    ) -> None:
        self.dims = dims
        kernel = scalec.compile(source, target=target, dims={d: dims[d] for d in fixed})
        self.device = emulated.EmulatedDevice(target)
        self.device.checks = False  # what kernels make of wrong indices is what some tests are about
        self.device.sms, self.device.options = sms, replace(self.device.options, sms=sms)
        self.spec = kernel.spec
        self.kernel = Kernel(kernel.spec, b"", ptx=kernel.ptx, device=self.device)
        with context.context():
            self.module = build(source, dims)
            self.values = reference.make(self.module, dims, seed=seed, exact=True)

    def upload(self, **lies: dict[str, Any]) -> None:
        """Puts all tensors on the device; `lies` are further arguments of `laid_out`, by name."""
        self.given = {
            t.name: placed(self.device, t, reference.storage(self.values[t.name]), **lies.get(t.name, {}))
            for t in self.spec.operands
        }

    def set(self, name: str, values: Any) -> None:
        """Other indices, at the same place."""
        array = self.given[name]
        segment = self.device.memory.find(array.pointer)
        assert segment is not None
        raw = np.asarray(values, np.int32).tobytes()
        segment.data[: len(raw)] = np.frombuffer(raw, np.uint8)
        self.values[name] = np.asarray(values, np.int32)

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """The result of a launch, and which of its elements were written; nothing else may have been."""
        (r,) = self.spec.results
        out = placed(self.device, r, np.zeros(stored_shape(r, self.dims), f"u{itemsize(r.dtype)}"), unset=True)
        before = {name: a.numpy().tobytes() for name, a in self.given.items()}
        self.kernel(*self.given.values(), out=out)
        segment = self.device.memory.find(out.pointer)
        assert segment is not None
        each = segment.written[: out.numpy().nbytes].reshape(-1, out.itemsize)
        some = each[:, 0]
        assert (each == some[:, None]).all()
        assert before == {name: a.numpy().tobytes() for name, a in self.given.items()}
        return out.numpy().astype(np.float64), some.reshape(out.shape)

    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        """What the reference makes of it."""
        with context.context():
            results = reference.run(self.module, self.values, dims=self.dims)
        ((value,), (points,)) = results.values(), results.written.values()
        return value.astype(np.float64), points

    def need_right(self) -> None:
        (got, written), (expected, points) = self.run(), self.expected()
        assert (written == points).all()
        assert (got[points] == expected[points]).all()


RAGGED = "C[m,n]:f32 = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]"
MASKED = "C[g,m,n]:f32 = A[g,m,k] @ B[g,n,k] for m < rows[g]"
BLOCKS = "C[m,n]:f32 = A[m,k] @ B[e[m/16],n,k]"


@pytest.mark.once
@pytest.mark.parametrize("target", ALL)
def test_other_offsets_at_the_same_place(target: str) -> None:
    """As between two replays of a CUDA graph."""
    made = Device(target, RAGGED, {"m": 150, "n": 40, "k": 24, "g": 4}, ("n", "k"))
    made.upload()
    for offsets in ([0, 20, 20, 149, 150], [0, 0, 0, 0, 0], [0, 150, 150, 150, 150], [1, 2, 3, 4, 140]):
        made.set("off", offsets)
        made.need_right()


@pytest.mark.once("target", "offsets")
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize(
    "offsets", [[0, 100, 40, 150], [150, 0, 100, 20], [-9, 400, -1, 2**31 - 1], [7, 7, -(2**31), 9]]
)
def test_offsets_out_of_order_write_nothing_else(target: str, offsets: list[int]) -> None:
    """Ranges that meet write their rows twice, with one of both values."""
    made = Device(target, RAGGED, {"m": 150, "n": 40, "k": 24, "g": 3}, ("n", "k"))
    made.upload()
    made.set("off", offsets)
    made.device.options = replace(made.device.options, ignore=frozenset({"race", "in-flight", "proxy"}))
    with_groups = np.einsum("mk,gnk->gmn", *(made.values[x].astype(np.float64) for x in "AB"))
    got, written = made.run()
    ends = list(pairwise(offsets))
    inside = np.array([[low <= row < high for row in range(150)] for low, high in ends])
    assert np.array_equal(written, np.broadcast_to(inside.any(axis=0)[:, None], written.shape))
    right = np.equal(got, with_groups) & inside[:, :, None]
    assert np.array_equal(right.any(axis=0), written)


@pytest.mark.once
@pytest.mark.parametrize("target", ALL)
def test_counts_beyond_the_rows(target: str) -> None:
    made = Device(target, MASKED, {"m": 40, "n": 40, "k": 24, "g": 6}, ("n", "k"))
    made.upload()
    for rows in ([40, 41, 2**31 - 1, 0, -1, -(2**31)], [0] * 6, [1] * 6):
        made.set("rows", rows)
        made.need_right()


@pytest.mark.once
@pytest.mark.parametrize("target", ALL)
def test_an_index_beyond_the_extent_is_skipped(target: str) -> None:
    made = Device(target, BLOCKS, {"m": 75, "n": 40, "k": 24, "B_0": 3}, ("n", "k"))
    made.upload()
    skipped = Device(target, BLOCKS, {"m": 75, "n": 40, "k": 24, "B_0": 3}, ("n", "k"))
    skipped.upload()
    made.set("e", [2, 3, -1, 2**31 - 1, 0])
    skipped.set("e", [2, -1, -1, -1, 0])
    (got, written), (wanted, points) = made.run(), skipped.run()
    assert (written == points).all()
    assert (got[points] == wanted[points]).all()
    skipped.need_right()


@pytest.mark.once
@pytest.mark.parametrize("target", ALL)
def test_blocks_of_one_group_that_follow_each_other(target: str) -> None:
    """Tiles run over them: runs of one to all 43 blocks, of more than lanes look at at once, and of skipped ones."""
    made = Device(target, BLOCKS, {"m": 683, "n": 40, "k": 24, "B_0": 3}, ("n", "k"))
    made.upload()
    runs = [2] * 9 + [0] + [1] * 8 + [-1] * 7 + [1] * 2 + [0, 2, 0, 0] + [2] * 12
    for groups in ([1] * 43, [g % 3 for g in range(43)], [-1] * 43, runs):
        made.set("e", groups)
        made.need_right()


@pytest.mark.once(touches=lambda program, **_: program.split()[-1])
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize(
    "program",
    [
        "C[m,n]:f32 = A[m,k]:e4m3 @ B[e[m/8],n,k]:e4m3 scale(128x128,1x128x128) with swap=0",
        "C[m,n]:f32 = A[m,k]:e4m3 @ B[e[m/8],n,k]:e4m3 scale(128x128,1x128x128)",
        "C[m,n]:f32 = A[e[n/8],m,k]:e4m3 @ B[n,k]:e4m3 scale(1x1x128,128x128)",
    ],
)
def test_blocks_of_one_group_that_several_factors_are_for(program: str, target: str) -> None:
    """Tiles begin at multiples of 8, and no row of one has another factor than the first."""
    cut, beside, groups = ("n", "m", "A_0") if "e[n" in program else ("m", "n", "B_0")
    run_on(program, {cut: 268, beside: 129, "k": 256, groups: 3}, (cut, groups, "k"), 3, 1e-5, target=target)


@pytest.mark.thorough
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("order", ["order=n, band=1", "order=n, band=2", "order=m, band=4"])
def test_bands_of_a_groups_own_tiles(target: str, order: str) -> None:
    """Groups of one and of five blocks of 128 rows, by five of columns."""
    text = f"{RAGGED} with tile=128x32x64, swap=0, {order}"
    made = Device(target, text, {"m": 700, "n": 136, "k": 24, "g": 3}, ("n", "k"))
    made.upload()
    for offsets in ([0, 40, 660, 700], [0, 0, 700, 700]):
        made.set("off", offsets)
        made.need_right()


TWO = "C[b,m,n]:f32 = A[b,m,k] @ B[e[b,m/16],n,k]"


@pytest.mark.once
@pytest.mark.parametrize("target", ALL)
def test_indices_lie_apart(target: str) -> None:
    """A row of indices for each batch, within a larger tensor."""
    made = Device(target, TWO, {"b": 3, "m": 70, "n": 40, "k": 24, "B_0": 4})
    made.upload(e={"pad": 3})
    assert made.given["e"].strides[0] > 5
    made.need_right()


@pytest.mark.once("target", "text")
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("text", [
    "C[b,m,n]:f32 = A[b,m,k] @ B[e[b],n,k]",
    "C[m,n]:f32 = A[m,k] @ B[e[m/16],f[m/24],n,k]",
    "C[m,n]:f32 = A[m,k] @ B[e[n/16],n,k]",
    "C[m,n]:f32 = A[m,k] @ B[n,k] for m in 5:61",
    "C[m,n]:f32 = A[m,k] @ B[n,k] for m < rows[0]",
    "C[g,m,n]:f32 = A[g,m,k] @ B[n,k] for m in lo[g]:hi[g]",
    "C[m,n]:f32 = A[m,k] @ B[g,n,k] for n in off[g]:off[g+1]",
    "C[m,g,n]:f32 = A[m,g,k] @ B[g,n,k] for m < rows[g]",
])  # fmt: skip
def test_other_forms(target: str, text: str) -> None:
    sizes = {"b": 4, "m": 70, "n": 48, "k": 24, "g": 4, "B_0": 4, "B_1": 3}
    extents = "B_0" * ("e[" in text) + " B_1" * ("f[m" in text)
    made = Device(target, text, {d: n for d, n in sizes.items() if d in f"{text} {extents}"})
    made.upload()
    made.need_right()


@pytest.mark.once
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("text", [
    "C[m,n]:f32 = A[m,k] @ B[g,n,k] scale(1x128,1x128x128) for m in off[g]:off[g+1] with invariant",
    "C[m,n]:f32 = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1] with invariant",
])  # fmt: skip
def test_a_row_does_not_depend_on_the_rows_of_its_group(target: str, text: str) -> None:
    made = Device(target, text, {"m": 150, "n": 40, "k": 264, "g": 3}, seed=4)
    with context.context():
        made.values = reference.make(made.module, made.dims, seed=4)  # sums are rounded, by their order
    made.upload()
    found = []
    for offsets in ([0, 20, 90, 150], [0, 7, 90, 90], [19, 20, 64, 64], [0, 0, 150, 150]):
        made.set("off", offsets)
        got, written = made.run()
        assert written[20:64].all()
        found.append(got[20:64].tobytes())
    assert len({*found}) == 1
