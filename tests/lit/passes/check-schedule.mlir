// RUN: scalec opt --passes=check-schedule %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// The IR leaves as it came.
// CHECK-LABEL: func.func @good
// CHECK-SAME: scale.schedule = #scale.schedule<{adds = "memory", band = 7 : i64, cluster = array<i64: 1, 2>, consumers = "cooperative", convert = "shared", converters = 0 : i64, cta_group = 1 : i64, dependent = 0 : i64, early_wait = 1 : i64
// CHECK: "scale.contract"
func.func @good(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{swap = 0 : i64, tile = array<i64: 256, 128, 128>, cluster = array<i64: 1, 2>, cta_group = 1 : i64, split = 1 : i64, parts = "memory", stages = 3 : i64, swizzle_a = 128 : i64,
                swizzle_b = 128 : i64, swizzle_c = 128 : i64, warpgroups = 2 : i64, consumers = "cooperative", warps = array<i64: 8, 1>, convert = "shared", converters = 0 : i64, registers = array<i64: 40, 232>,
                scale_path = "thread", scale_copier = 0 : i64, permute_n = 0 : i64, promote = 128 : i64, mma_n = 0 : i64, early_wait = 1 : i64, unroll = 1 : i64, epilogue = "bulk", staged = 0 : i64, panels = 0 : i64, adds = "memory", inputs = 0 : i64,
                scheduler = "static", dependent = 0 : i64, order = "n", band = 7 : i64, run = 1 : i64, stationary = 0 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x2048xf8E4M3FN>, tensor<4096x16xf32>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32>) -> tensor<7168x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf32>, tensor<7168x2048xf32>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xbf16>
  return %r : tensor<4096x7168xbf16>
}
