// RUN: %invalid none %s

// VALID
func.func @f(%m: i32, %n: i32, %c: !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, %b: !tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>) {
  %at = "tile.cursor"() {depth = 1 : i64} : () -> !tile.position
  "tile.store_result"(%b, %c, %at, %m, %n) {index = 1 : i64, tile = array<i64: 128, 64>} : (!tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, !tile.position, i32, i32) -> ()
  return
}

// EXPECT: boxes of f32 and a buffer of bf16, expected as many bits, 16 or 32
// CHANGE: , 32>, f32 => , 32>, bf16

// EXPECT: box [32, 64] with swizzle 128, buffer 64
// CHANGE: 128 : i64, => 64 : i64,

// EXPECT: 2 stages of [128, 32], expected one of 1 slots of boxes [32, 64]
// CHANGE: 128 : i64, 1 => 128 : i64, 2

// EXPECT: 1 stages of [128, 32], expected one of 3 slots of boxes [32, 64]
// CHANGE: = 1 : i64} => = 3 : i64}

// EXPECT: boxes [32, 64] of a tile of [128, 48]
// CHANGE: i64: 128, 64 => i64: 128, 48

// EXPECT: index is 2, of 2 boxes
// CHANGE: = 1 : i64, => = 2 : i64,

// EXPECT: tile
// CHANGE: i64: 128, 64 => i64: 128, 0

// -----

// VALID
func.func @f(%m: i32, %n: i32, %c: !tile.descriptor<array<i64: 32, 64>, bf16, 64 : i64>, %r: !tile.stages, %b: !tile.buffer<array<i64: 128, 128>, i8, 0 : i64, 1 : i64>) {
  %at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  "tile.load_box"(%c, %b, %r, %at, %m, %n) {index = 1 : i64, tile = array<i64: 128, 64>} : (!tile.descriptor<array<i64: 32, 64>, bf16, 64 : i64>, !tile.buffer<array<i64: 128, 128>, i8, 0 : i64, 1 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
  %x = "tile.loaded_input"(%b, %r, %at) {columns = 32 : i64, element = bf16} : (!tile.buffer<array<i64: 128, 128>, i8, 0 : i64, 1 : i64>, !tile.stages, !tile.position) -> !tile.operand
  return
}

// EXPECT: boxes of 4096 bytes in 8 slots of 16384 bytes
// CHANGE: = 2 : i64} => = 8 : i64}

// EXPECT: boxes [32, 64] of a tile of [128, 48]
// CHANGE: i64: 128, 64 => i64: 128, 48

// EXPECT: index is 4, of 4 boxes
// CHANGE: = 1 : i64, => = 4 : i64,

// EXPECT: boxes of 20 : i64 columns of bf16
// CHANGE: = 32 : i64, element => = 20 : i64, element

// EXPECT: boxes of 32 : i64 columns of i8
// CHANGE: element = bf16 => element = i8

// -----

// EXPECT: adds bf16, expected f32
func.func @f(%b: !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 1 : i64>, %c: !tile.descriptor<array<i64: 64, 64>, bf16, 128 : i64>, %r: !tile.stages) {
  %s = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %at = "tile.cursor"() {depth = 1 : i64} : () -> !tile.position
  "tile.add_loaded"(%s, %b, %c, %r, %at) {index = 0 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 64, 64>, bf16, 128 : i64>, !tile.stages, !tile.position) -> ()
  return
}

// -----

// VALID
func.func @f(%b: !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 1 : i64>, %c: !tile.descriptor<array<i64: 64, 64>, bf16, 128 : i64>) {
  %r = "tile.ring"() {depth = 2 : i64, empty = 8 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %s = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  "tile.put_result"(%s, %b, %c, %r) : (!tile.accumulator<array<i64: 64, 128>, "registers">, !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 64, 64>, bf16, 128 : i64>, !tile.stages) -> ()
  return
}

// EXPECT: box [64, 64], of an accumulator of [64, 96]
// CHANGE: 64, 128>, " => 64, 96>, "

// EXPECT: 2 boxes in 3 slots, expected one for each
// CHANGE: {depth = 2 => {depth = 3

// -----

// EXPECT: index is 2, of 2 boxes
func.func @f(%b: !tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, %c: !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, %r: !tile.stages) {
  %s = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %at = "tile.cursor"() {depth = 1 : i64} : () -> !tile.position
  "tile.add_loaded"(%s, %b, %c, %r, %at) {index = 2 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, !tile.stages, !tile.position) -> ()
  return
}

// EXPECT: box [32, 64], of an accumulator of [64, 48] in waves of 64 rows
// CHANGE: 64, 64>, " => 64, 48>, "
// CHANGE: {index = 2 => {index = 1

// -----

// EXPECT: the cursor goes through 1 stages, the ring has 2
func.func @f(%b: !tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, %c: !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>) {
  %r = "tile.ring"() {depth = 2 : i64, empty = 8 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %s = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %at = "tile.cursor"() {depth = 1 : i64} : () -> !tile.position
  "tile.add_loaded"(%s, %b, %c, %r, %at) {index = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, !tile.stages, !tile.position) -> ()
  return
}

// -----

// EXPECT: pending is -1, expected at least 0
"tile.await_stores"() {pending = -1 : i64} : () -> ()
