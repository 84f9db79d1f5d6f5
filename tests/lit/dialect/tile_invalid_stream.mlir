// RUN: %invalid none %s

// stream: units
// EXPECT: units is 0, expected at least 1
func.func @p(%i: i32, %sums: memref<?xf32>, %counters: memref<?xi32>) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.stream"(%i, %i, %i, %i, %i) ({
  ^bb0(%m0: i32, %n0: i32, %first: i32, %count: i32):
    "tile.drain"() : () -> ()
  }) {cluster = array<i64: 1, 2>, group = 8 : i64, order = "n", tile = array<i64: 64, 64>, units = 0 : i64} : (i32, i32, i32, i32, i32) -> ()
  return
}

// -----

// stream: order
// EXPECT: order is "k", expected n or m
func.func @p(%i: i32, %sums: memref<?xf32>, %counters: memref<?xi32>) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.stream"(%i, %i, %i, %i, %i) ({
  ^bb0(%m0: i32, %n0: i32, %first: i32, %count: i32):
    "tile.drain"() : () -> ()
  }) {cluster = array<i64: 1, 2>, group = 8 : i64, order = "k", tile = array<i64: 64, 64>, units = 14 : i64} : (i32, i32, i32, i32, i32) -> ()
  return
}

// -----

// stream: cluster
// EXPECT: cluster is [0, 2], expected two positive integers (M, N)
func.func @p(%i: i32, %sums: memref<?xf32>, %counters: memref<?xi32>) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.stream"(%i, %i, %i, %i, %i) ({
  ^bb0(%m0: i32, %n0: i32, %first: i32, %count: i32):
    "tile.drain"() : () -> ()
  }) {cluster = array<i64: 0, 2>, group = 8 : i64, order = "n", tile = array<i64: 64, 64>, units = 14 : i64} : (i32, i32, i32, i32, i32) -> ()
  return
}

// -----

// stream: body
// EXPECT: body takes (i32, i32), expected (i32, i32, i32, i32)
func.func @p(%i: i32, %sums: memref<?xf32>, %counters: memref<?xi32>) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.stream"(%i, %i, %i, %i, %i) ({
  ^bb0(%m0: i32, %n0: i32):
    "tile.drain"() : () -> ()
  }) {cluster = array<i64: 1, 2>, group = 8 : i64, order = "n", tile = array<i64: 64, 64>, units = 14 : i64} : (i32, i32, i32, i32, i32) -> ()
  return
}

// -----

// sum_shares: counters
// EXPECT: counters are memref<?xf32>, expected a memref of i32
func.func @p(%i: i32, %sums: memref<?xf32>, %counters: memref<?xf32>) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.stream"(%i, %i, %i, %i, %i) ({
  ^bb0(%m0: i32, %n0: i32, %first: i32, %count: i32):
    %last = "tile.sum_shares"(%t, %sums, %counters) : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, memref<?xf32>) -> i1
  }) {cluster = array<i64: 1, 2>, group = 8 : i64, order = "n", tile = array<i64: 64, 64>, units = 14 : i64} : (i32, i32, i32, i32, i32) -> ()
  return
}

// -----

// sum_shares: place
// EXPECT: is not in the body of a tile.stream
func.func @p(%sums: memref<?xf32>, %counters: memref<?xi32>) {
  %t = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  %last = "tile.sum_shares"(%t, %sums, %counters) : (!tile.accumulator<array<i64: 64, 64>, "registers">, memref<?xf32>, memref<?xi32>) -> i1
  return
}

// -----

// steps: whole
// EXPECT: whole is 1 : i64, expected a unit attribute
func.func @p(%k: i32) {
  "tile.steps"(%k) ({
  ^bb0(%i: i32):
    "tile.drain"() : () -> ()
  }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 128 : i64, unroll = 4 : i64, whole = 1 : i64} : (i32) -> ()
  return
}

// -----

// steps: whole and a start
// EXPECT: whole iterations begin at 128, expected at 0 and without cursors
func.func @p(%k: i32) {
  "tile.steps"(%k) ({
  ^bb0(%i: i32):
    "tile.drain"() : () -> ()
  }) {operandSegmentSizes = array<i32: 1, 0>, start = 128 : i64, step = 128 : i64, unroll = 4 : i64, whole} : (i32) -> ()
  return
}

// -----

// steps: once, of a K that is not known
// EXPECT: once, and an unknown number of steps of which an iteration has 4, expected as many
func.func @p(%k: i32) {
  "tile.steps"(%k) ({
  ^bb0(%i: i32):
    "tile.drain"() : () -> ()
  }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 128 : i64, unroll = 4 : i64, once} : (i32) -> ()
  return
}

// -----

// steps: once, and more than one iteration
// EXPECT: once, and 5 steps of which an iteration has 4, expected as many
func.func @p() {
  %k = arith.constant 640 : i32
  "tile.steps"(%k) ({
  ^bb0(%i: i32):
    "tile.drain"() : () -> ()
  }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 128 : i64, unroll = 4 : i64, once} : (i32) -> ()
  return
}
