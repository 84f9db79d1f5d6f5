// RUN: %roundtrip %s | filecheck %s

// Two warpgroups take tiles by turns, on a ring of four stages.
// CHECK: %[[RING:.*]] = "tile.turn_ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64, turns = 2 : i64} : () -> !tile.stages
"tile.kernel"() ({
^bb0(%m: i32, %n: i32):
  %ring = "tile.turn_ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64, turns = 2 : i64} : () -> !tile.stages
  "tile.role"() ({
    // CHECK: %[[MINE:.*]] = "tile.warpgroup"() : () -> i32
    %mine = "tile.warpgroup"() : () -> i32
    %turn = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
    // CHECK: "tile.skip"(%{{.*}}, %[[MINE]]) : (!tile.position, i32) -> ()
    "tile.skip"(%turn, %mine) : (!tile.position, i32) -> ()
    // CHECK: %[[OWN:.*]] = "tile.of_turn"(%[[RING]], %{{.*}}) : (!tile.stages, !tile.position) -> !tile.stages
    %own = "tile.of_turn"(%ring, %turn) : (!tile.stages, !tile.position) -> !tile.stages
    %at = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
    %window = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
    "tile.tiles"(%m, %n) ({
    ^bb1(%m0: i32, %n0: i32):
      // CHECK: "tile.wait"(%[[OWN]], %{{.*}})
      "tile.wait"(%own, %at) : (!tile.stages, !tile.position) -> ()
      // CHECK: "tile.skip_windows"(%{{.*}}, %[[MINE]]) : (!tile.window, i32) -> ()
      "tile.skip_windows"(%window, %mine) : (!tile.window, i32) -> ()
    // CHECK: turns = 2 : i64}
    }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 64, 64>, turns = 2 : i64} : (i32, i32) -> ()
  }) {label = "consumer", registers = 232 : i64, warps = array<i64: 0, 8>} : () -> ()
}) {sym_name = "k", threads = 384 : i64, cluster = array<i64: 1, 1>, shared_bytes = 96 : i64, arguments = [{kind = "dim"}, {kind = "dim"}]} : () -> ()
