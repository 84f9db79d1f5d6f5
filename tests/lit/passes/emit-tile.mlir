// The kernel's outline, for each way that scales travel and sums leave the tensor core. The programs are given as text:
// emit-tile needs a whole schedule, which the passes before it decide (a field is fixed here where the outline hangs
// on it).

// FP8 with a scale for each row and 128 of K, row-major: windows of eight K blocks; promotion into FP32 registers.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --dim m=4096,n=7168,k=2048 --schedule tile=256x128x128 --emit tile | filecheck %s --check-prefix=WINDOW
// WINDOW: "tile.kernel"
// WINDOW-DAG: "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 256, 128>, f8E4M3FN, 128 : i64, 3 : i64>
// WINDOW-DAG: "tile.shared"(){{.*}} -> !tile.buffer<array<i64: 256, 8>, f32, 32 : i64, 2 : i64>
// WINDOW-DAG: "tile.shared"(){{.*}} -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 3 : i64>
// WINDOW-DAG: "tile.shared"(){{.*}} -> !tile.buffer<array<i64: 256, 128>, bf16, 128 : i64, 1 : i64>
// WINDOW: "tile.ring"() {depth = 3 : i64, empty = 16 : i64, full = 1 : i64
// the start publishes barriers alone
// WINDOW: "tile.sync"() {releases = 0 : i64, scope = "cluster"}
// WINDOW: "tile.role"
// WINDOW: %[[SUM:.*]] = "tile.fragment"() : () -> !tile.accumulator<array<i64: 128, 128>, "registers">
// WINDOW-NEXT: %[[PART:.*]] = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 128>, "registers">
// WINDOW: %[[W:.*]] = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64}
// WINDOW: "tile.tiles"
// WINDOW: "tile.clear"(%[[SUM]])
// WINDOW: "tile.open_window"(%[[W]])
// WINDOW: "tile.scalars"() {count = 1 : i64}
// WINDOW: "tile.fetch"
// WINDOW: "tile.steps"
// WINDOW: "tile.wait"
// WINDOW: "tile.mma"(%[[PART]], {{.*}}) {a_wave = 0 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64, waves = 2 : i64}
// scale factors are read under the first product; the next block's uniform ones are fetched after that
// WINDOW: %[[R0:.*]] = "tile.row_factors"(%{{.*}}, %[[W]]) {wave = 0 : i64, waves = 2 : i64}
// WINDOW: "tile.uniform_factors"
// WINDOW: %[[R1:.*]] = "tile.row_factors"(%{{.*}}, %[[W]]) {wave = 1 : i64, waves = 2 : i64}
// WINDOW: "tile.fetch"
// WINDOW-NEXT: "tile.mma_wait"(%[[PART]]) {pending = 0 : i64}
// WINDOW-NEXT: "tile.promote"(%[[SUM]], %[[PART]], %[[R0]], {{.*}}) {{.*}}wave = 0 : i64}
// WINDOW-NEXT: "tile.mma"(%[[PART]], {{.*}}) {a_wave = 1 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64, waves = 2 : i64}
// WINDOW-NEXT: "tile.mma_wait"(%[[PART]]) {pending = 0 : i64}
// the stage is handed back before the promotion, and the next one asked for
// WINDOW-NEXT: "tile.release"{{.*}} {lag = 0 : i64
// WINDOW-NEXT: "tile.advance"
// WINDOW-NEXT: "tile.next_block"(%[[W]])
// WINDOW-NEXT: "tile.peek"
// WINDOW-NEXT: "tile.promote"(%[[SUM]], %[[PART]], %[[R1]], {{.*}}) {{.*}}wave = 1 : i64}
// WINDOW-NEXT: }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 128 : i64, unroll = 2 : i64}
// WINDOW-NEXT: "tile.store"(%[[SUM]]
// WINDOW-NEXT: }) {band = 7 : i64, cluster = array<i64: 1, 2>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 256, 128>, turns = 1 : i64}
// WINDOW-NEXT: "tile.drain"
// WINDOW-NEXT: }) {label = "consumer", registers = 232 : i64, warps = array<i64: 0, 8>}
// WINDOW: "tile.warp"
// WINDOW: "tile.open_window"
// WINDOW: "tile.acquire"
// WINDOW: "tile.announce"{{.*}} {bytes = 8192 : i64}
// WINDOW: "tile.expect"{{.*}} {bytes = 49152 : i64}
// the A tile and its scales are the cluster's, B is this CTA's own
// WINDOW: "tile.copy"({{.*}}) {multicast = 1 : i64} : (!tile.descriptor<array<i64: 128, 256>
// WINDOW-NEXT: "tile.copy"({{.*}}) {multicast = 0 : i64} : (!tile.descriptor<array<i64: 128, 128>
// WINDOW: "tile.next_block"
// the CTA stays until all three stages are empty: then nobody arrives at its barriers any more
// WINDOW: }) {band = {{.*}}
// WINDOW-NEXT: "tile.acquire"
// WINDOW-NEXT: "tile.advance"
// WINDOW-NEXT: "tile.acquire"
// WINDOW-NEXT: "tile.advance"
// WINDOW-NEXT: "tile.acquire"
// WINDOW-NEXT: "tile.advance"
// WINDOW-NEXT: }) {count = 1 : i64, elected = 1 : i64, index = 0 : i64}
// WINDOW: "tile.prefetch"({{.*}}) {count = 1 : i64, k_block = 128 : i64, row_block = 128 : i64, spacing = 128 : i64}
// WINDOW: }) {count = 1 : i64, elected = 0 : i64, index = 1 : i64}
// WINDOW: }) {label = "producer", registers = 40 : i64, warps = array<i64: 8, 12>}
// WINDOW-NOT: tile.sync
// WINDOW: cluster = array<i64: 1, 2>, shared_bytes = {{.*}}, sym_name = "C", threads = 384 : i64}

