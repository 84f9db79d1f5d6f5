// Shared memory, barriers, atomics, cp.async, ldmatrix and stmatrix.
// targets: 90a 120a
// launch reduce_sum: block=256,1,1
// launch dot_product: block=128,1,1
// launch transpose_tile: block=32,8,1
// launch named_barriers: block=96,1,1
// launch uneven_barrier: block=128,1,1
// launch shared_atomics: block=128,1,1
// launch global_atomics: block=128,1,1
// launch counting_sort: block=128,1,1
// launch message: block=64,1,1
// launch cp_async_pipeline: block=64,1,1 shared=6144
// launch cp_async_barrier: block=64,1,1
// launch matrix_loads: block=32,1,1
// launch matrix_stores: block=32,1,1
// launch vector_copies: block=64,1,1
// launch prefix_sums: block=256,1,1
// launch stencil: block=64,1,1
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

__device__ uint32_t shared_address(const void* at) { return (uint32_t)__cvta_generic_to_shared(at); }

__constant__ float weights[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
__device__ unsigned generation = 3;

// A tree in shared memory, then one atomic of the block.
extern "C" __global__ void reduce_sum(const int* x, int* total, int n) {
  __shared__ int parts[256];
  int i = threadIdx.x, sum = 0;
  for (int at = blockIdx.x * blockDim.x + i; at < n; at += gridDim.x * blockDim.x) sum += x[at];
  parts[i] = sum;
  __syncthreads();
  for (int half = 128; half >= 1; half >>= 1) {
    if (i < half) parts[i] += parts[i + half];
    __syncthreads();
  }
  if (i == 0) atomicAdd(total, parts[0]);
}

// Shuffles within warps, shared memory between them, float.
extern "C" __global__ void dot_product(const float* x, const float* y, float* out, int n) {
  __shared__ float parts[4];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 128) sum = fmaf(x[blockIdx.x * n + i], y[blockIdx.x * n + i], sum);
  for (int distance = 16; distance; distance >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
}

extern "C" __global__ void transpose_tile(const float* x, float* out, int rows, int columns) {
  __shared__ float tile[32][33];
  int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (row + j < rows && column < columns) tile[threadIdx.y + j][threadIdx.x] = x[(row + j) * columns + column];
  __syncthreads();
  column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (row + j < columns && column < rows) out[(row + j) * rows + column] = tile[threadIdx.x][threadIdx.y + j];
}

// Two producer warps and one consumer meet at named barriers: arrive on one side, sync on the other.
extern "C" __global__ void named_barriers(const int* x, int* out, int rounds) {
  __shared__ int buffers[2][64];
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (warp < 2) {
    for (int round = 0; round < rounds; round++) {
      int side = round & 1;
      if (round >= 2) asm volatile("barrier.sync %0, 96;" ::"r"(3 + side) : "memory");
      buffers[side][threadIdx.x] = x[round * 64 + threadIdx.x] * (round + 1);
      asm volatile("barrier.arrive %0, 96;" ::"r"(1 + side) : "memory");
    }
  } else {
    for (int round = 0; round < rounds; round++) {
      int side = round & 1;
      asm volatile("barrier.sync %0, 96;" ::"r"(1 + side) : "memory");
      out[round * 32 + lane] = buffers[side][lane] + buffers[side][63 - lane];
      if (round + 2 < rounds) asm volatile("barrier.arrive %0, 96;" ::"r"(3 + side) : "memory");
    }
  }
}

// Warps that exit early are not waited for; barrier 5 takes 64 threads, which ones the data says.
extern "C" __global__ void uneven_barrier(const int* x, int* out) {
  __shared__ int best[4];
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  int chosen = x[warp] & 1;
  if (threadIdx.x < 4) best[threadIdx.x] = -1;  // nvcc reads what it will not use
  __syncthreads();
  if (chosen) {
    int value = __reduce_max_sync(0xffffffffu, x[threadIdx.x] * 2);
    if (lane == 0) best[warp] = value;
    asm volatile("bar.sync 5, 64;" ::: "memory");
    int top = -1;
    for (int other = 0; other < 4; other++)
      if (x[other] & 1) top = max(top, best[other]);
    out[threadIdx.x] = top + warp;
  } else {
    out[threadIdx.x] = -lane;
  }
}

extern "C" __global__ void shared_atomics(const int* x, int* out) {
  __shared__ int sums[8], tops[8], ors[8], swaps[8];
  __shared__ unsigned wrap[2];
  __shared__ unsigned long long wide;
  int i = threadIdx.x;
  if (i < 8) sums[i] = 0, tops[i] = -1000, ors[i] = 0, swaps[i] = 0;
  if (i < 2) wrap[i] = 5;
  if (i == 0) wide = 0;
  __syncthreads();
  int value = x[i], bin = value & 7;
  atomicAdd(&sums[bin], value);
  atomicMax(&tops[bin], value);
  atomicOr(&ors[bin], 1 << (i & 31));
  atomicXor(&swaps[bin], value);
  atomicInc(&wrap[0], 6);
  atomicDec(&wrap[1], 6);
  atomicAdd(&wide, (unsigned long long)value << 33);
  __syncthreads();
  if (i < 8) {
    out[i] = sums[i];
    out[8 + i] = tops[i];
    out[16 + i] = ors[i];
    out[24 + i] = swaps[i];
  }
  if (i < 2) out[32 + i] = wrap[i], out[34 + i] = (int)(wide >> (32 * i));
}

// What each thread got back, too, where the order does not matter.
extern "C" __global__ void global_atomics(int* cells, float* floats, __half2* halves, __nv_bfloat16* brains,
                                          unsigned long long* wide, const int* x, unsigned* seen) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, value = x[i];
  int old = atomicAdd(&cells[0], 1);
  atomicOr(&seen[old >> 5], 1u << (old & 31));
  atomicMin(&cells[1], value);
  atomicAnd(&cells[2], value | 0xff);
  atomicSub(&cells[3], value);
  atomicAdd(&floats[i & 3], 0.25f * (value & 15));
  atomicAdd(&halves[i & 3], __floats2half2_rn(value & 3, 1.0f));
  atomicAdd(&brains[i & 1], __float2bfloat16(1.0f));
  atomicMax(&wide[0], (unsigned long long)value << 20);
  // a product by compare-and-swap
  unsigned long long have = *(volatile unsigned long long*)(wide + 1), assumed;
  do {
    assumed = have;
    have = atomicCAS(&wide[1], assumed, assumed * (2 * (value & 3) + 1));
  } while (have != assumed);
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(floats + 4), "f"(0.5f), "f"(float(value & 1)) : "memory");
}

