// RUN: %invalid none %s

// VALID
func.func @f() {
  %t = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 256, 64>, bf16, 128 : i64, 4 : i64>
  %s = "tile.strip"(%t) {first = 0 : i64, axis = 0 : i64} : (!tile.buffer<array<i64: 256, 64>, bf16, 128 : i64, 4 : i64>) -> !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 4 : i64>
  return
}

// EXPECT: axis is 2, expected 0 or 1
// CHANGE: , axis = 0 => , axis = 2

// EXPECT: [128, 64] from 192 along axis 0 are not within a tile of [256, 64]
// CHANGE: = 0 : i64, => = 192 : i64,

// EXPECT: [128, 32] from 0 along axis 0 are not within a tile of [256, 64]
// CHANGE: i64: 128, 64 => i64: 128, 32

// EXPECT: element, swizzle or stages of a strip are not those of its tile
// CHANGE: 128, 64>, bf16 => 128, 64>, f16

// EXPECT: rows of a tile of [256, 128], which is several panels of 128 bytes
// CHANGE: 64>, => 128>,

// -----

// EXPECT: columns 0 to 96 are no whole panels of [64, 256]
func.func @f() {
  %t = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 256>, bf16, 128 : i64, 4 : i64>
  %s = "tile.strip"(%t) {first = 0 : i64, axis = 1 : i64} : (!tile.buffer<array<i64: 64, 256>, bf16, 128 : i64, 4 : i64>) -> !tile.buffer<array<i64: 64, 96>, bf16, 128 : i64, 4 : i64>
  return
}

// -----

// EXPECT: columns 0 to 128 are no whole panels of [2, 256]
func.func @f() {
  %t = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 2, 256>, f32, 0 : i64, 4 : i64>
  %s = "tile.strip"(%t) {first = 0 : i64, axis = 1 : i64} : (!tile.buffer<array<i64: 2, 256>, f32, 0 : i64, 4 : i64>) -> !tile.buffer<array<i64: 2, 128>, f32, 0 : i64, 4 : i64>
  return
}

// -----

// EXPECT: [64, 64] from column 96 of an accumulator of [64, 128], expected eights
func.func @f() {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
  %s = "tile.pane"(%t) {first = 96 : i64} : (!tile.accumulator<array<i64: 64, 128>, "registers">) -> !tile.accumulator<array<i64: 64, 64>, "registers">
  return
}

// EXPECT: [64, 64] from column 4 of an accumulator of [64, 128], expected eights
// CHANGE: first = 96 => first = 4

// EXPECT: [64, 64] from column 0 of an accumulator of [64, 128], expected eights
// CHANGE: = 96 : i64 => = 0 : i64
// CHANGE: 64>, "registers => 64>, "warp

// -----

// EXPECT: wave 4 of 64 rows
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "warp">
%s = "tile.go"(%t) {wave = 4 : i64} : (!tile.accumulator<array<i64: 64, 64>, "warp">) -> !tile.accumulator<array<i64: 16, 64>, "warp">

// -----

// EXPECT: expected [16, 64] in the accumulator's space
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "warp">
%s = "tile.go"(%t) {wave = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "warp">) -> !tile.accumulator<array<i64: 32, 64>, "warp">

// -----

// EXPECT: neither first nor wave
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "warp">
%s = "tile.go"(%t) : (!tile.accumulator<array<i64: 64, 64>, "warp">) -> !tile.accumulator<array<i64: 16, 64>, "warp">
