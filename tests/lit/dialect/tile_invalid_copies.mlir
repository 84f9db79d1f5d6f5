// RUN: %invalid none %s

// copy: shape
// EXPECT: box [128, 32] (innermost first) does not fill a tile of [64, 128]
func.func @p(%A: !tile.descriptor<array<i64: 128, 32>, f8E4M3FN, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 32>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy: size of a box
// EXPECT: box [128, 512] is larger than 256 elements along a dimension
func.func @p(%A: !tile.descriptor<array<i64: 128, 512>, f8E4M3FN, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 512, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 512>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 512, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy: element
// EXPECT: copies f8E5M2 into a tile of f8E4M3FN
func.func @p(%A: !tile.descriptor<array<i64: 128, 64>, f8E5M2, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 64>, f8E5M2, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy: swizzle
// EXPECT: swizzles differ: 64 and 128
func.func @p(%A: !tile.descriptor<array<i64: 128, 64>, f8E4M3FN, 64 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 64>, f8E4M3FN, 64 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

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

// copy: multicast
// EXPECT: multicast is 3, expected 0, or of 1 or 2 different tiles
func.func @p(%A: !tile.descriptor<array<i64: 128, 64>, f8E4M3FN, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 3 : i64} : (!tile.descriptor<array<i64: 128, 64>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy: stages of the buffer
// EXPECT: the cursor goes through 4 stages, the buffer has 3
func.func @p(%A: !tile.descriptor<array<i64: 128, 64>, f8E4M3FN, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 64>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy: cursor
// EXPECT: the cursor goes through 3 stages, the ring has 4
func.func @p(%A: !tile.descriptor<array<i64: 128, 64>, f8E4M3FN, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 64>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
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

// copy_window: shape
// EXPECT: box [8, 32] (innermost first) does not fill a tile of [64, 8]
func.func @p(%A: !tile.descriptor<array<i64: 8, 32>, f32, 32 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %w = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
  "tile.copy_window"(%A, %a, %r, %c, %w, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 8, 32>, f32, 32 : i64>, !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>, !tile.stages, !tile.position, !tile.window, i32, i32) -> ()
  return
}

// -----

// copy_window: element
// EXPECT: copies bf16 into a tile of f32
func.func @p(%A: !tile.descriptor<array<i64: 8, 64>, bf16, 32 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %w = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
  "tile.copy_window"(%A, %a, %r, %c, %w, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 8, 64>, bf16, 32 : i64>, !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>, !tile.stages, !tile.position, !tile.window, i32, i32) -> ()
  return
}

// -----

// copy_window: swizzle
// EXPECT: swizzles differ: 0 and 32
func.func @p(%A: !tile.descriptor<array<i64: 8, 64>, f32, 0 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %w = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
  "tile.copy_window"(%A, %a, %r, %c, %w, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 8, 64>, f32, 0 : i64>, !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>, !tile.stages, !tile.position, !tile.window, i32, i32) -> ()
  return
}

// -----

// copy_window: multicast
// EXPECT: multicast is -1, expected 0, or of 1 or 2 different tiles
func.func @p(%A: !tile.descriptor<array<i64: 8, 64>, f32, 32 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %w = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
  "tile.copy_window"(%A, %a, %r, %c, %w, %x, %x) {multicast = -1 : i64} : (!tile.descriptor<array<i64: 8, 64>, f32, 32 : i64>, !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>, !tile.stages, !tile.position, !tile.window, i32, i32) -> ()
  return
}

// -----

// copy_window: slots
// EXPECT: the buffer has 2 slots of 8 K blocks, the window goes through 4 slots of 8 K blocks
func.func @p(%A: !tile.descriptor<array<i64: 8, 64>, f32, 32 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %w = "tile.windows"() {blocks = 8 : i64, slots = 4 : i64} : () -> !tile.window
  "tile.copy_window"(%A, %a, %r, %c, %w, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 8, 64>, f32, 32 : i64>, !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>, !tile.stages, !tile.position, !tile.window, i32, i32) -> ()
  return
}

// -----

// copy_window: blocks
// EXPECT: the buffer has 2 slots of 8 K blocks, the window goes through 2 slots of 4 K blocks
func.func @p(%A: !tile.descriptor<array<i64: 8, 64>, f32, 32 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %w = "tile.windows"() {blocks = 4 : i64, slots = 2 : i64} : () -> !tile.window
  "tile.copy_window"(%A, %a, %r, %c, %w, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 8, 64>, f32, 32 : i64>, !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>, !tile.stages, !tile.position, !tile.window, i32, i32) -> ()
  return
}

// -----

// copy_window: cursor
// EXPECT: the cursor goes through 3 stages, the ring has 4
func.func @p(%A: !tile.descriptor<array<i64: 8, 64>, f32, 32 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  %w = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
  "tile.copy_window"(%A, %a, %r, %c, %w, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 8, 64>, f32, 32 : i64>, !tile.buffer<array<i64: 64, 8>, f32, 32 : i64, 2 : i64>, !tile.stages, !tile.position, !tile.window, i32, i32) -> ()
  return
}

// -----

// row_scales: blocks
// EXPECT: blocks is 0, expected at least 1
%s = "tile.row_scales"() {blocks = 0 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows

// -----

// row_scales: warps
// EXPECT: warps is 0, expected at least 1
%s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 0 : i64} : () -> !tile.rows

// -----

// load_rows: step
// EXPECT: step is 0, expected at least 1
func.func @p(%A: memref<?x?xf32>, %i: i64, %x: i32) {
  %s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
  "tile.load_rows"(%s, %A, %i, %i, %x, %x, %x, %x) {block = 128 : i64, row_block = 1 : i64, step = 0 : i64} : (!tile.rows, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// load_rows: block
// EXPECT: block is 0, expected at least 1
func.func @p(%A: memref<?x?xf32>, %i: i64, %x: i32) {
  %s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
  "tile.load_rows"(%s, %A, %i, %i, %x, %x, %x, %x) {block = 0 : i64, row_block = 1 : i64, step = 128 : i64} : (!tile.rows, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// load_rows: element
// EXPECT: reads scales from memref<?x?xbf16>, expected a memref of f32
func.func @p(%A: memref<?x?xbf16>, %i: i64, %x: i32) {
  %s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
  "tile.load_rows"(%s, %A, %i, %i, %x, %x, %x, %x) {block = 128 : i64, row_block = 1 : i64, step = 128 : i64} : (!tile.rows, memref<?x?xbf16>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// store_rows: index
// EXPECT: stores block 4 of 4
%s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.store_rows"(%s, %a, %c) {index = 4 : i64} : (!tile.rows, !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>, !tile.position) -> ()

// -----

// store_rows: shape
// EXPECT: stores scales of 64 rows in
%s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 128>, f32, 0 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.store_rows"(%s, %a, %c) {index = 0 : i64} : (!tile.rows, !tile.buffer<array<i64: 1, 128>, f32, 0 : i64, 4 : i64>, !tile.position) -> ()

// -----

// store_rows: element
// EXPECT: stores into tiles of bf16, expected f32
%s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 64>, bf16, 0 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.store_rows"(%s, %a, %c) {index = 0 : i64} : (!tile.rows, !tile.buffer<array<i64: 1, 64>, bf16, 0 : i64, 4 : i64>, !tile.position) -> ()

// -----

// store_rows: cursor
// EXPECT: the cursor goes through 3 stages, the buffer has 4
%s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.store_rows"(%s, %a, %c) {index = 0 : i64} : (!tile.rows, !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>, !tile.position) -> ()

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

// -----

// prefetch: element
// EXPECT: reads scales from f32, expected a memref of f32 or bf16 or f16
func.func @p(%A: f32, %i: i64, %x: i32) {
  "tile.prefetch"(%A, %i, %i, %x, %x, %x, %x) {count = 1 : i64, k_block = 128 : i64, row_block = 128 : i64, spacing = 128 : i64} : (f32, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// fetch: row_block
// EXPECT: row_block is 0, expected at least 1
func.func @p(%A: memref<?x?xf32>, %i: i64, %x: i32) {
  %f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
  "tile.fetch"(%f, %A, %i, %i, %x, %x, %x, %x) {axis = "n", k_block = 128 : i64, own = 0 : i64, row_block = 0 : i64, spacing = 128 : i64} : (!tile.registers, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// fetch: k_block
// EXPECT: k_block is -1, expected at least 1
func.func @p(%A: memref<?x?xf32>, %i: i64, %x: i32) {
  %f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
  "tile.fetch"(%f, %A, %i, %i, %x, %x, %x, %x) {axis = "n", k_block = -1 : i64, own = 0 : i64, row_block = 128 : i64, spacing = 128 : i64} : (!tile.registers, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// fetch: axis
// EXPECT: axis is "k", expected m or n
func.func @p(%A: memref<?x?xf32>, %i: i64, %x: i32) {
  %f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
  "tile.fetch"(%f, %A, %i, %i, %x, %x, %x, %x) {axis = "k", k_block = 128 : i64, own = 0 : i64, row_block = 128 : i64, spacing = 128 : i64} : (!tile.registers, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// fetch: own
// EXPECT: own is -64, expected at least 0
func.func @p(%A: memref<?x?xf32>, %i: i64, %x: i32) {
  %f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
  "tile.fetch"(%f, %A, %i, %i, %x, %x, %x, %x) {axis = "n", k_block = 128 : i64, own = -64 : i64, row_block = 128 : i64, spacing = 128 : i64} : (!tile.registers, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// fetch: element
// EXPECT: reads scales from f32, expected a memref of f32
func.func @p(%A: f32, %i: i64, %x: i32) {
  %f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
  "tile.fetch"(%f, %A, %i, %i, %x, %x, %x, %x) {axis = "n", k_block = 128 : i64, own = 0 : i64, row_block = 128 : i64, spacing = 128 : i64} : (!tile.registers, f32, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// copy: a panel narrower than its swizzle
// EXPECT: box [32, 64] (innermost first) does not fill a tile of [64, 128]
func.func @p(%A: !tile.descriptor<array<i64: 32, 64>, bf16, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 32, 64>, bf16, 128 : i64>, !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy: a tile of one panel and a half
// EXPECT: box [64, 64] (innermost first) does not fill a tile of [64, 96]
func.func @p(%A: !tile.descriptor<array<i64: 64, 64>, bf16, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 96>, bf16, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 64, 64>, bf16, 128 : i64>, !tile.buffer<array<i64: 64, 96>, bf16, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy: part of a panel
// EXPECT: box [64, 32] (innermost first) does not fill a tile of [64, 128]
func.func @p(%A: !tile.descriptor<array<i64: 64, 32>, bf16, 128 : i64>, %x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%A, %a, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 64, 32>, bf16, 128 : i64>, !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy: rows permuted otherwise
// EXPECT: box [128, 4, 2, 2, 4] permutes rows, expected [columns, 2, 4, of each 8, groups]
func.func @p(%B: !tile.descriptor<array<i64: 128, 4, 2, 2, 4>, f8E4M3FN, 128 : i64>, %x: i32) {
  %b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%B, %b, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 4, 2, 2, 4>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy: too few permuted rows
// EXPECT: box [128, 32] (innermost first) does not fill a tile of [64, 128]
func.func @p(%B: !tile.descriptor<array<i64: 128, 2, 4, 2, 2>, f8E4M3FN, 128 : i64>, %x: i32) {
  %b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%B, %b, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 2, 4, 2, 2>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

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

// -----

// copy: permuted rows of A and B
// EXPECT: permutes rows within 16 of a tile that is not B of tile.mma alone
func.func @p(%B: !tile.descriptor<array<i64: 128, 2, 4, 2, 4>, f8E4M3FN, 128 : i64>, %x: i32) {
  %b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %a = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.mma"(%t, %b, %b, %c) {a_wave = 0 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64, waves = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position) -> ()
  "tile.copy"(%B, %b, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 2, 4, 2, 4>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy: rows of a box with a further axis
// EXPECT: box [128, 8, 4] (innermost first) does not fill a tile of [64, 128]
func.func @p(%B: !tile.descriptor<array<i64: 128, 8, 4>, f8E4M3FN, 128 : i64>, %x: i32) {
  %b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.copy"(%B, %b, %r, %c, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 8, 4>, f8E4M3FN, 128 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  return
}

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

// EXPECT: stores scales of 64 rows, in strips of 32, up to row 143 of
%s = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 128>, f32, 0 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.store_rows"(%s, %a, %c) {index = 0 : i64, strips = array<i64: 48, 32, 32>} : (!tile.rows, !tile.buffer<array<i64: 1, 128>, f32, 0 : i64, 4 : i64>, !tile.position) -> ()

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
