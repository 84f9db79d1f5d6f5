// RUN: %roundtrip %s | filecheck %s

// A tile that two copies fill, and sums of two contractions side by side, of which the second ones are an input.
func.func @f(%m: i32, %n: i32) {
  %t = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 256, 64>, bf16, 128 : i64, 4 : i64>
  // CHECK: "tile.strip"(%{{.*}}) {axis = 0 : i64, first = 128 : i64}
  %s = "tile.strip"(%t) {first = 128 : i64, axis = 0 : i64} : (!tile.buffer<array<i64: 256, 64>, bf16, 128 : i64, 4 : i64>) -> !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 4 : i64>
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 256>, "registers">
  %g = "tile.pane"(%a) {first = 0 : i64} : (!tile.accumulator<array<i64: 64, 256>, "registers">) -> !tile.accumulator<array<i64: 64, 128>, "registers">
  // CHECK: %[[UP:.*]] = "tile.pane"(%{{.*}}) {first = 128 : i64}
  %u = "tile.pane"(%a) {first = 128 : i64} : (!tile.accumulator<array<i64: 64, 256>, "registers">) -> !tile.accumulator<array<i64: 64, 128>, "registers">
  // CHECK: %[[IN:.*]] = "tile.input_sums"(%[[UP]])
  %in = "tile.input_sums"(%u) : (!tile.accumulator<array<i64: 64, 128>, "registers">) -> !tile.operand
  // CHECK: "tile.epilogue"(%{{.*}}, %[[IN]])
  "tile.epilogue"(%g, %m, %n, %m, %n, %in) ({
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %y : f32
    "tile.yield"(%z) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>} : (!tile.accumulator<array<i64: 64, 128>, "registers">, i32, i32, i32, i32, !tile.operand) -> ()
  return
}
