// RUN: %invalid none %s

// index: element type
// EXPECT: reads a tensor of i32, got tensor<?xf32>
func.func @p(%e: tensor<?xf32>) attributes {scale.dims = ["m", "n", "k"]} {
  %s = "scale.index"(%e) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k) -> (m)>} : (tensor<?xf32>) -> !scale.symbol
  return
}

// index: result type
// EXPECT: scale.symbol
// CHANGE: tensor<?xf32 => tensor<?xi32
// CHANGE: scale.symbol => scale.view

// -----

// size: dim
// EXPECT: is not one of the program's dimensions (m, n, k)
func.func @p() attributes {scale.dims = ["m", "n", "k"]} {
  %s = "scale.size"() {dim = "z"} : () -> !scale.symbol
  return
}

// -----

// read: no segment sizes
// EXPECT: 'scale.read' op needs operandSegmentSizes
func.func @p(%A: tensor<?x256xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %v = "scale.read"(%A) {map = affine_map<(m, n, k) -> (m, k)>} : (tensor<?x256xbf16>) -> !scale.view
  return
}

// read: dims of the map
// EXPECT: map 0 has 2 dimensions, expected 3 (the program's dims)
// CHANGE: %A) {map = => %A) {operandSegmentSizes = array<i32: 1, 0>, map =
// CHANGE: affine_map<(m, n, k => affine_map<(m, k

// read: results of the map
// EXPECT: map 0 has 1 results, expected 2 (the tensor's rank)
// CHANGE: %A) {map = => %A) {operandSegmentSizes = array<i32: 1, 0>, map =
// CHANGE: -> (m, k => -> (m

// -----

// read: symbols of the map
// EXPECT: map 0 has 1 symbols, expected 0 (the op's symbols)
func.func @p(%A: tensor<?x256xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %v = "scale.read"(%A) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k)[s] -> (s, k)>} : (tensor<?x256xbf16>) -> !scale.view
  return
}

// -----

// domain: dim
// EXPECT: is not one of the program's dimensions (m, n, k)
func.func @p() attributes {scale.dims = ["m", "n", "k"]} {
  %d = "scale.domain"() {operandSegmentSizes = array<i32: 0>, dim = "z", lower = affine_map<(m, n, k) -> (0)>, upper = affine_map<(m, n, k) -> (128)>} : () -> !scale.subset
  return
}

// domain: one bound
// EXPECT: map 0 has 2 results, expected 1
// CHANGE: 0)>, upper => 0, 1)>, upper
// CHANGE: , dim = "z => , dim = "m

// -----

// dequantize: rank of the block
// EXPECT: granularity [128] has 1 entries, expected 2 (the tensor's rank)
func.func @p(%A: tensor<?x256xbf16>, %s: tensor<?x2xf32>) attributes {scale.dims = ["m", "n", "k"]} {
  %a = "scale.dequantize"(%A, %s) {granularity = #scale.granularity<array<i64: 128>, "f32", "row">}
    : (tensor<?x256xbf16>, tensor<?x2xf32>) -> tensor<?x256xf32>
  return
}

// dequantize: block entries
// EXPECT: granularity [1, 0] must have entries > 0, or -1 for a whole dimension
// CHANGE: array<i64: 128 => array<i64: 1, 0

// dequantize: scalar scales
// EXPECT: scales must be a tensor, got f32
// CHANGE: tensor<?x2xf32> => f32
// CHANGE: array<i64: 128 => array<i64: 1, 128

// dequantize: result type
// EXPECT: result must be a tensor of f32, or 16 bits, of rank 2, got tensor<?x256xf8E4M3FN>
// CHANGE: 128>, "f32 => 1, 128>, "f32
// CHANGE: <?x256xf32 => <?x256xf8E4M3FN

// granularity: what its parameters are
// EXPECT: expected base attribute 'builtin.string' but got 'builtin.integer'
// CHANGE: , "f32", " => , 32 : i32, "
// CHANGE: array<i64: 128 => array<i64: 1, 128

// -----

// contract: number of maps
// EXPECT: has 2 maps, expected 3
func.func @p(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>,
    maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>]} : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  return
}

// -----

