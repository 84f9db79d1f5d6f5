"""tcgen05.mma and tcgen05.cp of one CTA, each against values worked out here with numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled
from tests.emulator.harness import module, run_ptx
from tests.emulator.tcgen05_kernels import (
    WAIT,
    core_matrices,
    descriptor,
    epilogue,
    image,
    load_out,
    m_major_32,
    m_major_128,
    prologue,
    registers,
    run,
    scale_source,
    swizzled_128,
)

EMPTY = np.zeros(2048, np.uint8)
RNG = np.random.default_rng(5)
E4M3, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn


# -- products ----------------------------------------------------------------------------------------------------------


def idesc(kind: str, m: int, n: int, a: int = 0, b: int = 0, **bits: int) -> int:
    """Tables 42 to 44: f32 accumulators; a, b: codes of the types."""
    named = {"a_major": 15, "b_major": 16, "negate_a": 13, "negate_b": 14, "a_id": 29, "b_id": 4, "ue8m0": 23, "f16": 4}
    word = a << 7 | b << 10 | n >> 3 << 17
    word |= m >> 7 << 27 if kind.startswith("mx") else m >> 4 << 24 | 1 << 4
    for name, value in bits.items():
        if name == "f16":  # the accumulator
            word &= ~(1 << 4)
        else:
            word |= value << named[name]
    return word


def product(
    kind: str, n: int, word: int, a: str, b: str, *, out: int = 0, more: str = "", group: int = 1, size: int = 0,
    steps: int = 1, advance: int = 0, before: str = "",
) -> str:  # fmt: skip
    """A kernel: D = A B^T in `steps` steps of K, `advance` bytes of both operands apart; a, b make %rd4, %rd5."""
    suffix = f"cta_group::{group}.kind::{kind}"
    lines = ""
    for step in range(steps):
        flag = "%p6" if step else "%p5"
        lines += f"""
    tcgen05.mma.{suffix} [%r8], %rd4, %rd5, %r25{more}, {flag};
    add.u64 %rd4, %rd4, {advance >> 4};
    add.u64 %rd5, %rd5, {advance >> 4};"""
    return f"""{prologue(size, 128, group)}
    @%p3 bra ISSUED;
    setp.ne.u32 %p5, 0, 0;
    setp.eq.u32 %p6, 0, 0;
    mov.b32 %r25, {word};
    {a}
    {b}
    {before}
    {lines}
    tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64 [%r4];
