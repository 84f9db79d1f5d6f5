// RUN: scalec opt --target sm_90a --passes=choose-dependent %s | filecheck %s
// RUN: scalec opt --target sm_100a --passes=choose-dependent %s | filecheck %s
// RUN: scalec opt --target sm_120a --passes=choose-dependent %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @not_decided
// CHECK-SAME: dependent = 8
func.func @not_decided(%A: tensor<64x512xbf16>, %B: tensor<256x512xbf16>) -> (tensor<64x256xf32> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<64x512xbf16>, tensor<256x512xbf16>) -> tensor<64x256xf32>
  return %c : tensor<64x256xf32>
}

// What is decided stays.
// CHECK-LABEL: func.func @decided
// CHECK-SAME: dependent = 3
func.func @decided(%A: tensor<64x512xbf16>, %B: tensor<256x512xbf16>) -> (tensor<64x256xf32> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{dependent = 3 : i64}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<64x512xbf16>, tensor<256x512xbf16>) -> tensor<64x256xf32>
  return %c : tensor<64x256xf32>
}