// Two warpgroups take whole tiles by turns: each waits at full barriers of its own and passes over the other's K blocks
// and windows; those who fill stages do so for whoever's turn the tile is.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --dim m=4096,n=7168,k=2048 --schedule tile=128x128x128,consumers=pingpong,stages=4 --emit tile | filecheck %s --check-prefix=TURNS
// TURNS-DAG: "tile.shared"(){{.*}} -> !tile.buffer<array<i64: 64, 128>, bf16, 128 : i64, 2 : i64>
// TURNS: %[[RING:.*]] = "tile.turn_ring"() {depth = 4 : i64, empty = 8 : i64, full = 1 : i64, offset = {{.*}}, turns = 2 : i64}
// TURNS: "tile.role"
// TURNS: %[[MINE:.*]] = "tile.warpgroup"
// TURNS: %[[TURN:.*]] = "tile.cursor"() {depth = 2 : i64}
// TURNS-NEXT: "tile.skip"(%[[TURN]], %[[MINE]])
// TURNS-NEXT: %[[OWN:.*]] = "tile.of_turn"(%[[RING]], %[[TURN]])
// TURNS-NEXT: %[[AT:.*]] = "tile.cursor"() {depth = 4 : i64}
// TURNS-NEXT: %[[FIRST:.*]] = arith.muli %[[MINE]], %{{.*}} : i32
// TURNS-NEXT: "tile.skip"(%[[AT]], %[[FIRST]])
// TURNS: "tile.fragment"() : () -> !tile.accumulator<array<i64: 128, 128>, "registers">
// TURNS: "tile.skip_windows"
// TURNS: "tile.tiles"
// TURNS: "tile.wait"(%[[OWN]], %[[AT]])
// TURNS: "tile.release"(%[[OWN]], %[[AT]])
// TURNS: "tile.store"
// TURNS: "tile.skip"(%[[AT]], %{{.*}})
// TURNS: "tile.skip_windows"
// TURNS-NEXT: }) {{{.*}}, turns = 2 : i64}
// TURNS: %[[WHOSE:.*]] = "tile.cursor"() {depth = 2 : i64}
// TURNS: "tile.tiles"
// TURNS: %[[THEIRS:.*]] = "tile.of_turn"(%[[RING]], %[[WHOSE]])
// TURNS: "tile.acquire"(%[[THEIRS]]
// TURNS: "tile.expect"(%[[THEIRS]]
// TURNS: "tile.advance"(%[[WHOSE]])
// TURNS-NEXT: }) {{{.*}}, turns = 1 : i64}

// A wave's columns in two goes, of which the partial sums have room for one: the stage is handed back behind the last go
// of the last wave. Of the scale blocks that a tile of 144 columns may reach into, two, each has one factor.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --dim m=4096,n=2112,k=7168 --schedule tile=128x144x128,warpgroups=1,registers=40x248,unroll=1,early_wait=1,mma_n=72 --emit tile | filecheck %s --check-prefix=GOES
// GOES: %[[SUM:.*]] = "tile.fragment"() : () -> !tile.accumulator<array<i64: 128, 144>, "registers">
// GOES-NEXT: %[[PART:.*]] = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 72>, "registers">
// GOES: "tile.tiles"
// GOES-NEXT: ^bb0(%{{.*}}: i32, %[[N0:.*]]: i32):
// GOES: %[[TWO:.*]] = "tile.scalars"() {count = 2 : i64}
// GOES: "tile.fetch"(%[[TWO]]{{.*}} row_block = 128 : i64, spacing = 128 : i64}
// GOES: "tile.wait"
// GOES: "tile.mma"(%[[PART]], {{.*}}) {a_wave = 0 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64, waves = 2 : i64}
// GOES: "tile.block_factors"(%[[TWO]], %[[N0]]) {block = 128 : i64, step = 16 : i64}
// GOES: "tile.mma_wait"(%[[PART]]) {pending = 0 : i64}
// GOES-NEXT: "tile.promote"(%[[SUM]], %[[PART]], {{.*}}) {column = 0 : i64, {{.*}}wave = 0 : i64}
// GOES-NEXT: "tile.mma"(%[[PART]], {{.*}}) {a_wave = 0 : i64, accumulate = 0 : i64, column = 72 : i64, wave = 0 : i64
// GOES-NEXT: "tile.mma_wait"(%[[PART]]) {pending = 0 : i64}
// GOES-NEXT: "tile.promote"(%[[SUM]], %[[PART]], {{.*}}) {column = 72 : i64, {{.*}}wave = 0 : i64}
// GOES-NEXT: "tile.mma"(%[[PART]], {{.*}}) {a_wave = 1 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64
// GOES-NEXT: "tile.mma_wait"(%[[PART]]) {pending = 0 : i64}
// GOES-NEXT: "tile.promote"(%[[SUM]], %[[PART]], {{.*}}) {column = 0 : i64, {{.*}}wave = 1 : i64}
// GOES-NEXT: "tile.mma"(%[[PART]], {{.*}}) {a_wave = 1 : i64, accumulate = 0 : i64, column = 72 : i64, wave = 0 : i64
// GOES-NEXT: "tile.mma_wait"(%[[PART]]) {pending = 0 : i64}
// GOES-NEXT: "tile.release"
// GOES-NEXT: "tile.advance"
// GOES-NEXT: "tile.next_block"
// GOES-NEXT: "tile.peek"
// GOES-NEXT: "tile.promote"(%[[SUM]], %[[PART]], {{.*}}) {column = 72 : i64, {{.*}}wave = 1 : i64}

// The windows' own copies: once for eight K blocks, for the cluster.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --dim m=4096,n=7168,k=2048 --schedule tile=256x128x128 --emit tile | filecheck %s --check-prefix=ONCE
// ONCE: "tile.warp"
// ONCE: %[[FIRST:.*]] = arith.cmpi eq
// ONCE: "tile.when"(%[[FIRST]])
// ONCE: "tile.copy_window"({{.*}}) {multicast = 1 : i64} : (!tile.descriptor<array<i64: 8, 256>, f32, 32 : i64>
// ONCE-NOT: "tile.copy_window"

// The same with scales column by column: a vector of them comes with each stage.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x128:f32@col,128x128)' --dim m=4096,n=7168,k=2048 --schedule tile=256x128x128 --emit tile | filecheck %s --check-prefix=VECTOR
// VECTOR: "tile.shared"(){{.*}} -> !tile.buffer<array<i64: 1, 256>, f32, 0 : i64, 3 : i64>
// VECTOR: "tile.ring"() {depth = 3 : i64, empty = 16 : i64, full = 1 : i64
// VECTOR-NOT: "tile.windows"
// VECTOR: "tile.row_factors"({{.*}}, !tile.position) -> !tile.factors
// VECTOR: "tile.expect"{{.*}} {bytes = 50176 : i64}
// VECTOR-COUNT-3: "tile.copy"(
// VECTOR-NOT: "tile.copy"(
// VECTOR: index = 0 : i64}
// VECTOR-NEXT: "tile.warp"
// VECTOR-NOT: "tile.warp"
// VECTOR: "tile.prefetch"
// VECTOR-NOT: "tile.warp"

