"""Products of mma.sync that are computed with those before them: each gives, and is judged, as by itself."""

from __future__ import annotations

import numpy as np
import pytest

from scalec.emulator import tensor
from scalec.emulator.findings import Finding

from .harness import Out, module, run_ptx
from .test_fragments import A, B, place
from .test_mma import accumulators, draw, refused

FORM = "m16n8k16 bf16"
PRODUCT = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
SIGN = 0x80008000


def vector(name: str, count: int = 4) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def product(d: str, a: str, b: str, c: str) -> str:
    return f"{PRODUCT} {vector(d)}, {vector(a)}, {vector(b, 2)}, {vector(c)};"


def results(body: str, *names: str) -> list[np.ndarray]:
    """Runs `body` on A and B of small numbers and C of zeros; the (16, 8) sums in registers of these names."""
    lines = [".reg .b32 %a<4>, %b<2>, " + ", ".join(f"%{n}<4>" for n in ("c", "d", "e", "f", "g")) + ";",
             "mov.u32 %r0, %laneid;"]  # fmt: skip
    for i, (name, count) in enumerate((("a", 4), ("b", 2))):
        lines += [f"ld.param.u64 %rd1, [p{i}]; mad.wide.u32 %rd1, %r0, {4 * count}, %rd1;"]
        lines += [f"ld.global.b32 %{name}{j}, [%rd1+{4 * j}];" for j in range(count)]
    lines += [f"mov.b32 %{n}{j}, 0;" for n in ("c", "d", "e", "f", "g") for j in range(4)]
    lines += [body, f"ld.param.u64 %rd1, [p2]; mad.wide.u32 %rd1, %r0, {16 * len(names)}, %rd1;"]
    lines += [f"st.global.b32 [%rd1+{16 * i + 4 * j}], %{n}{j};" for i, n in enumerate(names) for j in range(4)]
    bits, _, count, formula = A[FORM]
    _, codes_a = draw("bf16", (16, 16), 1)
    _, codes_b = draw("bf16", (16, 8), 2)
    a, b = place(codes_a, bits, count, formula), place(codes_b, bits, *B[FORM][2:])
    out = Out(32 * 16 * len(names))
    text = module("\n".join(lines), ", ".join(f".param .u64 p{i}" for i in range(3)))
    run_ptx(text, [np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), out])
    words = out.view(np.uint32).reshape(32, len(names), 4)
    return [words[:, i].T for i in range(len(names))]


def sums(values: np.ndarray) -> np.ndarray:
    return accumulators(values, "f32")


@pytest.fixture
def matrix() -> np.ndarray:
    return draw("bf16", (16, 16), 1)[0] @ draw("bf16", (16, 8), 2)[0]


def test_a_product_of_another_ones_result(matrix: np.ndarray) -> None:
    body = [product("d", "a", "b", "c"), product("e", "a", "b", "d"), product("f", "a", "b", "e")]
    d, e, f = results("\n".join(body), "d", "e", "f")
    for found, times in ((d, 1), (e, 2), (f, 3)):
        np.testing.assert_array_equal(found, sums(times * matrix))


def test_a_product_into_its_own_operands(matrix: np.ndarray) -> None:
    """The second overwrites what the first has read, the third reads what the second wrote."""
    body = [product("d", "a", "b", "c"), product("c", "a", "b", "c"), product("e", "a", "b", "c")]
    d, c, e = results("\n".join(body), "d", "c", "e")
    for found, times in ((d, 1), (c, 1), (e, 2)):
        np.testing.assert_array_equal(found, sums(times * matrix))


@pytest.mark.parametrize("guard", ["", "@%p1 "])
def test_operands_that_are_written_in_between(matrix: np.ndarray, guard: str) -> None:
    flip = [f"{guard}xor.b32 %a{i}, %a{i}, {SIGN};" for i in range(4)]
    body = ["setp.eq.u32 %p1, %r0, %r0;", product("d", "a", "b", "c"), *flip, product("e", "a", "b", "c"), *flip]
    d, e, f = results("\n".join([*body, product("f", "a", "b", "c")]), "d", "e", "f")
    for found, times in ((d, 1), (e, -1), (f, 1)):
        np.testing.assert_array_equal(found, sums(times * matrix + 0.0))


def test_a_jump_between_products(matrix: np.ndarray) -> None:
    """The first pass begins at the second product; each pass has other operands than the one before."""
    body = ["mov.u32 %r1, 0;", "bra.uni MIDDLE;", "AGAIN:", product("d", "a", "b", "d"), "MIDDLE:"]
    body += [product("e", "a", "b", "e"), product("f", "a", "b", "c")]
    body += [*(f"xor.b32 %a{i}, %a{i}, {SIGN};" for i in range(4)), "add.u32 %r1, %r1, 1;"]
    body += ["setp.lt.u32 %p1, %r1, 4;", "@%p1 bra AGAIN;"]
    d, e, f = results("\n".join(body), "d", "e", "f")  # signs of the passes: + - + -
    for found, times in ((d, -1), (e, 0), (f, -1)):
        np.testing.assert_array_equal(found, sums(times * matrix + 0.0))


