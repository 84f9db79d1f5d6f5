// RUN: %roundtrip %s | filecheck %s

// Packed e2m1 becomes bf16, times a factor for each 16 of K and row; e4m3 with rows contiguous is turned. Integers
// are less their zero points, from memory or one for all.
"tile.kernel"() ({
^bb0(%Z: memref<?x?xui4>):
  %ring = "tile.ring"() {depth = 2 : i64, empty = 4 : i64, full = 4 : i64, offset = 0 : i64} : () -> !tile.stages
  // CHECK: "tile.cut_ring"() {depth = 2 : i64, full = 97 : i64, offset = 64 : i64}
  %filled = "tile.cut_ring"() {depth = 2 : i64, full = 97 : i64, offset = 64 : i64} : () -> !tile.stages
  %packed = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>
  %wide = "tile.shared"() {offset = 8192 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>
  %factors = "tile.shared"() {offset = 32768 : i64} : () -> !tile.buffer<array<i64: 4, 64>, f32, 0 : i64, 2 : i64>
  %lines = "tile.shared"() {offset = 40960 : i64} : () -> !tile.buffer<array<i64: 128, 64>, f8E4M3FN, 0 : i64, 2 : i64>
  %words = "tile.shared"() {offset = 36864 : i64} : () -> !tile.buffer<array<i64: 1, 64>, i32, 0 : i64, 2 : i64>
  %in_words = "tile.shared"() {offset = 90112 : i64} : () -> !tile.buffer<array<i64: 16, 32>, i32, 0 : i64, 2 : i64>
  %panels = "tile.shared"() {offset = 94208 : i64} : () -> !tile.buffer<array<i64: 8, 64>, i32, 128 : i64, 2 : i64>
  %bytes = "tile.shared"() {offset = 57344 : i64} : () -> !tile.buffer<array<i64: 64, 64>, f8E4M3FN, 0 : i64, 2 : i64>
  %rows = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>
  "tile.role"() ({
    %at = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
    "tile.wait"(%filled, %at) : (!tile.stages, !tile.position) -> ()
    // CHECK: "tile.convert"({{.*}}) {{.*}}stored = f4E2M1FN}
    "tile.convert"(%packed, %wide, %at, %factors) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, stored = f4E2M1FN} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 4, 64>, f32, 0 : i64, 2 : i64>) -> ()
    // CHECK: "tile.convert"({{.*}}) {{.*}}stored = f8E4M3FN, turned}
    "tile.convert"(%lines, %rows, %at) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>, stored = f8E4M3FN, turned} : (!tile.buffer<array<i64: 128, 64>, f8E4M3FN, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position) -> ()
    // Of gathered rows of K, each with factors of its own for each half of the tile's rows.
    %own_of = "tile.shared"() {offset = 90112 : i64} : () -> !tile.buffer<array<i64: 2, 64>, f32, 0 : i64, 2 : i64>
    // CHECK: "tile.convert"({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, stored = f8E4M3FN, turned}
    "tile.convert"(%bytes, %wide, %at, %own_of) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0>, stored = f8E4M3FN, turned} : (!tile.buffer<array<i64: 64, 64>, f8E4M3FN, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 2, 64>, f32, 0 : i64, 2 : i64>) -> ()
    %stride = arith.constant 4 : i64
    %one = arith.constant 1 : i64
    %row = arith.constant 64 : i32
    %end = arith.constant 100 : i32
    // CHECK: "tile.zero_points"({{.*}}) {along = "k", k_block = 128 : i64, {{.*}}row_block = 1 : i64} : {{.*}} -> !tile.subtrahends
    %zeros = "tile.zero_points"(%wide, %Z, %stride, %one, %row, %end, %row, %end) {along = "k", k_block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 4, 0>, row_block = 1 : i64} : (!tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, memref<?x?xui4>, i64, i64, i32, i32, i32, i32) -> !tile.subtrahends
    // CHECK: "tile.convert"({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, stored = ui4}
    "tile.convert"(%packed, %wide, %at, %zeros) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, stored = ui4} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.subtrahends) -> ()
    // Each is one more than is stored, and eight of a word are in another order.
    // CHECK: "tile.zero_points"({{.*}}) {along = "rows", k_block = 128 : i64, k_order = array<i64: 0, 1, 1, 4>, {{.*}}plus = 1 : i64, row_block = 1 : i64, row_order = array<i64: 0, 8, 8, 0, 4, 1, 2, 1, 2, 4>}
    %stored = "tile.zero_points"(%wide, %Z, %one, %stride, %row, %end, %row, %end) {along = "rows", k_block = 128 : i64, k_order = array<i64: 0, 1, 1, 4>, operandSegmentSizes = array<i32: 1, 1, 2, 4, 0>, plus = 1 : i64, row_block = 1 : i64, row_order = array<i64: 0, 8, 8, 0, 4, 1, 2, 1, 2, 4>} : (!tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, memref<?x?xui4>, i64, i64, i32, i32, i32, i32) -> !tile.subtrahends
    "tile.convert"(%packed, %wide, %at, %stored) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, stored = ui4} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.subtrahends) -> ()
    // CHECK: "tile.zero_points"({{.*}}) {number = 8 : i64, {{.*}}-> !tile.subtrahends
    %eight = "tile.zero_points"(%wide) {number = 8 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0>} : (!tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>) -> !tile.subtrahends
    "tile.convert"(%packed, %wide, %at, %eight) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0>, stored = i4} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.subtrahends) -> ()
    // CHECK: "tile.row_zeros"() {blocks = 2 : i64, rows = 64 : i64, warps = 2 : i64} : () -> !tile.zeros
    %on_their_way = "tile.row_zeros"() {blocks = 2 : i64, rows = 64 : i64, warps = 2 : i64} : () -> !tile.zeros
    // CHECK: "tile.load_zeros"({{.*}}) {along = "k", k_block = 128 : i64, {{.*}}row_block = 1 : i64, step = 64 : i64}
    "tile.load_zeros"(%on_their_way, %Z, %stride, %one, %row, %end, %row, %end) {along = "k", k_block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 4>, row_block = 1 : i64, step = 64 : i64} : (!tile.zeros, memref<?x?xui4>, i64, i64, i32, i32, i32, i32) -> ()
    // CHECK: "tile.store_zeros"({{.*}}) {added = 128 : i64, element = "u4", index = 1 : i64, made = "bf16", stored = "u4"}
    "tile.store_zeros"(%on_their_way, %words, %at) {added = 128 : i64, element = "u4", index = 1 : i64, made = "bf16", stored = "u4"} : (!tile.zeros, !tile.buffer<array<i64: 1, 64>, i32, 0 : i64, 2 : i64>, !tile.position) -> ()
    // Words of adjacent K, of two strips of rows.
    // CHECK: "tile.zero_points"({{.*}}) {along = "rows", in_words = 32 : i64, k_block = 128 : i64, {{.*}}row_block = 1 : i64}
    %of_words = "tile.zero_points"(%wide, %Z, %one, %stride, %row, %end, %row, %end) {along = "rows", in_words = 32 : i64, k_block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 4, 0>, row_block = 1 : i64} : (!tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, memref<?x?xui4>, i64, i64, i32, i32, i32, i32) -> !tile.subtrahends
    // CHECK: "tile.convert"({{.*}}) {in_words, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0>, stored = ui4}
    "tile.convert"(%in_words, %wide, %at, %factors, %of_words) {in_words, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0>, stored = ui4} : (!tile.buffer<array<i64: 16, 32>, i32, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 4, 64>, f32, 0 : i64, 2 : i64>, !tile.subtrahends) -> ()
    // Words of eight adjacent rows, which are turned, in AWQ's order.
    // CHECK: "tile.zero_points"({{.*}}) {along = "rows", k_block = 128 : i64, {{.*}}row_block = 1 : i64, turned = array<i64: 0, 2, 4, 6, 1, 3, 5, 7>}
    %of_turned = "tile.zero_points"(%wide, %Z, %one, %stride, %row, %end, %row, %end) {along = "rows", k_block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 4, 0>, row_block = 1 : i64, turned = array<i64: 0, 2, 4, 6, 1, 3, 5, 7>} : (!tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, memref<?x?xui4>, i64, i64, i32, i32, i32, i32) -> !tile.subtrahends
    // CHECK: "tile.zero_points"({{.*}}) {along = "rows", {{.*}}turned = array<i64: 0, 2, 4, 6, 1, 3, 5, 7>, words}
    %words_of_turned = "tile.zero_points"(%wide, %Z, %one, %stride, %row, %end, %row, %end) {along = "rows", k_block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 2, 4, 0>, row_block = 1 : i64, turned = array<i64: 0, 2, 4, 6, 1, 3, 5, 7>, words} : (!tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, memref<?x?xui4>, i64, i64, i32, i32, i32, i32) -> !tile.subtrahends
    // CHECK: "tile.convert"({{.*}}) {first = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0>, order = array<i64: 0, 2, 4, 6, 1, 3, 5, 7>, stored = ui4, turned}
    "tile.convert"(%packed, %wide, %at, %factors, %of_turned) {first = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0>, order = array<i64: 0, 2, 4, 6, 1, 3, 5, 7>, stored = ui4, turned} : (!tile.buffer<array<i64: 64, 32>, i8, 0 : i64, 2 : i64>, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 2 : i64>, !tile.position, !tile.buffer<array<i64: 4, 64>, f32, 0 : i64, 2 : i64>, !tile.subtrahends) -> ()
    // On their way to registers: panels of 32 rows, swizzled where B's rows are interleaved.
    // CHECK: "tile.load_stored"({{.*}}) {a_wave = 0 : i64, count = 1 : i64, in_words, interleaved, made = bf16,
    %loaded = "tile.load_stored"(%panels, %at) {a_wave = 0 : i64, count = 1 : i64, in_words, interleaved, made = bf16, number = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>, waves = 1 : i64} : (!tile.buffer<array<i64: 8, 64>, i32, 128 : i64, 2 : i64>, !tile.position) -> !tile.slice<array<i64: 64, 64>, ui4, "a">
    // CHECK: "tile.own_stage"({{.*}}) {of = 2 : i64} : (!tile.position) -> i1
    %own = "tile.own_stage"(%at) {of = 2 : i64} : (!tile.position) -> i1
    "tile.pass_on"(%ring, %at) : (!tile.stages, !tile.position) -> ()
    "tile.advance"(%at) : (!tile.position) -> ()
  }) {label = "converter", registers = 88 : i64, warps = array<i64: 0, 4>} : () -> ()
}) {arguments = [{}], cluster = array<i64: 1, 1>, shared_bytes = 100000 : i64, sym_name = "C", threads = 128 : i64} : () -> ()
