// RUN: %roundtrip %s | filecheck %s
// RUN: scalec opt --passes= %s | filecheck %s

// Work that is read from memory: a warp finds items in ranges and posts them; another takes them.

// CHECK-LABEL: func.func @items
func.func @items(%m: i32, %n: i32, %groups: i32, %off: memref<?xi32>) {
  // CHECK: %[[SLOTS:.*]] = "tile.items"() {offset = 48 : i64} : () -> !tile.item_slots<4 : i64, 4 : i64>
  %s = "tile.items"() {offset = 48 : i64} : () -> !tile.item_slots<4 : i64, 4 : i64>
  %ring = "tile.ring"() {offset = 112 : i64, depth = 4 : i64, full = 1 : i64, empty = 5 : i64} : () -> !tile.stages
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i32
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  // CHECK: "tile.ragged_tiles"(%{{.*}}, %{{.*}}, %{{.*}}) ({
  // CHECK-NEXT: ^bb0(%[[GROUP:.*]]: i32):
  "tile.ragged_tiles"(%m, %n, %groups) ({
  ^bb0(%group: i32):
    // CHECK: "tile.load_index"(%{{.*}}, %[[GROUP]], %{{.*}}) {{.*}} : (memref<?xi32>, i32, i64) -> i32
    %low = "tile.load_index"(%off, %group, %one) {operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i32, i64) -> i32
    // CHECK: "tile.clamp"(%{{.*}}, %{{.*}}, %{{.*}}) : (i32, i32, i32) -> i32
    %high = "tile.clamp"(%low, %zero, %m) : (i32, i32, i32) -> i32
    // CHECK: "tile.bounds"(%{{.*}}, %{{.*}}) : (i32, i32) -> ()
    "tile.bounds"(%low, %high) : (i32, i32) -> ()
  }, {
  ^bb0(%m0: i32, %n0: i32, %first: i32, %end: i32, %number: i32):
    // CHECK: "tile.post"(%{{.*}}, %{{.*}}, %[[SLOTS]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
    "tile.post"(%ring, %c, %s, %m0, %n0, %end, %number) {operandSegmentSizes = array<i32: 1, 1, 1, 4>} : (!tile.stages, !tile.position, !tile.item_slots<4 : i64, 4 : i64>, i32, i32, i32, i32) -> ()
  }) {axis = "m", each = 1 : i64, band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 1, 0>, order = "n", tile = array<i64: 64, 32>} : (i32, i32, i32) -> ()
  // CHECK: %{{.*}}:2 = "tile.run"(%{{.*}}, %{{.*}}) ({
  // CHECK-NEXT: ^bb0(%[[BLOCK:.*]]: i32):
  %begins, %behind = "tile.run"(%zero, %groups) ({
  ^bb0(%block: i32):
    %value = "tile.load_index"(%off, %block, %one) {operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i32, i64) -> i32
    // CHECK: "tile.same"(%{{.*}}) {operandSegmentSizes = array<i32: 1>} : (i32) -> ()
    "tile.same"(%value) {operandSegmentSizes = array<i32: 1>} : (i32) -> ()
  }) : (i32, i32) -> (i1, i32)
  // CHECK: %{{.*}}:3 = "tile.group_of_tile"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {rows = 128 : i64} : (memref<?xi32>, i64, i32, i32) -> (i32, i32, i32)
  %group_of, %from, %to = "tile.group_of_tile"(%off, %one, %groups, %zero) {rows = 128 : i64} : (memref<?xi32>, i64, i32, i32) -> (i32, i32, i32)
  // the end has no values
  // CHECK: "tile.post"(%{{.*}}, %{{.*}}, %[[SLOTS]]) {operandSegmentSizes = array<i32: 1, 1, 1, 0>}
  "tile.post"(%ring, %c, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!tile.stages, !tile.position, !tile.item_slots<4 : i64, 4 : i64>) -> ()
  %taken = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  // CHECK: "tile.work"(%{{.*}}, %{{.*}}, %[[SLOTS]]) ({
  // CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32):
  "tile.work"(%ring, %taken, %s) ({
  ^bb0(%m0: i32, %n0: i32, %end: i32, %number: i32):
  }) {tile = array<i64: 64, 32>, turns = 1 : i64} : (!tile.stages, !tile.position, !tile.item_slots<4 : i64, 4 : i64>) -> ()
  // runs of items whose second and fourth words are the same; the next item is taken within
  // CHECK: "tile.next_item"() : () -> ()
  // CHECK-NEXT: }) {runs = array<i64: 1, 3>, tile = array<i64: 64, 32>, turns = 1 : i64}
  "tile.work"(%ring, %taken, %s) ({
  ^bb0(%m0: i32, %n0: i32, %end: i32, %number: i32):
    "tile.next_item"() : () -> ()
  }) {runs = array<i64: 1, 3>, tile = array<i64: 64, 32>, turns = 1 : i64} : (!tile.stages, !tile.position, !tile.item_slots<4 : i64, 4 : i64>) -> ()
  return
}