// K not known: lanes of three warps load scales and store them into the stage; each warp arrives too.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --schedule tile=256x128x128 --emit tile | filecheck %s --check-prefix=THREAD
// THREAD: ^bb0(%[[M:.*]]: i32, %[[N:.*]]: i32, %[[K:.*]]: i32,
// THREAD: "tile.ring"() {{.*}}full = 4 : i64
// THREAD-NOT: "tile.windows"
// THREAD: "tile.steps"(%[[K]])
// THREAD: }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 128 : i64, unroll = 1 : i64}
// THREAD: "tile.store_direct"({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, pair = 0 : i64}
// THREAD: }) {count = 1 : i64, elected = 1 : i64, index = 0 : i64}
// THREAD-NEXT: "tile.warp"
// THREAD: %[[ROWS:.*]] = "tile.row_scales"() {blocks = 2 : i64, rows = 256 : i64, warps = 3 : i64}
// THREAD: "tile.tiles"
// THREAD: "tile.load_rows"(%[[ROWS]], {{.*}}) {block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, row_block = 1 : i64, step = 128 : i64}
// THREAD: "tile.steps"(%[[K]])
// THREAD: "tile.acquire"
// THREAD-NEXT: "tile.store_rows"(%[[ROWS]], {{.*}}) {index = 0 : i64}
// THREAD-NEXT: "tile.commit"
// THREAD-NEXT: "tile.advance"
// THREAD: "tile.when"
// THREAD: "tile.store_rows"(%[[ROWS]], {{.*}}) {index = 1 : i64}
// THREAD: "tile.load_rows"(%[[ROWS]]
// THREAD-NEXT: }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 256 : i64, unroll = 1 : i64}
// THREAD: }) {count = 3 : i64, elected = 0 : i64, index = 1 : i64}

// 16-bit operands: sums stay in the tensor core, one K block in flight while the next is issued, stages one later.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k]' --dim m=4096,n=4096,k=4096 --schedule tile=128x128x64 --emit tile | filecheck %s --check-prefix=PLAIN
// PLAIN: %[[SUM:.*]] = "tile.fragment"
// PLAIN-NOT: "tile.fragment"
// PLAIN: "tile.steps"
// PLAIN: %[[FIRST:.*]] = arith.cmpi eq
// PLAIN: "tile.wait"
// PLAIN-NEXT: "tile.mma"(%[[SUM]], {{.*}}) {a_wave = 0 : i64, accumulate = 1 : i64, column = 0 : i64, wave = 0 : i64, waves = 1 : i64}
// PLAIN-NEXT: "tile.mma_wait"(%[[SUM]]) {pending = 1 : i64}
// PLAIN-NEXT: "tile.release"(%{{.*}}, %{{.*}}, %[[FIRST]]) {lag = 1 : i64
// PLAIN-NEXT: "tile.advance"
// PLAIN-NEXT: })
// PLAIN-NEXT: "tile.mma_wait"(%[[SUM]]) {pending = 0 : i64}
// PLAIN-NEXT: "tile.release"(%{{.*}}, %{{.*}}) {lag = 1 : i64
// PLAIN-NOT: "tile.promote"
// PLAIN: "tile.store"

// Bias, activation and += : one body over the accumulator and its inputs; the old C is one of them.
// RUN: scalec compile 'C[m,n] += relu(A[m,k]@B[n,k] + bias[n])' --dim m=4096,n=4096,k=4096 --schedule adds=memory,inputs=0 --emit tile | filecheck %s --check-prefix=BODY
// BODY-DAG: %[[BIAS:.*]] = "tile.input"({{.*}}) {axes = array<i64: 1, 1, 0>, kind = "col", operandSegmentSizes = array<i32: 1, 1>, pair = 1 : i64} : (memref<4096xbf16>
// BODY-DAG: %[[OLD:.*]] = "tile.input"({{.*}}) {axes = array<i64: 0, 1, 0, 1, 1, 0>, kind = "both", operandSegmentSizes = array<i32: 1, 2>, pair = 1 : i64} : (memref<4096x4096xbf16>
// BODY: "tile.epilogue"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[BIAS]], %[[OLD]])
// BODY-NEXT: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32, %[[Z:.*]]: f32):
// BODY-NEXT: %[[S:.*]] = arith.addf %[[X]], %[[Y]] : f32
// BODY: arith.maximumf %[[S]]
// BODY: arith.addf
// BODY-NEXT: "tile.yield"
// BODY: "tile.store

// Factors of columns are read from shared memory during the promotion: the stage is handed back after it.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x128,1x128)' --dim m=4096,n=7168,k=2048 --schedule tile=128x128x128 --emit tile | filecheck %s --check-prefix=COLUMN
// COLUMN: "tile.wait"
// COLUMN: %[[ROW:.*]] = "tile.row_factors"
// COLUMN-NEXT: %[[COL:.*]] = "tile.column_factors"
// COLUMN: "tile.mma_wait"
// COLUMN-NEXT: "tile.promote"(%{{.*}}, %{{.*}}, %[[ROW]], %[[COL]])
// COLUMN-NEXT: "tile.release"
// COLUMN-NEXT: "tile.advance"
// COLUMN: "tile.announce"{{.*}} {bytes = 8192 : i64}
// COLUMN: "tile.copy_window"({{.*}}) {multicast = 1 : i64}
// COLUMN-NEXT: "tile.copy_window"({{.*}}) {multicast = 0 : i64}

