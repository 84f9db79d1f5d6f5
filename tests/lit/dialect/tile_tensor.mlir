// RUN: %roundtrip %s | filecheck %s
// RUN: scalec opt --passes= %s | filecheck %s

// The ops and types of sums in tensor memory, as they print; no pass runs.

!a = !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>
!b = !tile.buffer<array<i64: 64, 128>, i8, 128 : i64, 3 : i64>
!sums = !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
!scaled = !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
!words = !tile.buffer<array<i64: 2, 128>, i32, 0 : i64, 3 : i64>
!tiles = !tile.buffer<array<i64: 2, 256>, i64, 0 : i64, 3 : i64>
!taken = !tile.accumulator<array<i64: 32, 32>, "warp">

func.func @tensor(%again: i1, %m0: i32, %m: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !a
  %b = "tile.shared"() {offset = 49152 : i64} : () -> !b
  %ring = "tile.ring"() {depth = 3 : i64, empty = 1 : i64, full = 1 : i64, offset = 73728 : i64} : () -> !tile.stages
  %done = "tile.ring"() {depth = 2 : i64, empty = 4 : i64, full = 1 : i64, offset = 73776 : i64} : () -> !tile.stages
  // CHECK: %[[SUMS:.*]] = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 73808 : i64} : () -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
  %sums = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 73808 : i64} : () -> !sums
  // CHECK-NEXT: %[[AT:.*]] = "tile.cursor"() {depth = 3 : i64}
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  // CHECK-NEXT: %[[SLOT:.*]] = "tile.cursor"() {depth = 2 : i64}
  %slot = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  // elements of less than a byte lie in tiles of bytes
  // CHECK-NEXT: "tile.mma_sums"(%[[SUMS]], %[[SLOT]], %{{.*}}, %{{.*}}, %[[AT]], %{{.*}}) {a_element = f8E4M3FN, a_mn = 0 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = f4E2M1FN, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position, !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>, !tile.buffer<array<i64: 64, 128>, i8, 128 : i64, 3 : i64>, !tile.position, i1) -> ()
  "tile.mma_sums"(%sums, %slot, %a, %b, %at, %again) {a_element = f8E4M3FN, a_mn = 0 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = f4E2M1FN, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!sums, !tile.position, !a, !b, !tile.position, i1) -> ()
  // CHECK-NEXT: "tile.cut_rows"(%{{.*}}, %[[AT]]) {element = 255 : i64} : (!tile.buffer<array<i64: 64, 128>, i8, 128 : i64, 3 : i64>, !tile.position) -> ()
  "tile.cut_rows"(%b, %at) {element = 255 : i64} : (!b, !tile.position) -> ()
  // CHECK-NEXT: "tile.hand_over"(%{{.*}}, %[[AT]]) {side = "empty"} : (!tile.stages, !tile.position) -> ()
  "tile.hand_over"(%ring, %at) {side = "empty"} : (!tile.stages, !tile.position) -> ()
  // CHECK-NEXT: "tile.hand_over"(%{{.*}}, %[[SLOT]]) {side = "full"} : (!tile.stages, !tile.position) -> ()
  "tile.hand_over"(%done, %slot) {side = "full"} : (!tile.stages, !tile.position) -> ()
  // CHECK-NEXT: %[[TAKEN:.*]] = "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 32>, "warp">
  %taken = "tile.fragment"() : () -> !taken
  // CHECK-NEXT: "tile.take"(%[[TAKEN]], %[[SUMS]], %[[SLOT]]) {apart = 32 : i64, column = 32 : i64} : (!tile.accumulator<array<i64: 32, 32>, "warp">, !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>, !tile.position) -> ()
  "tile.take"(%taken, %sums, %slot) {apart = 32 : i64, column = 32 : i64} : (!taken, !sums, !tile.position) -> ()
  // CHECK-NEXT: "tile.taken"(%[[TAKEN]]) : (!tile.accumulator<array<i64: 32, 32>, "warp">) -> ()
  "tile.taken"(%taken) : (!taken) -> ()
  // CHECK-NEXT: "tile.has_rows"(%{{.*}}, %{{.*}}) {rows = 32 : i64} : (i32, i32) -> i1
  %rows = "tile.has_rows"(%m0, %m) {rows = 32 : i64} : (i32, i32) -> i1
  // CHECK-NEXT: "tile.vacate"(%{{.*}}, %[[SLOT]]) : (!tile.stages, !tile.position) -> ()
  "tile.vacate"(%done, %slot) : (!tile.stages, !tile.position) -> ()
  // CHECK-NEXT: "tile.free_sums"(%[[SUMS]]) : (!tile.tensor_memory<array<i64: 128, 64>, 2 : i64>) -> ()
  "tile.free_sums"(%sums) : (!sums) -> ()
  return
}

