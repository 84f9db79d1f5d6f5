// What the body computes of scalars alone stands before the tiles, once: the quotient of a tensor's scale, and sums of
// parameters; its elements have what is left, and scalars that are used directly.
// RUN: scalec compile 'D[m,n]:nvfp4 = (A[m,k]@B[n,k] + bias[n]) * ((alpha + beta) / 3) - alpha' --dim m=512,n=512,k=512 --emit tile | filecheck %s
// RUN: scalec compile 'D[m,n]:nvfp4 = (A[m,k]@B[n,k] + bias[n]) * ((alpha + beta) / 3) - alpha' --target sm_120a --dim m=512,n=512,k=512 --emit tile | filecheck %s
// RUN: scalec compile 'D[m,n]:nvfp4 = (A[m,k]@B[n,k] + bias[n]) * ((alpha + beta) / 3) - alpha' --target sm_100a --dim m=512,n=512,k=512 --emit tile | filecheck %s
// CHECK: %[[ALPHA:.*]] = "tile.hold"(
// CHECK: %[[BETA:.*]] = "tile.hold"(
// CHECK: %[[SCALE:.*]] = "tile.input"({{.*}}kind = "scalar"{{.*}} : (memref<1x1xf32>
// CHECK-NEXT: %[[G:.*]] = "tile.hold"(%[[SCALE]]) ({
// CHECK-NEXT: ^bb0(%[[SELF:.*]]: f32):
// CHECK-NEXT: "tile.yield"(%[[SELF]])
// CHECK: %[[THIRD:.*]] = "tile.hold"(%[[ALPHA]], %[[BETA]]) ({
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32):
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[X]], %[[Y]] : f32
// CHECK-NEXT: %[[THREE:.*]] = arith.constant 3.0
// CHECK-NEXT: %[[Q:.*]] = arith.divf %[[SUM]], %[[THREE]] : f32
// CHECK-NEXT: "tile.yield"(%[[Q]])
// CHECK: %[[INVERSE:.*]] = "tile.hold"(%[[G]]) ({
// CHECK: arith.divf
// CHECK-NEXT: "tile.yield"
// CHECK: "tile.tiles"
// CHECK: "tile.epilogue"({{.*}}, %[[THIRD]], %[[ALPHA]], %[[INVERSE]]) ({
// CHECK-NEXT: ^bb0(%[[V:.*]]: f32, %[[BIAS:.*]]: f32, %[[T:.*]]: f32, %[[A:.*]]: f32, %[[I:.*]]: f32):
// CHECK-NEXT: %[[S1:.*]] = arith.addf %[[V]], %[[BIAS]]
// CHECK-NEXT: %[[S2:.*]] = arith.mulf %[[S1]], %[[T]]
// CHECK-NEXT: %[[S3:.*]] = arith.subf %[[S2]], %[[A]]
// CHECK-NEXT: %[[S4:.*]] = arith.mulf %[[S3]], %[[I]]
// CHECK-NEXT: "tile.yield"(%[[S4]])