ISSUED:
    {WAIT}
    {load_out(out or n)}
    {epilogue(128, group)}"""


def random(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def raw(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint8)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("seed", range(3))
def test_f16_without_a_swizzle(seed):
    a, b = random((128, 16), np.float16), random((64, 16), np.float16)
    data, (at_a, at_b) = image([core_matrices(raw(a)), core_matrices(raw(b))])
    body = product("f16", 64, idesc("f16", 128, 64), descriptor("%rd4", at_a, 128, 256),
                   descriptor("%rd5", at_b, 128, 256), size=data.size)  # fmt: skip
    found, stats = run(body, data, 128 * 64 * 4, seed=seed)
    np.testing.assert_allclose(found.view(np.float32).reshape(128, 64), exact(a, b), rtol=1e-6, atol=1e-6)
    assert stats.counts["tcgen05.mma"] == 1
    assert stats.counts["tensor operations"] == 128 * 64 * 16
    assert stats.bytes["shared -> tensor core"] == (128 + 64) * 32


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize(("a_type", "b_type"), [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)])
def test_integers(a_type, b_type, saturate):
    """Two steps along K from an accumulator near the end of 32 bits: sums wrap, or stop at the greatest number."""
    a, b = (
        RNG.integers(np.iinfo(t).min, np.iinfo(t).max, (rows, 64), t, endpoint=True)
        for t, rows in ((a_type, 128), (b_type, 32))
    )
    data, (at_a, at_b) = image([swizzled_128(raw(np.pad(x, ((0, 0), (0, 64))))) for x in (a, b)])
    word = (
        (2 << 4) | saturate << 3 | (a_type == np.int8) << 7 | (b_type == np.int8) << 10 | 32 >> 3 << 17 | 128 >> 4 << 24
    )
    body = product("i8", 32, word, descriptor("%rd4", at_a, 16, 1024, 2),
                   descriptor("%rd5", at_b, 16, 1024, 2), size=data.size, steps=2, advance=32)  # fmt: skip
    old = 2**31 - 40000
    filled = f"mov.b32 %r200, {old};" + "".join(
        f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9+{column}], {{%r200}};" for column in range(32)
    )
    filled += "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0;"
    body = body.replace("@%p3 bra ISSUED;", f"{filled} tcgen05.fence::after_thread_sync; @%p3 bra ISSUED;", 1)
    body = body.replace("%r25, %p5;", "%r25, %p6;")
    found, _ = run(body, data, 128 * 32 * 4)
    total = np.full((128, 32), old, np.int64)
    for step in (0, 32):
        total += a[:, step : step + 32].astype(np.int64) @ b[:, step : step + 32].astype(np.int64).T
        total = np.clip(total, -(2**31), 2**31 - 1) if saturate else (total + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(found.view(np.int32).reshape(128, 32), total)


def test_integers_of_another_target():
    line = "tcgen05.mma.cta_group::1.kind::i8 [%r8], %rd4, %rd5, %r25, %p5;"
    with pytest.raises(Finding, match="sm_103a"):
        run(prologue(2048, 32) + line, EMPTY, 4, target="sm_103a")


def test_bf16_with_a_swizzle_and_steps_along_k():
    a, b = random((128, 64), ml_dtypes.bfloat16), random((32, 64), ml_dtypes.bfloat16)
    data, (at_a, at_b) = image([swizzled_128(raw(a)), swizzled_128(raw(b))])
    body = product("f16", 32, idesc("f16", 128, 32, 1, 1), descriptor("%rd4", at_a, 16, 1024, 2),
                   descriptor("%rd5", at_b, 16, 1024, 2), size=data.size, steps=4, advance=32)  # fmt: skip
    found, _ = run(body, data, 128 * 32 * 4)
    np.testing.assert_allclose(found.view(np.float32).reshape(128, 32), exact(a, b), rtol=1e-5, atol=1e-5)


def test_m_major_and_negated():
    a, b = random((128, 16), np.float16), random((64, 16), np.float16)
    data, (at_a, at_b) = image([m_major_128(a), core_matrices(raw(b))])
    word = idesc("f16", 128, 64, a_major=1, negate_a=1)
    body = product("f16", 64, word, descriptor("%rd4", at_a, 2048, 1024, 2), descriptor("%rd5", at_b, 128, 256),
                   size=data.size)  # fmt: skip
    found, _ = run(body, data, 128 * 64 * 4)
    np.testing.assert_allclose(found.view(np.float32).reshape(128, 64), -exact(a, b), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("element", "code", "bits"), [(E2M1, 5, 4), (ml_dtypes.float6_e3m2fn, 4, 6), (ml_dtypes.float6_e2m3fn, 3, 6)]
)
def test_m_and_n_major_of_few_bits(element, code, bits):
    """Sixteen along M or N are packed and padded to 16 bytes, as tensor copies of b4x16_p64 and b6x16_p32 leave them;
    DeepGEMM's FP4 operands are. The padding is read by nobody."""
    a, b = random((128, 32), element), random((128, 32), element)

    def columns(x: np.ndarray) -> np.ndarray:
        lanes = np.unpackbits(x.view(np.uint8).T.reshape(32, 8, 16, 1), axis=-1, bitorder="little")[..., :bits]
        packed = np.packbits(lanes.reshape(32, 8, -1), axis=-1, bitorder="little")
        padding = np.full((32, 8, 16 - 2 * bits), 0xEE, np.uint8)
        return swizzled_128(np.concatenate([packed, padding], -1).reshape(32, 128))

    data, (at_a, at_b) = image([columns(a), columns(b)])
    body = product("f8f6f4", 64, idesc("f8f6f4", 128, 64, code, code, a_major=1, b_major=1),
                   descriptor("%rd4", at_a, 2048, 1024, 2), descriptor("%rd5", at_b, 2048, 1024, 2),
                   size=data.size)  # fmt: skip
    found, _ = run(body, data, 128 * 64 * 4)
    np.testing.assert_allclose(found.view(np.float32).reshape(128, 64), exact(a, b[:64]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("gap", [0, 512])
def test_m_and_n_major_tf32_in_32_byte_atoms(gap):
    """Swizzle mode 1, which .kind::tf32 alone transposes (9.7.16.10.1); groups of four of K (9.7.16.10.6, table 55)."""
    a, b = random((128, 8), np.float32), random((64, 8), np.float32)
    a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    data, (at_a, at_b) = image([m_major_32(a, gap), m_major_32(b, gap)])
    stride = 512 + gap
    body = product("tf32", 64, idesc("tf32", 128, 64, 2, 2, a_major=1, b_major=1),
                   descriptor("%rd4", at_a, 2 * stride, stride, 1), descriptor("%rd5", at_b, 2 * stride, stride, 1),
                   size=data.size)  # fmt: skip
    found, _ = run(body, data, 128 * 64 * 4)
    np.testing.assert_allclose(found.view(np.float32).reshape(128, 64), exact(a, b), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "element", "mode"), [("tf32", np.float32, 2), ("f16", np.float16, 1)])
def test_transposes_in_the_other_atoms(kind, element, mode):
    a = random((128, 16 if kind == "f16" else 8), element)
    data, (at_a, at_b) = image([raw(a), raw(a)])
    types = (2, 2) if kind == "tf32" else (0, 0)
    body = product(kind, 64, idesc(kind, 128, 64, *types, a_major=1), descriptor("%rd4", at_a, 2048, 1024, mode),
                   descriptor("%rd5", at_b, 128, 256), size=data.size)  # fmt: skip
    with pytest.raises(Finding, match="MN-major operand of") as caught:
        run(body, data, 128 * 64 * 4)
    assert caught.value.kind == "descriptor"


def test_m_of_64_lies_in_half_of_the_lanes():
    """Layout F: row r in lane r % 16 + 32 * (r / 16)."""
    a, b = random((64, 8), np.float32), random((16, 8), np.float32)
    a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    data, (at_a, at_b) = image([core_matrices(raw(a)), core_matrices(raw(b))])
    body = product("tf32", 16, idesc("tf32", 64, 16, 2, 2), descriptor("%rd4", at_a, 128, 256),
                   descriptor("%rd5", at_b, 128, 256), size=data.size)  # fmt: skip
    found, _ = run(body, data, 128 * 16 * 4, ignore=frozenset({"uninitialised"}))
    rows = found.view(np.float32).reshape(4, 32, 16)[:, :16].reshape(64, 16)
    np.testing.assert_allclose(rows, exact(a, b), rtol=1e-6, atol=1e-6)


def test_ws_with_m_of_32_lies_in_four_parts():
    """Layout G: columns of D in four quarters, which lie below each other."""
    a, b = random((32, 16), np.float16), random((64, 16), np.float16)
    data, (at_a, at_b) = image([core_matrices(raw(a)), core_matrices(raw(b))])
    body = product("f16", 16, idesc("f16", 32, 64), descriptor("%rd4", at_a, 128, 256),
                   descriptor("%rd5", at_b, 128, 256), size=data.size)  # fmt: skip
    found, _ = run(body.replace("tcgen05.mma.", "tcgen05.mma.ws."), data, 128 * 16 * 4)
    parts = found.view(np.float32).reshape(4, 32, 16).transpose(1, 0, 2).reshape(32, 64)
    np.testing.assert_allclose(parts, exact(a, b), rtol=1e-6, atol=1e-6)


def test_an_accumulator_of_f16():
    a, b = random((128, 32), E4M3), random((16, 32), ml_dtypes.float8_e5m2)
    data, (at_a, at_b) = image([core_matrices(raw(a)), core_matrices(raw(b))])
    body = product("f8f6f4", 16, idesc("f8f6f4", 128, 16, 0, 1, f16=1), descriptor("%rd4", at_a, 128, 256),
                   descriptor("%rd5", at_b, 128, 256), size=data.size)  # fmt: skip
    found, _ = run(body, data, 128 * 16 * 4)
    np.testing.assert_array_equal(found.reshape(128, 16), exact(a, b).astype(np.float16).view(np.uint16))


def test_a_scaled_and_masked_accumulator():
    """scale-input-d of 2 quarters the old D; lanes 1 and 127 are disabled."""
    a, b = random((128, 32), np.float16), random((16, 32), np.float16)
    data, (at_a, at_b) = image([core_matrices(raw(a)), core_matrices(raw(b))])
    body = product("f16", 16, idesc("f16", 128, 16), descriptor("%rd4", at_a, 128, 512),
                   descriptor("%rd5", at_b, 128, 512), size=data.size, steps=2, advance=256)  # fmt: skip
    second = "tcgen05.mma.cta_group::1.kind::f16 [%r8], %rd4, %rd5, %r25, %p6;"
    assert second in body
    masked = "mov.b32 %r30, 2; mov.b32 %r31, 0; mov.b32 %r33, 0x80000000;"
    masked += second.replace("%r25, %p6", "%r25, {%r30, %r31, %r31, %r33}, %p6, 2")
    found, _ = run(body.replace(second, masked), data, 128 * 16 * 4)
    first, rest = exact(a[:, :16], b[:, :16]), exact(a[:, 16:], b[:, 16:])
    expected = first / 4 + rest
    expected[[1, 127]] = first[[1, 127]]
    np.testing.assert_allclose(found.view(np.float32).reshape(128, 16), expected, rtol=1e-5, atol=1e-5)


def test_a_matrix_a_in_tensor_memory():
    """32 bytes of each row of A lie in eight columns, here those from 64."""
    a, b = random((128, 16), np.float16), random((64, 16), np.float16)
    data, (at_a, at_b) = image([raw(a), core_matrices(raw(b))])
    body = product("f16", 64, idesc("f16", 128, 64), "", descriptor("%rd5", at_b, 128, 256), size=data.size)
    store = f"""
    shl.b32 %r40, %r1, 5;
    add.u32 %r40, %r40, %r3;
    ld.shared.v4.u32 {registers(41, 4)}, [%r40+{at_a}];
    ld.shared.v4.u32 {registers(45, 4)}, [%r40+{at_a + 16}];
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r9+64], {registers(41, 8)};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%p3 bra ISSUED;"""
    body = body.replace("    @%p3 bra ISSUED;", store).replace("[%r8], %rd4,", "[%r8], [%r8+64],")
    found, stats = run(body, data, 128 * 64 * 4)
    np.testing.assert_allclose(found.view(np.float32).reshape(128, 64), exact(a, b), rtol=1e-6, atol=1e-6)
    assert stats.bytes["tensor memory -> tensor core"] == 128 * 32


# -- block scaling -----------------------------------------------------------------------------------------------------

COPY_SCALES = "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r8+{column}], {source};"


def scaled(kind: str, qualifier: str, word: int, n: int, data: np.ndarray, offsets: list[int], *, ids: int) -> str:
    """`ids` steps of K with scale factor IDs 4 / ids apart, A and B in 8x16-byte pieces of 128-byte rows."""
    at_a, at_b, at_sa, at_sb = offsets
    copies = descriptor("%rd6", at_sa, 16, 128) + descriptor("%rd7", at_sb, 16, 128)
    copies += COPY_SCALES.format(column=64, source="%rd6") + COPY_SCALES.format(column=68, source="%rd7")
    body = product(f"{kind}.block_scale.{qualifier}", n, word, descriptor("%rd4", at_a, 128, 1024),
                   descriptor("%rd5", at_b, 128, 1024), more=", [%r8+64], [%r8+68]", size=data.size, steps=ids,
                   advance=256, before=copies)  # fmt: skip
    step = (1 << 29 | 1 << 4) * (4 // ids)
    return body.replace("add.u64 %rd4, %rd4,", f"add.u32 %r25, %r25, {step};\n    add.u64 %rd4, %rd4,")


@pytest.mark.parametrize("seed", range(2))
def test_mxf8f6f4_with_distinct_scales(seed):
    a, b = random((128, 128), E4M3), random((64, 128), E4M3)
    sa, sb = RNG.integers(120, 135, (128, 4)).astype(np.uint8), RNG.integers(120, 135, (64, 4)).astype(np.uint8)
    data, offsets = image([core_matrices(raw(a)), core_matrices(raw(b)), scale_source(sa), scale_source(sb)])
    body = scaled("mxf8f6f4", "block32", idesc("mxf8f6f4", 128, 64, ue8m0=1), 64, data, offsets, ids=4)
    found, stats = run(body, data, 128 * 64 * 4, seed=seed)
    full_a = a.astype(np.float64) * np.repeat(2.0 ** (sa.astype(float) - 127), 32, 1)
    full_b = b.astype(np.float64) * np.repeat(2.0 ** (sb.astype(float) - 127), 32, 1)
    np.testing.assert_allclose(found.view(np.float32).reshape(128, 64), full_a @ full_b.T, rtol=1e-5, atol=1e-3)
    assert stats.counts["tcgen05.cp"] == 2
    assert stats.bytes["shared -> tensor memory"] == 1024


@pytest.mark.parametrize(
    ("kind", "qualifier", "factors", "ids"), [("mxf4nvf4", "block16", 4, 1), ("mxf4", "scale_vec::2X", 2, 2)]
)
def test_fp4_with_distinct_scales(kind, qualifier, factors, ids):
    k = 64 * ids
    a, b = (RNG.integers(0, 16, (rows, k)).astype(np.uint8) for rows in (128, 64))
    ue4m3 = factors == 4
    scale_type = E4M3 if ue4m3 else ml_dtypes.float8_e8m0fnu
    sa, sb = (RNG.uniform(0.25, 8, (rows, 4)).astype(scale_type) for rows in (128, 64))
    parts = []
    for codes in (a, b):  # 32 bytes of K to a step, in rows of 128 bytes so that both kinds step alike
        packed = np.zeros((len(codes), 128), np.uint8)
        packed[:, : k // 2] = codes[:, ::2] | codes[:, 1::2] << 4
        parts.append(core_matrices(packed))
    data, offsets = image([*parts, scale_source(raw(sa)), scale_source(raw(sb))])
    word = idesc(kind, 128, 64, 1, 1) | (0 if ue4m3 else 1 << 23)
    found, _ = run(scaled(kind, qualifier, word, 64, data, offsets, ids=ids), data, 128 * 64 * 4)
    width = 64 // factors
    full_a, full_b = (
        codes.view(E2M1).astype(np.float64) * np.repeat(s.astype(np.float64)[:, : factors * ids], width, 1)
        for codes, s in ((a, sa), (b, sb))
    )
    np.testing.assert_allclose(found.view(np.float32).reshape(128, 64), full_a @ full_b.T, rtol=1e-6, atol=1e-4)


def test_fp4_of_mxf8f6f4_is_padded_in_shared_memory():
    """16 elements in 8 bytes, then 8 bytes of padding, whatever they hold."""
    codes, b = RNG.integers(0, 16, (128, 32)).astype(np.uint8), random((16, 32), E4M3)
    a = np.full((128, 2, 16), 0xA5, np.uint8)
    a[..., :8] = (codes[:, ::2] | codes[:, 1::2] << 4).reshape(128, 2, 8)
    data, (at_a, at_b) = image([core_matrices(a.reshape(128, 32)), core_matrices(raw(b))])
    body = product("f8f6f4", 16, idesc("f8f6f4", 128, 16, 5, 0), descriptor("%rd4", at_a, 128, 256),
                   descriptor("%rd5", at_b, 128, 256), size=data.size)  # fmt: skip
    found, _ = run(body, data, 128 * 16 * 4)
    np.testing.assert_allclose(found.view(np.float32).reshape(128, 16), exact(codes.view(E2M1), b), rtol=1e-6)


# -- copies ------------------------------------------------------------------------------------------------------------


def copied(shape: str, at: int, columns: int, words: np.ndarray) -> np.ndarray:
    """Tensor memory (128, columns) after a copy of `words` (rows, words of a row), zero elsewhere."""
    data, (start,) = image([core_matrices(raw(words))])
    zeros = "{" + ", ".join(["%r99"] * columns) + "}"
    body = f"""{prologue(data.size, 32)}
    mov.b32 %r99, 0;
    tcgen05.st.sync.aligned.32x32b.x{columns}.b32 [%r9], {zeros};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%p3 bra ISSUED;
    {descriptor("%rd4", start, 128, 8 * words.shape[1] * 4)}
    tcgen05.cp.cta_group::1.{shape} [%r8+{at}], %rd4;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];
ISSUED:
    {WAIT}
    {load_out(columns)}
    {epilogue(32)}"""
    return run(body, data, 128 * columns * 4)[0].reshape(128, columns)


def test_a_copy_of_128_lanes():
    words = RNG.integers(0, 1 << 32, (128, 8), np.uint32)
    expected = np.zeros((128, 16), np.uint32)
    expected[:, 4:12] = words
    np.testing.assert_array_equal(copied("128x256b", 4, 16, words), expected)


def test_a_copy_of_what_was_never_written():
    """Scale factors are copied in blocks of 128 rows, of which a product of 32 takes some: what is taken decides."""
    data = np.zeros(2048, np.uint8)
    copy = f"""{prologue(2048, 32)}
    .shared .align 1024 .b8 more[512];
    mov.b32 %r3, more;
    @%p3 bra ISSUED;
    {descriptor("%rd4", 0, 128, 128)}
    tcgen05.cp.cta_group::1.32x128b.warpx4 [%r8], %rd4;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];
ISSUED:
    {WAIT}"""
    run(f"{copy}{epilogue(32)}", data, 128 * 4)
    with pytest.raises(
        Finding, match=r"register %r100 has no value .* is used here: .* column \d+ of .* was never written"
    ):
        run(f"{copy}{load_out(4)}{epilogue(32)}", data, 128 * 4 * 4)


def test_a_copy_to_pairs_of_warps():
    """.warpx2::02_13: the first 32 rows go to warps 0 and 2, the others to warps 1 and 3."""
    words = RNG.integers(0, 1 << 32, (64, 4), np.uint32)
    np.testing.assert_array_equal(copied("64x128b.warpx2::02_13", 0, 4, words), np.concatenate([words, words]))
    expected = np.concatenate([words[:32], words[:32], words[32:], words[32:]])
    np.testing.assert_array_equal(copied("64x128b.warpx2::01_23", 0, 4, words), expected)


def test_a_copy_that_decompresses():
    """16 codes of 4 bits become 16 bytes, each code in bits 2 to 5 (figure 195)."""
    codes = RNG.integers(0, 16, (128, 16)).astype(np.uint8)
    source = np.zeros((128, 16), np.uint8)
    source[:, :8] = codes[:, ::2] | codes[:, 1::2] << 4
    found = copied("128x128b.b8x16.b4x16_p64", 0, 4, source.view(np.uint32))
    np.testing.assert_array_equal(raw(found).reshape(128, 16), codes << 2)


# -- refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "tcgen05.shift.down.cta_group::1 [%r8];",
        "tcgen05.mma.sp.cta_group::1.kind::f16 [%r8], [%r9], %rd5, [%r9], %r25, %p5;",
        "tcgen05.mma.ws.sp.cta_group::1.kind::f16 [%r8], %rd4, %rd5, [%r9], %r25, %p5;",
        "tcgen05.mma.ws.cta_group::1.kind::f16 [%r8], [%r9], %rd5, %r25, %p5;",
    ],
)
def test_what_is_not_modelled(line):
    operands = "setp.eq.u32 %p5, 0, 0; mov.u64 %rd4, 0; mov.u64 %rd5, 0; mov.u32 %r25, 0;"
    with pytest.raises(NotModelled):
        run(prologue(2048, 32) + operands + line, EMPTY, 4)


def test_both_cta_groups_in_a_kernel():
    mixed = prologue(2048, 32) + "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r8, 32;"
    with pytest.raises(Finding, match=r"cta_group::1 and with \.cta_group::2"):
        run(mixed, EMPTY, 4)


def test_another_target():
    with pytest.raises(Finding, match="sm_90a"):
        run_ptx(module("tcgen05.wait::ld.sync.aligned;"), [EMPTY, EMPTY])
