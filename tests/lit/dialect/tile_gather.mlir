// RUN: %roundtrip %s | filecheck %s

// Rows that an index names, four copied at once; their scales along with them, and the rows that it leaves out.
!desc = !tile.descriptor<array<i64: 128, 1>, f8E4M3FN, 128 : i64>
!paged = !tile.descriptor<array<i64: 128, 1, 1>, f8E4M3FN, 128 : i64>
!tiles = !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 4 : i64>
!sums = !tile.accumulator<array<i64: 64, 64>, "registers">
func.func @p(%A: !desc, %P: !paged, %at: memref<?xi32>, %s: i64, %x: i32, %S: memref<?x4xf32>, %C: memref<?x64xbf16>, %r: memref<?xf32>, %M: memref<?x512xf8E4M3FN>) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tiles
  %ring = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 40000 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  // CHECK: %[[INDEX:.*]] = "tile.row_index"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  %index = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  // CHECK: "tile.own_index"(%[[INDEX]], %{{.*}}, %{{.*}}) : (!tile.index, i32, i32) -> !tile.index
  %each = "tile.own_index"(%index, %x, %x) : (!tile.index, i32, i32) -> !tile.index
  // CHECK: %[[ROWS:.*]] = "tile.gathered"() {rows = 64 : i64, together = 4 : i64} : () -> !tile.gathered_rows
  %rows = "tile.gathered"() {rows = 64 : i64, together = 4 : i64} : () -> !tile.gathered_rows
  // CHECK: "tile.look_up"(%[[ROWS]], %[[INDEX]], %{{.*}}, %{{.*}}) : (!tile.gathered_rows, !tile.index, i32, i32) -> ()
  "tile.look_up"(%rows, %index, %x, %x) : (!tile.gathered_rows, !tile.index, i32, i32) -> ()
  // CHECK: "tile.elect"() ({
  "tile.elect"() ({
    "tile.expect"(%ring, %c) {bytes = 8192 : i64} : (!tile.stages, !tile.position) -> ()
  }) : () -> ()
  // CHECK: "tile.gather"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[ROWS]], %{{.*}})
  "tile.gather"(%A, %a, %ring, %c, %rows, %x) : (!desc, !tiles, !tile.stages, !tile.position, !tile.gathered_rows, i32) -> ()
  // Rows of pages, one a copy.
  %pages = "tile.row_index"(%at, %s, %x) {axis = "m", block = 20 : i64, operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  // CHECK: %[[PAGED:.*]] = "tile.gathered"() {page = 20 : i64, rows = 64 : i64, together = 1 : i64} : () -> !tile.gathered_rows
  %paged = "tile.gathered"() {page = 20 : i64, rows = 64 : i64, together = 1 : i64} : () -> !tile.gathered_rows
  "tile.look_up"(%paged, %pages, %x, %x) : (!tile.gathered_rows, !tile.index, i32, i32) -> ()
  // CHECK: "tile.gather"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[PAGED]], %{{.*}})
  "tile.gather"(%P, %a, %ring, %c, %paged, %x) : (!paged, !tiles, !tile.stages, !tile.position, !tile.gathered_rows, i32) -> ()
  // Rows that a warpgroup's threads copy, 16 bytes each, eight threads a row, and one scale of each.
  %r2 = "tile.cut_ring"() {depth = 4 : i64, full = 128 : i64, offset = 41000 : i64} : () -> !tile.stages
  %v = "tile.shared"() {offset = 33024 : i64} : () -> !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>
  // CHECK: %[[CHUNKS:.*]] = "tile.row_chunks"(%{{.*}}) {bits = 8 : i64, chunks = 8 : i64, row_block = 1 : i64, rows = 64 : i64} : (i64) -> !tile.gathered_rows
  %chunks = "tile.row_chunks"(%s) {bits = 8 : i64, chunks = 8 : i64, row_block = 1 : i64, rows = 64 : i64} : (i64) -> !tile.gathered_rows
  %of_scales = "tile.row_chunks"(%s) {bits = 32 : i64, chunks = 1 : i64, row_block = 24 : i64, rows = 64 : i64} : (i64) -> !tile.gathered_rows
  // CHECK: "tile.look_up"(%[[CHUNKS]], %[[INDEX]], %{{.*}}, %{{.*}})
  "tile.look_up"(%chunks, %index, %x, %x) : (!tile.gathered_rows, !tile.index, i32, i32) -> ()
  // CHECK: "tile.copy_rows"(%{{.*}}, %{{.*}}, %{{.*}}, %[[CHUNKS]], %{{.*}}, %{{.*}}) {whole}
  "tile.copy_rows"(%M, %a, %c, %chunks, %x, %x) {whole} : (memref<?x512xf8E4M3FN>, !tiles, !tile.position, !tile.gathered_rows, i32, i32) -> ()
  // CHECK: "tile.copy_row_scales"({{.*}}) {block = 128 : i64, step = 128 : i64}
  "tile.copy_row_scales"(%S, %s, %v, %c, %of_scales, %x, %x) {block = 128 : i64, step = 128 : i64} : (memref<?x4xf32>, i64, !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, i32, i32) -> ()
  // CHECK: "tile.land"(%{{.*}}, %{{.*}}) : (!tile.stages, !tile.position) -> ()
  "tile.land"(%r2, %c) : (!tile.stages, !tile.position) -> ()
  // CHECK: "tile.pass_on"(%{{.*}}, %{{.*}}) {arrivals = 2 : i64} : (!tile.stages, !tile.position) -> ()
  "tile.pass_on"(%ring, %c) {arrivals = 2 : i64} : (!tile.stages, !tile.position) -> ()
  // Rows of K, of two panels each, where two indices along K are read.
  %kb = "tile.shared"() {offset = 65536 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
  // CHECK: %[[K:.*]] = "tile.row_index"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = "k",
  %k = "tile.row_index"(%at, %s, %x) {axis = "k", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  // CHECK: %[[KROWS:.*]] = "tile.k_rows"() {chunks = 8 : i64, count = 2 : i64, rows = 64 : i64} : () -> !tile.gathered_rows
  %krows = "tile.k_rows"() {chunks = 8 : i64, count = 2 : i64, rows = 64 : i64} : () -> !tile.gathered_rows
  // CHECK: "tile.look_up_k"(%[[KROWS]], %[[K]], %[[K]], %{{.*}}, %{{.*}}, %{{.*}})
  "tile.look_up_k"(%krows, %k, %k, %x, %x, %x) {operandSegmentSizes = array<i32: 1, 2, 1, 1, 1>} : (!tile.gathered_rows, !tile.index, !tile.index, i32, i32, i32) -> ()
  %named = "tile.byte_scales"() {rows = 64 : i64, warps = 2 : i64, words = 1 : i64} : () -> !tile.scale_bytes
  // CHECK: "tile.look_up_k"({{.*}}) {operandSegmentSizes = array<i32: 1, 2, 1, 1, 1>, own = 1 : i64} : (!tile.scale_bytes,
  "tile.look_up_k"(%named, %k, %k, %x, %x, %x) {operandSegmentSizes = array<i32: 1, 2, 1, 1, 1>, own = 1 : i64} : (!tile.scale_bytes, !tile.index, !tile.index, i32, i32, i32) -> ()
  // CHECK: "tile.copy_k_rows"({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 2, 1, 1, 1>, own = 1 : i64}
  "tile.copy_k_rows"(%C, %s, %kb, %c, %krows, %k, %k, %x, %x, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 2, 1, 1, 1>, own = 1 : i64} : (memref<?x64xbf16>, i64, !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, !tile.index, !tile.index, i32, i32, i32) -> ()
  // CHECK: %[[ALONE:.*]] = "tile.k_rows"() {alone, chunks = 1 : i64, count = 1 : i64, rows = 64 : i64} : () -> !tile.gathered_rows
  %alone = "tile.k_rows"() {alone, chunks = 1 : i64, count = 1 : i64, rows = 64 : i64} : () -> !tile.gathered_rows
  // CHECK: "tile.cut_k_rows"(%{{.*}}, %{{.*}}, %[[ALONE]], %[[K]]) {operandSegmentSizes = array<i32: 1, 1, 1, 1>}
  "tile.cut_k_rows"(%kb, %c, %alone, %k) {operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.position, !tile.gathered_rows, !tile.index) -> ()
  %scales = "tile.row_scales"() {rows = 64 : i64, blocks = 2 : i64, warps = 3 : i64} : () -> !tile.rows
  // CHECK: "tile.cut_unnamed"(%{{.*}}, %[[ALONE]], %[[K]]) {operandSegmentSizes = array<i32: 1, 1, 1>, unit = 32 : i64}
  "tile.cut_unnamed"(%scales, %alone, %k) {operandSegmentSizes = array<i32: 1, 1, 1>, unit = 32 : i64} : (!tile.rows, !tile.gathered_rows, !tile.index) -> ()
  // CHECK: "tile.look_up"(%{{.*}}, %[[INDEX]], %{{.*}}, %{{.*}}) : (!tile.rows, !tile.index, i32, i32) -> ()
  "tile.look_up"(%scales, %index, %x, %x) : (!tile.rows, !tile.index, i32, i32) -> ()
  // CHECK: "tile.load_rows"({{.*}}) {block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, row_block = 128 : i64, step = 128 : i64}
  "tile.load_rows"(%scales, %S, %s, %s, %x, %x, %x, %x) {block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, row_block = 128 : i64, step = 128 : i64} : (!tile.rows, memref<?x4xf32>, i64, i64, i32, i32, i32, i32) -> ()
  // CHECK: "tile.load_rows"({{.*}}) {block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>, page = 40 : i64, row_block = 1 : i64, step = 128 : i64}
  "tile.load_rows"(%scales, %S, %s, %s, %x, %x, %x, %x, %s) {block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>, page = 40 : i64, row_block = 1 : i64, step = 128 : i64} : (!tile.rows, memref<?x4xf32>, i64, i64, i32, i32, i32, i32, i64) -> ()
  // CHECK: %[[ASKED:.*]] = "tile.ask_named"(%[[INDEX]], %{{.*}}, %{{.*}}) {count = 64 : i64} : (!tile.index, i32, i32) -> !tile.registers
  %asked = "tile.ask_named"(%index, %x, %x) {count = 64 : i64} : (!tile.index, i32, i32) -> !tile.registers
  // CHECK: "tile.all_named"(%[[ASKED]]) : (!tile.registers) -> i1
  %whole = "tile.all_named"(%asked) : (!tile.registers) -> i1
  %input = "tile.input"(%r, %s) {axes = array<i64: 0, 1, 0>, kind = "row", operandSegmentSizes = array<i32: 1, 1>, pair = 0 : i64} : (memref<?xf32>, i64) -> !tile.operand
  // CHECK: "tile.input_at"(%{{.*}}, %[[INDEX]]) {axis = 0 : i64} : (!tile.operand, !tile.index) -> !tile.operand
  %looked = "tile.input_at"(%input, %index) {axis = 0 : i64} : (!tile.operand, !tile.index) -> !tile.operand
  %sum = "tile.fragment"() : () -> !sums
  // CHECK: "tile.store_direct"({{.*}}, %[[INDEX]]) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>, pair = 1 : i64}
  "tile.store_direct"(%sum, %C, %s, %s, %x, %x, %x, %x, %index) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>, pair = 1 : i64} : (!sums, memref<?x64xbf16>, i64, i64, i32, i32, i32, i32, !tile.index) -> ()
  // Rows that go where the index says: two indices have them, the second one says where. Then scales of such rows.
  %to = "tile.row_index"(%at, %s, %x) {axis = "m", operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xi32>, i64, i32) -> !tile.index
  // CHECK: "tile.store_direct"({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 2>, pair = 1 : i64, to = array<i64: 1>}
  "tile.store_direct"(%sum, %C, %s, %s, %x, %x, %x, %x, %index, %to) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 2>, pair = 1 : i64, to = array<i64: 1>} : (!sums, memref<?x64xbf16>, i64, i64, i32, i32, i32, i32, !tile.index, !tile.index) -> ()
  // Rows out of shared memory, each where the index says that was asked for.
  %room = "tile.shared"() {offset = 32768 : i64} : () -> !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 1 : i64>
  %own = "tile.ask_named"(%to, %x, %x) {count = 64 : i64} : (!tile.index, i32, i32) -> !tile.registers
  // CHECK: "tile.store_staged"({{.*}}) {copied, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>, to = array<i64: 0>}
  "tile.store_staged"(%sum, %room, %C, %s, %x, %x, %x, %x, %own) {copied, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>, to = array<i64: 0>} : (!sums, !tile.buffer<array<i64: 64, 64>, bf16, 128 : i64, 1 : i64>, memref<?x64xbf16>, i64, i32, i32, i32, i32, !tile.registers) -> ()
  // CHECK: "tile.quantize"({{.*}}) {block = 32 : i64, {{.*}}to = array<i64: 0>, together = 1 : i64}
  "tile.quantize"(%sum, %S, %s, %x, %x, %x, %x, %to) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0>, block = 32 : i64, by_rows = 0 : i64, element = f8E4M3FN, scale = "f32", layout = "row", ragged = 0 : i64, padding = 0 : i64, together = 1 : i64, exchange = -1 : i64, to = array<i64: 0>} : (!sums, memref<?x4xf32>, i64, i32, i32, i32, i32, !tile.index) -> ()
  return
}
