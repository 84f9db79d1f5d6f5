// RUN: scalec opt --target sm_100a --passes=place-reductions %s | filecheck %s
// RUN: scalec opt --target sm_90a --passes=place-reductions %s | filecheck %s --check-prefix=HOPPER

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#m = affine_map<(m, n, k) -> (m)>

// A thread has 128 columns of a row: the tile has all terms.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT: scale.meet
// HOPPER-LABEL: func.func @narrow
func.func @narrow(%A: tensor<?x64xbf16> {scale.layout = "row", scale.name = "A"}, %B: tensor<128x64xbf16> {scale.layout = "row", scale.name = "B"})
  -> (tensor<?xf32> {scale.name = "R"}) attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{}>} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}} : (tensor<?x64xbf16>, tensor<128x64xbf16>) -> tensor<?x128xf32>
  %r = "scale.reduce"(%t) {kind = "max", maps = [#mn, #m], operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<?x128xf32>) -> tensor<?xf32>
  %v = "scale.read"(%r) {map = #m, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?xf32>) -> !scale.view
  %c = "scale.map"(%v) ({
  ^bb0(%x: f32):
    "scale.yield"(%x) : (f32) -> ()
  }) {map = #m, operandSegmentSizes = array<i32: 1, 0, 0>} : (!scale.view) -> tensor<?xf32>
  return %c : tensor<?xf32>
}

// Of 256 two warpgroups have half each, which do not meet; on sm_90a a thread has them, of half as many rows.
// CHECK-LABEL: func.func @wide
// CHECK-SAME: scale.meet
// HOPPER-LABEL: func.func @wide
// HOPPER-NOT: scale.meet
func.func @wide(%A: tensor<?x64xbf16> {scale.layout = "row", scale.name = "A"}, %B: tensor<256x64xbf16> {scale.layout = "row", scale.name = "B"})
  -> (tensor<?xf32> {scale.name = "R"}) attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{}>} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}} : (tensor<?x64xbf16>, tensor<256x64xbf16>) -> tensor<?x256xf32>
  %r = "scale.reduce"(%t) {kind = "max", maps = [#mn, #m], operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<?x256xf32>) -> tensor<?xf32>
  %v = "scale.read"(%r) {map = #m, operandSegmentSizes = array<i32: 1, 0>} : (tensor<?xf32>) -> !scale.view
  %c = "scale.map"(%v) ({
  ^bb0(%x: f32):
    "scale.yield"(%x) : (f32) -> ()
  }) {map = #m, operandSegmentSizes = array<i32: 1, 0, 0>} : (!scale.view) -> tensor<?xf32>
  return %c : tensor<?xf32>
}