// VALID
func.func @p(%A: tensor<?x256xbf16>, %B: tensor<512x256xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %t = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>,
    maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]} : (tensor<?x256xbf16>, tensor<512x256xbf16>) -> tensor<?x512xf32>
  return
}

// contract: accumulator
// EXPECT: accumulates in f32, got a result of bf16
// CHANGE: <?x512xf32 => <?x512xbf16

// contract: a result dimension from nowhere
// EXPECT: result dimension n is in neither operand
// CHANGE: n, k)> => m, k)>

// contract: nothing contracted
// EXPECT: contracts no dimension
// CHANGE: -> (m, n => -> (m, k

// -----

// map: arguments of the body
// EXPECT: body takes (f32), expected (bf16), the views' element types
func.func @p(%A: tensor<?x256xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %v = "scale.read"(%A) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k) -> (m, k)>} : (tensor<?x256xbf16>) -> !scale.view
  %c = "scale.map"(%v) ({
  ^bb0(%x: f32):
    "scale.yield"(%x) : (f32) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = affine_map<(m, n, k) -> (m, k)>} : (!scale.view) -> tensor<?x256xf32>
  return
}

// map: type of the yield
// EXPECT: body yields bf16, expected f32, the result's element type
// CHANGE: f32) => bf16)

// map: rank of the result
// EXPECT: map 0 has 2 results, expected 1 (the tensor's rank)
// CHANGE: f32) => bf16)
// CHANGE: <?x256xf32 => <?xbf16

// map: no segment sizes
// EXPECT: 'scale.map' op needs operandSegmentSizes
// CHANGE: operandSegmentSizes = array<i32: 1, 0, 0>, map => map
// CHANGE: f32 => bf16

// -----

// yield: one value
// EXPECT: scale.yield
func.func @p(%A: tensor<?x256xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %v = "scale.read"(%A) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k) -> (m, k)>} : (tensor<?x256xbf16>) -> !scale.view
  %c = "scale.map"(%v) ({
  ^bb0(%x: bf16):
    "scale.yield"() : () -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = affine_map<(m, n, k) -> (m, k)>} : (!scale.view) -> tensor<?x256xbf16>
  return
}

// -----

// reduce: kind
// EXPECT: expected sum, max, min or sum_exp
func.func @p(%A: tensor<?x256xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %r = "scale.reduce"(%A) {operandSegmentSizes = array<i32: 1, 0, 0>, kind = "mean", maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (m)>]} : (tensor<?x256xbf16>) -> tensor<?xf32>
  return
}

// reduce: maps
// EXPECT: map 1 has 2 results, expected 1
// CHANGE: (m)>]} : ( => (m, k)>]} : (
// CHANGE: kind = "mean => kind = "sum

// -----

// quantize: rank
// EXPECT: values have rank 1, expected 2 (the input's)
func.func @p(%A: tensor<?x256xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %q:2 = "scale.quantize"(%A) {operandSegmentSizes = array<i32: 1, 0, 0, 0>, granularity = #scale.granularity<array<i64: 1, 32>, "ue8m0", "row">}
    : (tensor<?x256xbf16>) -> (tensor<?xf8E4M3FN>, tensor<?x8xf8E8M0FNU>)
  return
}

// quantize: block
// EXPECT: granularity [32] has 1 entries, expected 2
// CHANGE: i64: 1, 32 => i64: 32
// CHANGE: ?xf8E4M3FN => ?x256xf8E4M3FN

// -----

// quantize: the whole tensor's scale
// EXPECT: the whole tensor's scale is tensor<2x1xf32>, expected one tensor<1x1xf32>
func.func @p(%A: tensor<?x256xbf16>, %s: tensor<2x1xf32>) attributes {scale.dims = ["m", "n", "k"]} {
  %q:2 = "scale.quantize"(%A, %s) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, granularity = #scale.granularity<array<i64: 1, 16>, "ue4m3", "row">}
    : (tensor<?x256xbf16>, tensor<2x1xf32>) -> (tensor<?x256xf4E2M1FN>, tensor<?x16xf8E4M3FN>)
  return
}

// -----

// quantize: two scales of the whole tensor
// EXPECT: the whole tensor's scale has 2 values, expected one tensor<1x1xf32>
func.func @p(%A: tensor<?x256xbf16>, %s: tensor<1x1xf32>) attributes {scale.dims = ["m", "n", "k"]} {
  %q:2 = "scale.quantize"(%A, %s, %s) {operandSegmentSizes = array<i32: 1, 2, 0, 0>, granularity = #scale.granularity<array<i64: 1, 16>, "ue4m3", "row">}
    : (tensor<?x256xbf16>, tensor<1x1xf32>, tensor<1x1xf32>) -> (tensor<?x256xf4E2M1FN>, tensor<?x16xf8E4M3FN>)
  return
}

// -----

// round: what
// EXPECT: rounds tensor<?x256xbf16> to tensor<?x256xf8E4M3FN>, expected an f32 tensor and one of its rank
func.func @p(%A: tensor<?x256xbf16>, %i: tensor<4xi32>) attributes {scale.dims = ["m", "n", "k"]} {
  %w = "scale.index"(%i) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k) -> (0)>} : (tensor<4xi32>) -> !scale.symbol
  %r = "scale.round"(%A, %w) {operandSegmentSizes = array<i32: 1, 1>} : (tensor<?x256xbf16>, !scale.symbol) -> tensor<?x256xf8E4M3FN>
  return
}