// scale words: two of each row; four of each, in two rows of tiles of a tensor
func.func @words() {
  %words = "tile.shared"() {offset = 0 : i64} : () -> !words
  %tiles = "tile.shared"() {offset = 3072 : i64} : () -> !tiles
  %sums = "tile.sums"() {beside = 42 : i64, ctas = 1 : i64, offset = 15360 : i64} : () -> !scaled
  // CHECK: %[[AT:.*]] = "tile.cursor"() {depth = 3 : i64}
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  // CHECK-NEXT: "tile.copy_words"(%{{.*}}, %{{.*}}, %[[AT]]) {column = 0 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.buffer<array<i64: 2, 128>, i32, 0 : i64, 3 : i64>, !tile.position) -> ()
  "tile.copy_words"(%sums, %words, %at) {column = 0 : i64} : (!scaled, !words, !tile.position) -> ()
  // CHECK-NEXT: "tile.copy_words"(%{{.*}}, %{{.*}}, %[[AT]]) {column = 10 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.buffer<array<i64: 2, 256>, i64, 0 : i64, 3 : i64>, !tile.position) -> ()
  "tile.copy_words"(%sums, %tiles, %at) {column = 10 : i64} : (!scaled, !tiles, !tile.position) -> ()
  // CHECK: %[[ONE:.*]] = "tile.shared"() {offset = 16384 : i64} : () -> !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 1 : i64>
  %one = "tile.shared"() {offset = 16384 : i64} : () -> !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 1 : i64>
  // CHECK-NEXT: "tile.ones"(%[[ONE]]) {scale = "ue4m3"} : (!tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 1 : i64>) -> ()
  "tile.ones"(%one) {scale = "ue4m3"} : (!tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 1 : i64>) -> ()
  // CHECK-NEXT: "tile.fill_words"(%{{.*}}, %[[ONE]]) {column = 8 : i64, columns = 4 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 1 : i64>) -> ()
  "tile.fill_words"(%sums, %one) {column = 8 : i64, columns = 4 : i64} : (!scaled, !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 1 : i64>) -> ()
  return
}

// words of B of rows before the tile's first
func.func @before(%again: i1, %before: i32) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !a
  %b = "tile.shared"() {offset = 49152 : i64} : () -> !b
  %sums = "tile.sums"() {beside = 8 : i64, ctas = 1 : i64, offset = 73808 : i64} : () -> !sums
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  %slot = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  // CHECK: "tile.mma_sums"({{.*}}, %[[BEFORE:.*]]) {{{.*}}, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1>, scale = "ue8m0"} : ({{.*}}, i1, i32) -> ()
  "tile.mma_sums"(%sums, %slot, %a, %b, %at, %again, %before) {a_element = f8E4M3FN, a_mn = 0 : i64, a_unit = 32 : i64, a_words = 0 : i64, b_element = f4E2M1FN, b_mn = 0 : i64, b_unit = 32 : i64, b_words = 4 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1>, scale = "ue8m0"} : (!sums, !tile.position, !a, !b, !tile.position, i1, i32) -> ()
  return
}

