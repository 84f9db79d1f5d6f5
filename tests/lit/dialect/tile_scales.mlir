// RUN: %roundtrip %s | filecheck %s

// Scales of a byte, of rows and of a block of them, for four parts of a K tile.

!tile = !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
!vectors = !tile.buffer<array<i64: 4, 64>, f32, 0 : i64, 4 : i64>
!sums = !tile.accumulator<array<i64: 64, 64>, "registers">

func.func @scales(%scales: memref<64x8xf8E8M0FNU>, %s: i64, %row0: i32, %rows: i32, %k0: i32, %k: i32) {
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %t = "tile.shared"() {offset = 0 : i64} : () -> !tile
  %v = "tile.shared"() {offset = 32768 : i64} : () -> !vectors
  %bytes = "tile.byte_scales"() {rows = 64 : i64, warps = 3 : i64, words = 1 : i64} : () -> !tile.scale_bytes
  // CHECK: "tile.store_factors"({{.*}}) {element = "ue8m0"} :
  "tile.store_factors"(%bytes, %v, %c) {element = "ue8m0"} : (!tile.scale_bytes, !vectors, !tile.position) -> ()
  // CHECK: %[[ROOM:.*]] = "tile.scalars"() {count = 1 : i64, element = "ue8m0"}
  %room = "tile.scalars"() {count = 1 : i64, element = "ue8m0"} : () -> !tile.registers
  // CHECK: "tile.fetch_bytes"(%[[ROOM]], {{.*}}) {axis = "n", block = 32 : i64, layout = "row", own = 0 : i64, row_block = 64 : i64, spacing = 0 : i64} :
  "tile.fetch_bytes"(%room, %scales, %s, %s, %row0, %rows, %k0, %k) {axis = "n", block = 32 : i64, layout = "row", own = 0 : i64, row_block = 64 : i64, spacing = 0 : i64} : (!tile.registers, memref<64x8xf8E8M0FNU>, i64, i64, i32, i32, i32, i32) -> ()
  // CHECK: "tile.row_scales"() {blocks = 4 : i64, element = "bf16", rows = 64 : i64, warps = 3 : i64} :
  %halves = "tile.row_scales"() {blocks = 4 : i64, element = "bf16", rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
  // CHECK: "tile.cut_scales"({{.*}}) {unit = 32 : i64} :
  %f32 = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
  "tile.cut_scales"(%f32, %k0, %k) {unit = 32 : i64} : (!tile.rows, i32, i32) -> ()
  // CHECK: "tile.store_rows"({{.*}}) {index = 0 : i64} :
  "tile.store_rows"(%f32, %v, %c) {index = 0 : i64} : (!tile.rows, !vectors, !tile.position) -> ()
  %p = "tile.fragment"() : () -> !sums
  // CHECK: "tile.mma"({{.*}}slice = array<i64: 3, 4>{{.*}} :
  "tile.mma"(%p, %t, %t, %c) {a_wave = 0 : i64, accumulate = 0 : i64, column = 0 : i64, slice = array<i64: 3, 4>, wave = 0 : i64, waves = 1 : i64} : (!sums, !tile, !tile, !tile.position) -> ()
  // CHECK: "tile.row_factors"({{.*}}) {plane = 3 : i64, wave = 0 : i64, waves = 1 : i64} :
  %a = "tile.row_factors"(%v, %c) {plane = 3 : i64, wave = 0 : i64, waves = 1 : i64} : (!vectors, !tile.position) -> !tile.factors
  return
}
