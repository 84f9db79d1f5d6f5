"""What Problem says of sm_120a's programs: scales in the instruction, packed and padded types, MN-major operands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalec.errors import UnsupportedError
from scalec.formats import ELEMENT_TYPES, WHOLE
from scalec.passes.problem.operand import Operand
from scalec.passes.problem.types import Problem
from scalec.targets import TARGETS, MmaShape

In = Callable[..., Problem]


@pytest.mark.parametrize(
    "family", [f for t in TARGETS.values() for f in t.mma], ids=lambda f: "/".join(sorted(f.operands))
)
def test_an_instruction_takes_32_bytes_of_k(family: MmaShape) -> None:
    for name in family.operands:
        assert family.k * (family.container_bits or ELEMENT_TYPES[name].bits) == 256
    assert all(family.k % scale.block == 0 for scale in family.scales)


def sides(problem: Problem) -> list[tuple[object, ...]]:
    """(rows, k, layout, type, whether the instruction applies it) of each scale, A's first."""
    scales = [s for operand in (problem.lhs, problem.rhs) for s in operand.scales]
    return [(s.name[0], s.rows, s.k, s.layout, s.type, s.in_mma) for s in scales]


def a(*facts: object) -> tuple[object, ...]:
    return ("A", *facts)


def b(*facts: object) -> tuple[object, ...]:
    return ("B", *facts)


# operands' types, `scale` clause -> K of the instruction, scales before the sum, names of those in the epilogue
SCALES = {
    ("e4m3", "e4m3", ""): (32, [], []),
    ("e4m3", "e5m2", "1x128, 128x128"): (32, [a(1, 128, "row", "f32", False), b(128, 128, "row", "f32", False)], []),
    ("e4m3", "e4m3", "16x128, tensor"): (32, [a(16, 128, "row", "f32", False)], ["B_scale"]),
    ("e4m3", "e4m3", "1x128:ue8m0, 128x128:ue8m0"): (
        32,
        [a(1, 128, "row", "ue8m0", True), b(128, 128, "row", "ue8m0", True)],
        [],
    ),
    ("e4m3", "e4m3", "1x32:ue8m0@packed, 3x96:ue8m0@blocked"): (
        32,
        [a(1, 32, "packed", "ue8m0", True), b(3, 96, "blocked", "ue8m0", True)],
        [],
    ),
    ("e4m3", "e4m3", "1x32:ue8m0@col, none"): (32, [a(1, 32, "col", "ue8m0", True)], []),
    ("e4m3", "e4m3", "1x32:ue8m0, 1x256@col"): (
        32,
        [a(1, 32, "row", "ue8m0", True), b(1, 256, "col", "f32", False)],
        [],
    ),
    ("e4m3", "e4m3", "1xk:ue8m0, tensor:ue8m0"): (
        32,
        [a(1, WHOLE, "row", "ue8m0", True), b(WHOLE, WHOLE, "row", "ue8m0", True)],
        [],
    ),
    ("e4m3", "e4m3", "1x2048:ue8m0@packed, 1024x32:ue8m0"): (
        32,
        [a(1, WHOLE, "packed", "ue8m0", True), b(WHOLE, 32, "row", "ue8m0", True)],
        [],
    ),
    ("e4m3", "e4m3", "1xk, 1xk"): (32, [], ["A_scale", "B_scale"]),
    ("e4m3", "e2m1", "1x128:ue8m0, 1x32:ue8m0"): (
        32,
        [a(1, 128, "row", "ue8m0", True), b(1, 32, "row", "ue8m0", True)],
        [],
    ),
    ("e2m1", "e4m3", "1x128, none"): (32, [a(1, 128, "row", "f32", False)], []),
    ("e3m2", "e2m3", "1x32:ue8m0, 1x64:ue8m0"): (
        32,
        [a(1, 32, "row", "ue8m0", True), b(1, 64, "row", "ue8m0", True)],
        [],
    ),
    ("e2m1", "e2m1", ""): (64, [], []),
    ("e2m1", "e2m1", "1x32:ue8m0, 1x128"): (64, [a(1, 32, "row", "ue8m0", True), b(1, 128, "row", "f32", False)], []),
    ("e2m1", "e2m1", "1x16:ue4m3*tensor, 1x48:ue4m3*1xk"): (
        64,
        [a(1, 16, "row", "ue4m3", True), b(1, 48, "row", "ue4m3", True)],
        ["A_scale2", "B_scale2"],
    ),
    ("e2m1", "e2m1", "1x16:ue4m3@blocked, 1xk:ue4m3"): (
        64,
        [a(1, 16, "blocked", "ue4m3", True), b(1, WHOLE, "row", "ue4m3", True)],
        [],
    ),
    ("bf16", "bf16", ""): (16, [], []),
    ("f16", "f16", "1xk, tensor"): (16, [], ["A_scale", "B_scale"]),
    ("tf32", "tf32", ""): (8, [], []),
}


