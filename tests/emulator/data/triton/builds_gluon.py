"""What generate.py compiles of the kernels in Gluon."""

import gluon_copy_kernels as copy
import gluon_matmul_kernels as matmul
from build import Build
from triton.experimental.gluon import language as gl

TYPES = {
    "bf16": gl.bfloat16,
    "fp16": gl.float16,
    "fp32": gl.float32,
    "fp8e4nv": gl.float8e4nv,
    "i32": gl.int32,
    "u8": gl.uint8,
}


def tensor_map(kind, *box, halves=None, padded=False, swizzle=None):
    """The parameter type of a tensor map; `halves` says how two CTAs share a box."""
    bases = None if halves is None else [list(halves)]
    layout = gl.NVMMASharedLayout.get_default_for(list(box), TYPES[kind], fp4_padded=padded, cga_layout=bases)
    if swizzle is not None:
        layout = gl.NVMMASharedLayout(swizzle, TYPES[kind].primitive_bitwidth, len(box), False, padded, bases or [])
    return f"tensordesc<{kind}[{', '.join(map(str, box))}],{layout!r}>"


def scaled(a_format, b_format, bn, bk, group=32, pair=False):
    """Arguments of tcgen05_scaled; a format beside another is padded to bytes in shared memory."""
    bm = 256 if pair else 128
    kinds = {"e4m3": "fp8e4nv", "e2m1": "u8"}
    per_byte = {"e4m3": 1, "e2m1": 2}
    mixed = a_format != b_format
    scale = "u8" if group == 32 else "fp8e4nv"
    first = (1, 0) if pair else None
    return {
        "a_map": tensor_map(kinds[a_format], bm, bk // per_byte[a_format], halves=first,
                            padded=mixed and a_format == "e2m1"),
        "b_map": tensor_map(kinds[b_format], bn, bk // per_byte[b_format], halves=first,
                            padded=mixed and b_format == "e2m1"),
        "a_scale_map": tensor_map(scale, 1, bm // 128, bk // group // 4, 2, 256, swizzle=0,
                                  halves=(0, 1, 0, 0, 0) if pair else None),
        "b_scale_map": tensor_map(scale, 1, bn // 128, bk // group // 4, 2, 256, swizzle=0,
                                  halves=(0, 0, 0, 0, 0) if pair else None),
        "c_map": tensor_map("fp32", bm, bn, halves=first),
        "k": "i32", "A_FORMAT": a_format, "B_FORMAT": b_format, "GROUP": group,
    }  # fmt: skip


def pipeline(kind, bm, bn, bk, stages, out="fp32", **more):
    rows_are_k = more.get("B_ROWS_ARE_K", False)
    return {
        "a_map": tensor_map(kind, bm, bk), "b_map": tensor_map(kind, *((bk, bn) if rows_are_k else (bn, bk))),
        "c_map": tensor_map(out, bm, bn), "k": "i32", "STAGES": stages, **more,
    }  # fmt: skip


def pair(kind, bm, bn, bk):
    return {
        "a_map": tensor_map(kind, bm, bk, halves=(1, 0)), "b_map": tensor_map(kind, bn, bk, halves=(1, 0)),
        "c_map": tensor_map("fp32", bm, bn, halves=(1, 0)), "k": "i32", "BN": bn, "MULTICAST": False,
    }  # fmt: skip


def copied(kind, box):
    return {
        "x_map": tensor_map(kind, *box), "out_map": tensor_map(kind, *box),
        "from_i": "i32", "from_j": "i32", "to_i": "i32", "to_j": "i32",
    }  # fmt: skip


def build(name, kernel, arguments, targets, **more):
    return Build(f"gluon_{name}", kernel, arguments, targets=targets, gluon=True, **more)


