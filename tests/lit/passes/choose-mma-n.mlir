// RUN: scalec opt --passes=choose-mma-n %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// The partial sums of a wave have registers beside those of the tile: 128 + 64 of 232.
// CHECK-LABEL: func.func @whole
// CHECK-SAME: mma_n = 0 : i64
func.func @whole(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>, warps = array<i64: 8, 1>, registers = array<i64: 40, 232>, promote = 128 : i64}>} {
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

// 88 + 88 of 160 have not, 88 + 44 have.
// CHECK-LABEL: func.func @halves
// CHECK-SAME: mma_n = 88 : i64
func.func @halves(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 192, 176, 128>, warps = array<i64: 12, 1>, registers = array<i64: 32, 160>, promote = 128 : i64}>} {
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

// 96 + 48 leave too few for the rest; 96 + 32 do not.
// CHECK-LABEL: func.func @thirds
// CHECK-SAME: mma_n = 64 : i64
func.func @thirds(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 192, 192, 128>, warps = array<i64: 12, 1>, registers = array<i64: 32, 160>, promote = 128 : i64}>} {
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

// 136 has no divisor but 8, and needs none: with a factor for each block 136 + 68 of 232 leave enough.
// CHECK-LABEL: func.func @one
// CHECK-SAME: mma_n = 136 : i64
func.func @one(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 136, 128>, warps = array<i64: 8, 1>, registers = array<i64: 40, 232>, promote = 128 : i64}>} {
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

// Without promotion there are no partial sums.
// CHECK-LABEL: func.func @unpromoted
// CHECK-SAME: mma_n = 0 : i64
func.func @unpromoted(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 192, 176, 128>, warps = array<i64: 12, 1>, registers = array<i64: 32, 160>, promote = 0 : i64}>} {
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

// What is decided stays.
// CHECK-LABEL: func.func @decided
// CHECK-SAME: mma_n = 32 : i64
func.func @decided(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>, warps = array<i64: 8, 1>, registers = array<i64: 40, 232>, promote = 128 : i64, mma_n = 32 : i64}>} {
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
