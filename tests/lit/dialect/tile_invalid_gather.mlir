// RUN: %invalid none %s

// VALID
func.func @p(%A: !tile.descriptor<array<i64: 128, 1>, f8E4M3FN, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %g = "tile.gathered"() {rows = 64 : i64, together = 1 : i64} : () -> !tile.gathered_rows
  "tile.gather"(%A, %a, %r, %c, %g, %x) : (!tile.descriptor<array<i64: 128, 1>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, !tile.gathered_rows, i32) -> ()
  return
}

// gather: box
// EXPECT: box [128, 64] (innermost first), expected one row of a tile of [64, 128]
// CHANGE: i64: 128, 1 => i64: 128, 64

// gather: element
// EXPECT: elements differ: f8E5M2 and f8E4M3FN
// CHANGE: 1>, f8E4M3FN => 1>, f8E5M2

// gather: swizzle
// EXPECT: swizzles differ: 64 and 128
// CHANGE: 128 : i64> => 64 : i64>

// gather: width
// EXPECT: a row is 64 bytes and the swizzle 128, expected as many
// CHANGE: : 128, 1>, => : 64, 1>,
// CHANGE: i64: 64, 128 => i64: 64, 64

// gather: rows
// EXPECT: 32 indices, of a tile of 64 rows
// CHANGE: {rows = 64 => {rows = 32

// gather: place in shared memory
// EXPECT: copies 1 x 64 bytes, expected a multiple of 128
// CHANGE: 128 => 64

// gather: a box of two extents, of pages
// EXPECT: box [128, 1] (innermost first), expected one row of a tile of [64, 128]
// CHANGE: {rows = 64 : i64 => {page = 20 : i64, rows = 64 : i64

// gather: depth
// EXPECT: the cursor goes through 3 stages, the ring has 4
// CHANGE: = 4 : i64} => = 3 : i64}

// -----

// gather: atom
// EXPECT: what swizzles keep together differ: 16 and 32
func.func @p(%A: !tile.descriptor<array<i64: 32, 1>, tf32, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, array<i64: 128, 32>, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %g = "tile.gathered"() {rows = 64 : i64, together = 1 : i64} : () -> !tile.gathered_rows
  "tile.gather"(%A, %a, %r, %c, %g, %x) : (!tile.descriptor<array<i64: 32, 1>, tf32, 128 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, array<i64: 128, 32>, 4 : i64>, !tile.stages, !tile.position, !tile.gathered_rows, i32) -> ()
  return
}

// -----

// VALID
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>) {
  %g = "tile.gathered"() {rows = 64 : i64, together = 4 : i64} : () -> !tile.gathered_rows
  return
}

// gathered: together
// EXPECT: 64 rows, 2 together, expected 1 or 4 that divide the rows
// CHANGE: together = 4 => together = 2

// gathered: pages
// EXPECT: 4 rows together, of pages of 20, expected one, of 1 or more
// CHANGE: {rows = 64 => {page = 20 : i64, rows = 64

// gathered: pages of nothing
// EXPECT: 1 rows together, of pages of 0, expected one, of 1 or more
// CHANGE: {rows = 64 : i64, together = 4 => {page = 0 : i64, rows = 64 : i64, together = 1

// gathered: rows
// EXPECT: 66 rows, 4 together, expected 1 or 4 that divide the rows
// CHANGE: {rows = 64 => {rows = 66

// gathered: no rows
// EXPECT: rows is 0, expected at least 1
// CHANGE: {rows = 64 => {rows = 0

// -----

// row_index: memory
// EXPECT: source of memref<?xf32>, expected a memref of i32
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>) {
  %i = "tile.row_index"(%f, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xf32>, i64, i32) -> !tile.index
  return
}

// -----

// row_index: axis
// EXPECT: axis is "q", expected m, n or k
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "q", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  return
}

// -----

// row_index: extents
// EXPECT: has no extents, expected one or more
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>) {
  %i = "tile.row_index"(%at, %s) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<?xi32>, i64) -> !tile.index
  return
}

// -----

// look_up: into
// EXPECT: looks up into !tile.position, expected gathered rows, or rows of scales
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.look_up"(%c, %i, %x, %x) : (!tile.position, !tile.index, i32, i32) -> ()
  return
}

