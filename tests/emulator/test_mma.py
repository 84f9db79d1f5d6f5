"""mma.sync: values through every shape and type, block scales and their selectors, what is refused."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled, PtxSyntaxError

from .harness import Out, module, run_ptx
from .rational import nearest
from .test_fragments import A, B, accumulator_formula, place

PARAMS = ", ".join(f".param .u64 p{i}" for i in range(6))
DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "s8": np.int8, "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn, "s32": np.int32,
}  # fmt: skip


def registers(name, count):
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def program(opcode, counts, tail="", target="sm_90a", setup="", width=32):
    """p0-p2: registers of A, B, C of each lane, p3: of D, p4 and p5: scale factors; all (32, registers)."""
    size = width // 8
    lines = [f".reg .b{width} %a<8>, %b<8>, %c<8>, %d<8>; .reg .b32 %sa, %sb;", "mov.u32 %r0, %laneid;"]
    for i, (name, count) in enumerate(zip("abc", counts, strict=True)):
        lines += [f"ld.param.u64 %rd1, [p{i}]; mad.wide.u32 %rd1, %r0, {count * size}, %rd1;"]
        lines += [f"ld.global.b{width} %{name}{j}, [%rd1+{j * size}];" for j in range(count)]
    for i, name in ((4, "sa"), (5, "sb")):
        lines += [f"ld.param.u64 %rd1, [p{i}]; mad.wide.u32 %rd1, %r0, 4, %rd1; ld.global.b32 %{name}, [%rd1];"]
    parts = ", ".join(registers(n, c) for n, c in zip("dabc", (counts[2], *counts), strict=True))
    lines += [setup, f"mma.sync.aligned.{opcode} {parts}{tail};"]
    lines += [f"ld.param.u64 %rd1, [p3]; mad.wide.u32 %rd1, %r0, {counts[2] * size}, %rd1;"]
    lines += [f"st.global.b{width} [%rd1+{j * size}], %d{j};" for j in range(counts[2])]
    return module("\n".join(lines), PARAMS, target)


def run(text, a, b, c, scale_a=None, scale_b=None, **options):
    """Registers (n, 32) of A, B and C -> of D."""
    zero = np.zeros(32, np.uint32)
    d = Out(c.nbytes)
    arrays = [np.ascontiguousarray(x.T) for x in (a, b, c)]
    scales = [zero if s is None else np.array(s, np.uint32) for s in (scale_a, scale_b)]
    run_ptx(text, [*arrays, d, *scales], **options)
    return d.view(c.dtype).reshape(32, len(c)).T


def draw(kind, shape, seed):
    """Small numbers that every type has, and the codes of them."""
    values = np.random.default_rng(seed).choice([0, 0.5, 1, 2, 3, -0.5, -1, -3], shape)
    if kind in ("s8", "u8"):
        values = np.abs(values).astype(np.uint8) if kind == "u8" else values.astype(np.int8)
    coded = values.astype(DTYPES[kind])
    return coded.astype(np.float64), coded.view(f"u{coded.itemsize}").astype(np.uint64)


def accumulators(values, result):
    """Registers of C or D."""
    dtype = np.dtype(DTYPES[result])
    codes = values.astype(dtype).view(f"u{dtype.itemsize}")
    return place(codes, 8 * dtype.itemsize, 4, accumulator_formula)


CASES = [  # shape and A's type as in the fragments' formulas, types of A and B, of D, .kind, target
    ("m16n8k16 bf16", "bf16", "bf16", "f32", "", "sm_90a"),
    ("m16n8k8 bf16", "bf16", "bf16", "f32", "", "sm_90a"),
    ("m16n8k16 bf16", "f16", "f16", "f32", "", "sm_90a"),
    ("m16n8k16 bf16", "f16", "f16", "f16", "", "sm_90a"),
    ("m16n8k8 bf16", "f16", "f16", "f16", "", "sm_90a"),
    ("m16n8k8 tf32", "tf32", "tf32", "f32", "", "sm_90a"),
    ("m16n8k4 tf32", "tf32", "tf32", "f32", "", "sm_90a"),
    ("m16n8k32 e4m3", "e4m3", "e5m2", "f32", "", "sm_90a"),
    ("m16n8k32 e4m3", "e5m2", "e5m2", "f16", "", "sm_90a"),
    ("m16n8k16 e4m3", "e5m2", "e4m3", "f32", "", "sm_90a"),
    ("m16n8k32 e4m3", "s8", "u8", "s32", "", "sm_90a"),
    ("m16n8k16 e4m3", "u8", "s8", "s32", "", "sm_90a"),
    ("m16n8k32 e4m3", "e4m3", "e2m1", "f32", "kind::f8f6f4.", "sm_120a"),
    ("m16n8k32 e4m3", "e2m1", "e3m2", "f16", "kind::f8f6f4.", "sm_120a"),
    ("m16n8k32 e4m3", "e2m3", "e5m2", "f32", "kind::f8f6f4.", "sm_120a"),
]


@pytest.mark.parametrize(("form", "a_type", "b_type", "result", "kind", "target"), CASES)
def test_products(form, a_type, b_type, result, kind, target):
    bits, k, count_a, formula_a = A[form]
    count_b, formula_b = B[form][2:]
    (a, codes_a), (b, codes_b) = draw(a_type, (16, k), 1), draw(b_type, (k, 8), 2)
    codes_a, codes_b = (
        x << np.uint64(2) if t == "e2m1" else x for x, t in ((codes_a, a_type), (codes_b, b_type))
    )  # in bits 2 to 5 of the container
    c = np.random.default_rng(3).integers(-8, 8, (16, 8)).astype(float)
    text = program(
        f"{form.split()[0]}.row.col.{kind}{result}.{a_type}.{b_type}.{result}",
        (count_a * bits // 32, count_b * bits // 32, 2 if result == "f16" else 4),
        target=target,
    )
    d = run(text, place(codes_a, bits, count_a, formula_a), place(codes_b, bits, count_b, formula_b),
            accumulators(c, result))  # fmt: skip
    np.testing.assert_array_equal(d, accumulators(a @ b + c, result))


def test_integers_wrap_or_saturate():
    a = np.full((4, 32), 0x7F7F7F7F, np.uint32)
    b = np.full((2, 32), 0x7F7F7F7F, np.uint32)
    c = np.full((4, 32), 0x7FFFFFFF, np.uint32)
    for modifier, expected in (("", 0x7FFFFFFF + 32 * 127 * 127), ("satfinite.", 0x7FFFFFFF)):
        d = run(program(f"m16n8k32.row.col.{modifier}s32.s8.s8.s32", (4, 2, 4)), a, b, c)
        assert (d == expected).all()


# -- block scales ------------------------------------------------------------------------------------------------------


def scaled_case(kind, vector, stype, k, a_type, b_type, selectors, scale_a, scale_b, factors, count):
    """Runs one block-scaled product; the factors (16, count), (8, count) as numbers give the expected result."""
    form = "m16n8k64 e2m1" if k == 64 else "m16n8k32 e4m3"
    bits, _, count_a, formula_a = A[form]
    count_b, formula_b = B[form][2:]
    (a, codes_a), (b, codes_b) = draw(a_type, (16, k), 4), draw(b_type, (k, 8), 5)
    if bits == 8:
        codes_a, codes_b = (x << np.uint64(2 * (t == "e2m1")) for x, t in ((codes_a, a_type), (codes_b, b_type)))
    c = np.random.default_rng(6).integers(-8, 8, (16, 8)).astype(float)
    text = program(
        f"m16n8k{k}.row.col.{kind}.block_scale.{vector}f32.{a_type}.{b_type}.f32.{stype}",
        (4, 2, 4),
        f", %sa, {selectors[0]}, %sb, {selectors[1]}",
        "sm_120a",
        "mov.b16 %h1, 2; mov.b16 %h2, 1;",
    )
    d = run(text, place(codes_a, bits, count_a, formula_a), place(codes_b, bits, count_b, formula_b),
            accumulators(c, "f32"), scale_a, scale_b)  # fmt: skip
    left = a * np.repeat(factors[0], k // count, axis=1)
    right = b * np.repeat(factors[1], k // count, axis=1).T
    np.testing.assert_array_equal(d, accumulators(left @ right + c, "f32"))


def metadata(seed, low, high):
    """(32,) words of random scale factors, and their bytes (32, 4)."""
    data = np.random.default_rng(seed).integers(low, high, (32, 4)).astype(np.uint8)
    return data.view(np.uint32)[:, 0], data


def of_a(data, thread, at):
    """Rows g and g + 8 come from lanes 4 g + 2 thread and the next (figure 43); `at`: which bytes."""
    return np.stack([data[4 * (row % 8) + 2 * thread + row // 8, at] for row in range(16)])


def of_b(data, thread, at):
    return np.stack([data[4 * column + thread, at] for column in range(8)])


def e8(codes):
    return 2.0 ** (codes.astype(int) - 127)


@pytest.mark.parametrize("vector", ["scale_vec::1X.", ""])
@pytest.mark.parametrize(("byte_a", "thread_a", "byte_b", "thread_b"), [(0, 0, 0, 0), (3, 1, 2, 3), (1, 0, 3, 2)])
def test_mxf8f6f4(vector, byte_a, thread_a, byte_b, thread_b):
    (sa, bytes_a), (sb, bytes_b) = metadata(7, 120, 135), metadata(8, 120, 135)
    factors = e8(of_a(bytes_a, thread_a, [byte_a])), e8(of_b(bytes_b, thread_b, [byte_b]))
    selectors = f"{{{byte_a}, {thread_a}}}", f"{{{byte_b}, {thread_b}}}"
    scaled_case("kind::mxf8f6f4", vector, "ue8m0", 32, "e4m3", "e2m1", selectors, sa, sb, factors, 1)


@pytest.mark.parametrize(("kind", "vector"), [("mxf4", ""), ("mxf4", "scale_vec::2X."), ("mxf4nvf4", "scale_vec::2X.")])
def test_two_factors(kind, vector):
    (sa, bytes_a), (sb, bytes_b) = metadata(9, 120, 135), metadata(10, 120, 135)
    factors = e8(of_a(bytes_a, 1, [2, 3])), e8(of_b(bytes_b, 3, [0, 1]))
    selectors = "{%h1, %h2}", "{0, 3}"  # registers of 16 bits: 2 and 1
    scaled_case(f"kind::{kind}", vector, "ue8m0", 64, "e2m1", "e2m1", selectors, sa, sb, factors, 2)


@pytest.mark.parametrize("stype", ["ue4m3", "ue8m0"])
def test_four_factors(stype):
    low, high = (48, 72) if stype == "ue4m3" else (120, 135)
    (sa, bytes_a), (sb, bytes_b) = metadata(11, low, high), metadata(12, low, high)
    value = e8 if stype == "ue8m0" else lambda codes: codes.view(ml_dtypes.float8_e4m3fn).astype(float)
    factors = value(of_a(bytes_a, 0, range(4))), value(of_b(bytes_b, 1, range(4)))
    vector = "scale_vec::4X."
    scaled_case("kind::mxf4nvf4", vector, stype, 64, "e2m1", "e2m1", ("{0, 0}", "{0, 1}"), sa, sb, factors, 4)


# -- f64 ---------------------------------------------------------------------------------------------------------------


def double_registers(matrix, places):
    """(n, 32) from the (row, column) of each register in a lane."""
    return np.array([[matrix[p(lane >> 2, lane % 4)] for lane in range(32)] for p in places])


def test_doubles():
    generator = np.random.default_rng(13)
    a, b, c = generator.standard_normal((8, 4)), generator.standard_normal((4, 8)), generator.standard_normal((8, 8))
    places_c = [lambda g, t: (g, 2 * t), lambda g, t: (g, 2 * t + 1)]
    text = program("m8n8k4.row.col.f64.f64.f64.f64", (1, 1, 2), width=64)
    d = run(text, double_registers(a, [lambda g, t: (g, t)]), double_registers(b, [lambda g, t: (t, g)]),
            double_registers(c, places_c))  # fmt: skip
    expected = c.copy()
    for k in range(4):
        for i in range(8):
            for j in range(8):
                value = Fraction(a[i, k]) * Fraction(b[k, j]) + Fraction(expected[i, j])
                expected[i, j] = nearest(value, "f64", "rn")
    np.testing.assert_array_equal(d, double_registers(expected, places_c))


@pytest.mark.parametrize(("k", "counts"), [(4, (2, 1)), (8, (4, 2)), (16, (8, 4))])
def test_doubles_of_16_rows(k, counts):
    generator = np.random.default_rng(k)
    a, b, c = (generator.integers(-9, 9, s).astype(float) for s in ((16, k), (k, 8), (16, 8)))
    # 9.7.14.5.7: a0, a2: row g; a1, a3: g + 8; a0, a1: column t; a2, a3: t + 4; and so on for K = 16
    places_a = [lambda g, t, i=i: (g + 8 * (i & 1), t + 4 * (i >> 1)) for i in range(counts[0])]
    places_b = [lambda g, t, i=i: (t + 4 * i, g) for i in range(counts[1])]
    places_c = [lambda g, t, i=i: accumulator_formula(i, g, t) for i in range(4)]
    text = program(f"m16n8k{k}.row.col.f64.f64.f64.f64.rn", (*counts, 4), width=64)
    d = run(text, double_registers(a, places_a), double_registers(b, places_b), double_registers(c, places_c))
    np.testing.assert_array_equal(d, double_registers(a @ b + c, places_c))


# -- the machine -------------------------------------------------------------------------------------------------------


def test_tensor_core_mode_and_counters():
    # 2^-13 beside 1: Hopper cuts off after 23 bits, so both keep it; 1 + 2^-24 twice rounds up, and is cut off there
    (_, codes_a), (_, codes_b) = draw("bf16", (16, 16), 1), draw("bf16", (16, 8), 2)
    codes_a[:], codes_b[:] = 0, 0
    codes_a[:, :2], codes_b[:2] = [0x3F80, 0x3980], [[0x3F80], [0x3900]]  # 1, 2^-12; 1, 2^-13
    a, b = place(codes_a, 16, 8, A["m16n8k16 bf16"][3]), place(codes_b, 16, 4, B["m16n8k16 bf16"][3])
    c = accumulators(np.full((16, 8), 2.0**-24), "f32")  # 1 + 2^-25 + 2^-24: over the middle
    text = program("m16n8k16.row.col.f32.bf16.bf16.f32", (4, 2, 4))
    assert (run(text, a, b, c).view(np.float32) == np.float32(1 + 2.0**-23)).all()
    assert (run(text, a, b, c, tensor_core="hopper").view(np.float32) == 1).all()


def refused(text, error, match):
    zero = [np.zeros((n, 32), np.uint32) for n in (8, 8, 8)]
    with pytest.raises(error, match=match) as caught:
        run(text, *zero)
    return caught.value


@pytest.mark.parametrize(
    ("opcode", "counts", "target", "error", "match"),
    [
        ("m16n8k16.row.col.f32.bf16.f16.f32", (4, 2, 4), "sm_90a", Finding, "no such combination"),
        ("m16n8k16.row.col.f16.bf16.bf16.f16", (4, 2, 2), "sm_90a", Finding, "no such combination"),
        ("m16n8k16.row.col.f32.f16.f16.f16", (4, 2, 4), "sm_90a", Finding, "no such combination"),
        ("m16n8k32.row.col.f32.f16.f16.f32", (4, 2, 4), "sm_90a", Finding, "no such combination"),
        ("m16n8k32.row.col.f32.e2m1.e2m1.f32", (4, 2, 4), "sm_120a", NotModelled, "e2m1"),
        ("m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32", (4, 2, 4), "sm_90a", Finding, "sm_120a"),
        ("m8n8k4.row.col.f32.f16.f16.f32", (2, 2, 8), "sm_90a", NotModelled, "m8n8k4"),
        ("m16n8k256.row.col.s32.b1.b1.s32.and.popc", (4, 2, 4), "sm_90a", NotModelled, "popc"),
        ("m16n8k16.row.col.f32.bf16.bf16.f32", (2, 2, 4), "sm_90a", PtxSyntaxError, "2 registers of A"),
        ("m16n8k16.row.col.f32.bf16.bf16.f32", (4, 4, 4), "sm_90a", PtxSyntaxError, "4 registers of B"),
        ("m16n8k16.row.col.f32.bf16.bf16.f32", (4, 2, 2), "sm_90a", PtxSyntaxError, "2 registers of D"),
    ],
)
def test_what_is_refused(opcode, counts, target, error, match):
    refused(program(opcode, counts, target=target), error, match)


@pytest.mark.parametrize(
    ("kind", "vector", "stype", "k", "kinds", "selectors", "match"),
    [
        ("mxf8f6f4", "scale_vec::2X.", "ue8m0", 32, "e4m3", ("{0, 0}", "{0, 0}"), "scale_vec::2X"),
        ("mxf4nvf4", "", "ue8m0", 64, "e2m1", ("{0, 0}", "{0, 0}"), "no .scale_vec"),
        ("mxf4nvf4", "scale_vec::2X.", "ue4m3", 64, "e2m1", ("{0, 0}", "{0, 0}"), "ue4m3"),
        ("mxf4", "", "ue8m0", 64, "e2m1", ("{1, 0}", "{0, 0}"), "byte-id-a of 1"),
        ("mxf4nvf4", "scale_vec::4X.", "ue4m3", 64, "e2m1", ("{0, 0}", "{2, 0}"), "byte-id-b of 2"),
        ("mxf8f6f4", "", "ue8m0", 32, "e4m3", ("{0, 2}", "{0, 0}"), "thread-id-a of 2"),
    ],
)
def test_scales_that_are_refused(kind, vector, stype, k, kinds, selectors, match):
    opcode = f"m16n8k{k}.row.col.kind::{kind}.block_scale.{vector}f32.{kinds}.{kinds}.f32.{stype}"
    text = program(opcode, (4, 2, 4), f", %sa, {selectors[0]}, %sb, {selectors[1]}", "sm_120a")
    assert refused(text, Finding, match).kind == "illegal"


def test_all_lanes_must_take_part():
    text = program("m16n8k16.row.col.f32.bf16.bf16.f32", (4, 2, 4)).replace(
        "mma.sync", "setp.lt.u32 %p1, %r0, 31; @%p1 mma.sync"
    )
    assert refused(text, Finding, "lanes 0-30 only").kind == "divergence"
