// Conversions to and from FP4, FP6 and ue8m0, which sm_100 brought.
// targets: 100a 120a
// launch tiny_conversions: block=64,1,1
#include <cstdint>

// x: pairs of float32. Row j of out begins at j n.
extern "C" __global__ void tiny_conversions(const float2* x, uint32_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 a = x[i];
  auto put = [&](int row, uint32_t value) { out[row * n + i] = value; };
  uint32_t fp4;
  asm("{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %1, %2; cvt.u32.u8 %0, t; }" : "=r"(fp4) : "f"(a.x), "f"(a.y));
  put(0, fp4);
  uint32_t wide;
  asm("{ .reg .b8 t; cvt.u8.u32 t, %1; cvt.rn.f16x2.e2m1x2 %0, t; }" : "=r"(wide) : "r"(fp4));
  put(1, wide);
  uint16_t six, scale;
  asm("cvt.rn.satfinite.e2m3x2.f32 %0, %1, %2;" : "=h"(six) : "f"(a.x), "f"(a.y));
  put(2, six);
  asm("cvt.rn.f16x2.e2m3x2 %0, %1;" : "=r"(wide) : "h"(six));
  put(3, wide);
  asm("cvt.rn.satfinite.e3m2x2.f32 %0, %1, %2;" : "=h"(six) : "f"(a.x), "f"(a.y));
  put(4, six);
  asm("cvt.rn.f16x2.e3m2x2 %0, %1;" : "=r"(wide) : "h"(six));
  put(5, wide);
  asm("cvt.rz.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(scale) : "f"(fabsf(a.x)), "f"(fabsf(a.y)));
  put(6, scale);
  asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(scale) : "f"(fabsf(a.x)), "f"(fabsf(a.y)));
  put(7, scale);
  asm("cvt.rn.bf16x2.ue8m0x2 %0, %1;" : "=r"(wide) : "h"(scale));
  put(8, wide);
}
