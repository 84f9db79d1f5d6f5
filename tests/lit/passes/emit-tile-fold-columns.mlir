// What follows the products of kernels that reduce an index within a tile, and how two indices are copied as one.

// RUN: scalec compile 'L[q,t]:f32 = 2 * sum[h](relu(Q[q,h,d]@K[t,d]) * W[q,h]:f32) for t in lo[q]:hi[q] else -inf' --target sm_90a --dim h=64 --dim d=64 --schedule tile=128x128x64 --emit tile | filecheck %s
// two of q, all 64 of h of each
// CHECK: "tile.kernel"
// CHECK-NEXT: !tile.descriptor<array<i64: 64, 64, 2>, bf16
// CHECK: "tile.role"
// CHECK: "tile.input"
// CHECK-SAME: axes = array<i64: 1, 64, 0, 1, 1, 64>
// CHECK: "tile.epilogue"(%[[SUMS:.*]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// CHECK: arith.maximumf
// CHECK: %[[FOLDED:.*]] = "tile.fold_columns"(%[[SUMS]]) {kind = "sum", size = 64 : i64}
// CHECK: arith.divui
// CHECK: "tile.epilogue"(%[[FOLDED]],
// CHECK: "tile.store_within"(%[[FOLDED]],
// CHECK-SAME: along = "m"
