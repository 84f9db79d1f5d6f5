// RUN: %invalid none %s

// EXPECT: asks !tile.buffer<array<i64: 2, 64>, f32, 0 : i64, 4 : i64>, expected words of scales, and one vector behind
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%v = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 2, 64>, f32, 0 : i64, 4 : i64>
%p = "tile.seen_powers"(%v, %c) {warps = 3 : i64} : (!tile.buffer<array<i64: 2, 64>, f32, 0 : i64, 4 : i64>, !tile.position) -> !tile.powers

// EXPECT: the cursor goes through 3 stages, the buffer has 4
// CHANGE: , f32, 0 : => , i32, 0 :
// CHANGE: {depth = 4 => {depth = 3

// -----

// EXPECT: reads byte 4, wave 0 of 1
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
%v = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 2, 64>, i32, 0 : i64, 4 : i64>
%f = "tile.word_factors"(%v, %c) {byte = 4 : i64, element = "ue8m0", wave = 0 : i64, waves = 1 : i64} : (!tile.buffer<array<i64: 2, 64>, i32, 0 : i64, 4 : i64>, !tile.position) -> !tile.factors

// -----

// EXPECT: is of i1, and the relay of i32
%r = "tile.start_relay"() : () -> !tile.relay
%x = "arith.constant"() {value = 1 : i32} : () -> i32
"tile.leave"(%r, %x) : (!tile.relay, i32) -> ()
%y = "tile.left"(%r) : (!tile.relay) -> i1
