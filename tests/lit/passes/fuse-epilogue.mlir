// RUN: scalec opt --passes=fuse-epilogue %s | filecheck %s
// RUN: scalec opt --passes=fuse-epilogue --target=sm_120a %s | filecheck %s --check-prefix=MMA

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#n = affine_map<(m, n, k) -> (n)>

// Conversions, bias and activation: two maps become one; the scales that vary along K stay on the operands.
// CHECK-LABEL: func.func @chain
// CHECK: %[[A:.*]] = "scale.dequantize"(%arg0, %arg2)
// CHECK: %[[T:.*]] = "scale.contract"(%[[A]], %arg1)
// CHECK-NEXT: %[[V:.*]] = "scale.read"(%[[T]])
// CHECK-NEXT: %[[W:.*]] = "scale.read"(%arg3)
// CHECK-NEXT: %[[C:.*]] = "scale.map"(%[[V]], %[[W]])
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: bf16):
// CHECK-NEXT: %[[E:.*]] = arith.extf %[[Y]]
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[X]], %[[E]]
// CHECK-NEXT: %[[H:.*]] = math.tanh %[[S]]
// CHECK-NEXT: %[[R:.*]] = arith.truncf %[[H]]
// CHECK-NEXT: "scale.yield"(%[[R]])
// CHECK-NOT: scale.map
// CHECK: return %[[C]]
func.func @chain(%A: tensor<?x256xf8E4M3FN>, %B: tensor<512x256xf8E4M3FN>, %s: tensor<?x2xf32>, %bias: tensor<512xbf16>)
  -> tensor<?x512xbf16> attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<?x256xf8E4M3FN>, tensor<?x2xf32>) -> tensor<?x256xf32>
  %t = "scale.contract"(%a, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xf32>, tensor<512x256xf8E4M3FN>) -> tensor<?x512xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %w = "scale.read"(%bias) {operandSegmentSizes = array<i32: 1, 0>, map = #n} : (tensor<512xbf16>) -> !scale.view
  %u = "scale.map"(%v, %w) ({
  ^bb0(%x: f32, %y: bf16):
    %e = arith.extf %y : bf16 to f32
    %z = arith.addf %x, %e : f32
    "scale.yield"(%z) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x512xf32>
  %q = "scale.read"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %c = "scale.map"(%q) ({
  ^bb0(%x: f32):
    %h = math.tanh %x : f32
    %z = arith.truncf %h : f32 to bf16
    "scale.yield"(%z) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<?x512xbf16>
  return %c : tensor<?x512xbf16>
}

// Per-row scales of A and one scale of B are constant along K: a map made for them multiplies them, left before right,
// then the sum.
// CHECK-LABEL: func.func @hoist
// CHECK-NOT: scale.dequantize
// CHECK: %[[T:.*]] = "scale.contract"(%arg0, %arg1)
// CHECK-NEXT: %[[V:.*]] = "scale.read"(%[[T]])
// CHECK-NEXT: %[[L:.*]] = "scale.read"(%arg2) {map = #[[ROW:.*]], operand
// CHECK-NEXT: %[[R:.*]] = "scale.read"(%arg3) {map = #[[ONE:.*]], operand
// CHECK-NEXT: %[[C:.*]] = "scale.map"(%[[V]], %[[L]], %[[R]])
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[P:.*]]: f32, %[[Q:.*]]: f8E8M0FNU):
// CHECK-NEXT: %[[QF:.*]] = arith.extf %[[Q]] : f8E8M0FNU to f32
// CHECK-NEXT: %[[PQ:.*]] = arith.mulf %[[P]], %[[QF]]
// CHECK-NEXT: %[[Z:.*]] = arith.mulf %[[X]], %[[PQ]]
// CHECK-NEXT: "scale.yield"(%[[Z]])
// CHECK: return %[[C]]
func.func @hoist(%A: tensor<?x256xf8E4M3FN>, %B: tensor<512x256xf8E4M3FN>, %s: tensor<?x1xf32>, %t: tensor<1x1xf8E8M0FNU>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, -1>, "f32", "row">}
    : (tensor<?x256xf8E4M3FN>, tensor<?x1xf32>) -> tensor<?x256xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: -1, -1>, "ue8m0", "row">}
    : (tensor<512x256xf8E4M3FN>, tensor<1x1xf8E8M0FNU>) -> tensor<512x256xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// Scales of whole tensors are multiplied with each other, not each with every result.
// CHECK-LABEL: func.func @both
// CHECK: ^bb0(%[[X:.*]]: f32, %[[P:.*]]: f32, %[[Q:.*]]: f8E8M0FNU):
// CHECK-NEXT: %[[QF:.*]] = arith.extf %[[Q]] : f8E8M0FNU to f32
// CHECK-NEXT: %[[PQ:.*]] = arith.mulf %[[P]], %[[QF]]
// CHECK-NEXT: %[[Z:.*]] = arith.mulf %[[X]], %[[PQ]]
// CHECK-NEXT: "scale.yield"(%[[Z]])
func.func @both(%A: tensor<?x256xf8E4M3FN>, %B: tensor<512x256xf8E4M3FN>, %s: tensor<1x1xf32>, %t: tensor<1x1xf8E8M0FNU>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: -1, -1>, "f32", "row">}
    : (tensor<?x256xf8E4M3FN>, tensor<1x1xf32>) -> tensor<?x256xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: -1, -1>, "ue8m0", "row">}
    : (tensor<512x256xf8E4M3FN>, tensor<1x1xf8E8M0FNU>) -> tensor<512x256xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// Of one row, whose scale is the only one of its tensor, and two scales of B the order is that of many rows.
