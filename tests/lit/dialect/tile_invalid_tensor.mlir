// RUN: %invalid none %s

// sums: rows
// EXPECT: accumulators of [64, 64], expected 128 rows and columns by 16
%s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 64, 64>, 2 : i64>

// -----

// sums: columns
// EXPECT: accumulators of [128, 24], expected 128 rows and columns by 16
%s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 24>, 2 : i64>

// -----

// sums: no columns
// EXPECT: accumulators of [128, 0], expected 128 rows and columns by 16
%s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 0>, 2 : i64>

// -----

// sums: shape
// EXPECT: accumulators of [128], expected 128 rows and columns by 16
%s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128>, 2 : i64>

// -----

// sums: more than tensor memory has
// EXPECT: 3 accumulators of 192 columns and 0 beside them, tensor memory has 512
%s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 192>, 3 : i64>

// -----

// sums: none
// EXPECT: 0 accumulators of 64 columns and 0 beside them, tensor memory has 512
%s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 0 : i64>

// -----

// sums: alignment of the address
// EXPECT: offset 6 is not a multiple of 4, the size of an address
%s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 6 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>

// -----

// sums: offset
// EXPECT: offset is -4, expected at least 0
%s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = -4 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>

// -----

// sums: of two CTAs that have not met
// EXPECT: is of two CTAs that have not met: no tile.sync of the cluster stands before it
"tile.kernel"() ({
  "tile.sync"() {releases = 1 : i64, scope = "cta"} : () -> ()
  %s = "tile.sums"() {beside = 0 : i64, ctas = 2 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
  "tile.sync"() {releases = 1 : i64, scope = "cluster"} : () -> ()
}) {arguments = [], cluster = array<i64: 2, 1>, shared_bytes = 64 : i64, sym_name = "p", threads = 256 : i64} : () -> ()

// -----

// kernel: the address of tensor memory is within shared memory
// EXPECT: buffers and rings end at byte 68, beyond the shared memory of 64 bytes
"tile.kernel"() ({
  %s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 64 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
}) {arguments = [], cluster = array<i64: 1, 1>, shared_bytes = 64 : i64, sym_name = "p", threads = 256 : i64} : () -> ()

// sums: of two CTAs in a cluster of one
// EXPECT: is of two CTAs, in a cluster of 1
// CHANGE: = 1 : i64, => = 2 : i64,
// CHANGE: = 64 : i64} => = 0 : i64}

// -----

// VALID
func.func @p(%again: i1) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>
  %b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>
  %s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 131072 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  %slot = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  "tile.mma_sums"(%s, %slot, %a, %b, %at, %again) {a_element = f8E4M3FN, a_mn = 0 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = f8E4M3FN, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.position, i1) -> ()
  return
}

// mma_sums: rows of A
// EXPECT: accumulators of [128, 64] for 64 rows of A and 64 of B
// CHANGE: : 128, 128 => : 64, 128

// mma_sums: rows of B
// EXPECT: accumulators of [128, 64] for 128 rows of A and 32 of B
// CHANGE: array<i64: 64 => array<i64: 32

// mma_sums: K
// EXPECT: rows of A are 128 bytes, those of B 256
// CHANGE: 64, 128>, f8E4M3FN => 64, 128>, bf16
// CHANGE: f8E4M3FN, b_mn => bf16, b_mn

// mma_sums: type of A
// EXPECT: a_element is f8E5M2, in a tile of f8E4M3FN
// CHANGE: f8E4M3FN, a_mn => f8E5M2, a_mn

// mma_sums: type of B
// EXPECT: b_element is f8E4M3FN, in a tile of i8
// CHANGE: 64, 128>, f8E4M3FN => 64, 128>, i8

// mma_sums: stages
// EXPECT: the cursor goes through 4 stages, the buffer has 3
// CHANGE: {depth = 3 => {depth = 4

// mma_sums: accumulators
// EXPECT: the slot goes through 3 accumulators of 2
// CHANGE: {depth = 2 => {depth = 3

// mma_sums: each of two CTAs has half of B
// EXPECT: accumulators of [128, 64] for 128 rows of A and 64 of B in each of 2 CTAs
// CHANGE: , ctas = 1 => , ctas = 2

// -----

// mma_sums: words before, and none
// EXPECT: words before those of B, with no scale
func.func @p(%again: i1, %before: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>
  %b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>
  %s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 131072 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  %slot = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  "tile.mma_sums"(%s, %slot, %a, %b, %at, %again, %before) {a_element = f8E4M3FN, a_mn = 0 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = f8E4M3FN, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.position, i1, i32) -> ()
  return
}

// -----

// mma_sums: stages of B
// EXPECT: the cursor goes through 3 stages, the buffer has 2
func.func @p(%again: i1) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>
  %b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
  %s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 131072 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  %slot = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  "tile.mma_sums"(%s, %slot, %a, %b, %at, %again) {a_element = f8E4M3FN, a_mn = 0 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = f8E4M3FN, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position, i1) -> ()
  return
}

// -----

