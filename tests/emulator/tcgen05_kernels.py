"""PTX with tcgen05 for the tests: 128 threads bring an image of shared memory, compute, and store tensor memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalec.emulator.stats import Stats
from tests.emulator.harness import Out, module, run_ptx

STEP = 2048  # bytes that 128 threads copy at once


def registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def descriptor(target: str, offset: int, leading: int, stride: int, swizzle: int = 0) -> str:
    """PTX that makes the descriptor of a matrix at an offset of `buf`; swizzle: the field in bits 61-63."""
    constant = leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | swizzle << 61
    return f"""
    add.u32 %r20, %r3, {offset};
    shr.u32 %r20, %r20, 4;
    cvt.u64.u32 {target}, %r20;
    or.b64 {target}, {target}, {constant};"""


# both CTAs of a pair have begun
MEET = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"


def prologue(size: int, columns: int, group: int = 1) -> str:
    """Copies `size` bytes of p0 into buf, allocates, initialises bar (count 1).

    %r1 thread, %r2 warp, %r3 buf, %r4 bar, %r8 the address in tensor memory, %r9 that of the warp's lanes; %p2: not in
    warp 0, %p3: not thread 0; %rd1 the image, %rd2 the output.
    """
    assert size % STEP == 0
    sync = "bar.sync 0;" if group == 1 else "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"
    return f"""
    .shared .align 1024 .b8 buf[{size}];
    .shared .align 8 .b64 bar;
    .shared .align 4 .b32 slot;
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    mov.b32 %r3, buf;
    mov.b32 %r4, bar;
    mov.b32 %r5, slot;
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    mov.u32 %r7, %cluster_ctarank;
    mul.wide.u32 %rd3, %r7, {size};
    add.u64 %rd1, %rd1, %rd3;
    shl.b32 %r6, %r1, 4;
COPY:
    cvt.u64.u32 %rd3, %r6;
    add.u64 %rd3, %rd1, %rd3;
    ld.global.v4.u32 {registers(10, 4)}, [%rd3];
    add.u32 %r7, %r3, %r6;
    st.shared.v4.u32 [%r7], {registers(10, 4)};
    add.u32 %r6, %r6, {STEP};
    setp.lt.u32 %p1, %r6, {size};
    @%p1 bra COPY;
    fence.proxy.async.shared::cta;
    setp.ne.u32 %p2, %r2, 0;
    setp.ne.u32 %p3, %r1, 0;
    {MEET if group == 2 else ""}
    @%p2 bra ALLOCATED;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r5], {columns};
    tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
    @%p3 bra INITIALISED;
    mbarrier.init.shared.b64 [%r4], 1;
    fence.mbarrier_init.release.cluster;
INITIALISED:
    bar.warp.sync -1;
ALLOCATED:
    bar.warp.sync -1;
    {sync}
    ld.shared.u32 %r8, [%r5];
    shl.b32 %r9, %r2, 21;
    add.u32 %r9, %r8, %r9;
    """


WAIT = """
    bar.warp.sync -1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4], 0;
    @!%p4 bra WAIT;
    tcgen05.fence::after_thread_sync;
"""


def load_out(columns: int) -> str:
    """Loads `columns` columns of the warp's lanes, 32x32b, and stores them: row = CTA * 128 + thread."""
    stores = "\n    ".join(f"st.global.u32 [%rd9+{4 * i}], %r{100 + i};" for i in range(columns))
    return f"""
    tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {registers(100, columns)}, [%r9];
    tcgen05.wait::ld.sync.aligned;
    mov.u32 %r22, %cluster_ctarank;
    shl.b32 %r22, %r22, 7;
    add.u32 %r22, %r22, %r1;
    mul.wide.u32 %rd9, %r22, {4 * columns};
    add.u64 %rd9, %rd2, %rd9;
    {stores}
"""


def epilogue(columns: int, group: int = 1) -> str:
    sync = "bar.sync 0;" if group == 1 else "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"
    return f"""
    tcgen05.fence::before_thread_sync;
    {sync}
    @%p2 bra END;
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r8, {columns};
END:
"""


