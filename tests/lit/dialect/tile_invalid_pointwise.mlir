// RUN: %invalid none %s

// point: vector
// EXPECT: vector is 0, expected at least 1
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.point"(%p, %p, %p, %p) {columns = 64 : i64, vector = 0 : i64} : (i32, i32, i32, i32) -> (i32, i32, i1)
  return
}

// point: columns
// EXPECT: 24 columns for threads of 8 each, expected 8 times a power of two or whole warps
// CHANGE: = 64 : i64 => = 24 : i64
// CHANGE: vector = 0 => vector = 8

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
  "tile.load_columns"(%D, %p, %s, %s, %i) {along = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 1, 0, 0>, together = 8 : i64} : (memref<?x64xbf16>, i32, i64, i64, i1) -> !tile.columns<8 : i64>
  return
}

// -----

// load_columns: along
// EXPECT: along is 2, expected 0 or 1
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.load_columns"(%D, %p, %p, %s, %s, %i) {along = 2 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1, 0, 0>, together = 8 : i64} : (memref<?x64xbf16>, i32, i32, i64, i64, i1) -> !tile.columns<8 : i64>
  return
}

// load_columns: 32 bytes
// EXPECT: 16 of 8 elements of 16 bits together, expected a divisor of 8 among 1, 2, 4, 8
// CHANGE: = 2 : i64, => = 1 : i64,
// CHANGE: together = 8 => together = 16

// load_columns: one element
// EXPECT: 8 of 1 elements of 16 bits together, expected a divisor of 1 among 1, 2, 4, 8
// CHANGE: {along = 2 => {along = 0

// -----

// load_columns: memory
// EXPECT: reads or writes f32, expected a memref
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.load_columns"(%x, %p, %p, %s, %s, %i) {along = 1 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1, 0, 0>, together = 8 : i64} : (f32, i32, i32, i64, i64, i1) -> !tile.columns<8 : i64>
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

// compute: arguments
// EXPECT: body takes (f32, f32), expected (f32)
// CHANGE: (%v: f32): => (%v: f32, %w: f32):
// CHANGE: .columns<4 => .columns<8

// compute: end
// EXPECT: body ends in scale.yield, expected tile.yield
// CHANGE: .columns<4 => .columns<8
// CHANGE: tile.yield => scale.yield

// compute: approximate
// EXPECT: approximate is 1 : i64, expected a unit attribute
// CHANGE: } : (!tile => , approximate = 1 : i64} : (!tile
// CHANGE: .columns<4 => .columns<8

// compute: approximate and once
// EXPECT: quotients are approximate and rounded once, expected one of them
// CHANGE: } : (!tile => , approximate, once} : (!tile
// CHANGE: .columns<4 => .columns<8

// -----

// store_columns: indices
// EXPECT: 2 indices and 1 strides, expected as many
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  "tile.store_columns"(%a, %D, %p, %p, %s) {operandSegmentSizes = array<i32: 1, 1, 2, 1, 0, 0>, together = 8 : i64} : (!tile.columns<8 : i64>, memref<?x64xbf16>, i32, i32, i64) -> ()
  return
}

// -----

// store_columns: memory
// EXPECT: reads or writes f32, expected a memref
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  "tile.store_columns"(%a, %x, %p, %p, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 2, 2, 0, 0>, together = 8 : i64} : (!tile.columns<8 : i64>, f32, i32, i32, i64, i64) -> ()
  return
}

// -----

// store_columns: together
// EXPECT: 3 of 8 elements of 16 bits together, expected a divisor of 8 among 1, 2, 4, 8
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  "tile.store_columns"(%a, %D, %p, %p, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 2, 2, 0, 0>, together = 3 : i64} : (!tile.columns<8 : i64>, memref<?x64xbf16>, i32, i32, i64, i64) -> ()
  return
}

// store_columns: masked
// EXPECT: is masked without a count
// CHANGE: operandSegmentSizes => masked, operandSegmentSizes
// CHANGE: together = 3 => together = 8

// -----

