// RUN: %invalid none %s

// EXPECT: makes f16 of bf16, which is not exact
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 32>, f16, 64 : i64, 2 : i64>
%f = "tile.folds"() {kind = "sum"} : () -> !tile.folded_rows<2 : i64>
"tile.transform"(%a, %b, %at, %f) ({
^bb0(%x: f32):
  "tile.yield"(%x) : (f32) -> ()
}) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 0>, stored = bf16} : (!tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 32>, f16, 64 : i64, 2 : i64>, !tile.position, !tile.folded_rows<2 : i64>) -> ()

// -----

// EXPECT: makes tf32 of i32, which is not exact
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>
%f = "tile.folds"() {kind = "sum"} : () -> !tile.folded_rows<4 : i64>
"tile.transform"(%a, %b, %at, %f) ({
^bb0(%x: f32):
  "tile.yield"(%x, %x) : (f32, f32) -> ()
}) {computed = i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 0>, stored = bf16} : (!tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, !tile.position, !tile.folded_rows<4 : i64>) -> ()

// EXPECT: computes with i32, which f32 does not hold
// CHANGE: stored = bf16 => stored = i32
// CHANGE: computed = i32 => computed = bf16

// -----

// EXPECT: expected as many elements, not swizzled
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 16>, bf16, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>
%f = "tile.folds"() {kind = "sum"} : () -> !tile.folded_rows<4 : i64>
"tile.transform"(%a, %b, %at, %f) ({
^bb0(%x: f32):
  "tile.yield"(%x) : (f32) -> ()
}) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 0>, stored = bf16} : (!tile.buffer<array<i64: 64, 16>, bf16, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, !tile.position, !tile.folded_rows<4 : i64>) -> ()

// EXPECT: folds into !tile.folded_rows<3 : i64>, expected 4 rows of a thread
// CHANGE: 16>, bf16, => 32>, bf16,
// CHANGE: folded_rows<4 => folded_rows<3

// EXPECT: body yields 1 values, expected 2
// CHANGE: operandSegmentSizes => computed = bf16, operandSegmentSizes
// CHANGE: i64: 64, 16 => i64: 64, 32

// -----

// EXPECT: body yields 0 values, expected 1
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>
%f = "tile.folds"() {kind = "sum"} : () -> !tile.folded_rows<4 : i64>
"tile.transform"(%a, %b, %at, %f) ({
^bb0(%x: f32):
  "tile.yield"() : () -> ()
}) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 0>, stored = bf16} : (!tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, !tile.position, !tile.folded_rows<4 : i64>) -> ()

// -----

// EXPECT: kind is "mean", expected sum, max, min
%f = "tile.folds"() {kind = "mean"} : () -> !tile.folded_rows<4 : i64>

// -----

// EXPECT: stores !tile.folded_rows<4 : i64> of !tile.buffer<array<i64: 128, 32>, tf32, 128 : i64, 2 : i64>, expected as many rows
%n = "arith.constant"() {value = 0 : i32} : () -> i32
%s = "arith.constant"() {value = 1 : i64} : () -> i64
%m = "memref.alloc"() {operandSegmentSizes = array<i32: 0, 0>} : () -> memref<8xf32>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 32>, tf32, 128 : i64, 2 : i64>
%f = "tile.folds"() {kind = "sum"} : () -> !tile.folded_rows<4 : i64>
"tile.store_folds"(%f, %m, %b, %n, %n, %s) ({
^bb0(%x: f32):
  "tile.yield"(%x) : (f32) -> ()
}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>} : (!tile.folded_rows<4 : i64>, memref<8xf32>, !tile.buffer<array<i64: 128, 32>, tf32, 128 : i64, 2 : i64>, i32, i32, i64) -> ()

// -----

// EXPECT: has 300 f32 a tile, expected 4 for each of 64 rows
%n = "arith.constant"() {value = 0 : i32} : () -> i32
%m = "memref.alloc"() {operandSegmentSizes = array<i32: 0, 0>} : () -> memref<8xf32>
%c = "memref.alloc"() {operandSegmentSizes = array<i32: 0, 0>} : () -> memref<8xi32>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>
%f = "tile.folds"() {kind = "sum"} : () -> !tile.folded_rows<4 : i64>
%l = "tile.sum_folds"(%f, %b, %m, %c, %n, %n) {counter = 0 : i64, counters_of_tile = 4 : i64, offset = 64 : i64, split = 4 : i64, words = 300 : i64} : (!tile.folded_rows<4 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, memref<8xf32>, memref<8xi32>, i32, i32) -> i1

// -----

