// RUN: scalec opt --passes=stream-results %s | filecheck %s
// RUN: scalec opt --target sm_100a --passes=stream-results %s | filecheck %s --check-prefix=OTHER

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0 + 1)>
#map3 = affine_map<(d0, d1, d2, d3)[s0, s1] -> (s0)>
#map4 = affine_map<(d0, d1, d2, d3)[s0, s1] -> (s1)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d1, d3)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d2, d3)>

// 2064 of K for each of 16 groups: results take about as long as products.
// CHECK-LABEL: func.func @C
// CHECK-SAME: scale.schedule = #scale.schedule<{adds = "loaded", cluster = array<i64: 1, 1>, tile = array<i64: 128, 256, 128>}>
// OTHER-LABEL: func.func @C
// OTHER-SAME: scale.schedule = #scale.schedule<{}>
func.func @C(%arg0: tensor<4096x33024xf8E4M3FN> {scale.layout = "row", scale.name = "A", scale.shape = #map5},
    %arg1: tensor<7168x33024xf8E4M3FN> {scale.layout = "row", scale.name = "B", scale.shape = #map6},
    %arg2: tensor<4096x258xf32> {scale.layout = "col", scale.name = "A_scale", scale.shape = affine_map<(d0, d1, d2, d3) -> (d1, d3 ceildiv 128)>},
    %arg3: tensor<7168x258xf32> {scale.layout = "col", scale.name = "B_scale", scale.shape = affine_map<(d0, d1, d2, d3) -> (d2, d3 ceildiv 128)>},
    %arg4: tensor<17xi32> {scale.layout = "row", scale.name = "off", scale.shape = #map2},
    %arg5: tensor<16x4096x7168xf32> {scale.layout = "row", scale.name = "C", scale.shape = #map})
    -> (tensor<16x4096x7168xf32> {scale.inout, scale.name = "C", scale.shape = #map})
    attributes {scale.dims = ["g", "m", "n", "k"], scale.schedule = #scale.schedule<{}>} {
  %0 = "scale.index"(%arg4) {map = #map1, operandSegmentSizes = array<i32: 1, 0>} : (tensor<17xi32>) -> !scale.symbol
  %1 = "scale.index"(%arg4) {map = #map2, operandSegmentSizes = array<i32: 1, 0>} : (tensor<17xi32>) -> !scale.symbol
  %2 = "scale.domain"(%0, %1) {by = 128 : i64, dim = "k", lower = #map3, operandSegmentSizes = array<i32: 2>, upper = #map4} : (!scale.symbol, !scale.symbol) -> !scale.subset
  %3 = "scale.dequantize"(%arg0, %arg2) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "col">} : (tensor<4096x33024xf8E4M3FN>, tensor<4096x258xf32>) -> tensor<4096x33024xf32>
  %4 = "scale.dequantize"(%arg1, %arg3) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "col">} : (tensor<7168x33024xf8E4M3FN>, tensor<7168x258xf32>) -> tensor<7168x33024xf32>
  %5 = "scale.contract"(%3, %4, %2) {maps = [#map5, #map6, #map], operandSegmentSizes = array<i32: 1, 1, 0, 1>, roles = {batch = [], group = ["g"], k = ["k"], m = ["m"], n = ["n"]}}
      : (tensor<4096x33024xf32>, tensor<7168x33024xf32>, !scale.subset) -> tensor<16x4096x7168xf32>
  %6 = "scale.read"(%5) {map = #map, operandSegmentSizes = array<i32: 1, 0>} : (tensor<16x4096x7168xf32>) -> !scale.view
  %7 = "scale.read"(%arg5) {map = #map, operandSegmentSizes = array<i32: 1, 0>} : (tensor<16x4096x7168xf32>) -> !scale.view
  %8 = "scale.map"(%6, %7) ({
  ^bb0(%arg6: f32, %arg7: f32):
    %9 = arith.addf %arg7, %arg6 : f32
    "scale.yield"(%9) : (f32) -> ()
  }) {map = #map, operandSegmentSizes = array<i32: 2, 0, 0>} : (!scale.view, !scale.view) -> tensor<16x4096x7168xf32>
  return %8 : tensor<16x4096x7168xf32>
}


// 4128 for each of 8.
// CHECK-LABEL: func.func @long
// CHECK-SAME: scale.schedule = #scale.schedule<{}>
// OTHER-LABEL: func.func @long
func.func @long(%arg0: tensor<4096x33024xf8E4M3FN> {scale.layout = "row", scale.name = "A", scale.shape = #map5},
    %arg1: tensor<7168x33024xf8E4M3FN> {scale.layout = "row", scale.name = "B", scale.shape = #map6},
    %arg2: tensor<4096x258xf32> {scale.layout = "col", scale.name = "A_scale", scale.shape = affine_map<(d0, d1, d2, d3) -> (d1, d3 ceildiv 128)>},
    %arg3: tensor<7168x258xf32> {scale.layout = "col", scale.name = "B_scale", scale.shape = affine_map<(d0, d1, d2, d3) -> (d2, d3 ceildiv 128)>},
    %arg4: tensor<9xi32> {scale.layout = "row", scale.name = "off", scale.shape = #map2},
    %arg5: tensor<8x4096x7168xf32> {scale.layout = "row", scale.name = "C", scale.shape = #map})
    -> (tensor<8x4096x7168xf32> {scale.inout, scale.name = "C", scale.shape = #map})
    attributes {scale.dims = ["g", "m", "n", "k"], scale.schedule = #scale.schedule<{}>} {
  %0 = "scale.index"(%arg4) {map = #map1, operandSegmentSizes = array<i32: 1, 0>} : (tensor<9xi32>) -> !scale.symbol
  %1 = "scale.index"(%arg4) {map = #map2, operandSegmentSizes = array<i32: 1, 0>} : (tensor<9xi32>) -> !scale.symbol
  %2 = "scale.domain"(%0, %1) {by = 128 : i64, dim = "k", lower = #map3, operandSegmentSizes = array<i32: 2>, upper = #map4} : (!scale.symbol, !scale.symbol) -> !scale.subset
  %3 = "scale.dequantize"(%arg0, %arg2) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "col">} : (tensor<4096x33024xf8E4M3FN>, tensor<4096x258xf32>) -> tensor<4096x33024xf32>
  %4 = "scale.dequantize"(%arg1, %arg3) {granularity = #scale.granularity<array<i64: 1, 128>, "f32", "col">} : (tensor<7168x33024xf8E4M3FN>, tensor<7168x258xf32>) -> tensor<7168x33024xf32>
  %5 = "scale.contract"(%3, %4, %2) {maps = [#map5, #map6, #map], operandSegmentSizes = array<i32: 1, 1, 0, 1>, roles = {batch = [], group = ["g"], k = ["k"], m = ["m"], n = ["n"]}}
      : (tensor<4096x33024xf32>, tensor<7168x33024xf32>, !scale.subset) -> tensor<8x4096x7168xf32>
  %6 = "scale.read"(%5) {map = #map, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8x4096x7168xf32>) -> !scale.view
  %7 = "scale.read"(%arg5) {map = #map, operandSegmentSizes = array<i32: 1, 0>} : (tensor<8x4096x7168xf32>) -> !scale.view
  %8 = "scale.map"(%6, %7) ({
  ^bb0(%arg6: f32, %arg7: f32):
    %9 = arith.addf %arg7, %arg6 : f32
    "scale.yield"(%9) : (f32) -> ()
  }) {map = #map, operandSegmentSizes = array<i32: 2, 0, 0>} : (!scale.view, !scale.view) -> tensor<8x4096x7168xf32>
  return %8 : tensor<8x4096x7168xf32>
}

