"""Programs of the language build, verify, print and parse back; and say what their text says."""

from __future__ import annotations

import pytest

from scalec.formats import ELEMENT_TYPES
from scalec.frontend import build
from scalec.frontend.affine import Dim, add, atom, constant, divide, extent, remainder, times, value
from scalec.ir import scale, schedule
from scalec.ir.context import context, parse
from scalec.ir.mlir import ir
from tests.frontend.frontend_modules import EXAMPLES, arguments, dims, elements, function, maps, ops, results


def test_the_architecture_document_s_program() -> None:
    with context():
        text = "C[m,n] = gelu(A[m,k]@B[n,k] scale(1x128,128x128) + bias[n])"
        module = build(text, {"n": 7168, "k": 2048})
        assert arguments(module) == [
            "A tensor<?x2048xf8E4M3FN>",
            "B tensor<7168x2048xf8E4M3FN>",
            "A_scale tensor<?x16xf32>",
            "B_scale tensor<56x16xf32>",
            "bias tensor<7168xbf16>",
        ]
        assert results(module) == ["C tensor<?x7168xbf16>"]
        assert len(ops(module, "scale.map")) == 1
        f = function(module)
        assert f.attributes["sym_name"].value == "C"
        assert str(f.attributes["arg_attrs"][2]["scale.shape"]) == "affine_map<(d0, d1, d2) -> (d0, d2 ceildiv 128)>"
        assert schedule.read(f).decided() == {}


def shapes(text: str, **sizes: int) -> dict[str, str]:
    """Each argument's and result's tensor type without `tensor<>`."""
    with context():
        module = build(text, sizes)
        described = [*arguments(module), *results(module)]
    return {d.split()[0]: d.split()[1].removeprefix("tensor<").removesuffix(">") for d in described}


def test_partial_blocks_have_a_scale() -> None:
    got = shapes("C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)", m=100, n=130, k=257)
    assert (got["A_scale"], got["B_scale"]) == ("100x3xf32", "2x3xf32")


@pytest.mark.parametrize(
    ("item", "want", "block"),
    [
        ("1x128", "6x5x3xf32", [1, 1, 128]),
        ("128", "6x5x3xf32", [1, 1, 128]),
        ("1xk", "6x5x1xf32", [1, 1, -1]),
        ("mx1", "6x1x300xf32", [1, -1, 1]),
        ("bxmxk", "1x1x1xf32", [-1, -1, -1]),
        ("tensor", "1x1x1xf32", [-1, -1, -1]),
        ("1x32:ue8m0", "6x5x10xf8E8M0FNU", [1, 1, 32]),
        ("1x32:ue8m0@packed", "6x5x3xi32", [1, 1, 32]),
        ("1x32:ue8m0@blocked", "6x5x10xf8E8M0FNU", [1, 1, 32]),
        ("1x128@col", "6x5x3xf32", [1, 1, 128]),
        ("1x16:ue4m3", "6x5x19xf8E4M3FN", [1, 1, 16]),
    ],
)
def test_granularities(item: str, want: str, block: list[int]) -> None:
    text = f"C[b,m,n] = A[b,m,k]@B[b,n,k] scale({item},none)"
    assert shapes(text, b=6, m=5, k=300)["A_scale"] == want
    with context():
        (op,) = ops(build(text), "scale.dequantize")
        assert scale.block_of(op.attributes["granularity"]) == block


def test_names_with_an_x_are_whole_dimensions_at_their_place() -> None:
    text = "C[xx,n] = A[xx,x2]@B[n,x2] scale(xxx1,1xx2)"
    got = shapes(text, xx=3, n=4, x2=5)
    assert (got["A_scale"], got["B_scale"]) == ("1x5xf32", "4x1xf32")


