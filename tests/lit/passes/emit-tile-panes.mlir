// Two contractions that share an operand: one tile of B with rows of each, and sums that meet.

// RUN: scalec compile 'H[m,n] = silu(X[m,k] @ G[n,k]) * (X[m,k] @ U[n,k])' --target sm_90a --dim n=512,k=256 --schedule tile=128x256x64 --emit tile | filecheck %s
// CHECK: "tile.kernel"
// CHECK: "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 64>
// CHECK: %[[B:.*]] = "tile.shared"() {{.*}} !tile.buffer<array<i64: 256, 64>
// CHECK: "tile.mma"(%[[SUMS:.*]], %{{.*}}, %[[B]],
// CHECK: %[[G:.*]] = "tile.pane"(%[[SUMS]]) {first = 0 : i64}
// CHECK: %[[U:.*]] = "tile.pane"(%[[SUMS]]) {first = 128 : i64}
// CHECK: %[[IN:.*]] = "tile.input_sums"(%[[U]])
// CHECK: "tile.epilogue"(%[[G]], %{{.*}}, %[[IN]])
// CHECK: "tile.store"(%[[G]],
// tiles of 128 columns of results
// CHECK: tile = array<i64: 128, 128>
// CHECK: label = "consumer"
// CHECK: %[[FIRST:.*]] = "tile.strip"(%[[B]]) {axis = 0 : i64, first = 0 : i64}
// CHECK: "tile.copy"(%{{.*}}, %[[FIRST]],
// CHECK: %[[SECOND:.*]] = "tile.strip"(%[[B]]) {axis = 0 : i64, first = 128 : i64}
// CHECK: "tile.copy"(%{{.*}}, %[[SECOND]],
