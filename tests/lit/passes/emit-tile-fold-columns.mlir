// What follows the products of kernels that reduce an index within a tile, and how two indices are copied as one.

// RUN: scalec compile 'L[q,t]:f32 = 2 * sum[h](relu(Q[q,h,d]@K[t,d]) * W[q,h]:f32) for t in lo[q]:hi[q] else -inf' --target sm_90a --dim h=64 --dim d=64 --schedule tile=128x128x64 --emit tile | filecheck %s
// two of q, all 64 of h of each
// CHECK: "tile.kernel"
// CHECK-NEXT: !tile.descriptor<array<i64: 64, 64, 2>, bf16
// CHECK: "tile.role"
// CHECK: "tile.input"
// CHECK-SAME: axes = array<i64: 1, 64, 0, 1, 1, 64>
// both ends of the window, of two columns that are left, then W; for all tiles of a run
// CHECK: "tile.tiles"
// CHECK: %[[SOME:.*]] = "tile.reaches"
// CHECK-SAME: tile = array<i64: 128, 2>
// CHECK: "tile.when"(%[[SOME]])
// CHECK: "tile.read_ahead"
// CHECK-SAME: folded
// CHECK: "tile.read_ahead"
// CHECK-SAME: folded
// CHECK: %[[AHEAD:.*]] = "tile.read_ahead"
// CHECK: "tile.mma"
// CHECK: %[[FOLDED:.*]] = "tile.fold_columns"({{.*}}%[[AHEAD]])
// CHECK: arith.maximumf
// CHECK: kind = "sum"
// CHECK-SAME: size = 64 : i64
// CHECK: arith.divui
// CHECK: "tile.epilogue"(%[[FOLDED]],
// CHECK: "tile.store_within"(%[[FOLDED]],
// CHECK-SAME: along = "m"
// a tile that the window does not reach is filled, and nobody copies it
// CHECK: %[[NONE:.*]] = arith.xori %[[SOME]]
// CHECK: "tile.when"(%[[NONE]])
// CHECK: "tile.fragment"() {live = 2 : i64}
// CHECK: "tile.store_within"
// CHECK-SAME: high = 0 : i64, low = 0 : i64
// CHECK: run = 16 : i64
// CHECK: label = "consumer"
// CHECK: "tile.tiles"
// CHECK: %[[SOME2:.*]] = "tile.reaches"
// CHECK: "tile.when"(%[[SOME2]])
// CHECK: "tile.copy"
// CHECK: label = "producer"

// The scale of a row leaves the terms, as a factor of what they come to. One K block: its product begins the sums.

// RUN: scalec compile 'L[q,t]:f32 = sum[h](relu(Q[q,h,d]:e4m3@K[t,d]:e4m3 scale(none,1xd)) * W[q,h]:f32)' --target sm_90a --dim h=64 --dim d=128 --schedule tile=128x128x128 --emit tile | filecheck %s --check-prefix=SCALED
// SCALED: "tile.kernel"
// SCALED-NOT: "tile.clear"
// SCALED: %[[S:.*]] = "tile.read_ahead"
// SCALED: %[[W:.*]] = "tile.read_ahead"
// SCALED: "tile.mma"
// SCALED-SAME: accumulate = 0
// SCALED: "tile.fold_columns"({{.*}}%[[W]], %[[S]]) ({
// SCALED-NEXT: ^bb0(%[[X:.*]]: f32, %{{.*}}: f32):
// SCALED-NEXT: arith.constant
// SCALED-NEXT: arith.maximumf %[[X]]

// What does not keep a factor keeps its scale.

// RUN: scalec compile 'L[q,t]:f32 = sum[h](silu(Q[q,h,d]:e4m3@K[t,d]:e4m3 scale(none,1xd)) * W[q,h]:f32)' --target sm_90a --dim h=64 --dim d=128 --schedule tile=128x128x128 --emit tile | filecheck %s --check-prefix=SILU
// SILU: "tile.fold_columns"
// SILU-NEXT: ^bb0(%[[X:.*]]: f32, %[[S:.*]]: f32, %{{.*}}: f32):
// SILU-NEXT: arith.mulf %[[X]], %[[S]]
