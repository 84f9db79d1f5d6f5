// RUN: %invalid none %s

// EXPECT: converts bf16 to f8E4M3FN, which is not exact
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
"tile.convert"(%a, %b, %at) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, stored = bf16} : (!tile.buffer<array<i64: 64, 128>, bf16, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position) -> ()

// -----

// EXPECT: expected as many elements, not swizzled
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 16>, i8, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
"tile.convert"(%a, %b, %at) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, stored = f4E2M1FN} : (!tile.buffer<array<i64: 64, 16>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position) -> ()

// -----

// EXPECT: converts to rows of 64 bytes, expected those of the swizzle
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 16>, i8, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 32>, bf16, 128 : i64, 2 : i64>
"tile.convert"(%a, %b, %at) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, stored = f4E2M1FN} : (!tile.buffer<array<i64: 64, 16>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 32>, bf16, 128 : i64, 2 : i64>, !tile.position) -> ()

// -----

// EXPECT: has factors
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
%f = "tile.shared"() {offset = 131072 : i64} : () -> !tile.buffer<array<i64: 16, 64>, f32, 0 : i64, 2 : i64>
"tile.convert"(%a, %b, %at, %f) {operandSegmentSizes = array<i32: 1, 1, 1, 1>, stored = f4E2M1FN} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 16, 64>, f32, 0 : i64, 2 : i64>) -> ()

// -----

// EXPECT: turns
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 8>, f8E4M3FN, 0 : i64, 2 : i64>
%b = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 8, 128>, f8E4M3FN, 128 : i64, 2 : i64>
"tile.convert"(%a, %b, %at) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, stored = f8E4M3FN, turned} : (!tile.buffer<array<i64: 128, 8>, f8E4M3FN, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 8, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position) -> ()

// -----

// EXPECT: of is 1, expected at least 2
%at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%own = "tile.own_stage"(%at) {of = 1 : i64} : (!tile.position) -> i1