def test_two_levels_multiply_and_stand_inner_first() -> None:
    with context():
        module = build("C[m,n] = A[m,k]:e2m1@B[n,k] scale(1x16:ue4m3*tensor,none)", {"m": 4, "k": 32})
        assert arguments(module) == [
            "A tensor<4x32xf4E2M1FN>",
            "B tensor<?x32xbf16>",
            "A_scale tensor<4x2xf8E4M3FN>",
            "A_scale2 tensor<1x1xf32>",
        ]
        first, second = ops(module, "scale.dequantize")
        assert second.operands[0] == first.results[0]


def test_scale_layout_travels_to_the_argument() -> None:
    with context():
        attrs = function(build("C[m,n] = A[m,k]@B[n,k] scale(1x128@col,none)")).attributes["arg_attrs"]
        assert [a["scale.layout"].value for a in attrs] == ["row", "row", "col"]


def test_fp8_block_differs_by_side() -> None:
    got = shapes("C[m,n] = A[m,k]:fp8_block@B[n,k]:fp8_block", m=256, n=256, k=256)
    assert (got["A_scale"], got["B_scale"]) == ("256x2xf32", "2x2xf32")


def test_the_second_scale_of_an_nvfp4_result_is_given_and_divides_it() -> None:
    text = "D[m,n]:nvfp4 = A[m,k]@B[n,k]"
    got = shapes(text, m=4, n=64, k=64)
    assert (got["D"], got["D_scale"], got["D_scale2"]) == ("4x64xf4E2M1FN", "4x4xf8E4M3FN", "1x1xf32")
    with context():
        module = build(text)
        assert arguments(module)[-1] == "D_scale2 tensor<1x1xf32>"
        (quantised,) = ops(module, "scale.quantize")
        assert list(quantised.outer) == [list(function(module).body.blocks[0].arguments)[-1]]


def test_a_result_with_a_granularity_and_no_type_is_e4m3() -> None:
    assert shapes("D[m,n] scale(1x128) = A[m,k]@B[n,k]", m=4, n=256)["D"] == "4x256xf8E4M3FN"


def test_head_splits_write_around_the_gap() -> None:
    middle = shapes(EXAMPLES["head_splits"], m=4, n=512)
    assert middle["D"] == "4x640xbf16"
    end = shapes(EXAMPLES["head_splits_end"], m=4, n=512)
    assert end["D"] == f"4x{512 // 128 * 192 - 64}xbf16"
    with context():
        (op,) = ops(build(EXAMPLES["head_splits_end"]), "scale.map")
        assert str(op.attributes["map"]) == ("affine_map<(d0, d1, d2) -> (d0, d1 mod 128 + (d1 floordiv 128) * 192)>")


def test_a_result_may_be_split_over_two_indices() -> None:
    assert shapes("D[m,n/128,n%128] = A[m,k]@B[n,k]", m=4, n=512)["D"] == "4x4x128xbf16"


def test_shapes_of_what_is_read_through_memory() -> None:
    got = shapes(EXAMPLES["grouped_ragged"], m=10, g=3, n=256, k=256, A_0=7)
    assert (got["A"], got["idx"], got["off"], got["B"]) == ("7x256xf8E4M3FN", "10xi32", "4xi32", "3x256x256xf8E4M3FN")
    assert got["A_scale"] == "7x2xf32"
    got = shapes(EXAMPLES["grouped_contiguous"], m=300, B_0=8, n=256, k=256)
    assert (got["e"], got["B"]) == ("3xi32", "8x256x256xf8E4M3FN")
    got = shapes(EXAMPLES["mqa_logits_paged"], s=2, t=100, K_0=9, d=128, h=64)
    assert (got["table"], got["K"], got["len"], got["K_scale"]) == (
        "2x2xi32",
        "9x64x128xf8E4M3FN",
        "2xi32",
        "9x64x1xf32",
    )


def test_a_group_of_another_tensor_gives_the_extent() -> None:
    with context():
        module = build("C[m,n] = A[m,k]@B[e[m/128],n,k] + bias[e[m/128],n]; D[g] = B_sum[g]*2")
        assert dims(module) == "m n k B_0 bias_0 g"
        module = build("C[m,n] = A[m,k]@B[e[m/128],n,k]; D[g,n]:f32 = sum[k](B[g,n,k])")
        assert dims(module) == "m n k g"


