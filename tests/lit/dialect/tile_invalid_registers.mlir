// RUN: %invalid none %s

// VALID
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%s = "tile.multiplicand"() : () -> !tile.slice<array<i64: 16, 16>, bf16, "a">
"tile.load"(%s, %a, %c) {step = 0 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 16, 16>, bf16, "a">, !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.position) -> ()

// load: rows of a tile with K outermost
// EXPECT: 48 rows for each warp of a tile of 128 rows
// CHANGE: array<i64: 16 => array<i64: 48

// load: rows that are transposed at once
// EXPECT: transposes 8 rows, expected rows by 16
// CHANGE: : 16, 16>, => : 8, 16>,
// CHANGE: , bf16, "a => , bf16, "b

// load: a slice beyond the K of a tile
// EXPECT: step 0 of 16 elements of K is outside 8
// CHANGE: array<i64: 64 => array<i64: 8

// -----

// load: what the tile's swizzle keeps together
// EXPECT: reads a tile whose swizzle keeps together 32 bytes, expected 16
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, tf32, array<i64: 128, 32>, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%s = "tile.multiplicand"() : () -> !tile.slice<array<i64: 16, 8>, tf32, "b">
"tile.load"(%s, %a, %c) {step = 0 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 16, 8>, tf32, "b">, !tile.buffer<array<i64: 64, 128>, tf32, array<i64: 128, 32>, 4 : i64>, !tile.position) -> ()

// -----

// load: more transposed elements than an instruction takes
// EXPECT: transposes slices of 128 elements of K, of 4 bits, from i8
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, i8, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%s = "tile.multiplicand"() : () -> !tile.slice<array<i64: 16, 128>, f4E2M1FN, "b">
"tile.load"(%s, %a, %c) {step = 0 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 16, 128>, f4E2M1FN, "b">, !tile.buffer<array<i64: 64, 64>, i8, 128 : i64, 4 : i64>, !tile.position) -> ()

// -----

// multiplicand: side
// EXPECT: side c, expected a or b
%a = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "c">

// -----

// multiplicand: rows of A
// EXPECT: 24 rows by 32 of K, expected rows by 16
%a = "tile.multiplicand"() : () -> !tile.slice<array<i64: 24, 32>, f8E4M3FN, "a">

// -----

// multiplicand: rows of B
// EXPECT: 12 rows by 32 of K, expected rows by 8
%b = "tile.multiplicand"() : () -> !tile.slice<array<i64: 12, 32>, f8E4M3FN, "b">

// -----

// multiplicand: K
// EXPECT: 16 rows by 0 of K, expected rows by 16
%a = "tile.multiplicand"() : () -> !tile.slice<array<i64: 16, 0>, f8E4M3FN, "a">

// -----

// VALID
%a = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">
%t = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.load"(%a, %t, %c) {step = 0 : i64, transpose = 0 : i64} : (!tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">, !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position) -> ()

// load: step
// EXPECT: step is -1, expected at least 0
// CHANGE: = 0 : i64, => = -1 : i64,

// load: transpose
// EXPECT: transpose is 2, expected 0 or 1
// CHANGE: transpose = 0 => transpose = 2

// load: stages
// EXPECT: the cursor goes through 4 stages, the buffer has 3
// CHANGE: 128 : i64, 4 => 128 : i64, 3

// load: rows
// EXPECT: 48 rows for each warp of a tile of 128 rows
// CHANGE: array<i64: 32 => array<i64: 48

// load: element
// EXPECT: loads bf16 into registers for f8E4M3FN
// CHANGE: 128, 128>, => 128, 64>,
// CHANGE: f8E4M3FN, 128 => bf16, 128

// load: bytes for bytes
// EXPECT: loads i8 into registers for f8E4M3FN
// CHANGE: f8E4M3FN, 128 => i8, 128

// load: past the row
// EXPECT: step 4 of 32 bytes is outside rows of 128
// CHANGE: = 0 : i64, => = 4 : i64,

// -----

// load: past the row of a tile with K outermost
// EXPECT: step 4 of 16 elements of K is outside 64
%a = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 16>, bf16, "a">
%t = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.load"(%a, %t, %c) {step = 4 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 32, 16>, bf16, "a">, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>, !tile.position) -> ()

// -----

// VALID
%w = "tile.words"() : () -> !tile.scale_words<array<i64: 1, 32>, "a">
%t = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.load_words"(%w, %t, %c) : (!tile.scale_words<array<i64: 1, 32>, "a">, !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 4 : i64>, !tile.position) -> ()

// load_words: words
// EXPECT: loads [1, 32] of a stage of [2, 128] words
// CHANGE: i64: 1, 128 => i64: 2, 128

