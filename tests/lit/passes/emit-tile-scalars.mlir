// What the body computes of scalars alone stands before the tiles, once: the reciprocal of the whole result's scale,
// which is no part of the body, and sums of parameters; its elements have what is left, and scalars used directly.
// RUN: scalec compile 'D[m,n]:nvfp4 = (A[m,k]@B[n,k] + bias[n]) * ((alpha + beta) / 3) - alpha' --dim m=512,n=512,k=512 --emit tile | filecheck %s
// RUN: scalec compile 'D[m,n]:nvfp4 = (A[m,k]@B[n,k] + bias[n]) * ((alpha + beta) / 3) - alpha' --target sm_120a --dim m=512,n=512,k=512 --emit tile | filecheck %s
// RUN: scalec compile 'D[m,n]:nvfp4 = (A[m,k]@B[n,k] + bias[n]) * ((alpha + beta) / 3) - alpha' --target sm_100a --dim m=512,n=512,k=512 --emit tile | filecheck %s
// CHECK: %[[SCALE:.*]] = "tile.input"({{.*}}kind = "scalar"{{.*}} : (memref<1x1xf32>
// CHECK-NEXT: %[[INVERSE:.*]] = "tile.hold"(%[[SCALE]]) ({
// CHECK-NEXT: ^bb0(%[[SELF:.*]]: f32):
// CHECK-NEXT: %[[ONE:.*]] = arith.constant 1.0
// CHECK-NEXT: %[[R:.*]] = arith.divf %[[ONE]], %[[SELF]] : f32
// CHECK: %[[BELOW:.*]] = arith.minimumf %[[R]], {{.*}} : f32
// CHECK: %[[WITHIN:.*]] = arith.maximumf %[[BELOW]], {{.*}} : f32
// CHECK-NEXT: "tile.yield"(%[[WITHIN]])
// CHECK: %[[ALPHA:.*]] = "tile.hold"(
// CHECK: %[[BETA:.*]] = "tile.hold"(
// CHECK: %[[THIRD:.*]] = "tile.hold"(%[[ALPHA]], %[[BETA]]) ({
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32):
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[X]], %[[Y]] : f32
// CHECK-NEXT: %[[THREE:.*]] = arith.constant 3.0
// CHECK-NEXT: %[[Q:.*]] = arith.divf %[[SUM]], %[[THREE]] : f32
// CHECK-NEXT: "tile.yield"(%[[Q]])
// CHECK: "tile.tiles"
// CHECK: "tile.epilogue"({{.*}}, %[[THIRD]], %[[ALPHA]]) ({
// CHECK-NEXT: ^bb0(%[[V:.*]]: f32, %[[BIAS:.*]]: f32, %[[T:.*]]: f32, %[[A:.*]]: f32):
// CHECK-NEXT: %[[S1:.*]] = arith.addf %[[V]], %[[BIAS]]
// CHECK-NEXT: %[[S2:.*]] = arith.mulf %[[S1]], %[[T]]
// CHECK-NEXT: %[[S3:.*]] = arith.subf %[[S2]], %[[A]]
// CHECK-NEXT: "tile.yield"(%[[S3]])
// CHECK: "tile.quantize"({{.*}}, %[[INVERSE]]) {block = 16
