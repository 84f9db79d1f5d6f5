// wgmma with descriptors by hand: no swizzle and a swizzle of 128 bytes, A from registers, B along N.
// targets: 90a
// launch wgmma_plain: block=128,1,1
// launch wgmma_swizzled: block=128,1,1
// launch wgmma_registers: block=128,1,1
// launch wgmma_sparse_steps: block=256,1,1
#include "async.cuh"
#include <cuda_bf16.h>

__device__ inline uint64_t descriptor(uint32_t address, uint32_t leading, uint32_t stride, uint64_t swizzle) {
  return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | swizzle << 62;
}

__device__ inline void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ inline void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

__device__ inline void keep(float (&d)[8]) {
  for (int j = 0; j < 8; j++) asm volatile("" : "+f"(d[j])::"memory");
}

// d (64, 16): register 4 j + 2 h + e is row 16 warp + 8 h + lane / 4, column 8 j + 2 (lane mod 4) + e
__device__ inline void put(float* c, const float (&d)[8]) {
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int j = 0; j < 8; j++) {
    int row = 16 * (warp & 3) + 8 * (j >> 1 & 1) + lane / 4, column = 8 * (j >> 2) + 2 * (lane & 3) + (j & 1);
    c[row * 16 + column] = d[j];
  }
}

#define REGISTERS(d) "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])

// Core matrices of 8 rows by 16 bytes, one after the other: a (64, 32), b (16, 32), both along K.
extern "C" __global__ void wgmma_plain(const uint16_t* a, const uint16_t* b, float* c) {
  __shared__ alignas(128) uint16_t as[64 * 32];
  __shared__ alignas(128) uint16_t bs[16 * 32];
  int i = threadIdx.x;
  // core matrix (row / 8, k / 8) at 128 bytes times (4 row / 8 + k / 8)
  for (int at = i; at < 64 * 32; at += 128) {
    int row = at / 32, k = at % 32;
    as[((row / 8) * 4 + k / 8) * 64 + (row & 7) * 8 + (k & 7)] = a[at];
    if (row < 16) bs[((row / 8) * 4 + k / 8) * 64 + (row & 7) * 8 + (k & 7)] = b[at];
  }
  fence_proxy();
  __syncthreads();
  float d[8] = {0};
  keep(d);
  begin();
  for (int k = 0; k < 2; k++) {
    uint64_t da = descriptor(shared_address(as) + 256 * k, 128, 512, 0), db = descriptor(shared_address(bs) + 256 * k, 128, 512, 0);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %10, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0; }"
        : REGISTERS(d)
        : "l"(da), "l"(db), "r"(k));
  }
  commit();
  wait<0>();
  keep(d);
  put(c, d);
}

// Rows of 128 bytes, swizzled as TMA does: a (64, 64) brought by TMA, b (64, 16) along N, its descriptor transposed.
extern "C" __global__ void wgmma_swizzled(const __grid_constant__ TensorMap a_map, const uint16_t* b, float* c) {
  __shared__ alignas(1024) uint16_t as[64 * 64];
  __shared__ alignas(1024) uint16_t bs[64 * 16];
  __shared__ uint64_t bar;
  int i = threadIdx.x;
  if (i == 0) {
    bar_init(&bar, 1);
    fence_init();
    bar_expect(&bar, 8192);
    tensor_load(as, &a_map, 0, 0, &bar);
  }
  // b[k, n] in core matrices of 8 k by 16 bytes of n, a swizzle of 32 bytes: rows of 32 bytes, bit 4 by bit 7
  for (int at = i; at < 64 * 16; at += 128) {
    int offset = at * 2;
    offset ^= (offset >> 7 & 1) << 4;
    bs[offset / 2] = b[at];
  }
  fence_proxy();
  __syncthreads();
  bar_wait(&bar, 0);
  float d[8];
  for (int j = 0; j < 8; j++) d[j] = 100.0f;
  keep(d);
  begin();
  for (int k = 0; k < 4; k++) {
    uint64_t da = descriptor(shared_address(as) + 32 * k, 16, 1024, 1);
    // 16 k are two blocks of 8 rows of 32 bytes: 256 bytes apart
    uint64_t db = descriptor(shared_address(bs) + 512 * k, 512, 256, 3);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, -1, 1, 0, 1;"
        : REGISTERS(d)
        : "l"(da), "l"(db));
    commit();
  }
  wait<0>();
  keep(d);
  put(c, d);
}

// A (64, 32) of e4m3 from registers: rows as in mma.m16n8k32; b (16, 32).
extern "C" __global__ void wgmma_registers(const uint8_t* a, const uint8_t* b, float* c) {
  __shared__ alignas(128) uint8_t bs[16 * 32];
  int i = threadIdx.x, lane = i & 31, warp = i >> 5;
  for (int at = i; at < 16 * 32; at += 128) {
    int row = at / 32, k = at % 32;
    bs[((row / 8) * 2 + k / 16) * 128 + (row & 7) * 16 + (k & 15)] = b[at];
  }
  uint32_t r[4];
  for (int j = 0; j < 4; j++) {
    int row = 16 * warp + lane / 4 + 8 * (j & 1), k = 4 * (lane & 3) + 16 * (j >> 1);
    r[j] = *(const uint32_t*)(a + row * 32 + k);
  }
  fence_proxy();
  __syncthreads();
  float d[8] = {0};
  keep(d);
  begin();
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, 0, 1, 1;"
      : REGISTERS(d)
      : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(descriptor(shared_address(bs), 128, 256, 0)));
  commit();
  wait<0>();
  keep(d);
  put(c, d);
}

// Two warpgroups, each with its own rows and two groups in flight; the second multiplies with -a.
extern "C" __global__ void wgmma_sparse_steps(const uint16_t* a, const uint16_t* b, float* c) {
  __shared__ alignas(128) uint16_t as[128 * 16];
  __shared__ alignas(128) uint16_t bs[2][16 * 16];
  int i = threadIdx.x, half = i >> 7;
  for (int at = i; at < 128 * 16; at += 256) {
    int row = at / 16, k = at % 16;
    as[((row / 8) * 2 + k / 8) * 64 + (row & 7) * 8 + (k & 7)] = a[at];
  }
  for (int at = i; at < 512; at += 256) {
    int row = at / 16 % 16, k = at % 16;
    bs[at >> 8][((row / 8) * 2 + k / 8) * 64 + (row & 7) * 8 + (k & 7)] = b[at];
  }
  fence_proxy();
  __syncthreads();
  float d[8] = {0}, e[8] = {0};
  uint64_t da = descriptor(shared_address(as) + half * 64 * 32, 128, 256, 0);
  keep(d);
  keep(e);
  begin();
  asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1, 0, 0;"
               : REGISTERS(d)
               : "l"(da), "l"(descriptor(shared_address(bs[0]), 128, 256, 0)));
  commit();
  asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, -1, 1, 0, 0;"
               : REGISTERS(e)
               : "l"(da), "l"(descriptor(shared_address(bs[1]), 128, 256, 0)));
  commit();
  wait<1>();
  keep(d);
  put(c + half * 1024, d);
  wait<0>();
  keep(e);
  put(c + 2048 + half * 1024, e);
}