// CHECK-LABEL: func.func @row
// CHECK: ^bb0(%[[X:.*]]: f32, %[[P:.*]]: f32, %[[Q:.*]]: f32, %[[R:.*]]: f32):
// CHECK-NEXT: %[[PR:.*]] = arith.mulf %[[P]], %[[R]]
// CHECK-NEXT: %[[PQR:.*]] = arith.mulf %[[PR]], %[[Q]]
// CHECK-NEXT: arith.mulf %[[X]], %[[PQR]]
func.func @row(%A: tensor<1x256xf8E4M3FN>, %B: tensor<512x256xf8E4M3FN>, %s: tensor<1x1xf32>, %t: tensor<1x1xf32>, %u: tensor<512x1xf32>)
  -> tensor<1x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, -1>, "f32", "row">}
    : (tensor<1x256xf8E4M3FN>, tensor<1x1xf32>) -> tensor<1x256xf32>
  %i = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: -1, -1>, "f32", "row">}
    : (tensor<512x256xf8E4M3FN>, tensor<1x1xf32>) -> tensor<512x256xf32>
  %b = "scale.dequantize"(%i, %u) {granularity = #scale.granularity<array<i64: 1, -1>, "f32", "row">}
    : (tensor<512x256xf32>, tensor<512x1xf32>) -> tensor<512x256xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<1x256xf32>, tensor<512x256xf32>) -> tensor<1x512xf32>
  return %c : tensor<1x512xf32>
}

// Blocks along K that span all of it multiply the sum as where they are promoted: before those of whole rows.
// CHECK-LABEL: func.func @spanning
// CHECK: ^bb0(%[[X:.*]]: f32, %[[P:.*]]: f32, %[[Q:.*]]: f32):
// CHECK-NEXT: %[[XQ:.*]] = arith.mulf %[[X]], %[[Q]]
// CHECK-NEXT: arith.mulf %[[XQ]], %[[P]]
func.func @spanning(%A: tensor<?x128xf8E4M3FN>, %B: tensor<512x128xf8E4M3FN>, %s: tensor<?x1xf32>, %t: tensor<4x1xf32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, -1>, "f32", "row">}
    : (tensor<?x128xf8E4M3FN>, tensor<?x1xf32>) -> tensor<?x128xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<512x128xf8E4M3FN>, tensor<4x1xf32>) -> tensor<512x128xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x128xf32>, tensor<512x128xf32>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// Two levels on one operand: the tensor's scale leaves, the one that varies along K stays.
