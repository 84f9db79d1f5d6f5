// RUN: %invalid check-schedule %s

// One refusal of each kind is in tests/passes/test_check_schedule.py; here, that they reach the user.
// EXPECT: ScheduleError: the schedule needs 266304 bytes of shared memory and sm_90a has 232448
// EXPECT: A 131072 + B 65536 + C 65536 + A_scale 4096 + barriers 64
// EXPECT: fewer stages
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
func.func @p(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{swap = 0 : i64, tile = array<i64: 256, 128, 128>, cluster = array<i64: 1, 2>, cta_group = 1 : i64, split = 1 : i64, parts = "memory", stages = 4 : i64, swizzle_a = 128 : i64,
                swizzle_b = 128 : i64, swizzle_c = 128 : i64, warpgroups = 2 : i64, consumers = "cooperative", warps = array<i64: 8, 1>, convert = "shared", converters = 0 : i64, registers = array<i64: 40, 232>,
                scale_path = "thread", scale_copier = 0 : i64, permute_n = 0 : i64, promote = 128 : i64, mma_n = 0 : i64, early_wait = 1 : i64, unroll = 1 : i64, epilogue = "bulk", staged = 0 : i64, panels = 0 : i64, adds = "memory", inputs = 0 : i64,
                scheduler = "static", dependent = 0 : i64, order = "n", band = 7 : i64, run = 1 : i64, stationary = 0 : i64}>} {
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

// -----

// EXPECT: no schedule field 'depth'
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
func.func @p(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{depth = 3 : i64}>} {
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

// -----

// VALID
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
func.func @p(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>, %s: tensor<4096x16xf32>, %t: tensor<56x16xf32>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{swap = 0 : i64, tile = array<i64: 256, 128, 128>, cluster = array<i64: 1, 2>, cta_group = 1 : i64, split = 1 : i64, parts = "memory", stages = 3 : i64, swizzle_a = 128 : i64,
                swizzle_b = 128 : i64, swizzle_c = 128 : i64, warpgroups = 2 : i64, consumers = "cooperative", warps = array<i64: 8, 1>, convert = "shared", converters = 0 : i64, registers = array<i64: 40, 232>,
                scale_path = "thread", scale_copier = 0 : i64, permute_n = 0 : i64, promote = 128 : i64, mma_n = 0 : i64, early_wait = 1 : i64, unroll = 1 : i64, epilogue = "bulk", staged = 0 : i64, panels = 0 : i64, adds = "memory", inputs = 0 : i64, scheduler = "static", dependent = 0 : i64, order = "n", band = 7 : i64, run = 1 : i64, stationary = 0 : i64}>} {
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

// EXPECT: schedule field band is not decided
// CHANGE: band = 7 : i64, run => run

// EXPECT: split = 32 and k = 2048 has 16 blocks of 128
// EXPECT: at least one K block for each part
// EXPECT: split=16, or less
// CHANGE: , split = 1 => , split = 32

// EXPECT: parts=cluster is not possible
// EXPECT: 8 parts make clusters of 16 CTAs, of at most 8 on sm_90a
// EXPECT: parts=memory
// CHANGE: split = 1 : => split = 8 :
// CHANGE: memory", stages => cluster", stages

// EXPECT: parts=columns is not possible
// EXPECT: split = 1: there are no parts
// EXPECT: parts=memory
// CHANGE: memory", stages => columns", stages

// EXPECT: unroll = 3 and parts of k have 8 K blocks
// EXPECT: unroll=1
// CHANGE: unroll = 1 => unroll = 3
// CHANGE: , split = 1 => , split = 2
