// RUN: scalec opt --passes=infer-roles %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @matrix
// CHECK: roles = {batch = [], k = ["k"], m = ["m"], n = ["n"]}
func.func @matrix(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>) -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// A dimension of both operands and the result is batch.
// CHECK-LABEL: func.func @batched
// CHECK: roles = {batch = ["b"], k = ["k"], m = ["m"], n = ["n"]}
func.func @batched(%A: tensor<4x?x256xbf16>, %B: tensor<4x512x256xbf16>) -> tensor<4x?x512xf32> attributes {scale.dims = ["b", "m", "n", "k"]} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>]}
    : (tensor<4x?x256xbf16>, tensor<4x512x256xbf16>) -> tensor<4x?x512xf32>
  return %c : tensor<4x?x512xf32>
}

// Several of a role keep the order of the program's dims; b is summed.
// CHECK-LABEL: func.func @split
// CHECK: roles = {batch = [], k = ["b", "k"], m = ["m"], n = ["n"]}
func.func @split(%A: tensor<4x?x256xbf16>, %B: tensor<4x512x256xbf16>) -> tensor<?x512xf32> attributes {scale.dims = ["b", "m", "n", "k"]} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (m, n)>]}
    : (tensor<4x?x256xbf16>, tensor<4x512x256xbf16>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}