// -----

// own_index: axis
// EXPECT: axis of the index is "n", expected m
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "n", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %o = "tile.own_index"(%i, %x, %x) : (!tile.index, i32, i32) -> !tile.index
  return
}

// -----

// ask_named: count
// EXPECT: count is 0, expected at least 1
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %b = "tile.ask_named"(%i, %x, %x) {count = 0 : i64} : (!tile.index, i32, i32) -> !tile.registers
  return
}

// -----

// all_named: made by tile.ask_named
// EXPECT: what is asked is not made by tile.ask_named
func.func @p() {
  %f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
  %b = "tile.all_named"(%f) : (!tile.registers) -> i1
  return
}

// -----

// input_at: axis
// EXPECT: axis is 1, of 1
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %o = "tile.input"(%f, %s) {axes = array<i64: 0, 1, 0>, kind = "row", operandSegmentSizes = array<i32: 1, 1>, pair = 0 : i64} : (memref<?xf32>, i64) -> !tile.operand
  %p = "tile.input_at"(%o, %i) {axis = 1 : i64} : (!tile.operand, !tile.index) -> !tile.operand
  return
}

// -----

// elect: arguments
// EXPECT: body is not one block without arguments
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>) {
  "tile.elect"() ({
  ^bb0(%y: i32):
  }) : () -> ()
  return
}

// -----

// store_turned: rows are skipped
// EXPECT: skips rows of the accumulator, whose columns are stored whole
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>, %C: memref<?x64xbf16>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 72>, bf16, 0 : i64, 1 : i64>
  "tile.store_turned"(%t, %a, %C, %s, %x, %x, %x, %x, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 64, 72>, bf16, 0 : i64, 1 : i64>, memref<?x64xbf16>, i64, i32, i32, i32, i32, !tile.index) -> ()
  return
}

// store_turned: where rows go, not columns
// EXPECT: scatters along m, expected n
// CHANGE: , 1>} : (! => , 1>, to = array<i64: 0>} : (!

// -----

// quantize: a part of blocks is skipped
// EXPECT: skips some of a block's elements, expected whole blocks: indices along n
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.quantize"(%t, %f, %s, %x, %x, %x, %x, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0>, block = 32 : i64, by_rows = 1 : i64, element = f8E4M3FN, scale = "ue8m0", layout = "row", ragged = 0 : i64, padding = 0 : i64, together = 1 : i64, exchange = -1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, i64, i32, i32, i32, i32, !tile.index) -> ()
  return
}

// -----

// store_direct: where rows go
// EXPECT: to is [1], of 1 skips
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>, %C: memref<?x64xbf16>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.store_direct"(%t, %C, %s, %s, %x, %x, %x, %x, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>, pair = 1 : i64, to = array<i64: 1>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?x64xbf16>, i64, i64, i32, i32, i32, i32, !tile.index) -> ()
  return
}

// -----

// store_direct: where rows go, twice
// EXPECT: scatters along m, expected n
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>, %C: memref<?x64xbf16>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.store_direct"(%t, %C, %s, %s, %x, %x, %x, %x, %i, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 2>, pair = 1 : i64, to = array<i64: 0, 1>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?x64xbf16>, i64, i64, i32, i32, i32, i32, !tile.index, !tile.index) -> ()
  return
}

// -----

// quantize: where rows go
// EXPECT: to is [-1], of 1 skips
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %f: memref<?xf32>, %C: memref<?x64xbf16>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.quantize"(%t, %f, %s, %x, %x, %x, %x, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0>, block = 32 : i64, by_rows = 0 : i64, element = f8E4M3FN, scale = "ue8m0", layout = "row", ragged = 0 : i64, padding = 0 : i64, together = 1 : i64, exchange = -1 : i64, to = array<i64: -1>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, i64, i32, i32, i32, i32, !tile.index) -> ()
  return
}

// -----

// row_chunks: threads
// EXPECT: chunks is 3, expected a divisor of 128
func.func @p(%s: i64, %x: i32, %M: memref<?x512xf8E4M3FN>, %S: memref<?x4xf32>) {
  %g = "tile.row_chunks"(%s) {bits = 8 : i64, chunks = 3 : i64, row_block = 1 : i64, rows = 64 : i64} : (i64) -> !tile.gathered_rows
  return
}

