// RUN: %invalid none %s

// VALID
func.func @p(%sums: memref<?xf32>, %counters: memref<?xi32>, %i: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %last = "tile.sum_parts"(%t, %sums, %counters, %i, %i) {split = 4 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, memref<?xi32>, i32, i32) -> i1
  return
}

// sum_parts: sums
// EXPECT: parts of memref<?xbf16>, expected a memref of f32
// CHANGE: memref<?xf32 => memref<?xbf16

// sum_parts: counters
// EXPECT: counters of memref<?xf32>, expected a memref of i32
// CHANGE: memref<?xi32 => memref<?xf32

// sum_parts: split
// EXPECT: split is 1, expected at least 2
// CHANGE: {split = 4 => {split = 1

// -----

// store_part: piece
// EXPECT: piece 2 of 2
func.func @p(%sums: memref<?xf32>, %i: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.store_part"(%t, %sums, %i, %i) {piece = 2 : i64, pieces = 2 : i64, split = 4 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, i32, i32) -> ()
  return
}

// -----

// last_part: counters
// EXPECT: counters of memref<?xf32>, expected a memref of i32
func.func @p(%sums: memref<?xf32>, %i: i32) {
  %last = "tile.last_part"(%sums, %i) {split = 4 : i64} : (memref<?xf32>, i32) -> i1
  return
}

// -----

// add_parts: split
// EXPECT: split is 1, expected at least 2
func.func @p(%sums: memref<?xf32>, %i: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.add_parts"(%t, %sums, %i) {piece = 0 : i64, pieces = 2 : i64, split = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, i32) -> ()
  return
}

// -----

// begin_part: counters
// EXPECT: counters of memref<?xf32>, expected a memref of i32
func.func @p(%sums: memref<?xf32>, %i: i32) {
  "tile.begin_part"(%sums, %i) : (memref<?xf32>, i32) -> ()
  return
}

// -----

// add_columns: columns
// EXPECT: columns are [64, 48] of sums of [64, 64], expected equal parts of these
func.func @p(%sums: memref<?xf32>, %counters: memref<?xi32>, %i: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %some = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 48>, "registers">
  "tile.add_columns"(%t, %some, %sums, %counters, %i, %i) ({
  ^bb0(%column: i32):
    "tile.drain"() : () -> ()
  }) {split = 4 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.accumulator<array<i64: 64, 48>, "registers">, memref<?xf32>, memref<?xi32>, i32, i32) -> ()
  return
}

// -----

// add_columns: body
// EXPECT: body takes (), expected (i32)
func.func @p(%sums: memref<?xf32>, %counters: memref<?xi32>, %i: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.add_columns"(%t, %t, %sums, %counters, %i, %i) ({
    "tile.drain"() : () -> ()
  }) {split = 4 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, memref<?xi32>, i32, i32) -> ()
  return
}

// -----

// tiles: split
// EXPECT: split is 0, expected at least 1
func.func @p(%m: i32, %n: i32) {
  "tile.tiles"(%m, %n) ({
  ^bb0(%m0: i32, %n0: i32):
    "tile.drain"() : () -> ()
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 0 : i64, tile = array<i64: 128, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}

// tiles: body of parts
// EXPECT: body takes (i32, i32), expected (i32, i32, i32, i32)
// CHANGE: , split = 0 => , split = 2

// -----

// skip_blocks: window
// EXPECT: expected base type 'tile.window' but got
func.func @p(%i: i32) {
  "tile.skip_blocks"(%i, %i) : (i32, i32) -> ()
  return
}

// -----

// VALID
func.func @p(%m: i32, %n: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %room = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 2, 4096>, f32, 0 : i64, 1 : i64>
  %ring = "tile.ring"() {depth = 1 : i64, empty = 4 : i64, full = 1 : i64, offset = 65536 : i64} : () -> !tile.stages
  %at = "tile.cursor"() {depth = 1 : i64} : () -> !tile.position
  "tile.tiles"(%m, %n) ({
  ^bb0(%m0: i32, %n0: i32, %part: i32, %number: i32):
    %first = "tile.sum_in_cluster"(%t, %room, %ring, %at, %part) {owners = 1 : i64, split = 3 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 2, 4096>, f32, 0 : i64, 1 : i64>, !tile.stages, !tile.position, i32) -> i1
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 3 : i64, tile = array<i64: 64, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}

// sum_in_cluster: room
// EXPECT: sums are [1, 4096] of f32, expected f32 of units of 2 parts
// CHANGE: array<i64: 2 => array<i64: 1

// sum_in_cluster: element
// EXPECT: sums are [2, 4096] of bf16, expected f32 of units of 2 parts
// CHANGE: 4096>, f32 => 4096>, bf16

// sum_in_cluster: walk
// EXPECT: is not in the body of a tile.tiles of 3 parts
// CHANGE: = 3 : i64, => = 2 : i64,

// sum_in_cluster: owners
// EXPECT: owners is 3, expected 1 or 2
// CHANGE: owners = 1 => owners = 3

// sum_in_cluster: cursor
// EXPECT: cursor
// CHANGE: depth = 1 : i64} => depth = 2 : i64}

// -----

// kernel: parts
// EXPECT: parts is 3, and a role walks tiles of another number of parts
"tile.kernel"() ({
^bb0(%m: i32, %n: i32):
  "tile.role"() ({
    "tile.tiles"(%m, %n) ({
    ^bb0(%m0: i32, %n0: i32, %part: i32, %number: i32):
    }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 2 : i64, tile = array<i64: 64, 64>, turns = 1 : i64} : (i32, i32) -> ()
  }) {label = "consumer", registers = 232 : i64, warps = array<i64: 0, 4>} : () -> ()
}) {arguments = [{}, {}], cluster = array<i64: 1, 1>, parts = 3 : i64, shared_bytes = 0 : i64, sym_name = "C", threads = 256 : i64} : () -> ()
