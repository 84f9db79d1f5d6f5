// Block-scaled mma.sync of sm_120a with selectors other than 0, fragments loaded element by element.
// targets: 120a
// launch scaled_f8f6f4: block=32,1,1
// launch scaled_mxf4: block=32,1,1
// launch scaled_nvf4: block=32,1,1
#include <cstdint>

#define OPERANDS                                                                                       \
  : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                     \
  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(a_scale), "r"(b_scale)

__device__ inline void put(float* c, const float (&d)[4]) {
  int group = threadIdx.x >> 2, place = threadIdx.x & 3;
  for (int j = 0; j < 4; j++) c[(group + 8 * (j >> 1)) * 8 + 2 * place + (j & 1)] = d[j];
}

// Registers of rows of `pitch` bytes: A's four, B's two.
__device__ inline void load(uint32_t (&a)[4], uint32_t (&b)[2], const uint8_t* as, const uint8_t* bs, int pitch) {
  int group = threadIdx.x >> 2, place = threadIdx.x & 3;
  for (int j = 0; j < 4; j++)
    a[j] = *(const uint32_t*)(as + (group + 8 * (j & 1)) * pitch + 4 * place + pitch / 2 * (j >> 1));
  for (int j = 0; j < 2; j++) b[j] = *(const uint32_t*)(bs + group * pitch + 4 * place + pitch / 2 * j);
}

// a (16, 32) e4m3, b (8, 32) in bytes: once e2m1 in bits 2-5 of a byte, once e3m2 in bits 0-5.
// The scale of row r of a comes from byte 2 of lane 4 (r mod 8) + 2 + r / 8 (thread-id-a 1); that of column n of b from
// byte 1 of lane 4 n + 3 (thread-id-b 3). c (2, 16, 8): the first product, and its sum with the second.
extern "C" __global__ void scaled_f8f6f4(const uint8_t* as, const uint8_t* b4, const uint8_t* b6, const uint8_t* a_scales,
                                         const uint8_t* b_scales, float* c) {
  int lane = threadIdx.x, group = lane >> 2, place = lane & 3;
  uint32_t a[4], b[2];
  uint32_t a_scale = 0x01020304u, b_scale = 0x05060708u;  // what must not be used
  if (place >= 2) a_scale = (a_scale & 0xff00ffffu) | (uint32_t)a_scales[group + 8 * (place - 2)] << 16;
  if (place == 3) b_scale = (b_scale & 0xffff00ffu) | (uint32_t)b_scales[group] << 8;
  load(a, b, as, b4, 32);
  float d[4] = {0, 0, 0, 0};
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {2, 1}, {%11}, {1, 3};" OPERANDS);
  put(c, d);
  load(a, b, as, b6, 32);
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e3m2.f32.ue8m0 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {2, 1}, {%11}, {1, 3};" OPERANDS);
  put(c + 128, d);
}

// a (16, 64), b (8, 64) e2m1, two in a byte; two scales of a row lie in bytes 2 and 3 (byte-id 2).
extern "C" __global__ void scaled_mxf4(const uint8_t* as, const uint8_t* bs, const uint8_t* a_scales, const uint8_t* b_scales,
                                       float* c) {
  int lane = threadIdx.x, group = lane >> 2, place = lane & 3;
  uint32_t a[4], b[2], a_scale = 0x7f7f7f7fu, b_scale = 0x7f7f7f7fu;
  if (place < 2) a_scale = *(const uint16_t*)(a_scales + 2 * (group + 8 * place)) << 16;
  if (place == 2) b_scale = *(const uint16_t*)(b_scales + 2 * group);
  load(a, b, as, bs, 32);
  float d[4] = {1, 1, 1, 1};
  asm volatile(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {2, 0}, {%11}, {0, 2};" OPERANDS);
  put(c, d);
}

// Four e4m3 scales of a row in one register.
extern "C" __global__ void scaled_nvf4(const uint8_t* as, const uint8_t* bs, const uint8_t* a_scales, const uint8_t* b_scales,
                                       float* c) {
  int lane = threadIdx.x, group = lane >> 2, place = lane & 3;
  uint32_t a[4], b[2], a_scale = 0x7e7e7e7eu, b_scale = 0x7e7e7e7eu;
  if (place >= 2) a_scale = *(const uint32_t*)(a_scales + 4 * (group + 8 * (place - 2)));
  if (place == 1) b_scale = *(const uint32_t*)(b_scales + 4 * group);
  load(a, b, as, bs, 32);
  float d[4] = {0, 0, 0, 0};
  asm volatile(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {0, 1}, {%11}, {0, 1};" OPERANDS);
  put(c, d);
}
