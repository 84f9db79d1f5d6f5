// RUN: %invalid none %s

// VALID
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %s = "tile.items"() {offset = 48 : i64} : () -> !tile.item_slots<4 : i64, 4 : i64>
  return
}

// items: offset
// EXPECT: offset 40 is not a multiple of 16, which items are aligned to
// CHANGE: offset = 48 => offset = 40

// items: no words
// EXPECT: has items of 0 words, expected a multiple of 4: vectors move them
// CHANGE: item_slots<4 => item_slots<0

// items: three slots
// EXPECT: has 3 slots, expected a power of two
// CHANGE: 4 : i64, 4 => 4 : i64, 3

// -----

// work: turns
// EXPECT: turns is 2, expected 1: who takes an item does not know the next one's
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %s = "tile.items"() {offset = 48 : i64} : () -> !tile.item_slots<4 : i64, 4 : i64>
  %ring = "tile.ring"() {offset = 112 : i64, depth = 4 : i64, full = 1 : i64, empty = 5 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.work"(%ring, %c, %s) ({
  ^bb0(%m0: i32, %n0: i32, %end: i32, %g: i32):
  }) {tile = array<i64: 64, 32>, turns = 2 : i64} : (!tile.stages, !tile.position, !tile.item_slots<4 : i64, 4 : i64>) -> ()
  return
}

// work: fewer words than an item has
// EXPECT: body takes (i32, i32), expected (i32, i32, i32, i32)
// CHANGE: , %end: i32, %g: i32 =>
// CHANGE: , turns = 2 => , turns = 1

// work: runs of items that differ in their first word
// EXPECT: runs are told apart by words [0, 1], expected some of 1 to 3
// CHANGE: }) {tile = => }) {runs = array<i64: 0, 1>, tile =
// CHANGE: , turns = 2 => , turns = 1

// -----

// work: two next items
// EXPECT: body has 2 tile.next_item, expected 1 at most
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %s = "tile.items"() {offset = 48 : i64} : () -> !tile.item_slots<4 : i64, 4 : i64>
  %ring = "tile.ring"() {offset = 112 : i64, depth = 4 : i64, full = 1 : i64, empty = 5 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.work"(%ring, %c, %s) ({
  ^bb0(%m0: i32, %n0: i32, %end: i32, %g: i32):
    "tile.next_item"() : () -> ()
    "tile.next_item"() : () -> ()
  }) {tile = array<i64: 64, 32>, turns = 1 : i64} : (!tile.stages, !tile.position, !tile.item_slots<4 : i64, 4 : i64>) -> ()
  return
}

// -----

// work: a cursor of another ring
// EXPECT: the cursor goes through 3 stages, the ring has 4
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %s = "tile.items"() {offset = 48 : i64} : () -> !tile.item_slots<4 : i64, 4 : i64>
  %ring = "tile.ring"() {offset = 112 : i64, depth = 4 : i64, full = 1 : i64, empty = 5 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %d = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.work"(%ring, %d, %s) ({
  ^bb0(%m0: i32, %n0: i32, %end: i32, %g: i32):
  }) {tile = array<i64: 64, 32>, turns = 1 : i64} : (!tile.stages, !tile.position, !tile.item_slots<4 : i64, 4 : i64>) -> ()
  return
}

// -----

// post: fewer values than words
// EXPECT: has 2 values, expected the 4 words of an item, or none: the end
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %s = "tile.items"() {offset = 48 : i64} : () -> !tile.item_slots<4 : i64, 4 : i64>
  %ring = "tile.ring"() {offset = 112 : i64, depth = 4 : i64, full = 1 : i64, empty = 5 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  "tile.post"(%ring, %c, %s, %m, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 2>} : (!tile.stages, !tile.position, !tile.item_slots<4 : i64, 4 : i64>, i32, i32) -> ()
  return
}

// -----

// post: a cursor of another ring
// EXPECT: the cursor goes through 3 stages, the ring has 4
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %s = "tile.items"() {offset = 48 : i64} : () -> !tile.item_slots<4 : i64, 4 : i64>
  %ring = "tile.ring"() {offset = 112 : i64, depth = 4 : i64, full = 1 : i64, empty = 5 : i64} : () -> !tile.stages
  %c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
  %d = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.post"(%ring, %d, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (!tile.stages, !tile.position, !tile.item_slots<4 : i64, 4 : i64>) -> ()
  return
}

// -----

// load_index: strides
// EXPECT: 1 indices and 0 strides, expected as many
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %x = "tile.load_index"(%off, %m) {operandSegmentSizes = array<i32: 1, 1, 0>} : (memref<?xi32>, i32) -> i32
  return
}

