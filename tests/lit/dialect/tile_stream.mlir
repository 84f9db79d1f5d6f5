// Whole tiles and shares (stream-K) round-trip through the printer.
// RUN: %roundtrip %s | filecheck %s

// CHECK-LABEL: func.func @stream
func.func @stream(%m: i32, %n: i32, %sums: memref<?xf32>, %counters: memref<?xi32>, %whole: i32, %share: i32, %longer: i32) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  // CHECK: "tile.stream"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) ({
  // CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[COUNT:.*]]: i32):
  "tile.stream"(%m, %n, %whole, %share, %longer) ({
  ^bb0(%m0: i32, %n0: i32, %first: i32, %count: i32):
    // CHECK-NEXT: "tile.steps"(%[[COUNT]])
    "tile.steps"(%count) ({
    ^bb0(%k: i32):
      "tile.drain"() : () -> ()
    // CHECK: }) {{{.*}}unroll = 4 : i64, whole}
    }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 128 : i64, unroll = 4 : i64, whole} : (i32) -> ()
    // CHECK-NEXT: "tile.sum_shares"({{.*}}) : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, memref<?xi32>) -> i1
    %last = "tile.sum_shares"(%t, %sums, %counters) : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, memref<?xi32>) -> i1
  // CHECK: }) {{{.*}}units = 14 : i64} : (i32, i32, i32, i32, i32) -> ()
  }) {cluster = array<i64: 1, 2>, group = 8 : i64, order = "n", tile = array<i64: 64, 64>, units = 14 : i64} : (i32, i32, i32, i32, i32) -> ()
  return
}