// CHECK-LABEL: func.func @levels
// CHECK: %[[B:.*]] = "scale.dequantize"(%arg1, %arg2)
// CHECK: %[[T:.*]] = "scale.contract"(%arg0, %[[B]])
// CHECK: "scale.read"(%arg3)
// CHECK: arith.mulf
// CHECK-NOT: arith.mulf
func.func @levels(%A: tensor<?x256xf8E4M3FN>, %B: tensor<512x256xf8E4M3FN>, %s: tensor<4x2xf32>, %t: tensor<1x1xf32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %i = "scale.dequantize"(%B, %s) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<512x256xf8E4M3FN>, tensor<4x2xf32>) -> tensor<512x256xf32>
  %o = "scale.dequantize"(%i, %t) {granularity = #scale.granularity<array<i64: -1, -1>, "f32", "row">}
    : (tensor<512x256xf32>, tensor<1x1xf32>) -> tensor<512x256xf32>
  %c = "scale.contract"(%A, %o) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xf8E4M3FN>, tensor<512x256xf32>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// A value read twice is one view; the inner body is copied once.
// CHECK-LABEL: func.func @twice
// CHECK: %[[V:.*]] = "scale.read"
// CHECK-NEXT: "scale.map"(%[[V]])
// CHECK-COUNT-1: math.exp
// CHECK: arith.mulf
func.func @twice(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  %v = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %u = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %z = math.exp %x : f32
    "scale.yield"(%z) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<?x512xf32>
  %w = "scale.read"(%t) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %q = "scale.read"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %c = "scale.map"(%q, %w) ({
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %y : f32
    "scale.yield"(%z) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 0>, map = #mn} : (!scale.view, !scale.view) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// A map read at other points than its own (transposed) stays a map of its own.
// CHECK-LABEL: func.func @transposed
// CHECK-COUNT-2: "scale.map"
func.func @transposed(%A: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %v = "scale.read"(%A) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<64x64xf32>) -> !scale.view
  %u = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %z = math.exp %x : f32
    "scale.yield"(%z) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<64x64xf32>
  %q = "scale.read"(%u) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k) -> (n, m)>}
    : (tensor<64x64xf32>) -> !scale.view
  %c = "scale.map"(%q) ({
  ^bb0(%x: f32):
    "scale.yield"(%x) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}

// Scales constant along K that the instruction applies itself stay, where they are the only ones; f32 ones move, as does
// an outer level. An instruction without scales of that type: they all move.
// CHECK-LABEL: func.func @applied
// CHECK-NOT: scale.dequantize
// MMA-LABEL: func.func @applied
// MMA: %[[A:.*]] = "scale.dequantize"(%arg0, %arg2)
// MMA-NEXT: "scale.contract"(%[[A]], %arg1)
// MMA-NEXT: "scale.read"
// MMA-NEXT: "scale.read"(%arg3)
// MMA-NEXT: "scale.read"(%arg4)
func.func @applied(%A: tensor<?x256xf8E4M3FN>, %B: tensor<512x256xf8E4M3FN>, %s: tensor<?x1xf8E8M0FNU>,
                   %s2: tensor<1x1xf32>, %t: tensor<512x1xf32>)
  -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %i = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, -1>, "ue8m0", "row">}
    : (tensor<?x256xf8E4M3FN>, tensor<?x1xf8E8M0FNU>) -> tensor<?x256xf32>
  %a = "scale.dequantize"(%i, %s2) {granularity = #scale.granularity<array<i64: -1, -1>, "f32", "row">}
    : (tensor<?x256xf32>, tensor<1x1xf32>) -> tensor<?x256xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, -1>, "f32", "row">}
    : (tensor<512x256xf8E4M3FN>, tensor<512x1xf32>) -> tensor<512x256xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x256xf32>, tensor<512x256xf32>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}