@pytest.mark.parametrize(("lhs", "rhs", "clause"), SCALES)
def test_scales(problem_in: In, lhs: str, rhs: str, clause: str) -> None:
    source = f"C[m,n] = A[m,k]:{lhs} @ B[n,k]:{rhs}" + (f" scale({clause})" if clause else "")
    problem = problem_in(source, "sm_120a", n=512, k=1024)
    k, before, after = SCALES[lhs, rhs, clause]
    assert (problem.family.k, sides(problem), [i.name for i in problem.inputs]) == (k, before, after)
    for operand in (problem.lhs, problem.rhs):
        assert {*operand.promoted, operand.scale_in_mma} - {None} == {*operand.scales}
    assert problem.has_scales == any(not facts[-1] for facts in before)


@pytest.mark.parametrize(
    ("name", "scales"),
    [
        ("mxfp8", [(1, 32, "ue8m0")]),
        ("mxfp8_e5m2", [(1, 32, "ue8m0")]),
        ("mxfp6", [(1, 32, "ue8m0")]),
        ("mxfp4", [(1, 32, "ue8m0")]),
        ("nvfp4", [(1, 16, "ue4m3")]),
    ],
)
def test_every_format_has_its_scales_in_the_instruction(
    problem_in: In, name: str, scales: list[tuple[int, int, str]]
) -> None:
    problem = problem_in(f"C[m,n] = A[m,k]:{name} @ B[n,k]:{name}", "sm_120a")  # no size is known
    for operand in (problem.lhs, problem.rhs):
        assert [(s.rows, s.k, s.type) for s in operand.scales if s.in_mma] == scales
        assert operand.promoted == ()


def shared(operand: Operand) -> tuple[bool, int, int]:
    return operand.padded, operand.shared_bytes(128), operand.align


@pytest.mark.parametrize(
    ("lhs", "rhs", "expected"),
    [
        ("e2m1", "e2m1", [(False, 64, 16), (False, 64, 16)]),
        ("e2m1", "e4m3", [(True, 128, 32), (False, 128, 16)]),
        ("e5m2", "e3m2", [(False, 128, 16), (True, 128, 32)]),
        ("e2m3", "e2m3", [(True, 128, 32), (True, 128, 32)]),
        ("bf16", "bf16", [(False, 256, 16), (False, 256, 16)]),
        ("tf32", "tf32", [(False, 512, 16), (False, 512, 16)]),
    ],
)
def test_how_operands_lie_in_shared_memory(
    problem_in: In, lhs: str, rhs: str, expected: list[tuple[bool, int, int]]
) -> None:
    problem = problem_in(f"C[m,n] = A[m,k]:{lhs} @ B[n,k]:{rhs}", "sm_120a", k=384)
    assert [shared(problem.lhs), shared(problem.rhs)] == expected


@pytest.mark.parametrize("element", ["bf16", "f16", "tf32"])
def test_mn_major(problem_in: In, element: str) -> None:
    problem = problem_in(f"C[m,n] = A[k,m]:{element} @ B[k,n]:{element} scale(kx1, none)", "sm_120a", n=64, k=40)
    assert (problem.lhs.rows, problem.lhs.contiguous) == ("m", "m")
    assert (problem.rhs.rows, problem.rhs.contiguous) == ("n", "n")
    assert [(i.name, i.kind) for i in problem.inputs] == [("A_scale", "row")]


@pytest.mark.parametrize(("said", "layout"), [("", "col"), ("@col", "row")])
def test_scales_of_an_operand_with_k_outermost_are_read_as_rows_by_k(problem_in: In, said: str, layout: str) -> None:
    source = f"C[m,n] = A[m,k] @ B[k,n] scale(1x32:ue8m0, 128x8:ue8m0{said})"
    problem = problem_in(source, "sm_120a", n=64, k=256)
    (a,), (b,) = problem.lhs.scales, problem.rhs.scales
    assert (a.rows, a.k, a.layout, a.axes) == (1, 32, "row", (0, 1))
    assert (b.rows, b.k, b.layout, b.axes) == (8, 128, layout, (1, 0))


