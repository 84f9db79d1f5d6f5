// RUN: %invalid none %s

// VALID
func.func @p(%A: !tile.descriptor<array<i64: 128, 64>, f8E4M3FN, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 64>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// copy: shape
// EXPECT: box [128, 32] (innermost first) does not fill a tile of [64, 128]
// CHANGE: i64: 128, 64 => i64: 128, 32

// copy: size of a box
// EXPECT: box [128, 512] is larger than 256 elements along a dimension
// CHANGE: : 128, 64> => : 128, 512>
// CHANGE: array<i64: 64 => array<i64: 512

// copy: element
// EXPECT: copies f8E5M2 into a tile of f8E4M3FN
// CHANGE: 64>, f8E4M3FN => 64>, f8E5M2

// copy: swizzle
// EXPECT: swizzles differ: 64 and 128
// CHANGE: 128 : i64> => 64 : i64>

// copy: multicast
// EXPECT: multicast is 3, expected 0, or of 1 or 2 different tiles
// CHANGE: multicast = 0 => multicast = 3

// copy: stages of the buffer
// EXPECT: the cursor goes through 4 stages, the buffer has 3
// CHANGE: 128 : i64, 4 => 128 : i64, 3

// copy: cursor
// EXPECT: the cursor goes through 3 stages, the ring has 4
// CHANGE: , 4 : i64> => , 3 : i64>
// CHANGE: = 4 : i64} => = 3 : i64}

// copy: a panel narrower than its swizzle
// EXPECT: box [32, 64] (innermost first) does not fill a tile of [64, 128]
// CHANGE: , f8E4M3FN => , bf16
// CHANGE: array<i64: 128 => array<i64: 32

// copy: a tile of one panel and a half
// EXPECT: box [64, 64] (innermost first) does not fill a tile of [64, 96]
// CHANGE: , f8E4M3FN => , bf16
// CHANGE: : 128, 64> => : 64, 64>
// CHANGE: i64: 64, 128 => i64: 64, 96

// copy: part of a panel
// EXPECT: box [64, 32] (innermost first) does not fill a tile of [64, 128]
// CHANGE: , f8E4M3FN => , bf16
// CHANGE: <i64: 128, => <i64: 64,
// CHANGE: , 64 => , 32

// copy: rows permuted otherwise
// EXPECT: box [128, 4, 2, 2, 4] permutes rows, expected [columns, 2, 4, of each 8, groups]
// CHANGE: : 128, 64> => : 128, 4, 2, 2, 4>
// CHANGE: (%A => (%B
// CHANGE: %a => %b

// copy: too few permuted rows
// EXPECT: box [128, 32] (innermost first) does not fill a tile of [64, 128]
// CHANGE: : 128, 64> => : 128, 2, 4, 2, 2>
// CHANGE: (%A => (%B
// CHANGE: %a => %b

// copy: rows of a box with a further axis
// EXPECT: box [128, 8, 4] (innermost first) does not fill a tile of [64, 128]
// CHANGE: : 128, 64> => : 128, 8, 4>
// CHANGE: (%A => (%B
// CHANGE: %a => %b

// -----

// copy: what swizzles keep together
// EXPECT: swizzles keep together 16 and 32 bytes
func.func @p(%A: !tile.descriptor<array<i64: 32, 64>, tf32, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, array<i64: 128, 32>, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 32, 64>, tf32, 128 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, array<i64: 128, 32>, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// windows: blocks
// EXPECT: blocks is 6, expected a power of two
%w = "tile.windows"() {blocks = 6 : i64, slots = 2 : i64} : () -> !tile.window

// -----

// windows: slots
// EXPECT: slots is 0, expected a power of two
%w = "tile.windows"() {blocks = 8 : i64, slots = 0 : i64} : () -> !tile.window

// -----

// VALID
func.func @p(%A: !tile.descriptor<array<i64: 8, 64>, f32, 32 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %w = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
  "tile.copy_window"(%A, %a, %r, %c, %w, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 8, 64>, f32, 32 : i64>, !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>, !tile.stages, !tile.position, !tile.window, i32, i32) -> ()
  return
}

// copy_window: shape
// EXPECT: box [8, 32] (innermost first) does not fill a tile of [64, 8]
// CHANGE: i64: 8, 64 => i64: 8, 32

// copy_window: element
// EXPECT: copies bf16 into a tile of f32
// CHANGE: , 64>, f32 => , 64>, bf16

// copy_window: swizzle
// EXPECT: swizzles differ: 0 and 32
// CHANGE: , 32 : i64> => , 0 : i64>

// copy_window: multicast
// EXPECT: multicast is -1, expected 0, or of 1 or 2 different tiles
// CHANGE: multicast = 0 => multicast = -1

// copy_window: slots
// EXPECT: the buffer has 2 slots of 8 K blocks, the window goes through 4 slots of 8 K blocks
// CHANGE: , slots = 2 => , slots = 4

// copy_window: blocks
// EXPECT: the buffer has 2 slots of 8 K blocks, the window goes through 2 slots of 4 K blocks
// CHANGE: blocks = 8 => blocks = 4

// copy_window: cursor
// EXPECT: the cursor goes through 3 stages, the ring has 4
// CHANGE: = 4 : i64} => = 3 : i64}

// -----

// row_scales: blocks
// EXPECT: blocks is 0, expected at least 1
%s = "tile.row_scales"() {blocks = 0 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows

// -----

// row_scales: warps
// EXPECT: warps is 0, expected at least 1
%s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 0 : i64} : () -> !tile.rows

// -----

// VALID
func.func @p(%A: memref<?x?xf32>, %i: i64, %x: i32) {
  %s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
  "tile.load_rows"(%s, %A, %i, %i, %x, %x, %x, %x) {block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, row_block = 1 : i64, step = 128 : i64} : (!tile.rows, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// load_rows: step
// EXPECT: step is 0, expected at least 1
// CHANGE: 128 : i64} => 0 : i64}

// load_rows: block
// EXPECT: block is 0, expected at least 1
// CHANGE: 128 : i64, => 0 : i64,

// load_rows: element
// EXPECT: reads scales from memref<?x?xbf16>, expected a memref of f32
// CHANGE: memref<?x?xf32 => memref<?x?xbf16

// load_rows: pages
// EXPECT: has a page and no stride of pages, or a stride and no page
// CHANGE: row_block = 1 : i64, step => page = 64 : i64, row_block = 1 : i64, step

// load_rows: stride of pages
// EXPECT: has a page and no stride of pages, or a stride and no page
// CHANGE: %x, %x, %x, %x) => %x, %x, %x, %x, %i)
// CHANGE: 1, 0>, row_block => 1, 1>, row_block
// CHANGE: i32, i32, i32, i32) => i32, i32, i32, i32, i64)

// -----

// VALID
%s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.store_rows"(%s, %a, %c) {index = 0 : i64} : (!tile.rows, !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>, !tile.position) -> ()

// store_rows: index
// EXPECT: stores block 4 of 4
// CHANGE: {index = 0 => {index = 4

// store_rows: shape
// EXPECT: stores scales of 64 rows in
// CHANGE: i64: 1, 64 => i64: 1, 128

// store_rows: element
// EXPECT: stores into tiles of bf16, expected f32
// CHANGE: , 64>, f32 => , 64>, bf16

// store_rows: cursor
// EXPECT: the cursor goes through 3 stages, the buffer has 4
// CHANGE: = 4 : i64} => = 3 : i64}

// EXPECT: stores scales of 64 rows, in strips of 32, up to row 143 of
// CHANGE: } : (!tile => , strips = array<i64: 48, 32, 32>} : (!tile
// CHANGE: i64: 1, 64 => i64: 1, 128

// -----

// scalars: count
// EXPECT: count is 0, expected at least 1
%f = "tile.scalars"() {count = 0 : i64} : () -> !tile.registers

// -----

// prefetch: count
// EXPECT: count is 0, expected at least 1
func.func @p(%A: memref<?x?xf32>, %i: i64, %x: i32) {
  "tile.prefetch"(%A, %i, %i, %x, %x, %x, %x) {count = 0 : i64, k_block = 128 : i64, row_block = 128 : i64, spacing = 128 : i64} : (memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// prefetch: element
// EXPECT: reads scales from f32, expected a memref of f32 or bf16 or f16
// CHANGE: memref<?x?xf32> => f32
// CHANGE: {count = 0 => {count = 1

// -----

// fetch: row_block
// EXPECT: row_block is 0, expected at least 1
func.func @p(%A: memref<?x?xf32>, %i: i64, %x: i32) {
  %f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
  "tile.fetch"(%f, %A, %i, %i, %x, %x, %x, %x) {axis = "n", k_block = 128 : i64, own = 0 : i64, row_block = 0 : i64, spacing = 128 : i64} : (!tile.registers, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// fetch: k_block
// EXPECT: k_block is -1, expected at least 1
// CHANGE: 128 : i64, => -1 : i64,
// CHANGE: row_block = 0 => row_block = 128

// fetch: axis
// EXPECT: axis is "k", expected m or n
// CHANGE: axis = "n" => axis = "k"
// CHANGE: row_block = 0 => row_block = 128

// fetch: own
// EXPECT: own is -64, expected at least 0
// CHANGE: , own = 0 : => , own = -64 :
// CHANGE: row_block = 0 => row_block = 128

// fetch: element
// EXPECT: reads scales from f32, expected a memref of f32
// CHANGE: memref<?x?xf32> => f32
// CHANGE: row_block = 0 => row_block = 128

// -----

// copy: permuted rows of A
// EXPECT: permutes rows within 16 of a tile that is not B of tile.mma alone
func.func @p(%B: !tile.descriptor<array<i64: 128, 2, 4, 2, 4>, f8E4M3FN, 128 : i64>, %x: i32) {
  %b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %a = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.mma"(%t, %b, %a, %c) {a_wave = 0 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64, waves = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position) -> ()
  "tile.copy"(%B, %b, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 2, 4, 2, 4>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// copy: permuted rows of A and B
// EXPECT: permutes rows within 16 of a tile that is not B of tile.mma alone
// CHANGE: t, %b, %a => t, %b, %b

// -----

// copy: rows of a box behind those of the tile
// EXPECT: row 48 and 32 rows of a box, of a tile of [64, 128]
func.func @p(%B: !tile.descriptor<array<i64: 128, 32>, f8E4M3FN, 128 : i64>, %x: i32) {
  %b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%B, %b, %r, %c, %x, %x) {multicast = 0 : i64, row = 48 : i64} : (!tile.descriptor<array<i64: 128, 32>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// EXPECT: fetches 2 from the 3th on into room for 4
func.func @f(%p: memref<4x4xf32>, %i: i32, %s: i64) {
  %a = "tile.scalars"() {count = 4 : i64} : () -> !tile.registers
  "tile.fetch"(%a, %p, %s, %s, %i, %i, %i, %i) {row_block = 128 : i64, k_block = 128 : i64, axis = "n", own = 0 : i64, spacing = 64 : i64, part = array<i64: 3, 2>} : (!tile.registers, memref<4x4xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// clear_rows: first
// EXPECT: clears rows from 64 of 64 on
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
"tile.clear_rows"(%a) {first = 64 : i64} : (!tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>) -> ()

// -----

// clear_rows: panels
// EXPECT: clears rows of 256 bytes of
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 2 : i64>
"tile.clear_rows"(%a) {first = 8 : i64} : (!tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 2 : i64>) -> ()
