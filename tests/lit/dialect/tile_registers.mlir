// RUN: %roundtrip %s | filecheck %s
// RUN: scalec opt --passes= %s | filecheck %s

// The ops and types of products out of registers, as they print; no pass runs.

!a = !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>
!b = !tile.buffer<array<i64: 64, 128>, i8, 128 : i64, 3 : i64>
!b_mn = !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 3 : i64>
!a_words = !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 3 : i64>
!sums = !tile.accumulator<array<i64: 32, 32>, "warp">

func.func @registers(%scales: memref<?x?xi8>, %s: i64, %x: i32, %last: i1) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !a
  %b = "tile.shared"() {offset = 49152 : i64} : () -> !b
  %t = "tile.shared"() {offset = 49152 : i64} : () -> !b_mn
  // CHECK: "tile.shared"() {offset = 73728 : i64} : () -> !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 3 : i64>
  %w = "tile.shared"() {offset = 73728 : i64} : () -> !a_words
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  // CHECK: "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 32>, "warp">
  %sum = "tile.fragment"() : () -> !sums
  // CHECK: "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">
  %x0 = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">
  // CHECK-NEXT: "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f4E2M1FN, "b">
  %y0 = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f4E2M1FN, "b">
  %p0 = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 64>, f4E2M1FN, "b">
  %z0 = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 16>, bf16, "b">
  // CHECK: "tile.words"() : () -> !tile.scale_words<array<i64: 1, 32>, "a">
  %words = "tile.words"() : () -> !tile.scale_words<array<i64: 1, 32>, "a">
  // CHECK-NEXT: "tile.load_words"(%{{.*}}, %{{.*}}, %{{.*}}) : (!tile.scale_words<array<i64: 1, 32>, "a">, !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 3 : i64>, !tile.position) -> ()
  "tile.load_words"(%words, %w, %at) : (!tile.scale_words<array<i64: 1, 32>, "a">, !a_words, !tile.position) -> ()
  // CHECK-NEXT: "tile.turn"(%{{.*}}) : (!tile.scale_words<array<i64: 1, 32>, "a">) -> ()
  "tile.turn"(%words) : (!tile.scale_words<array<i64: 1, 32>, "a">) -> ()
  // CHECK-NEXT: "tile.load"(%{{.*}}, %{{.*}}, %{{.*}}) {step = 3 : i64, transpose = 0 : i64} : (!tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">
  "tile.load"(%x0, %a, %at) {step = 3 : i64, transpose = 0 : i64} : (!tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">, !a, !tile.position) -> ()
  // elements of less than a byte lie in tiles of bytes
  // CHECK-NEXT: "tile.load"({{.*}}) {step = 0 : i64, transpose = 0 : i64} : (!tile.slice<array<i64: 32, 32>, f4E2M1FN, "b">, !tile.buffer<array<i64: 64, 128>, i8, 128 : i64, 3 : i64>, !tile.position) -> ()
  "tile.load"(%y0, %b, %at) {step = 0 : i64, transpose = 0 : i64} : (!tile.slice<array<i64: 32, 32>, f4E2M1FN, "b">, !b, !tile.position) -> ()
  // CHECK-NEXT: "tile.cut"(%{{.*}}, %{{.*}}) {element = 63 : i64} : (!tile.slice<array<i64: 32, 64>, f4E2M1FN, "b">, i1) -> ()
  "tile.cut"(%p0, %last) {element = 63 : i64} : (!tile.slice<array<i64: 32, 64>, f4E2M1FN, "b">, i1) -> ()
  // CHECK-NEXT: "tile.load"({{.*}}) {step = 1 : i64, transpose = 1 : i64}
  "tile.load"(%z0, %t, %at) {step = 1 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 32, 16>, bf16, "b">, !b_mn, !tile.position) -> ()
  // 4-bit elements of bytes with K outermost, packed on the way
  // CHECK-NEXT: "tile.load"({{.*}}) {step = 0 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 32, 64>, f4E2M1FN, "b">, !tile.buffer<array<i64: 64, 128>, i8, 128 : i64, 3 : i64>, !tile.position) -> ()
  "tile.load"(%p0, %b, %at) {step = 0 : i64, transpose = 1 : i64} : (!tile.slice<array<i64: 32, 64>, f4E2M1FN, "b">, !b, !tile.position) -> ()
  // CHECK-NEXT: "tile.multiply"({{.*}}) {a_byte = 3 : i64, accumulate = 1 : i64, b_byte = -1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, scale = "ue8m0"}
  "tile.multiply"(%sum, %x0, %y0, %words) {a_byte = 3 : i64, accumulate = 1 : i64, b_byte = -1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, scale = "ue8m0"}
    : (!sums, !tile.slice<array<i64: 32, 32>, f8E4M3FN, "a">, !tile.slice<array<i64: 32, 32>, f4E2M1FN, "b">, !tile.scale_words<array<i64: 1, 32>, "a">) -> ()
  // CHECK-NEXT: "tile.byte_scales"() {rows = 128 : i64, warps = 3 : i64, words = 1 : i64} : () -> !tile.scale_bytes
  %bytes = "tile.byte_scales"() {rows = 128 : i64, warps = 3 : i64, words = 1 : i64} : () -> !tile.scale_bytes
  // CHECK-NEXT: "tile.load_bytes"({{.*}}) {block = 32 : i64, bytes = 4 : i64, layout = "blocked", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, pads = 0 : i64, row_block = 1 : i64, unit = 32 : i64, whole = 1 : i64}
  "tile.load_bytes"(%bytes, %scales, %s, %s, %x, %x, %x, %x) {block = 32 : i64, bytes = 4 : i64, layout = "blocked", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, row_block = 1 : i64, unit = 32 : i64, whole = 1 : i64, pads = 0 : i64}
    : (!tile.scale_bytes, memref<?x?xi8>, i64, i64, i32, i32, i32, i32) -> ()
  // Of pages that an index names, so far apart.
  // CHECK-NEXT: "tile.load_bytes"({{.*}}) {block = 32 : i64, bytes = 4 : i64, layout = "row", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>, pads = 0 : i64, page = 64 : i64, row_block = 1 : i64, unit = 32 : i64, whole = 1 : i64}
  "tile.load_bytes"(%bytes, %scales, %s, %s, %x, %x, %x, %x, %s) {block = 32 : i64, bytes = 4 : i64, layout = "row", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1>, page = 64 : i64, row_block = 1 : i64, unit = 32 : i64, whole = 1 : i64, pads = 0 : i64}
    : (!tile.scale_bytes, memref<?x?xi8>, i64, i64, i32, i32, i32, i32, i64) -> ()
  // CHECK-NEXT: "tile.store_bytes"(%{{.*}}, %{{.*}}, %{{.*}}) : (!tile.scale_bytes, !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 3 : i64>, !tile.position) -> ()
  "tile.store_bytes"(%bytes, %w, %at) : (!tile.scale_bytes, !a_words, !tile.position) -> ()
  return
}
