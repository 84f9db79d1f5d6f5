// RUN: scalec opt --target sm_90a --passes=choose-stream-k %s | filecheck %s
// RUN: scalec opt --target sm_120a --passes=choose-stream-k %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// 272 tiles are 2.06 waves of 132, and whole all the same: that was not measured.
// CHECK-LABEL: func.func @whole
// CHECK-SAME: stream_k = 0 : i64
func.func @whole(%A: tensor<4096x7168xbf16>, %B: tensor<2112x7168xbf16>) -> (tensor<4096x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 64>, cluster = array<i64: 1, 2>, split = 1 : i64}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x7168xbf16>, tensor<2112x7168xbf16>) -> tensor<4096x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x2112xbf16>
  return %r : tensor<4096x2112xbf16>
}

// What is decided stays.
// CHECK-LABEL: func.func @decided
// CHECK-SAME: stream_k = 1 : i64
func.func @decided(%A: tensor<4096x7168xbf16>, %B: tensor<2112x7168xbf16>) -> (tensor<4096x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 64>, cluster = array<i64: 1, 2>, split = 1 : i64, stream_k = 1 : i64}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x7168xbf16>, tensor<2112x7168xbf16>) -> tensor<4096x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x2112xbf16>
  return %r : tensor<4096x2112xbf16>
}
