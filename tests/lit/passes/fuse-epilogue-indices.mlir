// RUN: scalec opt --passes=fuse-epilogue %s | filecheck %s

#mk = affine_map<(m, n, k, g) -> (m, k)>
#nk = affine_map<(m, n, k, g) -> (n, k)>
#gnk = affine_map<(m, n, k, g) -> (g, n, k)>
#mn = affine_map<(m, n, k, g) -> (m, n)>
#m = affine_map<(m, n, k, g) -> (m)>
#g = affine_map<(m, n, k, g) -> (g)>
#g1 = affine_map<(m, n, k, g) -> (g + 1)>
#block = affine_map<(m, n, k, g) -> (m floordiv 128)>
#s0 = affine_map<(m, n, k, g)[s0, s1] -> (s0)>
#s1 = affine_map<(m, n, k, g)[s0, s1] -> (s1)>

// The scale of each group's rows is read in the map at the index that B is read at. Indices stand first, once each.
// CHECK-DAG: #[[BLOCK:.*]] = affine_map<(d0, d1, d2, d3) -> (d0 floordiv 128)>
// CHECK-DAG: #[[SCALE:.*]] = affine_map<(d0, d1, d2, d3)[s0] -> (s0, d1, 0)>
// CHECK-DAG: #[[BIAS:.*]] = affine_map<(d0, d1, d2, d3)[s0] -> (s0, d1)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1, d2, d3)[s0] -> (s0, 0)>
// CHECK-LABEL: func.func @blocks
// CHECK-NEXT: %[[I:.*]] = "scale.index"(%arg3) {map = #[[BLOCK]]
// CHECK-NEXT: %[[T:.*]] = "scale.contract"(%arg0, %arg1, %[[I]])
// CHECK-NEXT: %[[V:.*]] = "scale.read"(%[[T]]) {map
// CHECK-NEXT: %[[S:.*]] = "scale.read"(%arg2, %[[I]]) {map = #[[SCALE]]
// CHECK-NEXT: %[[W:.*]] = "scale.read"(%arg4, %[[I]]) {map = #[[BIAS]]
// CHECK-NEXT: "scale.map"(%[[V]], %[[S]], %[[W]])
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[P:.*]]: f32, %[[Y:.*]]: f32):
// CHECK-NEXT: %[[XP:.*]] = arith.mulf %[[X]], %[[P]]
// CHECK-NEXT: arith.addf %[[XP]], %[[Y]]
// CHECK-NOT: scale.map
func.func @blocks(%A: tensor<?x256xf8E4M3FN>, %B: tensor<8x512x256xf8E4M3FN>, %t: tensor<8x512x1xf32>, %e: tensor<?xi32>,
                  %bias: tensor<8x512xf32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "g"]} {
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, 1, -1>, "f32", "row">}
    : (tensor<8x512x256xf8E4M3FN>, tensor<8x512x1xf32>) -> tensor<8x512x256xf32>
  %i = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>, map = #block} : (tensor<?xi32>) -> !scale.symbol
  %c = "scale.contract"(%A, %b, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 0>,
    maps = [affine_map<(m, n, k, g)[s] -> (m, k)>, affine_map<(m, n, k, g)[s] -> (s, n, k)>, affine_map<(m, n, k, g)[s] -> (m, n)>]}
    : (tensor<?x256xf8E4M3FN>, tensor<8x512x256xf32>, !scale.symbol) -> tensor<?x512xf32>
  %j = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>, map = #block} : (tensor<?xi32>) -> !scale.symbol
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %w = "scale.read"(%bias, %j) {operandSegmentSizes = array<i32: 1, 1>, map = affine_map<(m, n, k, g)[s] -> (s, n)>}
    : (tensor<8x512xf32>, !scale.symbol) -> !scale.view
  %u = "scale.map"(%v, %w) ({
  ^bb0(%x: f32, %y: f32):
    %z = arith.addf %x, %y : f32
    "scale.yield"(%z) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x512xf32>
  return %u : tensor<?x512xf32>
}

// Of two indices a scale needs the second alone, which is its first and only symbol.
// CHECK-LABEL: func.func @second
// CHECK: %[[I:.*]] = "scale.index"(%arg3)
// CHECK: %[[J:.*]] = "scale.index"(%arg4)
// CHECK: "scale.contract"(%arg0, %arg1, %[[I]], %[[J]])
// CHECK-NEXT: "scale.read"(%{{.*}}) {map
// CHECK-NEXT: "scale.read"(%arg2, %[[J]]) {map = #[[ROW]]
// CHECK-NEXT: "scale.map"
func.func @second(%A: tensor<?x256xf8E4M3FN>, %B: tensor<512x256xf8E4M3FN>, %t: tensor<512x1xf32>, %e: tensor<?xi32>,
                  %f: tensor<?xi32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "g"]} {
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, -1>, "f32", "row">}
    : (tensor<512x256xf8E4M3FN>, tensor<512x1xf32>) -> tensor<512x256xf32>
  %i = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>, map = #m} : (tensor<?xi32>) -> !scale.symbol
  %j = "scale.index"(%f) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (n)>} : (tensor<?xi32>) -> !scale.symbol
  %c = "scale.contract"(%A, %b, %i, %j) {operandSegmentSizes = array<i32: 1, 1, 2, 0>,
    maps = [affine_map<(m, n, k, g)[s, t] -> (s, k)>, affine_map<(m, n, k, g)[s, t] -> (t, k)>, affine_map<(m, n, k, g)[s, t] -> (m, n)>]}
    : (tensor<?x256xf8E4M3FN>, tensor<512x256xf32>, !scale.symbol, !scale.symbol) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// A scale for each matrix of B is none of the whole tensor: as of a batch of matrices, the whole tensors' come last.
