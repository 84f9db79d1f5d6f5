// RUN: %roundtrip %s | filecheck %s

// Blocks of 64 columns become one each, of which those of the rows of a window are stored; the others are filled.
func.func @f(%m: i32, %n: i32, %c: memref<?x?xf32>, %lo: memref<?xi32>, %rs: i64, %cs: i64) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  // CHECK: "tile.fold_columns"(%{{.*}}) {kind = "sum", size = 64 : i64} : (!tile.accumulator<array<i64: 64, 128>, "registers">) -> !tile.accumulator<array<i64: 64, 8>, "registers">
  %s = "tile.fold_columns"(%a) {kind = "sum", size = 64 : i64} : (!tile.accumulator<array<i64: 64, 128>, "registers">) -> !tile.accumulator<array<i64: 64, 8>, "registers">
  %low = "tile.input"(%lo, %rs) {kind = "col", axes = array<i64: 1, 1, 0>, pair = 0 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?xi32>, i64) -> !tile.operand
  // CHECK: "tile.store_within"
  // CHECK-SAME: along = "m", high = 16 : i64
  // CHECK-SAME: otherwise = 0xFF800000 : f32
  "tile.store_within"(%s, %c, %rs, %cs, %m, %n, %m, %n, %low) {along = "m", high = 16 : i64, otherwise = 0xFF800000 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0>} : (!tile.accumulator<array<i64: 64, 8>, "registers">, memref<?x?xf32>, i64, i64, i32, i32, i32, i32, !tile.operand) -> ()
  return
}
