// RUN: %roundtrip %s | filecheck %s

// Blocks of 64 columns become one each, of which those of the rows of a window are stored; the others are filled.
func.func @f(%m: i32, %n: i32, %c: memref<?x?xf32>, %lo: memref<?xi32>, %rs: i64, %cs: i64) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  %f = "tile.input"(%lo, %rs) {kind = "row", axes = array<i64: 0, 1, 0>, pair = 0 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?xi32>, i64) -> !tile.operand
  %w = "tile.input"(%lo, %rs) {kind = "col", axes = array<i64: 1, 1, 0>, pair = 0 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?xi32>, i64) -> !tile.operand
  // CHECK: %[[AHEAD:.*]] = "tile.read_ahead"
  // CHECK-SAME: size = 64 : i64
  %h = "tile.read_ahead"(%w, %a, %m, %n, %m, %n) {size = 64 : i64} : (!tile.operand, !tile.accumulator<array<i64: 64, 128>, "registers">, i32, i32, i32, i32) -> !tile.operand
  %rows = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>
  %at = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  // CHECK: "tile.copy_input"({{.*}}) : (!tile.operand, !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>, !tile.position, i32, i32) -> ()
  "tile.copy_input"(%f, %rows, %at, %m, %m) : (!tile.operand, !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>, !tile.position, i32, i32) -> ()
  %own = "tile.row_factors"(%rows, %at) {wave = 0 : i64, waves = 1 : i64} : (!tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>, !tile.position) -> !tile.factors
  // CHECK: "tile.rows_held"({{.*}}) : (!tile.factors) -> !tile.operand
  %held = "tile.rows_held"(%own) : (!tile.factors) -> !tile.operand
  // CHECK: "tile.fold_columns"({{.*}}%[[AHEAD]]
  // CHECK: arith.mulf
  // CHECK: kind = "sum"
  // CHECK-SAME: size = 64 : i64
  // CHECK-SAME: -> !tile.accumulator<array<i64: 64, 8>, "registers">
  %s = "tile.fold_columns"(%a, %m, %n, %m, %n, %h, %f) ({
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %y : f32
    "tile.yield"(%z) : (f32) -> ()
  }) {kind = "sum", size = 64 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>} : (!tile.accumulator<array<i64: 64, 128>, "registers">, i32, i32, i32, i32, !tile.operand, !tile.operand) -> !tile.accumulator<array<i64: 64, 8>, "registers">
  %low = "tile.input"(%lo, %rs) {kind = "col", axes = array<i64: 1, 1, 0>, pair = 0 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?xi32>, i64) -> !tile.operand
  // CHECK: "tile.store_within"
  // CHECK-SAME: along = "m", high = 16 : i64
  // CHECK-SAME: otherwise = 0xFF800000 : f32
  "tile.store_within"(%s, %c, %rs, %cs, %m, %n, %m, %n, %low) {along = "m", high = 16 : i64, otherwise = 0xFF800000 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0>} : (!tile.accumulator<array<i64: 64, 8>, "registers">, memref<?x?xf32>, i64, i64, i32, i32, i32, i32, !tile.operand) -> ()
  // CHECK: "tile.reaches"
  // CHECK-SAME: cluster = array<i64: 2, 1>, high = 16 : i64
  // CHECK-SAME: tile = array<i64: 64, 2>
  %any = "tile.reaches"(%m, %n, %n, %low) {cluster = array<i64: 2, 1>, high = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>, tile = array<i64: 64, 2>} : (i32, i32, i32, !tile.operand) -> i1
  // CHECK: live = 2 : i64
  %f2 = "tile.fragment"() {live = 2 : i64} : () -> !tile.accumulator<array<i64: 64, 8>, "registers">
  return
}
