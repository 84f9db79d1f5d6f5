// RUN: %roundtrip %s | filecheck %s

// CHECK-LABEL: func.func @p
func.func @p(%S: memref<?x56xf32>, %R: memref<?x56xf8E8M0FNU>, %s: i64, %i: i32) {
  // CHECK: "tile.copy_scales"({{.*}}) {columns = 8 : i64, layout = "row", operandSegmentSizes = array<i32: 1, 1, 1, 1, 3, 3>, padding = 0 : i64, scale = "f32", to = "ue8m0", to_layout = "blocked"}
  "tile.copy_scales"(%S, %s, %R, %s, %i, %i, %i, %i, %i, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 3, 3>, columns = 8 : i64, scale = "f32", layout = "row", to = "ue8m0", to_layout = "blocked", padding = 0 : i64} : (memref<?x56xf32>, i64, memref<?x56xf8E8M0FNU>, i64, i32, i32, i32, i32, i32, i32) -> ()
  return
}
