// RUN: %invalid none %s

// EXPECT: turns is 1, expected at least 2
%ring = "tile.turn_ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64, turns = 1 : i64} : () -> !tile.stages

// -----

// EXPECT: offset is 4, expected a multiple of 8
%ring = "tile.turn_ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 4 : i64, turns = 2 : i64} : () -> !tile.stages

// -----

// EXPECT: depth is 33, expected 1 to 32: the rounds of the stages are bits
%ring = "tile.turn_ring"() {depth = 33 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64, turns = 2 : i64} : () -> !tile.stages

// -----

// EXPECT: turn goes through 3, the ring has 2 turns
%ring = "tile.turn_ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64, turns = 2 : i64} : () -> !tile.stages
%turn = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
%own = "tile.of_turn"(%ring, %turn) : (!tile.stages, !tile.position) -> !tile.stages

// -----

// EXPECT: ring is not made by tile.turn_ring, which has barriers for each turn
%ring = "tile.ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%turn = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%own = "tile.of_turn"(%ring, %turn) : (!tile.stages, !tile.position) -> !tile.stages

// -----

// EXPECT: the cursor goes through 3 stages, the ring has 4
%ring = "tile.turn_ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64, turns = 2 : i64} : () -> !tile.stages
%turn = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
%own = "tile.of_turn"(%ring, %turn) : (!tile.stages, !tile.position) -> !tile.stages
%at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.wait"(%own, %at) : (!tile.stages, !tile.position) -> ()

// -----

// EXPECT: buffers and rings end at byte 96, beyond the shared memory of 64 bytes
"tile.kernel"() ({
^bb0:
  %ring = "tile.turn_ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64, turns = 2 : i64} : () -> !tile.stages
}) {sym_name = "k", threads = 384 : i64, cluster = array<i64: 1, 1>, shared_bytes = 64 : i64, arguments = []} : () -> ()

// -----

// EXPECT: 2 turns in a role of 12 warps, expected 8: a warpgroup each
"tile.kernel"() ({
^bb0(%m: i32, %n: i32):
  "tile.role"() ({
    "tile.tiles"(%m, %n) ({
    ^bb1(%m0: i32, %n0: i32):
    }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 64, 64>, turns = 2 : i64} : (i32, i32) -> ()
  }) {label = "consumer", registers = 160 : i64, warps = array<i64: 0, 12>} : () -> ()
}) {sym_name = "k", threads = 512 : i64, cluster = array<i64: 1, 1>, shared_bytes = 96 : i64, arguments = [{kind = "dim"}, {kind = "dim"}]} : () -> ()

// -----

// EXPECT: a run of 4 tiles with 2 turns and 1 parts of K
func.func @f(%m: i32, %n: i32) {
  "tile.tiles"(%m, %n) ({
  ^bb0(%m0: i32, %n0: i32):
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", run = 4 : i64, split = 1 : i64, tile = array<i64: 64, 64>, turns = 2 : i64} : (i32, i32) -> ()
  return
}

// EXPECT: runs of 4 tiles and 1 turns of who takes one alone
// CHANGE: band = 8 : => alone, band = 8 :
// CHANGE: , turns = 2 => , turns = 1

// EXPECT: turns is 0, expected at least 1
// CHANGE: run = 4 : i64, split => split
// CHANGE: , turns = 2 => , turns = 0
