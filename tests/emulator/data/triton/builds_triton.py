"""What generate.py compiles of the kernels in plain Triton."""

import elementwise_kernels as elementwise
import matmul_kernels as matmul
import triton.language as tl
from build import Build

FLOAT8 = "fp8e4nv"


def plain(kind, tile, *, b="n", accumulator=tl.float32, out="fp32", ragged=False):
    """Arguments of matmul; b is "n" where K is contiguous, "k" where N is."""
    pitch = "i32" if ragged else "i32:16"
    bm, bn, bk = tile
    return {
        "a": f"*{kind}:16", "b": f"*{kind}:16", "c": f"*{out}:16", "m": "i32", "n": "i32", "k": pitch,
        "am": pitch, "ak": 1, "bn": pitch if b == "n" else 1, "bk": 1 if b == "n" else pitch, "cm": "i32:16",
        "BM": bm, "BN": bn, "BK": bk, "ACCUMULATOR": accumulator,
    }  # fmt: skip


def scaled(a_format, b_format, tile, group=32, scale="u8"):
    """tcgen05.mma takes scales with 128 rows only; where the operands become bf16 first, the tile is kept small."""
    bm, bn, bk = tile
    kinds = {"e4m3": FLOAT8, "e5m2": "fp8e5", "e2m1": "u8"}
    return {
        "a": f"*{kinds[a_format]}:16", "b": f"*{kinds[b_format]}:16",
        "a_scale": f"*{scale}:16", "b_scale": f"*{scale}:16", "c": "*fp32:16",
        "m": "i32", "n": "i32", "k": "i32", "am": "i32:16", "bn": "i32:16", "cm": "i32:16", "sm": "i32",
        "BM": bm, "BN": bn, "BK": bk, "GROUP": group, "A_FORMAT": a_format, "B_FORMAT": b_format,
    }  # fmt: skip


def descriptors(kind, tile, programs, warp_specialize=False):
    bm, bn, bk = tile
    return {
        "a": f"*{kind}:16", "b": f"*{kind}:16", "c": f"*{kind}:16", "m": "i32", "n": "i32:16", "k": "i32:16",
        "BM": bm, "BN": bn, "BK": bk, "PROGRAMS": programs, "WARP_SPECIALIZE": warp_specialize,
    }  # fmt: skip


def host_descriptors(kind, tile, transposed, out="fp32"):
    bm, bn, bk = tile
    b_box = (bn, bk) if transposed else (bk, bn)
    return {
        "a_map": f"tensordesc<{kind}[{bm}, {bk}]>", "b_map": f"tensordesc<{kind}[{b_box[0]}, {b_box[1]}]>",
        "c_map": f"tensordesc<{out}[{bm}, {bn}]>", "k": "i32",
        "BM": bm, "BN": bn, "BK": bk, "B_TRANSPOSED": transposed,
    }  # fmt: skip


def warp_specialized(bm):
    return {
        "a_map": f"tensordesc<fp16[{bm}, 64]>", "b_map": "tensordesc<fp16[64, 64]>", "c": "*fp32:16", "n": "i32:16",
        "k": "i32", "BM": bm, "BN": 64, "BK": 64,
    }  # fmt: skip