@pytest.mark.parametrize(("element", "k"), [("e4m3", 17), ("bf16", 9), ("tf32", 3), ("e2m1", 34)])
def test_any_k_whose_rows_are_whole_bytes(problem_in: In, element: str, k: int) -> None:
    """Where rows begin is the caller's: a view of padded rows may have any K."""
    assert problem_in(f"C[m,n] = A[m,k]:{element} @ B[n,k]:{element}", "sm_120a", k=k).k.size == k


F32 = "f32 or bf16 or f16 scales, one for each 32 elements of k, a multiple, or all"
UE8M0 = "ue8m0 scales, one for each 32 elements of k, a multiple, or all"
PAIRS = "bf16 or e2m1/e2m3/e3m2/e4m3/e5m2 or f16 or i8 or tf32 on both sides"

# program, known sizes -> the refusal
REFUSED = {
    "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x16:ue4m3, none)": (
        {},
        "<program>:1:42: A_scale is ue4m3, which sm_120a has no instruction for with these operands\n"
        f"  expected: {F32.replace('or f16', 'or f16 or ue8m0')}\n"
        "  fix: fold A_scale into A before the call and pass A as bf16",
    ),
    "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e3m2 scale(none, 1x128:ue4m3)": (
        {},
        "<program>:1:48: B_scale is ue4m3, which sm_120a has no instruction for with these operands\n"
        f"  expected: {F32.replace('32', '128').replace('f128', 'f32')}; or {UE8M0}\n"
        "  fix: convert B_scale to f32 before the call and leave out :ue4m3",
    ),
    "C[m,n] = A[m,k]:bf16 @ B[n,k]:bf16 scale(1xk:ue4m3, none)": (
        {},
        "<program>:1:42: A_scale is ue4m3, which scales have no kernel for on sm_120a\n"
        f"  expected: {F32}\n"
        "  fix: convert A_scale to f32 before the call and leave out :ue4m3",
    ),
    "C[m,n] = A[m,k]:bf16 @ B[n,k]:bf16 scale(1xk:ue8m0, none)": (
        {},
        "<program>:1:10: A_scale is ue8m0, which the elementwise expression has no kernel for on sm_120a yet\n"
        "  expected: f32 or bf16 or f16\n"
        "  fix: convert A_scale to one of these before the call, and name that type in the program",
    ),
    "C[m,n] = A[m,k]:bf16 @ B[n,k]:bf16 scale(1x32:ue8m0, none)": (
        {},
        "<program>:1:42: A is bf16 with scales that vary along k\n"
        "  expected: 4-, 6- or 8-bit operands, or scales constant along k\n"
        "  fix: fold A_scale into A before the call",
    ),
    "C[m,n] = A[m,k]:i8 @ B[n,k]:i8 scale(1xk, 1x32:ue8m0)": (
        {},
        "<program>:1:43: B_scale is ue8m0, which sm_120a has no instruction for with products of i8\n"
        "  expected: f32 or bf16 or f16\n"
        "  fix: convert B_scale to f32 before the call and leave out :ue8m0",
    ),
    "C[m,n] = A[m,k]:tf32 @ B[n,k]:tf32 scale(none, 1x128)": (
        {},
        "<program>:1:48: B is tf32 with scales that vary along k\n"
        "  expected: 4-, 6- or 8-bit operands, or scales constant along k\n"
        "  fix: fold B_scale into B before the call",
    ),
    "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x48:ue8m0, none)": (
        {},
        "<program>:1:42: A_scale has one scale for each 48 elements of k\n"
        "  expected: a multiple of 32, or the whole of k\n"
        "  fix: quantise A in blocks of 32 along k, or fold A_scale into A before the call and pass it as bf16",
    ),
    "C[m,n] = A[m,k]:e2m1 @ B[n,k]:e2m1 scale(none, 1x4:ue4m3)": (
        {},
        "<program>:1:48: B_scale has one scale for each 4 elements of k\n"
        "  expected: a multiple of 16, or the whole of k\n"
        "  fix: quantise B in blocks of 16 along k, or fold B_scale into B before the call and pass it as bf16",
    ),
    "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x48, none)": (
        {},
        "<program>:1:42: A_scale has one scale for each 48 elements of k\n"
        "  expected: a multiple of 32, or the whole of k\n"
        "  fix: quantise A in blocks of 32 along k, or fold A_scale into A before the call and pass it as bf16",
    ),
    "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(24x128, none)": (
        {},
        "<program>:1:42: A_scale has one scale for each 24 elements of m\n"
        "  expected: 1, a multiple of 16, or the whole of m\n"
        "  fix: repeat each scale 24 times before the call and say 1x128",
    ),
    "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3 scale(1x32:ue8m0*1x128, none)": (
        {},
        "<program>:1:42: A has 2 levels of scales that vary along k\n"
        "  expected: one level\n"
        "  fix: multiply the levels into one tensor of scales before the call",
    ),
    "C[m,n] = A[m,k]:e4m3 @ B[n,k]:bf16 scale(1x32:ue8m0, none)": (
        {},
        "<program>:1:24: sm_120a has no tensor-core instruction that multiplies e4m3 by bf16\n"
        "  got: A: e4m3, B: bf16\n"
        f"  expected: {PAIRS}\n"
        "  fix: pass A_scale as f32, or convert B before the call",
    ),
    "C[m,n] = A[k,m]:bf16 @ B[n,k]:f16": (
        {},
        "<program>:1:24: sm_120a has no tensor-core instruction that multiplies bf16 by f16\n"
        "  got: A: bf16, B: f16\n"
        f"  expected: {PAIRS}\n"
        "  fix: convert B before the call",
    ),
    "C[m,n] = A[m,k]:e4m3 @ B[k,n]:e2m1": (
        {"n": 1000, "k": 100},
        "<program>:1:24: n = 1000 is not a multiple of 128, which the copies that pad e2m1 to a byte need\n"
        "  got: B: e2m1, rows of 1000 elements\n"
        "  expected: n a multiple of 128\n"
        "  fix: pad n to 1024 with zeros",
    ),
    "C[m,n] = A[m,k] @ B[k,n] scale(none, 32x1:ue8m0@packed)": (
        {},
        "<program>:1:38: B_scale has layout packed, and B[k, n] is contiguous along n\n"
        "  expected: row or col: there is no such tiling of scales with K outermost\n"
        "  fix: reorder B_scale before the call and leave out @packed",
    ),
    "C[m,n] = A[m,k]:e2m1 @ B[k,n]:e2m1": (
        {"n": 1000},
        "<program>:1:24: n = 1000 is not a multiple of 128, which the copies that pad e2m1 to a byte need\n"
        "  got: B: e2m1, rows of 1000 elements\n"
        "  expected: n a multiple of 128\n"
        "  fix: pad n to 1024 with zeros",
    ),
    "C[m,n] = A[m,k]:e4m3 @ B[n,k]:e2m1": (
        {"k": 1000},
        "<program>:1:24: k = 1000 is not a multiple of 128, which the copies that pad e2m1 to a byte need\n"
        "  got: B: e2m1, rows of 1000 elements\n"
        "  expected: k a multiple of 128\n"
        "  fix: pad k to 1024 with zeros, in both operands",
    ),
    "C[m,n] = A[m,k]:mxfp6 @ B[n,k]:mxfp6": (
        {"k": 96},
        "<program>:1:10: k = 96 is not a multiple of 128, which the copies that pad e3m2 to a byte need\n"
        "  got: A: e3m2, rows of 96 elements\n"
        "  expected: k a multiple of 128\n"
        "  fix: pad k to 128 with zeros, in both operands",
    ),
}


@pytest.mark.parametrize("source", REFUSED)
def test_refused(problem_in: In, source: str) -> None:
    dims, message = REFUSED[source]
    with pytest.raises(UnsupportedError) as refusal:
        problem_in(source, "sm_120a", **dims)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("source", "elements"),
    [
        ("C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4", ("bf16", "bf16")),
        ("C[m,n] = A[m,k]:e4m3 @ B[n,k]:e2m1", ("e4m3", "e4m3")),
        ("C[m,n] = A[m,k]:mxfp4 @ B[n,k]:mxfp4", ("bf16", "bf16")),
        ("C[m,n] = A[m,k]:tf32 @ B[k,n]:tf32", ("tf32", "tf32")),
        ("C[m,n] = A[m,k]:e4m3 @ B[k,n]:e4m3", ("e4m3", "e4m3")),
    ],
)
def test_what_sm_90a_converts_goes_as_it_is_here(problem_in: In, source: str, elements: tuple[str, str]) -> None:
    made = problem_in(source, "sm_90a", n=512, k=1024)
    assert (made.lhs.element.name, made.rhs.element.name) == elements
    assert made.converts
    assert not problem_in(source, "sm_120a", n=512, k=1024).converts