// Products out of registers: two sets of slices, scale bytes of two stages. The loop begins at a block's last slice: the
// next stage's first slice and scale bytes are loaded before it, and its own stage is handed back as soon as they are.
// RUN: scalec compile 'C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8' --target sm_120a --dim m=4096,n=7168,k=2048 --schedule tile=128x128x128,stages=2,staged=0,swap=0,unroll=2 --emit tile | filecheck %s --check-prefix=REGISTERS
// REGISTERS-DAG: "tile.shared"(){{.*}} -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 2 : i64>
// REGISTERS-DAG: "tile.shared"(){{.*}} -> !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 2 : i64>
// three warps store scale bytes: 96 threads arrive beside the copies
// REGISTERS: "tile.ring"() {depth = 2 : i64, empty = 8 : i64, full = 4 : i64
// REGISTERS: %[[FRONT:.*]] = "tile.cursor"
// REGISTERS-NEXT: %[[BACK:.*]] = "tile.cursor"
// REGISTERS-NEXT: %[[SUM:.*]] = "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 32>, "warp">
// REGISTERS-NEXT: %[[A0:.*]] = "tile.multiplicand"() : () -> !tile.slice<array<i64: 64, 32>, f8E4M3FN, "a">
// REGISTERS-NEXT: %[[B0:.*]] = "tile.multiplicand"() : () -> !tile.slice<array<i64: 32, 32>, f8E4M3FN, "b">
// REGISTERS-NEXT: %[[A1:.*]] = "tile.multiplicand"
// REGISTERS-NEXT: %[[B1:.*]] = "tile.multiplicand"
// REGISTERS-NEXT: %[[AW:.*]] = "tile.words"() : () -> !tile.scale_words<array<i64: 1, 64>, "a">
// REGISTERS-NEXT: %[[BW:.*]] = "tile.words"() : () -> !tile.scale_words<array<i64: 1, 32>, "b">
// REGISTERS: "tile.wait"(%{{.*}}, %[[FRONT]])
// REGISTERS: "tile.steps"
// REGISTERS: "tile.wait"(%{{.*}}, %[[FRONT]])
// REGISTERS-NEXT: "tile.load_words"(%[[AW]], %{{.*}}, %[[FRONT]])
// REGISTERS-NEXT: "tile.load_words"(%[[BW]], %{{.*}}, %[[FRONT]])
// REGISTERS-NEXT: "tile.load"(%[[B0]], %{{.*}}, %[[FRONT]]) {step = 0 : i64
// REGISTERS-NEXT: "tile.load"(%[[A0]], %{{.*}}, %[[FRONT]]) {step = 0 : i64
// REGISTERS-NEXT: "tile.release"(%{{.*}}, %[[BACK]], %[[A1]], %[[B1]])
// REGISTERS-NEXT: "tile.multiply"(%[[SUM]], %[[A1]], %[[B1]], %[[AW]], %[[BW]]) {a_byte = 3 : i64, accumulate = 1 : i64, b_byte = 3 : i64, {{.*}}scale = "ue8m0"}
// REGISTERS-NEXT: "tile.advance"(%[[BACK]])
// REGISTERS-NEXT: "tile.turn"(%[[AW]])
// REGISTERS-NEXT: "tile.turn"(%[[BW]])
// REGISTERS-NEXT: "tile.load"(%[[B1]], {{.*}}) {step = 1 : i64
// REGISTERS-NEXT: "tile.load"(%[[A1]], {{.*}}) {step = 1 : i64
// REGISTERS-NEXT: "tile.multiply"(%[[SUM]], %[[A0]], %[[B0]], %[[AW]], %[[BW]]) {a_byte = 0 : i64
// REGISTERS-NEXT: "tile.load"(%[[B0]], {{.*}}) {step = 2 : i64
// REGISTERS-NEXT: "tile.load"(%[[A0]], {{.*}}) {step = 2 : i64
// REGISTERS-NEXT: "tile.multiply"(%[[SUM]], %[[A1]], %[[B1]], %[[AW]], %[[BW]]) {a_byte = 1 : i64
// REGISTERS-NEXT: "tile.load"(%[[B1]], {{.*}}) {step = 3 : i64
// REGISTERS-NEXT: "tile.load"(%[[A1]], {{.*}}) {step = 3 : i64
// REGISTERS-NEXT: "tile.advance"(%[[FRONT]])
// REGISTERS-NEXT: "tile.multiply"(%[[SUM]], %[[A0]], %[[B0]], %[[AW]], %[[BW]]) {a_byte = 2 : i64
// REGISTERS-NEXT: }) {operandSegmentSizes = array<i32: 1, 0>, start = 128 : i64, step = 128 : i64, unroll = 2 : i64}
// REGISTERS-NEXT: "tile.multiply"(%[[SUM]], %[[A1]], %[[B1]], %[[AW]], %[[BW]]) {a_byte = 3 : i64
// REGISTERS-NEXT: "tile.release"(%{{.*}}, %[[BACK]], %[[SUM]])
// REGISTERS: "tile.store"(%[[SUM]]
// REGISTERS: "tile.expect"{{.*}} {bytes = 32768 : i64}
// REGISTERS: "tile.byte_scales"() {rows = 128 : i64, warps = 3 : i64, words = 1 : i64}
// REGISTERS: "tile.load_bytes"({{.*}}) {block = 32 : i64, bytes = 4 : i64, layout = "row", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, pads = 0 : i64, row_block = 1 : i64, unit = 32 : i64, whole = 1 : i64}
// REGISTERS: "tile.acquire"
// REGISTERS-NEXT: "tile.store_bytes"
// REGISTERS-NEXT: "tile.store_bytes"
// REGISTERS-NEXT: "tile.commit"

// One side's scales by the instruction, the other's promoted: partial sums of a block, which keeps its stage until then.
// RUN: scalec compile 'C[m,n]:f32 = A[m,k]@B[n,k] scale(1x128,1x32:ue8m0)' --target sm_120a --dim m=4096,n=7168,k=2048 --schedule tile=128x64x128,swap=0 --emit tile | filecheck %s --check-prefix=MIXED
// MIXED: %[[SUM:.*]] = "tile.fragment"
// MIXED-NEXT: %[[PART:.*]] = "tile.fragment"
// MIXED: "tile.steps"
// MIXED: "tile.multiply"(%[[PART]], {{.*}}) {a_byte = -1 : i64, accumulate = 1 : i64, b_byte = 3 : i64
// MIXED-NEXT: "tile.row_factors"({{.*}}) {wave = 0 : i64
// MIXED-NEXT: "tile.promote"(%[[SUM]], %[[PART]], {{.*}}wave = 0 : i64}
// MIXED-NEXT: "tile.row_factors"({{.*}}) {wave = 1 : i64
// MIXED-NEXT: "tile.promote"(%[[SUM]], %[[PART]], {{.*}}wave = 1 : i64}
// MIXED-NEXT: "tile.release"(%{{.*}}, %{{.*}}, %[[SUM]])
// MIXED: "tile.multiply"(%[[PART]], {{.*}}) {a_byte = -1 : i64, accumulate = 0 : i64, b_byte = 0 : i64

