// A program without a contraction whose threads meet: all of them come to a block's largest magnitude, also those of rows
// that are not there, which store nothing. A row that is kept is loaded once, its sum is known before its results.
// RUN: scalec compile 'Q[m,k]:mxfp8 = X[m,k]' --dim k=512 --emit tile | filecheck %s
// RUN: scalec compile 'R[m] = sum[k](X[m,k]^2); Y[m,k]:nvfp4 = X[m,k] / sqrt(R)' --dim k=2048 --emit tile | filecheck %s --check-prefix=ROW
// RUN: scalec compile 'R[m] = sum[k](X[m,k]^2); Y[m,k] = X[m,k] / sqrt(R)' --emit tile | filecheck %s --check-prefix=WALKED
// RUN: scalec compile 'T[k,m]:mxfp8 = X[m,k]' --emit tile | filecheck %s --check-prefix=TURNED
// RUN: scalec compile 'R[m] = sum[k](X[m,k]^2); Y[m,k] = X[m,k] * w[k] / sqrt(R)' --dim k=1024 --emit tile | filecheck %s --check-prefix=FIRST
// Elements of 16 bits are turned as such, others in f32.
// RUN: scalec compile 'T[k,m]:mxfp8 = X[m,k]:f32' --emit tile | filecheck %s --check-prefix=WORDS
// CHECK: "tile.point"({{.*}}) {columns = 512 : i64, vector = 16 : i64}
// CHECK-NOT: tile.when
// CHECK: %[[X:.*]] = "tile.load_columns"
// CHECK: %[[MADE:.*]] = "tile.compute"(%[[X]])
// CHECK: %[[LARGEST:.*]] = "tile.reduce_lanes"(%[[MADE]]) {exchange = -1 : i64, kind = "absmax", {{.*}}sharing = 1 : i64}
// CHECK-NEXT: %[[SCALE:.*]]:2 = "tile.find_scale"(%[[LARGEST]])
// CHECK-NEXT: %[[SCALED:.*]] = "tile.compute"(%[[MADE]], %[[SCALE]]#1)
// CHECK: "tile.store_scale"(%[[SCALE]]#0
// CHECK-NEXT: "tile.when"
// CHECK: "tile.store_columns"(%[[SCALED]]
// ROW: tile.kernel
// ROW: "tile.load_columns"
// ROW: "tile.load_columns"
// ROW: %[[SUM:.*]] = "tile.reduce_lanes"({{.*}}) {exchange = 0 : i64, fresh, kind = "sum"
// ROW-NOT: tile.load_columns
// ROW: "tile.compute"({{.*}}, %[[SUM]])
// ROW: "tile.find_scale"
// WALKED: %[[SUMS:.*]] = "tile.running"() {kind = "sum"}
// WALKED: "tile.steps"
// WALKED: "tile.load_columns"
// WALKED: "tile.counted"
// WALKED: "tile.term"(%[[SUMS]]
// WALKED: "tile.reduce_lanes"(%[[SUMS]])
// WALKED: "tile.steps"
// WALKED: "tile.load_columns"
// WALKED: "tile.store_columns"
// TURNED: tile.kernel
// TURNED: %[[X:.*]] = "tile.load_columns"
// TURNED: %[[MADE:.*]] = "tile.compute"(%[[X]])
// TURNED-NOT: tile.sync
// TURNED: "tile.lay_columns"(%[[MADE]]) {at = 0 : i64, columns = 64 : i64, halves = bf16, place = 0 : i64, rows = 128 : i64}
// TURNED: "tile.sync"() {releases = 0 : i64, scope = "cta"}
// TURNED: "tile.take_turned"() {at = 0 : i64, columns = 64 : i64, halves = bf16, place = 0 : i64, rows = 128 : i64}
// TURNED: "tile.reduce_lanes"({{.*}}) {exchange = -1 : i64, kind = "absmax"
// TURNED: "tile.reduce_lanes"({{.*}}) {exchange = -1 : i64, kind = "absmax"
// TURNED: %[[TURN:.*]] = "tile.own_turn"() {threads = 2 : i64}
// TURNED: "tile.store_scale"({{.*}}) {block = 32 : i64, {{.*}}sharing = 0 : i64}
// TURNED-NOT: tile.store_scale
// TURNED: "tile.end_row"
// TURNED: order = "n"
// WORDS: "tile.lay_columns"({{.*}}) {at = 0 : i64, columns = 64 : i64, place = 0 : i64, rows = 128 : i64}
// FIRST: "tile.load_columns"
// FIRST: "tile.reduce_lanes"
// FIRST-NOT: "tile.load_columns"
// FIRST: "tile.store_columns"