def test_what_stands_behind_a_jump_is_not_what_comes_next(matrix: np.ndarray) -> None:
    flip = [f"xor.b32 %a{i}, %a{i}, {SIGN};" for i in range(4)]
    body = [product("d", "a", "b", "c"), "bra.uni OTHER;", "THERE:", product("e", "a", "b", "c"), "bra.uni DONE;"]
    d, e = results("\n".join([*body, "OTHER:", *flip, "bra.uni THERE;", "DONE:"]), "d", "e")
    for found, times in ((d, 1), (e, -1)):
        np.testing.assert_array_equal(found, sums(times * matrix + 0.0))


OPERANDS = ".reg .b32 %a<4>, %b<2>, %c<4>, %d<4>, %e<4>;" + "".join(
    f"mov.b32 %{name}{i}, 0;" for name, count in (("a", 4), ("b", 2), ("c", 4)) for i in range(count)
)


def test_a_finding_is_that_of_the_product_that_it_belongs_to() -> None:
    opcode = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"
    first, second = (
        f"{opcode} {vector(d)}, {vector('a')}, {vector('b', 2)}, {vector('c')}, %r1, {{0, {thread}}}, %r1, {{0, 0}};"
        for d, thread in (("d", 0), ("e", 2))
    )
    text = module(f"{OPERANDS}\nmov.b32 %r1, 0;\n{first}\n{second}", ".param .u64 p0", "sm_120a")
    with pytest.raises(Finding, match="thread-id-a of 2") as caught:
        run_ptx(text, [np.zeros(1, np.uint8)])
    line = text.splitlines().index(second) + 1
    assert caught.value.where.startswith(f"line {line}: ")


PAIRS = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0])


@pytest.mark.parametrize("mode", ["exact", "hopper"])
@pytest.mark.parametrize(("kind", "result"), [("bf16", "f32"), ("f16", "f16"), ("e4m3", "f32"), ("s8", "s32")])
def test_several_products_at_once(kind: str, result: str, mode: str) -> None:
    """Of numbers so far apart that float64 does not hold their sums."""
    generator = np.random.default_rng(3)
    k = 256 // tensor.OPERANDS[kind].bits
    wide = 60 if kind == "bf16" else 6
    a, b = (np.ldexp(generator.integers(-7, 8, (n, m, k)), generator.integers(-wide, wide, (n, m, k)))
            if kind != "s8" else generator.integers(-128, 128, (n, m, k)).astype(float)
            for n, m in ((3, 16), (2, 8)))  # fmt: skip
    c = generator.integers(-9, 9, (4, 16, 8)).astype({"f32": "f4", "f16": "f2", "s32": "i4"}[result])
    found = tensor.multiply(a, b, c, kind, result, mode, instruction="mma", pairs=PAIRS)
    for i, j, before, d in zip(*PAIRS, c, found, strict=True):
        alone = tensor.multiply(a[i], b[j], before, kind, result, mode, instruction="mma")
        np.testing.assert_array_equal(d.view(np.uint8), alone.view(np.uint8))


@pytest.mark.parametrize(("kind", "most"), [("ue8m0", 254), ("ue8m0", 140), ("ue4m3", 126)])
def test_the_unit_of_scaled_elements_divides_them(kind: str, most: int) -> None:
    generator = np.random.default_rng(4)
    elements = tensor.decode(generator.choice([0, 1, 9, 0x38, 0x7E, 0x81], (16, 32)).astype(np.uint8), "e4m3")
    factors = generator.integers(most - 13, most, (16, 1)).astype(np.uint8)
    matrix, unit = tensor.scaled(elements, factors, kind), tensor.scaled_unit("e4m3", factors, kind)
    assert unit > 0
    assert (np.fmod(matrix, unit) == 0).all()
    assert np.isnan(tensor.scaled_unit("e4m3", np.array([[0xFF]], np.uint8), "ue8m0"))


def test_all_lanes_take_part_in_each() -> None:
    body = [product("d", "a", "b", "c"), "setp.lt.u32 %p1, %r0, 31;", f"@%p1 {product('e', 'a', 'b', 'c')}"]
    params = ", ".join(f".param .u64 p{i}" for i in range(6))
    text = module("\n".join([OPERANDS, "mov.u32 %r0, %laneid;", *body]), params)
    assert refused(text, Finding, "lanes 0-30 only").kind == "divergence"
