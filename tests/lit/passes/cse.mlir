// RUN: scalec opt --passes=cse %s | filecheck %s
// RUN: scalec opt --passes=join-products,cse %s | filecheck --check-prefix=JOINED %s

#mk = affine_map<(m, n, k, r) -> (m, k)>
#nk = affine_map<(m, n, k, r) -> (n, k)>
#mr = affine_map<(m, n, k, r) -> (m, r)>
#nr = affine_map<(m, n, k, r) -> (n, r)>
#mn = affine_map<(m, n, k, r) -> (m, n)>

// Two contractions of equal operands, computed by equal bodies: one, which both maps read. They stay two.
// CHECK-LABEL: func.func @twice
// CHECK: %[[A:.*]] = "scale.map"
// CHECK: %[[T:.*]] = "scale.contract"(%[[A]], %arg1)
// CHECK-NOT: "scale.contract"
// CHECK: "scale.read"(%[[T]])
// CHECK: %[[C:.*]] = "scale.map"
// CHECK: "scale.read"(%[[T]])
// CHECK: %[[D:.*]] = "scale.map"
// CHECK: return %[[C]], %[[D]]
func.func @twice(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>) -> (tensor<?x512xf32>, tensor<?x512xf32>)
    attributes {scale.dims = ["m", "n", "k", "r"]} {
  %a = "scale.read"(%A) {operandSegmentSizes = array<i32: 1, 0>, map = #mk} : (tensor<?x256xbf16>) -> !scale.view
  %p = "scale.map"(%a) ({
  ^bb0(%0: bf16):
    %1 = arith.negf %0 : bf16
    "scale.yield"(%1) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mk} : (!scale.view) -> tensor<?x256xbf16>
  %t = "scale.contract"(%p, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %c = "scale.map"(%v) ({
  ^bb0(%0: f32):
    "scale.yield"(%0) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<?x512xf32>
  %q = "scale.map"(%a) ({
  ^bb0(%0: bf16):
    %1 = arith.negf %0 : bf16
    "scale.yield"(%1) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mk} : (!scale.view) -> tensor<?x256xbf16>
  %u = "scale.contract"(%q, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %w = "scale.read"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %d = "scale.map"(%w) ({
  ^bb0(%0: f32):
    "scale.yield"(%0) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<?x512xf32>
  return %c, %d : tensor<?x512xf32>, tensor<?x512xf32>
}

// What differs in the body of an operand alone is not equal.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: "scale.contract"
func.func @others(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>) -> (tensor<?x512xf32>, tensor<?x512xf32>)
    attributes {scale.dims = ["m", "n", "k", "r"]} {
  %a = "scale.read"(%A) {operandSegmentSizes = array<i32: 1, 0>, map = #mk} : (tensor<?x256xbf16>) -> !scale.view
  %p = "scale.map"(%a) ({
  ^bb0(%0: bf16):
    %1 = arith.addf %0, %0 : bf16
    %2 = arith.mulf %0, %1 : bf16
    "scale.yield"(%2) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mk} : (!scale.view) -> tensor<?x256xbf16>
  %q = "scale.map"(%a) ({
  ^bb0(%0: bf16):
    %1 = arith.addf %0, %0 : bf16
    %2 = arith.mulf %1, %1 : bf16
    "scale.yield"(%2) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mk} : (!scale.view) -> tensor<?x256xbf16>
  %t = "scale.contract"(%p, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %u = "scale.contract"(%q, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  return %t, %u : tensor<?x512xf32>, tensor<?x512xf32>
}

// Of two maps that add the same to a contraction both have the one sum.
// JOINED-LABEL: func.func @sums
// JOINED: %[[T:.*]] = "scale.contract"(%arg0, %arg1)
// JOINED: %[[U:.*]] = "scale.contract"(%arg2, %arg3)
// JOINED-NOT: "scale.contract"
// JOINED: %[[S:.*]] = "scale.add"(%[[T]], %[[U]])
// JOINED: "scale.read"(%[[S]])
// JOINED-NOT: "scale.add"
// JOINED: "scale.read"(%[[S]])
func.func @sums(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>, %D: tensor<?x16xbf16>, %E: tensor<512x16xbf16>)
    -> (tensor<?x512xf32>, tensor<?x512xf32>) attributes {scale.dims = ["m", "n", "k", "r"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %u = "scale.contract"(%D, %E) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mr, #nr, #mn]}
    : (tensor<?x16xbf16>, tensor<512x16xbf16>) -> tensor<?x512xf32>
  %w = "scale.read"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %c = "scale.map"(%v, %w) ({
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    "scale.yield"(%2) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x512xf32>
  %u2 = "scale.contract"(%D, %E) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mr, #nr, #mn]}
    : (tensor<?x16xbf16>, tensor<512x16xbf16>) -> tensor<?x512xf32>
  %x = "scale.read"(%u2) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %d = "scale.map"(%v, %x) ({
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    %3 = arith.negf %2 : f32
    "scale.yield"(%3) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x512xf32>
  return %c, %d : tensor<?x512xf32>, tensor<?x512xf32>
}
