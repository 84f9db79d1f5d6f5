// RUN: scalec opt --passes=fix-order %s | filecheck %s
// RUN: scalec opt --passes=fix-order,choose-tiling,choose-split %s | filecheck %s --check-prefix=SMALL
// RUN: scalec opt --target sm_100a --passes=fix-order,choose-tiling %s | filecheck %s --check-prefix=PAIR

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// Nobody asked: later passes choose by M.
// CHECK-LABEL: func.func @fastest
// CHECK-SAME: scale.schedule = #scale.schedule<{}>
// SMALL-LABEL: func.func @fastest
// SMALL-SAME: split = 3 : i64
// SMALL-SAME: swap = 1 : i64
func.func @fastest(%A: tensor<16x7168xf8E4M3FN>, %B: tensor<2112x7168xf8E4M3FN>, %s: tensor<16x56xf32>, %t: tensor<17x56xf32>)
  -> (tensor<16x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<16x7168xf8E4M3FN>, tensor<16x56xf32>) -> tensor<16x7168xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2112x7168xf8E4M3FN>, tensor<17x56xf32>) -> tensor<2112x7168xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<16x7168xf32>, tensor<2112x7168xf32>) -> tensor<16x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<16x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<16x2112xbf16>
  return %r : tensor<16x2112xbf16>
}

// No part of K, and no transposed result, as for many rows.
// CHECK-LABEL: func.func @few_rows
// CHECK-SAME: scale.schedule = #scale.schedule<{cta_group = 1 : i64, invariant = 1 : i64, split = 1 : i64, swap = 0 : i64}>
// SMALL-LABEL: func.func @few_rows
// SMALL-SAME: split = 1 : i64, swap = 0 : i64
func.func @few_rows(%A: tensor<16x7168xf8E4M3FN>, %B: tensor<2112x7168xf8E4M3FN>, %s: tensor<16x56xf32>, %t: tensor<17x56xf32>)
  -> (tensor<16x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{invariant = 1 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<16x7168xf8E4M3FN>, tensor<16x56xf32>) -> tensor<16x7168xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2112x7168xf8E4M3FN>, tensor<17x56xf32>) -> tensor<2112x7168xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<16x7168xf32>, tensor<2112x7168xf32>) -> tensor<16x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<16x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<16x2112xbf16>
  return %r : tensor<16x2112xbf16>
}

// PAIR-LABEL: func.func @many_rows
// PAIR-SAME: cta_group = 1 : i64
// PAIR-SAME: split = 1 : i64, swap = 0 : i64
func.func @many_rows(%A: tensor<4096x7168xf8E4M3FN>, %B: tensor<2112x7168xf8E4M3FN>, %s: tensor<4096x56xf32>, %t: tensor<17x56xf32>)
  -> (tensor<4096x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{invariant = 1 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x7168xf8E4M3FN>, tensor<4096x56xf32>) -> tensor<4096x7168xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2112x7168xf8E4M3FN>, tensor<17x56xf32>) -> tensor<2112x7168xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x7168xf32>, tensor<2112x7168xf32>) -> tensor<4096x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x2112xbf16>
  return %r : tensor<4096x2112xbf16>
}

// What the program decided holds for every M.
// CHECK-LABEL: func.func @given
// CHECK-SAME: scale.schedule = #scale.schedule<{cta_group = 1 : i64, invariant = 1 : i64, split = 4 : i64, swap = 1 : i64}>
func.func @given(%A: tensor<4096x7168xf8E4M3FN>, %B: tensor<2112x7168xf8E4M3FN>, %s: tensor<4096x56xf32>, %t: tensor<17x56xf32>)
  -> (tensor<4096x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{invariant = 1 : i64, split = 4 : i64, swap = 1 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x7168xf8E4M3FN>, tensor<4096x56xf32>) -> tensor<4096x7168xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2112x7168xf8E4M3FN>, tensor<17x56xf32>) -> tensor<2112x7168xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x7168xf32>, tensor<2112x7168xf32>) -> tensor<4096x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x2112xbf16>
  return %r : tensor<4096x2112xbf16>
}
