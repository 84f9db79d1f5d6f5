// RUN: scalec opt --target sm_120a --passes=choose-split %s | filecheck %s
// RUN: scalec opt --target sm_90a --passes=choose-split %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// 16 tiles: 128 parts of 7 K blocks run at once on 188 SMs, and on 132.
// CHECK-LABEL: func.func @few_tiles
// CHECK-SAME: split = 8 : i64
func.func @few_tiles(%A: tensor<64x7168xf8E4M3FN>, %B: tensor<2048x7168xf8E4M3FN>, %s: tensor<64x56xf32>, %t: tensor<16x56xf32>)
  -> (tensor<64x2048xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 64, 128, 128>, cluster = array<i64: 1, 1>, promote = 128 : i64}>} {
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

// 128 tiles: twice as many parts would not run at once.
// CHECK-LABEL: func.func @many_tiles
// CHECK-SAME: split = 1 : i64
func.func @many_tiles(%A: tensor<64x7168xf8E4M3FN>, %B: tensor<16384x7168xf8E4M3FN>, %s: tensor<64x56xf32>, %t: tensor<128x56xf32>)
  -> (tensor<64x16384xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 64, 128, 128>, cluster = array<i64: 1, 1>, promote = 128 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<64x7168xf8E4M3FN>, tensor<64x56xf32>) -> tensor<64x7168xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<16384x7168xf8E4M3FN>, tensor<128x56xf32>) -> tensor<16384x7168xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<64x7168xf32>, tensor<16384x7168xf32>) -> tensor<64x16384xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<64x16384xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<64x16384xbf16>
  return %r : tensor<64x16384xbf16>
}

// What is decided stays.
// CHECK-LABEL: func.func @decided
// CHECK-SAME: split = 3 : i64
func.func @decided(%A: tensor<64x7168xf8E4M3FN>, %B: tensor<2048x7168xf8E4M3FN>, %s: tensor<64x56xf32>, %t: tensor<16x56xf32>)
  -> (tensor<64x2048xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 64, 128, 128>, cluster = array<i64: 1, 1>, promote = 128 : i64, split = 3 : i64}>} {
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