// Sums in tensor memory: one thread copies, another issues products, and a warpgroup takes the sums, 64 columns at a
// time. The tensor core hands over: stages back to the copies, accumulators on to the consumers.
// RUN: scalec compile 'C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3' --target sm_100a --dim m=4096,n=7168,k=2048 --schedule tile=128x128x128,cluster=1x1,stages=4 --emit tile | filecheck %s --check-prefix=TENSOR
// TENSOR: %[[RING:.*]] = "tile.ring"() {depth = 4 : i64, empty = 1 : i64, full = 1 : i64
// TENSOR-NEXT: %[[DONE:.*]] = "tile.ring"() {depth = 2 : i64, empty = 4 : i64, full = 1 : i64
// TENSOR-NOT: tile.sync
// TENSOR: %[[SUMS:.*]] = "tile.sums"(){{.*}} -> !tile.tensor_memory<array<i64: 128, 128>, 2 : i64>
// TENSOR-NEXT: "tile.sync"() {releases = 1 : i64, scope = "cta"}
// The next kernel may come when this one has its tensor memory, of which it may want all.
// TENSOR-NEXT: "tile.depend"
// TENSOR: "tile.role"
// TENSOR: %[[SLOT:.*]] = "tile.cursor"() {depth = 2 : i64}
// TENSOR-NEXT: %[[TAKEN:.*]] = "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 64>, "warp">
// TENSOR-NEXT: %[[NEXT:.*]] = "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 64>, "warp">
// TENSOR-NEXT: "tile.tiles"
// TENSOR: "tile.wait"(%[[DONE]], %[[SLOT]])
// TENSOR-NEXT: %[[OWN:.*]] = "tile.has_rows"({{.*}}) {rows = 32 : i64}
// TENSOR-NEXT: "tile.take"(%[[TAKEN]], %[[SUMS]], %[[SLOT]]) {apart = 64 : i64, column = 0 : i64}
// TENSOR-NEXT: "tile.taken"(%[[TAKEN]])
// TENSOR-NEXT: "tile.take"(%[[NEXT]], %[[SUMS]], %[[SLOT]]) {apart = 64 : i64, column = 64 : i64}
// TENSOR-NEXT: "tile.when"(%[[OWN]])
// TENSOR-NEXT: "tile.store"(%[[TAKEN]]
// TENSOR-NEXT: })
// TENSOR-NEXT: "tile.taken"(%[[NEXT]])
// TENSOR-NEXT: "tile.vacate"(%[[DONE]], %[[SLOT]])
// TENSOR-NEXT: "tile.when"(%[[OWN]])
// TENSOR: "tile.store"(%[[NEXT]]
// TENSOR-NEXT: })
// TENSOR-NEXT: "tile.advance"(%[[SLOT]])
// TENSOR: }) {label = "consumer", registers = 184 : i64, warps = array<i64: 0, 4>}
// TENSOR: "tile.warp"
// TENSOR: "tile.acquire"(%[[RING]]
// TENSOR: "tile.expect"{{.*}} {bytes = 32768 : i64}
// TENSOR-NEXT: "tile.copy"
// TENSOR-NEXT: "tile.copy"
// The thread that copies stays until the last products have handed back all stages: tcgen05.commit arrives there.
// TENSOR-COUNT-4: "tile.acquire"(%[[RING]]
// TENSOR: }) {count = 1 : i64, elected = 1 : i64, index = 0 : i64}
// TENSOR-NEXT: "tile.warp"
// TENSOR: %[[AT:.*]] = "tile.cursor"() {depth = 4 : i64}
// TENSOR-NEXT: %[[SLOT:.*]] = "tile.cursor"() {depth = 2 : i64}
// TENSOR: "tile.acquire"(%[[DONE]], %[[SLOT]])
// TENSOR-NEXT: "tile.steps"(%{{.*}}, %[[AT]])
// TENSOR: "tile.wait"(%[[RING]], %[[AT]])
// TENSOR: %[[AGAIN:.*]] = arith.cmpi ult
// TENSOR-NEXT: "tile.mma_sums"(%[[SUMS]], %[[SLOT]], {{.*}}, %[[AT]], %[[AGAIN]]) {a_element = f8E4M3FN, a_mn = 0 : i64, {{.*}}b_element = f8E4M3FN, {{.*}}scale = ""}
// TENSOR-NEXT: "tile.hand_over"(%[[RING]], %[[AT]]) {side = "empty"}
// TENSOR-NEXT: "tile.advance"(%[[AT]])
// TENSOR-NEXT: }) {operandSegmentSizes = array<i32: 1, 1>, start = 0 : i64, step = 128 : i64, unroll = 4 : i64} : (i32, !tile.position)
// TENSOR-NEXT: "tile.hand_over"(%[[DONE]], %[[SLOT]]) {side = "full"}
// TENSOR-NEXT: "tile.advance"(%[[SLOT]])
// TENSOR: }) {count = 1 : i64, elected = 0 : i64, index = 1 : i64}
// TENSOR: }) {label = "producer", registers = 56 : i64, warps = array<i64: 4, 8>}
// TENSOR-NEXT: "tile.sync"() {releases = 0 : i64, scope = "cluster"}
// TENSOR-NEXT: "tile.free_sums"(%[[SUMS]])
// TENSOR-NEXT: }) {{{.*}}, registers = 120 : i64, {{.*}}threads = 256 : i64}