BUILDS = [
    build("wgmma_bf16", matmul.wgmma_pipeline,
          pipeline("bf16", 64, 64, 64, 3, B_ROWS_ARE_K=False, A_REGISTERS=False), (90,)),
    build("wgmma_f16_kn", matmul.wgmma_pipeline,
          pipeline("fp16", 64, 64, 32, 2, out="fp16", B_ROWS_ARE_K=True, A_REGISTERS=False), (90,)),
    build("wgmma_e4m3", matmul.wgmma_pipeline,
          pipeline("fp8e4nv", 128, 64, 64, 2, B_ROWS_ARE_K=False, A_REGISTERS=False), (90,), warps=8),
    build("wgmma_bf16_registers", matmul.wgmma_pipeline,
          pipeline("bf16", 64, 32, 32, 3, B_ROWS_ARE_K=False, A_REGISTERS=True), (90,)),
    build("wgmma_e4m3_registers", matmul.wgmma_pipeline,
          pipeline("fp8e4nv", 64, 32, 32, 2, B_ROWS_ARE_K=False, A_REGISTERS=True), (90,)),
    build("wgmma_specialized", matmul.wgmma_specialized, {
        "a_map": tensor_map("fp8e4nv", 64, 128), "b_map": tensor_map("fp8e4nv", 64, 128), "c": "*fp32:16",
        "n": "i32:16", "k": "i32", "STAGES": 3,
    }, (90,)),
    build("wgmma_multicast", matmul.wgmma_multicast, {
        "a_map": tensor_map("bf16", 128, 64, halves=(1, 0)), "b_map": tensor_map("bf16", 64, 64, halves=(0, 0)),
        "c": "*fp32:16", "n": "i32:16", "k": "i32",
    }, (90,), ctas=2),
    build("tcgen05_bf16", matmul.tcgen05_pipeline,
          pipeline("bf16", 128, 64, 64, 3, A_IN_TENSOR_MEMORY=False), (100,)),
    build("tcgen05_m64", matmul.tcgen05_pipeline,
          pipeline("fp16", 64, 64, 32, 2, out="fp16", A_IN_TENSOR_MEMORY=False), (100,)),
    build("tcgen05_e4m3", matmul.tcgen05_pipeline,
          pipeline("fp8e4nv", 128, 32, 128, 2, A_IN_TENSOR_MEMORY=False), (100,)),
    build("tcgen05_tf32", matmul.tcgen05_pipeline,
          pipeline("fp32", 128, 64, 32, 2, A_IN_TENSOR_MEMORY=False), (100,)),
    build("tcgen05_tensor_memory_a", matmul.tcgen05_pipeline,
          pipeline("bf16", 128, 64, 32, 2, A_IN_TENSOR_MEMORY=True), (100,)),
    build("tcgen05_specialized", matmul.tcgen05_specialized, pipeline("bf16", 128, 64, 64, 3, out="bf16"), (100,)),
    build("tcgen05_pair_bf16", matmul.tcgen05_pair, pair("bf16", 256, 64, 64), (100,), ctas=2),
    build("tcgen05_pair_m128", matmul.tcgen05_pair, pair("fp8e4nv", 128, 64, 64), (100,), ctas=2),
    build("tcgen05_mxfp8", matmul.tcgen05_scaled, scaled("e4m3", "e4m3", 128, 128), (100,)),
    build("tcgen05_mxfp4", matmul.tcgen05_scaled, scaled("e2m1", "e2m1", 128, 256), (100,)),
    build("tcgen05_nvfp4", matmul.tcgen05_scaled, scaled("e2m1", "e2m1", 128, 128, 16), (100,)),
    build("tcgen05_mxfp8_mxfp4", matmul.tcgen05_scaled, scaled("e4m3", "e2m1", 128, 128), (100,)),
    build("tcgen05_mxfp4_mxfp8", matmul.tcgen05_scaled, scaled("e2m1", "e4m3", 128, 128), (100,)),
    build("tcgen05_mxfp8_pair", matmul.tcgen05_scaled, scaled("e4m3", "e4m3", 128, 128, pair=True), (100,), ctas=2),
    build("tcgen05_nvfp4_pair", matmul.tcgen05_scaled, scaled("e2m1", "e2m1", 128, 256, 16, pair=True), (100,),
          ctas=2),
    build("tma_copy_bf16", copy.tma_copy, copied("bf16", (32, 64)), (90, 100, 120)),
    build("tma_copy_f32_64", copy.tma_copy, copied("fp32", (16, 16)), (90,)),
    build("tma_copy_u8_32", copy.tma_copy, copied("u8", (16, 32)), (90,)),
    build("tma_atomics", copy.tma_atomics, {
        "x_map": tensor_map("i32", 16, 32), "sum_map": tensor_map("i32", 16, 32), "top_map": tensor_map("i32", 16, 32),
        "bits_map": tensor_map("i32", 16, 32), "LAYOUT": gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]),
    }, (90, 100)),
    build("add_specialized", copy.add_specialized, {
        "a_map": tensor_map("fp32", 32, 32), "b_map": tensor_map("fp32", 32, 32), "out_map": tensor_map("fp32", 32, 32),
        "columns": "i32", "STAGES": 3, "OUT_STAGES": 2, "LAYOUT": gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]),
    }, (90, 100, 120)),
    build("cluster_softmax", copy.cluster_softmax, {
        "x": "*fp32:16", "out": "*fp32:16", "columns": "i32", "BLOCK": 1024,
        "LAYOUT": gl.BlockedLayout([4], [32], [2], [0], cga_layout=[[1], [2]]),
    }, (90, 100), warps=2, ctas=4),
    build("cluster_transpose", copy.cluster_transpose, {
        "x": "*fp32:16", "out": "*fp32:16", "BM": 32, "BN": 32,
        "FROM": gl.BlockedLayout([1, 4], [4, 8], [2, 1], [1, 0], cga_layout=[[1, 0]]),
        "TO": gl.BlockedLayout([4, 1], [8, 4], [1, 2], [0, 1], cga_layout=[[0, 1]]),
    }, (90,), warps=2, ctas=2),
    build("remote_store", copy.remote_store, {
        "x": "*i32:16", "out": "*i32:16", "BLOCK": 256,
        "FROM": gl.BlockedLayout([1], [32], [2], [0], cga_layout=[[1], [2]]),
        "TO": gl.BlockedLayout([1], [32], [2], [0], cga_layout=[[2], [1]]),
        "SHARED": gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=[[2], [1]]),
    }, (90,), warps=2, ctas=4),
    build("gather_rows", copy.gather_rows, {
        "x_map": tensor_map("bf16", 1, 64, swizzle=128), "out_map": tensor_map("bf16", 1, 64, swizzle=128),
        "rows": "*i32:16", "places": "*i32:16", "at_column": "i32", "BLOCK": 32,
    }, (100,)),
    *(
        build(f"tensor_memory_{rows}_{store}_{load}", copy.tensor_memory_views, {
            "x": "*fp32:16", "out": "*fp32:16", "BM": rows, "BN": 32, "STORE": store, "LOAD": load,
        }, (100,))
        for rows, store, load in (
            (128, "32x32b", "16x64b"), (128, "16x128b", "16x256b"),
            (64, "16x256b", "16x128b"), (64, "16x64b", "32x32b"),
        )
    ),
    build("packed_arithmetic", copy.packed_arithmetic, {
        "x": "*fp32:16", "y": "*fp32:16", "z": "*fp32:16", "out": "*fp32:16", "n": "i32:16", "BLOCK": 512,
    }, (100,)),
    build("launch_control", copy.launch_control, {"counts": "*i32:16", "BLOCK": 64}, (100,), warps=2),
    build("async_copies", copy.async_copies, {
        "x": "*fp32:16", "y": "*fp32:16", "out": "*fp32:16", "BLOCK": 256, "STEPS": 5,
    }, (90, 120), warps=2),
]  # fmt: skip
