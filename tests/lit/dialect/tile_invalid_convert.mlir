// RUN: %invalid none %s

// EXPECT: converts bf16 to f8E4M3FN, which is not exact
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
"tile.convert"(%a, %b, %at) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>, stored = bf16} : (!tile.buffer<array<i64: 64, 128>, bf16, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position) -> ()

// -----

// EXPECT: expected as many elements, not swizzled
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 16>, i8, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
"tile.convert"(%a, %b, %at) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>, stored = f4E2M1FN} : (!tile.buffer<array<i64: 64, 16>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position) -> ()

// EXPECT: converts to rows of 64 bytes, expected those of the swizzle
// CHANGE: i64: 64, 64 => i64: 64, 32

// -----

// EXPECT: loads words of zero points, expected of 4 bits
func.func @f(%Z: memref<?x?xui4>, %s: i64, %i: i32) {
  %b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
  %z = "tile.zero_points"(%b, %Z, %s, %s, %i, %i, %i, %i) {along = "rows", k_block = 128 : i64, row_block = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 4, 0>, words} : (!tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, memref<?x?xui4>, i64, i64, i32, i32, i32, i32) -> !tile.subtrahends
  return
}

// EXPECT: loads words of zero points, expected of 4 bits
// CHANGE: along = "rows" => along = "k"
// CHANGE: words} => turned = array<i64: 0, 1, 2, 3, 4, 5, 6, 7>, words}

// EXPECT: from 50 to 65, expected 56 at most
// CHANGE: words} => plus = 50 : i64, turned = array<i64: 0, 1, 2, 3, 4, 5, 6, 7>, words}

// -----

// EXPECT: has factors
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
%f = "tile.shared"() {offset = 131072 : i64} : () -> !tile.buffer<array<i64: 16, 64>, f32, 0 : i64, 2 : i64>
"tile.convert"(%a, %b, %at, %f) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, stored = f4E2M1FN} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 16, 64>, f32, 0 : i64, 2 : i64>) -> ()

// -----

// EXPECT: has factors
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, f8E4M3FN, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
%f = "tile.shared"() {offset = 131072 : i64} : () -> !tile.buffer<array<i64: 2, 32>, f32, 0 : i64, 2 : i64>
"tile.convert"(%a, %b, %at, %f) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, stored = f8E4M3FN, turned} : (!tile.buffer<array<i64: 64, 64>, f8E4M3FN, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 2, 32>, f32, 0 : i64, 2 : i64>) -> ()

// EXPECT: has factors
// CHANGE: , 32>, f32 => , 64>, f32
// CHANGE: array<i64: 2 => array<i64: 32

// -----

// EXPECT: turns
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 8>, f8E4M3FN, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 8, 128>, f8E4M3FN, 128 : i64, 2 : i64>
"tile.convert"(%a, %b, %at) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>, stored = f8E4M3FN, turned} : (!tile.buffer<array<i64: 128, 8>, f8E4M3FN, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 8, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position) -> ()

// -----

// EXPECT: of is 1, expected at least 2
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%own = "tile.own_stage"(%at) {of = 1 : i64} : (!tile.position) -> i1

// -----

// e4m3 has no 23 = 15 - -8; bf16 would
// EXPECT: converts ui4 to f8E4M3FN, which is not exact
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, i8, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
%z = "tile.zero_points"(%b) {number = -8 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>) -> !tile.subtrahends
"tile.convert"(%a, %b, %at, %z) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, stored = ui4} : (!tile.buffer<array<i64: 64, 64>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position, !tile.subtrahends) -> ()

// EXPECT: converts f4E2M1FN to f8E4M3FN, which is not exact
// CHANGE: = -8 : i64 => = 1 : i64
// CHANGE: stored = ui4 => stored = f4E2M1FN

// -----

// EXPECT: with the zero points of another tile
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, i8, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
%c = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 32, 128>, f8E4M3FN, 128 : i64, 2 : i64>
%z = "tile.zero_points"(%c) {number = 8 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!tile.buffer<array<i64: 32, 128>, f8E4M3FN, 128 : i64, 2 : i64>) -> !tile.subtrahends
"tile.convert"(%a, %b, %at, %z) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, stored = ui4} : (!tile.buffer<array<i64: 64, 64>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position, !tile.subtrahends) -> ()

// -----

// EXPECT: has no number, expected a source
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
%z = "tile.zero_points"(%b) {operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>) -> !tile.subtrahends

// -----

// EXPECT: has a number and a source
func.func @f(%Z: memref<?xi8>) {
  %b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
  %z = "tile.zero_points"(%b, %Z) {number = 8 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>} : (!tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, memref<?xi8>) -> !tile.subtrahends
  return
}

