// RUN: %invalid none %s

// stagger: cycles
// EXPECT: cycles is 0, expected at least 1
func.func @p() {
  "tile.stagger"() {cycles = 0 : i64} : () -> ()
  return
}

// -----

// responses: offset
// EXPECT: offset 8 is not a multiple of 16, the size of a response
func.func @p() {
  %r = "tile.responses"() {offset = 8 : i64} : () -> !tile.response_slots<3 : i64>
  return
}

// responses: stages
// EXPECT: has 0 stages, expected at least 1
// CHANGE: 8 : i64} : => 0 : i64} :
// CHANGE: response_slots<3 => response_slots<0

// -----

// kernel: responses beyond its shared memory
// EXPECT: buffers and rings end at byte 64, beyond the shared memory of 48 bytes
"tile.kernel"() ({
  %r = "tile.responses"() {offset = 16 : i64} : () -> !tile.response_slots<3 : i64>
}) {sym_name = "k", threads = 128 : i64, cluster = array<i64: 1, 1>, shared_bytes = 48 : i64, arguments = []} : () -> ()

// -----

// try_cancel: place
// EXPECT: is not in the body of a tile.tiles
func.func @p() {
  %ring = "tile.ring"() {offset = 0 : i64, depth = 3 : i64, full = 1 : i64, empty = 12 : i64} : () -> !tile.stages
  %r = "tile.responses"() {offset = 48 : i64} : () -> !tile.response_slots<3 : i64>
  %c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.try_cancel"(%ring, %c, %r) : (!tile.stages, !tile.position, !tile.response_slots<3 : i64>) -> ()
  return
}

// -----

// query_cancel: once for each tile, not for each K block
// EXPECT: is not in the body of a tile.tiles
func.func @p(%m: i32, %n: i32) {
  %ring = "tile.ring"() {offset = 0 : i64, depth = 3 : i64, full = 1 : i64, empty = 12 : i64} : () -> !tile.stages
  %r = "tile.responses"() {offset = 48 : i64} : () -> !tile.response_slots<3 : i64>
  %c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.tiles"(%m, %n) ({
  ^bb0(%m0: i32, %n0: i32):
    "tile.steps"(%m) ({
    ^bb0(%k0: i32):
      %next = "tile.query_cancel"(%ring, %c, %r) : (!tile.stages, !tile.position, !tile.response_slots<3 : i64>) -> i32
    }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 128 : i64, unroll = 1 : i64} : (i32) -> ()
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 128, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}

// -----

// query_cancel: responses of another ring
// EXPECT: the cursor goes through 3 stages, the buffer has 2
func.func @p(%m: i32, %n: i32) {
  %ring = "tile.ring"() {offset = 0 : i64, depth = 3 : i64, full = 1 : i64, empty = 12 : i64} : () -> !tile.stages
  %r = "tile.responses"() {offset = 48 : i64} : () -> !tile.response_slots<2 : i64>
  %c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.tiles"(%m, %n) ({
  ^bb0(%m0: i32, %n0: i32):
    %next = "tile.query_cancel"(%ring, %c, %r) : (!tile.stages, !tile.position, !tile.response_slots<2 : i64>) -> i32
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 128, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}

// -----

// tiles: which of two responses would be the next tile?
// EXPECT: body has 2 tile.query_cancel, expected at most 1
func.func @p(%m: i32, %n: i32) {
  %ring = "tile.ring"() {offset = 0 : i64, depth = 3 : i64, full = 1 : i64, empty = 12 : i64} : () -> !tile.stages
  %r = "tile.responses"() {offset = 48 : i64} : () -> !tile.response_slots<3 : i64>
  %c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.tiles"(%m, %n) ({
  ^bb0(%m0: i32, %n0: i32):
    %next = "tile.query_cancel"(%ring, %c, %r) : (!tile.stages, !tile.position, !tile.response_slots<3 : i64>) -> i32
    %more = "tile.query_cancel"(%ring, %c, %r) : (!tile.stages, !tile.position, !tile.response_slots<3 : i64>) -> i32
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 128, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}