// A quantised result: the scales of blocks of columns come between the elementwise body and the store.
// RUN: scalec compile 'D[m,n]:mxfp8 = relu(A[m,k]@B[n,k])' --dim m=512,n=512,k=512 --schedule tile=128x128x64 --emit tile | filecheck %s --check-prefix=QUANTISED
// QUANTISED: "tile.shared"(){{.*}} -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 1 : i64>
// QUANTISED: %[[QSUM:.*]] = "tile.fragment"
// QUANTISED: "tile.epilogue"(%[[QSUM]]
// QUANTISED: "tile.quantize"(%[[QSUM]], {{.*}}) {block = 32 : i64, by_rows = 0 : i64, element = f8E4M3FN, exchange = -1 : i64, layout = "row", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0>, padding = 0 : i64, ragged = 0 : i64, scale = "ue8m0", together = 2 : i64} : (!tile.accumulator<array<i64: 64, 128>, "registers">, memref<512x16xf8E8M0FNU>
// QUANTISED-NEXT: "tile.store"(%[[QSUM]]
// Copies of B permute its rows within 16: a box counts two, four, two, and as many groups as the tile has.
// QUANTISED: "tile.copy"{{.*}} : (!tile.descriptor<array<i64: 64, 128>, bf16, 128 : i64>
// QUANTISED-NEXT: "tile.copy"{{.*}} : (!tile.descriptor<array<i64: 64, 2, 4, 2, 8>, bf16, 128 : i64>
// QUANTISED: {{.*}}box = array<i64: 64, 128>{{.*}}permuted = 0 : i64, swizzle = 128 : i64, tensor = "A"}, {{.*}}box = array<i64: 64, 2, 4, 2, 8>{{.*}}permuted = 16 : i64, swizzle = 128 : i64, tensor = "B"}

// A result that is computed by columns and turned: a row of 64 + 8 for each column of each wave, no copy and no drain.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k]' --dim m=40,n=512,k=512 --schedule swap=1,tile=128x16x64,split=1 --emit tile | filecheck %s --check-prefix=TURNED
// TURNED: %[[ROOM:.*]] = "tile.shared"(){{.*}} -> !tile.buffer<array<i64: 32, 72>, bf16, 0 : i64, 1 : i64>
// TURNED: %[[TSUM:.*]] = "tile.fragment"
// TURNED: "tile.store_turned"(%[[TSUM]], %[[ROOM]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>} : ({{.*}}, memref<40x512xbf16>, i64, i32, i32, i32, i32) -> ()
// TURNED-NEXT: }) {{{.*}}cluster
// TURNED-NEXT: }) {label = "consumer"
// TURNED-NOT: tile.drain

// Scales in tiles of 128x4 come to the stages as they lie: the full barrier counts the copying thread alone, and no
// thread brings scales. A tile of 192 columns may begin within a tile of scales: products then pass over two columns.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x32:ue8m0@blocked,1x32:ue8m0@blocked)' --target sm_100a --dim m=4096,n=7168,k=2048 --schedule tile=128x192x128,cluster=1x1,stages=3 --emit tile | filecheck %s --check-prefix=BLOCKED
// BLOCKED: %[[A:.*]] = "tile.shared"() {{.*}} -> !tile.buffer<array<i64: 1, 64>, i64, 0 : i64, 3 : i64>
// BLOCKED: %[[B:.*]] = "tile.shared"() {{.*}} -> !tile.buffer<array<i64: 2, 64>, i64, 0 : i64, 3 : i64>
// BLOCKED: %[[RING:.*]] = "tile.ring"() {depth = 3 : i64, empty = 1 : i64, full = 1 : i64
// BLOCKED: %[[SUMS:.*]] = "tile.sums"() {beside = 12 : i64
// BLOCKED: "tile.expect"{{.*}} {bytes = 42496 : i64}
// BLOCKED: %[[X:.*]] = arith.muli {{.*}}, %c64_i32
// BLOCKED: %[[Y:.*]] = arith.divui
// BLOCKED: "tile.copy"({{.*}}, %[[A]], %[[RING]], {{.*}}, %[[X]], %[[Y]])
// BLOCKED: "tile.copy"({{.*}}, %[[B]], %[[RING]]
// BLOCKED-NOT: tile.byte_scales
// BLOCKED: %[[WITHIN:.*]] = arith.andi
// BLOCKED: %[[BEFORE:.*]] = arith.divui %[[WITHIN]], %c32_i32
// BLOCKED: "tile.copy_words"(%[[SUMS]], %[[A]], %[[AT:.*]]) {column = 0 : i64
// BLOCKED-NEXT: "tile.copy_words"(%[[SUMS]], %[[B]], %[[AT]]) {column = 4 : i64
// BLOCKED: "tile.mma_sums"({{.*}}, %[[BEFORE]]) {{.*}} a_words = 0 : i64, {{.*}} b_words = 4 : i64

// One side alone: threads bring the other's.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x32:ue8m0,1x32:ue8m0@blocked)' --target sm_100a --dim m=4096,n=7168,k=2048 --schedule tile=128x128x128,cluster=1x2,stages=3 --emit tile | filecheck %s --check-prefix=BESIDE
// BESIDE: "tile.ring"() {depth = 3 : i64, empty = 2 : i64, full = 3 : i64
// BESIDE-COUNT-3: "tile.copy"
// BESIDE-COUNT-3: "tile.byte_scales"() {rows = 128 : i64, warps = 2 : i64, words = 1 : i64}
// BESIDE-NOT: tile.byte_scales
// BESIDE-COUNT-3: "tile.store_bytes"

// A side without scales takes ones, which the warp that issues products brings to tensor memory once.
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k]:e4m3 scale(1x32:ue8m0@blocked,none)' --target sm_100a --dim m=4096,n=7168,k=2048 --schedule tile=128x192x128,cluster=1x1,stages=3 --emit tile | filecheck %s --check-prefix=BARE
// BARE: %[[ONE:.*]] = "tile.shared"() {{.*}} -> !tile.buffer<array<i64: 1, 128>, i32, 0 : i64, 1 : i64>
// BARE-NEXT: "tile.ones"(%[[ONE]]) {scale = "ue8m0"}
// BARE: %[[SUMS:.*]] = "tile.sums"() {beside = 12 : i64
// BARE-NEXT: "tile.sync"() {releases = 1 : i64, scope = "cta"}
// BARE: "tile.fill_words"(%[[SUMS]], %[[ONE]]) {column = 4 : i64, columns = 8 : i64}
// BARE: "tile.tiles"
// BARE: "tile.copy_words"(%[[SUMS]]
// BARE-NOT: tile.copy_words
// BARE: "tile.mma_sums"{{.*}} a_words = 0 : i64, {{.*}} b_unit = 128 : i64, b_words = 4 : i64, k = 32 : i64, {{.*}}scale = "ue8m0"}

