// RUN: %roundtrip %s | filecheck %s
// RUN: scalec opt --passes= %s | filecheck %s

// Rows of a result that begin at any byte: threads store them together.

// CHECK-LABEL: func.func @rows
func.func @rows(%Y: memref<?x?xf8E4M3FN>, %x: !tile.columns<16 : i64>, %p: i32, %left: i32, %s: i64) {
  // CHECK: %[[ROW:.*]] = "tile.begin_row"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {lanes = 4 : i64, offset = 1024 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1>, places = 2 : i64, vector = 16 : i64}
  %row = "tile.begin_row"(%Y, %p, %p, %s, %s, %left) {lanes = 4 : i64, offset = 1024 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1>, places = 2 : i64, vector = 16 : i64} : (memref<?x?xf8E4M3FN>, i32, i32, i64, i64, i32) -> !tile.stored_row
  // CHECK-NEXT: "tile.put_columns"(%[[ROW]], %{{.*}}) {place = 0 : i64} : (!tile.stored_row, !tile.columns<16 : i64>) -> ()
  "tile.put_columns"(%row, %x) {place = 0 : i64} : (!tile.stored_row, !tile.columns<16 : i64>) -> ()
  "tile.put_columns"(%row, %x) {place = 1 : i64} : (!tile.stored_row, !tile.columns<16 : i64>) -> ()
  // CHECK: "tile.end_row"(%[[ROW]]) : (!tile.stored_row) -> ()
  "tile.end_row"(%row) : (!tile.stored_row) -> ()
  return
}