// Of a pair of CTAs: each has half of the rows of B, and arrives at the leader's ring.
!half = !tile.buffer<array<i64: 32, 128>, i8, 128 : i64, 3 : i64>

func.func @pair(%again: i1) {
  %a = "tile.shared"() {offset = 0 : i64} : () -> !a
  %b = "tile.shared"() {offset = 49152 : i64} : () -> !half
  // CHECK: %[[DONE:.*]] = "tile.ring"() {depth = 2 : i64
  %done = "tile.ring"() {depth = 2 : i64, empty = 8 : i64, full = 1 : i64, offset = 73776 : i64} : () -> !tile.stages
  // CHECK: "tile.sums"() {beside = 0 : i64, ctas = 2 : i64, offset = 73808 : i64}
  %sums = "tile.sums"() {beside = 0 : i64, ctas = 2 : i64, offset = 73808 : i64} : () -> !sums
  // CHECK-NEXT: "tile.pair_rank"() : () -> i32
  %rank = "tile.pair_rank"() : () -> i32
  // CHECK-NEXT: %[[LEADER:.*]] = "tile.leader"(%[[DONE]]) : (!tile.stages) -> !tile.stages
  %leader = "tile.leader"(%done) : (!tile.stages) -> !tile.stages
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  %slot = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  // CHECK: "tile.mma_sums"
  "tile.mma_sums"(%sums, %slot, %a, %b, %at, %again) {a_element = f8E4M3FN, a_mn = 0 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = f4E2M1FN, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 32 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!sums, !tile.position, !a, !half, !tile.position, i1) -> ()
  // CHECK-NEXT: "tile.vacate"(%[[LEADER]], %{{.*}}) : (!tile.stages, !tile.position) -> ()
  "tile.vacate"(%leader, %slot) : (!tile.stages, !tile.position) -> ()
  return
}

// Tiles of [K, rows] of 32 bits, in a swizzle that keeps 32 bytes together.
!turned = !tile.buffer<array<i64: 32, 128>, tf32, array<i64: 128, 32>, 3 : i64>

func.func @turned(%A: !tile.descriptor<array<i64: 32, 32>, tf32, array<i64: 128, 32>>, %x: i32, %again: i1) {
  // CHECK: %[[A:.*]] = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 32, 128>, tf32, array<i64: 128, 32>, 3 : i64>
  %a = "tile.shared"() {offset = 0 : i64} : () -> !turned
  %b = "tile.shared"() {offset = 49152 : i64} : () -> !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 3 : i64>
  %ring = "tile.ring"() {depth = 3 : i64, empty = 8 : i64, full = 1 : i64, offset = 73776 : i64} : () -> !tile.stages
  %sums = "tile.sums"() {beside = 0 : i64, ctas = 1 : i64, offset = 73808 : i64} : () -> !sums
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  %slot = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  // CHECK: "tile.copy"(%{{.*}}, %[[A]], %{{.*}}) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 32, 32>, tf32, array<i64: 128, 32>>,
  "tile.copy"(%A, %a, %ring, %at, %x, %x) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 32, 32>, tf32, array<i64: 128, 32>>, !turned, !tile.stages, !tile.position, i32, i32) -> ()
  // CHECK-NEXT: "tile.mma_sums"({{.*}}, %[[A]], {{.*}}) {a_element = tf32, a_mn = 1 : i64
  "tile.mma_sums"(%sums, %slot, %a, %b, %at, %again) {a_element = tf32, a_mn = 1 : i64, a_unit = 0 : i64, a_words = -1 : i64, b_element = tf32, b_mn = 0 : i64, b_unit = 0 : i64, b_words = -1 : i64, k = 8 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0>, scale = ""} : (!sums, !tile.position, !turned, !tile.buffer<array<i64: 64, 32>, tf32, 128 : i64, 3 : i64>, !tile.position, i1) -> ()
  return
}