// Two CTAs multiply together: both copy, the first half or the second of B's rows, to full barriers of the leader, which
// expects the bytes of both and issues the products; consumers of both give accumulators back to it.
// RUN: scalec compile 'C[m,n] = A[m,k]:mxfp8 @ B[n,k]:mxfp8' --target sm_100a --dim m=4096,n=7168,k=2048 --schedule tile=128x64x128,cta_group=2,stages=4 --emit tile | filecheck %s --check-prefix=PAIR
// PAIR: "tile.shared"() {{.*}}!tile.buffer<array<i64: 128, 128>, f8E4M3FN
// PAIR: "tile.shared"() {{.*}}!tile.buffer<array<i64: 32, 128>, f8E4M3FN
// PAIR-NEXT: "tile.shared"() {{.*}}!tile.buffer<array<i64: 1, 128>, i32
// PAIR: %[[RING:.*]] = "tile.ring"() {depth = 4 : i64, empty = 1 : i64, full = 5 : i64
// PAIR-NEXT: %[[DONE:.*]] = "tile.ring"() {depth = 2 : i64, empty = 8 : i64, full = 1 : i64
// PAIR-NEXT: %[[RANK:.*]] = "tile.pair_rank"()
// PAIR-NEXT: %[[FILLED:.*]] = "tile.leader"(%[[RING]])
// PAIR-NEXT: %[[VACATED:.*]] = "tile.leader"(%[[DONE]])
// Tensor memory is allocated when both have begun.
// PAIR-NEXT: "tile.sync"() {releases = 0 : i64, scope = "cluster"}
// PAIR-NEXT: %[[SUMS:.*]] = "tile.sums"() {{.*}}ctas = 2 : i64{{.*}} -> !tile.tensor_memory<array<i64: 128, 64>, 2 : i64>
// PAIR-NEXT: "tile.sync"() {releases = 1 : i64, scope = "cta"}
// PAIR: "tile.wait"(%[[DONE]]
// PAIR: "tile.vacate"(%[[VACATED]]
// The leader's stay until the other's have given both accumulators back.
// PAIR: "tile.when"
// PAIR-COUNT-2: "tile.acquire"(%[[DONE]]
// PAIR: }) {label = "consumer"
// PAIR: "tile.acquire"(%[[RING]]
// PAIR: %[[LEADS:.*]] = arith.cmpi eq, %[[RANK]]
// PAIR-NEXT: "tile.when"(%[[LEADS]])
// PAIR-NEXT: "tile.expect"(%[[RING]], {{.*}}bytes = 40960 : i64}
// PAIR-NEXT: })
// PAIR-NEXT: "tile.copy"({{[^,]*}}, {{[^,]*}}, %[[FILLED]]
// PAIR: %[[HALF:.*]] = arith.muli %[[RANK]]
// PAIR-NEXT: %[[ROW:.*]] = arith.addi {{.*}}, %[[HALF]]
// PAIR-NEXT: "tile.copy"({{[^,]*}}, {{[^,]*}}, %[[FILLED]], {{.*}}, %[[ROW]]) {multicast = 0 : i64}
// PAIR: "tile.commit"(%[[FILLED]]
// PAIR: %[[LEADS:.*]] = arith.cmpi eq, %[[RANK]]
// PAIR-NEXT: "tile.when"(%[[LEADS]])
// PAIR: "tile.acquire"(%[[DONE]]
// PAIR: "tile.wait"(%[[RING]]
// PAIR-NEXT: "tile.copy_words"
// PAIR-NEXT: "tile.copy_words"
// PAIR: "tile.mma_sums"
// PAIR-NEXT: "tile.hand_over"(%[[RING]], {{.*}}side = "empty"
// PAIR: "tile.hand_over"(%[[DONE]], {{.*}}side = "full"
// PAIR: "tile.sync"() {releases = 0 : i64, scope = "cluster"}
// PAIR-NEXT: "tile.free_sums"(%[[SUMS]])

// A warp copies scale words to tensor memory, of two K blocks: it waits for a stage and, as its ring has four, for the
// products of the block that had its columns last. Warps of another role bring the words to shared memory.
// RUN: scalec compile 'C[m,n] = A[m,k]:nvfp4 @ B[n,k]:nvfp4' --target sm_100a --dim m=4096,n=7168,k=4096 --schedule tile=128x192x256,cluster=1x1,stages=4 --emit tile | filecheck %s --check-prefix=COPIER
// COPIER: %[[RING:.*]] = "tile.ring"() {depth = 4 : i64, empty = 1 : i64, full = 5 : i64
// COPIER: %[[DONE:.*]] = "tile.ring"() {depth = 2 : i64
// COPIER-NEXT: %[[COPIED:.*]] = "tile.ring"() {depth = 4 : i64, empty = 1 : i64, full = 2 : i64
// COPIER: %[[SUMS:.*]] = "tile.sums"() {beside = 96 : i64, ctas = 1 : i64
// COPIER: %[[SCALE:.*]] = "tile.input"({{.*}}kind = "scalar"
// COPIER: "tile.hold"(%[[SCALE]])
// COPIER: "tile.tiles"
// COPIER: }) {label = "consumer", registers = 184 : i64, warps = array<i64: 0, 4>}
// COPIER: %[[AT:.*]] = "tile.cursor"() {depth = 4 : i64}
// COPIER: %[[SLOT:.*]] = "tile.cursor"() {depth = 2 : i64}
// COPIER: %[[WORDS:.*]] = "tile.cursor"() {depth = 2 : i64}
// COPIER-NEXT: %[[OWN:.*]] = "tile.word_slot"(%[[SUMS]], %[[WORDS]]) {column = 0 : i64, columns = 48 : i64}
// COPIER: "tile.steps"({{[^,]*}}, %[[AT]], %[[WORDS]])
// COPIER: "tile.wait"(%[[COPIED]], %[[AT]])
// COPIER-NOT: "tile.copy_words"
// COPIER: "tile.mma_sums"(%[[OWN]]
// COPIER-NEXT: "tile.hand_over"(%[[RING]], %[[AT]]) {side = "empty"}
// COPIER: }) {count = 1 : i64, elected = 0 : i64, index = 1 : i64}
// COPIER: %[[STAGE:.*]] = "tile.cursor"() {depth = 4 : i64}
// COPIER: %[[COLUMNS:.*]] = "tile.cursor"() {depth = 2 : i64}
// COPIER-NEXT: %[[MINE:.*]] = "tile.word_slot"(%[[SUMS]], %[[COLUMNS]]) {column = 0 : i64, columns = 48 : i64}
// COPIER-NEXT: %[[FREED:.*]] = "tile.cursor"() {depth = 4 : i64}
// COPIER-NEXT: "tile.advance"(%[[FREED]])
// COPIER-NEXT: "tile.advance"(%[[FREED]])
// COPIER: "tile.wait"(%[[RING]], %[[STAGE]])
// COPIER-NEXT: "tile.acquire"(%[[RING]], %[[FREED]])
// COPIER-NEXT: "tile.copy_words"(%[[MINE]]
// COPIER-NEXT: "tile.copy_words"(%[[MINE]]
// COPIER-NEXT: "tile.copied"(%[[COPIED]], %[[STAGE]])
// COPIER: }) {count = 1 : i64, elected = 0 : i64, index = 2 : i64}
// COPIER-NEXT: }) {label = "producer", registers = 80 : i64, warps = array<i64: 4, 8>}
// COPIER: "tile.byte_scales"() {rows = 128 : i64, warps = 4 : i64
// COPIER: }) {label = "scales", registers = 80 : i64, warps = array<i64: 8, 12>}