BUILDS = [
    Build("matmul_bf16", matmul.matmul, plain("bf16", (64, 64, 64)), stages=3),
    Build("matmul_f16", matmul.matmul, plain("fp16", (64, 32, 32))),
    Build("matmul_f16_f16", matmul.matmul, plain("fp16", (64, 64, 32), accumulator=tl.float16, out="fp16")),
    Build("matmul_e4m3", matmul.matmul, plain(FLOAT8, (64, 64, 64)), stages=3),
    Build("matmul_e5m2", matmul.matmul, plain("fp8e5", (64, 32, 64))),
    Build("matmul_tf32", matmul.matmul, plain("fp32", (64, 64, 32))),
    Build("matmul_bf16_ragged", matmul.matmul, plain("bf16", (64, 32, 32), ragged=True), stages=1),
    Build("matmul_bf16_nmajor", matmul.matmul, plain("bf16", (128, 64, 32), b="k"), stages=3),
    Build("matmul_e4m3_nmajor", matmul.matmul, plain(FLOAT8, (64, 64, 64), b="k")),
    Build("matmul_bf16_1warp", matmul.matmul, plain("bf16", (16, 16, 32)), targets=(90, 120), warps=1),
    Build("matmul_e4m3_1warp", matmul.matmul, plain(FLOAT8, (32, 16, 32)), targets=(90, 120), warps=1),
    Build("matmul_tf32_2warps", matmul.matmul, plain("fp32", (32, 32, 16)), targets=(90, 120), warps=2),
    Build("matmul_f64", matmul.matmul, plain("fp64", (32, 32, 16), accumulator=tl.float64, out="fp64"), targets=(90,)),
    Build("matmul_bf16_8warps", matmul.matmul, plain("bf16", (128, 64, 32)), warps=8),
    Build("matmul_mxfp8", matmul.matmul_scaled, scaled("e4m3", "e4m3", (128, 64, 128)), targets=(100,)),
    Build("matmul_mxfp8_e5m2", matmul.matmul_scaled, scaled("e5m2", "e4m3", (128, 32, 64)), targets=(100, 120)),
    Build("matmul_mxfp4", matmul.matmul_scaled, scaled("e2m1", "e2m1", (128, 64, 128)), targets=(100, 120)),
    Build("matmul_mxfp8_mxfp4", matmul.matmul_scaled, scaled("e4m3", "e2m1", (128, 64, 128)), targets=(100,)),
    Build("matmul_mxfp4_mxfp8", matmul.matmul_scaled, scaled("e2m1", "e4m3", (128, 64, 128)), targets=(100,)),
    Build("matmul_nvfp4", matmul.matmul_scaled, scaled("e2m1", "e2m1", (128, 64, 128), 16, FLOAT8),
          targets=(100, 120)),
    Build("matmul_mxfp8", matmul.matmul_scaled, scaled("e4m3", "e4m3", (64, 64, 64)), targets=(90, 120)),
    Build("matmul_mxfp4", matmul.matmul_scaled, scaled("e2m1", "e2m1", (64, 32, 128)), targets=(90,)),
    Build("matmul_mxfp8_mxfp4", matmul.matmul_scaled, scaled("e4m3", "e2m1", (64, 32, 64)), targets=(90, 120)),
    Build("matmul_mxfp4_mxfp8", matmul.matmul_scaled, scaled("e2m1", "e4m3", (64, 32, 64)), targets=(90, 120)),
    Build("matmul_nvfp4", matmul.matmul_scaled, scaled("e2m1", "e2m1", (64, 32, 64), 16, FLOAT8), targets=(90,)),
    Build("matmul_mxfp8_1warp", matmul.matmul_scaled, scaled("e4m3", "e4m3", (32, 16, 64)), targets=(120,), warps=1),
    Build("matmul_nvfp4_1warp", matmul.matmul_scaled, scaled("e2m1", "e2m1", (32, 16, 128), 16, FLOAT8),
          targets=(120,), warps=1),
    Build("matmul_descriptors_bf16", matmul.matmul_descriptors, descriptors("bf16", (64, 64, 32), 2)),
    Build("matmul_descriptors_e4m3", matmul.matmul_descriptors, descriptors(FLOAT8, (64, 32, 64), 3)),
    Build("matmul_descriptors_specialized", matmul.matmul_descriptors, descriptors("bf16", (128, 64, 64), 2, True),
          targets=(100,)),
    Build("matmul_host_bf16", matmul.matmul_host_descriptors, host_descriptors("bf16", (64, 64, 64), False)),
    Build("matmul_host_e4m3", matmul.matmul_host_descriptors, host_descriptors(FLOAT8, (64, 64, 128), True), stages=3),
    Build("matmul_host_clusters", matmul.matmul_host_descriptors, host_descriptors("bf16", (128, 64, 64), False),
          targets=(90, 100), ctas=2),
    Build("matmul_warp_specialized", matmul.matmul_warp_specialized, warp_specialized(128), targets=(100,), stages=3),
    Build("matmul_warp_specialized", matmul.matmul_warp_specialized, warp_specialized(64), targets=(90,), stages=3),
    Build("attention_bf16", matmul.attention, {
        "q": "*bf16:16", "k": "*bf16:16", "v": "*bf16:16", "out": "*fp32:16", "keys": "i32", "scale": "fp32",
        "BQ": 64, "BK": 32, "D": 64,
    }),
    Build("narrow", elementwise.narrow, {
        "x": "*fp32:16", "e4m3": f"*{FLOAT8}:16", "e5m2": "*fp8e5:16", "bf16": "*bf16:16", "f16": "*fp16:16",
        "back": "*fp32:16", "n": "i32:16", "BLOCK": 512,
    }),
    Build("round_toward_zero", elementwise.round_toward_zero, {
        "x": "*fp32:16", "bf16": "*bf16:16", "e5m2": "*fp8e5:16", "n": "i32", "BLOCK": 256,
    }, targets=(90, 120)),
    Build("quantize_mxfp4", elementwise.quantize_mxfp4, {
        "x": "*fp32:16", "packed": "*u8:16", "scales": "*u8:16", "columns": "i32:16", "ROWS": 8, "BLOCK": 128,
    }, targets=(100, 120)),
    Build("softmax", elementwise.softmax, {"x": "*fp32:16", "out": "*fp32:16", "columns": "i32", "BLOCK": 512},
          targets=(90, 120)),
    Build("reductions", elementwise.reductions, {
        "x": "*fp32:16", "integers": "*i32:16", "sums": "*fp32:16", "tops": "*fp32:16", "places": "*i32:16",
        "totals": "*i32:16", "ors": "*i32:16", "columns": "i32:16", "ROWS": 4, "BLOCK": 256,
    }),
    Build("integer_extremes", elementwise.integer_extremes, {
        "x": "*i32:16", "least": "*i32:16", "most": "*i32:16", "BLOCK": 256,
    }),
    Build("scan_and_sort", elementwise.scan_and_sort, {
        "x": "*i32:16", "sums": "*i32:16", "ordered": "*i32:16", "BLOCK": 128,
    }, targets=(90,)),
    Build("atomics", elementwise.atomics, {
        "x": "*fp32:16", "keys": "*i32:16", "total": "*fp32:16", "top": "*i32:16", "bottom": "*fp32:16",
        "bits": "*i32:16", "tickets": "*i32:16", "brain": "*bf16:16", "n": "i32", "BLOCK": 128,
    }),
    Build("histogram", elementwise.histogram, {"x": "*i32:16", "out": "*i32:16", "n": "i32", "BINS": 32, "BLOCK": 256},
          targets=(90, 100)),
    Build("mathematics", elementwise.mathematics, {
        "x": "*fp32:16", "y": "*fp32:16", "out": "*fp32:16", "n": "i32", "BLOCK": 128,
    }, targets=(90, 100)),
    Build("integers", elementwise.integers, {
        "x": "*i32:16", "y": "*i32:16", "out": "*i64:16", "n": "i32", "BLOCK": 128,
    }, targets=(90,)),
    Build("philox", elementwise.philox, {"seed": "i64", "out": "*i32:16", "BLOCK": 256}, targets=(90,)),
    Build("transpose", elementwise.transpose, {
        "x": "*u16:16", "out": "*u16:16", "rows": "i32:16", "columns": "i32:16", "BM": 64, "BN": 32,
    }, targets=(90, 120)),
]  # fmt: skip
