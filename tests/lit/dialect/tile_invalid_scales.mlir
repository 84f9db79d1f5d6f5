// RUN: %invalid none %s

// EXPECT: room for e4m3, expected f32 or bf16 or f16 or ue8m0 or ue4m3
%room = "tile.scalars"() {count = 1 : i64, element = "e4m3"} : () -> !tile.registers

// -----

// EXPECT: room for ue8m0, expected f32 or bf16 or f16
%room = "tile.row_scales"() {blocks = 4 : i64, element = "ue8m0", rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows

// -----

// EXPECT: reads scales from memref<?x?xf32>, expected a memref of bf16
func.func @p(%A: memref<?x?xf32>, %i: i64, %x: i32) {
  %f = "tile.scalars"() {count = 2 : i64, element = "bf16"} : () -> !tile.registers
  "tile.fetch"(%f, %A, %i, %i, %x, %x, %x, %x) {axis = "n", k_block = 128 : i64, own = 0 : i64, row_block = 128 : i64, spacing = 128 : i64} : (!tile.registers, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// -----

// EXPECT: makes f32 of "bf16", expected ue8m0 or ue4m3
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%v = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 4, 64>, f32, 0 : i64, 4 : i64>
%b = "tile.byte_scales"() {rows = 64 : i64, warps = 3 : i64, words = 1 : i64} : () -> !tile.scale_bytes
"tile.store_factors"(%b, %v, %c) {element = "bf16"} : (!tile.scale_bytes, !tile.buffer<array<i64: 4, 64>, f32, 0 : i64, 4 : i64>, !tile.position) -> ()

// EXPECT: stores 1 words of 64 rows
// CHANGE: i64: 4, 64 => i64: 8, 64
// CHANGE: element = "bf16 => element = "ue8m0

// -----

// EXPECT: unit is 0, expected at least 1
%f32 = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
%k = "arith.constant"() {value = 1 : i32} : () -> i32
"tile.cut_scales"(%f32, %k, %k) {unit = 0 : i64} : (!tile.rows, i32, i32) -> ()

// -----

// EXPECT: slice 4 of 4, of 128 columns of K
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%t = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
%p = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
"tile.mma"(%p, %t, %t, %c) {a_wave = 0 : i64, accumulate = 0 : i64, column = 0 : i64, slice = array<i64: 4, 4>, wave = 0 : i64, waves = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position) -> ()
