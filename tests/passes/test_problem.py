"""What Problem extracts, and what it refuses, by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from scalec import compiler, frontend
from scalec.errors import ScheduleError, UnsupportedError
from scalec.formats import WHOLE
from scalec.ir.mlir import ir
from scalec.passes.base import programs
from scalec.passes.pipeline import find, run_pipeline
from scalec.passes.problem.access import Coord
from scalec.passes.problem.read import read
from scalec.passes.problem.types import Problem
from scalec.targets import Target
from tests.passes.scale_programs import MAPS, text


def test_facts(problem_of: Callable[[str], Problem]) -> None:
    problem = problem_of(text(m="?"))
    assert [(d.name, d.size, d.position) for d in (problem.m, problem.n, problem.k)] == [
        ("m", None, 0),
        ("n", 7168, 1),
        ("k", 2048, 2),
    ]
    lhs, rhs = problem.lhs, problem.rhs
    assert (lhs.name, lhs.argument_index, lhs.element.name, lhs.rows, lhs.contiguous) == ("A", 0, "e4m3", "m", "k")
    assert [(s.name, s.argument_index, s.rows, s.k, s.layout) for s in lhs.scales] == [("A_scale", 2, 1, 128, "row")]
    assert [(s.name, s.argument_index, s.rows, s.k) for s in rhs.scales] == [("B_scale", 3, 128, 128)]
    assert problem.result.accumulators == (0,)
    assert [(i.name, i.argument_index, i.kind, i.coords, i.view) for i in problem.inputs] == [
        ("bias", 4, "col", (Coord("n"),), 1)
    ]
    assert (problem.result.name, problem.result.element.name, problem.result.dims) == ("C", "bf16", ("m", "n"))
    assert not problem.result.inout


def test_scales_constant_along_k_are_inputs_of_the_epilogue(problem_of: Callable[[str], Problem]) -> None:
    problem = problem_of(text(a_block="1, -1", b_block="-1, -1"))
    assert not problem.has_scales
    assert [(i.name, i.kind, i.coords) for i in problem.inputs] == [
        ("A_scale", "row", (Coord("m"), Coord(""))),
        ("B_scale", "scalar", (Coord(""), Coord(""))),
        ("bias", "col", (Coord("n"),)),
    ]


def test_a_block_larger_than_the_dimension_is_whole(problem_of: Callable[[str], Problem]) -> None:
    assert problem_of(text(n=64)).rhs.scales[0].rows == WHOLE


def test_block_reads(problem_of: Callable[[str], Problem]) -> None:
    problem = problem_of(text(b_block="128, -1"))
    assert problem.inputs[0].coords == (Coord("n", 128), Coord(""))


def test_every_second_element_whatever_was_in_the_context_before(target: Target) -> None:
    for step in (7, 9, 11):
        ir.StringAttr.get(f"what ends with a zero, before {step}")
        ir.DenseI64ArrayAttr.get([step])
        module = frontend.build(f"C[m,n] = A[m,k] @ B[n,k] + b[{step}*n] * d[n]", {})
        run_pipeline(module, target, passes=find(["take-views", "infer-roles", "fuse-epilogue"]))
        found = {x.name: x.spaced for x in read(next(programs(module)), target).inputs}
        assert found == {f"b[{step}*n]": True, "d": False}


def test_accumulated_result(problem_of: Callable[[str], Problem]) -> None:
    assert problem_of(text().replace('{scale.name = "C"}', '{scale.name = "C", scale.inout}')).result.inout


def contraction(maps: str, a: str, b: str, c: str, dims: str = '"m", "n", "k"') -> str:
    """A bare contraction."""
    return f"""func.func @C(%A: {a} {{scale.name = "A"}}, %B: {b} {{scale.name = "B"}}) -> {c}
      attributes {{scale.dims = [{dims}]}} {{
      %c = "scale.contract"(%A, %B) {{operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [{maps}]}}
        : ({a}, {b}) -> {c}
      return %c : {c}
    }}"""


def maps(dims: str, *results: str) -> str:
    return ", ".join(f"affine_map<({dims}) -> ({r})>" for r in results)


A, B, C = "tensor<?x256xbf16>", "tensor<512x256xbf16>", "tensor<?x512xf32>"


def test_batches_and_more_dimensions_of_m_and_n_are_outside_of_a_tile(problem_in: Callable[..., Problem]) -> None:
    p = problem_in("Z[s,b,h,d] = X[b,s,h,r] @ Y[h,d,r] scale(1x128,128x128)", "sm_90a", b=3, s=200, h=2, d=256, r=256)
    assert (p.m.name, p.n.name, p.k.name, [d.name for d in p.outer]) == ("s", "d", "r", ["b", "h"])
    assert p.result.coords == (Coord("s"), Coord("b"), Coord("h"), Coord("d"))
    assert p.outside(p.lhs.coords) == (0, 2)
    assert p.outside(p.rhs.coords) == (0,)
    assert p.lhs.scales[0].coords == (Coord("b"), Coord("s"), Coord("h"), Coord("r", 128))
    assert p.rhs.scales[0].coords == (Coord("h"), Coord("d", 128), Coord("r", 128))
    assert p.walks() == 6


def test_more_dimensions_of_k_are_summed_over(problem_in: Callable[..., Problem]) -> None:
    p = problem_in("D[h,m,n] = A[b,h,m,c,k] @ B[b,h,n,c,k]", "sm_90a", b=2, c=3, k=40)
    assert (p.k.name, [d.name for d in p.summed], [d.name for d in p.outer], p.depth) == ("k", ["b", "c"], ["h"], 240)
    assert p.outside(p.lhs.coords) == (0, 1, 3)


def test_a_result_of_columns_is_that_of_the_other_operand(problem_in: Callable[..., Problem]) -> None:
    p = problem_in("C[n,m] = A[m,k] @ B[n,k] + x[m]", "sm_90a", m=64, n=128, k=64)
    assert (p.lhs.name, p.rhs.name, p.result.dims, p.inputs[0].kind) == ("B", "A", ("n", "m"), "col")


def test_rows_that_share_a_scale_are_rows_of_the_tile(problem_in: Callable[..., Problem]) -> None:
    program = "C[n,m] = A[m,k] @ B[n,k] scale({},{})"
    assert problem_in(program.format("24x128", "64x128"), "sm_90a").lhs.scales[0].rows == 64
    with pytest.raises(UnsupportedError, match="B_scale has one scale for each 32 elements of n") as error:
        problem_in(program.format("none", "32x128"), "sm_90a")
    assert error.value.expected == "1, a multiple of 64, or the whole of n"


REFUSED = {
    "contiguous along a batch": (
        contraction(
            maps("b, m, n, k", "m, k, b", "b, n, k", "b, m, n"),
            "tensor<?x256x4xbf16>",
            "tensor<4x512x256xbf16>",
            "tensor<4x?x512xf32>",
            '"b", "m", "n", "k"',
        ),
        r"A is contiguous along b, a batch dimension",
    ),
    "part of an operand": (
        contraction(maps("m, n, k", "m floordiv 2, k", "n, k", "m, n"), A, B, C),
        "A.*has a computed index",
    ),
    "operands without an instruction": (
        contraction(maps("m, n, k", "m, k", "n, k", "m, n"), A, B.replace("bf16", "f6E3M2FN"), C),
        "sm_90a has no tensor-core instruction for e3m2\n  got: A: bf16, B: e3m2\n.*\n  fix: convert B before",
    ),
    "fine scales": (text(a_block="1, 8"), "A_scale has one scale for each 8 elements of k"),
    "odd scales": (text(b_block="128, 40"), "B_scale has one scale for each 40 elements of k"),
    "odd rows": (text(a_block="32, 128"), "A_scale has one scale for each 32 elements of m"),
    "odd columns": (text(b_block="12, 128"), "B_scale has one scale for each 12 elements of n"),
    "layout": (text(layout="blocked"), "has layout blocked"),
    "16-bit with scales": (text(element="bf16"), "A is bf16 with scales that vary along k"),
    "scale type": (
        text().replace('array<i64: 1, 128>, "f32"', 'array<i64: 1, 128>, "ue4m3"'),
        "A_scale is ue4m3, which scales have no kernel for on sm_90a\n.*\n"
        "  fix: convert A_scale to f32 before the call and leave out :ue4m3",
    ),
    "scale type in fine blocks": (
        text(a_block="1, 8").replace('array<i64: 1, 8>, "f32"', 'array<i64: 1, 8>, "ue8m0"'),
        "A_scale .*\n.*\n  fix: fold A_scale into A before the call and pass A as bf16",
    ),
    "scale type constant along k": (
        text(a_block="1, -1").replace('array<i64: 1, -1>, "f32"', 'array<i64: 1, -1>, "ue4m3"'),
        "A_scale is ue4m3, which scales have no kernel for on sm_90a\n.*\n  fix: convert A_scale.*leave out :ue4m3",
    ),
    "scale computed": (
        text().replace(
            '%a = "scale.dequantize"(%A, %s)',
            """%sv = "scale.read"(%s) {operandSegmentSizes = array<i32: 1, 0>,
                 map = affine_map<(m, n, k) -> (m, k)>} : (tensor<?x?xf32>) -> !scale.view
               %s2 = "scale.map"(%sv) ({
               ^bb0(%x: f32):
                 %y = math.exp %x : f32
                 "scale.yield"(%y) : (f32) -> ()
               }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = affine_map<(m, n, k) -> (m, k)>}
                 : (!scale.view) -> tensor<?x?xf32>
               %a = "scale.dequantize"(%A, %s2)""",
        ),
        "the scale of A is computed by the program",
    ),
    "bias along k": (
        text(n=2048).replace("#n = affine_map<(m, n, k) -> (n)>", "#n = affine_map<(m, n, k) -> (k)>"),
        "bias is read along k",
    ),
    "bias elsewhere": (
        text().replace("#n = affine_map<(m, n, k) -> (n)>", "#n = affine_map<(m, n, k) -> (n + 1)>"),
        r"bias is read at n \+ 1\n",
    ),
    "bias by remainder": (
        text().replace("#n = affine_map<(m, n, k) -> (n)>", "#n = affine_map<(m, n, k) -> ((n + 2) mod 64)>"),
        r"bias is read at \(n \+ 2\)%64\n",
    ),
    "no contraction": (
        MAPS
        + """func.func @C(%A: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {scale.dims = ["m", "n", "k"]} {
          return %A : tensor<64x64xf32>
        }""",
        "the program has no contraction",
    ),
    "a reduction": (
        contraction(maps("m, n, k", "m, k", "n, k", "m, n"), A, B, C)
        .replace(f"-> {C}\n      attributes", f"-> ({C}, tensor<?xf32>)\n      attributes")
        .replace(f"return %c : {C}", f"return %c, %s : {C}, tensor<?xf32>")
        .replace(
            "return",
            """%s = "scale.reduce"(%A) {operandSegmentSizes = array<i32: 1, 0, 0>, kind = "sum",
                 maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (m)>]}
                 : (tensor<?x256xbf16>) -> tensor<?xf32>
               return""",
        ),
        "a reduction beside the contraction",
    ),
    "an index read from memory, of an axis without a dimension": (
        """func.func @C(%A: tensor<?x256xbf16>, %B: tensor<8x512x256xbf16>, %e: tensor<?xi32>) -> tensor<?x512xf32>
          attributes {scale.dims = ["m", "n", "k"]} {
          %s = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>,
            map = affine_map<(m, n, k) -> (m floordiv 128)>} : (tensor<?xi32>) -> !scale.symbol
          %c = "scale.contract"(%A, %B, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>,
            maps = [affine_map<(m, n, k)[s] -> (m, k)>, affine_map<(m, n, k)[s] -> (s, n, k)>,
                    affine_map<(m, n, k)[s] -> (m, n)>]}
            : (tensor<?x256xbf16>, tensor<8x512x256xbf16>, !scale.symbol) -> tensor<?x512xf32>
          return %c : tensor<?x512xf32>
        }""",
        "argument 1 has an unknown number of indices along axis 0, where one is read from memory",
    ),
}


@pytest.mark.parametrize(
    ("program", "rows"),
    [
        ("C[s,b,n]:f32 = A[b,s,k] @ W[n,k] scale(1x32:ue8m0@blocked,1x32:ue8m0)", "s"),
        ("C[s,b,n]:e4m3 scale(1x32:ue8m0@packed) = A[s,b,k] @ W[n,k]", "b"),
        ("C[b,s,n] = A[b,s,k] @ W[n,k]", "b"),
    ],
)
def test_layouts_of_scales_say_which_rows_a_tile_has(
    problem_in: Callable[..., Problem], program: str, rows: str
) -> None:
    assert problem_in(program, "sm_100a", b=64 if rows != "b" else 8, s=8 if rows == "s" else 4).m.name == rows


@pytest.mark.parametrize("layout", ["col", "packed", "blocked"])
def test_layouts_of_scales_that_no_tile_of_the_result_has(problem_in: Callable[..., Problem], layout: str) -> None:
    """It would store them in rows of another index, over those of other tiles."""
    program = f"Z[b,h,d]:e4m3 scale(1x32:ue8m0@{layout}) = X[b,h,r] @ Y[h,d,r]"
    with pytest.raises(
        UnsupportedError, match=f"Z has scales of layout {layout}, and .* rows of b, with h second to last"
    ):
        problem_in(program, "sm_90a")
    assert problem_in(program.replace("b,h,d", "h,b,d", 1), "sm_90a").m.name == "b"


def test_scales_constant_along_one_of_two_dimensions_of_k(problem_in: Callable[..., Problem]) -> None:
    source = "C[m,n] = A[b,m,k] @ B[b,n,k] scale(1xk,none)"
    with pytest.raises(UnsupportedError, match="A_scale has one scale for all of k, and others elsewhere") as open_k:
        problem_in(source, "sm_90a")
    assert open_k.value.expected == "a multiple of 16, or the whole of k, of known size"
    with pytest.raises(UnsupportedError, match="A_scale has one scale for all of k = 200, and others") as odd:
        problem_in(source, "sm_90a", k=200)
    assert odd.value.expected == "a multiple of 16"
    assert problem_in(source, "sm_90a", k=256).lhs.promoted[0].k == 256


def test_what_is_named_once_for_some_rows(problem_in: Callable[..., Problem]) -> None:
    """Rows in blocks are M, also of a batch; where pages are named, or sums have lengths, each of s is a matrix."""
    assert problem_in("C[b,m,n] = A[b,m,k] @ B[e[b,m/64],b,n,k]", "sm_90a").m.name == "m"
    shared = problem_in("C[s,m,t] = Q[s,m,d] @ K[table[s/2,t/64],t%64,d]", "sm_90a", m=64)
    assert ([d.name for d in shared.outer], shared.m.name, shared.n.name) == (["s"], "m", "t")
    lengths = problem_in("O[s,h,d] = P[s,h,t] @ V[t,d] for t < len[s]", "sm_90a", h=64)
    assert ([d.name for d in lengths.outer], lengths.m.name) == (["s"], "h")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("C[m,n] = A[m,k] @ B[e[m/1],n,k]", r"B is read at e\[m\], another matrix for each m"),
        ("C[m,n] = A[i[m],k] @ B[e[m,0],n,k]", r"B is read at e\[m,0\], another matrix for each m"),
        ("C[m,n] = A[e[n],m,k] @ B[n,k]", r"A is read at e\[n\], another matrix for each n"),
        (
            "C[m,n] = A[m,k] @ B[e[m+1],n,k]",
            r"(?s)B is read at e\[m \+ 1\], another.*one for several .* e\[m/64 \+ 1\]",
        ),
        ("C[m,n] = A[m,k] @ B[e[(m+8)/16],n,k]", r"(?s)e\[\(m \+ 8\)/16\] is read along m.*begin at multiples"),
        ("C[m,n] = A[i[m],k] @ B[m,n,k]", "the contraction has 0 M dimensions"),
    ],
)
def test_a_matrix_for_each_row_is_refused(problem_in: Callable[..., Problem], source: str, told: str) -> None:
    with pytest.raises(UnsupportedError, match=told):
        problem_in(source, "sm_90a")


def test_operands_contiguous_along_different_dimensions_of_k(problem_in: Callable[..., Problem]) -> None:
    with pytest.raises(UnsupportedError, match=r"B\[t, n, s\] is contiguous along s, and the other operand along t"):
        problem_in("C[m,n] = A[s,m,t] @ B[t,n,s]", "sm_90a")
    assert problem_in("C[m,n] = A[s,m,t] @ B[s,n,t]", "sm_90a").k.name == "t"


def test_more_indices_than_copies_take(problem_in: Callable[..., Problem]) -> None:
    with pytest.raises(UnsupportedError, match=r"X\[a, b, c, d, m, k\] has 6 indices, and copies take 5"):
        problem_in("Z[a,b,c,d,m,n] = X[a,b,c,d,m,k] @ Y[n,k]", "sm_90a")
    program = "Z[a,b,c,d,m,n] = X[a,b,m,k] @ Y[c,d,n,k]"
    with pytest.raises(ScheduleError, match="epilogue=bulk is not possible") as error:
        compiler.compile_source(program, "sm_90a", {"n": 64, "k": 64}, {"epilogue": "bulk"}, until="tile")
    assert error.value.got == "Z has 6 indices, and copies take 5"


@pytest.mark.parametrize("case", REFUSED)
def test_refused(problem_of: Callable[[str], Problem], case: str) -> None:
    program, message = REFUSED[case]
    with pytest.raises(UnsupportedError) as refusal:
        problem_of(program)
    assert re.search(message, str(refusal.value)), str(refusal.value)


@pytest.mark.parametrize(
    ("program", "found", "fix"),
    [
        ("D[m,n]:e4m3 scale(128x128) = A[m,k] @ B[n,k]", "blocks of 128x128", "say 1x32 or 1x128"),
        ("D[m,n]:e4m3 scale(1xn) = A[m,k] @ B[n,k]", "by whole rows, and n = 2111", "by a program of its own"),
        ("D[m,n]:e4m3 scale(1x20) = A[m,k] @ B[n,k]", "blocks of 1x20", "say 1x32 or 1x128"),
        ("D[m,n]:i32 = A[m,k] @ B[n,k]", "D is i32", "give D one of these types and convert it after the call"),
    ],
)
def test_results_without_a_kernel(program: str, found: str, fix: str) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        compiler.compile_source(program, "sm_90a", {"n": 2111, "k": 256}, until="ptx")
    assert found in str(refusal.value)
    assert fix in str(refusal.value)


def test_tiles_that_cut_a_scale_of_the_result() -> None:
    with pytest.raises(ScheduleError) as refusal:
        compiler.compile_source(
            "D[m,n]:fp8_block = A[m,k] @ B[n,k] with tile=128x64x64, cluster=1x1",
            "sm_90a",
            {"n": 512, "k": 256},
            until="ptx",
        )
    assert "columns that are no multiple of 128: D_scale has one for each 128" in str(refusal.value)
    assert "fix: tile N = 128" in str(refusal.value)


def test_a_quantised_result_is_not_computed_transposed() -> None:
    with pytest.raises(
        ScheduleError, match="one scale for each 128 columns, which are rows of the transposed tile: a warp has 32"
    ):
        compiler.compile_source("D[m,n]:fp8_block = A[m,k] @ B[n,k] with swap=1", "sm_100a", {"n": 512, "k": 256})
