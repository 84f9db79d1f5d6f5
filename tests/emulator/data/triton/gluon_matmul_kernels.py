"""Gluon kernels that multiply matrices: wgmma and tcgen05 with their operands brought by TMA.

a[m, k] and b[n, k], both with K contiguous, unless said otherwise.
"""

# ruff: noqa: RUF005, SIM108 (the dialects have neither starred lists nor conditional expressions of buffers)

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
    tcgen05_mma_scaled,
    tma,
)
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait


@gluon.jit
def _load(a_map, b_map, a_ring, b_ring, full, i, j, step, B_ROWS_ARE_K: gl.constexpr):
    BK: gl.constexpr = a_map.block_shape[1]
    stage = step % a_ring.shape[0]
    bar = full.index(stage)
    mbarrier.expect(bar, a_map.nbytes_per_cta + b_map.nbytes_per_cta)
    tma.async_load(a_map, [i, step * BK], bar, a_ring.index(stage))
    if B_ROWS_ARE_K:
        tma.async_load(b_map, [step * BK, j], bar, b_ring.index(stage))
    else:
        tma.async_load(b_map, [j, step * BK], bar, b_ring.index(stage))


@gluon.jit
def wgmma_pipeline(a_map, b_map, c_map, k, STAGES: gl.constexpr, B_ROWS_ARE_K: gl.constexpr, A_REGISTERS: gl.constexpr):
    """A ring of STAGES buffers; the wgmma of one step overlaps the copies of later ones. b[k, n] if B_ROWS_ARE_K."""
    BM: gl.constexpr = c_map.block_shape[0]
    BN: gl.constexpr = c_map.block_shape[1]
    BK: gl.constexpr = a_map.block_shape[1]
    a_ring = gl.allocate_shared_memory(a_map.dtype, [STAGES] + a_map.block_shape, a_map.layout)
    b_ring = gl.allocate_shared_memory(b_map.dtype, [STAGES] + b_map.block_shape, b_map.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(full.index(each), count=1)
    i = gl.program_id(0) * BM
    j = gl.program_id(1) * BN
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[gl.num_warps(), 1], instr_shape=[16, BN, 256 // a_map.dtype.primitive_bitwidth]
    )
    steps = gl.cdiv(k, BK)
    for first in gl.static_range(STAGES - 1):
        if first < steps:
            _load(a_map, b_map, a_ring, b_ring, full, i, j, first, B_ROWS_ARE_K)
    sums = gl.zeros((BM, BN), gl.float32, layout)
    for step in range(steps):
        stage = step % STAGES
        mbarrier.wait(full.index(stage), step // STAGES & 1)
        if B_ROWS_ARE_K:
            b = b_ring.index(stage)
        else:
            b = b_ring.index(stage).permute((1, 0))
        if A_REGISTERS:
            a = a_ring.index(stage).load(gl.DotOperandLayout(0, layout, 32 // a_map.dtype.primitive_bitwidth))
            sums = warpgroup_mma(a, b, sums)
            fence_async_shared()
            gl.barrier()
        else:
            sums = warpgroup_mma(a_ring.index(stage), b, sums, is_async=True)
            sums = warpgroup_mma_wait(num_outstanding=0, deps=(sums,))
        if step + STAGES - 1 < steps:
            _load(a_map, b_map, a_ring, b_ring, full, i, j, step + STAGES - 1, B_ROWS_ARE_K)
    for each in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(each))
    c = gl.allocate_shared_memory(c_map.dtype, c_map.block_shape, c_map.layout)
    c.store(sums.to(c_map.dtype))
    fence_async_shared()
    tma.async_store(c_map, [i, j], c)
    tma.store_wait(0)


@gluon.jit
def _produce(a_map, b_map, a_ring, b_ring, full, empty, i, j, steps, MULTICAST: gl.constexpr):
    STAGES: gl.constexpr = a_ring.shape[0]
    BK: gl.constexpr = a_map.block_shape[1]
    for step in range(steps):
        stage = step % STAGES
        mbarrier.wait(empty.index(stage), step // STAGES & 1 ^ 1)
        bar = full.index(stage)
        mbarrier.expect(bar, a_map.nbytes_per_cta + b_map.nbytes_per_cta)
        tma.async_load(a_map, [i, step * BK], bar, a_ring.index(stage), multicast=MULTICAST)
        tma.async_load(b_map, [j, step * BK], bar, b_ring.index(stage), multicast=MULTICAST)


@gluon.jit
def _consume_wgmma(a_map, b_map, c, a_ring, b_ring, full, empty, i, j, n, steps, LAYOUT: gl.constexpr):
    STAGES: gl.constexpr = a_ring.shape[0]
    BM: gl.constexpr = a_map.block_shape[0]
    BN: gl.constexpr = b_map.block_shape[0]
    sums = gl.zeros((BM, BN), gl.float32, LAYOUT)
    for step in range(steps):
        stage = step % STAGES
        mbarrier.wait(full.index(stage), step // STAGES & 1)
        sums = warpgroup_mma(a_ring.index(stage), b_ring.index(stage).permute((1, 0)), sums)
        mbarrier.arrive(empty.index(stage))
    rows = i + gl.arange(0, BM, gl.SliceLayout(1, LAYOUT))
    columns = j + gl.arange(0, BN, gl.SliceLayout(0, LAYOUT))
    gl.store(c + rows[:, None] * n + columns[None, :], sums)


@gluon.jit
def wgmma_specialized(a_map, b_map, c, n, k, STAGES: gl.constexpr):
    """One warp loads, a warpgroup multiplies."""
    BM: gl.constexpr = a_map.block_shape[0]
    BN: gl.constexpr = b_map.block_shape[0]
    a_ring = gl.allocate_shared_memory(a_map.dtype, [STAGES] + a_map.block_shape, a_map.layout)
    b_ring = gl.allocate_shared_memory(b_map.dtype, [STAGES] + b_map.block_shape, b_map.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(full.index(each), count=1)
        mbarrier.init(empty.index(each), count=1)
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[gl.num_warps(), 1], instr_shape=[16, BN, 256 // a_map.dtype.primitive_bitwidth]
    )
    i = gl.program_id(0) * BM
    j = gl.program_id(1) * BN
    steps = gl.cdiv(k, a_map.block_shape[1])
    gl.warp_specialize(
        [
            (_consume_wgmma, (a_map, b_map, c, a_ring, b_ring, full, empty, i, j, n, steps, layout)),
            (_produce, (a_map, b_map, a_ring, b_ring, full, empty, i, j, steps, False)),
        ],
        [1],
        [24],
    )


@gluon.jit
def wgmma_multicast(a_map, b_map, c, n, k):
    """Two CTAs, each with its half of a's rows; b arrives once and is copied to both."""
    BM: gl.constexpr = a_map.block_shape[0]
    BN: gl.constexpr = b_map.block_shape[0]
    BK: gl.constexpr = a_map.block_shape[1]
    a_tile = gl.allocate_shared_memory(a_map.dtype, a_map.block_shape, a_map.layout)
    b_tile = gl.allocate_shared_memory(b_map.dtype, b_map.block_shape, b_map.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[gl.num_warps(), 1],
        instr_shape=[16, BN, 256 // a_map.dtype.primitive_bitwidth], cga_layout=a_map.layout.cga_layout,
    )  # fmt: skip
    i = gl.program_id(0) * BM
    j = gl.program_id(1) * BN
    sums = gl.zeros((BM, BN), gl.float32, layout)
    for step in range(gl.cdiv(k, BK)):
        mbarrier.expect(full, a_map.nbytes_per_cta + b_map.nbytes_per_cta)
        tma.async_load(a_map, [i, step * BK], full, a_tile, multicast=True)
        tma.async_load(b_map, [j, step * BK], full, b_tile, multicast=True)
        mbarrier.wait(full, step & 1, deps=[a_tile, b_tile])
        sums = warpgroup_mma(a_tile, b_tile.permute((1, 0)), sums)
        gl.barrier(cluster=True)
    mbarrier.invalidate(full)
    rows = i + gl.arange(0, BM, gl.SliceLayout(1, layout))
    columns = j + gl.arange(0, BN, gl.SliceLayout(0, layout))
    gl.store(c + rows[:, None] * n + columns[None, :], sums)


@gluon.jit
def tcgen05_pipeline(a_map, b_map, c_map, k, STAGES: gl.constexpr, A_IN_TENSOR_MEMORY: gl.constexpr):
    """tcgen05.mma by one CTA from a ring of buffers, waiting for the mma of the step before."""
    BM: gl.constexpr = c_map.block_shape[0]
    BN: gl.constexpr = c_map.block_shape[1]
    BK: gl.constexpr = a_map.block_shape[1]
    a_ring = gl.allocate_shared_memory(a_map.dtype, [STAGES] + a_map.block_shape, a_map.layout)
    b_ring = gl.allocate_shared_memory(b_map.dtype, [STAGES] + b_map.block_shape, b_map.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(full.index(each), count=1)
        mbarrier.init(done.index(each), count=1)
    accumulator = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    if A_IN_TENSOR_MEMORY:
        a_copy = allocate_tensor_memory(a_map.dtype, [BM, BK], TensorMemoryLayout([BM, BK], col_stride=1))
    i = gl.program_id(0) * BM
    j = gl.program_id(1) * BN
    steps = gl.cdiv(k, BK)
    for step in range(steps + STAGES - 1):
        if step < steps:
            mbarrier.wait(done.index(step % STAGES), step // STAGES & 1 ^ 1)
            _load(a_map, b_map, a_ring, b_ring, full, i, j, step, False)
        late = step - (STAGES - 1)
        if late >= 0:
            stage = late % STAGES
            mbarrier.wait(full.index(stage), late // STAGES & 1)
            b = b_ring.index(stage).permute((1, 0))
            if A_IN_TENSOR_MEMORY:
                # the mma before reads the same tensor memory
                mbarrier.wait(done.index((late + STAGES - 1) % STAGES), (late - 1) // STAGES & 1, pred=late > 0)
                a_copy.store(a_ring.index(stage).load(a_copy.get_reg_layout()))
                tcgen05_mma(a_copy, b, accumulator, use_acc=late > 0, mbarriers=[done.index(stage)])
            else:
                tcgen05_mma(a_ring.index(stage), b, accumulator, use_acc=late > 0)
                tcgen05_commit(done.index(stage))
    last = steps - 1
    mbarrier.wait(done.index(last % STAGES), last // STAGES & 1)
    for each in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(each))
        mbarrier.invalidate(done.index(each))
    c = gl.allocate_shared_memory(c_map.dtype, c_map.block_shape, c_map.layout)
    c.store(accumulator.load().to(c_map.dtype))
    fence_async_shared()
    tma.async_store(c_map, [i, j], c)
    tma.store_wait(0)


@gluon.jit
def tcgen05_pair(a_map, b_map, c_map, k, BN: gl.constexpr, MULTICAST: gl.constexpr):
    """cta_group::2: each CTA holds half of a's rows, half of b's rows and half of the accumulator's."""
    BM: gl.constexpr = a_map.block_shape[0]
    BK: gl.constexpr = a_map.block_shape[1]
    a_tile = gl.allocate_shared_memory(a_map.dtype, a_map.block_shape, a_map.layout)
    b_tile = gl.allocate_shared_memory(b_map.dtype, b_map.block_shape, b_map.layout)
    full = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=tcgen05_mma_barrier_count([a_tile, b_tile], MULTICAST, True))
    halves: gl.constexpr = a_map.layout.cga_layout
    accumulator = allocate_tensor_memory(
        gl.float32, [BM, BN], TensorMemoryLayout((BM // 2, BN), col_stride=1, cga_layout=halves, two_ctas=True)
    )
    i = gl.program_id(0) * BM
    j = gl.program_id(1) * BN
    for step in range(gl.cdiv(k, BK)):
        mbarrier.expect(full, a_map.nbytes_per_cta + b_map.nbytes_per_cta)
        tma.async_load(a_map, [i, step * BK], full, a_tile, multicast=MULTICAST)
        tma.async_load(b_map, [j, step * BK], full, b_tile, multicast=MULTICAST)
        mbarrier.wait(full, step & 1, deps=[a_tile, b_tile])
        tcgen05_mma(
            a_tile, b_tile.permute((1, 0)), accumulator, use_acc=step > 0, multicast=MULTICAST, mbarriers=[done]
        )
        mbarrier.wait(done, step & 1, deps=[a_tile, b_tile])
    mbarrier.invalidate(full)
    mbarrier.invalidate(done)
    c = gl.allocate_shared_memory(c_map.dtype, c_map.block_shape, c_map.layout)
    c.store(accumulator.load().to(c_map.dtype))
    fence_async_shared()
    tma.async_store(c_map, [i, j], c)
    tma.store_wait(0)


@gluon.jit
def _unpacked(scales, rows: gl.constexpr, columns: gl.constexpr):
    """A view [rows, columns] of scales that lie as tcgen05.cp takes them: [row block, group block, 32, 4, 4]."""
    blocks = scales.reshape((scales.shape[1], scales.shape[2], 32, 4, 4))
    return blocks.permute((0, 3, 2, 1, 4)).reshape((rows, columns))


@gluon.jit
def tcgen05_scaled(
    a_map, b_map, a_scale_map, b_scale_map, c_map, k,
    A_FORMAT: gl.constexpr, B_FORMAT: gl.constexpr, GROUP: gl.constexpr,
):  # fmt: skip
    """Block-scaled tcgen05.mma; scales go from global memory to shared by TMA, to tensor memory by tcgen05.cp."""
    PAIR: gl.constexpr = gl.num_ctas() == 2
    A_PER_BYTE: gl.constexpr = 2 if A_FORMAT == "e2m1" else 1
    B_PER_BYTE: gl.constexpr = 2 if B_FORMAT == "e2m1" else 1
    BM: gl.constexpr = a_map.block_shape[0]
    BN: gl.constexpr = b_map.block_shape[0]
    BK: gl.constexpr = a_map.block_shape[1] * A_PER_BYTE
    a_tile = gl.allocate_shared_memory(a_map.dtype, a_map.block_shape, a_map.layout)
    b_tile = gl.allocate_shared_memory(b_map.dtype, b_map.block_shape, b_map.layout)
    a_scale = gl.allocate_shared_memory(a_scale_map.dtype, a_scale_map.block_shape, a_scale_map.layout)
    b_scale = gl.allocate_shared_memory(b_scale_map.dtype, b_scale_map.block_shape, b_scale_map.layout)
    full = mbarrier.allocate_mbarrier(two_ctas=PAIR)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=tcgen05_mma_barrier_count([a_tile, b_tile, a_scale, b_scale], PAIR, PAIR))
    halves: gl.constexpr = a_map.layout.cga_layout
    accumulator = allocate_tensor_memory(
        gl.float32, [BM, BN], TensorMemoryLayout((128, BN), col_stride=1, cga_layout=halves, two_ctas=PAIR)
    )
    a_cells = allocate_tensor_memory(
        a_scale_map.dtype, [BM, BK // GROUP], TensorMemoryScalesLayout(cga_layout=[[1, 0]] if PAIR else [])
    )
    b_cells = allocate_tensor_memory(
        b_scale_map.dtype, [BN, BK // GROUP], TensorMemoryScalesLayout(cga_layout=[[0, 0]] if PAIR else [])
    )
    i = gl.program_id(0)
    j = gl.program_id(1)
    for step in range(gl.cdiv(k, BK)):
        bytes: gl.constexpr = (
            a_map.nbytes_per_cta + b_map.nbytes_per_cta + a_scale_map.nbytes_per_cta + b_scale_map.nbytes_per_cta
        )
        mbarrier.expect(full, bytes)
        tma.async_load(a_map, [i * BM, step * (BK // A_PER_BYTE)], full, a_tile, multicast=PAIR)
        tma.async_load(b_map, [j * BN, step * (BK // B_PER_BYTE)], full, b_tile, multicast=PAIR)
        at_a = [0, i * a_scale_map.block_shape[1], step * a_scale_map.block_shape[2], 0, 0]
        at_b = [0, j * b_scale_map.block_shape[1], step * b_scale_map.block_shape[2], 0, 0]
        tma.async_load(a_scale_map, at_a, full, a_scale, multicast=PAIR)
        tma.async_load(b_scale_map, at_b, full, b_scale, multicast=PAIR)
        mbarrier.wait(full, step & 1, deps=[a_tile, b_tile, a_scale, b_scale])
        tcgen05_copy(_unpacked(a_scale, BM, BK // GROUP), a_cells)
        tcgen05_copy(_unpacked(b_scale, BN, BK // GROUP), b_cells)
        tcgen05_mma_scaled(
            a_tile, b_tile.permute((1, 0)), accumulator, a_cells, b_cells, A_FORMAT, B_FORMAT,
            use_acc=step > 0, multicast=PAIR, mbarriers=[done],
        )  # fmt: skip
        mbarrier.wait(done, step & 1, deps=[a_tile, b_tile, a_scale, b_scale])
    mbarrier.invalidate(full)
    mbarrier.invalidate(done)
    c = gl.allocate_shared_memory(c_map.dtype, c_map.block_shape, c_map.layout)
    c.store(accumulator.load().to(c_map.dtype))
    fence_async_shared()
    tma.async_store(c_map, [i * BM, j * BN], c)
    tma.store_wait(0)


@gluon.jit
def _multiply_tcgen05(a_map, b_map, c_map, a_ring, b_ring, full, empty, done, accumulator, steps):
    STAGES: gl.constexpr = a_ring.shape[0]
    for step in range(steps):
        stage = step % STAGES
        mbarrier.wait(full.index(stage), step // STAGES & 1)
        b = b_ring.index(stage).permute((1, 0))
        tcgen05_mma(a_ring.index(stage), b, accumulator, use_acc=step > 0, mbarriers=[empty.index(stage)])
    tcgen05_commit(done)


@gluon.jit
def _load_tcgen05(a_map, b_map, a_ring, b_ring, full, empty, i, j, steps):
    _produce(a_map, b_map, a_ring, b_ring, full, empty, i, j, steps, False)


@gluon.jit
def _write_tcgen05(c_map, accumulator, done, i, j):
    mbarrier.wait(done, 0)
    c = gl.allocate_shared_memory(c_map.dtype, c_map.block_shape, c_map.layout)
    c.store(accumulator.load().to(c_map.dtype))
    fence_async_shared()
    tma.async_store(c_map, [i, j], c)
    tma.store_wait(0)


@gluon.jit
def tcgen05_specialized(a_map, b_map, c_map, k, STAGES: gl.constexpr):
    """One warp loads, one multiplies, a warpgroup writes the result."""
    BM: gl.constexpr = c_map.block_shape[0]
    BN: gl.constexpr = c_map.block_shape[1]
    a_ring = gl.allocate_shared_memory(a_map.dtype, [STAGES] + a_map.block_shape, a_map.layout)
    b_ring = gl.allocate_shared_memory(b_map.dtype, [STAGES] + b_map.block_shape, b_map.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier()
    for each in gl.static_range(STAGES):
        mbarrier.init(full.index(each), count=1)
        mbarrier.init(empty.index(each), count=1)
    mbarrier.init(done, count=1)
    accumulator = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    i = gl.program_id(0) * BM
    j = gl.program_id(1) * BN
    steps = gl.cdiv(k, a_map.block_shape[1])
    gl.warp_specialize(
        [
            (_write_tcgen05, (c_map, accumulator, done, i, j)),
            (_load_tcgen05, (a_map, b_map, a_ring, b_ring, full, empty, i, j, steps)),
            (_multiply_tcgen05, (a_map, b_map, c_map, a_ring, b_ring, full, empty, done, accumulator, steps)),
        ],
        [1, 1],
        [24, 24],
    )
