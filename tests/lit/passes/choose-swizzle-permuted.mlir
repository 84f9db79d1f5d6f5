// RUN: scalec opt --passes=choose-swizzle %s | filecheck %s
// RUN: scalec opt --target sm_120a --passes=choose-swizzle %s | filecheck %s --check-prefix=REGISTERS
// RUN: scalec opt --target sm_100a --passes=choose-swizzle %s | filecheck %s --check-prefix=REGISTERS

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// Four adjacent columns of 8 bits fill a register.
// CHECK-LABEL: func.func @staged
// CHECK-SAME: permute_n = 16 : i64
// REGISTERS-LABEL: func.func @staged
// REGISTERS-SAME: permute_n = 0 : i64
func.func @staged(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>)
  -> (tensor<4096x7168xf8E4M3FN> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>, epilogue = "bulk"}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf8E4M3FN>, tensor<7168x2048xf8E4M3FN>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f8E4M3FN
    "scale.yield"(%y) : (f8E4M3FN) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xf8E4M3FN>
  return %r : tensor<4096x7168xf8E4M3FN>
}

// Registers to memory: nothing is staged.
// CHECK-LABEL: func.func @direct
// CHECK-SAME: permute_n = 0 : i64
// REGISTERS-LABEL: func.func @direct
// REGISTERS-SAME: permute_n = 0 : i64
func.func @direct(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>)
  -> (tensor<4096x7168xf8E4M3FN> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>, epilogue = "direct"}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf8E4M3FN>, tensor<7168x2048xf8E4M3FN>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f8E4M3FN
    "scale.yield"(%y) : (f8E4M3FN) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xf8E4M3FN>
  return %r : tensor<4096x7168xf8E4M3FN>
}

// Two of 16 bits do, which are adjacent anyway.
// CHECK-LABEL: func.func @wide
// CHECK-SAME: permute_n = 0 : i64
// REGISTERS-LABEL: func.func @wide
// REGISTERS-SAME: permute_n = 0 : i64
func.func @wide(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>)
  -> (tensor<4096x7168xbf16> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>, epilogue = "bulk"}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf8E4M3FN>, tensor<7168x2048xf8E4M3FN>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to bf16
    "scale.yield"(%y) : (bf16) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xbf16>
  return %r : tensor<4096x7168xbf16>
}

// Copies permute whole groups of 16 rows of B.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: permute_n = 0 : i64
// REGISTERS-LABEL: func.func @rows
// REGISTERS-SAME: permute_n = 0 : i64
func.func @rows(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7176x2048xf8E4M3FN>)
  -> (tensor<4096x7176xf8E4M3FN> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>, epilogue = "bulk"}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf8E4M3FN>, tensor<7176x2048xf8E4M3FN>) -> tensor<4096x7176xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7176xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f8E4M3FN
    "scale.yield"(%y) : (f8E4M3FN) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7176xf8E4M3FN>
  return %r : tensor<4096x7176xf8E4M3FN>
}

// A tile of them, too.
// CHECK-LABEL: func.func @narrow
// CHECK-SAME: permute_n = 0 : i64
// REGISTERS-LABEL: func.func @narrow
// REGISTERS-SAME: permute_n = 0 : i64
func.func @narrow(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>)
  -> (tensor<4096x7168xf8E4M3FN> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 128, 24, 128>, epilogue = "bulk"}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf8E4M3FN>, tensor<7168x2048xf8E4M3FN>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f8E4M3FN
    "scale.yield"(%y) : (f8E4M3FN) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xf8E4M3FN>
  return %r : tensor<4096x7168xf8E4M3FN>
}

// What was decided stays.
// CHECK-LABEL: func.func @decided
// CHECK-SAME: permute_n = 0 : i64
// REGISTERS-LABEL: func.func @decided
// REGISTERS-SAME: permute_n = 0 : i64
func.func @decided(%A: tensor<4096x2048xf8E4M3FN>, %B: tensor<7168x2048xf8E4M3FN>)
  -> (tensor<4096x7168xf8E4M3FN> {scale.name = "C"})
  attributes {scale.dims = ["m", "n", "k"],
              scale.schedule = #scale.schedule<{tile = array<i64: 256, 128, 128>, epilogue = "bulk", permute_n = 0 : i64}>} {
  %c = "scale.contract"(%A, %B) {operandSegmentSizes = array<i32: 1, 1, 0, 0>, maps = [#mk, #nk, #mn],
    roles = {batch = [], m = ["m"], n = ["n"], k = ["k"]}}
    : (tensor<4096x2048xf8E4M3FN>, tensor<7168x2048xf8E4M3FN>) -> tensor<4096x7168xf32>
  %v = "scale.read"(%c) {operandSegmentSizes = array<i32: 1, 0>, map = #mn} : (tensor<4096x7168xf32>) -> !scale.view
  %r = "scale.map"(%v) ({
  ^bb0(%x: f32):
    %y = arith.truncf %x : f32 to f8E4M3FN
    "scale.yield"(%y) : (f8E4M3FN) -> ()
  }) {operandSegmentSizes = array<i32: 1, 0, 0>, map = #mn} : (!scale.view) -> tensor<4096x7168xf8E4M3FN>
  return %r : tensor<4096x7168xf8E4M3FN>
}
