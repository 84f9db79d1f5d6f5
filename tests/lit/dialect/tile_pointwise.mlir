// Ops of programs without a contraction round-trip through the printer.
// RUN: %roundtrip %s | filecheck %s

// CHECK-LABEL: func.func @combine
func.func @combine(%D: memref<?x64xbf16>, %w: memref<?xf32>, %Y: memref<?x64xf32>, %s: i64, %p: i32, %alpha: f32) {
  // CHECK: %[[AT:.*]]:3 = "tile.point"({{.*}}) {columns = 64 : i64, vector = 8 : i64}
  %row, %column, %inside = "tile.point"(%p, %p, %p, %p) {columns = 64 : i64, vector = 8 : i64} : (i32, i32, i32, i32) -> (i32, i32, i1)
  // CHECK-NEXT: "tile.aligned"({{.*}}) {bytes = 16 : i64, operandSegmentSizes = array<i32: 1, 1>}
  %a = "tile.aligned"(%D, %s) {bytes = 16 : i64, operandSegmentSizes = array<i32: 1, 1>} : (memref<?x64xbf16>, i64) -> i1
  // CHECK-NEXT: %[[SUMS:.*]] = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  %sums = "tile.running"() {kind = "sum"} : () -> !tile.columns<8 : i64>
  // CHECK-NEXT: %[[X:.*]] = "tile.load_columns"({{.*}}, %[[AT]]#0, %[[AT]]#1, {{.*}}, %[[AT]]#2) {along = 1 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1, 0, 0>, together = 8 : i64}
  %x = "tile.load_columns"(%D, %row, %column, %s, %s, %inside) {along = 1 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1, 0, 0>, together = 8 : i64} : (memref<?x64xbf16>, i32, i32, i64, i64, i1) -> !tile.columns<8 : i64>
  // CHECK-NEXT: %[[W:.*]] = "tile.load_columns"({{.*}}) {along = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, together = 1 : i64}
  %v = "tile.load_columns"(%w, %row, %s, %inside) {along = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, together = 1 : i64} : (memref<?xf32>, i32, i64, i1) -> !tile.columns<8 : i64>
  // CHECK-NEXT: %[[PRODUCT:.*]] = "tile.compute"(%[[X]], %[[W]], {{.*}}) ({
  %product = "tile.compute"(%x, %v, %alpha) ({
  ^bb0(%i: f32, %j: f32, %k: f32):
    %ij = arith.mulf %i, %j : f32
    %ijk = arith.mulf %ij, %k : f32
    "tile.yield"(%ijk) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 2, 1>, approximate} : (!tile.columns<8 : i64>, !tile.columns<8 : i64>, f32) -> !tile.columns<8 : i64>
  // CHECK: "tile.compute"(%[[W]]) ({
  // CHECK: }) {once, operandSegmentSizes = array<i32: 1, 0>}
  %number = "tile.compute"(%v) ({
  ^bb0(%i: f32):
    "tile.yield"(%i) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0>, once} : (!tile.columns<8 : i64>) -> !tile.columns<8 : i64>
  // CHECK: "tile.term"(%[[SUMS]], %[[PRODUCT]], %[[AT]]#2) {kind = "sum"}
  "tile.term"(%sums, %product, %inside) {kind = "sum"} : (!tile.columns<8 : i64>, !tile.columns<8 : i64>, i1) -> ()
  // CHECK-NEXT: "tile.store_columns"(%[[SUMS]], {{.*}}, %[[AT]]#0, %[[AT]]#1, {{.*}}) {operandSegmentSizes = array<i32: 1, 1, 2, 2, 0, 0>, together = 4 : i64}
  "tile.store_columns"(%sums, %Y, %row, %column, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 2, 2, 0, 0>, together = 4 : i64} : (!tile.columns<8 : i64>, memref<?x64xf32>, i32, i32, i64, i64) -> ()
  return
}

// CHECK-LABEL: func.func @quantised
func.func @quantised(%D: memref<?x?xbf16>, %Y: memref<?x?xf8E4M3FN>, %Z: memref<?x?xf8E8M0FNU>, %s: i64, %p: i32, %i: i1) {
  // CHECK: %[[X:.*]] = "tile.load_columns"({{.*}}) {along = 1 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1, 1, 1>, together = 8 : i64}
  %x = "tile.load_columns"(%D, %p, %p, %s, %s, %i, %p, %i) {along = 1 : i64, operandSegmentSizes = array<i32: 1, 2, 2, 1, 1, 1>, together = 8 : i64} : (memref<?x?xbf16>, i32, i32, i64, i64, i1, i32, i1) -> !tile.columns<8 : i64>
  // CHECK-NEXT: "tile.load_scales"({{.*}}) {block = 32 : i64, layout = "packed", scale = "ue8m0"}
  %f = "tile.load_scales"(%Z, %p, %p, %p, %s, %i) {block = 32 : i64, layout = "packed", scale = "ue8m0"} : (memref<?x?xf8E8M0FNU>, i32, i32, i32, i64, i1) -> !tile.columns<8 : i64>
  // CHECK-NEXT: "tile.lay_columns"(%[[X]]) {at = 128 : i64, columns = 64 : i64, place = 1 : i64, rows = 64 : i64}
  "tile.lay_columns"(%x) {at = 128 : i64, columns = 64 : i64, place = 1 : i64, rows = 64 : i64} : (!tile.columns<8 : i64>) -> ()
  // CHECK-NEXT: "tile.lay_columns"(%[[X]]) {at = 0 : i64, columns = 64 : i64, halves = bf16, place = 0 : i64, rows = 64 : i64}
  "tile.lay_columns"(%x) {at = 0 : i64, columns = 64 : i64, halves = bf16, place = 0 : i64, rows = 64 : i64} : (!tile.columns<8 : i64>) -> ()
  // CHECK-NEXT: "tile.take_turned"() {at = 128 : i64, columns = 64 : i64, place = 1 : i64, rows = 64 : i64}
  %t = "tile.take_turned"() {at = 128 : i64, columns = 64 : i64, place = 1 : i64, rows = 64 : i64} : () -> !tile.columns<8 : i64>
  // CHECK-NEXT: "tile.hadamard"(%[[X]]) : (!tile.columns<8 : i64>) -> !tile.columns<8 : i64>
  %h = "tile.hadamard"(%x) : (!tile.columns<8 : i64>) -> !tile.columns<8 : i64>
  // CHECK-NEXT: "tile.round_columns"(%[[X]], {{.*}}) {anywhere, element = f8E4M3FN, operandSegmentSizes = array<i32: 1, 2, 1, 2>}
  %r = "tile.round_columns"(%x, %p, %p, %p, %p, %p) {anywhere, element = f8E4M3FN, operandSegmentSizes = array<i32: 1, 2, 1, 2>} : (!tile.columns<8 : i64>, i32, i32, i32, i32, i32) -> !tile.columns<8 : i64>
  // CHECK-NEXT: %[[THERE:.*]] = "tile.counted"(%[[X]], {{.*}}) {kind = "absmax"}
  %there = "tile.counted"(%x, %p) {kind = "absmax"} : (!tile.columns<8 : i64>, i32) -> !tile.columns<8 : i64>
  // CHECK-NEXT: %[[MASK:.*]] = "tile.within"({{.*}}) {columns = 8 : i64}
  %mask = "tile.within"(%p, %p, %p) {columns = 8 : i64} : (i32, i32, i32) -> i32
  // CHECK-NEXT: "tile.filled"(%[[X]], %[[MASK]]) {otherwise = 1.500000e+00 : f32}
  %filled = "tile.filled"(%x, %mask) {otherwise = 1.5 : f32} : (!tile.columns<8 : i64>, i32) -> !tile.columns<8 : i64>
  // CHECK-NEXT: %[[LARGEST:.*]] = "tile.reduce_lanes"(%[[THERE]], %[[THERE]]) {exchange = 0 : i64, fresh, kind = "absmax", operandSegmentSizes = array<i32: 2>, sharing = 35 : i64}
  %largest = "tile.reduce_lanes"(%there, %there) {exchange = 0 : i64, fresh, kind = "absmax", operandSegmentSizes = array<i32: 2>, sharing = 35 : i64} : (!tile.columns<8 : i64>, !tile.columns<8 : i64>) -> f32
  // CHECK-NEXT: "tile.some"({{.*}}) {exchange = 0 : i64, operandSegmentSizes = array<i32: 2>, sharing = 35 : i64}
  %some = "tile.some"(%i, %i) {exchange = 0 : i64, operandSegmentSizes = array<i32: 2>, sharing = 35 : i64} : (i1, i1) -> i1
  // CHECK-NEXT: %[[SCALE:.*]]:2 = "tile.find_scale"(%[[LARGEST]]) {element = f8E4M3FN, operandSegmentSizes = array<i32: 1, 0>, scale = "ue8m0"}
  %code, %reciprocal = "tile.find_scale"(%largest) {element = f8E4M3FN, operandSegmentSizes = array<i32: 1, 0>, scale = "ue8m0"} : (f32) -> (i32, f32)
  // CHECK-NEXT: %{{.*}} = "tile.own_turn"() {threads = 2 : i64}
  %turn = "tile.own_turn"() {threads = 2 : i64} : () -> i32
  // CHECK-NEXT: "tile.store_scale"(%[[SCALE]]#0, {{.*}}) {block = 32 : i64, layout = "packed", padding = 1 : i64, scale = "ue8m0", sharing = 35 : i64}
  "tile.store_scale"(%code, %Z, %s, %p, %p, %p, %i) {block = 32 : i64, layout = "packed", padding = 1 : i64, scale = "ue8m0", sharing = 35 : i64} : (i32, memref<?x?xf8E8M0FNU>, i64, i32, i32, i32, i1) -> ()
  // CHECK-NEXT: %[[EACH:.*]] = "tile.reduce_each"(%[[THERE]], %[[X]]) {exchange = -1 : i64, kind = "absmax", operandSegmentSizes = array<i32: 2>, sharing = 24 : i64}
  %each = "tile.reduce_each"(%there, %x) {exchange = -1 : i64, kind = "absmax", operandSegmentSizes = array<i32: 2>, sharing = 24 : i64} : (!tile.columns<8 : i64>, !tile.columns<8 : i64>) -> !tile.columns<8 : i64>
  // CHECK-NEXT: %[[ONE:.*]] = "tile.column"(%[[EACH]]) {at = 7 : i64} : (!tile.columns<8 : i64>) -> f32
  %one = "tile.column"(%each) {at = 7 : i64} : (!tile.columns<8 : i64>) -> f32
  // CHECK-NEXT: "tile.columns_of"(%[[ONE]], %[[ONE]]) {operandSegmentSizes = array<i32: 2>} : (f32, f32) -> !tile.columns<2 : i64>
  %two = "tile.columns_of"(%one, %one) {operandSegmentSizes = array<i32: 2>} : (f32, f32) -> !tile.columns<2 : i64>
  // CHECK-NEXT: "tile.store_columns"(%[[X]], {{.*}}) {operandSegmentSizes = array<i32: 1, 1, 2, 2, 1, 1>, together = 8 : i64}
  "tile.store_columns"(%x, %Y, %p, %p, %s, %s, %p, %i) {operandSegmentSizes = array<i32: 1, 1, 2, 2, 1, 1>, together = 8 : i64} : (!tile.columns<8 : i64>, memref<?x?xf8E4M3FN>, i32, i32, i64, i64, i32, i1) -> ()
  return
}
