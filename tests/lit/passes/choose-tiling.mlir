// RUN: scalec opt --passes=choose-tiling %s | filecheck %s
// Where the tensor cores of two CTAs multiply together, they do: each copies half of B. FP32 sums beside them fit 256
// columns, which two warpgroups share.
// RUN: scalec opt --passes=choose-tiling --target sm_100a %s | filecheck %s --check-prefix=PAIR

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @large
// CHECK-SAME: cluster = array<i64: 2, 1>
// CHECK-SAME: cta_group = 1 : i64
// CHECK-SAME: mma_n = 128 : i64
// CHECK-SAME: promote = 128 : i64
// CHECK-SAME: tile = array<i64: 128, 256, 128>
// PAIR-LABEL: func.func @large
// PAIR-SAME: cluster = array<i64: 2, 1>, cta_group = 2 : i64
// PAIR-SAME: tile = array<i64: 128, 256, 128>
func.func @large(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"]} {
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

// 32 whole waves of 192x128 take as long as 24 of 256x128, and 192x128 is a little faster.
// CHECK-LABEL: func.func @waves
// CHECK-SAME: tile = array<i64: 192, 128, 128>
func.func @waves(%A: tensor<4096x1536xf8E4M3FN>, %B: tensor<24576x1536xf8E4M3FN>, %s: tensor<4096x12xf32>, %t: tensor<192x12xf32>)
  -> (tensor<4096x24576xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x1536xf8E4M3FN>, tensor<4096x12xf32>) -> tensor<4096x1536xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<24576x1536xf8E4M3FN>, tensor<192x12xf32>) -> tensor<24576x1536xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x1536xf32>, tensor<24576x1536xf32>) -> tensor<4096x24576xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x24576xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x24576xbf16>
  return %r : tensor<4096x24576xbf16>
}

// Few rows are columns of the transposed result.
// CHECK-LABEL: func.func @few_rows
// CHECK-SAME: swap = 1 : i64, tile = array<i64: 64, 16, 128>
func.func @few_rows(%A: tensor<16x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<16x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<16x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<16x2048xf8E4M3FN>, tensor<16x16xf32>) -> tensor<16x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32>) -> tensor<7168x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<16x2048xf32>, tensor<7168x2048xf32>) -> tensor<16x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<16x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<16x7168xbf16>
  return %r : tensor<16x7168xbf16>
}

// M unknown counts as large.
// CHECK-LABEL: func.func @unknown
// CHECK-SAME: tile = array<i64: 128, 256, 128>
func.func @unknown(%A: tensor<?x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<?x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<?x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<?x2048xf8E4M3FN>, tensor<?x16xf32>) -> tensor<?x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32>) -> tensor<7168x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<?x2048xf32>, tensor<7168x2048xf32>) -> tensor<?x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<?x7168xbf16>
  return %r : tensor<?x7168xbf16>
}

// One tile along N has no neighbour to share A with.
// CHECK-LABEL: func.func @one_column
// CHECK-SAME: cluster = array<i64: 1, 1>
// CHECK-SAME: tile = array<i64: 64, 16, 128>
func.func @one_column(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<16x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<1x16xf32>)
  -> (tensor<4096x16xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x2048xf8E4M3FN>, tensor<4096x16xf32>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<16x2048xf8E4M3FN>, tensor<1x16xf32>) -> tensor<16x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf32>, tensor<16x2048xf32>) -> tensor<4096x16xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x16xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x16xbf16>
  return %r : tensor<4096x16xbf16>
}

// What is decided stays.
// CHECK-LABEL: func.func @decided
// CHECK-SAME: cluster = array<i64: 2, 1>
// CHECK-SAME: tile = array<i64: 128, 128, 128>
func.func @decided(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 128, 128, 128>, cluster = array<i64: 2, 1>}>} {
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

// 16-bit operands: 128 bytes are 64 elements, sums stay in the tensor core.
// CHECK-LABEL: func.func @half
// CHECK-SAME: promote = 0 : i64
// CHECK-SAME: tile = array<i64: 128, 256, 64>
func.func @half(%A: tensor<4096x2048xbf16>, %B: tensor<7168x2048xbf16>) -> tensor<4096x7168xf32>
  attributes {scale.dims = ["m", "n", "k"]} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xbf16>, tensor<7168x2048xbf16>) -> tensor<4096x7168xf32>
  return %c : tensor<4096x7168xf32>
}