// row_chunks: rows
// EXPECT: rows is 0, expected at least 1
// CHANGE: = 64 : i64 => = 0 : i64
// CHANGE: chunks = 3 => chunks = 8

// -----

// copy_rows: memory
// EXPECT: copies from i64, expected memory
func.func @p(%s: i64, %x: i32, %M: memref<?x512xf8E4M3FN>, %S: memref<?x4xf32>) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %g = "tile.row_chunks"(%s) {bits = 8 : i64, chunks = 8 : i64, row_block = 1 : i64, rows = 64 : i64} : (i64) -> !tile.gathered_rows
  "tile.copy_rows"(%s, %a, %c, %g, %x, %x) : (i64, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, i32, i32) -> ()
  return
}

// -----

// copy_rows: swizzle
// EXPECT: a row is 64 bytes and the swizzle 128, expected as many, or none
func.func @p(%s: i64, %x: i32, %M: memref<?x512xf8E4M3FN>, %S: memref<?x4xf32>) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, f8E4M3FN, 128 : i64, 4 : i64>
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %g = "tile.row_chunks"(%s) {bits = 8 : i64, chunks = 4 : i64, row_block = 1 : i64, rows = 64 : i64} : (i64) -> !tile.gathered_rows
  "tile.copy_rows"(%M, %a, %c, %g, %x, %x) : (memref<?x512xf8E4M3FN>, !tile.buffer<array<i64: 64, 64>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, i32, i32) -> ()
  return
}

// copy_rows: threads of a row
// EXPECT: 4 threads copy 16 bytes each of a row of 128
// CHANGE: i64: 64, 64 => i64: 64, 128

// -----

// copy_rows: rows
// EXPECT: 32 rows are looked up, of a tile of 64
func.func @p(%s: i64, %x: i32, %M: memref<?x512xf8E4M3FN>, %S: memref<?x4xf32>) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %g = "tile.row_chunks"(%s) {bits = 8 : i64, chunks = 8 : i64, row_block = 1 : i64, rows = 32 : i64} : (i64) -> !tile.gathered_rows
  "tile.copy_rows"(%M, %a, %c, %g, %x, %x) : (memref<?x512xf8E4M3FN>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, i32, i32) -> ()
  return
}

// copy_rows: stages
// EXPECT: the cursor goes through 3 stages, the buffer has 4
// CHANGE: 4 : i64} : => 3 : i64} :
// CHANGE: , rows = 32 => , rows = 64

// -----

// copy_row_scales: vectors
// EXPECT: copies scales into !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, expected vectors of f32
func.func @p(%s: i64, %x: i32, %M: memref<?x512xf8E4M3FN>, %S: memref<?x4xf32>) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %g = "tile.row_chunks"(%s) {bits = 8 : i64, chunks = 1 : i64, row_block = 1 : i64, rows = 64 : i64} : (i64) -> !tile.gathered_rows
  "tile.copy_row_scales"(%S, %s, %a, %c, %g, %x, %x) {block = 128 : i64, step = 128 : i64} : (memref<?x4xf32>, i64, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, i32, i32) -> ()
  return
}

// -----

// copy_row_scales: rows
// EXPECT: 8 threads have each of 64 rows, expected 1 of 64
func.func @p(%s: i64, %x: i32, %M: memref<?x512xf8E4M3FN>, %S: memref<?x4xf32>) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %g = "tile.row_chunks"(%s) {bits = 8 : i64, chunks = 8 : i64, row_block = 1 : i64, rows = 64 : i64} : (i64) -> !tile.gathered_rows
  "tile.copy_row_scales"(%S, %s, %a, %c, %g, %x, %x) {block = 128 : i64, step = 128 : i64} : (memref<?x4xf32>, i64, !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, i32, i32) -> ()
  return
}

// -----

