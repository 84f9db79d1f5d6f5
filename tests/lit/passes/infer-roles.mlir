// RUN: scalec opt --passes=infer-roles %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @matrix
// CHECK: roles = {batch = [], group = [], k = ["k"], m = ["m"], n = ["n"]}
func.func @matrix(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>) -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// A dimension of both operands and the result is batch.
// CHECK-LABEL: func.func @batched
// CHECK: roles = {batch = ["b"], group = [], k = ["k"], m = ["m"], n = ["n"]}
func.func @batched(%A: tensor<4x?x256xbf16>, %B: tensor<4x512x256xbf16>) -> tensor<4x?x512xf32> attributes {scale.dims = ["b", "m", "n", "k"]} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>]}
    : (tensor<4x?x256xbf16>, tensor<4x512x256xbf16>) -> tensor<4x?x512xf32>
  return %c : tensor<4x?x512xf32>
}

// Several of a role keep the order of the program's dims; b is summed.
// CHECK-LABEL: func.func @split
// CHECK: roles = {batch = [], group = [], k = ["b", "k"], m = ["m"], n = ["n"]}
func.func @split(%A: tensor<4x?x256xbf16>, %B: tensor<4x512x256xbf16>) -> tensor<?x512xf32> attributes {scale.dims = ["b", "m", "n", "k"]} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (m, n)>]}
    : (tensor<4x?x256xbf16>, tensor<4x512x256xbf16>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// A dimension that an operand is gathered along is its own: m is M although only the index that A is read at has it.
// CHECK-LABEL: func.func @gathered
// CHECK: roles = {batch = [], group = [], k = ["k"], m = ["m"], n = ["n"]}
func.func @gathered(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>, %idx: tensor<?xi32>) -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %s = "scale.index"(%idx) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k) -> (m)>} : (tensor<?xi32>) -> !scale.symbol
  %c = "scale.contract"(%A, %B, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, maps = [affine_map<(m, n, k)[s] -> (s, k)>, affine_map<(m, n, k)[s] -> (n, k)>, affine_map<(m, n, k)[s] -> (m, n)>]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>, !scale.symbol) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// One matrix of B for each block of 128 rows: m stays M.
// CHECK-LABEL: func.func @chosen
// CHECK: roles = {batch = [], group = [], k = ["k"], m = ["m"], n = ["n"]}
func.func @chosen(%A: tensor<?x256xbf16>, %B: tensor<8x512x256xbf16>, %e: tensor<?xi32>) -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %s = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k) -> (m floordiv 128)>} : (tensor<?xi32>) -> !scale.symbol
  %c = "scale.contract"(%A, %B, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, maps = [affine_map<(m, n, k)[s] -> (m, k)>, affine_map<(m, n, k)[s] -> (s, n, k)>, affine_map<(m, n, k)[s] -> (m, n)>]}
    : (tensor<?x256xbf16>, tensor<8x512x256xbf16>, !scale.symbol) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// One matrix of B for each b: batch.
// CHECK-LABEL: func.func @paged
// CHECK: roles = {batch = ["b"], group = [], k = ["k"], m = ["m"], n = ["n"]}
func.func @paged(%A: tensor<?x?x256xbf16>, %B: tensor<8x512x256xbf16>, %e: tensor<?xi32>) -> tensor<?x?x512xf32> attributes {scale.dims = ["b", "m", "n", "k"]} {
  %s = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(b, m, n, k) -> (b)>} : (tensor<?xi32>) -> !scale.symbol
  %c = "scale.contract"(%A, %B, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, maps = [affine_map<(b, m, n, k)[s] -> (b, m, k)>, affine_map<(b, m, n, k)[s] -> (s, n, k)>, affine_map<(b, m, n, k)[s] -> (b, m, n)>]}
    : (tensor<?x?x256xbf16>, tensor<8x512x256xbf16>, !scale.symbol) -> tensor<?x?x512xf32>
  return %c : tensor<?x?x512xf32>
}

// for m in off[g]:off[g+1]: the range says which matrix of B a row meets.
// CHECK-LABEL: func.func @rows_of_groups
// CHECK: roles = {batch = [], group = ["g"], k = ["k"], m = ["m"], n = ["n"]}
func.func @rows_of_groups(%A: tensor<?x256xbf16>, %B: tensor<8x512x256xbf16>, %off: tensor<9xi32>) -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "g"]} {
  %s = "scale.index"(%off) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (g)>} : (tensor<9xi32>) -> !scale.symbol
  %t = "scale.index"(%off) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (g + 1)>} : (tensor<9xi32>) -> !scale.symbol
  %d = "scale.domain"(%s, %t) {operandSegmentSizes = array<i32: 2>, dim = "m", lower = affine_map<(m, n, k, g)[s, t] -> (s)>, upper = affine_map<(m, n, k, g)[s, t] -> (t)>} : (!scale.symbol, !scale.symbol) -> !scale.subset
  %c = "scale.contract"(%A, %B, %d) {operandSegmentSizes = array<i32: 1, 1, 0, 1>, maps = [affine_map<(m, n, k, g) -> (m, k)>, affine_map<(m, n, k, g) -> (g, n, k)>, affine_map<(m, n, k, g) -> (m, n)>]}
    : (tensor<?x256xbf16>, tensor<8x512x256xbf16>, !scale.subset) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// for k in off[g]:off[g+1]: one product for each g.
// CHECK-LABEL: func.func @parts_of_k
// CHECK: roles = {batch = [], group = ["g"], k = ["k"], m = ["m"], n = ["n"]}
func.func @parts_of_k(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>, %off: tensor<9xi32>) -> tensor<8x?x512xf32> attributes {scale.dims = ["m", "n", "k", "g"]} {
  %s = "scale.index"(%off) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (g)>} : (tensor<9xi32>) -> !scale.symbol
  %t = "scale.index"(%off) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (g + 1)>} : (tensor<9xi32>) -> !scale.symbol
  %d = "scale.domain"(%s, %t) {operandSegmentSizes = array<i32: 2>, dim = "k", lower = affine_map<(m, n, k, g)[s, t] -> (s)>, upper = affine_map<(m, n, k, g)[s, t] -> (t)>} : (!scale.symbol, !scale.symbol) -> !scale.subset
  %c = "scale.contract"(%A, %B, %d) {operandSegmentSizes = array<i32: 1, 1, 0, 1>, maps = [affine_map<(m, n, k, g) -> (m, k)>, affine_map<(m, n, k, g) -> (n, k)>, affine_map<(m, n, k, g) -> (g, m, n)>]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>, !scale.subset) -> tensor<8x?x512xf32>
  return %c : tensor<8x?x512xf32>
}
