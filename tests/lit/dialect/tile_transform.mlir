// RUN: %roundtrip %s | filecheck %s

// bf16 becomes tf32, and each row of it a sum of squares and its largest element; then what is multiplied is computed too.
"tile.kernel"() ({
^bb0(%sums: memref<?xf32>, %counters: memref<?xi32>, %alpha: f32):
  %ring = "tile.ring"() {depth = 2 : i64, empty = 4 : i64, full = 4 : i64, offset = 0 : i64} : () -> !tile.stages
  %filled = "tile.cut_ring"() {depth = 2 : i64, full = 1 : i64, offset = 64 : i64} : () -> !tile.stages
  %from = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>
  %to = "tile.shared"() {offset = 16384 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>
  "tile.role"() ({
    %at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
    %row = "arith.constant"() {value = 0 : i32} : () -> i32
    %end = "arith.constant"() {value = 50 : i32} : () -> i32
    %one = "arith.constant"() {value = 1 : i64} : () -> i64
    // CHECK: [[SUM:%.*]] = "tile.folds"() {kind = "sum"} : () -> !tile.folded_rows<4 : i64>
    %sum = "tile.folds"() {kind = "sum"} : () -> !tile.folded_rows<4 : i64>
    // CHECK: [[MOST:%.*]] = "tile.folds"() {kind = "max"} : () -> !tile.folded_rows<4 : i64>
    %most = "tile.folds"() {kind = "max"} : () -> !tile.folded_rows<4 : i64>
    "tile.wait"(%filled, %at) : (!tile.stages, !tile.position) -> ()
    // CHECK: "tile.transform"({{.*}}, [[SUM]], [[MOST]]) ({
    "tile.transform"(%from, %to, %at, %end, %sum, %most) ({
    ^bb0(%x: f32):
      %xx = "arith.mulf"(%x, %x) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      // CHECK: "tile.yield"({{%.*}}, {{%.*}}) : (f32, f32) -> ()
      "tile.yield"(%xx, %x) : (f32, f32) -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 2, 0, 0>, stored = bf16} : (!tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, !tile.position, i32, !tile.folded_rows<4 : i64>, !tile.folded_rows<4 : i64>) -> ()
    // CHECK: [[R:%.*]] = "tile.beside"({{.*}}) {along = "rows",
    %r = "tile.beside"(%sums, %to, %row, %end, %one) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, along = "rows"} : (memref<?xf32>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, i32, i32, i64) -> !tile.element_inputs
    // CHECK: [[W:%.*]] = "tile.beside"({{.*}}) {along = "k",
    %w = "tile.beside"(%sums, %to, %row, %end, %one) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>, along = "k"} : (memref<?xf32>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, i32, i32, i64) -> !tile.element_inputs
    // CHECK: "tile.transform"({{.*}}, [[R]], [[W]], {{%.*}}) ({
    "tile.transform"(%from, %to, %at, %r, %w, %alpha) ({
    ^bb0(%x: f32, %of_row: f32, %of_k: f32, %by: f32):
      %xx = "arith.mulf"(%x, %by) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      "tile.yield"(%xx) : (f32) -> ()
      // CHECK: {computed = bf16,
    }) {computed = bf16, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 2, 1>, stored = bf16} : (!tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, !tile.position, !tile.element_inputs, !tile.element_inputs, f32) -> ()
    "tile.pass_on"(%ring, %at) : (!tile.stages, !tile.position) -> ()
    "tile.advance"(%at) : (!tile.position) -> ()
    // CHECK: "tile.sum_folds"([[SUM]],
    // CHECK-SAME: {counter = 4 : i64, counters_of_tile = 8 : i64, offset = 256 : i64, split = 4 : i64, words = 512 : i64}
    %last = "tile.sum_folds"(%sum, %to, %sums, %counters, %row, %end) {counter = 4 : i64, counters_of_tile = 8 : i64, offset = 256 : i64, split = 4 : i64, words = 512 : i64} : (!tile.folded_rows<4 : i64>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, memref<?xf32>, memref<?xi32>, i32, i32) -> i1
    // CHECK: "tile.store_folds"([[SUM]],
    "tile.store_folds"(%sum, %sums, %to, %row, %end, %one) ({
    ^bb0(%x: f32):
      "tile.yield"(%x) : (f32) -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>} : (!tile.folded_rows<4 : i64>, memref<?xf32>, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 2 : i64>, i32, i32, i64) -> ()
    // Out of registers a thread has two rows of each wave.
    %own = "tile.folds"() {kind = "sum"} : () -> !tile.folded_rows<2 : i64>
    %loaded = "tile.load_stored"(%from, %at) {a_wave = 0 : i64, count = 1 : i64, made = tf32, number = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>, waves = 1 : i64} : (!tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>, !tile.position) -> !tile.slice<array<i64: 64, 32>, bf16, "a">
    // CHECK: "tile.transformed"({{%.*}}, {{%.*}}, {{%.*}}) ({
    %a = "tile.transformed"(%loaded, %end, %own) ({
    ^bb0(%x: f32):
      "tile.yield"(%x) : (f32) -> ()
      // CHECK: {first = 0 : i64, {{.*}}wave = 0 : i64}
    }) {first = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, wave = 0 : i64} : (!tile.slice<array<i64: 64, 32>, bf16, "a">, i32, !tile.folded_rows<2 : i64>) -> !tile.slice<array<i64: 64, 32>, tf32, "a">
    // CHECK: "tile.store_folds"({{.*}}
    // CHECK: waves = 1 : i64
    "tile.store_folds"(%own, %sums, %from, %row, %end, %one) ({
    ^bb0(%x: f32):
      "tile.yield"(%x) : (f32) -> ()
    }) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, waves = 1 : i64} : (!tile.folded_rows<2 : i64>, memref<?xf32>, !tile.buffer<array<i64: 64, 32>, bf16, 0 : i64, 2 : i64>, i32, i32, i64) -> ()
  }) {label = "converter", registers = 88 : i64, warps = array<i64: 0, 4>} : () -> ()
}) {arguments = [{align = 4 : i64, atom = 16 : i64, axes = array<i64>, axis = 0 : i64, box = array<i64>, dim = "", element = "", kind = "pointer", permuted = 0 : i64, swizzle = 0 : i64, tensor = "S"}, {align = 4 : i64, atom = 16 : i64, axes = array<i64>, axis = 0 : i64, box = array<i64>, dim = "", element = "", kind = "pointer", permuted = 0 : i64, swizzle = 0 : i64, tensor = "counters"}, {align = 4 : i64, atom = 16 : i64, axes = array<i64>, axis = 0 : i64, box = array<i64>, dim = "", element = "", kind = "scalar", permuted = 0 : i64, swizzle = 0 : i64, tensor = "alpha"}], cluster = array<i64: 1, 1>, shared_bytes = 100000 : i64, sym_name = "C", threads = 128 : i64} : () -> ()
