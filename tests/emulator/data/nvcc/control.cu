// Divergence: loops, returns, switches, calls, local memory; votes, shuffles, matches, reductions of a warp.
// targets: 90a 120a
// launch collatz: block=64,1,1
// launch nested: block=96,1,1
// launch dispatch: block=64,1,1
// launch sort_local: block=32,1,1
// launch warp_votes: block=64,1,1
// launch warp_shuffles: block=64,1,1
// launch warp_matches: block=64,1,1
// launch divergent_shuffles: block=64,1,1
// launch compact: block=128,1,1
// launch block_shape: block=4,3,5
#include <cstdint>

// Steps to 1 of the Collatz sequence: a trip count of its own for each thread; some threads leave early.
extern "C" __global__ void collatz(const uint32_t* x, int* steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t value = x[i];
  int count = 0;
  while (value != 1) {
    if (value == 0) {
      steps[i] = -1;
      return;
    }
    value = value & 1 ? 3 * value + 1 : value >> 1;
    count++;
  }
  steps[i] = count;
}

// Loops in loops with break and continue, conditions of which depend on the thread.
extern "C" __global__ void nested(const int* x, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int limit = x[i], sum = 0;
#pragma unroll 1
  for (int a = 0; a < limit; a++) {
    if (a % 3 == i % 3) continue;
#pragma unroll 1
    for (int b = a; b < 2 * limit; b += 1 + (i & 3)) {
      if ((a * b + i) % 7 == 5) break;
      sum += a ^ b;
      if (sum > 4000) {
        sum -= 4000;
        if (i & 8) goto out;
      }
    }
    sum += __popc(sum);
  }
out:
  // everybody meets again
  sum += __reduce_add_sync(0xffffffffu, i & 31);
  out[i] = sum;
}

__device__ __noinline__ int cube(int x) { return x * x * x; }
__device__ __noinline__ int twice(int x) { return 2 * x; }

// A switch with a case that falls through, calls of functions.
extern "C" __global__ void dispatch(const int* x, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = x[i], result;
  switch (value & 15) {
    case 0: result = 17; break;
    case 1: result = value * 5; break;
    case 2: result = cube(value); break;
    case 3: result = -value; break;
    case 4: result = value << 3;  // and on to the next
    case 5: result = value ^ 0x55; break;
    case 6: result = value / 3; break;
    case 7: result = twice(value) + 1; break;
    case 8: result = __clz(value); break;
    case 9: result = __brev(value); break;
    case 10: result = value % 11; break;
    default: result = 1000 + (value & 15);
  }
  out[i] = result + (value & 1 ? cube(i) : twice(i));
}

// An array of a thread's own, indexed by what it holds: local memory.
extern "C" __global__ void sort_local(const short* x, short* out) {
  short own[24];
  int i = threadIdx.x;
  for (int j = 0; j < 24; j++) own[j] = x[i * 24 + j];
#pragma unroll 1
  for (int j = 1; j < 24; j++) {
    short value = own[j];
    int at = j;
#pragma unroll 1
    while (at > 0 && own[at - 1] > value) {
      own[at] = own[at - 1];
      at--;
    }
    own[at] = value;
  }
  for (int j = 0; j < 24; j++) out[i * 24 + j] = own[j];
}

extern "C" __global__ void warp_votes(const int* x, unsigned* out) {
  int i = threadIdx.x, value = x[i];
  unsigned* row = out + 8 * i;
  row[0] = __ballot_sync(0xffffffffu, value & 1);
  row[1] = __any_sync(0xffffffffu, value == 3);
  row[2] = __all_sync(0xffffffffu, value < 900);
  row[3] = __reduce_max_sync(0xffffffffu, value);
  row[4] = __reduce_min_sync(0xffffffffu, (unsigned)value);
  row[5] = __reduce_or_sync(0xffffffffu, (unsigned)value);
  row[6] = __reduce_and_sync(0xffffffffu, (unsigned)value | 1u);
  unsigned same;
  asm volatile("{ .reg .pred p, q; setp.gt.s32 p, %1, 500; vote.sync.uni.pred q, p, -1; selp.u32 %0, 1, 0, q; }"
               : "=r"(same)
               : "r"(value));
  row[7] = same + __popc(__activemask());
}

extern "C" __global__ void warp_shuffles(const int* x, int* out) {
  int i = threadIdx.x, lane = i & 31, value = x[i];
  out[i] = __shfl_sync(0xffffffffu, value, (lane * 7 + 3) & 31);
  out[64 + i] = __shfl_up_sync(0xffffffffu, value, 3);
  out[128 + i] = __shfl_down_sync(0xffffffffu, value, 5, 16);
  out[192 + i] = __shfl_xor_sync(0xffffffffu, value, 9);
  int sum = value;
  for (int distance = 1; distance < 32; distance *= 2) {
    int other = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += other;
  }
  out[256 + i] = sum;
  long long wide = __shfl_xor_sync(0xffffffffu, (long long)value * 1000000007LL, 1, 8);
  out[320 + i] = (int)(wide >> 7);
}

extern "C" __global__ void warp_matches(const int* x, unsigned* out) {
  int i = threadIdx.x, value = x[i];
  int all;
  out[3 * i] = __match_any_sync(0xffffffffu, value);
  out[3 * i + 1] = __match_all_sync(0xffffffffu, value >> 8, &all);
  out[3 * i + 2] = all + 2 * __popc(__match_any_sync(0xffffffffu, (unsigned long long)value * 3));
}

// Both sides of a branch shuffle among themselves.
extern "C" __global__ void divergent_shuffles(const int* x, int* out) {
  int i = threadIdx.x, lane = i & 31, value = x[i], result;
  unsigned odd = __ballot_sync(0xffffffffu, value & 1);
  if (value & 1) {
    int leader = __ffs(odd) - 1;
    result = __shfl_sync(odd, value, leader) + __popc(odd & ((1u << lane) - 1));
    __syncwarp(odd);
  } else {
    result = __reduce_add_sync(~odd, value);
    unsigned half = __ballot_sync(~odd, value & 2);
    if (value & 2) result -= __shfl_sync(half, lane, 31 - __clz(half));
  }
  __syncwarp();
  out[i] = result + __shfl_xor_sync(0xffffffffu, result, 1);
}

// Keeps what is positive, in order, through votes and a sum over warps.
extern "C" __global__ void compact(const int* x, int* out, int* count) {
  __shared__ int counts[4];
  int i = threadIdx.x, lane = i & 31, warp = i >> 5, value = x[i];
  unsigned kept = __ballot_sync(0xffffffffu, value > 0);
  if (lane == 0) counts[warp] = __popc(kept);
  __syncthreads();
  int before = 0;
  for (int other = 0; other < warp; other++) before += counts[other];
  if (value > 0) out[before + __popc(kept & ((1u << lane) - 1))] = value;
  int total = __syncthreads_count(value > 0);
  int any = __syncthreads_or(value == 77), every = __syncthreads_and(value < 500);
  if (i == 0) *count = total + 1000 * (any != 0) + 10000 * (every != 0);
}

// Special registers in three dimensions.
extern "C" __global__ void block_shape(int* out) {
  int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int size = blockDim.x * blockDim.y * blockDim.z;
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  int* row = out + 4 * (block * size + thread);
  row[0] = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z;
  row[1] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z;
  row[2] = lane;
  row[3] = gridDim.x * gridDim.y * gridDim.z;
}
