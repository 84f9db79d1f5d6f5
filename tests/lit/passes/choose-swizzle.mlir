// RUN: scalec opt --passes=choose-swizzle %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: func.func @bulk
// CHECK-SAME: epilogue = "bulk"
// CHECK-SAME: swizzle_a = 128 : i64, swizzle_b = 128 : i64, swizzle_c = 128 : i64
func.func @bulk(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x2048xf8E4M3FN>, tensor<4096x16xf32>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32>) -> tensor<7168x2048xf32>
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

// 32 columns of 2 bytes.
// CHECK-LABEL: func.func @narrow
// CHECK-SAME: epilogue = "bulk"
// CHECK-SAME: swizzle_c = 64 : i64
func.func @narrow(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 128, 32, 128>}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x2048xf8E4M3FN>, tensor<4096x16xf32>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32>) -> tensor<7168x2048xf32>
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

// N unknown: a row of the result may be misaligned.
// CHECK-LABEL: func.func @unknown
// CHECK-SAME: epilogue = "direct"
// CHECK-SAME: swizzle_c = 0 : i64
func.func @unknown(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<?x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<?x16xf32>)
  -> (tensor<4096x?xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x2048xf8E4M3FN>, tensor<4096x16xf32>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<?x2048xf8E4M3FN>, tensor<?x16xf32>) -> tensor<?x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf32>, tensor<?x2048xf32>) -> tensor<4096x?xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x?xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x?xbf16>
  return %r : tensor<4096x?xbf16>
}

// 2 * 7172 is not a multiple of 16.
// CHECK-LABEL: func.func @unaligned
// CHECK-SAME: epilogue = "direct"
func.func @unaligned(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7172x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<57x16xf32>)
  -> (tensor<4096x7172xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x2048xf8E4M3FN>, tensor<4096x16xf32>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<7172x2048xf8E4M3FN>, tensor<57x16xf32>) -> tensor<7172x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf32>, tensor<7172x2048xf32>) -> tensor<4096x7172xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7172xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7172xbf16>
  return %r : tensor<4096x7172xbf16>
}

// f32 results leave by panels of 32 columns.
// CHECK-LABEL: func.func @single
// CHECK-SAME: adds = "memory", epilogue = "bulk", panels = 1 : i64, permute_n = 0 : i64, staged = 1 : i64
func.func @single(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xf32> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x2048xf8E4M3FN>, tensor<4096x16xf32>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32>) -> tensor<7168x2048xf32>
  %c = "scale.contract"(%a, %b) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf32>, tensor<7168x2048xf32>) -> tensor<4096x7168xf32>
  return %c : tensor<4096x7168xf32>
}

// Four stages of 256x128 leave no room for the staged result.
// CHECK-LABEL: func.func @deep
// CHECK-SAME: epilogue = "direct"
func.func @deep(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>, stages = 4 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x2048xf8E4M3FN>, tensor<4096x16xf32>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32>) -> tensor<7168x2048xf32>
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
// CHECK-LABEL: func.func @decided
// CHECK-SAME: epilogue = "direct"
// CHECK-SAME: swizzle_a = 64 : i64
// CHECK-SAME: swizzle_c = 0 : i64
func.func @decided(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>, epilogue = "direct", swizzle_a = 64 : i64}>} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<4096x2048xf8E4M3FN>, tensor<4096x16xf32>) -> tensor<4096x2048xf32>
  %b = "scale.dequantize"(%B, %t) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32>) -> tensor<7168x2048xf32>
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