// load_columns: count
// EXPECT: 1 counts and 0 of whether they are whole, expected one, or none
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %b = "tile.load_columns"(%D, %p, %p, %s, %s, %i, %p) {along = 1 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1, 1, 0>, together = 8 : i64} : (memref<?x64xbf16>, i32, i32, i64, i64, i1, i32) -> !tile.columns<8 : i64>
  return
}

// -----

// store_columns: count
// EXPECT: 0 counts and 1 of whether they are whole, expected one, or none
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  "tile.store_columns"(%a, %D, %p, %p, %s, %s, %i) {operandSegmentSizes = array<i32: 1, 1, 2, 2, 0, 1>, together = 8 : i64} : (!tile.columns<8 : i64>, memref<?x64xbf16>, i32, i32, i64, i64, i1) -> ()
  return
}

// -----

// counted: kind
// EXPECT: kind is "mean", expected sum, max, min
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.counted"(%a, %p) {kind = "mean"} : (!tile.columns<8 : i64>, i32) -> !tile.columns<8 : i64>
  return
}

// -----

// within: more columns than bits
// EXPECT: expected up to 32, a bit each
func.func @p(%p: i32) {
  %a = "tile.within"(%p, %p, %p) {columns = 64 : i64} : (i32, i32, i32) -> i32
  return
}

// -----

// filled: columns
// EXPECT: makes !tile.columns<4 : i64> of !tile.columns<8 : i64>, expected one type
func.func @p(%p: i32) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.filled"(%a, %p) {otherwise = 0.0 : f32} : (!tile.columns<8 : i64>, i32) -> !tile.columns<4 : i64>
  return
}

// -----

// counted: columns
// EXPECT: makes !tile.columns<4 : i64> of !tile.columns<8 : i64>, expected one type
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.counted"(%a, %p) {kind = "sum"} : (!tile.columns<8 : i64>, i32) -> !tile.columns<4 : i64>
  return
}

// -----

// VALID
func.func @p() {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  "tile.lay_columns"(%a) {at = 0 : i64, columns = 64 : i64, place = 0 : i64, rows = 64 : i64} : (!tile.columns<8 : i64>) -> ()
  return
}

// lay_columns: columns
// EXPECT: columns is 48, expected a power of two from 32 to 1024
// CHANGE: = 64 : i64, => = 48 : i64,

// lay_columns: vector
// EXPECT: 64 columns a thread, expected a power of two up to 32
// CHANGE: .columns<8 => .columns<64

// lay_columns: halves
// EXPECT: 32 columns a thread, expected 8 or 16, four times of which divide the rows
// CHANGE: i64, place => i64, halves = bf16, place
// CHANGE: .columns<8 => .columns<32
// CHANGE: = 64 : i64} => = 128 : i64}

// lay_columns: at
// EXPECT: at is 4, expected a multiple of 128: a word for each bank
// CHANGE: a) {at = 0 => a) {at = 4

// -----

// take_turned: halves
// EXPECT: 16 columns a thread, expected 8 or 16, four times of which divide the rows
func.func @p() {
  %a = "tile.take_turned"() {at = 0 : i64, columns = 64 : i64, halves = bf16, place = 0 : i64, rows = 32 : i64} : () -> !tile.columns<16 : i64>
  return
}

// -----

// lay_named: vector
// EXPECT: 64 columns a thread, expected a power of two up to 32
func.func @p(%i: i1) {
  "tile.lay_named"(%i) {at = 0 : i64, columns = 64 : i64, place = 0 : i64, vector = 64 : i64} : (i1) -> ()
  return
}

// -----

// take_named: block
// EXPECT: blocks of 24, expected a multiple of 8 that divides 64
func.func @p() {
  %a:2 = "tile.take_named"() {at = 0 : i64, block = 24 : i64, rows = 64 : i64, vector = 8 : i64} : () -> (i32, i1)
  return
}

// -----

// take_turned: place
// EXPECT: place is -1, expected at least 0
func.func @p() {
  %a = "tile.take_turned"() {at = 0 : i64, columns = 64 : i64, place = -1 : i64, rows = 64 : i64} : () -> !tile.columns<8 : i64>
  return
}