// EXPECT: along is m, expected rows or k
%n = "arith.constant"() {value = 0 : i32} : () -> i32
%s = "arith.constant"() {value = 1 : i64} : () -> i64
%m = "memref.alloc"() {operandSegmentSizes = array<i32: 0, 0>} : () -> memref<8xf32>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 32>, tf32, 128 : i64, 2 : i64>
%x = "tile.beside"(%m, %b, %n, %n, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, along = "m"} : (memref<8xf32>, !tile.buffer<array<i64: 128, 32>, tf32, 128 : i64, 2 : i64>, i32, i32, i64) -> !tile.element_inputs

// EXPECT: expected a memref and a swizzled tile
// CHANGE: 128 : i64, => 0 : i64,
// CHANGE: along = "m => along = "k

// -----

// EXPECT: for 64 rows of 128, 8 chunks each
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
%s = "tile.shared"() {offset = 131072 : i64} : () -> !tile.buffer<array<i64: 1, 63>, f32, 0 : i64, 2 : i64>
"tile.transform"(%a, %b, %at, %s) ({
^bb0(%x: f32):
  "tile.yield"(%x) : (f32) -> ()
}) {computed = f8E4M3FN, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, scale = "f32", stored = bf16} : (!tile.buffer<array<i64: 64, 128>, bf16, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 1, 63>, f32, 0 : i64, 2 : i64>) -> ()

// EXPECT: for 64 rows of 128, 8 chunks each
// CHANGE: , 63>, f32 => , 64>, f32
// CHANGE: array<i64: 1 => array<i64: 3

// EXPECT: quantises 6 rows of 128, expected a type, and whole warps
// CHANGE: : 64, 128> => : 6, 128>
// CHANGE: i64: 1, 63 => i64: 1, 6

// EXPECT: has new scales of no type
// CHANGE: scale = "f32", stored => stored
// CHANGE: i64: 1, 63 => i64: 1, 64

// -----

// EXPECT: has factors or zero points, and quantises nothing
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
%s = "tile.shared"() {offset = 131072 : i64} : () -> !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 2 : i64>
"tile.transform"(%a, %b, %at, %s) ({
^bb0(%x: f32):
  "tile.yield"(%x) : (f32) -> ()
}) {computed = f8E4M3FN, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0>, stored = bf16} : (!tile.buffer<array<i64: 64, 128>, bf16, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 2 : i64>) -> ()

// -----

// EXPECT: folds wave 1 into !tile.folded_rows<2 : i64>
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 32>, bf16, 0 : i64, 2 : i64>
%f = "tile.folds"() {kind = "sum"} : () -> !tile.folded_rows<2 : i64>
%l = "tile.load_stored"(%b, %at) {a_wave = 1 : i64, count = 1 : i64, made = tf32, number = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>, waves = 2 : i64} : (!tile.buffer<array<i64: 128, 32>, bf16, 0 : i64, 2 : i64>, !tile.position) -> !tile.slice<array<i64: 64, 32>, bf16, "a">
%a = "tile.transformed"(%l, %f) ({
^bb0(%x: f32):
  "tile.yield"(%x) : (f32) -> ()
}) {first = 0 : i64, operandSegmentSizes = array<i32: 1, 0, 1, 0, 0>, wave = 1 : i64} : (!tile.slice<array<i64: 64, 32>, bf16, "a">, !tile.folded_rows<2 : i64>) -> !tile.slice<array<i64: 64, 32>, tf32, "a">

// -----

// EXPECT: asks for the type of what is made along K for rows of fragments, and there alone
%n = "arith.constant"() {value = 0 : i32} : () -> i32
%s = "arith.constant"() {value = 1 : i64} : () -> i64
%m = "memref.alloc"() {operandSegmentSizes = array<i32: 0, 0>} : () -> memref<8xf32>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 32>, bf16, 0 : i64, 2 : i64>
%x = "tile.beside"(%m, %b, %n, %n, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, along = "k", waves = 2 : i64} : (memref<8xf32>, !tile.buffer<array<i64: 128, 32>, bf16, 0 : i64, 2 : i64>, i32, i32, i64) -> !tile.element_inputs

// -----

// EXPECT: loads ahead, but not along K for rows of fragments
%n = "arith.constant"() {value = 0 : i32} : () -> i32
%s = "arith.constant"() {value = 1 : i64} : () -> i64
%m = "memref.alloc"() {operandSegmentSizes = array<i32: 0, 0>} : () -> memref<8xf32>
%b = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 32>, tf32, 128 : i64, 2 : i64>
%x = "tile.beside"(%m, %b, %n, %n, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, along = "k"} : (memref<8xf32>, !tile.buffer<array<i64: 128, 32>, tf32, 128 : i64, 2 : i64>, i32, i32, i64) -> !tile.element_inputs
%y = "tile.beside"(%m, %b, %n, %n, %s, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>, along = "k"} : (memref<8xf32>, !tile.buffer<array<i64: 128, 32>, tf32, 128 : i64, 2 : i64>, i32, i32, i64, !tile.element_inputs) -> !tile.element_inputs