// Two warpgroups that write results take parts of a tile side by side: eight warps give an accumulator back. Where sums
// are added up, each has adjacent columns.
// RUN: scalec compile 'C[m,n] = A[m,k]:e4m3 @ B[n,k]:e4m3' --target sm_100a --dim m=4096,n=7168,k=2048 --schedule tile=128x256x128,cluster=1x1,stages=4,warpgroups=2 --emit tile | filecheck %s --check-prefix=HALVES
// HALVES: "tile.ring"() {depth = 2 : i64, empty = 8 : i64, full = 1 : i64
// HALVES: "tile.take"({{.*}}) {apart = 64 : i64, column = 0 : i64}
// HALVES: "tile.take"({{.*}}) {apart = 64 : i64, column = 128 : i64}
// HALVES-NOT: "tile.take"
// HALVES: }) {label = "consumer", registers = 184 : i64, warps = array<i64: 0, 8>}
// HALVES: }) {label = "producer", registers = 56 : i64, warps = array<i64: 8, 12>}
// RUN: scalec compile 'C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)' --target sm_100a --dim m=4096,n=7168,k=2048 --schedule tile=128x256x128,cluster=1x1,stages=3 --emit tile | filecheck %s --check-prefix=HELD
// HELD: "tile.fragment"() : () -> !tile.accumulator<array<i64: 32, 128>, "warp">
// HELD: "tile.take"({{.*}}) {apart = 128 : i64, column = 0 : i64}
// HELD: "tile.take"({{.*}}) {apart = 128 : i64, column = 32 : i64}
// HELD: "tile.promote"({{.*}}column = 0 : i64

// f32 results that are loaded while a tile is multiplied: a warp of the producers' loads as many boxes as have room, those
// of the next tile once it has stored this one's; consumers add their sums in place.
// RUN: scalec compile 'C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128)' --dim n=7168,k=2048 --schedule tile=128x96x128,panels=2,adds=loaded --emit tile | filecheck %s --check-prefix=LOADED
// LOADED: %[[C:.*]] = "tile.shared"() {{.*}} -> !tile.buffer<array<i64: 128, 64>, f32, 128 : i64, 1 : i64>
// LOADED: %[[RING:.*]] = "tile.ring"() {depth = 2 : i64, empty = 8 : i64, full = 1 : i64
// LOADED: "tile.role"
// LOADED: %[[SUM:.*]] = "tile.fragment"
// LOADED: %[[AT:.*]] = "tile.cursor"() {depth = 2 : i64}
// LOADED: "tile.tiles"
// LOADED: "tile.promote"
// LOADED: "tile.wait"(%[[RING]], %[[AT]])
// LOADED-NEXT: "tile.add_loaded"(%[[SUM]], %[[C]], %{{.*}}, %[[RING]], %[[AT]]) {index = 0 : i64}
// LOADED-NEXT: "tile.advance"(%[[AT]])
// LOADED: "tile.add_loaded"{{.*}} {index = 1 : i64}
// LOADED: "tile.add_loaded"{{.*}} {index = 2 : i64}
// LOADED-NEXT: "tile.advance"(%[[AT]])
// LOADED-NEXT: }) {{{.*}}cluster
// LOADED-NEXT: }) {label = "consumer"
// LOADED: "tile.warp"
// LOADED: }) {count = 1 : i64, elected = 1 : i64, index = 0 : i64}
// LOADED: %[[IN:.*]] = "tile.cursor"() {depth = 2 : i64}
// LOADED-NEXT: %[[OUT:.*]] = "tile.cursor"() {depth = 2 : i64}
// LOADED-NEXT: "tile.advance"(%[[OUT]])
// LOADED-NEXT: "tile.advance"(%[[OUT]])
// LOADED-NEXT: "tile.tiles"
// LOADED: "tile.await_stores"() {pending = 1 : i64}
// LOADED-NEXT: "tile.expect"(%[[RING]], %[[IN]]) {bytes = 16384 : i64}
// LOADED-NEXT: "tile.load_box"(%{{.*}}, %[[C]], %[[RING]], %[[IN]], {{.*}}) {index = 0 : i64, tile = array<i64: 128, 96>}
// LOADED-NEXT: "tile.advance"(%[[IN]])
// LOADED-NEXT: "tile.await_stores"() {pending = 0 : i64}
// LOADED: "tile.load_box"{{.*}} {index = 1 : i64
// LOADED: "tile.acquire"(%[[RING]], %[[OUT]])
// LOADED-NEXT: "tile.store_result"(%[[C]], %{{.*}}, %[[OUT]], {{.*}}) {index = 0 : i64, tile = array<i64: 128, 96>}
// LOADED-NEXT: "tile.advance"(%[[OUT]])
// LOADED-NEXT: "tile.await_stores"() {pending = 0 : i64}
// LOADED: "tile.load_box"{{.*}} {index = 2 : i64
// LOADED: "tile.store_result"{{.*}} {index = 1 : i64
// LOADED-NEXT: "tile.advance"(%[[OUT]])
// LOADED-NEXT: "tile.acquire"(%[[RING]], %[[OUT]])
// LOADED-NEXT: "tile.store_result"{{.*}} {index = 2 : i64
// LOADED: "tile.await_stores"() {pending = 0 : i64}
// LOADED-NEXT: }) {count = 1 : i64, elected = 1 : i64, index = 3 : i64}
