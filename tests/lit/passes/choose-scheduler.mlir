// RUN: scalec opt --target sm_100a --passes=choose-scheduler %s | filecheck %s
// RUN: scalec opt --target sm_90a --passes=choose-scheduler %s | filecheck %s --check-prefix=HOPPER

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// 8192 tiles for 148 SMs are 55.4 waves.
// CHECK-LABEL: func.func @many(
// CHECK-SAME: scheduler = "dynamic"
// Without launch control there is no choice.
// HOPPER-LABEL: func.func @many(
// HOPPER-SAME: scheduler = "static"
func.func @many(%A: tensor<16384x2048xbf16>, %B: tensor<16384x2048xbf16>) -> (tensor<16384x16384xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{tile = array<i64: 128, 256, 64>, cluster = array<i64: 1, 1>, split = 1 : i64}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<16384x2048xbf16>, tensor<16384x2048xbf16>) -> tensor<16384x16384xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<16384x16384xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<16384x16384xbf16>
  return %r : tensor<16384x16384xbf16>
}

// As many waves of clusters of two, and the last has 26 of 74.
// CHECK-LABEL: func.func @clusters(
// CHECK-SAME: scheduler = "dynamic"
func.func @clusters(%A: tensor<16384x2048xbf16>, %B: tensor<16384x2048xbf16>) -> (tensor<16384x16384xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{tile = array<i64: 128, 256, 64>, cluster = array<i64: 1, 2>, split = 1 : i64}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<16384x2048xbf16>, tensor<16384x2048xbf16>) -> tensor<16384x16384xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<16384x16384xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<16384x16384xbf16>
  return %r : tensor<16384x16384xbf16>
}

// 896 tiles are 6.1 waves: too few for SMs to drift apart by a tile.
// CHECK-LABEL: func.func @few(
// CHECK-SAME: scheduler = "static"
func.func @few(%A: tensor<4096x2048xbf16>, %B: tensor<7168x2048xbf16>) -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{tile = array<i64: 128, 256, 64>, cluster = array<i64: 1, 1>, split = 1 : i64}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xbf16>, tensor<7168x2048xbf16>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xbf16>
  return %r : tensor<4096x7168xbf16>
}

// 148 * 32 tiles: no SM is without one in the last wave.
// CHECK-LABEL: func.func @whole(
// CHECK-SAME: scheduler = "static"
func.func @whole(%A: tensor<18944x2048xbf16>, %B: tensor<8192x2048xbf16>) -> (tensor<18944x8192xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{tile = array<i64: 128, 256, 64>, cluster = array<i64: 1, 1>, split = 1 : i64}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<18944x2048xbf16>, tensor<8192x2048xbf16>) -> tensor<18944x8192xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<18944x8192xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<18944x8192xbf16>
  return %r : tensor<18944x8192xbf16>
}

// How many tiles there are shows at the launch.
// CHECK-LABEL: func.func @unknown(
// CHECK-SAME: scheduler = "static"
func.func @unknown(%A: tensor<?x2048xbf16>, %B: tensor<16384x2048xbf16>) -> (tensor<?x16384xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{tile = array<i64: 128, 256, 64>, cluster = array<i64: 1, 1>, split = 1 : i64}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<?x2048xbf16>, tensor<16384x2048xbf16>) -> tensor<?x16384xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x16384xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<?x16384xbf16>
  return %r : tensor<?x16384xbf16>
}

// What is decided stays.
// CHECK-LABEL: func.func @decided(
// CHECK-SAME: scheduler = "dynamic"
func.func @decided(%A: tensor<4096x2048xbf16>, %B: tensor<7168x2048xbf16>) -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<{tile = array<i64: 128, 256, 64>, cluster = array<i64: 1, 1>, split = 1 : i64, scheduler = "dynamic"}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xbf16>, tensor<7168x2048xbf16>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xbf16>
  return %r : tensor<4096x7168xbf16>
}
