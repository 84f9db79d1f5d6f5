// Tensor cores by hand: fragments as the PTX ISA's figures have them, loaded element by element.
// targets: 90a 120a
// launch mma_bf16: block=32,1,1
// launch mma_e4m3: block=32,1,1
// launch mma_tf32: block=32,1,1
#include <cuda_bf16.h>
#include <cstdint>

// c (16, 8) = a (16, 16) b (8, 16) transposed
extern "C" __global__ void mma_bf16(const uint16_t* a, const uint16_t* b, float* c) {
  int lane = threadIdx.x, group = lane >> 2, place = lane & 3;
  auto pair = [](const uint16_t* at) { return (uint32_t)at[0] | (uint32_t)at[1] << 16; };
  uint32_t a0 = pair(a + group * 16 + 2 * place), a1 = pair(a + (group + 8) * 16 + 2 * place);
  uint32_t a2 = pair(a + group * 16 + 2 * place + 8), a3 = pair(a + (group + 8) * 16 + 2 * place + 8);
  uint32_t b0 = pair(b + group * 16 + 2 * place), b1 = pair(b + group * 16 + 2 * place + 8);
  float d[4] = {1, 2, 3, 4};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  c[group * 8 + 2 * place] = d[0];
  c[group * 8 + 2 * place + 1] = d[1];
  c[(group + 8) * 8 + 2 * place] = d[2];
  c[(group + 8) * 8 + 2 * place + 1] = d[3];
}

// c (16, 8) = a (16, 32) b (8, 32) transposed
extern "C" __global__ void mma_e4m3(const uint8_t* a, const uint8_t* b, float* c) {
  int lane = threadIdx.x, group = lane >> 2, place = lane & 3;
  auto four = [](const uint8_t* at) { return at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24; };
  uint32_t a0 = four(a + group * 32 + 4 * place), a1 = four(a + (group + 8) * 32 + 4 * place);
  uint32_t a2 = four(a + group * 32 + 4 * place + 16), a3 = four(a + (group + 8) * 32 + 4 * place + 16);
  uint32_t b0 = four(b + group * 32 + 4 * place), b1 = four(b + group * 32 + 4 * place + 16);
  float d[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  c[group * 8 + 2 * place] = d[0];
  c[group * 8 + 2 * place + 1] = d[1];
  c[(group + 8) * 8 + 2 * place] = d[2];
  c[(group + 8) * 8 + 2 * place + 1] = d[3];
}

// c (16, 8) = a (16, 8) b (8, 8) transposed
extern "C" __global__ void mma_tf32(const uint32_t* a, const uint32_t* b, float* c) {
  int lane = threadIdx.x, group = lane >> 2, place = lane & 3;
  float d[4] = {0, 0, 0, 0};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[group * 8 + place]), "r"(a[(group + 8) * 8 + place]), "r"(a[group * 8 + place + 4]),
                 "r"(a[(group + 8) * 8 + place + 4]), "r"(b[group * 8 + place]), "r"(b[group * 8 + place + 4]));
  c[group * 8 + 2 * place] = d[0];
  c[group * 8 + 2 * place + 1] = d[1];
  c[(group + 8) * 8 + 2 * place] = d[2];
  c[(group + 8) * 8 + 2 * place + 1] = d[3];
}
