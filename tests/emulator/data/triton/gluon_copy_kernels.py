"""Gluon kernels that move and combine data: TMA, mbarriers, clusters, tensor memory."""

# ruff: noqa: RUF005 (the dialect has no starred lists)

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell, hopper
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    clc,
    fence_async_shared,
    mbarrier,
    tma,
)


@gluon.jit
def tma_copy(x_map, out_map, from_i, from_j, to_i, to_j):
    """One box, possibly partly outside of x or out."""
    tile = gl.allocate_shared_memory(x_map.dtype, x_map.block_shape, x_map.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x_map.nbytes_per_cta)
    tma.async_load(x_map, [from_i, from_j], bar, tile)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_store(out_map, [to_i, to_j], tile)
    tma.store_wait(0)


@gluon.jit
def tma_atomics(x_map, sum_map, top_map, bits_map, LAYOUT: gl.constexpr):
    """Programs along axis 0 add to, take the maximum with, and or into one tile each; x is int32."""
    BM: gl.constexpr = x_map.block_shape[0]
    tile = gl.allocate_shared_memory(x_map.dtype, x_map.block_shape, x_map.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x_map.nbytes_per_cta)
    tma.async_load(x_map, [gl.program_id(0) * BM, 0], bar, tile)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_atomic_add(sum_map, [0, 0], tile)
    tma.async_atomic_max(top_map, [0, 0], tile)
    tma.async_atomic_or(bits_map, [0, 0], tile)
    tma.store_wait(0)
    # the same once more, doubled by the threads
    tile.store(tile.load(LAYOUT) * 2)
    fence_async_shared()
    tma.async_atomic_add(sum_map, [0, 0], tile)
    tma.store_wait(0)


