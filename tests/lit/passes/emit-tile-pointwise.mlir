// A program without a contraction: threads share out the columns, the terms of a sum are loaded together, and those
// that an index skips are not taken. With columns that vectors divide there is no other path for the rest.
// RUN: scalec compile 'Y[t,n] = sum[j](w[t,j]:f32 * D[inv[t,j],n])' --dim n=512,j=2 --emit tile | filecheck %s
// CHECK: tile.kernel
// CHECK: "tile.tiles"
// CHECK: %[[AT:.*]]:3 = "tile.point"({{.*}}) {columns = 512 : i64, vector = 8 : i64}
// CHECK: "tile.when"(%[[AT]]#2) ({
// CHECK: %[[SUMS:.*]] = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
// CHECK: "tile.load_index"
// CHECK: "tile.load_index"
// CHECK: "tile.load_columns"({{.*}}) {along = 0
// CHECK: "tile.load_columns"({{.*}}) {along = 1 {{.*}} together = 8
// CHECK: "tile.load_columns"({{.*}}) {along = 0
// CHECK: "tile.load_columns"({{.*}}) {along = 1 {{.*}} together = 8
// CHECK: %[[TERM:.*]] = "tile.compute"
// CHECK: "tile.term"(%[[SUMS]], %[[TERM]], {{.*}}) {kind = "sum"}
// CHECK: "tile.term"(%[[SUMS]], {{.*}}) {kind = "sum"}
// CHECK: %[[MADE:.*]] = "tile.compute"(%[[SUMS]])
// CHECK: "tile.store_columns"(%[[MADE]], {{.*}}together = 8
// CHECK: {alone, band = 1
// CHECK-NOT: tile.aligned
