// RUN: %invalid none %s

// kernel: parameters and their sources
// EXPECT: has 1 parameters but 2 sources in `arguments`
"tile.kernel"() ({
^bb0(%m: i32):
  "tile.drain"() : () -> ()
}) {sym_name = "p", threads = 384 : i64, cluster = array<i64: 1, 1>, shared_bytes = 4096 : i64, arguments = [{}, {}]} : () -> ()

// -----

// kernel: registers at launch
// EXPECT: registers is 60, expected a multiple of 8 from 24 to 256
"tile.kernel"() ({
^bb0:
}) {arguments = [], cluster = array<i64: 1, 1>, registers = 60 : i64, shared_bytes = 64 : i64, sym_name = "p", threads = 256 : i64} : () -> ()

// -----

// kernel: roles with more registers than there are at launch
// EXPECT: its roles have 30720 registers, 256 threads with 112 each 28672
"tile.kernel"() ({
  "tile.role"() ({
  }) {label = "consumer", registers = 184 : i64, warps = array<i64: 0, 4>} : () -> ()
  "tile.role"() ({
  }) {label = "producer", registers = 56 : i64, warps = array<i64: 4, 8>} : () -> ()
}) {arguments = [], cluster = array<i64: 1, 1>, registers = 112 : i64, shared_bytes = 64 : i64, sym_name = "p", threads = 256 : i64} : () -> ()

// -----

// kernel: shared memory
// EXPECT: buffers and rings end at byte 4160, beyond the shared memory of 4096 bytes
"tile.kernel"() ({
  %r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 4096 : i64} : () -> !tile.stages
}) {sym_name = "p", threads = 384 : i64, cluster = array<i64: 1, 1>, shared_bytes = 4096 : i64, arguments = []} : () -> ()

// -----

// kernel: buffers count too
// EXPECT: buffers and rings end at byte 8192, beyond the shared memory of 4096 bytes
"tile.kernel"() ({
  %a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 32, 128>, f8E4M3FN, 128 : i64, 2 : i64>
}) {sym_name = "p", threads = 384 : i64, cluster = array<i64: 1, 1>, shared_bytes = 4096 : i64, arguments = []} : () -> ()

// -----

// kernel: roles
// EXPECT: roles share warps: [(0, 8), (4, 12)]
"tile.kernel"() ({
  "tile.role"() ({
    "tile.drain"() : () -> ()
  }) {label = "consumer", registers = 232 : i64, warps = array<i64: 0, 8>} : () -> ()
  "tile.role"() ({
    "tile.drain"() : () -> ()
  }) {label = "consumer", registers = 40 : i64, warps = array<i64: 4, 12>} : () -> ()
}) {sym_name = "p", threads = 384 : i64, cluster = array<i64: 1, 1>, shared_bytes = 4096 : i64, arguments = []} : () -> ()

// -----

// kernel: warps
// EXPECT: a role has warp 15, but 384 threads are 12 warps
"tile.kernel"() ({
  "tile.role"() ({
    "tile.drain"() : () -> ()
  }) {label = "consumer", registers = 232 : i64, warps = array<i64: 8, 16>} : () -> ()
}) {sym_name = "p", threads = 384 : i64, cluster = array<i64: 1, 1>, shared_bytes = 4096 : i64, arguments = []} : () -> ()

// -----

// kernel: threads
// EXPECT: threads is 100, expected a multiple of 32 from 32 to 1024
"tile.kernel"() ({
  "tile.drain"() : () -> ()
}) {sym_name = "p", threads = 100 : i64, cluster = array<i64: 1, 1>, shared_bytes = 4096 : i64, arguments = []} : () -> ()

// kernel: cluster
// EXPECT: cluster is [1, 2, 1], expected two positive integers (M, N)
// CHANGE: i64: 1, 1> => i64: 1, 2, 1>
// CHANGE: threads = 100 => threads = 384

// kernel: an attribute is not there
// EXPECT: 'tile.kernel' op attribute "threads" is expected but not provided
// CHANGE: , threads = 100 : i64 =>

