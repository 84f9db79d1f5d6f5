// RUN: %invalid none %s

// VALID
%t = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%a = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 132096 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%p = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%f = "arith.constant"() {value = false} : () -> i1
"tile.mma_sums"(%t, %p, %a, %b, %c, %f) {a_element = bf16, a_mn = 1 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = bf16, b_mn = 1 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>, !tile.position, i1) -> ()

// mma_sums: a flag
// EXPECT: a_mn is 2, expected 0 or 1
// CHANGE: , a_mn = 1 => , a_mn = 2

// mma_sums: a flag of B
// EXPECT: b_mn is 7, expected 0 or 1
// CHANGE: , b_mn = 1 => , b_mn = 7

// mma_sums: rows of A, which is [rows, K]
// EXPECT: accumulators of [128, 64] for 64 rows of A and 64 of B
// CHANGE: , a_mn = 1 => , a_mn = 0

// mma_sums: no swizzle
// EXPECT: K of A has rows of 256 bytes, no panels of a swizzle of 0
// CHANGE: 128>, bf16, 128 => 128>, bf16, 0

// mma_sums: steps along K
// EXPECT: 24 of K of A in steps of 16
// CHANGE: array<i64: 64 => array<i64: 24

// -----

// mma_sums: rows of A, which is [K, rows]
// EXPECT: accumulators of [128, 64] for 128 rows of A and 96 of B
%t = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%a = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 132096 : i64} : () -> !tile.buffer<array<i64: 64, 96>, bf16, 64 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%p = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%f = "arith.constant"() {value = false} : () -> i1
"tile.mma_sums"(%t, %p, %a, %b, %c, %f) {a_element = bf16, a_mn = 1 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = bf16, b_mn = 1 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 96>, bf16, 64 : i64, 4 : i64>, !tile.position, i1) -> ()

// -----

// mma_sums: K of A and B, one of them [K, rows]
// EXPECT: rows of A are 128 bytes, those of B 64
%t = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%a = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 132096 : i64} : () -> !tile.buffer<array<i64: 32, 64>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%p = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%f = "arith.constant"() {value = false} : () -> i1
"tile.mma_sums"(%t, %p, %a, %b, %c, %f) {a_element = bf16, a_mn = 0 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = bf16, b_mn = 1 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 32, 64>, bf16, 128 : i64, 4 : i64>, !tile.position, i1) -> ()

// -----

// mma_sums: 4 bits in bytes
// EXPECT: A is [K, rows] of i8, expected a type of 8, 16 or 32 bits
%t = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%a = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 128, 128>, i8, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 132096 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%p = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%f = "arith.constant"() {value = false} : () -> i1
"tile.mma_sums"(%t, %p, %a, %b, %c, %f) {a_element = f4E2M1FN, a_mn = 1 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = f8E4M3FN, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 128, 128>, i8, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position, i1) -> ()

// -----

// mma_sums: 6 bits in bytes
// EXPECT: B is [K, rows] of i8, expected a type of 8, 16 or 32 bits
%t = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%a = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 132096 : i64} : () -> !tile.buffer<array<i64: 128, 64>, i8, 64 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%p = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%f = "arith.constant"() {value = false} : () -> i1
"tile.mma_sums"(%t, %p, %a, %b, %c, %f) {a_element = f8E4M3FN, a_mn = 1 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = f6E3M2FN, b_mn = 1 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 128, 64>, i8, 64 : i64, 4 : i64>, !tile.position, i1) -> ()

// -----

// mma_sums: 32 bits, in a swizzle of 16-byte atoms
// EXPECT: A is [K, rows] of tf32, its swizzle keeps 16 bytes, expected 32
%t = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%a = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 32, 128>, tf32, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 132096 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%p = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%f = "arith.constant"() {value = false} : () -> i1
"tile.mma_sums"(%t, %p, %a, %b, %c, %f) {a_element = tf32, a_mn = 1 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = tf32, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 8 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 32, 128>, tf32, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 4 : i64>, !tile.position, i1) -> ()

// -----

// mma_sums: 16 bits, in a swizzle of 32-byte atoms
// EXPECT: A is [K, rows] of bf16, its swizzle keeps 32 bytes, expected 16
%t = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%a = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, array<i64: 128, 32>, 4 : i64>
%b = "tile.shared"() {offset = 132096 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%p = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%f = "arith.constant"() {value = false} : () -> i1
"tile.mma_sums"(%t, %p, %a, %b, %c, %f) {a_element = bf16, a_mn = 1 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = bf16, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 64, 128>, bf16, array<i64: 128, 32>, 4 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>, !tile.position, i1) -> ()

// -----

// mma_sums: 32 bits, K contiguous, in a swizzle of 32-byte atoms
// EXPECT: reads a tile whose swizzle keeps together 32 bytes, expected 16
%t = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%a = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 32, 128>, tf32, array<i64: 128, 32>, 4 : i64>
%b = "tile.shared"() {offset = 132096 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, array<i64: 128, 32>, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%p = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%f = "arith.constant"() {value = false} : () -> i1
"tile.mma_sums"(%t, %p, %a, %b, %c, %f) {a_element = tf32, a_mn = 1 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = tf32, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 8 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 32, 128>, tf32, array<i64: 128, 32>, 4 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, array<i64: 128, 32>, 4 : i64>, !tile.position, i1) -> ()

// -----

// mma_sums: panels
// EXPECT: K of B has rows of 64 bytes, no panels of a swizzle of 128
%t = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 0 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
%a = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E5M2, 128 : i64, 4 : i64>
%b = "tile.shared"() {offset = 132096 : i64} : () -> !tile.buffer<array<i64: 128, 64>, f8E5M2, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%p = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%f = "arith.constant"() {value = false} : () -> i1
"tile.mma_sums"(%t, %p, %a, %b, %c, %f) {a_element = f8E5M2, a_mn = 0 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = f8E5M2, b_mn = 1 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 128, 128>, f8E5M2, 128 : i64, 4 : i64>, !tile.buffer<array<i64: 128, 64>, f8E5M2, 128 : i64, 4 : i64>, !tile.position, i1) -> ()
