// RUN: %invalid none %s

// point: vector
// EXPECT: vector is 0, expected at least 1
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.point"(%p, %p, %p, %p) {columns = 64 : i64, vector = 0 : i64} : (i32, i32, i32, i32) -> (i32, i32, i1)
  return
}

// -----

// point: columns
// EXPECT: 24 columns for threads of 8 each, expected 8 times a power of two
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.point"(%p, %p, %p, %p) {columns = 24 : i64, vector = 8 : i64} : (i32, i32, i32, i32) -> (i32, i32, i1)
  return
}

// -----

// aligned: bytes
// EXPECT: bytes is 3, expected a power of two up to 16
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.aligned"(%D, %s) {bytes = 3 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?x64xbf16>, i64) -> i1
  return
}

// -----

// aligned: memory
// EXPECT: reads or writes f32, expected a memref
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.aligned"(%x, %s) {bytes = 16 : i64, operandSegmentSizes = array<i32: 1, 1>} : (f32, i64) -> i1
  return
}

// -----

// load_columns: indices
// EXPECT: 1 indices and 2 strides, expected as many
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.load_columns"(%D, %p, %s, %s, %i) {along = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 1>, together = 8 : i64} : (memref<?x64xbf16>, i32, i64, i64, i1) -> !tile.columns<8 : i64>
  return
}

// -----

// load_columns: along
// EXPECT: along is 2, expected 0 or 1
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.load_columns"(%D, %p, %p, %s, %s, %i) {along = 2 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1>, together = 8 : i64} : (memref<?x64xbf16>, i32, i32, i64, i64, i1) -> !tile.columns<8 : i64>
  return
}

// -----

// load_columns: memory
// EXPECT: reads or writes f32, expected a memref
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.load_columns"(%x, %p, %p, %s, %s, %i) {along = 1 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1>, together = 8 : i64} : (f32, i32, i32, i64, i64, i1) -> !tile.columns<8 : i64>
  return
}

// -----

// load_columns: 32 bytes
// EXPECT: 16 of 8 elements of 16 bits together, expected a divisor of 8 among 1, 2, 4, 8
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.load_columns"(%D, %p, %p, %s, %s, %i) {along = 1 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1>, together = 16 : i64} : (memref<?x64xbf16>, i32, i32, i64, i64, i1) -> !tile.columns<8 : i64>
  return
}

// -----

// load_columns: one element
// EXPECT: 8 of 1 elements of 16 bits together, expected a divisor of 1 among 1, 2, 4, 8
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.load_columns"(%D, %p, %p, %s, %s, %i) {along = 0 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1>, together = 8 : i64} : (memref<?x64xbf16>, i32, i32, i64, i64, i1) -> !tile.columns<8 : i64>
  return
}

// -----

// running: kind
// EXPECT: kind is "mean", expected sum, max, min
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.running"() {kind = "mean"} : () -> !tile.columns<8 : i64>
  return
}

// -----

// term: kind
// EXPECT: kind is "mean", expected sum, max, min
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  "tile.term"(%a, %a, %i) {kind = "mean"} : (!tile.columns<8 : i64>, !tile.columns<8 : i64>, i1) -> ()
  return
}

// -----

// term: columns
// EXPECT: takes !tile.columns<4 : i64> into !tile.columns<8 : i64>, expected one type
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.running"() {kind = "sum"} : () -> !tile.columns<4 : i64>
  "tile.term"(%a, %b, %i) {kind = "sum"} : (!tile.columns<8 : i64>, !tile.columns<4 : i64>, i1) -> ()
  return
}

// -----

// compute: columns
// EXPECT: computes !tile.columns<4 : i64> of !tile.columns<8 : i64>, expected as many columns
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.compute"(%a) ({
  ^bb0(%v: f32):
    "tile.yield"(%v) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0>} : (!tile.columns<8 : i64>) -> !tile.columns<4 : i64>
  return
}

// -----

// compute: arguments
// EXPECT: body takes (f32, f32), expected (f32)
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.compute"(%a) ({
  ^bb0(%v: f32, %w: f32):
    "tile.yield"(%v) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0>} : (!tile.columns<8 : i64>) -> !tile.columns<8 : i64>
  return
}

// -----

// compute: end
// EXPECT: body ends in scale.yield, expected tile.yield
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.compute"(%a) ({
  ^bb0(%v: f32):
    "scale.yield"(%v) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0>} : (!tile.columns<8 : i64>) -> !tile.columns<8 : i64>
  return
}

// -----

// compute: approximate
// EXPECT: approximate is 1 : i64, expected a unit attribute
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.compute"(%a) ({
  ^bb0(%v: f32):
    "tile.yield"(%v) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0>, approximate = 1 : i64} : (!tile.columns<8 : i64>) -> !tile.columns<8 : i64>
  return
}

// -----

// store_columns: indices
// EXPECT: 2 indices and 1 strides, expected as many
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  "tile.store_columns"(%a, %D, %p, %p, %s) {operandSegmentSizes = array<i32: 1, 1, 2, 1>, together = 8 : i64} : (!tile.columns<8 : i64>, memref<?x64xbf16>, i32, i32, i64) -> ()
  return
}

// -----

// store_columns: memory
// EXPECT: reads or writes f32, expected a memref
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  "tile.store_columns"(%a, %x, %p, %p, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 2, 2>, together = 8 : i64} : (!tile.columns<8 : i64>, f32, i32, i32, i64, i64) -> ()
  return
}

// -----

// store_columns: together
// EXPECT: 3 of 8 elements of 16 bits together, expected a divisor of 8 among 1, 2, 4, 8
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  "tile.store_columns"(%a, %D, %p, %p, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 2, 2>, together = 3 : i64} : (!tile.columns<8 : i64>, memref<?x64xbf16>, i32, i32, i64, i64) -> ()
  return
}