// -----

// shared: an attribute is not there
// EXPECT: 'tile.shared' op lacks attribute offset
%a = "tile.shared"() : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>

// -----

// VALID
"tile.role"() ({
  "tile.drain"() : () -> ()
}) {label = "consumer", registers = 232 : i64, warps = array<i64: 0, 8>} : () -> ()

// role: warpgroups
// EXPECT: warps 2..6 are not whole warpgroups (multiples of 4)
// CHANGE: , 8>} : () => , 6>} : ()
// CHANGE: array<i64: 0 => array<i64: 2

// role: no warps
// EXPECT: warps 4..4 are not whole warpgroups
// CHANGE: , 8>} : () => , 4>} : ()
// CHANGE: array<i64: 0 => array<i64: 4

// role: registers
// EXPECT: registers 100 must be a multiple of 8 from 24 to 256
// CHANGE: registers = 232 => registers = 100

// role: too many registers
// EXPECT: registers 264 must be a multiple of 8 from 24 to 256
// CHANGE: registers = 232 => registers = 264

// role: one number for warps
// EXPECT: 'tile.role' op has an attribute of another kind than expected
// CHANGE: <i64: 0, 8 => <i64: 4

// -----

// warp: beyond its role
// EXPECT: has warps 1..5 of a role of 4 warps
"tile.role"() ({
  "tile.warp"() ({
    "tile.drain"() : () -> ()
  }) {count = 4 : i64, elected = 0 : i64, index = 1 : i64} : () -> ()
}) {label = "consumer", registers = 232 : i64, warps = array<i64: 0, 4>} : () -> ()

// warp: count
// EXPECT: count is 0, expected at least 1
// CHANGE: {count = 4 => {count = 0

// -----

// warp: elected
// EXPECT: elected is 2, expected 0 or 1
"tile.role"() ({
  "tile.warp"() ({
    "tile.drain"() : () -> ()
  }) {count = 1 : i64, elected = 2 : i64, index = 0 : i64} : () -> ()
}) {label = "consumer", registers = 232 : i64, warps = array<i64: 0, 4>} : () -> ()

// -----

// warp: outside of a role
// EXPECT: 'tile.warp' op is not in a tile.role
"tile.kernel"() ({
  "tile.warp"() ({
    "tile.drain"() : () -> ()
  }) {count = 1 : i64, elected = 1 : i64, index = 0 : i64} : () -> ()
}) {sym_name = "p", threads = 384 : i64, cluster = array<i64: 1, 1>, shared_bytes = 4096 : i64, arguments = []} : () -> ()

// -----

// sync: scope
// EXPECT: scope is "grid", expected cta or cluster
"tile.sync"() {releases = 1 : i64, scope = "grid"} : () -> ()

// -----

// VALID
func.func @p(%m: i32, %n: i32) {
  "tile.tiles"(%m, %n) ({
  ^bb0(%m0: i32, %n0: i32):
    "tile.drain"() : () -> ()
  }) {band = 8 : i64, cluster = array<i64: 1, 1>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 128, 64>, turns = 1 : i64} : (i32, i32) -> ()
  return
}

// tiles: order
// EXPECT: order is "k", expected m or n
// CHANGE: order = "n => order = "k

// tiles: tile
// EXPECT: tile is [128, 64, 128], expected two positive integers (M, N)
// CHANGE: i64: 128, 64 => i64: 128, 64, 128

// tiles: cluster
// EXPECT: cluster is [0, 1], expected two positive integers (M, N)
// CHANGE: array<i64: 1, => array<i64: 0,

// tiles: band
// EXPECT: band is 0, expected at least 1
// CHANGE: ) {band = 8 => ) {band = 0

// tiles: body
// EXPECT: body takes (i32), expected (i32, i32)
// CHANGE: : i32, %n0 =>

// -----

// VALID
func.func @p(%k: i32) {
  "tile.steps"(%k) ({
  ^bb0(%k0: i32):
    "tile.drain"() : () -> ()
  }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 128 : i64, unroll = 1 : i64} : (i32) -> ()
  return
}