// land: stages
// EXPECT: the cursor goes through 3 stages, the ring has 4
func.func @p(%s: i64, %x: i32, %M: memref<?x512xf8E4M3FN>, %S: memref<?x4xf32>) {
  %r = "tile.cut_ring"() {depth = 4 : i64, full = 128 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.land"(%r, %c) : (!tile.stages, !tile.position) -> ()
  return
}

// -----

// pass_on: arrivals
// EXPECT: arrivals is 0, expected at least 1
func.func @p(%s: i64, %x: i32, %M: memref<?x512xf8E4M3FN>, %S: memref<?x4xf32>) {
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.pass_on"(%r, %c) {arrivals = 0 : i64} : (!tile.stages, !tile.position) -> ()
  return
}

// -----

// VALID
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %C: memref<?x64xbf16>) {
  %i = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %o = "tile.ask_named"(%i, %x, %x) {count = 64 : i64} : (!tile.index, i32, i32) -> !tile.registers
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 1 : i64>
  "tile.store_staged"(%t, %b, %C, %s, %x, %x, %x, %x, %o) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 1 : i64>, memref<?x64xbf16>, i64, i32, i32, i32, i32, !tile.registers) -> ()
  return
}

// store_staged: target
// EXPECT: stores into i32, expected a memref
// CHANGE: memref<?x64xbf16>, => i32,
// CHANGE: t, %b, %C => t, %b, %x

// store_staged: to
// EXPECT: to is [1], of 1 skips
// CHANGE: , 1>} : (! => , 1>, to = array<i64: 1>} : (!

// store_staged: element
// EXPECT: stages f16 with swizzle 128, stores bf16, expected a swizzle
// CHANGE: , 64>, bf16 => , 64>, f16

// store_staged: swizzle
// EXPECT: stages bf16 with swizzle 0, stores bf16, expected a swizzle
// CHANGE: , bf16, 128 => , bf16, 0

// store_staged: columns
// EXPECT: stages rows of 48 by 64 columns, 64 rows at a time, in [64, 64]
// CHANGE: 64, 64>, " => 64, 48>, "

// store_staged: rows
// EXPECT: stages rows of 64 by 64 columns, 64 rows at a time, in [32, 64]
// CHANGE: 64, 64>, bf16 => 32, 64>, bf16

// -----

// store_staged: skips
// EXPECT: skips what is not made by tile.ask_named of 64 rows
func.func @p(%at: memref<?xi32>, %s: i64, %x: i32, %C: memref<?x64xbf16>) {
  %o = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 1 : i64>
  "tile.store_staged"(%t, %b, %C, %s, %x, %x, %x, %x, %o) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 1 : i64>, memref<?x64xbf16>, i64, i32, i32, i32, i32, !tile.registers) -> ()
  return
}

// -----

// VALID
func.func @p(%s: i64, %x: i32, %M: memref<?x512xbf16>, %I: memref<?xi32>) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %i = "tile.row_index"(%I, %s, %x) {axis = "k", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %r = "tile.k_rows"() {chunks = 8 : i64, count = 1 : i64, rows = 64 : i64} : () -> !tile.gathered_rows
  "tile.copy_k_rows"(%M, %s, %a, %c, %r, %i, %x, %x, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>} : (memref<?x512xbf16>, i64, !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, !tile.index, i32, i32, i32) -> ()
  return
}

// copy_k_rows: memory
// EXPECT: copies from i64, expected memory
// CHANGE: (memref<?x512xbf16> => (i64
// CHANGE: copy_k_rows"(%M => copy_k_rows"(%s

// copy_k_rows: panels
// EXPECT: a row is 192 bytes and the swizzle 128, expected whole panels
// CHANGE: i64: 64, 128 => i64: 64, 96

// copy_k_rows: threads
// EXPECT: 64 rows, 4 threads each, of panels 64 x 128 bytes
// CHANGE: chunks = 8 => chunks = 4

// copy_k_rows: threads of a row
// EXPECT: chunks is 3, expected a divisor of 128
// CHANGE: chunks = 8 => chunks = 3

// copy_k_rows: axis
// EXPECT: has an index of rows or columns, expected those of elements of K
// CHANGE: {axis = "k => {axis = "m

// copy_k_rows: count
// EXPECT: has 1 indices, expected rows of tile.k_rows of as many
// CHANGE: , count = 1 => , count = 2