// Every value gets the next place of its bin; the places of a bin come in any order, so each bin is sorted after.
extern "C" __global__ void counting_sort(const int* x, int* out, int n) {
  __shared__ int counts[16], starts[16];
  int i = threadIdx.x;
  if (i < 16) counts[i] = 0;
  __syncthreads();
  for (int at = i; at < n; at += 128) atomicAdd(&counts[x[at]], 1);
  __syncthreads();
  if (i == 0) {
    int sum = 0;
    for (int bin = 0; bin < 16; bin++) {
      starts[bin] = sum;
      sum += counts[bin];
    }
  }
  __syncthreads();
  for (int at = i; at < n; at += 128) out[atomicAdd(&starts[x[at]], 1)] = x[at];
}

// Blocks hand a value on, one to the next, through global memory with acquire and release.
extern "C" __global__ void message(int* flags, int* values, int* out) {
  __shared__ int before;
  int block = blockIdx.x;
  if (threadIdx.x == 0) {
    int sum = 0;
    if (block > 0) {
      int flag;
      do {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(flag) : "l"(flags + block - 1) : "memory");
      } while (!flag);
      sum = values[block - 1];
    }
    before = sum;
    values[block] = sum + block + 1 + (int)generation;
    asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flags + block) : "memory");
  }
  __syncthreads();
  out[block * 64 + threadIdx.x] = before * 100 + threadIdx.x;
}

// Three stages of 64 rows of 32 bytes; a short last piece is filled with zeros.
extern "C" __global__ void cp_async_pipeline(const float* x, float* out, int pieces, int last) {
  extern __shared__ float ring[];
  int i = threadIdx.x;
  float sum = 0;
  auto load = [&](int piece) {
    if (piece < pieces) {
      float* to = ring + (piece % 3) * 512 + i * 8;
      const float* from = x + piece * 512 + i * 8;
      int bytes = piece == pieces - 1 ? (i < last ? 16 : 4) : 16;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to + 4)), "l"(from + 4) : "memory");
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to + 6)), "l"(from + 6) : "memory");
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, 0;" ::"r"(shared_address(to + 7)), "l"(from + 7) : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  load(0);
  load(1);
  for (int piece = 0; piece < pieces; piece++) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    // a row that another thread brought
    const float* row = ring + (piece % 3) * 512 + (63 - i) * 8;
    for (int j = 0; j < 8; j++) sum += row[j] * (j + 1);
    load(piece + 2);
  }
  out[i] = sum;
}