// -----

// reduce_each: other columns
// EXPECT: reduces other columns than !tile.columns<4 : i64>
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.reduce_each"(%a) {exchange = -1 : i64, kind = "sum", operandSegmentSizes = array<i32: 1>, sharing = 3 : i64} : (!tile.columns<8 : i64>) -> !tile.columns<4 : i64>
  return
}

// reduce_each: exchange
// EXPECT: sharing 35 and exchange -1, expected bits of threads, and -1 within a warp
// CHANGE: .columns<4 => .columns<8
// CHANGE: sharing = 3 => sharing = 35

// -----

// some: values
// EXPECT: reduces no values, expected one at least
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.some"() {exchange = -1 : i64, operandSegmentSizes = array<i32: 0>, sharing = 3 : i64} : () -> i1
  return
}

// -----

// column: of those that there are
// EXPECT: column 8 : i64 of 8
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.column"(%a) {at = 8 : i64} : (!tile.columns<8 : i64>) -> f32
  return
}

// -----

// columns_of: one a column
// EXPECT: 1 numbers, expected 8, one a column
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %b = "tile.columns_of"(%x) {operandSegmentSizes = array<i32: 1>} : (f32) -> !tile.columns<8 : i64>
  return
}

// -----

// reduce_lanes: values
// EXPECT: reduces no values, expected one at least
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %b = "tile.reduce_lanes"() {exchange = -1 : i64, kind = "sum", operandSegmentSizes = array<i32: 0>, sharing = 3 : i64} : () -> f32
  return
}

// -----

// reduce_lanes: exchange
// EXPECT: sharing 35 and exchange -1, expected bits of threads, and -1 within a warp
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %a = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %b = "tile.reduce_lanes"(%a) {exchange = -1 : i64, kind = "sum", operandSegmentSizes = array<i32: 1>, sharing = 35 : i64} : (!tile.columns<8 : i64>) -> f32
  return
}

// reduce_lanes: within a warp
// EXPECT: sharing 3 and exchange 0, expected bits of threads, and -1 within a warp
// CHANGE: = -1 : i64 => = 0 : i64
// CHANGE: sharing = 35 => sharing = 3

// reduce_lanes: threads
// EXPECT: sharing 1024 and exchange 0, expected bits of threads, and -1 within a warp
// CHANGE: = -1 : i64 => = 0 : i64
// CHANGE: sharing = 35 => sharing = 1024

// reduce_lanes: kind
// EXPECT: kind is "mean", expected sum, max, min
// CHANGE: = 35 : i64 => = 3 : i64
// CHANGE: kind = "sum", => kind = "mean",

// -----

// find_scale: scale
// EXPECT: scales are "bf16", expected f32, ue8m0, ue4m3
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %b:2 = "tile.find_scale"(%x) {element = f8E4M3FN, operandSegmentSizes = array<i32: 1, 0>, scale = "bf16"} : (f32) -> (i32, f32)
  return
}

// -----

// find_scale: inverse
// EXPECT: 1 inverses, expected one that tile.hold made, or none
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %o = "tile.input"(%x) {axes = array<i64>, kind = "scalar", operandSegmentSizes = array<i32: 1, 0>, pair = 0 : i64} : (f32) -> !tile.operand
  %b:2 = "tile.find_scale"(%x, %o) {element = f8E4M3FN, operandSegmentSizes = array<i32: 1, 1>, scale = "f32"} : (f32, !tile.operand) -> (i32, f32)
  return
}

// -----

// own_turn: threads
// EXPECT: 3 threads, expected a power of two
func.func @p() {
  %a = "tile.own_turn"() {threads = 3 : i64} : () -> i32
  return
}

// -----

// VALID
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  "tile.store_scale"(%p, %D, %s, %p, %p, %p, %i) {block = 32 : i64, layout = "row", padding = 0 : i64, scale = "f32", sharing = 3 : i64} : (i32, memref<?x64xbf16>, i64, i32, i32, i32, i1) -> ()
  return
}