// -----

// copy_k_rows: own
// EXPECT: own is 1, of 1 indices
func.func @p(%s: i64, %x: i32, %M: memref<?x512xbf16>, %I: memref<?xi32>) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %i = "tile.row_index"(%I, %s, %x) {axis = "k", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %r = "tile.k_rows"() {chunks = 8 : i64, count = 1 : i64, rows = 64 : i64} : () -> !tile.gathered_rows
  "tile.copy_k_rows"(%M, %s, %a, %c, %r, %i, %x, %x, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>, own = 1 : i64} : (memref<?x512xbf16>, i64, !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, !tile.index, i32, i32, i32) -> ()
  return
}

// -----

// cut_k_rows: panels
// EXPECT: a row is 192 bytes and the swizzle 128, expected whole panels
func.func @p(%s: i64, %x: i32, %I: memref<?xi32>) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 96>, bf16, 128 : i64, 4 : i64>
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %i = "tile.row_index"(%I, %s, %x) {axis = "k", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %r = "tile.k_rows"() {alone, chunks = 1 : i64, count = 1 : i64, rows = 64 : i64} : () -> !tile.gathered_rows
  "tile.cut_k_rows"(%a, %c, %r, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!tile.buffer<array<i64: 64, 96>, bf16, 128 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, !tile.index) -> ()
  return
}

// cut_k_rows: a warp's
// EXPECT: has 64 rows, expected 64 of a warp alone
// CHANGE: alone, chunks => chunks
// CHANGE: i64: 64, 96 => i64: 64, 128

// -----

// cut_unnamed: a warp's
// EXPECT: has rows of a warpgroup, expected those of a warp alone
func.func @p(%s: i64, %x: i32, %I: memref<?xi32>) {
  %a = "tile.row_scales"() {rows = 64 : i64, blocks = 2 : i64, warps = 3 : i64} : () -> !tile.rows
  %i = "tile.row_index"(%I, %s, %x) {axis = "k", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %r = "tile.k_rows"() {chunks = 1 : i64, count = 1 : i64, rows = 64 : i64} : () -> !tile.gathered_rows
  "tile.cut_unnamed"(%a, %r, %i) {operandSegmentSizes = array<i32: 1, 1, 1>, unit = 32 : i64} : (!tile.rows, !tile.gathered_rows, !tile.index) -> ()
  return
}

// -----

// cut_unnamed: registers
// EXPECT: cuts i32, expected scales in registers
func.func @p(%s: i64, %x: i32, %I: memref<?xi32>) {
  %i = "tile.row_index"(%I, %s, %x) {axis = "k", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %r = "tile.k_rows"() {alone, chunks = 1 : i64, count = 1 : i64, rows = 64 : i64} : () -> !tile.gathered_rows
  "tile.cut_unnamed"(%x, %r, %i) {operandSegmentSizes = array<i32: 1, 1, 1>, unit = 32 : i64} : (i32, !tile.gathered_rows, !tile.index) -> ()
  return
}

// -----

// look_up_k: scale bytes
// EXPECT: looks up into !tile.gathered_rows, expected scale bytes
func.func @p(%s: i64, %x: i32, %I: memref<?xi32>) {
  %i = "tile.row_index"(%I, %s, %x) {axis = "k", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %r = "tile.k_rows"() {chunks = 1 : i64, count = 1 : i64, rows = 64 : i64} : () -> !tile.gathered_rows
  "tile.look_up_k"(%r, %i, %x, %x, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, own = 0 : i64} : (!tile.gathered_rows, !tile.index, i32, i32, i32) -> ()
  return
}

// -----

// look_up_k: which index
// EXPECT: own is 1, of 1 indices
func.func @p(%s: i64, %x: i32, %I: memref<?xi32>) {
  %i = "tile.row_index"(%I, %s, %x) {axis = "k", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %r = "tile.byte_scales"() {rows = 64 : i64, warps = 2 : i64, words = 1 : i64} : () -> !tile.scale_bytes
  "tile.look_up_k"(%r, %i, %x, %x, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>, own = 1 : i64} : (!tile.scale_bytes, !tile.index, i32, i32, i32) -> ()
  return
}
