// What follows the products of kernels that reduce an index within a tile, and how two indices are copied as one.

// RUN: scalec compile 'L[q,t]:f32 = 2 * sum[h](relu(Q[q,h,d]@K[t,d]) * W[q,h]:f32) for t in lo[q]:hi[q] else -inf' --target sm_90a --dim h=64 --dim d=64 --schedule tile=128x128x64,stationary=0 --emit tile | filecheck %s
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

// RUN: scalec compile 'L[q,t]:f32 = sum[h](relu(Q[q,h,d]:e4m3@K[t,d]:e4m3 scale(none,1xd)) * W[q,h]:f32)' --target sm_90a --dim h=64 --dim d=128 --schedule tile=128x128x128,stationary=0 --emit tile | filecheck %s --check-prefix=SCALED
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

// RUN: scalec compile 'L[q,t]:f32 = sum[h](silu(Q[q,h,d]:e4m3@K[t,d]:e4m3 scale(none,1xd)) * W[q,h]:f32)' --target sm_90a --dim h=64 --dim d=128 --schedule tile=128x128x128,stationary=0 --emit tile | filecheck %s --check-prefix=SILU
// SILU: "tile.fold_columns"
// SILU-NEXT: ^bb0(%[[X:.*]]: f32, %[[S:.*]]: f32, %{{.*}}: f32):
// SILU-NEXT: arith.mulf %[[X]], %[[S]]

// Where B's tile stays for a run of tiles, each go is multiplied while the one before it is folded, the next tile's first
// one while the last is.

// RUN: scalec compile 'L[q,t]:f32 = sum[h](relu(Q[q,h,d]:e4m3@K[t,d]:e4m3 scale(none,1xd)) * W[q,h]:f32) for t in lo[q]:hi[q]' --target sm_90a --dim h=64 --dim d=128 --schedule tile=128x128x128 --emit tile | filecheck %s --check-prefix=STAYS
// STAYS: %[[A:.*]] = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 8 : i64>
// STAYS: %[[B:.*]] = "tile.shared"{{.*}} -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 2 : i64>
// STAYS: %[[ALL:.*]] = "tile.fragment"
// STAYS: %[[FIRST:.*]] = "tile.go"(%[[ALL]]) {first = 0 : i64}
// STAYS: %[[SECOND:.*]] = "tile.go"(%[[ALL]]) {first = 64 : i64}
// STAYS: "tile.tiles"
// STAYS: %[[R:.*]]:2 = "tile.reached"
// W times a sum of 128 products of e4m3, 64 times, is finite
// STAYS: %[[SURE:.*]] = "tile.at_most"
// STAYS-SAME: limit = 3.96140813E+28 : f32
// STAYS: "tile.at_most"
// STAYS: %[[MINE:.*]] = "tile.slot"(%[[B]],
// STAYS: "tile.run_tiles"(%[[R]]#0, %[[R]]#1) ({
// STAYS-NEXT: ^bb0(%{{.*}}: i32, %[[SCALE:.*]]: !tile.operand):
// STAYS: "tile.mma"(%[[SECOND]], %[[A]], %[[MINE]],
// STAYS: %[[X:.*]] = "tile.fold_columns"(%[[FIRST]]{{.*}}%[[SCALE]], %[[SURE]])
// STAYS: apart
// STAYS: "tile.mma_wait"(%[[SECOND]])
// STAYS: "tile.release"
// STAYS: "tile.ahead"
// STAYS: %[[Y:.*]] = "tile.fold_columns"(%[[SECOND]]
// STAYS: %[[L:.*]] = "tile.join_folds"(%[[X]], %[[Y]])
// STAYS: "tile.store_within"(%[[L]]
// STAYS: %[[NEXT:.*]] = "tile.read_ahead"
// STAYS: "tile.wait"
// STAYS: "tile.mma"(%[[FIRST]], %[[A]], %[[MINE]],
// STAYS: "tile.begun"(%[[NEXT]])
// STAYS: "tile.mma_wait"(%[[FIRST]])
// STAYS: whole
// STAYS: label = "consumer"

// Terms that may be infinite, as products of bf16 may, are looked at behind the fold; its beginning is put behind the issue of
// the products beside it.

// RUN: scalec compile 'L[q,t]:f32 = sum[h](relu(Q[q,h,d]@K[t,d]) * u[t] * W[q,h]:f32)' --target sm_90a --dim h=64 --dim d=64 --schedule tile=128x128x64 --emit tile | filecheck %s --check-prefix=LOOKS
// LOOKS-NOT: "tile.at_most"
// LOOKS: %[[START:.*]] = "tile.behind"
// LOOKS: "tile.fold_columns"({{.*}}%[[START]])

// What is stored of a column, and where, is known before a run; runs of the same columns follow each other, and a pair
// of CTAs shares A's tiles.

// RUN: scalec compile 'L[q,t]:f32 = sum[h](relu(Q[q,h,d]:e4m3@K[t,d]:e4m3 scale(none,1xd)) * W[q,h]:f32) for t in lo[q]:hi[q]' --target sm_90a --dim h=64 --dim d=128 --emit tile | filecheck %s --check-prefix=KNOWN
// KNOWN: "tile.store_within"({{.*}}) {along = "m", known,
// KNOWN: {band = 1 : i64, cluster = array<i64: 1, 2>,