// CHECK-LABEL: func.func @matrices
// CHECK: ^bb0(%[[X:.*]]: f32, %[[P:.*]]: f32, %[[Q:.*]]: f32):
// CHECK-NEXT: %[[QP:.*]] = arith.mulf %[[Q]], %[[P]]
// CHECK-NEXT: arith.mulf %[[X]], %[[QP]]
func.func @matrices(%A: tensor<?x256xf8E4M3FN>, %B: tensor<8x512x256xf8E4M3FN>, %s: tensor<1x1xf32>, %t: tensor<8x1x1xf32>,
                    %e: tensor<?xi32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "g"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: -1, -1>, "f32", "row">}
    : (tensor<?x256xf8E4M3FN>, tensor<1x1xf32>) -> tensor<?x256xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, -1, -1>, "f32", "row">}
    : (tensor<8x512x256xf8E4M3FN>, tensor<8x1x1xf32>) -> tensor<8x512x256xf32>
  %i = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>, map = #block} : (tensor<?xi32>) -> !scale.symbol
  %c = "scale.contract"(%a, %b, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 0>,
    maps = [affine_map<(m, n, k, g)[s] -> (m, k)>, affine_map<(m, n, k, g)[s] -> (s, n, k)>, affine_map<(m, n, k, g)[s] -> (m, n)>]}
    : (tensor<?x256xf32>, tensor<8x512x256xf32>, !scale.symbol) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// The map takes the contraction's range, so that a group's scale can be read in it; a scatter behind it has the range too.
