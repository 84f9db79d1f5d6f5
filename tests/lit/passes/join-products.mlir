// RUN: scalec opt --passes=join-products %s | filecheck %s

#mk = affine_map<(m, n, k, r) -> (m, k)>
#nk = affine_map<(m, n, k, r) -> (n, k)>
#mr = affine_map<(m, n, k, r) -> (m, r)>
#nr = affine_map<(m, n, k, r) -> (n, r)>
#mn = affine_map<(m, n, k, r) -> (m, n)>
#n = affine_map<(m, n, k, r) -> (n)>
#none = affine_map<(m, n, k, r) -> ()>

// Two contractions that a map adds up, with something between them: one sum, which the map reads in their place.
// CHECK-LABEL: func.func @added
// CHECK: %[[T:.*]] = "scale.contract"(%arg0, %arg1)
// CHECK: %[[U:.*]] = "scale.contract"(%arg2, %arg3)
// CHECK: %[[S:.*]] = "scale.add"(%[[T]], %[[U]])
// CHECK: %[[V:.*]] = "scale.read"(%[[S]])
// CHECK: "scale.map"(%[[V]], %{{[0-9]+}}) ({
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT: %[[P:.*]] = arith.addf %[[X]], %[[B]]
// CHECK-NEXT: "scale.yield"(%[[P]])
func.func @added(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>, %D: tensor<?x16xbf16>, %E: tensor<512x16xbf16>,
                 %b: tensor<512xf32>) -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "r"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %u = "scale.contract"(%D, %E) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mr, #nr, #mn]}
    : (tensor<?x16xbf16>, tensor<512x16xbf16>) -> tensor<?x512xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %w = "scale.read"(%b) {operandSegmentSizes = array<i32: 1, 0>, map = #n} : (tensor<512xf32>) -> !scale.view
  %x = "scale.read"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %c = "scale.map"(%v, %w, %x) ({
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.addf %0, %1 : f32
    %4 = arith.addf %3, %2 : f32
    "scale.yield"(%4) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 3, 0, 0>, map = #mn} : (!scale.view, !scale.view, !scale.view) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// Of one of them something is computed before, here times a scalar and less: a map of that is a term of the sum.
// CHECK-LABEL: func.func @factor
// CHECK: %[[T:.*]] = "scale.contract"(%arg0, %arg1)
// CHECK: %[[U:.*]] = "scale.contract"(%arg2, %arg3)
// CHECK: %[[F:.*]] = "scale.map"
// CHECK-NEXT: ^bb0(%[[Y:.*]]: f32, %[[S:.*]]: f32):
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[Y]], %[[S]]
// CHECK-NEXT: %[[N:.*]] = arith.negf %[[P]]
// CHECK-NEXT: "scale.yield"(%[[N]])
// CHECK: %[[SUM:.*]] = "scale.add"(%[[T]], %[[F]])
// CHECK: "scale.read"(%[[SUM]])
// CHECK-NOT: mulf
func.func @factor(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>, %D: tensor<?x16xbf16>, %E: tensor<512x16xbf16>,
                  %s: f32) -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "r"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %u = "scale.contract"(%D, %E) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mr, #nr, #mn]}
    : (tensor<?x16xbf16>, tensor<512x16xbf16>) -> tensor<?x512xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %x = "scale.read"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %w = "scale.read"(%s) {operandSegmentSizes = array<i32: 1, 0>, map = #none} : (f32) -> !scale.view
  %c = "scale.map"(%v, %x, %w) ({
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.subf %0, %3 : f32
    "scale.yield"(%4) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 3, 0, 0>, map = #mn} : (!scale.view, !scale.view, !scale.view) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// Of both something is computed, and a minus of both stays in front of the sum.
// CHECK-LABEL: func.func @factors
// CHECK: %[[T:.*]] = "scale.contract"(%arg0, %arg1)
// CHECK: %[[U:.*]] = "scale.contract"(%arg2, %arg3)
// CHECK: %[[F:.*]] = "scale.map"
// CHECK-NEXT: ^bb0(%[[Y:.*]]: f32, %[[S:.*]]: f32):
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[Y]], %[[S]]
// CHECK-NEXT: "scale.yield"(%[[P]])
// CHECK: %[[G:.*]] = "scale.map"
// CHECK-NOT: negf
// CHECK: "scale.add"(%[[F]], %[[G]])
// CHECK: ^bb0(%[[X:.*]]: f32, %[[V:.*]]: f32):
// CHECK-NEXT: %[[R:.*]] = arith.subf %[[X]], %[[V]]
// CHECK-NEXT: "scale.yield"(%[[R]])
func.func @factors(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>, %D: tensor<?x16xbf16>, %E: tensor<512x16xbf16>,
                   %s: f32, %b: tensor<512xf32>) -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "r"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %u = "scale.contract"(%D, %E) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mr, #nr, #mn]}
    : (tensor<?x16xbf16>, tensor<512x16xbf16>) -> tensor<?x512xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %x = "scale.read"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %w = "scale.read"(%s) {operandSegmentSizes = array<i32: 1, 0>, map = #none} : (f32) -> !scale.view
  %n = "scale.read"(%b) {operandSegmentSizes = array<i32: 1, 0>, map = #n} : (tensor<512xf32>) -> !scale.view
  %c = "scale.map"(%v, %x, %w, %n) ({
  ^bb0(%0: f32, %1: f32, %2: f32, %3: f32):
    %4 = arith.mulf %0, %2 : f32
    %5 = arith.subf %3, %4 : f32
    %6 = arith.mulf %1, %2 : f32
    %7 = arith.subf %5, %6 : f32
    "scale.yield"(%7) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 4, 0, 0>, map = #mn} : (!scale.view, !scale.view, !scale.view, !scale.view) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// Terms that a map uses twice are in no accumulator.
// CHECK-LABEL: func.func @twice
// CHECK-NOT: scale.add
// CHECK: arith.mulf
func.func @twice(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>, %D: tensor<?x16xbf16>, %E: tensor<512x16xbf16>)
    -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "r"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %u = "scale.contract"(%D, %E) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mr, #nr, #mn]}
    : (tensor<?x16xbf16>, tensor<512x16xbf16>) -> tensor<?x512xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %x = "scale.read"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %c = "scale.map"(%v, %x) ({
  ^bb0(%0: f32, %1: f32):
    %2 = arith.mulf %1, %1 : f32
    %3 = arith.addf %0, %2 : f32
    "scale.yield"(%3) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// Of one left operand: their right ones lie side by side in a tile.
// CHECK-LABEL: func.func @shared
// CHECK-NOT: scale.add
// CHECK: return
func.func @shared(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>, %E: tensor<512x256xbf16>)
    -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "r"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %u = "scale.contract"(%A, %E) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %x = "scale.read"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %c = "scale.map"(%v, %x) ({
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    "scale.yield"(%2) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}
