// Parts of K round-trip through the printer.
// RUN: %roundtrip %s | filecheck %s

// CHECK-LABEL: func.func @parts
func.func @parts(%m: i32, %n: i32, %sums: memref<?xf32>, %counters: memref<?xi32>) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %w = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
  // CHECK: "tile.tiles"
  // CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32):
  "tile.tiles"(%m, %n) ({
  ^bb0(%m0: i32, %n0: i32, %part: i32, %number: i32):
    // CHECK-NEXT: "tile.skip_blocks"(%{{.*}}, %{{.*}}) : (!tile.window, i32) -> ()
    "tile.skip_blocks"(%w, %part) : (!tile.window, i32) -> ()
    // CHECK-NEXT: "tile.sum_parts"({{.*}}) {split = 4 : i64} : ({{.*}}, memref<?xf32>, memref<?xi32>, i32, i32) -> i1
    %last = "tile.sum_parts"(%t, %sums, %counters, %part, %number) {split = 4 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, memref<?xi32>, i32, i32) -> i1
    "tile.when"(%last) ({
      "tile.drain"() : () -> ()
    }) : (i1) -> ()
    // CHECK: "tile.store_part"({{.*}}) {piece = 1 : i64, pieces = 2 : i64, split = 4 : i64} : ({{.*}}, memref<?xf32>, i32, i32) -> ()
    "tile.store_part"(%t, %sums, %part, %number) {piece = 1 : i64, pieces = 2 : i64, split = 4 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, i32, i32) -> ()
    // CHECK-NEXT: "tile.last_part"({{.*}}) {split = 4 : i64} : (memref<?xi32>, i32) -> i1
    %all = "tile.last_part"(%counters, %number) {split = 4 : i64} : (memref<?xi32>, i32) -> i1
    // CHECK-NEXT: "tile.add_parts"({{.*}}) {piece = 1 : i64, pieces = 2 : i64, split = 4 : i64} : ({{.*}}, memref<?xf32>, i32) -> ()
    "tile.add_parts"(%t, %sums, %number) {piece = 1 : i64, pieces = 2 : i64, split = 4 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, i32) -> ()
    // CHECK-NEXT: "tile.add_parts"({{.*}}) {adds, piece = 1 : i64, pieces = 2 : i64, some = array<i64: 1, 3>, split = 4 : i64, whole} : ({{.*}}, memref<?xf32>, i32) -> ()
    "tile.add_parts"(%t, %sums, %number) {piece = 1 : i64, pieces = 2 : i64, some = array<i64: 1, 3>, split = 4 : i64, adds, whole} : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, i32) -> ()
    // CHECK-NEXT: "tile.begin_part"(%{{.*}}, %{{.*}}) : (memref<?xi32>, i32) -> ()
    "tile.begin_part"(%counters, %number) : (memref<?xi32>, i32) -> ()
    %some = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 16>, "registers">
    // CHECK: "tile.add_columns"
    // CHECK-NEXT: ^bb0(%{{.*}}: i32):
    "tile.add_columns"(%t, %some, %sums, %counters, %part, %number) ({
    ^bb0(%column: i32):
      "tile.drain"() : () -> ()
    // CHECK: }) {split = 4 : i64}
    }) {split = 4 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.accumulator<array<i64: 64, 16>, "registers">, memref<?xf32>, memref<?xi32>, i32, i32) -> ()
  // CHECK: }) {{{.*}}split = 4 : i64
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 4 : i64, tile = array<i64: 64, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}

// CHECK-LABEL: func.func @in_a_cluster
func.func @in_a_cluster(%m: i32, %n: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %room = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 2, 4096>, f32, 0 : i64, 1 : i64>
  %ring = "tile.ring"() {depth = 1 : i64, empty = 4 : i64, full = 1 : i64, offset = 32768 : i64} : () -> !tile.stages
  %at = "tile.cursor"() {depth = 1 : i64} : () -> !tile.position
  "tile.tiles"(%m, %n) ({
  ^bb0(%m0: i32, %n0: i32, %part: i32, %number: i32):
    // CHECK: "tile.sum_in_cluster"({{.*}}) {owners = 2 : i64, split = 3 : i64} : ({{.*}}, !tile.stages, !tile.position, i32) -> i1
    %first = "tile.sum_in_cluster"(%t, %room, %ring, %at, %part) {owners = 2 : i64, split = 3 : i64} : (!tile.accumulator<array<i64: 64, 64>, "registers">, !tile.buffer<array<i64: 2, 4096>, f32, 0 : i64, 1 : i64>, !tile.stages, !tile.position, i32) -> i1
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 3 : i64, tile = array<i64: 64, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}