// -----

// VALID
func.func @lays(%S: tensor<?x7xf32>) {
  %r = "scale.lay"(%S) {operandSegmentSizes = array<i32: 1, 0, 0>, kinds = [#scale.granularity<array<i64: 1, 1>, "f32", "row">, #scale.granularity<array<i64: 1, 1>, "ue8m0", "blocked">], maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>]} : (tensor<?x7xf32>) -> tensor<?x7xf8E8M0FNU>
  return
}

// lay: blocks
// EXPECT: has one scale for 1 of dimension 1 and for 2
// CHANGE: 1, 1>, "f32" => 1, 2>, "f32"

// lay: indices
// EXPECT: expected dimensions, and what is read from memory
// CHANGE: [affine_map<(a, b) -> (a, b)> => [affine_map<(a, b) -> (a, b + 1)>

// lay: symbols
// EXPECT: has 0 symbols and a map of 1, expected as many
// CHANGE: [affine_map<(a, b) -> (a, b)> => [affine_map<(a, b)[s] -> (s, b)>

// lay: a type that no result has
// EXPECT: makes scales of bf16, expected f32, ue8m0, ue4m3
// CHANGE: "ue8m0" => "bf16"
// CHANGE: xf8E8M0FNU => xbf16
// CHANGE: "blocked" => "row"

// -----

// hadamard: types
// EXPECT: transforms tensor<?x256xf32> to tensor<?x256xbf16>, expected one f32 tensor type
func.func @p(%A: tensor<?x256xf32>) attributes {scale.dims = ["m", "n", "k"]} {
  %r = "scale.hadamard"(%A) : (tensor<?x256xf32>) -> tensor<?x256xbf16>
  return
}

// -----

// round: too many
// EXPECT: has 5 words, expected 4 at most
func.func @p(%A: tensor<?x256xf32>, %i: tensor<4xi32>) attributes {scale.dims = ["m", "n", "k"]} {
  %w = "scale.index"(%i) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k) -> (0)>} : (tensor<4xi32>) -> !scale.symbol
  %r = "scale.round"(%A, %w, %w, %w, %w, %w) {operandSegmentSizes = array<i32: 1, 5>}
    : (tensor<?x256xf32>, !scale.symbol, !scale.symbol, !scale.symbol, !scale.symbol, !scale.symbol) -> tensor<?x256xf8E4M3FN>
  return
}

// -----

