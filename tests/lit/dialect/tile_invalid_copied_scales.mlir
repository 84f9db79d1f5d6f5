// RUN: %invalid none %s

// VALID
func.func @p(%S: memref<?x56xf32>, %R: memref<?x56xf8E8M0FNU>, %s: i64, %i: i32) {
  "tile.copy_scales"(%S, %s, %R, %s, %i, %i, %i, %i, %i, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 3, 3>, columns = 8 : i64, scale = "f32", layout = "row", to = "ue8m0", to_layout = "blocked", padding = 0 : i64} : (memref<?x56xf32>, i64, memref<?x56xf8E8M0FNU>, i64, i32, i32, i32, i32, i32, i32) -> ()
  return
}

// copy_scales: no memory
// EXPECT: reads or writes i64, expected a memref
// CHANGE: copy_scales"(%S => copy_scales"(%s
// CHANGE: : (memref<?x56xf32>, i64 => : (i64, i64

// copy_scales: a type that no result has
// EXPECT: scales are "bf16" in the layout "blocked", expected f32, ue8m0, ue4m3
// CHANGE: to = "ue8m0" => to = "bf16"

// copy_scales: a layout that is none
// EXPECT: scales are "f32" in the layout "tiles", expected f32, bf16, f16, ue8m0, ue4m3
// CHANGE: layout = "row" => layout = "tiles"

// copy_scales: tiles of f32
// EXPECT: blocked scales are "f32", expected a type of 8 bits
// CHANGE: to = "ue8m0" => to = "f32"

// copy_scales: no number of columns
// EXPECT: begins at 2 numbers, and ends at 3, expected a row, a column, columns
// CHANGE: 1, 1, 3, 3>, columns => 1, 1, 2, 3>, columns
// CHANGE: %s, %i, %i, %i, %i, %i, %i) => %s, %i, %i, %i, %i, %i)
// CHANGE: i32, i32, i32, i32, i32, i32) => i32, i32, i32, i32, i32)
