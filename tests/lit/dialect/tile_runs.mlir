// RUN: %roundtrip %s | filecheck %s

// The tiles of a run that a window reaches, of which each begins while the one before is folded.
func.func @f(%m: i32, %n: i32, %lo: memref<?xi32>, %rs: i64) {
  %r = "tile.ring"() {offset = 0 : i64, depth = 4 : i64, full = 1 : i64, empty = 4 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %d = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  %b = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 2 : i64>
  // CHECK: "tile.slot"
  %s = "tile.slot"(%b, %d) : (!tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position) -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 2 : i64>
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  // CHECK: "tile.go"({{.*}}) {first = 64 : i64}
  %g = "tile.go"(%a) {first = 64 : i64} : (!tile.accumulator<array<i64: 64, 128>, "registers">) -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %i = "tile.input"(%lo, %rs) {kind = "row", axes = array<i64: 0, 1, 0>, pair = 0 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?xi32>, i64) -> !tile.operand
  %j = "tile.input"(%lo, %rs) {kind = "col", axes = array<i64: 1, 1, 0>, pair = 0 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?xi32>, i64) -> !tile.operand
  // CHECK: %[[R:.*]]:2 = "tile.reached"
  // CHECK-SAME: high = 16 : i64
  %low, %high = "tile.reached"(%m, %m, %n, %n, %j) {cluster = array<i64: 2, 1>, high = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, tile = array<i64: 64, 2>} : (i32, i32, i32, i32, !tile.operand) -> (i32, i32)
  %k = "tile.read_ahead"(%j, %g, %m, %n, %m, %n) {size = 64 : i64} : (!tile.operand, !tile.accumulator<array<i64: 64, 64>, "registers">, i32, i32, i32, i32) -> !tile.operand
  // CHECK: %[[SURE:.*]] = "tile.at_most"
  // CHECK-SAME: limit = 1.000000e+30 : f32
  %sure = "tile.at_most"(%k) {limit = 1.0e30 : f32} : (!tile.operand) -> i1
  // CHECK: "tile.run_tiles"(%[[R]]#0, %[[R]]#1)
  "tile.run_tiles"(%low, %high) ({
  ^bb0(%m0: i32, %x: !tile.operand):
    // CHECK: %[[START:.*]] = "tile.behind"
    %start = "tile.behind"(%r, %c) : (!tile.stages, !tile.position) -> !tile.operand
    // CHECK: "tile.ahead"
    "tile.ahead"() : () -> ()
    // CHECK: %[[SHARE:.*]] = "tile.fold_columns"({{.*}}%[[START]])
    // CHECK: apart
    %f = "tile.fold_columns"(%g, %m0, %n, %m, %n, %x, %start) ({
    ^bb0(%v: f32, %w: f32):
      "tile.yield"(%v) : (f32) -> ()
    }) {apart, kind = "sum", size = 64 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 1, 0>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, i32, i32, i32, i32, !tile.operand, !tile.operand) -> !tile.accumulator<array<i64: 64, 8>, "registers">
    // CHECK: "tile.join_folds"(%[[SHARE]], %[[SHARE]])
    %l = "tile.join_folds"(%f, %f) {kind = "sum", operandSegmentSizes = array<i32: 2>} : (!tile.accumulator<array<i64: 64, 8>, "registers">, !tile.accumulator<array<i64: 64, 8>, "registers">) -> !tile.accumulator<array<i64: 64, 8>, "registers">
  }, {
  ^bb0(%m0: i32):
    // CHECK: %[[NEXT:.*]] = "tile.read_ahead"
    %h = "tile.read_ahead"(%i, %g, %m0, %n, %m, %n) {size = 64 : i64} : (!tile.operand, !tile.accumulator<array<i64: 64, 64>, "registers">, i32, i32, i32, i32) -> !tile.operand
    // CHECK: "tile.begun"(%[[NEXT]])
    "tile.begun"(%h) {operandSegmentSizes = array<i32: 1>} : (!tile.operand) -> ()
  }, {
    // CHECK: "tile.mma_wait"
    "tile.mma_wait"(%g) {pending = 0 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">) -> ()
  }) {step = 128 : i64} : (i32, i32) -> ()
  // what is walked alone begins nothing
  // CHECK: "tile.run_tiles"(%[[R]]#0, %[[R]]#1)
  "tile.run_tiles"(%low, %high) ({
  ^bb0(%m0: i32):
    "tile.advance"(%c) : (!tile.position) -> ()
  }, {
  }, {
  }) {step = 128 : i64} : (i32, i32) -> ()
  return
}
