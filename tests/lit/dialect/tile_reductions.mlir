// Ops that reduce a tile, and bring what all tiles have together, round-trip through the printer.
// RUN: %roundtrip %s | filecheck %s

// CHECK-LABEL: func.func @reductions
func.func @reductions(%partials: memref<?xf32>, %counters: memref<?xi32>, %r: memref<?xf32>, %i: i32, %stride: i64, %named: memref<?xi32>) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  // CHECK: "tile.totals"() {kind = "max", rows = 2 : i64} : () -> !tile.row_totals
  %totals = "tile.totals"() {kind = "max", rows = 2 : i64} : () -> !tile.row_totals
  // CHECK-NEXT: "tile.reduce_columns"({{.*}}) {kind = "max", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, ragged = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.row_totals, i32, i32, i32, i32) -> ()
  "tile.reduce_columns"(%t, %totals, %i, %i, %i, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, kind = "max", ragged = 1 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.row_totals, i32, i32, i32, i32) -> ()
  // CHECK-NEXT: "tile.store_totals"({{.*}}) {extent = 64 : i64, kind = "max", offset = 0 : i64, words = 128 : i64} : (!tile.row_totals, memref<?xf32>, i32) -> ()
  "tile.store_totals"(%totals, %partials, %i) {kind = "max", words = 128 : i64, offset = 0 : i64, extent = 64 : i64} : (!tile.row_totals, memref<?xf32>, i32) -> ()
  // CHECK-NEXT: "tile.reduce_rows"({{.*}}) {column = 0 : i64, extent = 64 : i64, kind = "sum", offset = 64 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0>, ragged = 0 : i64, words = 128 : i64}
  "tile.reduce_rows"(%t, %partials, %i, %i, %i, %i, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0>, kind = "sum", ragged = 0 : i64, column = 0 : i64, words = 128 : i64, offset = 64 : i64, extent = 64 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, i32, i32, i32, i32, i32) -> ()
  %index = "tile.row_index"(%named, %stride, %i) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  // CHECK: "tile.reduce_rows"({{.*}}) {column = 0 : i64, extent = 64 : i64, kind = "sum", offset = 64 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, ragged = 1 : i64, words = 128 : i64}
  "tile.reduce_rows"(%t, %partials, %i, %i, %i, %i, %i, %index) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, kind = "sum", ragged = 1 : i64, column = 0 : i64, words = 128 : i64, offset = 64 : i64, extent = 64 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, i32, i32, i32, i32, i32, !tile.index) -> ()
  %room = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 1, 320>, f32, 0 : i64, 1 : i64>
  // CHECK: "tile.leave_totals"({{.*}}) {extent = 64 : i64, kind = "max", offset = 0 : i64} : (!tile.row_totals, !tile.buffer<array<i64: 1, 320>, f32, 0 : i64, 1 : i64>) -> ()
  "tile.leave_totals"(%totals, %room) {kind = "max", offset = 0 : i64, extent = 64 : i64} : (!tile.row_totals, !tile.buffer<array<i64: 1, 320>, f32, 0 : i64, 1 : i64>) -> ()
  // CHECK-NEXT: "tile.leave_rows"({{.*}}) {column = 0 : i64, extent = 64 : i64, kind = "sum", offset = 64 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, ragged = 0 : i64}
  "tile.leave_rows"(%t, %room, %i, %i, %i, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, kind = "sum", ragged = 0 : i64, column = 0 : i64, offset = 64 : i64, extent = 64 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 1, 320>, f32, 0 : i64, 1 : i64>, i32, i32, i32, i32) -> ()
  // CHECK-NEXT: "tile.store_left"({{.*}}) {alone = 1 : i64, extent = 64 : i64, kind = "sum", left = 64 : i64, offset = 64 : i64, slots = 4 : i64, words = 128 : i64}
  "tile.store_left"(%room, %partials, %i) {kind = "sum", left = 64 : i64, slots = 4 : i64, alone = 1 : i64, words = 128 : i64, offset = 64 : i64, extent = 64 : i64} : (!tile.buffer<array<i64: 1, 320>, f32, 0 : i64, 1 : i64>, memref<?xf32>, i32) -> ()
  %ring = "tile.ring"() {offset = 2048 : i64, depth = 1 : i64, full = 4 : i64, empty = 2 : i64} : () -> !tile.stages
  %at = "tile.cursor"() {depth = 1 : i64} : () -> !tile.position
  // CHECK: "tile.hand_back"({{.*}}) : (!tile.stages, !tile.position) -> ()
  "tile.hand_back"(%ring, %at) : (!tile.stages, !tile.position) -> ()
  // CHECK-NEXT: "tile.last_tile"({{.*}}) {alone = 1 : i64} : (memref<?xi32>, i32, i32) -> i1
  %last = "tile.last_tile"(%counters, %i, %i) {alone = 1 : i64} : (memref<?xi32>, i32, i32) -> i1
  // CHECK-NEXT: "tile.join_section"({{.*}}) {alone = 1 : i64, extent = 64 : i64, kind = "sum", offset = 64 : i64, slots = 4 : i64, words = 320 : i64}
  "tile.join_section"(%partials, %i, %i, %i) {kind = "sum", slots = 4 : i64, alone = 1 : i64, words = 320 : i64, offset = 64 : i64, extent = 64 : i64} : (memref<?xf32>, i32, i32, i32) -> ()
  // CHECK-NEXT: "tile.meet"() : () -> ()
  "tile.meet"() : () -> ()
  // CHECK-NEXT: "tile.finish_reduction"({{.*}}) ({
  "tile.finish_reduction"(%partials, %i, %i, %i, %r, %stride, %i, %i) ({
  ^bb0(%x: f32):
    %root = math.sqrt %x : f32
    "tile.yield"(%root) : (f32) -> ()
  // CHECK: }) {alone = 1 : i64, extent = 64 : i64, kind = "max", offset = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>, slots = 1 : i64, words = 128 : i64}
  }) {alone = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>, kind = "max", slots = 1 : i64, words = 128 : i64, offset = 0 : i64, extent = 64 : i64} : (memref<?xf32>, i32, i32, i32, memref<?xf32>, i64, i32, i32) -> ()
  // CHECK: "tile.totals"() {kind = "sum_exp", rows = 2 : i64}
  %both = "tile.totals"() {kind = "sum_exp", rows = 2 : i64} : () -> !tile.row_totals
  // CHECK-NEXT: "tile.store_totals"({{.*}}) {extent = 64 : i64, kind = "sum_exp", offset = 0 : i64, words = 128 : i64}
  "tile.store_totals"(%both, %partials, %i) {kind = "sum_exp", words = 128 : i64, offset = 0 : i64, extent = 64 : i64} : (!tile.row_totals, memref<?xf32>, i32) -> ()
  // CHECK: ^bb0(%{{.*}}: f32, %{{.*}}: f32):
  "tile.finish_reduction"(%partials, %i, %i, %i, %r, %r, %stride, %stride, %i, %i) ({
  ^bb0(%sum: f32, %largest: f32):
    "tile.yield"(%sum, %largest) : (f32, f32) -> ()
  }) {alone = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 2, 2, 1, 1, 0, 0, 0>, kind = "sum_exp", slots = 1 : i64, words = 128 : i64, offset = 0 : i64, extent = 64 : i64} : (memref<?xf32>, i32, i32, i32, memref<?xf32>, memref<?xf32>, i64, i64, i32, i32) -> ()
  "tile.tiles"(%i, %i) ({
  ^bb0(%m0: i32, %n0: i32):
    // CHECK: "tile.follows"() : () -> i1
    %more = "tile.follows"() : () -> i1
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 64, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}
