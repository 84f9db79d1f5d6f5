// RUN: %invalid none %s

// fragment: rows
// EXPECT: an accumulator of [96, 64], expected rows by 64 and columns by 8
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 96, 64>, "registers">

// -----

// fragment: columns
// EXPECT: an accumulator of [64, 12], expected rows by 64 and columns by 8
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 12>, "registers">

// -----

// fragment: space
// EXPECT: an accumulator in shared, expected registers, warp, lane, tensor
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "shared">

// -----

// VALID
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.mma"(%t, %a, %b, %c) {a_wave = 0 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64, waves = 2 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position) -> ()

// mma: K
// EXPECT: A has 128 columns of K, B 64
// CHANGE: i64: 64, 128 => i64: 64, 64

// mma: columns
// EXPECT: the accumulator has 64 columns, B 32 rows
// CHANGE: i64: 64, 128 => i64: 32, 128

// mma: columns beyond B
// EXPECT: the accumulator has 32 columns from 40 on, B 64 rows
// CHANGE: 64, 64>, " => 64, 32>, "
// CHANGE: column = 0 => column = 40

// mma: columns within eight
// EXPECT: the accumulator has 32 columns from 4 on, B 64 rows
// CHANGE: 64, 64>, " => 64, 32>, "
// CHANGE: column = 0 => column = 4

// mma: wave of the accumulator
// EXPECT: wave 1 of A's wave 0 is outside an accumulator of 64 rows
// CHANGE: , wave = 0 => , wave = 1

// mma: wave of A
// EXPECT: wave 0 of A's wave 2 is outside an accumulator of 64 rows
// CHANGE: a_wave = 0 => a_wave = 2

// mma: a negative wave
// EXPECT: wave is -1, expected at least 0
// CHANGE: , wave = 0 => , wave = -1

// mma: rows of A
// EXPECT: A has 64 rows, expected a multiple of 2 waves of 64 rows
// CHANGE: array<i64: 128 => array<i64: 64

// mma: widths
// EXPECT: A's elements have 8 bits, B's 16
// CHANGE: 64, 128>, f8E4M3FN => 64, 128>, bf16

// mma: accumulate
// EXPECT: accumulate is 2, expected 0 or 1
// CHANGE: accumulate = 0 => accumulate = 2

// -----

// mma: K outermost, of 8 bits
// EXPECT: B is [K, rows] of f8E4M3FN, expected a type of 16 bits
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, f8E4M3FN, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, f8E4M3FN, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.mma"(%t, %a, %b, %c) {a_wave = 0 : i64, accumulate = 0 : i64, b_mn, column = 0 : i64, wave = 0 : i64, waves = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 64, 64>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 64>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position) -> ()

// mma: K outermost, no unit attribute
// EXPECT: b_mn is 1 : i64, expected a unit attribute
// CHANGE: i64, b_mn, => i64, b_mn = 1 : i64,
// CHANGE: , f8E4M3FN => , bf16

// -----

// mma: K outermost, no whole panels
// EXPECT: K of B has rows of 192 bytes, no panels of a swizzle of 128
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 96>, "registers">
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 96>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.mma"(%t, %a, %b, %c) {a_wave = 0 : i64, accumulate = 0 : i64, b_mn, column = 0 : i64, wave = 0 : i64, waves = 1 : i64} : (!tile.accumulator<array<i64: 64, 96>, "registers">, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 96>, bf16, 128 : i64, 4 : i64>, !tile.position) -> ()

// -----

// mma: K outermost, some of the columns
// EXPECT: columns from 32 on of B, which is [K, rows]
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 32>, "registers">
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.mma"(%t, %a, %b, %c) {a_wave = 0 : i64, accumulate = 0 : i64, b_mn, column = 32 : i64, wave = 0 : i64, waves = 1 : i64} : (!tile.accumulator<array<i64: 64, 32>, "registers">, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>, !tile.position) -> ()

// -----