// -----

// EXPECT: expected u4 or i4 or i8
func.func @f(%Z: memref<?xbf16>, %s: i64, %i: i32) {
  %b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
  %z = "tile.zero_points"(%b, %Z, %s, %s, %i, %i, %i, %i) {k_block = 128 : i64, row_block = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 4, 0>} : (!tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, memref<?xbf16>, i64, i64, i32, i32, i32, i32) -> !tile.subtrahends
  return
}

// EXPECT: which is packed along rows or k, got ''
// CHANGE: memref<?xbf16 => memref<?xui4

// EXPECT: row_order [0, 1, 0, 4], expected a constant, and factors, divisors and moduli
// CHANGE: memref<?xbf16 => memref<?xi8
// CHANGE: k_block = => row_order = array<i64: 0, 1, 0, 4>, k_block =

// EXPECT: k_order [0, 1], expected a constant, and factors, divisors and moduli
// CHANGE: memref<?xbf16 => memref<?xi8
// CHANGE: k_block = => k_order = array<i64: 0, 1>, k_block =

// EXPECT: has no k_block
// CHANGE: k_block = 128 : i64, row_block => row_block
// CHANGE: memref<?xbf16 => memref<?xi8

// -----

// EXPECT: has no element 64 of 4 bits, without zero points, in a row of 64
func.func @f(%last: i1) {
  %at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>
  %b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
  "tile.convert"(%a, %b, %at, %last) {element = 64 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 0>, stored = f4E2M1FN} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, i1) -> ()
  return
}

// -----

// convert: shifted rows have 16 bytes more
// EXPECT: shifts rows of 128 bytes, expected 144 in whole 16, and no zero points or last
func.func @p(%x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 0 : i64, 2 : i64>
  %b = "tile.shared"() {offset = 16384 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
  %at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  "tile.convert"(%a, %b, %at, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1>, stored = f8E4M3FN} : (!tile.buffer<array<i64: 64, 128>, f8E4M3FN, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position, i32) -> ()
  return
}

// -----

// convert: shifted elements of 4 bits that become 32
// EXPECT: shifts 4 bits that become 32, or are turned
func.func @p(%x: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>
  %b = "tile.shared"() {offset = 16384 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>
  %at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  "tile.convert"(%a, %b, %at, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1>, stored = f4E2M1FN} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, !tile.position, i32) -> ()
  return
}

// -----

// VALID
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%w = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 64>, i32, 0 : i64, 2 : i64>
%r = "tile.row_zeros"() {blocks = 2 : i64, rows = 64 : i64, warps = 2 : i64} : () -> !tile.zeros
"tile.store_zeros"(%r, %w, %at) {added = 128 : i64, element = "u4", index = 0 : i64, made = "bf16", stored = "u4"} : (!tile.zeros, !tile.buffer<array<i64: 1, 64>, i32, 0 : i64, 2 : i64>, !tile.position) -> ()

// EXPECT: stores into tiles of f32, expected i32
// CHANGE: , 64>, i32 => , 64>, f32

// EXPECT: has bf16 for bf16 of u4, expected an integer
// CHANGE: element = "u4 => element = "bf16

// EXPECT: stores 64 rows of 1 words into 32
// CHANGE: i64: 1, 64 => i64: 1, 32

// EXPECT: stores block 2 of 2
// CHANGE: = 0 : i64, => = 2 : i64,

// -----

// VALID
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%s = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>
%l = "tile.load_stored"(%s, %at) {a_wave = 0 : i64, count = 1 : i64, made = bf16, number = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>, waves = 1 : i64} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.position) -> !tile.slice<array<i64: 64, 64>, ui4, "a">
%c = "tile.converted"(%l) {less = 8 : i64, operandSegmentSizes = array<i32: 1, 0>} : (!tile.slice<array<i64: 64, 64>, ui4, "a">) -> !tile.slice<array<i64: 64, 64>, bf16, "a">

// EXPECT: makes bf16 of e2m1 less 8
// CHANGE: , 64>, ui4 => , 64>, f4E2M1FN

// EXPECT: makes bf16 of u4 less 1000
// CHANGE: ) {less = 8 => ) {less = 1000

// EXPECT: has zero points and what was added to them, expected both or neither
// CHANGE: l) {less = => l) {added =
// CHANGE: 8 : => 128 :

// -----

// EXPECT: expected one for each 8 of a row, strips of whole 8 rows
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 8, 32>, i32, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
"tile.convert"(%a, %b, %at) {in_words, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>, stored = ui4} : (!tile.buffer<array<i64: 8, 32>, i32, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position) -> ()

