// RUN: scalec opt --target sm_90a --passes=choose-parts %s | filecheck %s
// RUN: scalec opt --target sm_120a --passes=choose-parts %s | filecheck %s --check-prefix=ALONE

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// 32 clusters of two run at once. Without clusters parts meet in memory.
// CHECK-LABEL: func.func @few_tiles
// CHECK-SAME: parts = "cluster"
// ALONE-LABEL: func.func @few_tiles
// ALONE-SAME: parts = "memory"
func.func @few_tiles(%A: tensor<64x7168xf8E4M3FN>, %B: tensor<2048x7168xf8E4M3FN>, %s: tensor<64x56xf32>, %t: tensor<16x56xf32>)
  -> (tensor<64x2048xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 64, 64, 128>, cluster = array<i64: 1, 1>, split = 2 : i64, scale_path = "bulk",
                warpgroups = 1 : i64, epilogue = "direct", scheduler = "static"}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<64x7168xf8E4M3FN>, tensor<64x56xf32>) -> tensor<64x7168xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2048x7168xf8E4M3FN>, tensor<16x56xf32>) -> tensor<2048x7168xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<64x7168xf32>, tensor<2048x7168xf32>) -> tensor<64x2048xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<64x2048xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<64x2048xbf16>
  return %r : tensor<64x2048xbf16>
}

// 128 clusters would not.
// CHECK-LABEL: func.func @many_tiles
// CHECK-SAME: parts = "memory"
func.func @many_tiles(%A: tensor<64x7168xf8E4M3FN>, %B: tensor<8192x7168xf8E4M3FN>, %s: tensor<64x56xf32>, %t: tensor<64x56xf32>)
  -> (tensor<64x8192xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 64, 64, 128>, cluster = array<i64: 1, 1>, split = 2 : i64, scale_path = "bulk",
                warpgroups = 1 : i64, epilogue = "direct", scheduler = "static"}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<64x7168xf8E4M3FN>, tensor<64x56xf32>) -> tensor<64x7168xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<8192x7168xf8E4M3FN>, tensor<64x56xf32>) -> tensor<8192x7168xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<64x7168xf32>, tensor<8192x7168xf32>) -> tensor<64x8192xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<64x8192xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<64x8192xbf16>
  return %r : tensor<64x8192xbf16>
}

// There are no parts.
// CHECK-LABEL: func.func @whole
// CHECK-SAME: parts = "memory"
func.func @whole(%A: tensor<64x7168xf8E4M3FN>, %B: tensor<2048x7168xf8E4M3FN>, %s: tensor<64x56xf32>, %t: tensor<16x56xf32>)
  -> (tensor<64x2048xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 64, 64, 128>, cluster = array<i64: 1, 1>, split = 1 : i64, scale_path = "bulk",
                warpgroups = 1 : i64, epilogue = "direct", scheduler = "static"}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<64x7168xf8E4M3FN>, tensor<64x56xf32>) -> tensor<64x7168xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2048x7168xf8E4M3FN>, tensor<16x56xf32>) -> tensor<2048x7168xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<64x7168xf32>, tensor<2048x7168xf32>) -> tensor<64x2048xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<64x2048xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<64x2048xbf16>
  return %r : tensor<64x2048xbf16>
}
