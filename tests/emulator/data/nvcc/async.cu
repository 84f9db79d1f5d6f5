// Bulk copies, mbarriers, clusters.
// targets: 90a 100a 120a
// launch bulk_copy: block=64,1,1
// launch bulk_reductions: block=64,1,1
// launch cluster_reduction: block=32,1,1 cluster=4,1,1
// launch neighbours: block=64,1,1 cluster=4,1,1
// launch distributed_histogram: block=64,1,1 cluster=2,1,1
// launch remote_stores: block=32,1,1 cluster=2,1,1
// launch remote_arrivals: block=64,1,1 cluster=2,1,1
// launch ring_pipeline: block=128,1,1 shared=8448
// launch multicast_tiles: block=64,1,1 cluster=2,1,1
// launch tensor_ranks: block=32,1,1
// launch tensor_reductions: block=32,1,1
// launch barrier_counts: block=96,1,1
// launch replaced_map: block=32,1,1
// launch dependent: block=32,1,1
#include "async.cuh"

// Pieces of 256 bytes in, changed by the threads, and out.
extern "C" __global__ void bulk_copy(const int* x, int* out, int pieces) {
  __shared__ alignas(128) int tile[64];
  __shared__ uint64_t bar;
  int i = threadIdx.x;
  if (i == 0) {
    bar_init(&bar, 1);
    fence_init();
  }
  __syncthreads();
  for (int piece = 0; piece < pieces; piece++) {
    if (i == 0) {
      bulk_wait_read();
      bar_expect(&bar, 256);
      bulk_load(tile, x + 64 * piece, 192, &bar);
      bulk_load(tile + 48, x + 64 * piece + 48, 64, &bar);
    }
    bar_wait(&bar, piece & 1);
    int value = tile[63 - i];
    __syncthreads();
    tile[i] = value * 3;
    fence_proxy();
    __syncthreads();
    if (i == 0) {
      bulk_store(out + 64 * piece, tile, 256);
      bulk_commit();
    }
  }
  if (i == 0) bulk_wait();
}

// Four blocks add to, take the minimum with, and exclusive-or into the same memory.
extern "C" __global__ void bulk_reductions(float* sums, int* least, unsigned* bits, unsigned short* brains) {
  __shared__ alignas(128) float a[64];
  __shared__ alignas(128) int b[64];
  __shared__ alignas(128) unsigned c[64];
  __shared__ alignas(128) unsigned short d[64];
  int i = threadIdx.x, block = blockIdx.x;
  a[i] = 0.5f * (i + block);
  b[i] = (i * 37 + block * 11) % 64 - 20;
  c[i] = 0x9e3779b9u * (i + 64 * block);
  d[i] = 0x3f80 + (block << 7);  // 1, 2, 4, 8 as bfloat16
  fence_proxy();
  __syncthreads();
  if (i == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;" ::"l"(sums), "r"(shared_address(a)) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32 [%0], [%1], 256;" ::"l"(least), "r"(shared_address(b)) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b32 [%0], [%1], 256;" ::"l"(bits), "r"(shared_address(c)) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], 128;" ::"l"(brains), "r"(shared_address(d)) : "memory");
    bulk_commit();
    bulk_wait();
  }
}

// Every block adds its vector to that of block 0 of its cluster.
extern "C" __global__ void cluster_reduction(const int* x, int* out) {
  __shared__ alignas(128) int own[32];
  __shared__ alignas(128) int sum[32];
  __shared__ uint64_t bar;
  int i = threadIdx.x;
  uint32_t rank = cluster_rank();
  if (i == 0) {
    bar_init(&bar, 1);
    fence_init();
    if (rank == 0) bar_expect(&bar, 4 * 128);
  }
  own[i] = x[blockIdx.x * 32 + i];
  sum[i] = 1000;
  fence_proxy();
  cluster_sync();
  if (i == 0)
    asm volatile(
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.s32 [%0], [%1], 128, [%2];" ::"r"(
            map_address(shared_address(sum), 0)),
        "r"(shared_address(own)), "r"(map_address(shared_address(&bar), 0))
        : "memory");
  if (rank == 0) {
    bar_wait(&bar, 0);
    out[blockIdx.x / 4 * 32 + i] = sum[i];
  }
  cluster_sync();
}

