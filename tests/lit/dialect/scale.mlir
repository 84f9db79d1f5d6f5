// RUN: %roundtrip %s | filecheck %s

// Every op, type and attribute of the dialect, as it prints.

#mk = affine_map<(m, n, k, g) -> (m, k)>
#gnk = affine_map<(m, n, k, g)[s] -> (s, n, k)>
#mk_s = affine_map<(m, n, k, g)[s] -> (m, k)>
#mn_s = affine_map<(m, n, k, g)[s] -> (m, n)>
#mn = affine_map<(m, n, k, g) -> (m, n)>

// CHECK-LABEL: func.func @dense
// CHECK-SAME: scale.dims = ["m", "n", "k", "g"]
// CHECK-SAME: scale.schedule = #scale.schedule<{epilogue = "bulk", stages = 4 : i64, tile = array<i64: 256, 128, 128>}>
func.func @dense(%A: tensor<?x256xf8E4M3FN> {scale.name = "A", scale.layout = "row"}, %sa: tensor<?x2xf32>,
                 %B: tensor<8x512x256xf8E4M3FN>, %e: tensor<?xi32>, %off: tensor<9xi32>, %alpha: f32,
                 %W: tensor<512x256xui4>, %Z: tensor<2x512xui4>)
    -> tensor<?x512xbf16>
    attributes {scale.dims = ["m", "n", "k", "g"],
                scale.schedule = #scale.schedule<{stages = 4 : i64, tile = array<i64: 256, 128, 128>, epilogue = "bulk"}>} {
  // CHECK: "scale.dequantize"(%{{.*}}, %{{.*}}) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
  %a = "scale.dequantize"(%A, %sa) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "row">}
    : (tensor<?x256xf8E4M3FN>, tensor<?x2xf32>) -> tensor<?x256xf32>
  // CHECK: "scale.subtract"(%{{.*}}, %{{.*}}) {map = {{.*}}}
  %w4 = "scale.subtract"(%W, %Z) {map = affine_map<(n, k) -> (k floordiv 128, n)>, operandSegmentSizes = array<i32: 1, 1>}
    : (tensor<512x256xui4>, tensor<2x512xui4>) -> tensor<512x256xf32>
  // CHECK: "scale.subtract"(%{{.*}}) {number = 8 : i64
  %w8 = "scale.subtract"(%W) {number = 8 : i64, operandSegmentSizes = array<i32: 1, 0>}
    : (tensor<512x256xui4>) -> tensor<512x256xf32>
  // CHECK: "scale.index"{{.*}} -> !scale.symbol
  %s = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (m floordiv 128)>}
    : (tensor<?xi32>) -> !scale.symbol
  %lo = "scale.index"(%off) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> (g)>}
    : (tensor<9xi32>) -> !scale.symbol
  // CHECK: "scale.size"() {dim = "n"} : () -> !scale.symbol
  %size = "scale.size"() {dim = "n"} : () -> !scale.symbol
  // CHECK: "scale.domain"{{.*}}dim = "m"{{.*}} -> !scale.subset
  %d = "scale.domain"(%lo) {operandSegmentSizes = array<i32: 1>, dim = "m",
    lower = affine_map<(m, n, k, g)[s] -> (s)>, upper = affine_map<(m, n, k, g)[s] -> (s + 128)>}
    : (!scale.symbol) -> !scale.subset
  // CHECK: "scale.contract"{{.*}}operandSegmentSizes = array<i32: 1, 1, 1, 1>
  %t = "scale.contract"(%a, %B, %s, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 1>, maps = [#mk_s, #gnk, #mn_s]}
    : (tensor<?x256xf32>, tensor<8x512x256xf8E4M3FN>, !scale.symbol, !scale.subset) -> tensor<?x512xf32>
  // CHECK: "scale.add"(%{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 2>}
  %tt = "scale.add"(%t, %t) {operandSegmentSizes = array<i32: 2>} : (tensor<?x512xf32>, tensor<?x512xf32>) -> tensor<?x512xf32>
  // CHECK: "scale.read"{{.*}} -> !scale.view
  %v = "scale.read"(%tt) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<?x512xf32>) -> !scale.view
  %w = "scale.read"(%alpha) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k, g) -> ()>}
    : (f32) -> !scale.view
  // CHECK: "scale.map"
  // CHECK: ^bb0(%{{.*}}: f32, %{{.*}}: f32):
  // CHECK: "scale.gelu"(%{{.*}}) : (f32) -> f32
  // CHECK-NEXT: "scale.silu"(%{{.*}}) : (f32) -> f32
  // CHECK-NEXT: "scale.sigmoid"(%{{.*}}) : (f32) -> f32
  // CHECK-NEXT: "scale.integer"(%{{.*}}) : (f32) -> i8
  // CHECK: "scale.yield"(%{{.*}}) : (bf16) -> ()
  // CHECK: otherwise = 0xFF800000 : f32
  %c = "scale.map"(%v, %w, %d) ({
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    %g = "scale.gelu"(%p) : (f32) -> f32
    %l = "scale.silu"(%g) : (f32) -> f32
    %u = "scale.sigmoid"(%l) : (f32) -> f32
    %i = "scale.integer"(%u) : (f32) -> i8
    %z = arith.truncf %u : f32 to bf16
    "scale.yield"(%z) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 2, 0, 1>, map = #mn, otherwise = 0xFF800000 : f32}
    : (!scale.view, !scale.view, !scale.subset) -> tensor<?x512xbf16>
  return %c : tensor<?x512xbf16>
}

// CHECK-LABEL: func.func @others
func.func @others(%A: tensor<?x256xbf16>, %i: tensor<?xi32>)
    -> (tensor<?xf32>, tensor<?x256xf4E2M1FN>, tensor<?x16xf8E4M3FN>, tensor<?x256xbf16>)
    attributes {scale.dims = ["m", "k"]} {
  // CHECK: "scale.reduce"{{.*}}kind = "max"
  %r = "scale.reduce"(%A) {operandSegmentSizes = array<i32: 1, 0, 0>, kind = "max",
    maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>]} : (tensor<?x256xbf16>) -> tensor<?xf32>
  // CHECK: "scale.quantize"{{.*}} -> (tensor<?x256xf4E2M1FN>, tensor<?x16xf8E4M3FN>)
  %q:2 = "scale.quantize"(%A) {operandSegmentSizes = array<i32: 1, 0, 0, 0>, granularity = #scale.granularity<array<i64: 1, 16>, "ue4m3", "row">}
    : (tensor<?x256xbf16>) -> (tensor<?x256xf4E2M1FN>, tensor<?x16xf8E4M3FN>)
  %s = "scale.index"(%i) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, k) -> (m)>}
    : (tensor<?xi32>) -> !scale.symbol
  // CHECK: "scale.scatter"
  %c = "scale.scatter"(%A, %s) {operandSegmentSizes = array<i32: 1, 1, 0>,
    maps = [affine_map<(m, k)[s] -> (m, k)>, affine_map<(m, k)[s] -> (s, k)>]}
    : (tensor<?x256xbf16>, !scale.symbol) -> tensor<?x256xbf16>
  %w = "scale.index"(%i) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, k) -> (3)>}
    : (tensor<?xi32>) -> !scale.symbol
  // CHECK: "scale.hadamard"{{.*}} : (tensor<?xf32>) -> tensor<?xf32>
  %h = "scale.hadamard"(%r) : (tensor<?xf32>) -> tensor<?xf32>
  // CHECK: "scale.lay"{{.*}} {kinds = [#scale.granularity<array<i64: 1>, "f32", "row">, #scale.granularity<array<i64: 1>, "ue8m0", "row">], maps = [#[[ONE:.*]], #[[ONE]]], operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<?xf32>) -> tensor<?xf8E8M0FNU>
  %l = "scale.lay"(%r) {operandSegmentSizes = array<i32: 1, 0, 0>, kinds = [#scale.granularity<array<i64: 1>, "f32", "row">, #scale.granularity<array<i64: 1>, "ue8m0", "row">], maps = [affine_map<(a) -> (a)>, affine_map<(a) -> (a)>]} : (tensor<?xf32>) -> tensor<?xf8E8M0FNU>
  // CHECK: "scale.round"{{.*}} : (tensor<?xf32>, !scale.symbol) -> tensor<?xf8E4M3FN>
  %o = "scale.round"(%r, %w) {operandSegmentSizes = array<i32: 1, 1>} : (tensor<?xf32>, !scale.symbol) -> tensor<?xf8E4M3FN>
  return %r, %q#0, %q#1, %c
    : tensor<?xf32>, tensor<?x256xf4E2M1FN>, tensor<?x16xf8E4M3FN>, tensor<?x256xbf16>
}