@gluon.jit
def _load_pairs(a_map, b_map, out_map, a_ring, b_ring, out_ring, full, empty, ready, free, i, steps):
    STAGES: gl.constexpr = a_ring.shape[0]
    BN: gl.constexpr = a_map.block_shape[1]
    for step in range(steps):
        stage = step % STAGES
        mbarrier.wait(empty.index(stage), step // STAGES & 1 ^ 1)
        mbarrier.expect(full.index(stage), a_map.nbytes_per_cta + b_map.nbytes_per_cta)
        tma.async_load(a_map, [i, step * BN], full.index(stage), a_ring.index(stage))
        tma.async_load(b_map, [i, step * BN], full.index(stage), b_ring.index(stage))


@gluon.jit
def _store_sums(a_map, b_map, out_map, a_ring, b_ring, out_ring, full, empty, ready, free, i, steps):
    STAGES: gl.constexpr = out_ring.shape[0]
    BN: gl.constexpr = a_map.block_shape[1]
    for step in range(steps):
        stage = step % STAGES
        mbarrier.wait(ready.index(stage), step // STAGES & 1)
        tma.async_store(out_map, [i, step * BN], out_ring.index(stage))
        tma.store_wait(0)
        mbarrier.arrive(free.index(stage))


@gluon.jit
def _add_pairs(a_ring, b_ring, out_ring, full, empty, ready, free, steps, LAYOUT: gl.constexpr):
    STAGES: gl.constexpr = a_ring.shape[0]
    OUT_STAGES: gl.constexpr = out_ring.shape[0]
    for step in range(steps):
        stage = step % STAGES
        mbarrier.wait(full.index(stage), step // STAGES & 1)
        a = a_ring.index(stage).load(LAYOUT)
        b = b_ring.index(stage).load(LAYOUT)
        fence_async_shared()
        mbarrier.arrive(empty.index(stage))
        place = step % OUT_STAGES
        mbarrier.wait(free.index(place), step // OUT_STAGES & 1 ^ 1)
        out_ring.index(place).store(a + 2.0 * b)
        fence_async_shared()
        mbarrier.arrive(ready.index(place))


@gluon.jit
def add_specialized(
    a_map, b_map, out_map, columns, STAGES: gl.constexpr, OUT_STAGES: gl.constexpr, LAYOUT: gl.constexpr
):
    """out = a + 2 b: one warp loads, a warpgroup adds, one warp stores."""
    a_ring = gl.allocate_shared_memory(a_map.dtype, [STAGES] + a_map.block_shape, a_map.layout)
    b_ring = gl.allocate_shared_memory(b_map.dtype, [STAGES] + b_map.block_shape, b_map.layout)
    out_ring = gl.allocate_shared_memory(out_map.dtype, [OUT_STAGES] + out_map.block_shape, out_map.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    ready = mbarrier.allocate_mbarrier(batch=OUT_STAGES)
    free = mbarrier.allocate_mbarrier(batch=OUT_STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(full.index(each), count=1)
        mbarrier.init(empty.index(each), count=1)
    for each in gl.static_range(OUT_STAGES):
        mbarrier.init(ready.index(each), count=1)
        mbarrier.init(free.index(each), count=1)
    i = gl.program_id(0) * a_map.block_shape[0]
    steps = gl.cdiv(columns, a_map.block_shape[1])
    shared = (a_map, b_map, out_map, a_ring, b_ring, out_ring, full, empty, ready, free, i, steps)
    gl.warp_specialize(
        [
            (_add_pairs, (a_ring, b_ring, out_ring, full, empty, ready, free, steps, LAYOUT)),
            (_load_pairs, shared),
            (_store_sums, shared),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def cluster_softmax(x, out, columns, BLOCK: gl.constexpr, LAYOUT: gl.constexpr):
    """A row lies in all CTAs of a cluster: both reductions go through their shared memories."""
    row = gl.program_id(0)
    j = gl.arange(0, BLOCK, LAYOUT)
    value = gl.load(x + row * columns + j, mask=j < columns, other=-float("inf"))
    power = gl.exp(value - gl.max(value, 0))
    gl.store(out + row * columns + j, power / gl.sum(power, 0), mask=j < columns)


@gluon.jit
def cluster_transpose(x, out, BM: gl.constexpr, BN: gl.constexpr, FROM: gl.constexpr, TO: gl.constexpr):
    """The CTAs of a cluster exchange parts of a tile."""
    i = gl.arange(0, BM, gl.SliceLayout(1, FROM))
    j = gl.arange(0, BN, gl.SliceLayout(0, FROM))
    value = gl.load(x + i[:, None] * BN + j[None, :])
    moved = gl.convert_layout(value, TO)
    row = gl.arange(0, BM, gl.SliceLayout(1, TO))
    column = gl.arange(0, BN, gl.SliceLayout(0, TO))
    gl.store(out + column[None, :] * BM + row[:, None], moved)


@gluon.jit
def remote_store(x, out, BLOCK: gl.constexpr, FROM: gl.constexpr, TO: gl.constexpr, SHARED: gl.constexpr):
    """st.async into a tile that lies in other CTAs of the cluster than the registers do."""
    i = gl.arange(0, BLOCK, FROM)
    tile = gl.allocate_shared_memory(gl.int32, [BLOCK], SHARED)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, tile.nbytes_per_cta)
    hopper.async_store(tile, gl.load(x + i), bar)
    mbarrier.wait(bar, 0)
    gl.store(out + gl.arange(0, BLOCK, TO), tile.load(TO) + 1)


@gluon.jit
def gather_rows(x_map, out_map, rows, places, at_column, BLOCK: gl.constexpr):
    """out[places[i], :] = x[rows[i], at_column:] by tile::gather4 and tile::scatter4."""
    plain: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    four: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, gl.num_warps()], [1, 0]))
    i = gl.arange(0, BLOCK, plain)
    wanted = gl.convert_layout(gl.load(rows + i), four)
    target = gl.convert_layout(gl.load(places + i), four)
    COLUMNS: gl.constexpr = x_map.block_shape[1]
    tile = gl.allocate_shared_memory(x_map.dtype, [BLOCK, COLUMNS], x_map.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, BLOCK * x_map.nbytes_per_cta)
    tma.async_gather(x_map, wanted, at_column, bar, tile)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_scatter(out_map, target, 0, tile)
    tma.store_wait(0)


@gluon.jit
def tensor_memory_views(x, out, BM: gl.constexpr, BN: gl.constexpr, STORE: gl.constexpr, LOAD: gl.constexpr):
    """Stores a tile by one shape of tcgen05.st and loads it by another of tcgen05.ld, all of it and its right half."""
    cells = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    first: gl.constexpr = cells.get_reg_layout(instr_variant=STORE)
    i = gl.arange(0, BM, gl.SliceLayout(1, first))
    j = gl.arange(0, BN, gl.SliceLayout(0, first))
    cells.store(gl.load(x + i[:, None] * BN + j[None, :]))
    second: gl.constexpr = cells.get_reg_layout(instr_variant=LOAD)
    row = gl.arange(0, BM, gl.SliceLayout(1, second))
    column = gl.arange(0, BN, gl.SliceLayout(0, second))
    gl.store(out + row[:, None] * BN + column[None, :], cells.load(second))
    half = cells.slice(BN // 2, BN // 2)
    third: gl.constexpr = half.get_reg_layout()
    row = gl.arange(0, BM, gl.SliceLayout(1, third))
    column = gl.arange(0, BN // 2, gl.SliceLayout(0, third))
    gl.store(out + BM * BN + row[:, None] * (BN // 2) + column[None, :], half.load(third) * 2.0)


@gluon.jit
def packed_arithmetic(x, y, z, out, n, BLOCK: gl.constexpr):
    """f32x2 instructions."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    a = gl.load(x + i)
    b = gl.load(y + i)
    c = gl.load(z + i)
    gl.store(out + i, blackwell.add2(a, b))
    gl.store(out + n + i, blackwell.mul2(a, b))
    gl.store(out + 2 * n + i, blackwell.fma2(a, b, c))
    gl.store(out + 3 * n + i, blackwell.sub2(a, c))


@gluon.jit
def launch_control(counts, BLOCK: gl.constexpr):
    """Every block of the grid is counted once, by whoever runs it."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    tile = gl.program_id(0)
    phase = 0
    going = True
    while going:
        mbarrier.expect(bar, 16)
        clc.try_cancel(answer, bar)
        i = tile * BLOCK + gl.arange(0, BLOCK, layout)
        gl.atomic_add(counts + i, tile + 1)
        mbarrier.wait(bar, phase)
        result = clc.load_result(answer)
        going = result.is_canceled()
        if going:
            tile = result.program_id(0)
        phase ^= 1
        gl.barrier()
    mbarrier.invalidate(bar)


@gluon.jit
def async_copies(x, y, out, BLOCK: gl.constexpr, STEPS: gl.constexpr):
    """cp.async into a ring of two buffers, with mbarriers and with groups."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    x_ring = gl.allocate_shared_memory(gl.float32, [2, BLOCK], plain)
    y_ring = gl.allocate_shared_memory(gl.float32, [2, BLOCK], plain)
    i = gl.arange(0, BLOCK, layout)
    start = gl.program_id(0) * BLOCK * STEPS
    sums = gl.zeros([BLOCK], gl.float32, layout)
    for step in gl.static_range(STEPS + 1):
        if step < STEPS:
            at = start + step * BLOCK + i
            hopper.async_copy.async_load(x_ring.index(step % 2), x + at)
            hopper.async_copy.async_load(y_ring.index(step % 2), y + at, mask=i < BLOCK // 2)
            hopper.async_copy.commit_group()
        if step > 0:
            if step < STEPS:
                hopper.async_copy.wait_group(1)
            else:
                hopper.async_copy.wait_group(0)
            value = y_ring.index((step - 1) % 2).load(layout)
            sums += x_ring.index((step - 1) % 2).load(layout) * gl.where(i < BLOCK // 2, value, 1.0)
    gl.store(out + gl.program_id(0) * BLOCK + i, sums)