// -----

// load_index: of another type
// EXPECT: source of memref<?xf32>, expected a memref of i32
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %one = arith.constant 1 : i64
  %x = "tile.load_index"(%f, %m, %one) {operandSegmentSizes = array<i32: 1, 1, 1>} : (memref<?xf32>, i32, i64) -> i32
  return
}

// -----

// find_group: of another type
// EXPECT: offsets of memref<?xf32>, expected a memref of i32
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %one = arith.constant 1 : i64
  %x:3 = "tile.find_group"(%f, %one, %n, %m) : (memref<?xf32>, i64, i32, i32) -> (i32, i32, i1)
  return
}

// -----

// group_of_tile: of another type
// EXPECT: offsets of memref<?xf32>, expected a memref of i32
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %one = arith.constant 1 : i64
  %x:3 = "tile.group_of_tile"(%f, %one, %n, %m) {rows = 128 : i64} : (memref<?xf32>, i64, i32, i32) -> (i32, i32, i32)
  return
}

// -----

// group_of_tile: no rows
// EXPECT: rows is 0
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %one = arith.constant 1 : i64
  %x:3 = "tile.group_of_tile"(%off, %one, %n, %m) {rows = 0 : i64} : (memref<?xi32>, i64, i32, i32) -> (i32, i32, i32)
  return
}

// -----

// run: nothing that is the same
// EXPECT: values ends in tile.same, expected tile.same of one or more values
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %x:2 = "tile.run"(%m, %n) ({
  ^bb0(%block: i32):
    "tile.same"() {operandSegmentSizes = array<i32: 0>} : () -> ()
  }) : (i32, i32) -> (i1, i32)
  return
}

// -----

// run: of several numbers
// EXPECT: values is not one block that takes the number of a block
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  %x:2 = "tile.run"(%m, %n) ({
  ^bb0(%block: i32, %other: i32):
    "tile.same"(%block) {operandSegmentSizes = array<i32: 1>} : (i32) -> ()
  }) : (i32, i32) -> (i1, i32)
  return
}

// -----

// VALID
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  "tile.ragged_tiles"(%m, %n, %m) ({
  ^bb0(%group: i32):
    "tile.bounds"(%group, %group) : (i32, i32) -> ()
  }, {
  ^bb0(%m0: i32, %n0: i32, %low: i32, %high: i32, %g: i32):
  }) {axis = "m", each = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0>, band = 8 : i64, cluster = array<i64: 1, 1>, order = "n", tile = array<i64: 64, 32>} : (i32, i32, i32) -> ()
  return
}

// ragged_tiles: axis
// EXPECT: axis is "k", expected m or n
// CHANGE: {axis = "m => {axis = "k

// ragged_tiles: order
// EXPECT: order is "k", expected m or n
// CHANGE: order = "n => order = "k

// ragged_tiles: band
// EXPECT: band is 0, expected at least 1
// CHANGE: , band = 8 => , band = 0

// ragged_tiles: runs
// EXPECT: runs are of one column of tiles each, expected axis m, order n and a band of 1
// CHANGE: , %g: i32) => , %g: i32, %stop: i32)
// CHANGE: i64: 64, 32> => i64: 64, 32>, whole

// ragged_tiles: each
// EXPECT: each is 0, expected at least 1
// CHANGE: , each = 1 => , each = 0

// ragged_tiles: empty
// EXPECT: empty is 0, expected a step of at least 1
// CHANGE: , each = 1 => , empty = 0, each = 1

// ragged_tiles: bounds of no group
// EXPECT: bounds is not one block that takes the group
// CHANGE: (%group: i32) =>
// CHANGE: %group => %m

// ragged_tiles: a body without the group
// EXPECT: body takes (i32, i32, i32, i32), expected (i32, i32, i32, i32, i32)
// CHANGE: i32, %g: i32 => i32

// -----

// ragged_tiles: bounds without an end
// EXPECT: bounds ends in arith.addi, expected tile.bounds
func.func @p(%m: i32, %n: i32, %off: memref<?xi32>, %f: memref<?xf32>) {
  "tile.ragged_tiles"(%m, %n, %m) ({
  ^bb0(%group: i32):
    %x = arith.addi %group, %group : i32
  }, {
  ^bb0(%m0: i32, %n0: i32, %low: i32, %high: i32, %g: i32):
  }) {axis = "m", each = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0>, band = 8 : i64, cluster = array<i64: 1, 1>, order = "n", tile = array<i64: 64, 32>} : (i32, i32, i32) -> ()
  return
}