// steps: step
// EXPECT: step is 0, expected at least 1
// CHANGE: step = 128 => step = 0

// steps: start
// EXPECT: start is -1, expected at least 0
// CHANGE: , start = 0 => , start = -1

// steps: unroll
// EXPECT: unroll is 0, expected at least 1
// CHANGE: unroll = 1 => unroll = 0

// steps: body
// EXPECT: body takes (i64), expected (i32)
// CHANGE: bb0(%k0: i32 => bb0(%k0: i64

// -----

// steps: a round of the cursor
// EXPECT: an iteration is 2 bodies and a cursor has 3 stages, expected a divisor
func.func @p(%k: i32) {
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.steps"(%k, %at) ({
  ^bb0(%k0: i32):
    "tile.advance"(%at) : (!tile.position) -> ()
  }) {operandSegmentSizes = array<i32: 1, 1>, start = 0 : i64, step = 128 : i64, unroll = 2 : i64} : (i32, !tile.position) -> ()
  return
}

// -----

// steps: a second cursor whose rounds are not rounds of the first
// EXPECT: an iteration is 3 stages of the first cursor and a cursor has 2 stages, expected a divisor
func.func @p(%k: i32) {
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  %slot = "tile.cursor"() {depth = 2 : i64} : () -> !tile.position
  "tile.steps"(%k, %at, %slot) ({
  ^bb0(%k0: i32):
    "tile.advance"(%at) : (!tile.position) -> ()
    "tile.advance"(%slot) : (!tile.position) -> ()
  }) {operandSegmentSizes = array<i32: 1, 2>, start = 0 : i64, step = 128 : i64, unroll = 6 : i64} : (i32, !tile.position, !tile.position) -> ()
  return
}

// -----

// steps: a cursor that does not move
// EXPECT: body advances a cursor of its iterations 0 times, expected once
func.func @p(%k: i32) {
  %at = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
  "tile.steps"(%k, %at) ({
  ^bb0(%k0: i32):
    "tile.drain"() : () -> ()
  }) {operandSegmentSizes = array<i32: 1, 1>, start = 0 : i64, step = 128 : i64, unroll = 3 : i64} : (i32, !tile.position) -> ()
  return
}

// -----

// steps: a cursor from elsewhere
// EXPECT: a cursor of its iterations is not made by tile.cursor
func.func @p(%k: i32, %at: !tile.position) {
  "tile.steps"(%k, %at) ({
  ^bb0(%k0: i32):
    "tile.advance"(%at) : (!tile.position) -> ()
  }) {operandSegmentSizes = array<i32: 1, 1>, start = 0 : i64, step = 128 : i64, unroll = 3 : i64} : (i32, !tile.position) -> ()
  return
}

// -----

// shared: swizzle
// EXPECT: swizzle of 96 bytes, expected 0, 32, 64 or 128
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 96 : i64, 2 : i64>

// -----

// shared: what a swizzle keeps together
// EXPECT: swizzle of 64 bytes keeps 32 together, expected 16, or of 128 bytes 32
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 64>, f8E4M3FN, array<i64: 64, 32>, 2 : i64>

// -----

// shared: what a swizzle keeps together, as no copy does
// EXPECT: swizzle of 128 bytes keeps 8 together, expected 16, or of 128 bytes 32
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, array<i64: 128, 8>, 2 : i64>

// -----

