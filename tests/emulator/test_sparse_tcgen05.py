"""tcgen05.mma.sp: every kind against numpy, the metadata's place in tensor memory, and what is found and refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from scalec.emulator.findings import Finding, NotModelled
from tests.emulator.harness import module
from tests.emulator.refusals import ptxas
from tests.emulator.sparse import Sparse, sparse
from tests.emulator.tcgen05_kernels import core_matrices, descriptor, image, run, scale_source
from tests.emulator.test_mma import draw
from tests.emulator.test_tcgen05 import idesc, product, raw
from tests.emulator.test_tcgen05_pairs import pair

N, META = 16, 64  # columns of D, and where the metadata lie
# kind -> A's and B's type and their codes, bits of an element in shared memory, K, elements in a chunk, accumulator
KINDS = {
    "f16": ("f16", "f16", 0, 0, 16, 32, 4),
    "bf16": ("bf16", "bf16", 1, 1, 16, 32, 4),
    "tf32": ("tf32", "tf32", 2, 2, 32, 16, 2),
    "f8f6f4": ("e4m3", "e5m2", 0, 1, 8, 64, 4),
    "fp4": ("e2m1", "e4m3", 5, 0, 8, 64, 4),
    "i8": ("s8", "u8", 1, 0, 8, 64, 4),
    "mxf8f6f4": ("e4m3", "e4m3", 0, 0, 8, 64, 4),
    "mxf4": ("e2m1", "e2m1", 1, 1, 4, 128, 8),
    "mxf4nvf4": ("e2m1", "e2m1", 1, 1, 4, 128, 8),
}
SCALES = {  # kind -> its qualifiers, factors in a row, (code, value) of some
    "mxf8f6f4": ("block_scale.scale_vec::1X", 1, ((0x7F, 1.0), (0x81, 4.0), (0x7E, 0.5))),
    "mxf4": ("block_scale.scale_vec::2X", 2, ((0x7F, 1.0), (0x81, 4.0), (0x7E, 0.5))),
    "mxf4nvf4": ("block_scale.scale_vec::4X", 4, ((0x38, 1.0), (0x48, 4.0), (0x3C, 1.5))),
}


def metadata_words(metadata: np.ndarray, column: int) -> np.ndarray:
    """(128, 4) words of tensor memory, garbage but for the metadata from `column` on."""
    words = np.random.default_rng(0).integers(0, 1 << 32, (128, 4), dtype=np.uint32)
    rows, chunks = metadata.shape
    used = [column] if chunks == 8 else [column, column + 1]
    words[:, used] = 0
    for row in range(rows):
        for chunk in range(chunks):
            code = np.uint32(metadata[row, chunk])
            if chunks == 16:  # a row to a lane
                words[row, column + chunk // 8] |= code << np.uint32(4 * (chunk % 8))
            else:  # 16 rows to 16 lanes: 8 lanes for each half of K, two rows to a word
                lane = row // 16 * 16 + row % 8 + (8 if chunk >= 4 else 0)
                words[lane, column] |= code << np.uint32(16 * (row // 8 % 2) + 4 * (chunk % 4))
    return words


def stored_bytes(codes: np.ndarray, bits: int, kind: str) -> np.ndarray:
    if kind == "e2m1" and bits == 8:  # 16 elements in 8 bytes, and 8 of padding
        padded = np.full((len(codes), codes.shape[1] // 16, 16), 0xA5, np.uint8)
        padded[..., :8] = stored_bytes(codes, 4, kind).reshape(len(codes), -1, 8)
        return padded.reshape(len(codes), -1)
    if bits == 4:
        return (codes[:, ::2] | codes[:, 1::2] << np.uint64(4)).astype(np.uint8)
    return raw(codes.astype(f"u{bits // 8}"))


def case(name: str, seed: int = 1) -> tuple[Sparse, np.ndarray, np.ndarray]:
    a_type, b_type, _, _, _, k, chunk = KINDS[name]
    b, codes = draw(b_type, (N, k), seed + 5)
    return sparse(a_type, 128, k, chunk, seed), b, codes


def kernel(
    name: str,
    a: Sparse,
    codes: np.ndarray,
    words: np.ndarray,
    selector: int,
    at: int = META,
    scales: np.ndarray | None = None,
) -> tuple[str, np.ndarray]:
    """The PTX, and the image of shared memory; scales of both operands are 1 but for `scales` of A."""
    a_type, b_type, a_code, b_code, bits, _, _ = KINDS[name]
    kind = {"bf16": "f16", "fp4": "f8f6f4"}.get(name, name)
    operands = [stored_bytes(x, bits, t) for x, t in ((a.codes, a_type), (codes, b_type))]
    parts = [core_matrices(x) for x in (*operands, raw(words))]
    word, more = idesc(kind, 128, N, a_code, b_code) | 1 << 2 | selector, ""
    if name == "i8":
        word = word & ~(3 << 4) | 2 << 4
    suffix = kind
    if name in SCALES:
        qualifier, factors, values = SCALES[name]
        suffix, more = f"{kind}.{qualifier}", ", [%r40], [%r41]"
        word |= (name != "mxf4nvf4") << 23
        assert scales is not None
        codes_of = np.zeros((128, 4), np.uint8)
        codes_of[:, :factors] = np.array([c for c, _ in values], np.uint8)[scales]
        ones = np.full((128, 4), values[0][0], np.uint8)
        parts += [scale_source(codes_of), scale_source(ones)]
    data, offsets = image(parts)
    before = f"""
    add.u32 %r26, %r8, {at};
    add.u32 %r27, %r8, {META};
    {descriptor("%rd10", offsets[2], 128, 128)}
    tcgen05.cp.cta_group::1.128x128b [%r27], %rd10;"""
    if name in SCALES:
        before += f"""
    add.u32 %r40, %r8, 80; add.u32 %r41, %r8, 84;
    {descriptor("%rd10", offsets[3], 128, 128)} tcgen05.cp.cta_group::1.32x128b.warpx4 [%r40], %rd10;
    {descriptor("%rd10", offsets[4], 128, 128)} tcgen05.cp.cta_group::1.32x128b.warpx4 [%r41], %rd10;"""
    body = product(suffix, N, word, descriptor("%rd4", offsets[0], 128, 256), descriptor("%rd5", offsets[1], 128, 512),
                   size=data.size, before=before, more=more)  # fmt: skip
    return body.replace("tcgen05.mma.", "tcgen05.mma.sp.").replace("%rd5, %r25", "%rd5, [%r26], %r25"), data


def values(name: str, words: np.ndarray) -> np.ndarray:
    return words.view(np.int32 if name == "i8" else np.float32).reshape(128, N).astype(float)


@pytest.mark.parametrize(
    ("name", "selector"), [(n, s) for n in KINDS for s in range(2 if n in ("f16", "bf16", "tf32") else 1)]
)
def test_products(name: str, selector: int) -> None:
    """The metadata are the last columns that were copied; the others hold garbage."""
    a, b, codes = case(name)
    dense, scales = a.dense, None
    if name in SCALES:
        _, factors, legal = SCALES[name]
        scales = np.random.default_rng(3).integers(0, 3, (128, factors))
        dense = dense * np.repeat(np.array([v for _, v in legal])[scales], dense.shape[1] // factors, axis=1)
    body, data = kernel(name, a, codes, metadata_words(a.metadata, 2 + selector), selector, META + 2, scales)
    found, stats = run(body, data, 128 * N * 4)
    np.testing.assert_array_equal(values(name, found), dense @ b.T)
    assert stats.counts["tensor operations"] == 128 * N * KINDS[name][5]


def test_a_pair() -> None:
    """256 rows: each CTA has the metadata of its own ones."""
    a, (b, codes) = sparse("f16", 256, 32, 4, 1), draw("f16", (64, 32), 2)
    images, offsets = [], []
    for half in range(2):
        mine = [raw(np.split(x.astype(np.uint16), 2)[half]) for x in (a.codes, codes)]
        words = metadata_words(np.split(a.metadata, 2)[half], 1)
        data, offsets = image([core_matrices(x) for x in (*mine, raw(words))])
        images.append(data)
    before = f"""
    add.u32 %r26, %r8, {META};
    {descriptor("%rd10", offsets[2], 128, 128)}
    tcgen05.cp.cta_group::2.128x128b [%r26], %rd10;"""
    word = 1 << 4 | 64 >> 3 << 17 | 256 >> 4 << 24 | 1 << 2 | 1
    body = pair("f16", word, 64, 64, offsets[0], offsets[1], images[0].size, before=before)
    body = body.replace(descriptor("%rd5", offsets[1], 128, 256), descriptor("%rd5", offsets[1], 128, 512))
    body = body.replace("tcgen05.mma.", "tcgen05.mma.sp.").replace("%rd5, %r25", "%rd5, [%r26], %r25")
    found, _ = run(body, np.concatenate(images), 256 * 64 * 4, ctas=2)
    np.testing.assert_array_equal(found.view(np.float32).reshape(256, 64), a.dense @ b.T)


def test_a_wrong_selector_takes_the_other_column() -> None:
    a, b, codes = case("f16")
    words = metadata_words(a.metadata, 1)
    words[:, 0] = metadata_words(sparse("f16", 128, 32, 4, 50).metadata, 0)[:, 0]
    right, wrong = (
        values("f16", run(*kernel("f16", a, codes, words, selector), 128 * N * 4)[0]) for selector in (1, 0)
    )
    np.testing.assert_array_equal(right, a.dense @ b.T)
    assert (wrong != right).any()


def test_what_is_not_stored_of_a_meets_no_nan() -> None:
    a, b, codes = case("f16")
    codes[3, 5], b[3, 5] = 0x7E00, 0
    found = values("f16", run(*kernel("f16", a, codes, metadata_words(a.metadata, 0), 0), 128 * N * 4)[0])
    expected = np.where((a.dense[:, 5:6] != 0) & (np.arange(N) == 3), np.nan, a.dense @ b.T)
    np.testing.assert_array_equal(found, expected)
    assert 0 < np.isnan(found).sum() < 128


@pytest.mark.parametrize(("name", "code", "legal"), [
    ("f16", 0b0000, False), ("f16", 0b0001, False), ("f16", 0b0110, True), ("tf32", 0b1000, False),
    ("i8", 0b1111, False),
])  # fmt: skip
def test_malformed_metadata(name: str, code: int, legal: bool) -> None:
    """Falling indices are malformed but for 0b0110, which the ISA lists among the meaningful ones."""
    a, _, codes = case(name)
    a.metadata[77, 3] = code
    body, data = kernel(name, a, codes, metadata_words(a.metadata, 0), 0)
    if legal:
        run(body, data, 128 * N * 4)
        return
    with pytest.raises(Finding, match=f"metadata of {code:#06b} for chunk 3 of row 77 "):
        run(body, data, 128 * N * 4)


def test_metadata_are_judged_like_other_cells() -> None:
    a, _, codes = case("f16")
    body, data = kernel("f16", a, codes, metadata_words(a.metadata, 0), 0)
    with pytest.raises(Finding) as found:
        run(body.replace("tcgen05.cp.cta_group::1.128x128b [%r27], %rd10;", ""), data, 128 * N * 4)
    assert found.value.kind in ("tensor-memory", "uninitialised")
    with pytest.raises(Finding, match="metadata"):
        run(body.replace(f"add.u32 %r26, %r8, {META}", "add.u32 %r26, %r8, 128"), data, 128 * N * 4)


def test_what_is_refused() -> None:
    a, _, codes = case("f16")
    words = metadata_words(a.metadata, 0)
    for selector, at, error, kind in (
        (2, META, "selector of 2", NotModelled), (0, META + 1, "odd column", NotModelled),
        (0, META + (1 << 16), "at lane 1", Finding),
    ):  # fmt: skip
        with pytest.raises(kind, match=error):
            run(*kernel("f16", a, codes, words, selector, at), 128 * N * 4)
    body, data = kernel("f16", a, codes, words, 0)
    word = idesc("f16", 128, N) | 1 << 2
    for wrong, error, kind in (
        (word & ~4, "sparsity", Finding), (idesc("f16", 64, N) | 4, "M = 64", NotModelled),
    ):  # fmt: skip
        with pytest.raises(kind, match=error):
            run(body.replace(f"%r25, {word};", f"%r25, {wrong};"), data, 128 * N * 4)
    a, _, codes = case("i8")
    with pytest.raises(Finding, match="selector"):
        run(*kernel("i8", a, codes, metadata_words(a.metadata, 0), 1), 128 * N * 4)


def test_ptxas_takes_them(tmp_path: Path) -> None:
    for name in KINDS:
        a, _, codes = case(name)
        scales = np.zeros((128, SCALES[name][1] if name in SCALES else 1), int)
        body, _ = kernel(name, a, codes, metadata_words(a.metadata, 0), 0, scales=scales)
        path = tmp_path / f"{name}.ptx"
        path.write_text(module(body, target="sm_100a"))
        command = [ptxas(), "-arch=sm_100a", path, "-o", tmp_path / "k.cubin"]
        run_ = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run_.returncode == 0, run_.stdout + run_.stderr
