// RUN: %roundtrip %s | filecheck %s
// RUN: scalec opt --passes= %s | filecheck %s

// Every op and type of the dialect, as it prints; no pass runs.

!a = !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>
!b = !tile.buffer<array<i64: 64, 128>, f8E5M2, 128 : i64, 4 : i64>
!c = !tile.buffer<array<i64: 128, 64>, bf16, 128 : i64, 1 : i64>
!turned = !tile.buffer<array<i64: 128, 72>, bf16, 0 : i64, 1 : i64>
!slots = !tile.buffer<array<i64: 128, 8>, f32, 32 : i64, 2 : i64>
!vector = !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>
!a_map = !tile.descriptor<array<i64: 128, 128>, f8E4M3FN, 128 : i64>
!b_map = !tile.descriptor<array<i64: 128, 64>, f8E5M2, 128 : i64>
!c_map = !tile.descriptor<array<i64: 64, 64>, bf16, 128 : i64>
!slots_map = !tile.descriptor<array<i64: 8, 128>, f32, 32 : i64>
!sums = !tile.accumulator<array<i64: 64, 64>, "registers">

// CHECK: "tile.kernel"() ({
// CHECK-NEXT: ^bb0(%{{.*}}: !tile.descriptor<array<i64: 128, 128>, f8E4M3FN, 128 : i64>, %{{.*}}: !tile.descriptor<array<i64: 128, 64>, f8E5M2, 128 : i64>
"tile.kernel"() ({
^bb0(%A: !a_map, %B: !b_map, %C: !c_map, %As: !slots_map, %Bs: memref<?x?xf32>, %T: memref<?x?xf32>,
     %D: memref<?x64xbf16>, %alpha: f32, %m: i32, %n: i32, %k: i32, %s: i64):
  %zero = arith.constant 0 : i32
  // CHECK: "tile.shared"() {offset = 0 : i64} : () -> !tile.buffer<array<i64: 128, 128>, f8E4M3FN, 128 : i64, 4 : i64>
  %a = "tile.shared"() {offset = 0 : i64} : () -> !a
  %b = "tile.shared"() {offset = 65536 : i64} : () -> !b
  %c = "tile.shared"() {offset = 98304 : i64} : () -> !c
  %turned = "tile.shared"() {offset = 98304 : i64} : () -> !turned
  %w = "tile.shared"() {offset = 114688 : i64} : () -> !slots
  // CHECK: -> !tile.buffer<array<i64: 1, 64>, f32, 0 : i64, 4 : i64>
  %v = "tile.shared"() {offset = 122880 : i64} : () -> !vector
  // CHECK: "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 4 : i64, offset = 123904 : i64} : () -> !tile.stages
  %ring = "tile.ring"() {depth = 4 : i64, empty = 16 : i64, full = 4 : i64, offset = 123904 : i64} : () -> !tile.stages
  // CHECK: "tile.sync"() {releases = 1 : i64, scope = "cta"} : () -> ()
  "tile.sync"() {releases = 1 : i64, scope = "cta"} : () -> ()
  "tile.sync"() {releases = 0 : i64, scope = "cluster"} : () -> ()
  // CHECK: "tile.role"() ({
  "tile.role"() ({
    // CHECK-NEXT: "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
    %at = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
    // CHECK-NEXT: "tile.fragment"() : () -> !tile.accumulator<array<i64: 64, 64>, "registers">
    %sum = "tile.fragment"() : () -> !sums
    %part = "tile.fragment"() : () -> !sums
    // CHECK: -> !tile.accumulator<array<i64: 128, 256>, "tensor">
    %tensor = "tile.fragment"() : () -> !tile.accumulator<array<i64: 128, 256>, "tensor">
    // CHECK: "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
    %window = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
    // CHECK: "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
    %few = "tile.scalars"() {count = 2 : i64} : () -> !tile.registers
    // CHECK: "tile.tiles"(%{{.*}}, %{{.*}}) ({
    // CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i32):
    "tile.tiles"(%m, %n) ({
    ^bb0(%m0: i32, %n0: i32):
      // CHECK-NEXT: "tile.prefetch"({{.*}}) {count = 2 : i64, k_block = 128 : i64, row_block = 128 : i64, spacing = 128 : i64}
      "tile.prefetch"(%Bs, %s, %s, %n0, %n, %m0, %k) {count = 2 : i64, k_block = 128 : i64, row_block = 128 : i64, spacing = 128 : i64}
        : (memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
      // CHECK-NEXT: "tile.clear"(%{{.*}})
      "tile.clear"(%sum) : (!sums) -> ()
      // CHECK-NEXT: "tile.to_f32"(%{{.*}}) : ({{.*}}) -> ()
      "tile.to_f32"(%sum) : (!sums) -> ()
      // CHECK-NEXT: "tile.open_window"(%{{.*}}) : (!tile.window) -> ()
      "tile.open_window"(%window) : (!tile.window) -> ()
      // CHECK: "tile.steps"(%{{.*}}) ({
      // CHECK-NEXT: ^bb0(%{{.*}}: i32):
      "tile.steps"(%k) ({
      ^bb0(%k0: i32):
        // CHECK-NEXT: "tile.wait"(%{{.*}}, %{{.*}}) : (!tile.stages, !tile.position) -> ()
        "tile.wait"(%ring, %at) : (!tile.stages, !tile.position) -> ()
        // CHECK-NEXT: "tile.fetch"({{.*}}) {axis = "n", k_block = 128 : i64, own = 0 : i64, row_block = 128 : i64, spacing = 128 : i64}
        "tile.fetch"(%few, %Bs, %s, %s, %n0, %n, %k0, %k) {axis = "n", k_block = 128 : i64, own = 0 : i64, row_block = 128 : i64, spacing = 128 : i64}
          : (!tile.registers, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
        // CHECK-NEXT: "tile.row_factors"(%{{.*}}, %{{.*}}) {wave = 0 : i64, waves = 1 : i64} : ({{.*}}, !tile.window) -> !tile.factors
        %rows = "tile.row_factors"(%w, %window) {wave = 0 : i64, waves = 1 : i64} : (!slots, !tile.window) -> !tile.factors
        // CHECK-NEXT: "tile.column_factors"(%{{.*}}, %{{.*}}) : ({{.*}}, !tile.position) -> !tile.factors
        %columns = "tile.column_factors"(%v, %at) : (!vector, !tile.position) -> !tile.factors
        // CHECK-NEXT: "tile.uniform_factors"(%{{.*}}) {count = 2 : i64, first = 0 : i64, span = 32 : i64} : (!tile.registers) -> !tile.factors
        %uniform = "tile.uniform_factors"(%few) {count = 2 : i64, first = 0 : i64, span = 32 : i64} : (!tile.registers) -> !tile.factors
        // CHECK-NEXT: "tile.block_factors"(%{{.*}}, %{{.*}}) {block = 128 : i64, step = 16 : i64} : (!tile.registers, i32) -> !tile.factors
        %blocks = "tile.block_factors"(%few, %n0) {block = 128 : i64, step = 16 : i64} : (!tile.registers, i32) -> !tile.factors
        // CHECK-NEXT: "tile.mma"({{.*}}) {a_wave = 1 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64, waves = 2 : i64}
        "tile.mma"(%part, %a, %b, %at) {a_wave = 1 : i64, accumulate = 0 : i64, column = 0 : i64, wave = 0 : i64, waves = 2 : i64} : (!sums, !a, !b, !tile.position) -> ()
        // CHECK-NEXT: "tile.mma_wait"(%{{.*}}) {pending = 0 : i64}
        "tile.mma_wait"(%part) {pending = 0 : i64} : (!sums) -> ()
        // CHECK-NEXT: "tile.promote"({{.*}}) {column = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>, wave = 0 : i64}
        "tile.promote"(%sum, %part, %rows, %columns) {column = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>, wave = 0 : i64}
          : (!sums, !sums, !tile.factors, !tile.factors) -> ()
        // CHECK-NEXT: "tile.promote"({{.*}}) {column = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 1>, wave = 0 : i64}
        "tile.promote"(%sum, %part, %uniform) {column = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 1>, wave = 0 : i64} : (!sums, !sums, !tile.factors) -> ()
        // CHECK-NEXT: "tile.release"(%{{.*}}, %{{.*}}) {lag = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>}
        "tile.release"(%ring, %at) {lag = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>} : (!tile.stages, !tile.position) -> ()
        %first = arith.cmpi eq, %k0, %zero : i32
        // CHECK: "tile.release"(%{{.*}}, %{{.*}}, %{{.*}}) {lag = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (!tile.stages, !tile.position, i1) -> ()
        "tile.release"(%ring, %at, %first) {lag = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (!tile.stages, !tile.position, i1) -> ()
        // CHECK-NEXT: "tile.advance"(%{{.*}}) : (!tile.position) -> ()
        "tile.advance"(%at) : (!tile.position) -> ()
        // CHECK-NEXT: "tile.next_block"(%{{.*}}) : (!tile.window) -> ()
        "tile.next_block"(%window) : (!tile.window) -> ()
        // CHECK-NEXT: "tile.peek"(%{{.*}}, %{{.*}}) : (!tile.stages, !tile.position) -> ()
        "tile.peek"(%ring, %at) : (!tile.stages, !tile.position) -> ()
      // CHECK-NEXT: }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 128 : i64, unroll = 2 : i64} : (i32) -> ()
      }) {operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64, step = 128 : i64, unroll = 2 : i64} : (i32) -> ()
      // CHECK-NEXT: "tile.input"({{.*}}) {axes = array<i64: 0, 128, 0, 1, 1, 0>, kind = "both", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (memref<?x?xf32>, i64, i64) -> !tile.operand
      %in = "tile.input"(%T, %s, %s) {axes = array<i64: 0, 128, 0, 1, 1, 0>, kind = "both", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (memref<?x?xf32>, i64, i64) -> !tile.operand
      // CHECK-NEXT: "tile.input"({{.*}}) {{.*}}kind = "col"
      %bias = "tile.input"(%T, %s, %s) {axes = array<i64: 0, 1, 0, 1, 1, 0>, kind = "col", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (memref<?x?xf32>, i64, i64) -> !tile.operand
      // CHECK-NEXT: "tile.prefetch_input"({{.*}}) {tile = array<i64: 64, 128>} : (!tile.operand, i32, i32, i32, i32) -> ()
      "tile.prefetch_input"(%bias, %m0, %n0, %m, %n) {tile = array<i64: 64, 128>} : (!tile.operand, i32, i32, i32, i32) -> ()
      // CHECK-NEXT: "tile.input"({{.*}}) {{.*}}kind = "scalar"{{.*}} : (f32, i64, i64) -> !tile.operand
      %scalar = "tile.input"(%alpha, %s, %s) {axes = array<i64: 0, 1, 0, 1, 1, 0>, kind = "scalar", operandSegmentSizes = array<i32: 1, 2>, pair = 0 : i64} : (f32, i64, i64) -> !tile.operand
      // CHECK-NEXT: "tile.hold"({{.*}}) ({
      // CHECK-NEXT: ^bb0(%{{.*}}: f32):
      // CHECK-NEXT: "tile.yield"
      // CHECK-NEXT: }) {operandSegmentSizes = array<i32: 1>} : (!tile.operand) -> !tile.operand
      %held = "tile.hold"(%scalar) ({
      ^bb0(%x: f32):
        "tile.yield"(%x) : (f32) -> ()
      }) {operandSegmentSizes = array<i32: 1>} : (!tile.operand) -> !tile.operand
      // CHECK-NEXT: "tile.hold"({{.*}}, {{.*}}) ({
      %computed = "tile.hold"(%scalar, %held) ({
      ^bb0(%x: f32, %y: f32):
        %z = arith.mulf %x, %y : f32
        "tile.yield"(%z) : (f32) -> ()
      // CHECK: }) {operandSegmentSizes = array<i32: 2>} : (!tile.operand, !tile.operand) -> !tile.operand
      }) {operandSegmentSizes = array<i32: 2>} : (!tile.operand, !tile.operand) -> !tile.operand
      // CHECK-NEXT: "tile.epilogue"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) ({
      // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: f32):
      "tile.epilogue"(%sum, %m0, %n0, %m, %n, %in, %scalar) ({
      ^bb0(%x: f32, %y: f32, %z: f32):
        %p = arith.mulf %x, %z : f32
        %q = arith.addf %p, %y : f32
        // CHECK: "tile.yield"(%{{.*}}) : (f32) -> ()
        "tile.yield"(%q) : (f32) -> ()
      // CHECK-NEXT: }) {approximate, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 2>} :
      }) {approximate, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 2>} : (!sums, i32, i32, i32, i32, !tile.operand, !tile.operand) -> ()
      // CHECK: "tile.store"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {adds = 0 : i64} :
      "tile.store"(%sum, %c, %C, %m0, %n0) {adds = 0 : i64} : (!sums, !c, !c_map, i32, i32) -> ()
      // CHECK-NEXT: "tile.store_direct"({{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>, pair = 1 : i64}
      "tile.store_direct"(%sum, %D, %s, %s, %m0, %n0, %m, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>, pair = 1 : i64} : (!sums, memref<?x64xbf16>, i64, i64, i32, i32, i32, i32) -> ()
      // CHECK-NEXT: "tile.store"({{.*}}) {adds = 0 : i64, columns = 256 : i64, gaps = array<i64: 64, 128, 0>} :
      "tile.store"(%sum, %c, %C, %m0, %n0) {adds = 0 : i64, columns = 256 : i64, gaps = array<i64: 64, 128, 0>} : (!sums, !c, !c_map, i32, i32) -> ()
      // CHECK-NEXT: "tile.store_direct"({{.*}}) {gaps = array<i64: 1, 3, 1>, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>, pair = 0 : i64, together = 1 : i64}
      "tile.store_direct"(%sum, %D, %s, %s, %m0, %n0, %m, %n) {gaps = array<i64: 1, 3, 1>, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>, pair = 0 : i64, together = 1 : i64} : (!sums, memref<?x64xbf16>, i64, i64, i32, i32, i32, i32) -> ()
      // CHECK-NEXT: "tile.store_turned"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>} : ({{.*}}, !tile.buffer<array<i64: 128, 72>, bf16, 0 : i64, 1 : i64>, memref<?x64xbf16>, i64, i32, i32, i32, i32) -> ()
      "tile.store_turned"(%sum, %turned, %D, %s, %m0, %n0, %m, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0>} : (!sums, !turned, memref<?x64xbf16>, i64, i32, i32, i32, i32) -> ()
    // CHECK-NEXT: }) {band = 7 : i64, cluster = array<i64: 1, 2>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 128, 64>, turns = 1 : i64} : (i32, i32) -> ()
    }) {band = 7 : i64, cluster = array<i64: 1, 2>, operandSegmentSizes = array<i32: 1, 1, 0>, order = "n", split = 1 : i64, tile = array<i64: 128, 64>, turns = 1 : i64} : (i32, i32) -> ()
    // CHECK-NEXT: "tile.drain"() : () -> ()
    "tile.drain"() : () -> ()
  // CHECK-NEXT: }) {label = "consumer", registers = 232 : i64, warps = array<i64: 0, 8>} : () -> ()
  }) {label = "consumer", registers = 232 : i64, warps = array<i64: 0, 8>} : () -> ()
  "tile.role"() ({
    // CHECK: "tile.warp"() ({
    "tile.warp"() ({
      %at = "tile.cursor"() {depth = 4 : i64} : () -> !tile.position
      %window = "tile.windows"() {blocks = 8 : i64, slots = 2 : i64} : () -> !tile.window
      // CHECK: "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
      %rows = "tile.row_scales"() {blocks = 4 : i64, rows = 64 : i64, warps = 3 : i64} : () -> !tile.rows
      // CHECK-NEXT: "tile.acquire"(%{{.*}}, %{{.*}}) : (!tile.stages, !tile.position) -> ()
      "tile.acquire"(%ring, %at) : (!tile.stages, !tile.position) -> ()
      %first = arith.cmpi eq, %k, %zero : i32
      // CHECK: "tile.when"(%{{.*}}) ({
      "tile.when"(%first) ({
        // CHECK-NEXT: "tile.announce"(%{{.*}}, %{{.*}}) {bytes = 4096 : i64} : (!tile.stages, !tile.position) -> ()
        "tile.announce"(%ring, %at) {bytes = 4096 : i64} : (!tile.stages, !tile.position) -> ()
      }) : (i1) -> ()
      // CHECK: "tile.expect"(%{{.*}}, %{{.*}}) {bytes = 24576 : i64} : (!tile.stages, !tile.position) -> ()
      "tile.expect"(%ring, %at) {bytes = 24576 : i64} : (!tile.stages, !tile.position) -> ()
      // CHECK-NEXT: "tile.copy"({{.*}}) {multicast = 1 : i64}
      "tile.copy"(%A, %a, %ring, %at, %zero, %zero) {multicast = 1 : i64} : (!a_map, !a, !tile.stages, !tile.position, i32, i32) -> ()
      // CHECK-NEXT: "tile.copy_window"({{.*}}) {multicast = 0 : i64} : ({{.*}}, !tile.stages, !tile.position, !tile.window, i32, i32) -> ()
      "tile.copy_window"(%As, %w, %ring, %at, %window, %zero, %zero) {multicast = 0 : i64}
        : (!slots_map, !slots, !tile.stages, !tile.position, !tile.window, i32, i32) -> ()
      // CHECK-NEXT: "tile.load_rows"({{.*}}) {block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, row_block = 1 : i64, step = 128 : i64}
      "tile.load_rows"(%rows, %Bs, %s, %s, %zero, %n, %zero, %k) {block = 128 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>, row_block = 1 : i64, step = 128 : i64}
        : (!tile.rows, memref<?x?xf32>, i64, i64, i32, i32, i32, i32) -> ()
      // CHECK-NEXT: "tile.store_rows"(%{{.*}}, %{{.*}}, %{{.*}}) {index = 3 : i64}
      "tile.store_rows"(%rows, %v, %at) {index = 3 : i64} : (!tile.rows, !vector, !tile.position) -> ()
      // CHECK-NEXT: "tile.commit"(%{{.*}}, %{{.*}}) : (!tile.stages, !tile.position) -> ()
      "tile.commit"(%ring, %at) : (!tile.stages, !tile.position) -> ()
    // CHECK-NEXT: }) {count = 3 : i64, elected = 0 : i64, index = 1 : i64} : () -> ()
    }) {count = 3 : i64, elected = 0 : i64, index = 1 : i64} : () -> ()
  }) {label = "producer", registers = 40 : i64, warps = array<i64: 8, 12>} : () -> ()
// CHECK: cluster = array<i64: 1, 2>, shared_bytes = 124000 : i64, sym_name = "everything", threads = 384 : i64} : () -> ()
}) {sym_name = "everything", threads = 384 : i64, cluster = array<i64: 1, 2>, shared_bytes = 124000 : i64,
    arguments = [{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}]} : () -> ()
