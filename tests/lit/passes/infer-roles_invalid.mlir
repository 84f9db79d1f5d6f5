// RUN: %invalid infer-roles %s

// EXPECT: dimension j is in one operand alone
func.func @p(%A: tensor<?x256xbf16>, %B: tensor<512x256x2xbf16>) -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "j"]} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [affine_map<(m, n, k, j) -> (m, k)>, affine_map<(m, n, k, j) -> (n, k, j)>, affine_map<(m, n, k, j) -> (m, n)>]}
    : (tensor<?x256xbf16>, tensor<512x256x2xbf16>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}
