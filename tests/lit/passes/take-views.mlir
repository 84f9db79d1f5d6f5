// RUN: scalec opt --passes=take-views %s | filecheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#nk = affine_map<(m, n, k) -> (n, k)>
#up = affine_map<(m, n, k)[s] -> (n + s, k)>
#mk_s = affine_map<(m, n, k)[s] -> (m, k)>
#mn_s = affine_map<(m, n, k)[s] -> (m, n)>

// Halves of W and of its scales, whose size is known at a call alone.
// CHECK-LABEL: func.func @halves
// CHECK-SAME: %arg3: tensor<?x?xf8E4M3FN> {scale.first = affine_map<(d0, d1, d2) -> (0, 0)>, scale.name = "W[n, k]", scale.of = "W", scale.shape = #[[N:map[0-9]*]], scale.steps = array<i64: 1, 1>}
// CHECK-SAME: %arg4: tensor<?x?xf32> {scale.first = affine_map<(d0, d1, d2) -> (0, 0)>, scale.name = "W_scale[n/128, k/128]", scale.of = "W_scale", scale.shape = affine_map<(d0, d1, d2) -> (d1 ceildiv 128, d2 ceildiv 128)>
// CHECK-SAME: %arg5: tensor<?x?xf8E4M3FN> {scale.first = affine_map<(d0, d1, d2) -> (d1, 0)>, scale.name = "W[n + size(n), k]"
// CHECK-SAME: %arg6: tensor<?x?xf32> {scale.first = affine_map<(d0, d1, d2) -> (d1 ceildiv 128, 0)>, scale.name = "W_scale[n/128 + size(n)/128, k/128]"
// CHECK: %[[G:.*]] = "scale.dequantize"(%arg3, %arg4)
// CHECK: %[[U:.*]] = "scale.dequantize"(%arg5, %arg6)
// CHECK-NOT: scale.size
// CHECK: "scale.contract"(%arg0, %[[G]]) {maps = [#{{.*}}, #[[N]], #{{.*}}], operandSegmentSizes = array<i32: 1, 1, 0, 0>}
// CHECK: "scale.contract"(%arg0, %[[U]]) {maps = [#{{.*}}, #[[N]], #{{.*}}], operandSegmentSizes = array<i32: 1, 1, 0, 0>}
func.func @halves(%X: tensor<?x?xf8E4M3FN> {scale.name = "X", scale.shape = #mk},
                  %W: tensor<?x?xf8E4M3FN> {scale.name = "W", scale.shape = affine_map<(m, n, k) -> (n * 2, k)>},
                  %s: tensor<?x?xf32> {scale.name = "W_scale", scale.shape = affine_map<(m, n, k) -> ((n * 2) ceildiv 128, k ceildiv 128)>})
    -> (tensor<?x?xf32>, tensor<?x?xf32>) attributes {scale.dims = ["m", "n", "k"]} {
  %w = "scale.dequantize"(%W, %s) {granularity = #scale.granularity<array<i64: 128, 128>, "f32", "row">}
    : (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %size = "scale.size"() {dim = "n"} : () -> !scale.symbol
  %g = "scale.contract"(%X, %w) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn]}
    : (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %u = "scale.contract"(%X, %w, %size) {operandSegmentSizes = array<i32: 1, 1, 1, 0>, maps = [#mk_s, #up, #mn_s]}
    : (tensor<?x?xf8E4M3FN>, tensor<?x?xf32>, !scale.symbol) -> tensor<?x?xf32>
  return %g, %u : tensor<?x?xf32>, tensor<?x?xf32>
}

// All of a tensor stays what it is; every second row is one of a tensor of half as many.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: %arg2: tensor<512x256xbf16> {scale.first = affine_map<(d0, d1, d2) -> (1, 0)>, scale.name = "W[2*n + 1, k]", scale.of = "W", scale.shape = #{{.*}}, scale.steps = array<i64: 2, 1>}
// CHECK: "scale.contract"(%arg0, %arg2)
func.func @rows(%X: tensor<?x256xbf16> {scale.name = "X", scale.shape = #mk},
                %W: tensor<1024x256xbf16> {scale.name = "W", scale.shape = affine_map<(m, n, k) -> (n * 2, k)>})
    -> tensor<?x512xf32> attributes {scale.dims = ["m", "n", "k"]} {
  %u = "scale.contract"(%X, %W) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, affine_map<(m, n, k) -> (n * 2 + 1, k)>, #mn]}
    : (tensor<?x256xbf16>, tensor<1024x256xbf16>) -> tensor<?x512xf32>
  return %u : tensor<?x512xf32>
}