// hand_over: side
// EXPECT: side is "done", expected empty or full
%r = "tile.ring"() {depth = 3 : i64, empty = 1 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.hand_over"(%r, %c) {side = "done"} : (!tile.stages, !tile.position) -> ()

// hand_over: stages
// EXPECT: the cursor goes through 2 stages, the ring has 3
// CHANGE: 3 : i64} : => 2 : i64} :
// CHANGE: side = "done => side = "full

// -----

// VALID
%t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 32>, "warp">
%s = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%slot = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
"tile.take"(%t, %s, %slot) {apart = 32 : i64, column = 0 : i64} : (!tile.accumulator<array<i64: 32, 32>, "warp">, !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position) -> ()

// take: whose registers
// EXPECT: takes 64 by 32 into registers, expected 32 by 16, 32, 64 or 128
// CHANGE: 32, 32>, " => 64, 32>, "
// CHANGE: 32>, "warp => 32>, "registers

// take: rows
// EXPECT: takes 64 by 32 into warp, expected 32 by 16, 32, 64 or 128
// CHANGE: array<i64: 32 => array<i64: 64

// take: columns
// EXPECT: takes 32 by 48 into warp, expected 32 by 16, 32, 64 or 128
// CHANGE: i64: 32, 32 => i64: 32, 48

// take: where columns begin
// EXPECT: columns from 16 on, 32 at once, of 64
// CHANGE: column = 0 => column = 16

// take: beyond the accumulator
// EXPECT: columns from 64 on, 32 at once, of 64
// CHANGE: column = 0 => column = 64

// take: before the accumulator
// EXPECT: column is -32, expected at least 0
// CHANGE: column = 0 => column = -32

// take: what further warpgroups take
// EXPECT: columns 16 apart, expected a multiple of the 32 taken at once
// CHANGE: apart = 32 => apart = 16

// take: that all take the same
// EXPECT: apart is 0, expected at least 1
// CHANGE: apart = 32 => apart = 0

// take: accumulators
// EXPECT: the slot goes through 3 accumulators of 2
// CHANGE: {depth = 2 => {depth = 3

// -----

// free_sums: what it gives back
// EXPECT: expected base type 'tile.tensor_memory' but got
func.func @p(%i: i32) {
  "tile.free_sums"(%i) : (i32) -> ()
  return
}

// -----

// sums: columns beside them
// EXPECT: 2 accumulators of 240 columns and 48 beside them, tensor memory has 512
%s = "tile.sums"() {beside = 48 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 240>, 2 : i64>

// -----

// copy_words: rows
// EXPECT: copies 1 by 64 of i32, expected words of rows by 128, or i64 of rows of tiles by 64
%s = "tile.sums"() {beside = 8 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%w = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 64>, i32, 0 : i64, 3 : i64>
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.copy_words"(%s, %w, %c) {column = 0 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.buffer<array<i64: 1, 64>, i32, 0 : i64, 3 : i64>, !tile.position) -> ()

// -----

// copy_words: columns
// EXPECT: columns up to 12 of 8 beside the accumulators
%s = "tile.sums"() {beside = 8 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%w = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 2, 128>, i32, 0 : i64, 3 : i64>
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.copy_words"(%s, %w, %c) {column = 4 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.buffer<array<i64: 2, 128>, i32, 0 : i64, 3 : i64>, !tile.position) -> ()

// -----

// copy_words: tiles of scales
// EXPECT: copies 2 by 96 of i64, expected words of rows by 128, or i64 of rows of tiles by 64
%s = "tile.sums"() {beside = 8 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%w = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 2, 96>, i64, 0 : i64, 3 : i64>
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.copy_words"(%s, %w, %c) {column = 0 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.buffer<array<i64: 2, 96>, i64, 0 : i64, 3 : i64>, !tile.position) -> ()

// -----

// VALID
%s = "tile.sums"() {beside = 8 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%w = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 1 : i64>
"tile.fill_words"(%s, %w) {column = 0 : i64, columns = 8 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 1 : i64>) -> ()

// fill_words: columns
// EXPECT: fills 6 columns, expected a multiple of 4
// CHANGE: = 8 : i64} => = 6 : i64}

// fill_words: columns beside the accumulators
// EXPECT: columns up to 12 of 8 beside the accumulators
// CHANGE: = 0 : i64, => = 4 : i64,

// fill_words: by way of
// EXPECT: by way of !tile.buffer<array<i64: 1, 256>, i32, 0 : i64, 1 : i64>, expected a word of 128 rows
// CHANGE: i64: 1, 128 => i64: 1, 256

// fill_words: first column
// EXPECT: column is -4, expected at least 0
// CHANGE: = 0 : i64, => = -4 : i64,
// CHANGE: = 8 : i64} => = 4 : i64}

// -----

// vacate: stages
// EXPECT: the cursor goes through 3 stages, the ring has 2
%r = "tile.ring"() {depth = 2 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.vacate"(%r, %c) : (!tile.stages, !tile.position) -> ()

// -----

// sums: of how many CTAs
// EXPECT: ctas is 3, expected 1 or 2
%s = "tile.sums"() {beside = 0 : i64, ctas = 3 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>

// -----

// vacate: the leader's ring is as deep as this CTA's
// EXPECT: the cursor goes through 3 stages, the ring has 2
%r = "tile.ring"() {depth = 2 : i64, empty = 8 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%l = "tile.leader"(%r) : (!tile.stages) -> !tile.stages
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.vacate"(%l, %c) : (!tile.stages, !tile.position) -> ()

// -----

// ones: where to
// EXPECT: stores to !tile.buffer<array<i64: 1, 256>, i32, 0 : i64, 1 : i64>, expected a word of 128 rows
%w = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 256>, i32, 0 : i64, 1 : i64>
"tile.ones"(%w) {scale = "ue8m0"} : (!tile.buffer<array<i64: 1, 256>, i32, 0 : i64, 1 : i64>) -> ()

// -----

// cut_rows: a row a lane
// EXPECT: cuts 48 rows of 128 i8, expected rows by 32, of a swizzle's bytes each
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 48, 128>, i8, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.cut_rows"(%a, %c) {element = 3 : i64} : (!tile.buffer<array<i64: 48, 128>, i8, 128 : i64, 4 : i64>, !tile.position) -> ()

// cut_rows: an element of the row
// EXPECT: element 256 of 256
// CHANGE: : 48, 128> => : 64, 128>
// CHANGE: element = 3 => element = 256