// EXPECT: expected one for each 8 of a row, strips of whole 8 rows
// CHANGE: i64: 8, 32 => i64: 128, 4

// EXPECT: converts words of
// CHANGE: i64: 8, 32>, i32, 0 => i64: 8, 64>, i32, 128

// EXPECT: converts words of
// CHANGE: stored = ui4 => stored = f8E4M3FN

// EXPECT: expected rows of the swizzle
// CHANGE: i64: 8, 32 => i64: 4, 64
// CHANGE: i64: 64, 64 => i64: 64, 32

// EXPECT: not turned, shifted or cut
// CHANGE: i64: 8, 32 => i64: 8, 64
// CHANGE: {in_words, => {in_words, turned,

// -----

// EXPECT: with the zero points of another tile, or of rows
func.func @f(%Z: memref<?x?xui4>, %s: i64, %i: i32) {
  %at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 8, 64>, i32, 0 : i64, 2 : i64>
  %b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
  %z = "tile.zero_points"(%b, %Z, %s, %s, %i, %i, %i, %i) {along = "k", k_block = 128 : i64, row_block = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 4, 0>} : (!tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, memref<?x?xui4>, i64, i64, i32, i32, i32, i32) -> !tile.subtrahends
  "tile.convert"(%a, %b, %at, %z) {in_words, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, stored = ui4} : (!tile.buffer<array<i64: 8, 64>, i32, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.subtrahends) -> ()
  return
}

// -----

// EXPECT: has factors
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 8, 64>, i32, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
%f = "tile.shared"() {offset = 131072 : i64} : () -> !tile.buffer<array<i64: 16, 64>, f32, 0 : i64, 2 : i64>
"tile.convert"(%a, %b, %at, %f) {in_words, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, stored = ui4} : (!tile.buffer<array<i64: 8, 64>, i32, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 16, 64>, f32, 0 : i64, 2 : i64>) -> ()

// -----

// EXPECT: in the order [0, 2, 4, 6, 1, 3, 5, 5], expected each of 8 rows once
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
"tile.convert"(%a, %b, %at) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>, order = array<i64: 0, 2, 4, 6, 1, 3, 5, 5>, stored = ui4, turned} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position) -> ()

// EXPECT: expected a line for each element of a row of the swizzle
// CHANGE: i64: 64, 32>, i8 => i64: 32, 32>, i8

// EXPECT: expected a line for each element of a row of the swizzle
// CHANGE: i64: 64, 64>, bf16, 128 => i64: 64, 32>, bf16, 128
// CHANGE: i64: 64, 32>, i8 => i64: 32, 32>, i8

// EXPECT: expected lines of whole 16 bytes, not swizzled
// CHANGE: i64: 64, 32>, i8 => i64: 64, 8>, i8

// EXPECT: expected lines of whole 16 bytes, not swizzled
// CHANGE: i8, 0 => i8, 32

// -----

// EXPECT: with the zero points of another tile, or of rows
func.func @f(%Z: memref<?x?xui4>, %s: i64, %i: i32) {
  %at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>
  %b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
  %z = "tile.zero_points"(%b, %Z, %s, %s, %i, %i, %i, %i) {along = "rows", k_block = 128 : i64, row_block = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 4, 0>, turned = array<i64: 0, 2, 4, 6, 1, 3, 5, 7>} : (!tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, memref<?x?xui4>, i64, i64, i32, i32, i32, i32) -> !tile.subtrahends
  "tile.convert"(%a, %b, %at, %z) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, stored = ui4, turned} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.subtrahends) -> ()
  return
}

// -----

// EXPECT: has factors
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
%f = "tile.shared"() {offset = 131072 : i64} : () -> !tile.buffer<array<i64: 4, 64>, f32, 0 : i64, 2 : i64>
"tile.convert"(%a, %b, %at, %f) {first = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, stored = ui4, turned} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 4, 64>, f32, 0 : i64, 2 : i64>) -> ()

// -----

// EXPECT: loads words of
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%s = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 8, 64>, i32, 128 : i64, 2 : i64>
%l = "tile.load_stored"(%s, %at) {a_wave = 0 : i64, count = 1 : i64, in_words, made = bf16, number = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>, waves = 1 : i64} : (!tile.buffer<array<i64: 8, 64>, i32, 128 : i64, 2 : i64>, !tile.position) -> !tile.slice<array<i64: 64, 64>, ui4, "a">

// EXPECT: loads words of
// CHANGE: i32, 128 => i32, 0
// CHANGE: i64: 8, 64 => i64: 16, 64

// EXPECT: loads words of
// CHANGE: i32, 128 => bf16, 0

// EXPECT: loads words of elements and of scales
// CHANGE: in_words, => in_words, interleaved, words,
