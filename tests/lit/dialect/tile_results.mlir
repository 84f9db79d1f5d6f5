// RUN: %roundtrip %s | filecheck %s

// A tile of 128x64 of two warpgroups: boxes of 64 rows by 32 columns, of which one of each warpgroup has room.
// CHECK: "tile.role"
"tile.kernel"() ({
^bb0(%m: i32, %n: i32, %c: !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>):
  %room = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>
  %ring = "tile.ring"() {depth = 1 : i64, empty = 8 : i64, full = 1 : i64, offset = 16384 : i64} : () -> !tile.stages
  "tile.role"() ({
    %sums = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
    %at = "tile.cursor"() {depth = 1 : i64} : () -> !tile.position
    "tile.tiles"(%m, %n) ({
    ^bb1(%m0: i32, %n0: i32):
      "tile.wait"(%ring, %at) : (!tile.stages, !tile.position) -> ()
      // CHECK: "tile.add_loaded"(%{{.*}}) {index = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, !tile.stages, !tile.position) -> ()
      "tile.add_loaded"(%sums, %room, %c, %ring, %at) {index = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, !tile.stages, !tile.position) -> ()
    }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 128, 64>, turns = 1 : i64} : (i32, i32) -> ()
  }) {label = "consumer", registers = 232 : i64, warps = array<i64: 0, 8>} : () -> ()
  "tile.role"() ({
    "tile.warp"() ({
      %at = "tile.cursor"() {depth = 1 : i64} : () -> !tile.position
      "tile.tiles"(%m, %n) ({
      ^bb1(%m0: i32, %n0: i32):
        // CHECK: "tile.await_stores"() {pending = 0 : i64} : () -> ()
        "tile.await_stores"() {pending = 0 : i64} : () -> ()
        "tile.expect"(%ring, %at) {bytes = 16384 : i64} : (!tile.stages, !tile.position) -> ()
        // CHECK: "tile.load_box"(%{{.*}}) {index = 1 : i64, tile = array<i64: 128, 64>} : (!tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, !tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
        "tile.load_box"(%c, %room, %ring, %at, %m0, %n0) {index = 1 : i64, tile = array<i64: 128, 64>} : (!tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, !tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, !tile.stages, !tile.position, i32, i32) -> ()
        // CHECK: "tile.store_result"(%{{.*}}) {index = 1 : i64, tile = array<i64: 128, 64>} : (!tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, !tile.position, i32, i32) -> ()
        "tile.store_result"(%room, %c, %at, %m0, %n0) {index = 1 : i64, tile = array<i64: 128, 64>} : (!tile.buffer<array<i64: 128, 32>, f32, 128 : i64, 1 : i64>, !tile.descriptor<array<i64: 32, 64>, f32, 128 : i64>, !tile.position, i32, i32) -> ()
      }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 128, 64>, turns = 1 : i64} : (i32, i32) -> ()
    }) {count = 1 : i64, elected = 1 : i64, index = 3 : i64} : () -> ()
  }) {label = "producer", registers = 40 : i64, warps = array<i64: 8, 12>} : () -> ()
}) {sym_name = "k", threads = 384 : i64, cluster = array<i64: 1, 1>, shared_bytes = 16400 : i64, arguments = [{kind = "dim"}, {kind = "dim"}, {kind = "tensor_map"}]} : () -> ()