// store_scale: memory
// EXPECT: reads or writes f32, expected a memref
// CHANGE: , memref<?x64xbf16> => , f32
// CHANGE: store_scale"(%p, %D => store_scale"(%p, %x

// store_scale: block
// EXPECT: block is 0, expected at least 1
// CHANGE: block = 32 => block = 0

// store_scale: layout
// EXPECT: scales are "f32" in the layout "rows", expected f32, ue8m0, ue4m3
// CHANGE: layout = "row => layout = "rows

// store_scale: padding
// EXPECT: padding is 2, expected 0 or 1
// CHANGE: padding = 0 => padding = 2

// -----

// VALID
func.func @p(%D: memref<?x64xbf16>, %x: f32, %s: i64, %p: i32, %i: i1) {
  %f = "tile.load_scales"(%D, %p, %p, %p, %s, %i) {block = 32 : i64, layout = "row", scale = "f32"} : (memref<?x64xbf16>, i32, i32, i32, i64, i1) -> !tile.columns<8 : i64>
  return
}

// load_scales: memory
// EXPECT: reads or writes f32, expected a memref
// CHANGE: (memref<?x64xbf16> => (f32
// CHANGE: load_scales"(%D => load_scales"(%x

// load_scales: block
// EXPECT: block is 0, expected at least 1
// CHANGE: block = 32 => block = 0

// load_scales: columns
// EXPECT: blocks of 12 for 8 columns, expected one that divides the other
// CHANGE: block = 32 => block = 12

// load_scales: layout
// EXPECT: scales are "f32" in the layout "rows", expected f32, bf16, f16, ue8m0, ue4m3
// CHANGE: layout = "row => layout = "rows

// load_scales: type
// EXPECT: scales are "e4m3" in the layout "row", expected f32, bf16, f16, ue8m0, ue4m3
// CHANGE: scale = "f32 => scale = "e4m3

// -----

// round_columns: types
// EXPECT: rounds !tile.columns<8 : i64> to !tile.columns<4 : i64>, expected one type
func.func @p(%p: i32) {
  %x = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %f = "tile.round_columns"(%x, %p, %p, %p, %p) {element = f8E4M3FN, operandSegmentSizes = array<i32: 1, 2, 1, 1>} : (!tile.columns<8 : i64>, i32, i32, i32, i32) -> !tile.columns<4 : i64>
  return
}

// -----

// round_columns: extents
// EXPECT: 2 indices and 2 extents, expected one less
func.func @p(%p: i32) {
  %x = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %f = "tile.round_columns"(%x, %p, %p, %p, %p, %p) {element = f8E4M3FN, operandSegmentSizes = array<i32: 1, 2, 2, 1>} : (!tile.columns<8 : i64>, i32, i32, i32, i32, i32) -> !tile.columns<8 : i64>
  return
}

// -----

// round_columns: words
// EXPECT: has 0 words, expected 1 to 4
func.func @p(%p: i32) {
  %x = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %f = "tile.round_columns"(%x, %p) {element = f8E4M3FN, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (!tile.columns<8 : i64>, i32) -> !tile.columns<8 : i64>
  return
}

// -----

// round_columns: element
// EXPECT: rounds to f32, expected bf16, f16, e4m3, e5m2, e3m2, e2m3, e2m1
func.func @p(%p: i32) {
  %x = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %f = "tile.round_columns"(%x, %p, %p) {element = f32, operandSegmentSizes = array<i32: 1, 1, 0, 1>} : (!tile.columns<8 : i64>, i32, i32) -> !tile.columns<8 : i64>
  return
}

// -----

// hadamard: columns
// EXPECT: transforms !tile.columns<24 : i64> to !tile.columns<24 : i64>, expected one type of a power of two
func.func @p() {
  %x = "tile.running"() {kind = "sum"} : () -> !tile.columns<24 : i64>
  %f = "tile.hadamard"(%x) : (!tile.columns<24 : i64>) -> !tile.columns<24 : i64>
  return
}