// Each block sends its tile to the next one, round and round; then each reads the one opposite by ld.shared::cluster.
extern "C" __global__ void neighbours(const int* x, int* out, int rounds) {
  __shared__ alignas(128) int tiles[2][64];
  __shared__ uint64_t bars[2];
  int i = threadIdx.x;
  uint32_t rank = cluster_rank(), next = (rank + 1) & 3;
  if (i == 0) {
    bar_init(&bars[0], 1);
    bar_init(&bars[1], 1);
    fence_init();
  }
  tiles[0][i] = x[blockIdx.x * 64 + i];
  fence_proxy();
  cluster_sync();
  for (int round = 0; round < rounds; round++) {
    int side = round & 1;
    if (i == 0) {
      bar_expect(&bars[1 - side], 256);
      asm volatile(
          "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(
              map_address(shared_address(tiles[1 - side]), next)),
          "r"(shared_address(tiles[side])), "r"(map_address(shared_address(&bars[1 - side]), next))
          : "memory");
    }
    bar_wait(&bars[1 - side], round >> 1 & 1);
    tiles[1 - side][i] += 1;
    fence_proxy();
    cluster_sync();
  }
  uint32_t there = map_address(shared_address(&tiles[rounds & 1][63 - i]), rank ^ 2);
  int value;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
  out[blockIdx.x * 64 + i] = value;
  cluster_sync();
}

// The bins are divided between the two blocks of a cluster.
extern "C" __global__ void distributed_histogram(const int* x, int* out, int n) {
  __shared__ int bins[16];
  int i = threadIdx.x;
  uint32_t rank = cluster_rank();
  if (i < 16) bins[i] = 0;
  cluster_sync();
  for (int at = rank * 64 + i; at < n; at += 128) {
    int bin = x[at] & 31;
    uint32_t there = map_address(shared_address(&bins[bin & 15]), bin >> 4);
    asm volatile("red.relaxed.cluster.shared::cluster.add.s32 [%0], 1;" ::"r"(there) : "memory");
  }
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  int mine = i * 3;  // work between the two halves of the barrier
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  if (i < 16) out[rank * 16 + i] = bins[i] + (mine - i * 3);
}

// st.async of every width into the other block, which adds up what came.
extern "C" __global__ void remote_stores(const int* x, int* out) {
  __shared__ alignas(16) int tile[7 * 32];
  __shared__ uint64_t bar;
  int i = threadIdx.x;
  uint32_t other = cluster_rank() ^ 1;
  if (i == 0) {
    bar_init(&bar, 1);
    fence_init();
    bar_expect(&bar, sizeof(tile));
  }
  cluster_sync();
  int value = x[blockIdx.x * 32 + i];
  uint32_t to = map_address(shared_address(tile), other), at = map_address(shared_address(&bar), other);
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to + 16 * i),
               "r"(value), "r"(value + 1), "r"(value + 2), "r"(value + 3), "r"(at)
               : "memory");
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to + 512 + 8 * i),
               "l"((long long)value << 32 | i), "r"(at)
               : "memory");
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to + 768 + 4 * i),
               "r"(-value), "r"(at)
               : "memory");
  bar_wait(&bar, 0);
  for (int j = 0; j < 7; j++) out[blockIdx.x * 224 + 32 * j + i] = tile[32 * j + i];
  cluster_sync();
}

// Two blocks take turns: threads of one arrive at the mbarrier of the other.
extern "C" __global__ void remote_arrivals(int* log, int rounds) {
  __shared__ uint64_t bar;
  __shared__ int turns;
  int i = threadIdx.x;
  uint32_t rank = cluster_rank();
  if (i == 0) {
    bar_init(&bar, 64);
    fence_init();
    turns = 0;
  }
  cluster_sync();
  for (int round = 0; round < rounds; round++) {
    if ((round & 1) != rank) {
      bar_wait(&bar, round >> 1 & 1);
    } else {
      if (i == 0) {
        // whoever's turn it is writes to both blocks
        int seen = turns;
        turns = seen + 1;
        asm volatile("st.relaxed.cluster.shared::cluster.s32 [%0], %1;" ::"r"(map_address(shared_address(&turns), rank ^ 1)), "r"(seen + 1) : "memory");
        log[round] = seen * 10 + rank;
      }
      bar_arrive_at(&bar, rank ^ 1);
    }
  }
  cluster_sync();
  if (i == 0 && rank == 0) log[rounds] = turns;
}

