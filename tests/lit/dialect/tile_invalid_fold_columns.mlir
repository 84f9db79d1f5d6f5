// RUN: %invalid none %s

// VALID
func.func @f(%m: i32, %n: i32, %c: memref<?x?xf32>, %rs: i64, %cs: i64) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  %s = "tile.fold_columns"(%a, %m, %n, %m, %n) ({
  ^bb0(%x: f32):
    "tile.yield"(%x) : (f32) -> ()
  }) {kind = "sum", size = 64 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0, 0>} : (!tile.accumulator<array<i64: 64, 128>, "registers">, i32, i32, i32, i32) -> !tile.accumulator<array<i64: 64, 8>, "registers">
  return
}

// EXPECT: kind is "product", expected sum, max, min
// CHANGE: kind = "sum => kind = "product

// EXPECT: folds 48 of 128 columns, expected a multiple of 8 that divides them
// CHANGE: , size = 64 => , size = 48

// EXPECT: folds 4 of 128 columns, expected a multiple of 8 that divides them
// CHANGE: , size = 64 => , size = 4

// EXPECT: expected an accumulator of [64, 16] in the same space
// CHANGE: , size = 64 => , size = 8

// EXPECT: expected an accumulator of [64, 8] in the same space
// CHANGE: , 8>, "registers => , 8>, "warp

// EXPECT: body takes (f32, f32), expected (f32)
// CHANGE: , %c: memref<?x?xf32>, %rs: i64, %cs: i64 =>
// CHANGE: ^bb0(%x => ^bb0(%x: f32, %y

// EXPECT: a lane has a whole row: there is nothing to exchange, expected `apart`
// CHANGE: registers" => lane"
// CHANGE: array<i64: 64 => array<i64: 32

// -----

// EXPECT: along is "k", expected m or n
func.func @f(%m: i32, %n: i32, %c: memref<?x?xf32>, %rs: i64, %cs: i64) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  %s = "tile.fold_columns"(%a, %m, %n, %m, %n) ({
  ^bb0(%x: f32):
    "tile.yield"(%x) : (f32) -> ()
  }) {kind = "sum", size = 64 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0, 0>} : (!tile.accumulator<array<i64: 64, 128>, "registers">, i32, i32, i32, i32) -> !tile.accumulator<array<i64: 64, 8>, "registers">
  "tile.store_within"(%s, %c, %rs, %cs, %m, %n, %m, %n) {along = "k", high = 16 : i64, low = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>} : (!tile.accumulator<array<i64: 64, 8>, "registers">, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// EXPECT: 0 bounds that are read and 1 numbers, expected two in all
// CHANGE: 16 : i64, low = 0 => 16
// CHANGE: along = "k => along = "m

// -----

// EXPECT: stores into i64, expected a memref
func.func @f(%m: i32, %n: i32, %c: memref<?x?xf32>, %rs: i64, %cs: i64) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  %s = "tile.fold_columns"(%a, %m, %n, %m, %n) ({
  ^bb0(%x: f32):
    "tile.yield"(%x) : (f32) -> ()
  }) {kind = "sum", size = 64 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0, 0>} : (!tile.accumulator<array<i64: 64, 128>, "registers">, i32, i32, i32, i32) -> !tile.accumulator<array<i64: 64, 8>, "registers">
  "tile.store_within"(%s, %rs, %rs, %cs, %m, %n, %m, %n) {along = "m", high = 16 : i64, low = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>} : (!tile.accumulator<array<i64: 64, 8>, "registers">, i64, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// EXPECT: a factor of kind "col", expected row
func.func @f(%m: i32, %n: i32, %w: memref<?xf32>, %rs: i64) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  %f = "tile.input"(%w, %rs) {kind = "col", axes = array<i64: 1, 1, 0>, pair = 0 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?xf32>, i64) -> !tile.operand
  %s = "tile.fold_columns"(%a, %m, %n, %m, %n, %f) ({
  ^bb0(%x: f32):
    "tile.yield"(%x) : (f32) -> ()
  }) {kind = "sum", size = 64 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 1, 0, 0>} : (!tile.accumulator<array<i64: 64, 128>, "registers">, i32, i32, i32, i32, !tile.operand) -> !tile.accumulator<array<i64: 64, 8>, "registers">
  return
}

// -----

// EXPECT: an input of kind "both", expected row or col
func.func @f(%m: i32, %n: i32, %w: memref<?x?xf32>, %rs: i64) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  %f = "tile.input"(%w, %rs, %rs) {kind = "both", axes = array<i64: 0, 1, 0, 1, 1, 0>, pair = 0 : i64, operandSegmentSizes = array<i32: 1, 2>} : (memref<?x?xf32>, i64, i64) -> !tile.operand
  %h = "tile.read_ahead"(%f, %a, %m, %n, %m, %n) {size = 64 : i64} : (!tile.operand, !tile.accumulator<array<i64: 64, 128>, "registers">, i32, i32, i32, i32) -> !tile.operand
  return
}

// -----

// EXPECT: 12 of 128 columns together, expected a multiple of 8 that divides them
func.func @f(%m: i32, %n: i32, %w: memref<?xf32>, %rs: i64) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  %f = "tile.input"(%w, %rs) {kind = "col", axes = array<i64: 1, 1, 0>, pair = 0 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?xf32>, i64) -> !tile.operand
  %h = "tile.read_ahead"(%f, %a, %m, %n, %m, %n) {size = 12 : i64} : (!tile.operand, !tile.accumulator<array<i64: 64, 128>, "registers">, i32, i32, i32, i32) -> !tile.operand
  return
}

// -----

// EXPECT: a bound of kind "row", expected col or scalar
func.func @f(%m: i32, %n: i32, %lo: memref<?xi32>, %rs: i64) {
  %low = "tile.input"(%lo, %rs) {kind = "row", axes = array<i64: 0, 1, 0>, pair = 0 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?xi32>, i64) -> !tile.operand
  %any = "tile.reaches"(%m, %n, %n, %low) {cluster = array<i64: 1, 1>, high = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>, tile = array<i64: 64, 2>} : (i32, i32, i32, !tile.operand) -> i1
  return
}

// -----

// EXPECT: 0 bounds that are read and 1 numbers, expected two in all
func.func @f(%m: i32, %n: i32) {
  %any = "tile.reaches"(%m, %n, %n) {cluster = array<i64: 1, 1>, high = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0>, tile = array<i64: 64, 2>} : (i32, i32, i32) -> i1
  return
}
