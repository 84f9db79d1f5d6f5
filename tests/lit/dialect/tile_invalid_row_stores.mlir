// RUN: %invalid none %s

// begin_row: rows that are no sectors
// EXPECT: 1 lanes with 1 places of 16 elements of 8 bits, expected powers of two
func.func @p(%Y: memref<?x?xf8E4M3FN>, %x: !tile.columns<16 : i64>, %p: i32, %s: i64) {
  %row = "tile.begin_row"(%Y, %p, %p, %s, %s, %p) {lanes = 1 : i64, offset = 0 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1>, places = 1 : i64, vector = 16 : i64} : (memref<?x?xf8E4M3FN>, i32, i32, i64, i64, i32) -> !tile.stored_row
  return
}

// -----

// begin_row: offset
// EXPECT: offset is 8, expected a multiple of 16
func.func @p(%Y: memref<?x?xf8E4M3FN>, %x: !tile.columns<16 : i64>, %p: i32, %s: i64) {
  %row = "tile.begin_row"(%Y, %p, %p, %s, %s, %p) {lanes = 4 : i64, offset = 8 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1>, places = 1 : i64, vector = 16 : i64} : (memref<?x?xf8E4M3FN>, i32, i32, i64, i64, i32) -> !tile.stored_row
  return
}

// -----

// begin_row: memory
// EXPECT: writes f32, expected a memref
func.func @p(%Y: f32, %p: i32, %s: i64) {
  %row = "tile.begin_row"(%Y, %p, %p, %s, %s, %p) {lanes = 4 : i64, offset = 0 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1>, places = 1 : i64, vector = 16 : i64} : (f32, i32, i32, i64, i64, i32) -> !tile.stored_row
  return
}

// -----

// begin_row: indices
// EXPECT: 2 indices and 1 strides, expected as many
func.func @p(%Y: memref<?x?xf8E4M3FN>, %p: i32, %s: i64) {
  %row = "tile.begin_row"(%Y, %p, %p, %s, %p) {lanes = 4 : i64, offset = 0 : i64, operandSegmentSizes = array<i32: 1, 2, 1, 1>, places = 1 : i64, vector = 16 : i64} : (memref<?x?xf8E4M3FN>, i32, i32, i64, i32) -> !tile.stored_row
  return
}

// -----

// put_columns: place
// EXPECT: 16 columns in place 1, the row has 1 places of 16
func.func @p(%Y: memref<?x?xf8E4M3FN>, %x: !tile.columns<16 : i64>, %p: i32, %s: i64) {
  %row = "tile.begin_row"(%Y, %p, %p, %s, %s, %p) {lanes = 4 : i64, offset = 0 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1>, places = 1 : i64, vector = 16 : i64} : (memref<?x?xf8E4M3FN>, i32, i32, i64, i64, i32) -> !tile.stored_row
  "tile.put_columns"(%row, %x) {place = 1 : i64} : (!tile.stored_row, !tile.columns<16 : i64>) -> ()
  return
}

// -----

// put_columns: a row from elsewhere
// EXPECT: row is not made by tile.begin_row
func.func @p(%row: !tile.stored_row, %x: !tile.columns<16 : i64>) {
  "tile.put_columns"(%row, %x) {place = 0 : i64} : (!tile.stored_row, !tile.columns<16 : i64>) -> ()
  return
}

// -----

// end_row: a row from elsewhere
// EXPECT: row is not made by tile.begin_row
func.func @p(%row: !tile.stored_row) {
  "tile.end_row"(%row) : (!tile.stored_row) -> ()
  return
}