// quantize: words
// EXPECT: word 0 differs from point to point, expected one number for all
func.func @p(%A: tensor<?x256xf32>, %i: tensor<?xi32>) attributes {scale.dims = ["m", "n", "k"]} {
  %w = "scale.index"(%i) {operandSegmentSizes = array<i32: 1, 0>, map = affine_map<(m, n, k) -> (m)>} : (tensor<?xi32>) -> !scale.symbol
  %q:2 = "scale.quantize"(%A, %w) {operandSegmentSizes = array<i32: 1, 0, 1, 0>, granularity = #scale.granularity<array<i64: 1, 16>, "ue4m3", "row">}
    : (tensor<?x256xf32>, !scale.symbol) -> (tensor<?x256xf4E2M1FN>, tensor<?x16xf8E4M3FN>)
  return
}

// -----

// scatter: maps
// EXPECT: map 1 has 1 results, expected 2
func.func @p(%A: tensor<?x256xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %c = "scale.scatter"(%A) {operandSegmentSizes = array<i32: 1, 0, 0>, maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (m)>]} : (tensor<?x256xbf16>) -> tensor<?x256xbf16>
  return
}

// -----

// schedule: a dictionary
// EXPECT: expected base attribute 'builtin.dictionary' but got 'builtin.integer'
func.func @p() attributes {scale.dims = ["m", "n", "k"], scale.schedule = #scale.schedule<3 : i64>} {
  return
}

// -----

// an attribute that the verifier reads is not there
// EXPECT: 'scale.read' op lacks attribute map
func.func @p(%A: tensor<?x256xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %v = "scale.read"(%A) {operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x256xbf16>) -> !scale.view
  return
}

// an attribute of another kind
// EXPECT: 'scale.read' op has an attribute of another kind than expected
// CHANGE: i32: 1, 0> => i32: 1, 0>, map = "mk"

// -----

// VALID
func.func @p(%B: tensor<?x256xui4>, %Z: tensor<?x2xui4>, %F: tensor<?x2xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %d = "scale.subtract"(%B, %Z) {map = affine_map<(n, k) -> (n, k floordiv 128)>, operandSegmentSizes = array<i32: 1, 1>} : (tensor<?x256xui4>, tensor<?x2xui4>) -> tensor<?x256xf32>
  return
}

// subtract: type of the zero points
// EXPECT: expected integers less integers
// CHANGE: %Z) {map = => %F) {map =
// CHANGE: <?x2xui4>) => <?x2xbf16>)

// subtract: result
// EXPECT: result must be an f32 tensor of rank 2
// CHANGE: <?x256xf32 => <?x256xui4

// subtract: both
// EXPECT: has 1 tensors of zero points, expected one and a map, or a number
// CHANGE: operandSegmentSizes => number = 8 : i64, operandSegmentSizes

// subtract: rank of the map
// EXPECT: for tensor<?x256xui4> and zero points tensor<?x2xui4>
// CHANGE: , k floordiv 128 =>

// subtract: an index of two
// EXPECT: expected indices that are each computed of one of the values'
// CHANGE: k floordiv 128 => k
// CHANGE: -> (n, k => -> (n, n + k

// subtract: one index twice
// EXPECT: expected indices that are each computed of one of the values'
// CHANGE: k floordiv 128 => n mod 8

// -----

// subtract: neither a tensor nor a number
// EXPECT: has 0 tensors of zero points, expected one and a map, or a number
func.func @p(%B: tensor<?x256xui4>, %Z: tensor<?x2xui4>, %F: tensor<?x2xbf16>) attributes {scale.dims = ["m", "n", "k"]} {
  %d = "scale.subtract"(%B) {operandSegmentSizes = array<i32: 1, 0>} : (tensor<?x256xui4>) -> tensor<?x256xf32>
  return
}

// subtract: a number, and one added to it
// EXPECT: adds to zero points, and has a number
// CHANGE: operandSegmentSizes => number = 8 : i64, plus = 1 : i64, operandSegmentSizes

// -----

// add: one term
// EXPECT: adds tensor<?xf32>, expected two or more tensor<?xf32>
func.func @p(%A: tensor<?xf32>) attributes {scale.dims = ["m", "n", "k"]} {
  %c = "scale.add"(%A) {operandSegmentSizes = array<i32: 1>} : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

// add: types
// EXPECT: adds tensor<?xf32>, tensor<?xf32>, expected two or more tensor<4xf32>
func.func @p(%A: tensor<?xf32>) attributes {scale.dims = ["m", "n", "k"]} {
  %c = "scale.add"(%A, %A) {operandSegmentSizes = array<i32: 2>} : (tensor<?xf32>, tensor<?xf32>) -> tensor<4xf32>
  return
}
