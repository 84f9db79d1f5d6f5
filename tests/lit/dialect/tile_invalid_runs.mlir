// RUN: %invalid none %s

// EXPECT: body has 1 tile.ahead, expected 0
func.func @f(%m: i32) {
  "tile.run_tiles"(%m, %m) ({
  ^bb0(%m0: i32):
    "tile.ahead"() : () -> ()
  }, {
  }, {
  }) {step = 64 : i64} : (i32, i32) -> ()
  return
}

// -----

// EXPECT: ahead takes the first row of a tile, and ends in tile.begun
func.func @f(%m: i32) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.run_tiles"(%m, %m) ({
  ^bb0(%m0: i32):
    "tile.ahead"() : () -> ()
  }, {
  ^bb0(%m0: i32):
    "tile.clear"(%a) : (!tile.accumulator<array<i64: 64, 64>, "registers">) -> ()
  }, {
    "tile.clear"(%a) : (!tile.accumulator<array<i64: 64, 64>, "registers">) -> ()
  }) {step = 64 : i64} : (i32, i32) -> ()
  return
}

// -----

// EXPECT: 1 regions `settled`, expected 0: as many as `ahead`
func.func @f(%m: i32) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.run_tiles"(%m, %m) ({
  ^bb0(%m0: i32):
    "tile.clear"(%a) : (!tile.accumulator<array<i64: 64, 64>, "registers">) -> ()
  }, {
  }, {
    "tile.clear"(%a) : (!tile.accumulator<array<i64: 64, 64>, "registers">) -> ()
  }) {step = 64 : i64} : (i32, i32) -> ()
  return
}

// -----

// EXPECT: step is 0, expected at least 1
func.func @f(%m: i32) {
  %a = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
  "tile.run_tiles"(%m, %m) ({
  ^bb0(%m0: i32):
    "tile.clear"(%a) : (!tile.accumulator<array<i64: 64, 64>, "registers">) -> ()
  }, {
  }, {
  }) {step = 0 : i64} : (i32, i32) -> ()
  return
}

// -----

// EXPECT: the cursor goes through 4 stages, the buffer has 2
func.func @f() {
  %d = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %b = "tile.shared"() {offset = 1024 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 2 : i64>
  %s = "tile.slot"(%b, %d) : (!tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 2 : i64>, !tile.position) -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 2 : i64>
  return
}

// -----

// EXPECT: whole runs, and there are none: run is 1
func.func @f(%m: i32) {
  "tile.tiles"(%m, %m) ({
  ^bb0(%m0: i32, %n0: i32, %end: i32):
    "tile.sync"() {scope = "cta", releases = 0 : i64} : () -> ()
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 128, 256>, turns = 1 : i64, whole} : (i32, i32) -> ()
  return
}
