// RUN: %invalid none %s

// load: rows of a tile with K outermost
// EXPECT: 48 rows for each warp of a tile of 128 rows
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%s = "tile.multiplicand"() : () -> !tile.slice<array<i64: 48, 16>, bf16, "a">
"tile.load"(%s, %a, %c) {step = 0 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 48, 16>, bf16, "a">, !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.position) -> ()

// -----

// load: rows that are transposed at once
// EXPECT: transposes 8 rows, expected rows by 16
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%s = "tile.multiplicand"() : () -> !tile.slice<array<i64: 8, 16>, bf16, "b">
"tile.load"(%s, %a, %c) {step = 0 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 8, 16>, bf16, "b">, !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.position) -> ()

// -----

// load: packed elements transposed
// EXPECT: transposes slices of 64 elements of K, packed to i8
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, i8, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%s = "tile.multiplicand"() : () -> !tile.slice<array<i64: 16, 64>, f4E2M1FN, "b">
"tile.load"(%s, %a, %c) {step = 0 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 16, 64>, f4E2M1FN, "b">, !tile.buffer<array<i64: 64, 64>, i8, 128 : i64, 4 : i64>, !tile.position) -> ()

// -----

// load: a slice beyond the K of a tile
// EXPECT: step 0 of 32 bytes is outside rows of 16
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 8, 128>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%s = "tile.multiplicand"() : () -> !tile.slice<array<i64: 16, 16>, bf16, "a">
"tile.load"(%s, %a, %c) {step = 0 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 16, 16>, bf16, "a">, !tile.buffer<array<i64: 8, 128>, bf16, 128 : i64, 4 : i64>, !tile.position) -> ()