// One warp loads tiles of 32 rows of 64 bytes (a swizzle of 64) into a ring of four; three warps consume them.
extern "C" __global__ void ring_pipeline(const __grid_constant__ TensorMap map, float* out, int steps) {
  extern __shared__ __align__(1024) unsigned char ring[];
  uint64_t* full = (uint64_t*)(ring + 8192);
  uint64_t* empty = full + 4;
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < 4; stage++) {
      bar_init(full + stage, 1);
      bar_init(empty + stage, 3);
    }
    fence_init();
  }
  __syncthreads();
  if (warp == 3) {
    if (lane == 0) {
      asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
      for (int step = 0; step < steps; step++) {
        int stage = step & 3;
        if (step >= 4) bar_wait(empty + stage, (step >> 2 & 1) ^ 1);
        bar_expect(full + stage, 2048);
        tensor_load(ring + 2048 * stage, &map, 16 * step, blockIdx.x * 32, full + stage);
      }
    }
    return;
  }
  // warp w takes columns w, w + 3, ... of each row
  float sum = 0;
  for (int step = 0; step < steps; step++) {
    int stage = step & 3;
    bar_wait(full + stage, step >> 2 & 1);
    const unsigned char* tile = ring + 2048 * stage;
    for (int column = warp; column < 16; column += 3) {
      int offset = lane * 64 + column * 4;
      offset ^= (offset >> 7 & 3) << 4;  // bits 4 and 5 by bits 7 and 8
      sum += *(const float*)(tile + offset) * (column + 1);
    }
    __syncwarp();
    if (lane == 0) bar_arrive(empty + stage);
  }
  out[(blockIdx.x * 3 + warp) * 32 + lane] = sum;
}

// Each of two blocks loads one half of a tile, and both halves reach both.
extern "C" __global__ void multicast_tiles(const __grid_constant__ TensorMap map, int* out, int steps) {
  __shared__ alignas(1024) int tile[32 * 32];
  __shared__ uint64_t full, empty;
  int i = threadIdx.x;
  uint32_t rank = cluster_rank();
  if (i == 0) {
    bar_init(&full, 1);
    bar_init(&empty, 2);
    fence_init();
  }
  cluster_sync();
  int sum = 0;
  for (int step = 0; step < steps; step++) {
    if (i == 0) {
      if (step) bar_wait(&empty, (step - 1) & 1);
      bar_expect(&full, 4096);
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], "
          "[%4], %5;" ::"r"(shared_address(tile + 512 * rank)),
          "l"(&map), "r"(32 * step), "r"(blockIdx.x / 2 * 32 + 16 * (int)rank), "r"(shared_address(&full)), "h"((short)3)
          : "memory");
    }
    bar_wait(&full, step & 1);
    for (int j = 0; j < 16; j++) sum += tile[j * 64 + i] * (rank ? j : 1);
    __syncthreads();
    if (i < 2) bar_arrive_at(&empty, i);  // this block has read its tile: both may fill it again
  }
  out[blockIdx.x * 64 + i] = sum;
  cluster_sync();
}

// Boxes of one, three, four and five dimensions, partly outside, loaded and stored again somewhere else.
extern "C" __global__ void tensor_ranks(const __grid_constant__ TensorMap one, const __grid_constant__ TensorMap three,
                                        const __grid_constant__ TensorMap four, const __grid_constant__ TensorMap five,
                                        const __grid_constant__ TensorMap to_one, const __grid_constant__ TensorMap to_five) {
  __shared__ alignas(128) unsigned char tiles[4][512];
  __shared__ uint64_t bar;
  if (threadIdx.x) return;
  bar_init(&bar, 1);
  fence_init();
  bar_expect(&bar, 128 + 512 + 256 + 128);
  uint32_t at = shared_address(tiles), b = shared_address(&bar);
  asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(at), "l"(&one), "r"(-4), "r"(b) : "memory");
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(at + 512), "l"(&three), "r"(4), "r"(-1), "r"(1), "r"(b) : "memory");
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(at + 1024), "l"(&four), "r"(0), "r"(1), "r"(0), "r"(2), "r"(b) : "memory");
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(at + 1536), "l"(&five), "r"(4), "r"(0), "r"(1), "r"(-1), "r"(0), "r"(b) : "memory");
  bar_wait(&bar, 0);
  // one, three and four dimensions go out as one, 32 elements at a time; five as five, shifted
  auto store = [&](int to, uint32_t from) {
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%1}], [%2];" ::"l"(&to_one), "r"(to), "r"(from) : "memory");
  };
  store(0, at);
  for (int part = 0; part < 4; part++) store(32 + 32 * part, at + 512 + 128 * part);
  for (int part = 0; part < 2; part++) store(160 + 32 * part, at + 1024 + 128 * part);
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(&to_five), "r"(0), "r"(1), "r"(0), "r"(0), "r"(1), "r"(at + 1536) : "memory");
  bulk_commit();
  bulk_wait();
}

