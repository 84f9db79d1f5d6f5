// RUN: scalec opt --passes=sum-exponentials %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#m = affine_map<(m, n, k) -> (m)>
#n = affine_map<(m, n, k) -> (n)>

// x is computed in both, and the max is read by nothing else.
// CHECK-LABEL: func.func @alone
// CHECK: %[[X:.*]] = "scale.map"
// CHECK: arith.mulf
// CHECK-NOT: "scale.map"
// CHECK: %[[S:.*]] = "scale.reduce"(%[[X]]) {kind = "sum_exp", maps = [#{{.*}}, #{{.*}}],
// CHECK-NEXT: return %[[S]]
func.func @alone(%A: tensor<?x64xbf16>, %B: tensor<?x64xbf16>, %b: tensor<?xf32>) -> tensor<?xf32>
    attributes {scale.dims = ["m", "n", "k"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x?xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x?xf32>) -> !scale.view
  %w = "scale.read"(%b) {operandSegmentSizes = array<i32: 1, 0>, map = #n} : (tensor<?xf32>) -> !scale.view
  %x = "scale.map"(%v, %w) ({
  ^bb0(%0: f32, %1: f32):
    %2 = arith.mulf %0, %1 : f32
    "scale.yield"(%2) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x?xf32>
  %m = "scale.reduce"(%x) {kind = "max", maps = [#mn, #m], operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<?x?xf32>) -> tensor<?xf32>
  %u = "scale.read"(%m) {operandSegmentSizes = array<i32: 1, 0>, map = #m} : (tensor<?xf32>) -> !scale.view
  %e = "scale.map"(%u, %w, %v) ({
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.mulf %2, %1 : f32
    %4 = arith.subf %3, %0 : f32
    %5 = math.exp %4 : f32
    "scale.yield"(%5) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 3, 0, 0>, map = #mn} : (!scale.view, !scale.view, !scale.view) -> tensor<?x?xf32>
  %s = "scale.reduce"(%e) {kind = "sum", maps = [#mn, #m], operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<?x?xf32>) -> tensor<?xf32>
  return %s : tensor<?xf32>
}

// The product itself, over the other index; the max is a result, and stays.
// CHECK-LABEL: func.func @both
// CHECK: %[[T:.*]] = "scale.contract"
// CHECK-NEXT: %[[M:.*]] = "scale.reduce"(%[[T]]) {kind = "max"
// CHECK-NEXT: %[[S:.*]] = "scale.reduce"(%[[T]]) {kind = "sum_exp"
// CHECK-NEXT: return %[[M]], %[[S]]
func.func @both(%A: tensor<?x64xbf16>, %B: tensor<?x64xbf16>) -> (tensor<?xf32>, tensor<?xf32>)
    attributes {scale.dims = ["m", "n", "k"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x?xf32>
  %m = "scale.reduce"(%t) {kind = "max", maps = [#mn, #n], operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<?x?xf32>) -> tensor<?xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x?xf32>) -> !scale.view
  %u = "scale.read"(%m) {operandSegmentSizes = array<i32: 1, 0>, map = #n} : (tensor<?xf32>) -> !scale.view
  %e = "scale.map"(%v, %u) ({
  ^bb0(%0: f32, %1: f32):
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    "scale.yield"(%3) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x?xf32>
  %s = "scale.reduce"(%e) {kind = "sum", maps = [#mn, #n], operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<?x?xf32>) -> tensor<?xf32>
  return %m, %s : tensor<?xf32>, tensor<?xf32>
}

// Of another x, or of what no contraction is in, it stays as it is.
// CHECK-LABEL: func.func @other
// CHECK: "scale.reduce"{{.*}}kind = "max"
// CHECK: "scale.reduce"{{.*}}kind = "sum",
// CHECK: "scale.reduce"{{.*}}kind = "max"
// CHECK: "scale.reduce"{{.*}}kind = "sum",
func.func @other(%A: tensor<?x64xbf16>, %B: tensor<?x64xbf16>, %X: tensor<?x?xf32>) -> (tensor<?xf32>, tensor<?xf32>)
    attributes {scale.dims = ["m", "n", "k"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x?xf32>
  %m = "scale.reduce"(%t) {kind = "max", maps = [#mn, #m], operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<?x?xf32>) -> tensor<?xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x?xf32>) -> !scale.view
  %u = "scale.read"(%m) {operandSegmentSizes = array<i32: 1, 0>, map = #m} : (tensor<?xf32>) -> !scale.view
  %e = "scale.map"(%v, %u) ({
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %0 : f32
    %3 = arith.subf %2, %1 : f32
    %4 = math.exp %3 : f32
    "scale.yield"(%4) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x?xf32>
  %s = "scale.reduce"(%e) {kind = "sum", maps = [#mn, #m], operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<?x?xf32>) -> tensor<?xf32>
  %l = "scale.reduce"(%X) {kind = "max", maps = [#mn, #m], operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<?x?xf32>) -> tensor<?xf32>
  %x = "scale.read"(%X) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x?xf32>) -> !scale.view
  %y = "scale.read"(%l) {operandSegmentSizes = array<i32: 1, 0>, map = #m} : (tensor<?xf32>) -> !scale.view
  %f = "scale.map"(%x, %y) ({
  ^bb0(%0: f32, %1: f32):
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    "scale.yield"(%3) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x?xf32>
  %r = "scale.reduce"(%f) {kind = "sum", maps = [#mn, #m], operandSegmentSizes = array<i32: 1, 0, 0>}
    : (tensor<?x?xf32>) -> tensor<?xf32>
  return %s, %r : tensor<?xf32>, tensor<?xf32>
}
