// Launches that overlap, and cluster launch control, round-trip through the printer.
// RUN: %roundtrip %s | filecheck %s

// CHECK-LABEL: func.func @dynamic
func.func @dynamic(%m: i32, %n: i32) {
  // CHECK: "tile.depend"() : () -> ()
  "tile.depend"() : () -> ()
  // CHECK-NEXT: "tile.stagger"() {cycles = 113 : i64} : () -> ()
  "tile.stagger"() {cycles = 113 : i64} : () -> ()
  %ring = "tile.ring"() {offset = 0 : i64, depth = 3 : i64, full = 1 : i64, empty = 12 : i64} : () -> !tile.stages
  // CHECK: "tile.responses"() {offset = 48 : i64} : () -> !tile.response_slots<3 : i64>
  %r = "tile.responses"() {offset = 48 : i64} : () -> !tile.response_slots<3 : i64>
  %c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.tiles"(%m, %n) ({
  ^bb0(%m0: i32, %n0: i32):
    "tile.expect"(%ring, %c) {bytes = 16 : i64} : (!tile.stages, !tile.position) -> ()
    // CHECK: "tile.try_cancel"(%{{.*}}, %{{.*}}, %{{.*}}) : (!tile.stages, !tile.position, !tile.response_slots<3 : i64>) -> ()
    "tile.try_cancel"(%ring, %c, %r) : (!tile.stages, !tile.position, !tile.response_slots<3 : i64>) -> ()
    "tile.wait"(%ring, %c) : (!tile.stages, !tile.position) -> ()
    // CHECK: "tile.query_cancel"(%{{.*}}, %{{.*}}, %{{.*}}) : (!tile.stages, !tile.position, !tile.response_slots<3 : i64>) -> i32
    %next = "tile.query_cancel"(%ring, %c, %r) : (!tile.stages, !tile.position, !tile.response_slots<3 : i64>) -> i32
    "tile.advance"(%c) : (!tile.position) -> ()
  }) {band = 8 : i64, cluster = array<i64: 1, 2>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 128, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}