def test_ranges_reach_every_op_that_walks_the_dimension() -> None:
    with context():
        module = build(EXAMPLES["mqa_logits"])
        (domain,) = ops(module, "scale.domain")
        users = [op.name for op in ops_using(module, domain)]
        assert users == ["scale.contract", "scale.map", "scale.reduce", "scale.map"]
        *inner, last = ops(module, "scale.map")
        assert "otherwise" not in inner[0].attributes
        assert ir.FloatAttr(last.attributes["otherwise"]).value == float("-inf")
        module = build(EXAMPLES["grouped_k"])
        (domain,) = ops(module, "scale.domain")
        assert [op.name for op in ops_using(module, domain)] == ["scale.contract"]


def ops_using(module: ir.Module, producer: ir.Operation) -> list[ir.Operation]:
    block = function(module).operation.regions[0].blocks[0]
    return [op.operation for op in block.operations if producer.results[0] in list(op.operation.operands)]


def test_a_mask_starts_at_zero_and_else_takes_any_number() -> None:
    with context():
        module = build("C[m,n] = A[m,k]@B[n,k] for n < a[m] else 1.5e1")
        (domain,) = ops(module, "scale.domain")
        assert str(domain.attributes["lower"]) == "affine_map<(d0, d1, d2)[s0] -> (0)>"
        assert ir.FloatAttr(ops(module, "scale.map")[0].attributes["otherwise"]).value == 15.0


def test_bounds_may_be_affine() -> None:
    with context():
        (domain,) = ops(build("C[m,n] = A[m,k]@B[n,k] for n in m-63:m+1"), "scale.domain")
        assert str(domain.attributes["lower"]) == "affine_map<(d0, d1, d2) -> (d0 - 63)>"
        assert str(domain.attributes["upper"]) == "affine_map<(d0, d1, d2) -> (d0 + 1)>"


def test_scatter_reads_the_index_and_accumulates_at_it() -> None:
    with context():
        module = build("C[idx[m],n]:f32 += A[m,k]@B[n,k]")
        (op,) = ops(module, "scale.scatter")
        assert maps(op) == ["(m, n)", "(s0, n)"]
        assert elements(arguments(module)) == "idx i32, A bf16, B bf16, C f32"
        reads = [str(r.attributes["map"]) for r in ops(module, "scale.read")]
        assert reads == ["affine_map<(d0, d1, d2, d3) -> (d1, d2)>", "affine_map<(d0, d1, d2, d3)[s0] -> (s0, d2)>"]
        assert "scale.inout" in function(module).attributes["res_attrs"][0]


def test_indices_may_be_read_at_indices_that_are_read() -> None:
    with context():
        module = build("C[m,n] = A[idx[perm[m]],k]@B[n,k]")
        perm, idx = ops(module, "scale.index")
        assert list(idx.operands)[1] == perm.results[0]


def test_statements_share_tensors_and_temporaries_stay_in_registers() -> None:
    with context():
        module = build(EXAMPLES["gated_mlp"])
        left = [c.operands[0] for c in ops(module, "scale.contract")]
        assert left[0] == left[1]
        assert [r.name for r in ops(module, "scale.map")] == ["scale.map"]
        named = build(EXAMPLES["gated_mlp"].replace("silu(G)*U", "silu(G[m,n])*U[m,n]"))
        assert str(named) == str(module)


def test_a_temporary_may_be_an_operand() -> None:
    with context():
        module = build("P[m,n] = exp(A[m,k]@B[n,k]); O[m,d] = P[m,n]@V[n,d]")
        assert maps(ops(module, "scale.contract")[1]) == ["(m, n)", "(n, d)", "(m, d)"]
        assert [str(m.results[0].type) for m in ops(module, "scale.map")] == ["tensor<?x?xf32>", "tensor<?x?xbf16>"]


