// RUN: %roundtrip %s | filecheck %s

// A stage whose K block is cut reaches its ring by a detour, where a warp leaves of it what lies in [low, high).
// CHECK: %[[CUT:.*]] = "tile.cut_ring"() {depth = 4 : i64, full = 1 : i64, offset = 64 : i64} : () -> !tile.stages
"tile.kernel"() ({
^bb0(%cut: i1, %low: i32, %high: i32):
  %ring = "tile.ring"() {depth = 4 : i64, empty = 4 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
  %through = "tile.cut_ring"() {depth = 4 : i64, full = 1 : i64, offset = 64 : i64} : () -> !tile.stages
  %a = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %b = "tile.shared"() {offset = 66560 : i64} : () -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>
  %words = "tile.shared"() {offset = 132096 : i64} : () -> !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 4 : i64>
  "tile.role"() ({
    %at = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
    // CHECK: %[[OWN:.*]] = "tile.detour"(%{{.*}}, %[[CUT]], %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1>} : (!tile.stages, !tile.stages, i1) -> !tile.stages
    %own = "tile.detour"(%ring, %through, %cut) {operandSegmentSizes = array<i32: 1, 1, 1>} : (!tile.stages, !tile.stages, i1) -> !tile.stages
    // CHECK: "tile.expect"(%[[OWN]], %{{.*}}) {bytes = 4096 : i64}
    "tile.expect"(%own, %at) {bytes = 4096 : i64} : (!tile.stages, !tile.position) -> ()
    // CHECK: "tile.wait"(%[[CUT]], %{{.*}})
    "tile.wait"(%through, %at) : (!tile.stages, !tile.position) -> ()
    // CHECK: "tile.cut_k"({{.*}}) {bits = 8 : i64, each = 16 : i64, mn = 0 : i64}
    "tile.cut_k"(%a, %at, %low, %high) {bits = 8 : i64, each = 16 : i64, mn = 0 : i64} : (!tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position, i32, i32) -> ()
    // CHECK: "tile.cut_k"({{.*}}) {bits = 16 : i64, each = 8 : i64, mn = 1 : i64}
    "tile.cut_k"(%b, %at, %low, %high) {bits = 16 : i64, each = 8 : i64, mn = 1 : i64} : (!tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.position, i32, i32) -> ()
    // CHECK: "tile.wrap_k"({{.*}}) {bits = 8 : i64}
    "tile.wrap_k"(%a, %at, %low, %high) {bits = 8 : i64} : (!tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position, i32, i32) -> ()
    // CHECK: "tile.detour"(%{{.*}}, %[[CUT]]) {operandSegmentSizes = array<i32: 1, 1, 0>}
    %all = "tile.detour"(%ring, %through) {operandSegmentSizes = array<i32: 1, 1, 0>} : (!tile.stages, !tile.stages) -> !tile.stages
    // CHECK: "tile.interleave_k"
    "tile.interleave_k"(%a, %at) : (!tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>, !tile.position) -> ()
    // CHECK: "tile.interleave_k"({{.*}}) {ahead, apart}
    "tile.interleave_k"(%b, %at) {ahead, apart} : (!tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 4 : i64>, !tile.position) -> ()
    // CHECK: "tile.cut_words"({{.*}}) {unit = 32 : i64}
    "tile.cut_words"(%words, %at, %low, %high) {unit = 32 : i64} : (!tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 4 : i64>, !tile.position, i32, i32) -> ()
    %room = "tile.byte_scales"() {rows = 128 : i64, words = 1 : i64, warps = 1 : i64} : () -> !tile.scale_bytes
    // CHECK: "tile.cut_bytes"({{.*}}) {unit = 32 : i64}
    "tile.cut_bytes"(%room, %low, %high) {unit = 32 : i64} : (!tile.scale_bytes, i32, i32) -> ()
    // CHECK: "tile.pass_on"({{.*}}) {lag = 1 : i64}
    "tile.pass_on"(%ring, %at) {lag = 1 : i64} : (!tile.stages, !tile.position) -> ()
    // CHECK: "tile.pass_on"
    "tile.pass_on"(%ring, %at) : (!tile.stages, !tile.position) -> ()
  }) {label = "producer", registers = 40 : i64, warps = array<i64: 0, 4>} : () -> ()
}) {sym_name = "k", threads = 128 : i64, cluster = array<i64: 1, 1>, shared_bytes = 135168 : i64, arguments = [{kind = "dim"}, {kind = "dim"}, {kind = "dim"}]} : () -> ()
