// RUN: %roundtrip %s | filecheck %s

// Scale words of three K blocks beside the accumulators, copied by one warp and multiplied by another.

!sums = !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
!words = !tile.buffer<array<i64: 2, 128>, i32, 0 : i64, 6 : i64>

func.func @words() {
  %words = "tile.shared"() {offset = 0 : i64} : () -> !words
  %sums = "tile.sums"() {beside = 24 : i64, ctas = 1 : i64, offset = 15360 : i64} : () -> !sums
  // CHECK: %[[RING:.*]] = "tile.ring"() {depth = 6 : i64
  %ring = "tile.ring"() {depth = 6 : i64, empty = 1 : i64, full = 2 : i64, offset = 15376 : i64} : () -> !tile.stages
  // CHECK: %[[AT:.*]] = "tile.cursor"() {depth = 6 : i64}
  %at = "tile.cursor"() {depth = 6 : i64} : () -> !tile.position
  // CHECK: %[[SLOT:.*]] = "tile.cursor"() {depth = 3 : i64}
  %slot = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  // CHECK: %[[OWN:.*]] = "tile.word_slot"(%{{.*}}, %[[SLOT]]) {column = 0 : i64, columns = 8 : i64} : (!tile.tensor_memory<array<i64: 128, 64>, 1 : i64>, !tile.position) -> !tile.tensor_memory<array<i64: 128, 64>, 1 : i64>
  %own = "tile.word_slot"(%sums, %slot) {column = 0 : i64, columns = 8 : i64} : (!sums, !tile.position) -> !sums
  // CHECK-NEXT: "tile.copy_words"(%[[OWN]]
  "tile.copy_words"(%own, %words, %at) {column = 0 : i64} : (!sums, !words, !tile.position) -> ()
  // CHECK-NEXT: "tile.copied"(%[[RING]], %[[AT]]) : (!tile.stages, !tile.position) -> ()
  "tile.copied"(%ring, %at) : (!tile.stages, !tile.position) -> ()
  return
}