// CHECK-LABEL: func.func @ragged
// CHECK: %[[D:.*]] = "scale.domain"
// CHECK: %[[T:.*]] = "scale.contract"(%arg0, %arg1, %[[D]])
// CHECK-NEXT: %[[V:.*]] = "scale.read"(%[[T]])
// CHECK-NEXT: %[[S:.*]] = "scale.read"(%arg2)
// CHECK-NEXT: %[[R:.*]] = "scale.map"(%[[V]], %[[S]], %[[D]])
// CHECK: arith.mulf
// CHECK-NEXT: math.tanh
// CHECK-NOT: scale.map
// CHECK: "scale.scatter"(%[[R]], %{{.*}}, %[[D]])
func.func @ragged(%A: tensor<?x256xf8E4M3FN>, %B: tensor<8x512x256xf8E4M3FN>, %t: tensor<8x512x1xf32>, %off: tensor<9xi32>,
                  %idx: tensor<?xi32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "g"]} {
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, 1, -1>, "f32", "row">}
    : (tensor<8x512x256xf8E4M3FN>, tensor<8x512x1xf32>) -> tensor<8x512x256xf32>
  %i = "scale.index"(%off) {operandSegmentSizes = array<i32: 1, 0>, map = #g} : (tensor<9xi32>) -> !scale.symbol
  %j = "scale.index"(%off) {operandSegmentSizes = array<i32: 1, 0>, map = #g1} : (tensor<9xi32>) -> !scale.symbol
  %d = "scale.domain"(%i, %j) {operandSegmentSizes = array<i32: 2>, dim = "m", lower = #s0, upper = #s1} : (!scale.symbol, !scale.symbol) -> !scale.subset
  %c = "scale.contract"(%A, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 0, 1>, maps = [#mk, #gnk, #mn]}
    : (tensor<?x256xf8E4M3FN>, tensor<8x512x256xf32>, !scale.subset) -> tensor<?x512xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %u = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %z = math.tanh %x : f32
    "scale.yield"(%z) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<?x512xf32>
  %p = "scale.index"(%idx) {operandSegmentSizes = array<i32: 1, 0>, map = #m} : (tensor<?xi32>) -> !scale.symbol
  %r = "scale.scatter"(%u, %p) {operandSegmentSizes = array<i32: 1, 1, 0>,
    maps = [affine_map<(m, n, k, g)[s] -> (m, n)>, affine_map<(m, n, k, g)[s] -> (s, n)>]}
    : (tensor<?x512xf32>, !scale.symbol) -> tensor<?x512xf32>
  return %r : tensor<?x512xf32>
}

// A range over K is the contraction's alone. Scales of B[g,n,k] are in a sum over g there, and stay.
// CHECK-LABEL: func.func @along
// CHECK: %[[D:.*]] = "scale.domain"
// CHECK: %[[B:.*]] = "scale.dequantize"(%arg1, %arg3)
// CHECK: %[[T:.*]] = "scale.contract"(%arg0, %[[B]], %[[D]])
// CHECK-NEXT: %[[V:.*]] = "scale.read"(%[[T]])
// CHECK-NEXT: %[[S:.*]] = "scale.read"(%arg2)
// CHECK-NEXT: "scale.map"(%[[V]], %[[S]]) (
func.func @along(%A: tensor<?x256xf8E4M3FN>, %B: tensor<8x512x256xf8E4M3FN>, %s: tensor<?x1xf32>, %t: tensor<8x512x1xf32>,
                 %off: tensor<9xi32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "g"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, -1>, "f32", "row">}
    : (tensor<?x256xf8E4M3FN>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, 1, -1>, "f32", "row">}
    : (tensor<8x512x256xf8E4M3FN>, tensor<8x512x1xf32>) -> tensor<8x512x256xf32>
  %i = "scale.index"(%off) {operandSegmentSizes = array<i32: 1, 0>, map = #g} : (tensor<9xi32>) -> !scale.symbol
  %j = "scale.index"(%off) {operandSegmentSizes = array<i32: 1, 0>, map = #g1} : (tensor<9xi32>) -> !scale.symbol
  %d = "scale.domain"(%i, %j) {operandSegmentSizes = array<i32: 2>, dim = "k", lower = #s0, upper = #s1} : (!scale.symbol, !scale.symbol) -> !scale.subset
  %c = "scale.contract"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 0, 1>, maps = [#mk, #gnk, #mn]}
    : (tensor<?x256xf32>, tensor<8x512x256xf32>, !scale.subset) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// A contraction takes the range that all its maps have, and the range's op goes above it; equal ranges are one.
// CHECK-LABEL: func.func @narrowed
// CHECK: %[[D:.*]] = "scale.domain"
// CHECK-NOT: scale.domain
// CHECK: %[[T:.*]] = "scale.contract"(%arg0, %arg1, %[[D]])
// CHECK: "scale.map"(%{{.*}}, %[[D]]) (
// CHECK: "scale.map"(%{{.*}}, %[[D]]) (
func.func @narrowed(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>, %len: tensor<1xi32>)
  -> (tensor<?x512xf32>, tensor<?x512xf32>) attributes {scale.dims = ["m", "n", "k", "g"]} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %i = "scale.index"(%len) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (0)>} : (tensor<1xi32>) -> !scale.symbol
  %d = "scale.domain"(%i) {operandSegmentSizes = array<i32: 1>, dim = "m", lower = affine_map<(m, n, k, g)[s] -> (0)>, upper = affine_map<(m, n, k, g)[s] -> (s)>} : (!scale.symbol) -> !scale.subset
  %u = "scale.map"(%v, %d) ({
  ^bb0(%x: f32):
    %z = math.tanh %x : f32
    "scale.yield"(%z) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 1>, map = #mn} : (!scale.view, !scale.subset) -> tensor<?x512xf32>
  %j = "scale.index"(%len) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (0)>} : (tensor<1xi32>) -> !scale.symbol
  %e = "scale.domain"(%j) {operandSegmentSizes = array<i32: 1>, dim = "m", lower = affine_map<(m, n, k, g)[s] -> (0)>, upper = affine_map<(m, n, k, g)[s] -> (s)>} : (!scale.symbol) -> !scale.subset
  %w = "scale.map"(%v, %e) ({
  ^bb0(%x: f32):
    %z = math.exp %x : f32
    "scale.yield"(%z) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 1>, map = #mn} : (!scale.view, !scale.subset) -> tensor<?x512xf32>
  return %u, %w : tensor<?x512xf32>, tensor<?x512xf32>
}

// A map with a filling value writes all points, and a scatter behind it moves them all.
// CHECK-LABEL: func.func @filled
// CHECK: %[[U:.*]] = "scale.map"
// CHECK: "scale.scatter"(%[[U]], %{{[0-9]+}}) {
func.func @filled(%A: tensor<?x512xf32>, %len: tensor<1xi32>, %idx: tensor<?xi32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "g"]} {
  %i = "scale.index"(%len) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (0)>} : (tensor<1xi32>) -> !scale.symbol
  %d = "scale.domain"(%i) {operandSegmentSizes = array<i32: 1>, dim = "m", lower = affine_map<(m, n, k, g)[s] -> (0)>, upper = affine_map<(m, n, k, g)[s] -> (s)>} : (!scale.symbol) -> !scale.subset
  %v = "scale.read"(%A) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %u = "scale.map"(%v, %d) ({
  ^bb0(%x: f32):
    "scale.yield"(%x) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 1>, map = #mn, otherwise = 0.0 : f32} : (!scale.view, !scale.subset) -> tensor<?x512xf32>
  %p = "scale.index"(%idx) {operandSegmentSizes = array<i32: 1, 0>, map = #m} : (tensor<?xi32>) -> !scale.symbol
  %r = "scale.scatter"(%u, %p) {operandSegmentSizes = array<i32: 1, 1, 0>,
    maps = [affine_map<(m, n, k, g)[s] -> (m, n)>, affine_map<(m, n, k, g)[s] -> (s, n)>]}
    : (tensor<?x512xf32>, !scale.symbol) -> tensor<?x512xf32>
  return %r : tensor<?x512xf32>
}

// Two symbols that are one index: what moves has one.
// CHECK-LABEL: func.func @diagonal
// CHECK: %[[I:.*]] = "scale.index"
// CHECK: "scale.contract"(%arg0, %arg1, %[[I]], %[[I]])
// CHECK: "scale.read"(%arg2, %[[I]]) {
func.func @diagonal(%A: tensor<?x256xf8E4M3FN>, %B: tensor<8x8x512x256xf8E4M3FN>, %t: tensor<8x8x512x1xf32>, %e: tensor<?xi32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "g"]} {
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, 1, 1, -1>, "f32", "row">}
    : (tensor<8x8x512x256xf8E4M3FN>, tensor<8x8x512x1xf32>) -> tensor<8x8x512x256xf32>
  %i = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>, map = #block} : (tensor<?xi32>) -> !scale.symbol
  %j = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>, map = #block} : (tensor<?xi32>) -> !scale.symbol
  %c = "scale.contract"(%A, %b, %i, %j) {operandSegmentSizes = array<i32: 1, 1, 2, 0>,
    maps = [affine_map<(m, n, k, g)[s, t] -> (m, k)>, affine_map<(m, n, k, g)[s, t] -> (s, t, n, k)>, affine_map<(m, n, k, g)[s, t] -> (m, n)>]}
    : (tensor<?x256xf8E4M3FN>, tensor<8x8x512x256xf32>, !scale.symbol, !scale.symbol) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// An index of a tensor that the program computes stays below that, and so does the range that ends there: what stands
// above does not take the range.
// CHECK-LABEL: func.func @computed
// CHECK-NEXT: "scale.index"(%arg2)
// CHECK: "scale.contract"(%arg0, %arg1) {
// CHECK: %[[U:.*]] = "scale.map"
// CHECK: %[[I:.*]] = "scale.index"(%[[U]])
// CHECK: %[[D:.*]] = "scale.domain"(%[[I]])
// CHECK: "scale.map"(%{{.*}}, %[[D]]) (
func.func @computed(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>, %len: tensor<?xi32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k", "g"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %l = "scale.index"(%len) {operandSegmentSizes = array<i32: 1, 0>, map = #m} : (tensor<?xi32>) -> !scale.symbol
  %w = "scale.read"(%len, %l) {operandSegmentSizes = array<i32: 1, 1>, map = affine_map<(m, n, k, g)[s] -> (s)>} : (tensor<?xi32>, !scale.symbol) -> !scale.view
  %u = "scale.map"(%w) ({
  ^bb0(%x: i32):
    "scale.yield"(%x) : (i32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #m} : (!scale.view) -> tensor<?xi32>
  %i = "scale.index"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (0)>} : (tensor<?xi32>) -> !scale.symbol
  %d = "scale.domain"(%i) {operandSegmentSizes = array<i32: 1>, dim = "m", lower = affine_map<(m, n, k, g)[s] -> (0)>, upper = affine_map<(m, n, k, g)[s] -> (s)>} : (!scale.symbol) -> !scale.subset
  %c = "scale.map"(%v, %d) ({
  ^bb0(%x: f32):
    "scale.yield"(%x) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 1>, map = #mn} : (!scale.view, !scale.subset) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}