// shared: alignment
// EXPECT: offset 512 is not a multiple of 1024 (the period of a 128-byte swizzle)
%a = "tile.shared"() {offset = 512 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 2 : i64>

// -----

// shared: alignment of a plain buffer
// EXPECT: offset 64 is not a multiple of 128
%a = "tile.shared"() {offset = 64 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 0 : i64, 2 : i64>

// -----

// shared: stages
// EXPECT: has 0 stages of [64, 128], expected positive rows, columns and stages
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 64, 128>, f8E4M3FN, 128 : i64, 0 : i64>

// -----

// shared: extents
// EXPECT: stages of [0, 128], expected positive
%a = "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 0, 128>, f8E4M3FN, 128 : i64, 2 : i64>

// -----

// ring: depth
// EXPECT: depth is 0, expected at least 1
%r = "tile.ring"() {depth = 0 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages

// -----

// ring: arrivals
// EXPECT: full is 0, expected at least 1
%r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 0 : i64, offset = 0 : i64} : () -> !tile.stages

// -----

// ring: alignment
// EXPECT: offset is 4, expected a multiple of 8, the size of a barrier
%r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 4 : i64} : () -> !tile.stages

// -----

// cursor: depth
// EXPECT: depth is 0, expected at least 1
%c = "tile.cursor"() {depth = 0 : i64} : () -> !tile.position

// -----

// VALID
%r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.expect"(%r, %c) {bytes = 128 : i64} : (!tile.stages, !tile.position) -> ()

// expect: a cursor of another ring
// EXPECT: 'tile.expect' op the cursor goes through 3 stages, the ring has 4
// CHANGE: = 4 : i64} => = 3 : i64}

// expect: nothing
// EXPECT: bytes is 0, expected 1 to 1048575
// CHANGE: bytes = 128 => bytes = 0

// expect: more than a barrier counts
// EXPECT: bytes is 1048576, expected 1 to 1048575
// CHANGE: bytes = 128 => bytes = 1048576

// acquire: a cursor of another ring
// EXPECT: 'tile.acquire' op the cursor goes through 3 stages, the ring has 4
// CHANGE: ) {bytes = 128 : i64} => )
// CHANGE: 4 : i64} : => 3 : i64} :
// CHANGE: tile.expect => tile.acquire

// commit: a cursor of another ring
// EXPECT: 'tile.commit' op the cursor goes through 3 stages, the ring has 4
// CHANGE: ) {bytes = 128 : i64} => )
// CHANGE: 4 : i64} : => 3 : i64} :
// CHANGE: tile.expect => tile.commit

// wait: a cursor of another ring
// EXPECT: 'tile.wait' op the cursor goes through 3 stages, the ring has 4
// CHANGE: ) {bytes = 128 : i64} => )
// CHANGE: expect"(%r => wait"(%r
// CHANGE: = 4 : i64} => = 3 : i64}

// peek: a cursor of another ring
// EXPECT: 'tile.peek' op the cursor goes through 3 stages, the ring has 4
// CHANGE: ) {bytes = 128 : i64} => )
// CHANGE: expect"(%r => peek"(%r
// CHANGE: = 4 : i64} => = 3 : i64}

// -----

// VALID
%r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%c = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
"tile.announce"(%r, %c) {bytes = 128 : i64} : (!tile.stages, !tile.position) -> ()

// announce: a cursor of another ring
// EXPECT: 'tile.announce' op the cursor goes through 3 stages, the ring has 4
// CHANGE: = 4 : i64} => = 3 : i64}

// announce: nothing
// EXPECT: bytes is 0, expected 1 to 1048575
// CHANGE: bytes = 128 => bytes = 0

// announce: more than a barrier counts
// EXPECT: bytes is 1048576, expected 1 to 1048575
// CHANGE: bytes = 128 => bytes = 1048576

// -----

// release: a cursor of another ring
// EXPECT: 'tile.release' op the cursor goes through 3 stages, the ring has 4
%r = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 1 : i64, offset = 0 : i64} : () -> !tile.stages
%c = "tile.cursor"() {depth = 3 : i64} : () -> !tile.position
"tile.release"(%r, %c) {lag = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (!tile.stages, !tile.position) -> ()

// release: lag
// EXPECT: lag is 2, expected 0 or 1
// CHANGE: 3 : i64} : => 4 : i64} :
// CHANGE: = 0 : i64, => = 2 : i64,

// release: no segment sizes
// EXPECT: 'tile.release' op needs operandSegmentSizes
// CHANGE: , operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0> =>
// CHANGE: {depth = 3 => {depth = 4
