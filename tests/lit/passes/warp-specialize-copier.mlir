// RUN: scalec opt --target sm_100a --passes=warp-specialize %s | filecheck %s
// RUN: scalec opt --target sm_120a --passes=warp-specialize %s | filecheck %s --check-prefix=REGISTERS

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// Three copies for four products: the thread that multiplies makes them.
// CHECK-LABEL: func.func @few
// CHECK-SAME: scale_copier = 0 : i64
// REGISTERS-LABEL: func.func @few
// REGISTERS-SAME: scale_copier = 0 : i64
func.func @few(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x64xf8E8M0FNU>, %t: tensor<7168x64xf8E8M0FNU>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 128, 256, 128>, promote = 0 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<4096x2048xf8E4M3FN>, tensor<4096x64xf8E8M0FNU>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<7168x2048xf8E4M3FN>, tensor<7168x64xf8E8M0FNU>) -> tensor<7168x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf32>, tensor<7168x2048xf32>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xbf16>
  return %r : tensor<4096x7168xbf16>
}

// Six copies for four products.
// CHECK-LABEL: func.func @many
// CHECK-SAME: scale_copier = 1 : i64
// REGISTERS-LABEL: func.func @many
// REGISTERS-SAME: scale_copier = 0 : i64
func.func @many(%A: tensor<4096x2048xf4E2M1FN>, %B: tensor<7168x2048xf4E2M1FN>, %s: tensor<4096x64xf8E8M0FNU>, %t: tensor<7168x64xf8E8M0FNU>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 128, 256, 256>, promote = 0 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<4096x2048xf4E2M1FN>, tensor<4096x64xf8E8M0FNU>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<7168x2048xf4E2M1FN>, tensor<7168x64xf8E8M0FNU>) -> tensor<7168x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf32>, tensor<7168x2048xf32>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xbf16>
  return %r : tensor<4096x7168xbf16>
}

// Two copies for two products.
// CHECK-LABEL: func.func @short
// CHECK-SAME: scale_copier = 1 : i64
// REGISTERS-LABEL: func.func @short
// REGISTERS-SAME: scale_copier = 0 : i64
func.func @short(%A: tensor<4096x2048xf4E2M1FN>, %B: tensor<7168x2048xf4E2M1FN>, %s: tensor<4096x64xf8E8M0FNU>, %t: tensor<7168x64xf8E8M0FNU>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 128, 128, 128>, promote = 0 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<4096x2048xf4E2M1FN>, tensor<4096x64xf8E8M0FNU>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<7168x2048xf4E2M1FN>, tensor<7168x64xf8E8M0FNU>) -> tensor<7168x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf32>, tensor<7168x2048xf32>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xbf16>
  return %r : tensor<4096x7168xbf16>
}

// Tensor memory has room for the scales of one K block beside two accumulators.
// CHECK-LABEL: func.func @no_room
// CHECK-SAME: scale_copier = 0 : i64
// REGISTERS-LABEL: func.func @no_room
// REGISTERS-SAME: scale_copier = 0 : i64
func.func @no_room(%A: tensor<4096x2048xf4E2M1FN>, %B: tensor<7168x2048xf4E2M1FN>, %s: tensor<4096x64xf8E8M0FNU>, %t: tensor<7168x64xf8E8M0FNU>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 128, 240, 256>, promote = 0 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<4096x2048xf4E2M1FN>, tensor<4096x64xf8E8M0FNU>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<7168x2048xf4E2M1FN>, tensor<7168x64xf8E8M0FNU>) -> tensor<7168x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf32>, tensor<7168x2048xf32>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xbf16>
  return %r : tensor<4096x7168xbf16>
}

// What is decided stays.
// CHECK-LABEL: func.func @given
// CHECK-SAME: scale_copier = 0 : i64
// REGISTERS-LABEL: func.func @given
// REGISTERS-SAME: scale_copier = 0 : i64
func.func @given(%A: tensor<4096x2048xf4E2M1FN>, %B: tensor<7168x2048xf4E2M1FN>, %s: tensor<4096x64xf8E8M0FNU>, %t: tensor<7168x64xf8E8M0FNU>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 128, 256, 256>, promote = 0 : i64, scale_copier = 0 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<4096x2048xf4E2M1FN>, tensor<4096x64xf8E8M0FNU>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<7168x2048xf4E2M1FN>, tensor<7168x64xf8E8M0FNU>) -> tensor<7168x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf32>, tensor<7168x2048xf32>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xbf16>
  return %r : tensor<4096x7168xbf16>
}
