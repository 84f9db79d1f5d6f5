// Products that are added up: the thread that copies takes each K block from the product that it is of; no other role
// knows of them. 256 + 64 elements of K are walked.

// RUN: scalec compile 'C[m,n] = A[m,k] @ B[n,k] + D[m,r] @ E[n,r]' --target sm_90a --dim n=512,k=256,r=16 --schedule tile=128x128x64 --emit tile | filecheck %s
// CHECK: "tile.steps"(%c320_i32)
// CHECK: label = "consumer"
// CHECK: "tile.steps"(%c320_i32)
// CHECK: %[[FIRST:.*]] = arith.cmpi ult, %[[K0:.*]], %c256_i32{{.*}} : i32
// CHECK: %[[SECOND:.*]] = arith.xori %[[FIRST]], %{{.*}} : i1
// CHECK: %[[WITHIN:.*]] = arith.subi %[[K0]], %c256_i32{{.*}} : i32
// CHECK: "tile.when"(%[[FIRST]])
// CHECK: "tile.copy"(%[[A:arg[0-9]+]], %[[TA:[0-9]+]], %{{[0-9]+}}, %{{[0-9]+}}, %[[K0]],
// CHECK: "tile.copy"(%{{arg[0-9]+}}, %[[TB:[0-9]+]], %{{[0-9]+}}, %{{[0-9]+}}, %[[K0]],
// CHECK: "tile.when"(%[[SECOND]])
// CHECK: "tile.copy"(%{{arg[0-9]+}}, %[[TA]], %{{[0-9]+}}, %{{[0-9]+}}, %[[WITHIN]],
// CHECK: "tile.copy"(%{{arg[0-9]+}}, %[[TB]], %{{[0-9]+}}, %{{[0-9]+}}, %[[WITHIN]],