// mma: what the swizzle of B keeps together
// EXPECT: reads a tile whose swizzle keeps together 32 bytes, expected 16
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, array<i64: 128, 32>, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.mma"(%t, %a, %b, %c) {a_wave = 0 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64, waves = 2 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, array<i64: 128, 32>, 4 : i64>, !tile.position) -> ()

// -----

// mma: stages
// EXPECT: the cursor goes through 4 stages, the buffer has 3
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.mma"(%t, %a, %b, %c) {a_wave = 0 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64, waves = 2 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.position) -> ()

// -----

// mma_wait: pending
// EXPECT: pending is -1, expected at least 0
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
"tile.mma_wait"(%t) {pending = -1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">) -> ()

// -----

// VALID
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 128>, f32, 0 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%f = "tile.row_factors"(%a, %c) {wave = 0 : i64, waves = 2 : i64} : (!tile.buffer<array<i64: 1, 128>, f32, 0 : i64, 4 : i64>, !tile.position) -> !tile.factors

// row_factors: wave
// EXPECT: wave 2 of 2
// CHANGE: = 0 : i64, => = 2 : i64,

// row_factors: element
// EXPECT: reads factors of bf16, expected f32
// CHANGE: , 128>, f32 => , 128>, bf16

// row_factors: rows
// EXPECT: factors of 48 rows, expected a multiple of 2 waves of 16 rows
// CHANGE: i64: 1, 128 => i64: 1, 48

// row_factors: a window by stages
// EXPECT: factors of 8 rows, expected a multiple of 2 waves of 16 rows
// CHANGE: 128>, f32, => 8>, f32,
// CHANGE: array<i64: 1 => array<i64: 128

// row_factors: cursor
// EXPECT: the cursor goes through 4 stages, the buffer has 3
// CHANGE: 0 : i64, 4 => 0 : i64, 3

// row_factors: a plane that a stage does not have
// EXPECT: plane 4 of a stage of factors of [4, 128]
// CHANGE: wave = 0 : => plane = 4 : i64, wave = 0 :
// CHANGE: array<i64: 1 => array<i64: 4

// column_factors: element
// EXPECT: reads factors of bf16, expected f32
// CHANGE: ) {wave = 0 : i64, waves = 2 : i64} => )
// CHANGE: , f32, 0 : => , bf16, 0 :
// CHANGE: row_factors => column_factors

// column_factors: cursor
// EXPECT: the cursor goes through 4 stages, the buffer has 2
// CHANGE: ) {wave = 0 : i64, waves = 2 : i64} => )
// CHANGE: , 4 : i64> => , 2 : i64>
// CHANGE: row_factors => column_factors

// -----

// row_factors: slots
// EXPECT: the buffer has 4 slots of 8 K blocks, the window goes through 2 slots of 8 K blocks
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 8>, f32, 0 : i64, 4 : i64>
%w = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
%f = "tile.row_factors"(%a, %w) {wave = 0 : i64, waves = 2 : i64} : (!tile.buffer<array<i64: 128, 8>, f32, 0 : i64, 4 : i64>, !tile.window) -> !tile.factors

// row_factors: rows of a window
// EXPECT: factors of 48 rows, expected a multiple of 2 waves of 16 rows
// CHANGE: : 128, 8>, => : 48, 8>,
// CHANGE: 0 : i64, 4 => 0 : i64, 2

// -----

// column_factors: blocks
// EXPECT: the buffer has 2 slots of 4 K blocks, the window goes through 2 slots of 8 K blocks
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 4>, f32, 0 : i64, 2 : i64>
%w = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
%f = "tile.column_factors"(%a, %w) : (!tile.buffer<array<i64: 128, 4>, f32, 0 : i64, 2 : i64>, !tile.window) -> !tile.factors

// -----

// block_factors: step
// EXPECT: steps of 12 columns in blocks of 120, expected a multiple of 8 that divides them
%f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
%n = arith.constant 0 : i32
%u = "tile.block_factors"(%f, %n) {block = 120 : i64, step = 12 : i64} : (!tile.registers, i32) -> !tile.factors

// block_factors: step of nothing
// EXPECT: steps of 0 columns in blocks of 128, expected a multiple of 8 that divides them
// CHANGE: = 12 : i64 => = 0 : i64
// CHANGE: block = 120 => block = 128

// block_factors: step beyond the block
// EXPECT: steps of 128 columns in blocks of 64, expected a multiple of 8 that divides them
// CHANGE: 120 : i64, => 64 : i64,
// CHANGE: , step = 12 => , step = 128

// block_factors: uneven
// EXPECT: steps of 48 columns in blocks of 128, expected a multiple of 8 that divides them
// CHANGE: 120 : i64, => 128 : i64,
// CHANGE: , step = 12 => , step = 48

// -----

// uniform_factors: beyond the scalars
// EXPECT: takes scalars 1..3 of 2
%f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
%u = "tile.uniform_factors"(%f) {count = 2 : i64, first = 1 : i64, span = 64 : i64} : (!tile.registers) -> !tile.factors

// -----

// uniform_factors: none
// EXPECT: count is 0, expected at least 1
%f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
%u = "tile.uniform_factors"(%f) {count = 0 : i64, first = 0 : i64, span = 0 : i64} : (!tile.registers) -> !tile.factors

// -----

// uniform_factors: first
// EXPECT: first is -1, expected at least 0
%f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
%u = "tile.uniform_factors"(%f) {count = 1 : i64, first = -1 : i64, span = 0 : i64} : (!tile.registers) -> !tile.factors

// -----

// uniform_factors: span
// EXPECT: 2 factors of 12 columns each, expected a multiple of 8
%f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
%u = "tile.uniform_factors"(%f) {count = 2 : i64, first = 0 : i64, span = 12 : i64} : (!tile.registers) -> !tile.factors

// -----

// uniform_factors: two for all
// EXPECT: 2 factors of 0 columns each, expected a multiple of 8 (0: one factor for all)
%f = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
%u = "tile.uniform_factors"(%f) {count = 2 : i64, first = 0 : i64, span = 0 : i64} : (!tile.registers) -> !tile.factors

// -----

// promote: columns
// EXPECT: the accumulator has 64 columns, the partial sums 128
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 128, 64>, "registers">
%q = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
"tile.promote"(%t, %q) {column = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>, wave = 0 : i64} : (!tile.accumulator<array<i64: 128, 64>, "registers">, !tile.accumulator<array<i64: 64, 128>, "registers">) -> ()

// promote: columns from one on
// EXPECT: the accumulator has 64 columns, the partial sums 32 from 48 on
// CHANGE: : 64, 128> => : 64, 32>
// CHANGE: = 0 : i64, => = 48 : i64,

// promote: wave
// EXPECT: wave 2 is outside an accumulator of 128 rows
// CHANGE: : 64, 128> => : 64, 64>
// CHANGE: = 0 : i64} => = 2 : i64}

// -----

// VALID
func.func @p(%A: memref<?xf32>, %i: i64) {
  %n = "tile.input"(%A, %i, %i) {axes = array<i64: 0, 1, 0, 1, 1, 0>, kind = "row", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (memref<?xf32>, i64, i64) -> !tile.operand
  return
}

// input: kind
// EXPECT: kind is "rows", expected row, col, both or scalar
// CHANGE: kind = "row => kind = "rows

// input: block
// EXPECT: axes are [0, 0, 0, 1, 1, 0] for 2 strides, expected three numbers for each
// CHANGE: <i64: 0, 1 => <i64: 0, 0

// input: pair
// EXPECT: pair is 2, expected 0 or 1
// CHANGE: , pair = 0 => , pair = 2

// -----

// input: gaps
// EXPECT: gaps are [64, 0, 0] for 1 strides, expected a size, a distance of at least 1 and a phase for each
func.func @p(%A: memref<?xf32>, %i: i64) {
  %n = "tile.input"(%A, %i) {axes = array<i64: 1, 1, 0>, gaps = array<i64: 64, 0, 0>, kind = "col", operandSegmentSizes = array<i32: 1, 1>, pair = 0 : i64} : (memref<?xf32>, i64) -> !tile.operand
  return
}

// -----

// copy_input: columns
// EXPECT: an input of kind "col", expected row
func.func @p(%A: memref<?xf32>, %i: i64, %x: i32, %b: !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>, %c: !tile.position) {
  %n = "tile.input"(%A, %i) {axes = array<i64: 1, 1, 0>, kind = "col", operandSegmentSizes = array<i32: 1, 1>, pair = 0 : i64} : (memref<?xf32>, i64) -> !tile.operand
  "tile.copy_input"(%n, %b, %c, %x, %x) : (!tile.operand, !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>, !tile.position, i32, i32) -> ()
  return
}

// -----

// copy_input: part of a warp's rows
// EXPECT: expected one vector of f32 for a multiple of 32 rows
func.func @p(%A: memref<?xf32>, %i: i64, %x: i32, %b: !tile.buffer<array<i64: 1, 48>, f32, 0 : i64, 4 : i64>, %c: !tile.position) {
  %n = "tile.input"(%A, %i) {axes = array<i64: 0, 1, 0>, kind = "row", operandSegmentSizes = array<i32: 1, 1>, pair = 0 : i64} : (memref<?xf32>, i64) -> !tile.operand
  "tile.copy_input"(%n, %b, %c, %x, %x) : (!tile.operand, !tile.buffer<array<i64: 1, 48>, f32, 0 : i64, 4 : i64>, !tile.position, i32, i32) -> ()
  return
}

// -----

// prefetch_input: a scalar
// EXPECT: an input of kind "scalar", expected row, col or both
func.func @p(%A: f32, %i: i64, %x: i32) {
  %n = "tile.input"(%A, %i, %i) {axes = array<i64: 0, 1, 0, 1, 1, 0>, kind = "scalar", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (f32, i64, i64) -> !tile.operand
  "tile.prefetch_input"(%n, %x, %x, %x, %x) {tile = array<i64: 64, 64>} : (!tile.operand, i32, i32, i32, i32) -> ()
  return
}

// -----

// prefetch_input: tile
// EXPECT: tile is [64], expected two positive integers (M, N)
func.func @p(%A: memref<?xf32>, %i: i64, %x: i32) {
  %n = "tile.input"(%A, %i, %i) {axes = array<i64: 0, 1, 0, 1, 1, 0>, kind = "row", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (memref<?xf32>, i64, i64) -> !tile.operand
  "tile.prefetch_input"(%n, %x, %x, %x, %x) {tile = array<i64: 64>} : (!tile.operand, i32, i32, i32, i32) -> ()
  return
}

// -----

// hold: more than one value
// EXPECT: holds an input of kind "row", expected scalar
func.func @p(%A: memref<?xf32>, %i: i64) {
  %n = "tile.input"(%A, %i, %i) {axes = array<i64: 0, 1, 0, 1, 1, 0>, kind = "row", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (memref<?xf32>, i64, i64) -> !tile.operand
  %h = "tile.hold"(%n) ({
  ^bb0(%x: f32):
    "tile.yield"(%x) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1>} : (!tile.operand) -> !tile.operand
  return
}

// hold: body
// EXPECT: body takes (f32, f32), expected (f32)
// CHANGE: (%x: f32): => (%x: f32, %y: f32):
// CHANGE: kind = "row => kind = "scalar

// hold: terminator
// EXPECT: body ends in scale.yield, expected tile.yield
// CHANGE: tile.yield => scale.yield
// CHANGE: kind = "row => kind = "scalar

// -----

// epilogue: body
// EXPECT: body takes (f32), expected (f32, f32)
func.func @p(%A: memref<?xf32>, %i: i64, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %n = "tile.input"(%A, %i, %i) {axes = array<i64: 0, 1, 0, 1, 1, 0>, kind = "row", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (memref<?xf32>, i64, i64) -> !tile.operand
  "tile.epilogue"(%t, %p, %p, %p, %p, %n) ({
  ^bb0(%x: f32):
    "tile.yield"(%x) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, i32, i32, i32, i32, !tile.operand) -> ()
  return
}

// epilogue: attribute
// EXPECT: approximate is 1 : i64, expected a unit attribute
// CHANGE: {operandSegmentSizes => {approximate = 1 : i64, operandSegmentSizes
// CHANGE: bb0(%x: f32 => bb0(%x: f32, %y: f32

// epilogue: attribute
// EXPECT: piecewise is 1 : i64, expected a unit attribute
// CHANGE: {operandSegmentSizes => {piecewise = 1 : i64, operandSegmentSizes
// CHANGE: bb0(%x: f32 => bb0(%x: f32, %y: f32

// epilogue: types
// EXPECT: body takes (f32, bf16), expected (f32, f32)
// CHANGE: bb0(%x: f32 => bb0(%x: f32, %y: bf16

// epilogue: another terminator
// EXPECT: body ends in scale.yield, expected tile.yield
// CHANGE: (%x: f32): => (%x: f32, %y: f32):
// CHANGE: tile.yield => scale.yield

// -----

// epilogue: end
// EXPECT: block with no terminator, has "tile.drain"() : () -> ()
func.func @p(%A: memref<?xf32>, %i: i64, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %n = "tile.input"(%A, %i, %i) {axes = array<i64: 0, 1, 0, 1, 1, 0>, kind = "row", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (memref<?xf32>, i64, i64) -> !tile.operand
  "tile.epilogue"(%t, %p, %p, %p, %p, %n) ({
  ^bb0(%x: f32, %y: f32):
    "tile.drain"() : () -> ()
  }) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, i32, i32, i32, i32, !tile.operand) -> ()
  return
}

// -----

// VALID
func.func @p(%C: !tile.descriptor<array<i64: 64, 64>, bf16, 128 : i64>, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 1 : i64>
  "tile.store"(%t, %a, %C, %p, %p) {adds = 0 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 64, 64>, bf16, 128 : i64>, i32, i32) -> ()
  return
}

// store: element
// EXPECT: stages f16 with swizzle 128, stores bf16, 128
// CHANGE: 128, 64>, bf16 => 128, 64>, f16

// store: swizzle
// EXPECT: stages bf16 with swizzle 64, stores bf16, 128
// CHANGE: 128 : i64, => 64 : i64,

// store: rows of the box
// EXPECT: box [64, 128] of bf16, expected 64 rows of 128 bytes (the swizzle)
// CHANGE: 64, 64>, bf16 => 64, 128>, bf16

// store: row of the box
// EXPECT: box [32, 64] of bf16, expected 64 rows of 128 bytes (the swizzle)
// CHANGE: 64, 64>, bf16 => 32, 64>, bf16

// store: staged columns
// EXPECT: stages [64, 64] by boxes of 64 columns in tiles of [128, 96]
// CHANGE: i64: 128, 64 => i64: 128, 96

// store: boxes
// EXPECT: stages [64, 96] by boxes of 64 columns in tiles of [128, 96]
// CHANGE: 64, 64>, " => 64, 96>, "
// CHANGE: i64: 128, 64 => i64: 128, 96

// store: no gaps
// EXPECT: gaps is [0, 128, 0], expected a size, a distance and a phase of at least 1, 1 and 0
// CHANGE: : i64} : (! => : i64, columns = 128 : i64, gaps = array<i64: 0, 128, 0>} : (!

// store: a gap within a box
// EXPECT: gaps [64, 96, 0] in 128 columns by boxes of 64: no box may have one within
// CHANGE: : i64} : (! => : i64, columns = 128 : i64, gaps = array<i64: 64, 96, 0>} : (!

// store: a gap within the first box
// EXPECT: gaps [64, 128, 32] in 128 columns by boxes of 64: no box may have one within
// CHANGE: : i64} : (! => : i64, columns = 128 : i64, gaps = array<i64: 64, 128, 32>} : (!

// store: gaps in columns that are not known
// EXPECT: gaps [64, 128, 0] in 0 columns by boxes of 64
// CHANGE: : i64} : (! => : i64, gaps = array<i64: 64, 128, 0>} : (!

// -----

// store: gaps in what is added to
// EXPECT: gaps [64, 128, 0] in 128 columns by boxes of 32
func.func @p(%C: !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 64>, f32, 128 : i64, 1 : i64>
  "tile.store"(%t, %a, %C, %p, %p) {adds = 1 : i64, columns = 128 : i64, gaps = array<i64: 64, 128, 0>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 128, 64>, f32, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, i32, i32) -> ()
  return
}

// -----

// store_direct: target
// EXPECT: stores into f32, expected a memref
func.func @p(%C: f32, %i: i64, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.store_direct"(%t, %C, %i, %i, %p, %p, %p, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, pair = 0 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, f32, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// store_direct: pair
// EXPECT: pair is 2, expected 0 or 1
// CHANGE: f32, => memref<?x64xbf16>,
// CHANGE: , pair = 0 => , pair = 2

// store_direct: gaps
// EXPECT: gaps is [64, 128], expected a size, a distance and a phase
// CHANGE: operandSegmentSizes => gaps = array<i64: 64, 128>, operandSegmentSizes
// CHANGE: f32 => memref<?x64xbf16>

// -----

// store_direct: a gap within a pair
// EXPECT: gaps [64, 128, 3] between pairs of columns of 16 bits, expected even ones
func.func @p(%C: memref<?x64xbf16>, %i: i64, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.store_direct"(%t, %C, %i, %i, %p, %p, %p, %p) {gaps = array<i64: 64, 128, 3>, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, pair = 1 : i64, together = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?x64xbf16>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// store_direct: columns that are not together
// EXPECT: gaps [64, 128, 32] in 64 columns, 64 of which are together: not a divisor
// CHANGE: , 128, 3>, => , 128, 32>,
// CHANGE: = 1 : i64} => = 64 : i64}

// -----

// store_direct: gaps between halves of a byte
// EXPECT: gaps [64, 128, 0] between pairs of columns of 4 bits
func.func @p(%C: memref<?x64xf4E2M1FN>, %i: i64, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.store_direct"(%t, %C, %i, %i, %p, %p, %p, %p) {gaps = array<i64: 64, 128, 0>, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, pair = 0 : i64, together = 64 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?x64xf4E2M1FN>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// VALID
func.func @p(%C: memref<?x64xbf16>, %i: i64, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 72>, bf16, 0 : i64, 1 : i64>
  "tile.store_turned"(%t, %a, %C, %i, %p, %p, %p, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 64, 72>, bf16, 0 : i64, 1 : i64>, memref<?x64xbf16>, i64, i32, i32, i32, i32) -> ()
  return
}

// store_turned: target
// EXPECT: stores into f32, expected a memref
// CHANGE: memref<?x64xbf16> => f32

// store_turned: element
// EXPECT: stages f16 with swizzle 0, stores bf16, 0
// CHANGE: , 72>, bf16 => , 72>, f16

// store_turned: swizzle
// EXPECT: stages bf16 with swizzle 128, stores bf16, 0
// CHANGE: >, bf16, 0 => >, bf16, 128

// store_turned: room of a column
// EXPECT: stages [64, 64] in waves of 64 rows in [64, 64] of bf16, expected rows of 72, 64 for each fragment
// CHANGE: i64: 64, 72 => i64: 64, 64

// store_turned: columns
// EXPECT: stages [64, 64] in waves of 64 rows in [96, 72] of bf16, expected rows of 72, 64 for each fragment
// CHANGE: i64: 64, 72 => i64: 96, 72
