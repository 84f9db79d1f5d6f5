"""Runs the probes on an H200 and stores what comes back: `python -m tests.emulator.h200.run --out DIRECTORY`.

Needs a GPU of compute capability 9.0, cuda-bindings, numpy and ml_dtypes. Each group runs in a process of its own; a
probe that fails (its text does not assemble, the launch faults or hangs) is named and left out, and the rest of the
group goes on in a fresh process. The GPU of the stored bytes: NVIDIA H200, driver 580.159.04.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import store, table
from .probe import Buffer, Probe, Scalar, TensorMap

PATIENCE = 60  # seconds for one process


def driver() -> Any:
    """cuda-bindings' driver module, imported only where a GPU is."""
    return importlib.import_module("cuda.bindings.driver")


def check(result: tuple) -> Any:
    """The value of a driver call, or its error."""
    if int(result[0]) != 0:
        raise RuntimeError(f"CUDA driver: {result[0]}")
    return result[1] if len(result) == 2 else result[1:]


class Gpu:
    """One context on device 0."""

    def __init__(self) -> None:
        cu = self.cu = driver()
        check(cu.cuInit(0))
        device = check(cu.cuDeviceGet(0))
        self.context = check(cu.cuDevicePrimaryCtxRetain(device))
        check(cu.cuCtxSetCurrent(self.context))

    def load(self, probe: Probe) -> tuple[Any, Any]:
        """Module and kernel of a probe; ptxas' words if it does not assemble."""
        cu = self.cu
        log = bytearray(4096)
        option = cu.CUjit_option
        keys = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        result = cu.cuModuleLoadDataEx(probe.ptx.encode() + b"\0", 2, keys, [log, len(log)])
        if int(result[0]) != 0:
            raise RuntimeError(f"{result[0]}: {log.rstrip(bytes(1)).decode()}")
        return result[1], check(cu.cuModuleGetFunction(result[1], probe.entry.encode()))

    def tensor_map(self, spec: TensorMap, address: int) -> bytes:
        """128 bytes of a tensor map."""
        cu = self.cu
        names = {"u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "s32": "INT32", "u64": "UINT64", "s64": "INT64"}
        names |= {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64"}
        names |= {"f32_ftz": "FLOAT32_FTZ", "tf32": "TFLOAT32", "tf32_ftz": "TFLOAT32_FTZ"}
        rank = len(spec.extents)
        u32, u64 = cu.cuuint32_t, cu.cuuint64_t
        interleave = {0: "NONE", 16: "16B", 32: "32B"}[spec.interleave]
        swizzle = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}[spec.swizzle]
        fill = {"zero": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}[spec.fill]
        encoded = check(
            cu.cuTensorMapEncodeTiled(
                getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{names[spec.dtype]}"),
                rank,
                address + spec.offset,
                [u64(x) for x in spec.extents],
                [u64(x) for x in spec.strides or (16,)],  # not null, though rank 1 has none
                [u32(x) for x in spec.box],
                [u32(x) for x in spec.element_strides or (1,) * rank],
                getattr(cu.CUtensorMapInterleave, f"CU_TENSOR_MAP_INTERLEAVE_{interleave}"),
                getattr(cu.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
                cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
                getattr(cu.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}"),
            )
        )
        return ctypes.string_at(encoded.getPtr(), 128)

    def run(self, probe: Probe) -> dict[str, np.ndarray]:
        """One launch; the bytes of every result."""
        cu = self.cu
        module, kernel = self.load(probe)
        addresses: dict[int, int] = {}
        for argument in probe.arguments:
            buffer = argument.buffer if isinstance(argument, TensorMap) else argument
            if isinstance(buffer, Buffer) and id(buffer) not in addresses:
                data = np.ascontiguousarray(buffer.data)
                address = int(check(cu.cuMemAlloc(max(data.nbytes, 256))))
                check(cu.cuMemcpyHtoD(address, data.ctypes.data, data.nbytes))
                addresses[id(buffer)] = address
        values = []
        for argument in probe.arguments:
            if isinstance(argument, TensorMap):
                data = self.tensor_map(argument, addresses[id(argument.buffer)])
                values.append(ctypes.create_string_buffer(data, 128))
            elif isinstance(argument, Scalar):
                values.append(ctypes.create_string_buffer(argument.value.tobytes(), argument.value.dtype.itemsize))
            else:
                values.append(ctypes.c_uint64(addresses[id(argument)]))
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        if probe.shared:
            attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(cu.cuFuncSetAttribute(kernel, attribute, probe.shared))
        config = cu.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = probe.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = probe.block
        config.sharedMemBytes = probe.shared
        config.hStream = cu.CUstream(0)
        if probe.cluster != (1, 1, 1):
            attribute = cu.CUlaunchAttribute()
            attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            value = cu.CUlaunchAttributeValue()
            value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = probe.cluster
            attribute.value = value
            config.attrs = [attribute]
            config.numAttrs = 1
        check(cu.cuLaunchKernelEx(config, kernel, ctypes.addressof(pointers), 0))
        check(cu.cuCtxSynchronize())
        results = {}
        for buffer in probe.results:
            host = np.empty_like(np.ascontiguousarray(buffer.data))
            check(cu.cuMemcpyDtoH(host.ctypes.data, addresses[id(buffer)], host.nbytes))
            results[f"{probe.name}/{buffer.name}"] = host
        results[f"{probe.name}/inputs"] = np.array([probe.checksum], np.uint32)
        for address in addresses.values():
            check(cu.cuMemFree(address))
        check(cu.cuModuleUnload(module))
        return results


def child(probes: list[Probe], path: Path) -> None:
    """Runs probes, names each before its launch, and stores what came back even when one fails."""
    gpu = Gpu()
    results: dict[str, np.ndarray] = {}
    for probe in probes:
        print(f"probe {probe.name}", flush=True)
        try:
            results.update(gpu.run(probe))
        except RuntimeError as error:
            print(f"failed {probe.name}: {error}", flush=True)
            if "INVALID_PTX" not in str(error) and "INVALID_VALUE" not in str(error):
                break  # the context may be lost
        if len(results) % 20 == 0:
            store.save(path, results)
    store.save(path, results)


def group(name: str, out: Path, make: Callable[[], list[Probe]]) -> dict[str, np.ndarray]:
    """Runs one group's probes in as many processes as it takes."""
    left = [p.name for p in make()]
    results: dict[str, np.ndarray] = {}
    while left:
        part = out / f"{name}.part.npz"
        command = [sys.executable, "-m", "tests.emulator.h200.run", "--child", name, "--out", str(part)]
        command += ["--after", left[0]]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
            said, complaint = done.stdout, done.stderr
        except subprocess.TimeoutExpired as expired:
            said, complaint = (
                x.decode() if isinstance(x, bytes) else x or "" for x in (expired.output, expired.stderr)
            )
            complaint += "\nhung"
        if part.exists():
            results |= store.load(part)
            part.unlink()
        begun = [line.split()[1] for line in said.splitlines() if line.startswith("probe ")]
        for line in said.splitlines():
            if line.startswith("failed"):
                print(line, flush=True)
        if not begun:
            print(f"group {name} cannot run: {complaint[-2000:]}", flush=True)
            break
        if complaint:
            print(f"group {name}, at {begun[-1]}: {complaint[-1000:]}", flush=True)
        left = left[left.index(begun[-1]) + 1 :]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=store.DATA)
    parser.add_argument("--only", default="", help="groups, by commas")
    parser.add_argument("--child", default="")
    parser.add_argument("--after", default="")
    options = parser.parse_args()
    if options.child:
        probes = (table.GROUPS | table.CALIBRATION)[options.child]()
        names = [p.name for p in probes]
        child(probes[names.index(options.after) :], options.out)
        return
    for name in options.only.split(",") if options.only else table.GROUPS:
        results = group(name, options.out, (table.GROUPS | table.CALIBRATION)[name])
        store.save(options.out / f"{name}.npz", results)
        size = (options.out / f"{name}.npz").stat().st_size
        print(f"{name}: {len(results)} results, {size} bytes", flush=True)


if __name__ == "__main__":
    main()