// Reductions of tiles into a tensor, of several types; part of the box is outside.
extern "C" __global__ void tensor_reductions(const __grid_constant__ TensorMap sums, const __grid_constant__ TensorMap most,
                                             const __grid_constant__ TensorMap halves) {
  __shared__ alignas(128) float a[8][32];
  __shared__ alignas(128) unsigned b[8][32];
  __shared__ alignas(128) unsigned short c[8][64];
  int i = threadIdx.x, block = blockIdx.x;
  for (int row = 0; row < 8; row++) {
    a[row][i] = row + 0.25f * i + block;
    b[row][i] = (row * 29 + i * 7 + block * 13) % 101;
    c[row][i] = c[row][i + 32] = 0x3c00 + (row << 7);  // 1 + row / 8 as float16
  }
  fence_proxy();
  __syncwarp();
  if (i == 0) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&sums), "r"(4), "r"(2), "r"(shared_address(a)) : "memory");
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&most), "r"(8), "r"(3), "r"(shared_address(b)) : "memory");
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&halves), "r"(0), "r"(0), "r"(shared_address(c)) : "memory");
    bulk_commit();
    bulk_wait();
  }
}

// Counts other than one, arrivals without waiting, states as tokens, drops.
extern "C" __global__ void barrier_counts(int* out, int rounds) {
  __shared__ uint64_t bar;
  __shared__ int sums[2];
  int i = threadIdx.x, warp = i >> 5;
  uint32_t at = shared_address(&bar);
  if (i == 0) {
    bar_init(&bar, 64 + 2 + 5);
    sums[0] = sums[1] = 0;
  }
  __syncthreads();
  for (int round = 0; round < rounds; round++) {
    uint64_t token = 0;
    atomicAdd(&sums[round & 1], i);
    if (warp < 2) {
      asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(at) : "memory");
    } else {
      __syncwarp();
      if (i == 64) asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], 5;" : "=l"(token) : "r"(at) : "memory");
      if (i == 65) asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], 2;" : "=l"(token) : "r"(at) : "memory");
    }
    if (i <= 65) {
      uint32_t done = 0;
      while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(at), "l"(token)
                     : "memory");
    }
    __syncthreads();
    if (i == 0) {
      out[round] = sums[round & 1];
      sums[round & 1] = 0;
    }
    __syncthreads();
  }
  // one warp leaves: the phase expects 32 fewer from now on
  if (warp == 1) asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
  if (warp == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
  if (i == 64) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 7;" ::"r"(at) : "memory");
  bar_wait(&bar, rounds & 1);
  __syncthreads();  // nobody may miss a phase
  if (warp == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
  if (i == 64) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 7;" ::"r"(at) : "memory");
  bar_wait(&bar, (rounds + 1) & 1);
  __syncthreads();
  if (i == 0) {
    uint64_t state;
    asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], 3;" : "=l"(state) : "r"(at) : "memory");
    uint32_t pending;
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
    out[rounds] = pending;
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(at) : "memory");
  }
}

// A copy of a tensor map in global memory gets another address, extent and stride.
extern "C" __global__ void replaced_map(const __grid_constant__ TensorMap map, TensorMap* room, const int* x, int* out,
                                        int columns, int rows) {
  __shared__ alignas(128) TensorMap copy;
  __shared__ alignas(128) int tile[8 * 8];
  __shared__ uint64_t bar;
  int i = threadIdx.x;
  ((int*)&copy)[i] = ((const int*)&map)[i];
  __syncwarp();
  if (i == 0) {
    uint32_t at = shared_address(&copy);
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(at), "l"(x) : "memory");
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" ::"r"(at), "r"(columns) : "memory");
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(at), "r"(rows) : "memory");
    asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(at), "l"((long long)columns * 4) : "memory");
    bar_init(&bar, 1);
    fence_init();
  }
  __syncwarp();
  TensorMap* own = room + blockIdx.x;
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(own),
               "r"(shared_address(&copy))
               : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(own) : "memory");
  if (i == 0) {
    bar_expect(&bar, 256);
    tensor_load(tile, own, 8 * blockIdx.x, 4, &bar);
  }
  bar_wait(&bar, 0);
  out[blockIdx.x * 64 + i] = tile[i];
  out[blockIdx.x * 64 + 32 + i] = tile[32 + i];
}

extern "C" __global__ void dependent(const int* x, int* out) {
  int i = blockIdx.x * 32 + threadIdx.x;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  int value = x[i];
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("nanosleep.u32 20;");
  out[i] = value + 1;
}
