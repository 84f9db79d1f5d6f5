// RUN: %invalid none %s

// EXPECT: offset is 4, expected a multiple of 8
%ring = "tile.cut_ring"() {depth = 4 : i64, full = 1 : i64, offset = 4 : i64} : () -> !tile.stages

// -----

// EXPECT: depth is 33, expected 1 to 32: the rounds of the stages are bits
%ring = "tile.cut_ring"() {depth = 33 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages

// -----

// EXPECT: does not lead through a tile.cut_ring
%cut = "arith.constant"() {value = 1 : i1} : () -> i1
%ring = "tile.ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%own = "tile.detour"(%ring, %ring, %cut) {operandSegmentSizes = array<i32: 1, 1, 1>} : (!tile.stages, !tile.stages, i1) -> !tile.stages

// -----

// EXPECT: does not lead to a tile.ring: of CTAs that multiply together each cuts its own tiles
%cut = "arith.constant"() {value = 1 : i1} : () -> i1
%ring = "tile.ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%leader = "tile.leader"(%ring) : (!tile.stages) -> !tile.stages
%through = "tile.cut_ring"() {depth = 4 : i64, full = 1 : i64, offset = 64 : i64} : () -> !tile.stages
%own = "tile.detour"(%leader, %through, %cut) {operandSegmentSizes = array<i32: 1, 1, 1>} : (!tile.stages, !tile.stages, i1) -> !tile.stages

// -----

// EXPECT: leads to 4 stages through 3
%cut = "arith.constant"() {value = 1 : i1} : () -> i1
%ring = "tile.ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%through = "tile.cut_ring"() {depth = 3 : i64, full = 1 : i64, offset = 64 : i64} : () -> !tile.stages
%own = "tile.detour"(%ring, %through, %cut) {operandSegmentSizes = array<i32: 1, 1, 1>} : (!tile.stages, !tile.stages, i1) -> !tile.stages

// -----

// EXPECT: the cursor goes through 3 stages, the ring has 4
%through = "tile.cut_ring"() {depth = 4 : i64, full = 1 : i64, offset = 64 : i64} : () -> !tile.stages
%at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.wait"(%through, %at) : (!tile.stages, !tile.position) -> ()

// -----

// EXPECT: cuts rows of 128 bytes swizzled over 64, expected its swizzle
%low = "arith.constant"() {value = 1 : i32} : () -> i32
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 64 : i64, 4 : i64>
%at = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.cut_k"(%a, %at, %low, %low) {bits = 8 : i64, each = 16 : i64, mn = 0 : i64} : (!tile.buffer<array<i64: 128, 128>, f8E4M3FN, 64 : i64, 4 : i64>, !tile.position, i32, i32) -> ()

// EXPECT: cuts rows of 96 bytes swizzled over 64, expected a multiple of its swizzle
// CHANGE: 128, 128>, => 128, 96>,
// CHANGE: i64, mn = 0 => i64, mn = 1

// EXPECT: 32 elements of 8 bits in 16 bytes
// CHANGE: , 64 : i64 => , 128 : i64
// CHANGE: , each = 16 => , each = 32

// EXPECT: wraps rows of 128 bytes swizzled over 64, expected whole 16, or its swizzle
// CHANGE: 8 : i64, each = 16 : i64, mn = 0 => 8
// CHANGE: tile.cut_k => tile.wrap_k

// -----

// EXPECT: expected words of rows, or tiles of a blocked tensor
%low = "arith.constant"() {value = 1 : i32} : () -> i32
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>
%at = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.cut_words"(%a, %at, %low, %low) {unit = 32 : i64} : (!tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position, i32, i32) -> ()

// -----

// EXPECT: the cursor goes through 3 stages, the buffer has 4
%low = "arith.constant"() {value = 1 : i32} : () -> i32
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>
%at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.wrap_k"(%a, %at, %low, %low) {bits = 8 : i64} : (!tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position, i32, i32) -> ()

// -----

// EXPECT: lag is 2
%ring = "tile.ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%at = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.pass_on"(%ring, %at) {lag = 2 : i64} : (!tile.stages, !tile.position) -> ()

// -----

// EXPECT: interleaves rows of 64 bytes swizzled over 64, expected 128 of its swizzle
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 16, 64>, f8E4M3FN, 64 : i64, 4 : i64>
%at = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.interleave_k"(%a, %at) : (!tile.buffer<array<i64: 16, 64>, f8E4M3FN, 64 : i64, 4 : i64>, !tile.position) -> ()

// EXPECT: pairs elements of f8E4M3FN, expected 16 bits
// CHANGE: ) : (!tile => ) {apart} : (!tile
// CHANGE: , 64 => , 128
