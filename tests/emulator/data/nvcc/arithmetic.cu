// Integers, bits, floats, packed halves, conversions: one thread, one element, many rows of results.
// targets: 90a 100a
// launch bits: block=64,1,1
// launch wide_integers: block=64,1,1
// launch dot_integers: block=64,1,1
// launch floats: block=64,1,1
// launch doubles: block=64,1,1
// launch halves: block=64,1,1
// launch brains: block=64,1,1
// launch conversions: block=64,1,1
// launch narrow_conversions: block=64,1,1
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cstdint>

// Row j of out begins at j n.
extern "C" __global__ void bits(const uint32_t* x, const uint32_t* y, uint32_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t a = x[i], b = y[i], result;
  auto put = [&](int row, uint32_t value) { out[row * n + i] = value; };
  put(0, __popc(a));
  put(1, __clz(a));
  put(2, __brev(a));
  put(3, __ffs(a));
  put(4, __byte_perm(a, b, i * 0x1357));
  put(5, __funnelshift_l(a, b, i));
  put(6, __funnelshift_rc(a, b, i));
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(result) : "r"(a), "r"(b), "r"(i * 0x01010101));
  put(7, result);
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b & 63), "r"(b >> 8 & 63));
  put(8, result);
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b & 31), "r"(b >> 8 & 31));
  put(9, result);
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(result) : "r"(a), "r"(b), "r"(b & 31), "r"(b >> 8 & 31));
  put(10, result);
  asm("bfind.u32 %0, %1;" : "=r"(result) : "r"(a));
  put(11, result);
  asm("bfind.shiftamt.s32 %0, %1;" : "=r"(result) : "r"(a));
  put(12, result);
  asm("fns.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(i & 31), "r"((i % 5) - 2));
  put(13, result);
  asm("shr.s32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b & 63));
  put(14, result);
  asm("shl.b32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b & 63));
  put(15, result);
  asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(result) : "r"(b & 31), "r"(b >> 8 & 31));
  put(16, result);
  asm("szext.wrap.s32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"((b & 31) | 1));
  put(17, result);
  asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(i));
  put(18, result);
  asm("prmt.b32.rc16 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(i));
  put(19, result);
}

extern "C" __global__ void wide_integers(const int64_t* x, const int64_t* y, int64_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int64_t a = x[i], b = y[i];
  auto put = [&](int row, int64_t value) { out[row * n + i] = value; };
  put(0, a + b);
  put(1, a * b);
  put(2, a / b);
  put(3, a % b);
  put(4, (int64_t)((uint64_t)a / (uint64_t)b));
  put(5, __mul64hi(a, b));
  put(6, (int64_t)__umul64hi(a, b));
  put(7, (int64_t)(int)a * (int)b);
  put(8, __popcll(a) + 100 * __clzll(b));
  put(9, (int64_t)__brevll(a));
  put(10, a < b ? a : b);
  put(11, (a >> (b & 63)) ^ (int64_t)((uint64_t)a >> (a & 63)) ^ (b << (a & 31)));
  put(12, (int64_t)(int16_t)a * (int16_t)b + (uint8_t)a);
  // 128 bits by carries
  uint64_t low, high;
  asm("{ add.cc.u64 %0, %2, %3; addc.u64 %1, %4, 0; }" : "=l"(low), "=l"(high) : "l"(a), "l"(b), "l"(a));
  put(13, (int64_t)(low ^ high));
  uint32_t first, second;
  asm("{ sub.cc.u32 %0, %2, %3; subc.u32 %1, %4, %5; }"
      : "=r"(first), "=r"(second)
      : "r"((uint32_t)a), "r"((uint32_t)b), "r"((uint32_t)(a >> 32)), "r"((uint32_t)(b >> 32)));
  put(14, (int64_t)((uint64_t)second << 32 | first));
  put(15, __sad((int)a, (int)b, 5) + (int64_t)__mulhi((int)a, (int)b));
}

extern "C" __global__ void dot_integers(const int* x, const int* y, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int a = x[i], b = y[i], result;
  auto put = [&](int row, int value) { out[row * n + i] = value; };
  put(0, __dp4a(a, b, i));
  put(1, (int)__dp4a((unsigned)a, (unsigned)b, (unsigned)i));
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(-i));
  put(2, result);
  put(3, __dp2a_lo(a, b, i));
  put(4, __dp2a_hi(a, b, i));
  asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(i));
  put(5, result);
  asm("mad24.lo.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(i));
  put(6, result);
  asm("min.relu.s16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  put(7, result);
  asm("add.u16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  put(8, result);
  asm("add.sat.s32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  put(9, result);
  put(10, __viaddmax_s32_relu(a, b, i));
  put(11, abs(a >> 1) + __rhadd(a, b));
}

extern "C" __global__ void floats(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i], b = y[i], result;
  auto put = [&](int row, float value) { out[row * n + i] = value; };
  put(0, __fadd_rn(a, b));
  put(1, __fadd_rz(a, b));
  put(2, __fmul_ru(a, b));
  put(3, __fmul_rd(a, b));
  put(4, __fmaf_rn(a, b, 1.0f));
  put(5, __fmaf_rz(a, b, -a));
  put(6, __fdiv_rn(a, b));
  put(7, __fsqrt_rn(fabsf(a)));
  put(8, fminf(a, b));
  put(9, fmaxf(fabsf(a), -b));
  put(10, copysignf(a, b));
  asm("add.sat.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  put(11, result);
  asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  put(12, result);
  put(13, rintf(a) + truncf(b));
  put(14, floorf(a) * 0.5f - ceilf(b));
  put(15, __frcp_rn(b));
  put(16, ldexpf(a, (i & 15) - 8));
  put(17, (float)__float_as_int(a) + __int_as_float((__float_as_int(b) & 0x007fffff) | 0x3f800000));
  put(18, fmodf(a, 0.75f));
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(i % 7 ? a : __int_as_float(0x7fc00000)), "f"(b));
  put(19, result);
  put(20, (a < b) + 2 * (a <= b) + 4 * !(a >= b) + 8 * (isnan(a) || isinf(b)) + 16 * signbit(a));
  asm("min.xorsign.abs.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  put(21, result);
}

extern "C" __global__ void doubles(const double* x, const double* y, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double a = x[i], b = y[i];
  auto put = [&](int row, double value) { out[row * n + i] = value; };
  put(0, __dadd_rn(a, b));
  put(1, __dmul_rz(a, b));
  put(2, __fma_rn(a, b, a));
  put(3, a / b);
  put(4, sqrt(fabs(a)));
  put(5, fmin(a, b) + floor(a));
  put(6, (double)(float)a);
  put(7, (double)(long long)(a * 1000.0) + (double)(unsigned)fabs(b));
  put(8, __hiloint2double(__double2hiint(a), __double2loint(b)));
}

extern "C" __global__ void halves(const __half2* x, const __half2* y, __half2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half2 a = x[i], b = y[i];
  auto put = [&](int row, __half2 value) { out[row * n + i] = value; };
  put(0, __hadd2_rn(a, b));
  put(1, __hmul2_rn(a, b));
  put(2, __hfma2(a, b, a));
  put(3, __hfma2_relu(a, b, a));
  put(4, __hmax2(a, b));
  put(5, __hmin2(a, __hneg2(b)));
  put(6, __habs2(a));
  put(7, __hadd2_sat(a, b));
  put(8, __halves2half2(__hsub(__low2half(a), __high2half(b)), __hmul(__high2half(a), __low2half(b))));
  put(9, __lowhigh2highlow(a));
  put(10, __hlt2(a, b));
  put(11, h2floor(a));
  put(12, __floats2half2_rn(__low2float(a) * 3.0f, __high2float(b) / 3.0f));
  uint32_t mask = __hge2_mask(a, b);
  put(13, *(__half2*)&mask);
}

extern "C" __global__ void brains(const __nv_bfloat162* x, const __nv_bfloat162* y, __nv_bfloat162* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_bfloat162 a = x[i], b = y[i];
  auto put = [&](int row, __nv_bfloat162 value) { out[row * n + i] = value; };
  put(0, __hadd2_rn(a, b));
  put(1, __hmul2_rn(a, b));
  put(2, __hfma2(a, b, a));
  put(3, __hfma2_relu(a, b, a));
  put(4, __hmax2(a, b));
  put(5, __hmin2(a, __hneg2(b)));
  put(6, __habs2(a));
  put(7, __halves2bfloat162(__hsub(__low2bfloat16(a), __high2bfloat16(b)), __hmul(__high2bfloat16(a), __low2bfloat16(b))));
  put(8, __floats2bfloat162_rn(__low2float(a) * 3.0f, __high2float(b) / 3.0f));
  put(9, __hgt2(a, b));
}

extern "C" __global__ void conversions(const float* x, const int* y, uint32_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i];
  int b = y[i];
  auto put = [&](int row, uint32_t value) { out[row * n + i] = value; };
  put(0, __float2int_rn(a));
  put(1, __float2int_rz(a));
  put(2, __float2int_ru(a));
  put(3, __float2int_rd(a));
  put(4, __float2uint_rz(a));
  put(5, __float_as_uint(__int2float_rn(b)));
  put(6, __float_as_uint(__int2float_rz(b)));
  put(7, __float_as_uint(__uint2float_ru(b)));
  put(8, __half_as_ushort(__float2half_rn(a)) | __half_as_ushort(__float2half_rz(a)) << 16);
  put(9, __half_as_ushort(__float2half_ru(a)) | __half_as_ushort(__float2half_rd(a)) << 16);
  put(10, __bfloat16_as_ushort(__float2bfloat16_rn(a)) | __bfloat16_as_ushort(__float2bfloat16_rz(a)) << 16);
  put(11, __half_as_ushort(__int2half_rn(b >> 12)) | (uint32_t)__half2short_rz(__float2half_rn(a)) << 16);
  put(12, (uint32_t)(__float2ll_rd(a) >> 3));
  uint32_t result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(a));
  put(13, result);
  asm("cvt.sat.s8.s32 %0, %1;" : "=r"(result) : "r"(b));
  put(14, result);
  asm("{ .reg .b16 t; cvt.sat.u16.s32 t, %1; cvt.s32.s16 %0, t; }" : "=r"(result) : "r"(b));
  put(15, result);
  asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(b), "r"(b >> 20), "r"(b));
  put(16, result);
}

// x: pairs of float32.
extern "C" __global__ void narrow_conversions(const float2* x, uint32_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 a = x[i];
  auto put = [&](int row, uint32_t value) { out[row * n + i] = value; };
  __nv_fp8x2_storage_t four = __nv_cvt_float2_to_fp8x2(a, __NV_SATFINITE, __NV_E4M3);
  __nv_fp8x2_storage_t five = __nv_cvt_float2_to_fp8x2(a, __NV_SATFINITE, __NV_E5M2);
  put(0, four);
  put(1, five);
  __half2 half = __float22half2_rn(a);
  put(2, *(uint32_t*)&half);
  __half2_raw back = __nv_cvt_fp8x2_to_halfraw2(four, __NV_E4M3), other = __nv_cvt_fp8x2_to_halfraw2(five, __NV_E5M2);
  put(3, back.x | back.y << 16);
  put(4, other.x | other.y << 16);
  uint16_t relu, from_half;
  asm("cvt.rn.satfinite.relu.e4m3x2.f32 %0, %1, %2;" : "=h"(relu) : "f"(a.x), "f"(a.y));
  put(5, relu);
  asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(from_half) : "r"(*(uint32_t*)&half));
  put(6, from_half);
}
