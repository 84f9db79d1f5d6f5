// RUN: env SCALEC_TUNING=%S/recall-tuned.json scalec opt --passes=recall-tuned %s | filecheck %s
// RUN: env SCALEC_TUNING=off scalec opt --passes=recall-tuned %s | filecheck %s --check-prefix=OFF
// RUN: env SCALEC_TUNING=%S/recall-tuned.json scalec opt --target sm_120a --passes=recall-tuned %s | filecheck %s --check-prefix=OFF
// OFF-NOT: stages

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @measured
// CHECK-SAME: scale.schedule = #scale.schedule<{stages = 7 : i64, swap = 1 : i64, tile = array<i64: 64, 16, 128>}>
func.func @measured(%A: tensor<16x7296xf8E4M3FN>, %B: tensor<2112x7296xf8E4M3FN>, %s: tensor<16x57xf32>, %t: tensor<17x57xf32>)
  -> (tensor<16x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<16x7296xf8E4M3FN>, tensor<16x57xf32>) -> tensor<16x7296xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2112x7296xf8E4M3FN>, tensor<17x57xf32>) -> tensor<2112x7296xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<16x7296xf32>, tensor<2112x7296xf32>) -> tensor<16x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<16x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<16x2112xbf16>
  return %r : tensor<16x2112xbf16>
}

// More rows than the entry is for.
// CHECK-LABEL: func.func @more_rows
// CHECK-SAME: scale.schedule = #scale.schedule<{}>
func.func @more_rows(%A: tensor<17x7296xf8E4M3FN>, %B: tensor<2112x7296xf8E4M3FN>, %s: tensor<17x57xf32>, %t: tensor<17x57xf32>)
  -> (tensor<17x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<17x7296xf8E4M3FN>, tensor<17x57xf32>) -> tensor<17x7296xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2112x7296xf8E4M3FN>, tensor<17x57xf32>) -> tensor<2112x7296xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<17x7296xf32>, tensor<2112x7296xf32>) -> tensor<17x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<17x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<17x2112xbf16>
  return %r : tensor<17x2112xbf16>
}

// The upper end of a range counts.
// CHECK-LABEL: func.func @range
// CHECK-SAME: scale.ranges = {m = array<i64: 1, 12>}
// CHECK-SAME: scale.schedule = #scale.schedule<{stages = 7 : i64, swap = 1 : i64, tile = array<i64: 64, 16, 128>}>
func.func @range(%A: tensor<?x7296xf8E4M3FN>, %B: tensor<2112x7296xf8E4M3FN>, %s: tensor<?x57xf32>, %t: tensor<17x57xf32>)
  -> (tensor<?x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.ranges = {m = array<i64: 1, 12>}} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<?x7296xf8E4M3FN>, tensor<?x57xf32>) -> tensor<?x7296xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2112x7296xf8E4M3FN>, tensor<17x57xf32>) -> tensor<2112x7296xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<?x7296xf32>, tensor<2112x7296xf32>) -> tensor<?x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<?x2112xbf16>
  return %r : tensor<?x2112xbf16>
}

// The fields that are decided are those that were when it was measured.
// CHECK-LABEL: func.func @given
// CHECK-SAME: scale.schedule = #scale.schedule<{order = "m", stages = 6 : i64}>
func.func @given(%A: tensor<16x7296xf8E4M3FN>, %B: tensor<2112x7296xf8E4M3FN>, %s: tensor<16x57xf32>, %t: tensor<17x57xf32>)
  -> (tensor<16x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{order = "m"}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<16x7296xf8E4M3FN>, tensor<16x57xf32>) -> tensor<16x7296xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2112x7296xf8E4M3FN>, tensor<17x57xf32>) -> tensor<2112x7296xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<16x7296xf32>, tensor<2112x7296xf32>) -> tensor<16x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<16x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<16x2112xbf16>
  return %r : tensor<16x2112xbf16>
}

// CHECK-LABEL: func.func @others
// CHECK-SAME: scale.schedule = #scale.schedule<{order = "n"}>
func.func @others(%A: tensor<16x7296xf8E4M3FN>, %B: tensor<2112x7296xf8E4M3FN>, %s: tensor<16x57xf32>, %t: tensor<17x57xf32>)
  -> (tensor<16x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{order = "n"}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<16x7296xf8E4M3FN>, tensor<16x57xf32>) -> tensor<16x7296xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2112x7296xf8E4M3FN>, tensor<17x57xf32>) -> tensor<2112x7296xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<16x7296xf32>, tensor<2112x7296xf32>) -> tensor<16x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<16x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<16x2112xbf16>
  return %r : tensor<16x2112xbf16>
}

// What is to be invariant takes no entry that adds in another order than other rows would.
// CHECK-LABEL: func.func @invariant
// CHECK-SAME: scale.schedule = #scale.schedule<{invariant = 1 : i64}>
func.func @invariant(%A: tensor<16x7296xf8E4M3FN>, %B: tensor<2112x7296xf8E4M3FN>, %s: tensor<16x57xf32>, %t: tensor<17x57xf32>)
  -> (tensor<16x2112xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{invariant = 1 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<16x7296xf8E4M3FN>, tensor<16x57xf32>) -> tensor<16x7296xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<2112x7296xf8E4M3FN>, tensor<17x57xf32>) -> tensor<2112x7296xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<16x7296xf32>, tensor<2112x7296xf32>) -> tensor<16x2112xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<16x2112xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<16x2112xbf16>
  return %r : tensor<16x2112xbf16>
}
