// RUN: %invalid none %s

// totals: kind
// EXPECT: kind is "mean", expected sum, max, min, sum_exp
func.func @p() {
  %totals = "tile.totals"() {kind = "mean", rows = 2 : i64} : () -> !tile.row_totals
  return
}

// totals: rows
// EXPECT: rows is 0, expected at least 1
// CHANGE: 2 : i64} : => 0 : i64} :
// CHANGE: kind = "mean => kind = "sum

// -----

// reduce_columns: ragged
// EXPECT: ragged is 2, expected 0 or 1
func.func @p(%i: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %totals = "tile.totals"() {kind = "max", rows = 2 : i64} : () -> !tile.row_totals
  "tile.reduce_columns"(%t, %totals, %i, %i, %i, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, kind = "max", ragged = 2 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.row_totals, i32, i32, i32, i32) -> ()
  return
}

// -----

// store_totals: beyond a tile's words
// EXPECT: partial results up to 160 of 128 words of a tile
func.func @p(%partials: memref<?xf32>, %i: i32) {
  %totals = "tile.totals"() {kind = "max", rows = 2 : i64} : () -> !tile.row_totals
  "tile.store_totals"(%totals, %partials, %i) {kind = "max", words = 128 : i64, offset = 96 : i64, extent = 64 : i64} : (!tile.row_totals, memref<?xf32>, i32) -> ()
  return
}

// store_totals: two numbers a row
// EXPECT: partial results up to 192 of 128 words of a tile
// CHANGE: kind = "max", words => kind = "sum_exp", words
// CHANGE: offset = 96 => offset = 64

// store_totals: memory
// EXPECT: partials of memref<?xbf16>, expected a memref of f32
// CHANGE: memref<?xf32 => memref<?xbf16
// CHANGE: offset = 96 => offset = 0

// -----

// reduce_rows: column
// EXPECT: column is -8, expected at least 0
func.func @p(%partials: memref<?xf32>, %i: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.reduce_rows"(%t, %partials, %i, %i, %i, %i, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0>, kind = "sum", ragged = 0 : i64, column = -8 : i64, words = 128 : i64, offset = 64 : i64, extent = 64 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, i32, i32, i32, i32, i32) -> ()
  return
}

// -----

// last_tile: counters
// EXPECT: counters of memref<?xf32>, expected a memref of i32
func.func @p(%counters: memref<?xf32>, %i: i32) {
  %last = "tile.last_tile"(%counters, %i, %i) {alone = 0 : i64} : (memref<?xf32>, i32, i32) -> i1
  return
}

// -----

// join_section: place
// EXPECT: partial results up to 160 of 128 words of a tile
func.func @p(%partials: memref<?xf32>, %i: i32) {
  "tile.join_section"(%partials, %i, %i, %i) {kind = "sum", slots = 1 : i64, alone = 0 : i64, words = 128 : i64, offset = 96 : i64, extent = 64 : i64} : (memref<?xf32>, i32, i32, i32) -> ()
  return
}

// -----

// finish_reduction: slots
// EXPECT: slots is 0, expected at least 1
func.func @p(%partials: memref<?xf32>, %r: memref<?xf32>, %i: i32, %stride: i64) {
  "tile.finish_reduction"(%partials, %i, %i, %i, %r, %stride, %i, %i) ({
  ^bb0(%x: f32):
    "tile.yield"(%x) : (f32) -> ()
  }) {alone = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>, kind = "max", slots = 0 : i64, words = 128 : i64, offset = 0 : i64, extent = 64 : i64} : (memref<?xf32>, i32, i32, i32, memref<?xf32>, i64, i32, i32) -> ()
  return
}

// -----

// finish_reduction: values for targets
// EXPECT: body yields 1 values, expected 2
func.func @p(%partials: memref<?xf32>, %r: memref<?xf32>, %i: i32, %stride: i64) {
  "tile.finish_reduction"(%partials, %i, %i, %i, %r, %r, %stride, %stride, %i, %i) ({
  ^bb0(%x: f32, %y: f32):
    "tile.yield"(%x) : (f32) -> ()
  }) {alone = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 2, 2, 1, 1, 0, 0, 0>, kind = "sum_exp", slots = 1 : i64, words = 128 : i64, offset = 0 : i64, extent = 64 : i64} : (memref<?xf32>, i32, i32, i32, memref<?xf32>, memref<?xf32>, i64, i64, i32, i32) -> ()
  return
}

// finish_reduction: a stride of each
// EXPECT: 2 targets with 1 strides, expected one each
// CHANGE: 2, 2, 1, 1 => 2, 1, 1, 1
// CHANGE: %stride, %stride, => %stride,
// CHANGE: i64, i64, i32, i32) -> => i64, i32, i32) ->

// finish_reduction: what a body takes
// EXPECT: body takes (f32, f32), expected (f32)
// CHANGE: "sum_exp" => "sum"

// finish_reduction: memory
// EXPECT: stores into f32, expected a memref
// CHANGE: %r: memref<?xf32> => %r: f32
// CHANGE: memref<?xf32>, memref<?xf32>, i64, i64 => f32, f32, i64, i64

// -----

// leave_totals: beyond the room
// EXPECT: leaves f32 96 to 160 of 128
func.func @p() {
  %totals = "tile.totals"() {kind = "max", rows = 2 : i64} : () -> !tile.row_totals
  %room = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 128>, f32, 0 : i64, 1 : i64>
  "tile.leave_totals"(%totals, %room) {kind = "max", offset = 96 : i64, extent = 64 : i64} : (!tile.row_totals, !tile.buffer<array<i64: 1, 128>, f32, 0 : i64, 1 : i64>) -> ()
  return
}

// -----

// leave_rows: the room's elements
// EXPECT: leaves f32 in !tile.buffer<array<i64: 1, 128>, bf16
func.func @p(%i: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %room = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 128>, bf16, 0 : i64, 1 : i64>
  "tile.leave_rows"(%t, %room, %i, %i, %i, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, kind = "sum", ragged = 0 : i64, column = 0 : i64, offset = 0 : i64, extent = 64 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 1, 128>, bf16, 0 : i64, 1 : i64>, i32, i32, i32, i32) -> ()
  return
}

// -----

// store_left: slots
// EXPECT: slots is 0, expected at least 1
func.func @p(%partials: memref<?xf32>, %i: i32) {
  %room = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 128>, f32, 0 : i64, 1 : i64>
  "tile.store_left"(%room, %partials, %i) {kind = "sum", left = 0 : i64, slots = 0 : i64, alone = 1 : i64, words = 64 : i64, offset = 0 : i64, extent = 64 : i64} : (!tile.buffer<array<i64: 1, 128>, f32, 0 : i64, 1 : i64>, memref<?xf32>, i32) -> ()
  return
}

// store_left: its last slot is beyond the room
// EXPECT: leaves f32 32 to 160 of 128
// CHANGE: left = 0 : => left = 32 :
// CHANGE: , slots = 0 => , slots = 2

// -----

// follows: nothing walks tiles
// EXPECT: is in no tile.tiles
func.func @p() {
  %more = "tile.follows"() : () -> i1
  return
}

// -----

// follows: runs of tiles
// EXPECT: is in a tile.tiles that does not know what follows: it asks, or takes runs
func.func @p(%i: i32) {
  "tile.tiles"(%i, %i) ({
  ^bb0(%m0: i32, %n0: i32):
    %more = "tile.follows"() : () -> i1
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", run = 4 : i64, split = 1 : i64, tile = array<i64: 64, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}