// cp.async that arrives at an mbarrier.
extern "C" __global__ void cp_async_barrier(const int* x, int* out, int rounds) {
  __shared__ alignas(16) int tile[256];
  __shared__ uint64_t bar;
  int i = threadIdx.x;
  uint32_t at = shared_address(&bar);
  if (i == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at) : "memory");
  __syncthreads();
  int sum = 0;
  for (int round = 0; round < rounds; round++) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared_address(tile + 4 * i)), "l"(x + round * 256 + 4 * i) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
    asm volatile(
        "{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }" ::"r"(at), "r"(round & 1)
        : "memory");
    for (int j = 0; j < 4; j++) sum += tile[(i * 5 + j * 64) & 255];
    __syncthreads();
  }
  out[i] = sum;
}

// Each register of each shape of ldmatrix, from rows that are not in order.
extern "C" __global__ void matrix_loads(const uint32_t* x, uint32_t* out) {
  __shared__ alignas(128) uint32_t rows[256];
  int lane = threadIdx.x;
  for (int j = 0; j < 8; j++) rows[lane * 8 + j] = x[lane * 8 + j];
  __syncwarp();
  // row r of matrix m lies at 16 bytes times (5 r + 11 m) mod 64
  uint32_t at = shared_address(rows) + ((lane & 7) * 5 + (lane >> 3) * 11) % 64 * 16;
  uint32_t a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(at));
  out[lane] = a;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(at));
  out[32 + lane] = a;
  out[64 + lane] = b;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(at));
  out[96 + lane] = a;
  out[128 + lane] = b;
  out[160 + lane] = c;
  out[192 + lane] = d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(at));
  out[224 + lane] = a;
  out[256 + lane] = b;
  out[288 + lane] = c;
  out[320 + lane] = d;
}

extern "C" __global__ void matrix_stores(const uint32_t* x, uint32_t* out) {
  __shared__ alignas(128) uint32_t rows[512];
  int lane = threadIdx.x;
  for (int j = 0; j < 16; j++) rows[lane * 16 + j] = 0;
  __syncwarp();
  uint32_t at = shared_address(rows) + ((lane & 7) * 5 + (lane >> 3) * 11) % 64 * 16;
  uint32_t a = x[lane], b = x[32 + lane], c = x[64 + lane], d = x[96 + lane];
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(at + 1024), "r"(a), "r"(b) : "memory");
  __syncwarp();
  for (int j = 0; j < 16; j++) out[j * 32 + lane] = rows[j * 32 + lane];
}

// Loads and stores of every width, with cache operators, through generic addresses too.
extern "C" __global__ void vector_copies(const uint8_t* x, uint8_t* out, int use_shared) {
  __shared__ alignas(16) uint8_t tile[2048];
  int i = threadIdx.x;
  uint4 wide = __ldcg((const uint4*)x + i);
  *(uint4*)(tile + 16 * i) = make_uint4(wide.w, wide.z, wide.y, wide.x);
  ((uint2*)(tile + 1024))[i] = __ldcs((const uint2*)(x + 1024) + i);
  ((ushort2*)(tile + 1536))[i] = *((const ushort2*)(x + 1536) + i);
  ((uchar4*)(tile + 1792))[i] = ((const uchar4*)(x + 1792))[i];
  __syncthreads();
  const uint8_t* from = use_shared ? tile : x;  // a generic address: which memory, the launch says
  uint8_t reversed = from[2047 - i];
  short sum = 0;
  for (int j = 0; j < 32; j++) sum += (signed char)from[(i * 32 + j * 5) & 2047];
  *(uint4*)(out + 16 * i) = *(const uint4*)(from + 16 * (63 - i));
  *(short*)(out + 1024 + 2 * i) = sum;
  out[1152 + i] = reversed;
  __stwt((unsigned*)(out + 1216) + i, __ldg((const unsigned*)(x) + i * 3));
}

extern "C" __global__ void prefix_sums(const int* x, int* out) {
  __shared__ int sums[2][256];
  int i = threadIdx.x, side = 0;
  sums[0][i] = x[blockIdx.x * 256 + i];
  __syncthreads();
  for (int distance = 1; distance < 256; distance *= 2) {
    sums[1 - side][i] = sums[side][i] + (i >= distance ? sums[side][i - distance] : 0);
    side = 1 - side;
    __syncthreads();
  }
  out[blockIdx.x * 256 + i] = sums[side][i];
}

extern "C" __global__ void stencil(const float* x, float* out, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  float sum = 0;
  for (int j = 0; j < 5; j++) {
    int at = i + j - 2;
    if (at >= 0 && at < n) sum += weights[j] * x[at];
  }
  if (i < n) out[i] = sum;
}