// load_words: rows
// EXPECT: loads [1, 48] of a stage of [1, 128] words
// CHANGE: i64: 1, 32 => i64: 1, 48

// load_words: element
// EXPECT: a stage of i8, expected words of 32 bits
// CHANGE: , 128>, i32 => , 128>, i8

// load_words: stages
// EXPECT: the cursor goes through 4 stages, the buffer has 2
// CHANGE: 0 : i64, 4 => 0 : i64, 2

// -----

// VALID
%s = "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 32>, "warp">
%a = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">
%b = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "b">
"tile.multiply"(%s, %a, %b) {a_byte = -1 : i64, accumulate = 1 : i64, b_byte = -1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = "ue8m0"}
  : (!tile.accumulator<array<i64: 32, 32>, "warp">, !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">, !tile.slice<array<i64: 32, 32>, f8E4M3FN, "b">) -> ()

// multiply: byte
// EXPECT: a_byte is -2, expected at least -1
// CHANGE: a_byte = -1 => a_byte = -2

// multiply: accumulate
// EXPECT: accumulate is 2, expected 0 or 1
// CHANGE: accumulate = 1 => accumulate = 2

// multiply: K
// EXPECT: 32 elements of K of A and 16 of B
// CHANGE: 32>, f8E4M3FN, "b => 16>, f8E4M3FN, "b

// multiply: a byte of no words
// EXPECT: scale byte 0 without scale words
// CHANGE: a_byte = -1 => a_byte = 0

// -----

// multiply: space
// EXPECT: an accumulator in "registers", expected a warp's
%s = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 32>, "registers">
%a = "tile.multiplicand"() : () -> !tile.slice<array<i64: 64, 32>, f8E4M3FN, "a">
%b = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "b">
"tile.multiply"(%s, %a, %b) {a_byte = -1 : i64, accumulate = 1 : i64, b_byte = -1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = "ue8m0"}
  : (!tile.accumulator<array<i64: 64, 32>, "registers">, !tile.slice<array<i64: 64, 32>, f8E4M3FN, "a">, !tile.slice<array<i64: 32, 32>, f8E4M3FN, "b">) -> ()

// multiply: rows of A
// EXPECT: an accumulator of 32 by 32, of 64 rows of A and 32 of B
// CHANGE: registers" => warp"
// CHANGE: 64, 32>, " => 32, 32>, "

// -----

// multiply: rows of B
// EXPECT: an accumulator of 32 by 32, of 32 rows of A and 16 of B
%s = "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 32>, "warp">
%a = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">
%b = "tile.multiplicand"() : () -> !tile.slice<array<i64: 16, 32>, f8E4M3FN, "b">
"tile.multiply"(%s, %a, %b) {a_byte = -1 : i64, accumulate = 1 : i64, b_byte = -1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = "ue8m0"}
  : (!tile.accumulator<array<i64: 32, 32>, "warp">, !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">, !tile.slice<array<i64: 16, 32>, f8E4M3FN, "b">) -> ()

// -----

// multiply: words without a byte
// EXPECT: scale byte -1 with scale words
%s = "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 32>, "warp">
%a = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">
%b = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "b">
%w = "tile.words"() : () -> !tile.scale_words<array<i64: 1, 32>, "b">
"tile.multiply"(%s, %a, %b, %w) {a_byte = -1 : i64, accumulate = 1 : i64, b_byte = -1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>, scale = "ue8m0"}
  : (!tile.accumulator<array<i64: 32, 32>, "warp">, !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">, !tile.slice<array<i64: 32, 32>, f8E4M3FN, "b">, !tile.scale_words<array<i64: 1, 32>, "b">) -> ()

// -----

// multiply: rows of the words
// EXPECT: scale byte 0 of 32 rows in words of [1, 16]
%s = "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 32>, "warp">
%a = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">
%b = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "b">
%v = "tile.words"() : () -> !tile.scale_words<array<i64: 1, 16>, "a">
"tile.multiply"(%s, %a, %b, %v) {a_byte = 0 : i64, accumulate = 1 : i64, b_byte = -1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, scale = "ue8m0"}
  : (!tile.accumulator<array<i64: 32, 32>, "warp">, !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">, !tile.slice<array<i64: 32, 32>, f8E4M3FN, "b">, !tile.scale_words<array<i64: 1, 16>, "a">) -> ()

// multiply: byte of the words
// EXPECT: scale byte 4 of 32 rows in words of [1, 32]
// CHANGE: , 16>, "a" => , 32>, "a"
// CHANGE: a_byte = 0 => a_byte = 4

// -----

// byte_scales: rows
// EXPECT: rows is 0, expected at least 1
%r = "tile.byte_scales"() {rows = 0 : i64, warps = 3 : i64, words = 1 : i64} : () -> !tile.scale_bytes

// -----

// byte_scales: words
// EXPECT: words is 0, expected at least 1
%r = "tile.byte_scales"() {rows = 128 : i64, warps = 3 : i64, words = 0 : i64} : () -> !tile.scale_bytes

// -----

// byte_scales: warps
// EXPECT: warps is 0, expected at least 1
%r = "tile.byte_scales"() {rows = 128 : i64, warps = 0 : i64, words = 1 : i64} : () -> !tile.scale_bytes

// -----

// VALID
func.func @p(%A: memref<?x?xi8>, %i: i64, %x: i32) {
  %r = "tile.byte_scales"() {rows = 128 : i64, warps = 3 : i64, words = 1 : i64} : () -> !tile.scale_bytes
  "tile.load_bytes"(%r, %A, %i, %i, %x, %x, %x, %x) {block = 32 : i64, bytes = 4 : i64, layout = "row", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, row_block = 1 : i64, unit = 32 : i64, whole = 1 : i64, pads = 0 : i64}
    : (!tile.scale_bytes, memref<?x?xi8>, i64, i64, i32, i32, i32, i32) -> ()
  return
}

// load_bytes: bytes
// EXPECT: bytes is 0, expected at least 1
// CHANGE: , bytes = 4 => , bytes = 0

// load_bytes: unit
// EXPECT: unit is 0, expected at least 1
// CHANGE: , unit = 32 => , unit = 0

// load_bytes: block
// EXPECT: block is 0, expected at least 1
// CHANGE: block = 32 => block = 0

// load_bytes: row_block
// EXPECT: row_block is 0, expected at least 1
// CHANGE: 1 : i64, unit => 0 : i64, unit

// load_bytes: pads
// EXPECT: pads is 1 and whole 0: bytes that are loaded one by one are none that pad
// CHANGE: = 0 : i64} => = 1 : i64}
// CHANGE: , whole = 1 => , whole = 0

// load_bytes: whole
// EXPECT: whole is 2, expected 0 or 1
// CHANGE: , whole = 1 => , whole = 2

// load_bytes: layout
// EXPECT: layout is "tiles", expected row, col, blocked, packed
// CHANGE: layout = "row => layout = "tiles

// load_bytes: room
// EXPECT: 5 bytes into 1 words
// CHANGE: , bytes = 4 => , bytes = 5

// load_bytes: pages
// EXPECT: page is 0, expected at least 1
// CHANGE: %x, %x, %x, %x) => %x, %x, %x, %x, %i)
// CHANGE: 1, 0>, row_block => 1, 1>, page = 0 : i64, row_block
// CHANGE: i32, i32, i32, i32) => i32, i32, i32, i32, i64)

// load_bytes: source
// EXPECT: reads scales from i64, expected a memref
// CHANGE: memref<?x?xi8> => i64

// -----

// VALID
%r = "tile.byte_scales"() {rows = 128 : i64, warps = 3 : i64, words = 1 : i64} : () -> !tile.scale_bytes
%t = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.store_bytes"(%r, %t, %c) : (!tile.scale_bytes, !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 4 : i64>, !tile.position) -> ()

// store_bytes: words
// EXPECT: stores 1 words of 128 rows in !tile.buffer<array<i64: 2, 128>
// CHANGE: array<i64: 1 => array<i64: 2

// store_bytes: rows
// EXPECT: stores scales of 128 rows in !tile.buffer<array<i64: 1, 64>
// CHANGE: i64: 1, 128 => i64: 1, 64

// store_bytes: stages
// EXPECT: the cursor goes through 4 stages, the buffer has 3
// CHANGE: 0 : i64, 4 => 0 : i64, 3

// -----

// cut: elements that share bytes
// EXPECT: cuts 32 elements of f4E2M1FN, expected 32 bytes of packed ones
func.func @cut(%last: i1) {
  %s = "tile.multiplicand"() : () -> !tile.slice<array<i64: 16, 32>, f4E2M1FN, "a">
  "tile.cut"(%s, %last) {element = 0 : i64} : (!tile.slice<array<i64: 16, 32>, f4E2M1FN, "a">, i1) -> ()
  return
}

// cut: an element of the slice
// EXPECT: element 64 of 64
// CHANGE: : 16, 32>, => : 16, 64>,
// CHANGE: element = 0 => element = 64

// -----

// EXPECT: rows from 56 on of a tile of 64, expected a multiple of 16
%s = "tile.multiplicand"() : () -> !tile.slice<array<i64: 16, 16>, bf16, "a">
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.load"(%s, %a, %c) {step = 0 : i64, transpose = 0 : i64, first = 56 : i64} : (!tile.slice<array<i64: 16, 16>, bf16, "a">, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 4 : i64>, !tile.position) -> ()
