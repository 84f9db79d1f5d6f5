// Quantising round-trips through the printer.
// RUN: %roundtrip %s | filecheck %s

// CHECK-LABEL: func.func @quantize
func.func @quantize(%E: memref<?x2xf8E8M0FNU>, %F: memref<?x4xf32>, %s: i64, %p: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  // CHECK: "tile.quantize"({{.*}}) {block = 32 : i64, by_rows = 0 : i64, element = f8E4M3FN, exchange = -1 : i64, layout = "row", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0>, padding = 0 : i64, ragged = 1 : i64, scale = "ue8m0", together = 2 : i64}
  "tile.quantize"(%t, %E, %s, %p, %p, %p, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0>, block = 32 : i64, by_rows = 0 : i64, element = f8E4M3FN, scale = "ue8m0", layout = "row",
    ragged = 1 : i64, padding = 0 : i64, together = 2 : i64, exchange = -1 : i64}
    : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?x2xf8E8M0FNU>, i64, i32, i32, i32, i32) -> ()
  // CHECK-NEXT: "tile.quantize"({{.*}}) {block = 16 : i64, by_rows = 0 : i64, element = f4E2M1FN, exchange = -1 : i64, layout = "col", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0>, padding = 0 : i64, ragged = 0 : i64, scale = "f32", together = 1 : i64}
  "tile.quantize"(%t, %F, %s, %p, %p, %p, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0>, block = 16 : i64, by_rows = 0 : i64, element = f4E2M1FN, scale = "f32", layout = "col",
    ragged = 0 : i64, padding = 0 : i64, together = 1 : i64, exchange = -1 : i64}
    : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?x4xf32>, i64, i32, i32, i32, i32) -> ()
  // Blocks of rows.
  %u = "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 16>, "warp">
  // CHECK: "tile.quantize"({{.*}}) {block = 32 : i64, by_rows = 1 : i64, element = f8E4M3FN,
  "tile.quantize"(%u, %E, %s, %p, %p, %p, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0>, block = 32 : i64, by_rows = 1 : i64, element = f8E4M3FN, scale = "ue8m0", layout = "row",
    ragged = 1 : i64, padding = 3 : i64, together = 1 : i64, exchange = -1 : i64}
    : (!tile.accumulator<array<i64: 32, 16>, "warp">, memref<?x2xf8E8M0FNU>, i64, i32, i32, i32, i32) -> ()
  // Transformed, rounded by chance.
  // CHECK: "tile.transform_sums"({{.*}}) {by_rows = 0 : i64, ragged = 1 : i64}
  "tile.transform_sums"(%t, %p, %p, %p, %p) {by_rows = 0 : i64, ragged = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, i32, i32, i32, i32) -> ()
  // CHECK: "tile.round_sums"({{.*}}) {along = 1 : i64, by_rows = 0 : i64, element = bf16, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 2, 2, 0>}
  "tile.round_sums"(%t, %p, %p, %p, %p, %p, %p, %p, %p, %p) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 2, 2, 0>, by_rows = 0 : i64, along = 1 : i64, element = bf16}
    : (!tile.accumulator<array<i64: 64, 64>, "registers">, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> ()
  return
}