def test_a_tensor_with_scales_is_scaled_wherever_it_is_read() -> None:
    with context():
        module = build("C[m,n] = A[m,k]@B[n,k] scale(1x128,none); S[m]:f32 = sum[k](A[m,k])")
        (a,) = ops(module, "scale.dequantize")
        assert ops(module, "scale.reduce")[0].operands[0] == a.results[0]


def test_at_binds_tighter_than_times() -> None:
    with context():
        for text in ("C[m,n] = alpha*A[m,k]@B[n,k]", "C[m,n] = alpha*(A[m,k]@B[n,k])"):
            module = build(text)
            assert [len(list(c.operands)) for c in ops(module, "scale.contract")] == [2]
            assert len(ops(module, "scale.map")) == 1


def test_with_is_one_schedule_for_the_program() -> None:
    with context():
        text = "C[m,n] = A[m,k]@B[n,k] with stages=5, order=n\nS[m]:f32 = sum[k](A[m,k]) with tile=128x64x128, stages=5"
        assert str(schedule.read(function(build(text)))) == "tile=128x64x128, stages=5, order=n"


def test_lines_go_on_inside_brackets_and_comments_end_them() -> None:
    with context():
        flat = build("C[m,n] = relu(A[m,k]@B[n,k] + bias[n])")
        split = build("\n# first\nC[m,n] = relu(   # why\n  A[m,k]@B[n,k]\n\t+ bias[n]\n)\r\n;;\n")
        assert str(flat) == str(split)


@pytest.mark.parametrize("name", [t.name for t in ELEMENT_TYPES.values() if not t.name.startswith("u")])
def test_every_type_can_be_a_result_and_a_tensor_that_is_read(name: str) -> None:
    with context():
        module = build(f"C[m,n]:{name} = A[m,k]@B[n,k] + R[m,n]:{name}")
        assert str(parse(str(module))) == str(module)


@pytest.mark.parametrize("f", ["relu", "gelu", "silu", "sigmoid", "tanh", "exp", "sqrt", "abs", "sign"])
def test_every_function(f: str) -> None:
    with context():
        module = build(f"C[m,n] = {f}(-A[m,k]@B[n,k]/2 - 1.5) + max(x, y[n], 0)*min(x, 3)^3")
        assert str(parse(str(module))) == str(module)


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_every_reduction(kind: str) -> None:
    with context():
        module = build(f"S[m]:f32 = {kind}[n](A[m,k]@B[n,k])\nZ[m]:f32 = {kind}[n,k](abs(X[m,n,k]))")
        assert [op.attributes["kind"].value for op in ops(module, "scale.reduce")] == [kind, kind]
        assert maps(ops(module, "scale.contract")[0])[2] == "(m, n)"


def test_affine_extents_are_one_more_than_the_largest_value() -> None:
    n = atom(Dim("n"))
    forms = [
        n,
        add(n, constant(3)),
        divide(n, 7),
        divide(add(n, constant(21)), 7),
        add(times(divide(n, 8), 12), remainder(n, 8)),
        add(n, times(divide(add(n, constant(4)), 8), 2)),
        add(constant(40), times(n, -1)),
    ]
    for form in forms:
        size = extent(form)
        assert size is not None
        for count in (8, 16, 24, 40):
            want = max(value(form, {"n": x}) or 0 for x in range(count)) + 1
            assert value(size, {"n": count}) == want, (form, count)


def test_a_constant_index_leaves_the_extent_to_the_other_uses() -> None:
    for text in ("C[m,n] = A[0,k]@B[n,k] + A[m,k]@D[n,k]", "C[m,n] = A[m,k]@B[n,k] + A[0,k]@D[n,k]"):
        assert shapes(text, m=7, k=32)["A"] == "7x32xbf16"
    assert shapes("C[n] = A[0,k]@B[n,k] + A[2,k]@D[n,k] + A[1,k]@E[n,k]", k=32)["A"] == "3x32xbf16"