def run(
    body: str, image: np.ndarray, size: int, *, ctas: int = 1, seed: int = 0, target: str = "sm_100a", **options: Any
) -> tuple[np.ndarray, Stats]:
    """Runs it with `size` bytes of output: (uint32, stats). `image`: the CTAs' shared memories, one after the other."""
    out = Out(size)
    stats = run_ptx(
        module(body, target=target), [image, out], grid=(ctas, 1, 1), block=(128, 1, 1),
        cluster=(ctas, 1, 1) if ctas > 1 else None, seed=seed, **options,
    )  # fmt: skip
    return out.view(np.uint32), stats


# -- images of shared memory -------------------------------------------------------------------------------------------


def core_matrices(rows: np.ndarray) -> np.ndarray:
    """K-major, no swizzle: a matrix (rows, bytes) as 8x16-byte pieces, along K first: LBO 128, SBO 8 * bytes."""
    count, width = rows.shape
    pieces = rows.reshape(count // 8, 8, width // 16, 16).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(pieces).reshape(-1)


def swizzled_128(rows: np.ndarray) -> np.ndarray:
    """K-major, 128-byte swizzle: rows of 128 bytes, chunk c of row r at place c XOR r % 8."""
    count, width = rows.shape
    assert width == 128
    chunks = rows.reshape(count, 8, 16)
    out = np.empty_like(chunks)
    for row in range(count):
        out[row, np.arange(8) ^ row % 8] = chunks[row]
    return out.reshape(-1)


def m_major_128(rows: np.ndarray) -> np.ndarray:
    """MN-major, 128-byte swizzle: (rows, K) of two-byte elements, K = 16: groups of 64 rows, of eight elements of K
    each, as lines of 128 bytes: LBO 2048 to the next 64 rows, SBO 1024 to the next 8 of K."""
    count, k = rows.shape
    lines = rows.reshape(count // 64, 64, k // 8, 8).transpose(0, 2, 3, 1)  # (group, k / 8, k % 8, 64 rows)
    lines = np.ascontiguousarray(lines).view(np.uint8).reshape(-1, 128)
    return swizzled_128(lines)


def m_major_32(rows: np.ndarray, gap: int) -> np.ndarray:
    """MN-major, 128-byte swizzle of 32-byte atoms: (rows, 8) of four-byte elements: groups of 32 rows, of four elements
    of K each, as lines of 128 bytes, atom c of line k at place c XOR k % 4. SBO 512 + `gap` to the next four of K, LBO
    twice that to the next 32 rows. `gap`: a multiple of 512, or the lines' numbers would change places.
    """
    count, k = rows.shape
    atoms = np.ascontiguousarray(rows.reshape(count // 32, 32, k // 4, 4).transpose(0, 2, 3, 1)).view(np.uint8)
    atoms = atoms.reshape(-1, 4, 4, 32)  # (four of K of 32 rows, one of K, atoms of a line)
    out = np.full((len(atoms), 512 + gap), 0xFF, np.uint8)
    for line in range(4):
        for atom in range(4):
            place = 128 * line + 32 * (atom ^ line)
            out[:, place : place + 32] = atoms[:, line, atom]
    return out.reshape(-1)


def scale_source(scales: np.ndarray) -> np.ndarray:
    """Scale factors (rows, 4) uint8 as tcgen05.cp.32x128b.warpx4 wants them, 512 bytes for 128 rows: row r is word
    r / 32 of line r % 32, lines of 16 bytes."""
    rows = -(-len(scales) // 128) * 128
    padded = np.zeros((rows, 4), np.uint8)
    padded[: len(scales)] = scales
    lines = padded.reshape(rows // 128, 4, 32, 4).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(lines).reshape(-1)


def image(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """Parts at multiples of 1024 bytes: the image, padded to whole steps, and where each part begins."""
    offsets, at = [], 0
    for part in parts:
        offsets.append(at)
        at += -(-part.nbytes // 1024) * 1024
    whole = np.zeros(-(-at // STEP) * STEP, np.uint8)
    for offset, part in zip(offsets, parts, strict=True):
        whole[offset : offset + part.nbytes] = part.reshape(-1).view(np.uint8)
    return whole, offsets
