// RUN: %invalid none %s

// VALID
func.func @p(%E: memref<?x2xf8E8M0FNU>, %s: i64, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.quantize"(%t, %E, %s, %p, %p, %p, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0>, block = 32 : i64, by_rows = 0 : i64, element = f8E4M3FN, scale = "ue8m0", layout = "row", ragged = 0 : i64, padding = 0 : i64, together = 1 : i64, exchange = -1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?x2xf8E8M0FNU>, i64, i32, i32, i32, i32) -> ()
  return
}

// quantize: target
// EXPECT: stores scales into f32, expected a memref
// CHANGE: memref<?x2xf8E8M0FNU> => f32

// quantize: rows moved twice
// EXPECT: rows are moved by 2 numbers, expected one or none
// CHANGE: , %p, %p) { => , %p, %p, %p, %p) {
// CHANGE: i32, i32) - => i32, i32, i32, i32) -
// CHANGE: , 0, 0, 0> => , 2, 0, 0>

// quantize: block
// EXPECT: blocks of 24 in 64 columns, expected a divisor and a multiple of 8
// CHANGE: block = 32 => block = 24

// quantize: gaps between blocks that are stored together
// EXPECT: gaps [2, 3, 0] between 2 blocks of columns, expected multiples of these
// CHANGE: block = 32 => gaps = array<i64: 2, 3, 0>, block = 32
// CHANGE: together = 1 => together = 2

// quantize: block of four
// EXPECT: blocks of 4 in 64 columns, expected a divisor and a multiple of 8
// CHANGE: block = 32 => block = 4

// quantize: layout
// EXPECT: layout is "tiled", expected row, col, blocked, packed
// CHANGE: layout = "row => layout = "tiled

// quantize: scale
// EXPECT: scales are "bf16", expected f32, ue8m0, ue4m3
// CHANGE: scale = "ue8m0 => scale = "bf16

// quantize: together
// EXPECT: 4 "ue8m0" at once in 64 columns, expected 1, or 2 or 4 bytes
// CHANGE: together = 1 => together = 4

// quantize: words of f32
// EXPECT: 2 "f32" at once in 64 columns, expected 1, or 2 or 4 bytes
// CHANGE: = "ue8m0", => = "f32",
// CHANGE: together = 1 => together = 2

// quantize: ragged
// EXPECT: ragged is 2, expected 0 or 1
// CHANGE: ragged = 0 => ragged = 2

// quantize: which way
// EXPECT: by_rows is 2, expected 0 or 1
// CHANGE: by_rows = 0 => by_rows = 2

// quantize: rows of several warps
// EXPECT: blocks of 32 rows, of which a warp has 16, expected a divisor, a multiple of 16
// CHANGE: by_rows = 0 => by_rows = 1

// -----

// quantize: an inverse that is not held
// EXPECT: 1 inverses, expected one that tile.hold made, or none
func.func @p(%E: memref<?x4xf8E4M3FN>, %s: i64, %p: i32, %x: f32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %i = "tile.input"(%x, %s, %s) {axes = array<i64: 0, 1, 0, 1, 1, 0>, kind = "scalar", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (f32, i64, i64) -> !tile.operand
  "tile.quantize"(%t, %E, %s, %p, %p, %p, %p, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, block = 16 : i64, by_rows = 0 : i64, element = f4E2M1FN, scale = "ue4m3", layout = "row", ragged = 0 : i64, padding = 0 : i64, together = 1 : i64, exchange = -1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?x4xf8E4M3FN>, i64, i32, i32, i32, i32, !tile.operand) -> ()
  return
}

// -----

// quantize: more rows than a warp has
// EXPECT: blocks of 64 rows, of which a warp has 32, expected a divisor, a multiple of 16
func.func @p(%E: memref<?x2xf8E8M0FNU>, %s: i64, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 64>, "warp">
  "tile.quantize"(%t, %E, %s, %p, %p, %p, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0>, block = 64 : i64, by_rows = 1 : i64, element = f8E4M3FN, scale = "ue8m0", layout = "row", ragged = 0 : i64, padding = 0 : i64, together = 1 : i64, exchange = -1 : i64} : (!tile.accumulator<array<i64: 32, 64>, "warp">, memref<?x2xf8E8M0FNU>, i64, i32, i32, i32, i32) -> ()
  return
}

// quantize: half a wave
// EXPECT: blocks of 8 rows, of which a warp has 32, expected a divisor, a multiple of 16
// CHANGE: block = 64 => block = 8

// quantize: words of blocks of rows
// EXPECT: 2 : i64 at once, exchanged at -1 : i64, expected 1 and -1 for blocks of rows
// CHANGE: = 64 : i64 => = 32 : i64
// CHANGE: together = 1 => together = 2

// quantize: blocks of rows exchanged
// EXPECT: 1 : i64 at once, exchanged at 1024 : i64, expected 1 and -1 for blocks of rows
// CHANGE: = -1 : i64 => = 1024 : i64
// CHANGE: block = 64 => block = 32

// -----

// VALID
func.func @p(%p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.round_sums"(%t, %p, %p, %p, %p, %p, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 1, 1, 0>, by_rows = 0 : i64, along = 0 : i64, element = bf16} : (!tile.accumulator<array<i64: 64, 64>, "registers">, i32, i32, i32, i32, i32, i32) -> ()
  return
}

// round_sums: indices
// EXPECT: 1 indices beside axis 0, and 1 extents, expected one for each
// CHANGE: , %p, %p) { => , %p, %p, %p) {
// CHANGE: i32, i32) - => i32, i32, i32) -
// CHANGE: , 1, 1, 0, => , 1, 1, 1,

// round_sums: axis
// EXPECT: 0 indices beside axis 1, and 1 extents, expected one for each
// CHANGE: , along = 0 => , along = 1

// round_sums: words
// EXPECT: has 0 words, expected 1 to 4
// CHANGE: p, %p, %p) => p, %p)
// CHANGE: i32, i32) - => i32) -
// CHANGE: , 1, 1, 0> => , 1, 0, 0>

// round_sums: rows
// EXPECT: by_rows is 2, expected 0 or 1
// CHANGE: by_rows = 0 => by_rows = 2

// round_sums: element
// EXPECT: rounds to f32, expected bf16, f16, e4m3, e5m2, e3m2, e2m3, e2m1
// CHANGE: element = bf16 => element = f32

// -----

// transform_sums: columns
// EXPECT: transforms 24 columns, expected a multiple of 16
func.func @p(%p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 24>, "registers">
  "tile.transform_sums"(%t, %p, %p, %p, %p) {by_rows = 0 : i64, ragged = 0 : i64} : (!tile.accumulator<array<i64: 64, 24>, "registers">, i32, i32, i32, i32) -> ()
  return
}
