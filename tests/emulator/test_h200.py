"""The emulator against an H200: every probe of tests/emulator/h200 run, its bytes compared with the GPU's.

Bit for bit, but for the instructions whose last bits the ISA leaves to the implementation: TOLERANCES.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

from scalec.emulator.launch import launch, load
from scalec.emulator.layouts import tensor_map
from scalec.emulator.machine.memory import GlobalMemory
from scalec.emulator.machine.options import Options
from tests.emulator.h200 import store, table
from tests.emulator.h200.probe import Buffer, Probe, Scalar, TensorMap

PROBES = {probe.name: (group, probe) for group, make in table.GROUPS.items() for probe in make()}


@cache
def stored(group: str) -> dict[str, np.ndarray]:
    return store.load(store.DATA / f"{group}.npz")


def emulate(probe: Probe, seed: int = 0, tensor_core: str = "hopper") -> dict[str, np.ndarray]:
    """The results' bytes after the probe ran in the emulator."""
    memory = GlobalMemory()
    loaded = load(probe.ptx, memory)
    segments = {}
    for argument in probe.arguments:
        buffer = argument.buffer if isinstance(argument, TensorMap) else argument
        if isinstance(buffer, Buffer) and id(buffer) not in segments:
            segment = memory.allocate(buffer.data.nbytes, buffer.name, buffer.alignment)
            segment.data[:] = np.frombuffer(buffer.data.tobytes(), np.uint8)
            segment.written[:] = True
            segments[id(buffer)] = segment
    values = []
    for argument in probe.arguments:
        if isinstance(argument, Scalar):
            values.append(argument.value)
        elif isinstance(argument, Buffer):
            values.append(segments[id(argument)].base)
        else:
            m = argument
            base = segments[id(m.buffer)].base + m.offset
            spec = tensor_map.TensorMap(
                m.dtype, base, m.extents, m.strides, m.box, m.element_strides, m.interleave, m.swizzle, fill=m.fill
            )
            values.append(tensor_map.encode(spec))
    launch(
        loaded, probe.entry, probe.grid, probe.block, values, cluster=probe.cluster, shared_bytes=probe.shared,
        options=Options(seed=seed, tensor_core=tensor_core),
    )  # fmt: skip
    return {
        buffer.name: segments[id(buffer)].data.view(buffer.data.dtype).reshape(buffer.data.shape)
        for buffer in probe.results
    }


# instruction: relative and absolute error up to which the emulator, which rounds the exact result, may differ from the
# GPU: the bounds of PTX ISA 9.7.3 and 9.7.4 and half a unit in the last place
_SUBNORMAL = 2.0**-148
TOLERANCES: dict[str, tuple[float, float]] = {
    "rcp.approx": (2**-22.4, _SUBNORMAL),
    "sqrt.approx": (2**-22.4, _SUBNORMAL),
    "rsqrt.approx": (2**-22.3, 0),
    "div.approx": (2**-21.6, _SUBNORMAL),
    "div.full": (2**-21.6, _SUBNORMAL),
    "ex2.approx.f32": (2**-21.6, _SUBNORMAL),
    "ex2.approx.ftz.f32": (2**-21.6, 0),
    "lg2.approx": (2**-21.6, 2**-22),
    "sin.approx": (0, 2**-14.7),
    "cos.approx": (0, 2**-14.7),
    "tanh.approx.f32": (2**-10.9, 0),
    "ex2.approx.f16": (2**-9.3, 2**-24),
    "tanh.approx.f16": (0, 2**-10.4),
    "ex2.approx.ftz.bf16": (2**-6.4, 0),
    "tanh.approx.bf16": (0, 2**-7.4),
    "rcp.approx.ftz.f64": (2**-19.9, 0),
    "rsqrt.approx.ftz.f64": (2**-19.9, 0),
}
DOMAIN = {"sin.approx": 100 * np.pi, "cos.approx": 100 * np.pi}
# which of two NaNs a float64 addition in memory gives is the implementation's
ANY_NAN = {"bulk_reduce_add_f64"}


def longest(table_: dict, label: str) -> str | None:
    """The key of a table that says most of an instruction's name."""
    return max((key for key in table_ if label.startswith(key)), key=len, default=None)


def compare_approximation(label: str, operand: np.ndarray, found: np.ndarray, expected: np.ndarray) -> None:
    """Same class (NaN, infinity, number), numbers within the instruction's tolerance."""
    form = label.rsplit(".", 1)[1]
    dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64}[form]
    with np.errstate(invalid="ignore"):
        x, got, wanted = (bits.view(dtype).astype(np.float64) for bits in (operand, found, expected))
    key = longest(TOLERANCES, label)
    assert key is not None, label
    relative, absolute = TOLERANCES[key]
    inside = np.isfinite(got) & np.isfinite(wanted)
    np.testing.assert_array_equal(found[~inside], expected[~inside], err_msg=label)
    limit = DOMAIN.get(longest(DOMAIN, label) or "")
    if limit is not None:
        inside &= np.abs(x) <= limit
    np.testing.assert_allclose(got[inside], wanted[inside], relative, absolute, err_msg=label)


@pytest.mark.parametrize("name", PROBES)
def test_as_the_h200(name):
    group, probe = PROBES[name]
    results = stored(group)
    assert results[f"{name}/inputs"][0] == probe.checksum, "the probe is not the one that ran on the H200: run it again"
    for buffer, found in emulate(probe).items():
        expected = results[f"{name}/{buffer}"]
        if name.startswith("approx"):
            operand = next(a.data for a in probe.arguments if isinstance(a, Buffer))
            for label, row, wanted in zip(probe.labels, found, expected, strict=True):
                compare_approximation(label, operand, row, wanted)
            continue
        if name in ANY_NAN:
            found, expected = (np.nan_to_num(x.view(np.float64), nan=0.123).view(np.uint64) for x in (found, expected))
        if probe.labels:
            rows = [label for label, x, y in zip(probe.labels, found, expected, strict=True) if (x != y).any()]
            assert not rows, f"differ: {', '.join(rows)}"
        np.testing.assert_array_equal(found, expected)


def test_kernels_differ_from_exact_arithmetic():
    """The bytes of FP8 kernels are those of Hopper's accumulation: exact sums give others."""
    group, probe = PROBES["kernel_fp8"]
    (found,) = emulate(probe, tensor_core="exact").values()
    assert (found != stored(group)["kernel_fp8/C"]).any()


def test_every_stored_result_belongs_to_a_probe():
    for group, make in table.GROUPS.items():
        names = {probe.name for probe in make()}
        assert {key.split("/")[0] for key in stored(group)} == names
