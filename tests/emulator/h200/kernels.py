"""Whole kernels of ours, frozen: the PTX that scalec printed on the day, on small operands with tails.

`python -m tests.emulator.h200.kernels` compiles them anew; then the GPU has to run them anew.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator

import numpy as np

from .operands import FORMATS
from .probe import Argument, Buffer, Probe, Scalar, TensorMap, output
from .store import DATA
from .values import bell, spread

FILE = DATA / "kernels.ptx.xz"
FP8 = "C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)"
# name: program, sizes, dimensions fixed at compile time, schedule
KERNELS: dict[str, tuple[str, dict[str, int], str, dict[str, str]]] = {
    "kernel_fp8": (FP8, {"m": 129, "n": 136, "k": 400}, "", {}),
    "kernel_fp8_fixed": (FP8, {"m": 140, "n": 136, "k": 512}, "nk", {"tile": "128x128x128"}),
    "kernel_fp8_cluster": (FP8, {"m": 136, "n": 136, "k": 1152}, "nk", {"tile": "128x64x128", "cluster": "2x1"}),
    "kernel_bf16": ("C[m,n] = A[m,k] @ B[n,k]", {"m": 100, "n": 136, "k": 200}, "", {}),
    "kernel_f16": ("C[m,n]:f32 = A[m,k]:f16 @ B[n,k]:f16", {"m": 65, "n": 72, "k": 136}, "nk", {}),
    "kernel_mixed": (
        "C[m,n]:f16 = A[m,k]:e5m2 @ B[n,k]:e4m3 scale(1x128,tensor)", {"m": 77, "n": 80, "k": 272}, "", {},
    ),
    "kernel_accumulate": (
        "C[m,n]:f32 += A[m,k]@B[n,k] scale(1x128,1x128)", {"m": 72, "n": 72, "k": 384}, "nk", {},
    ),
}  # fmt: skip


def freeze() -> None:
    """Compiles all kernels and writes their texts and specs."""
    from scalec import compiler

    frozen = {}
    for name, (source, dims, fixed, schedule) in KERNELS.items():
        done = compiler.compile_source(source, "sm_90a", {d: dims[d] for d in fixed}, schedule or None)
        if done.spec is None:
            raise RuntimeError(f"{name} did not compile to the end")
        frozen[name] = {"ptx": done.ptx, "spec": json.loads(done.spec.to_json())}
    FILE.write_bytes(lzma.compress(json.dumps(frozen).encode(), preset=9))


def tensors(spec: dict, dims: dict[str, int], seed: int) -> Iterator[tuple[str, Buffer, dict]]:
    """name, buffer, and the spec of each tensor: operands random, scales positive, results full of the fill."""
    generator = np.random.default_rng(seed)
    results = {t["name"] for t in spec["results"]}
    operands = [t for t in spec["operands"] if t["name"] not in results]
    for tensor in operands + spec["results"]:
        shape = tuple(-(-dims[e["dim"]] // e["divisor"]) if e["dim"] else e["size"] for e in tensor["shape"])
        if tensor["layout"] == "col":
            shape = (*shape[:-2], shape[-1], shape[-2])
        form = FORMATS[tensor["dtype"]]
        name = tensor["name"]
        if name in results and not tensor["inout"]:
            yield name, output(name, shape, form.unsigned.type), tensor
            continue
        values = np.abs(spread(generator, -3, 3, shape)) if "scale" in name else bell(generator, shape) * 4
        patterns = form.encode(values).reshape(shape)
        yield name, Buffer(name, patterns, result=name in results), tensor


def probe(name: str, ptx: str, spec: dict, dims: dict[str, int]) -> Probe:
    found = {key: (buffer, tensor) for key, buffer, tensor in tensors(spec, dims, sum(name.encode()))}
    arguments: list[Argument] = []
    for argument in spec["arguments"]:
        kind = argument["kind"]
        if kind == "dim":
            arguments.append(Scalar(argument["dim"], np.uint32(dims[argument["dim"]])))
            continue
        buffer, tensor = found[argument["tensor"]]
        shape = buffer.data.shape
        if kind == "pointer":
            arguments.append(buffer)
        elif kind == "stride":
            strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
            if tensor["layout"] == "col":
                strides[-2:] = strides[:-3:-1]
            arguments.append(Scalar(f"{tensor['name']}_stride", np.int64(strides[argument["axis"]])))
        elif kind == "tensor_map":
            size = buffer.data.dtype.itemsize
            inner = shape[::-1]
            strides = tuple(int(np.prod(inner[: i + 1])) * size for i in range(len(inner) - 1))
            dtype = "u8" if size == 1 else tensor["dtype"]
            arguments.append(
                TensorMap(buffer, dtype, inner, strides, tuple(argument["box"]), swizzle=argument["swizzle"])
            )
        else:
            raise ValueError(f"{name}: an argument of kind {kind}")
    launch = spec["launch"]
    units = int(np.prod([-(-dims[d] // (tile * along)) for d, tile, along in launch["tiles"]]))
    grid = units * launch["cluster"]
    return Probe(
        name, ptx, spec["entry"], tuple(arguments), (grid, 1, 1), (launch["threads"], 1, 1),
        (launch["cluster"], 1, 1), launch["shared_bytes"],
    )  # fmt: skip


def probes() -> list[Probe]:
    frozen = json.loads(lzma.decompress(FILE.read_bytes()))
    return [probe(name, one["ptx"], one["spec"], KERNELS[name][1]) for name, one in frozen.items()]


if __name__ == "__main__":
    freeze()
