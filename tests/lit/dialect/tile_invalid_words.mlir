// RUN: %invalid none %s

// VALID
%s = "tile.sums"() {beside = 24 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
%w = "tile.word_slot"(%s, %c) {column = 0 : i64, columns = 8 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.position) -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>

// word_slot: more columns than are beside the accumulators
// EXPECT: columns up to 24 of 23 beside the accumulators
// CHANGE: beside = 24 => beside = 23

// word_slot: no columns
// EXPECT: columns is 0, expected at least 1
// CHANGE: columns = 8 => columns = 0

// word_slot: a column
// EXPECT: column is -8, expected at least 0
// CHANGE: = 0 : i64, => = -8 : i64,

// -----

// word_slot: other accumulators
// EXPECT: makes !tile.tensor_memory<array<i64: 128, 64>, 2 : i64> of !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
%s = "tile.sums"() {beside = 24 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
%w = "tile.word_slot"(%s, %c) {column = 0 : i64, columns = 8 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.position) -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>

// -----

// word_slot: of a slot
// EXPECT: is not of tile.sums and tile.cursor
%s = "tile.sums"() {beside = 24 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
%w = "tile.word_slot"(%s, %c) {column = 0 : i64, columns = 8 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.position) -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
%x = "tile.word_slot"(%w, %c) {column = 0 : i64, columns = 8 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.position) -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>

// -----

// copy_words: into the next slot
// EXPECT: columns 4 to 12 of a slot from 0 to 8
%s = "tile.sums"() {beside = 24 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 2, 128>, i32, 0 : i64, 3 : i64>
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
%w = "tile.word_slot"(%s, %c) {column = 0 : i64, columns = 8 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.position) -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
"tile.copy_words"(%w, %b, %c) {column = 4 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.buffer<array<i64: 2, 128>, i32, 0 : i64, 3 : i64>, !tile.position) -> ()

// -----

// mma_sums: the CTAs of a slot's accumulators
// EXPECT: accumulators of [128, 64] for 128 rows of A and 64 of B in each of 2 CTAs
func.func @p(%again: i1) {
  %s = "tile.sums"() {beside = 24 : i64, ctas = 2 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>
  %b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>
  %c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  %d = "tile.cursor"() {depth = 1 : i64} : () -> !tile.position
  %w = "tile.word_slot"(%s, %c) {column = 0 : i64, columns = 8 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.position) -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
  "tile.mma_sums"(%w, %d, %a, %b, %c, %again) {a_element = f8E4M3FN, a_mn = 0 : i64, a_unit = 32 : i64, a_words = 0 : i64, b_element = f8E4M3FN, b_mn = 0 : i64, b_unit = 32 : i64, b_words = 4 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = "ue8m0"} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.position, !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.position, i1) -> ()
  return
}

// -----

// copied: two arrivals
// EXPECT: arrives twice at a ring that counts 1
%r = "tile.ring"() {depth = 3 : i64, empty = 1 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.copied"(%r, %c) : (!tile.stages, !tile.position) -> ()

// copied: a cursor of another ring
// EXPECT: the cursor goes through 2 stages, the ring has 3
// CHANGE: full = 1 : => full = 2 :
// CHANGE: = 3 : i64} => = 2 : i64}

// -----

// has_rows: none
// EXPECT: rows is 0, expected at least 1
func.func @p(%m0: i32, %m: i32) {
  %r = "tile.has_rows"(%m0, %m) {rows = 0 : i64} : (i32, i32) -> i1
  return
}
