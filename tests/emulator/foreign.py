"""Launches a case of programs.py on the emulator."""

from __future__ import annotations

import numpy as np

from scalec.emulator.launch import launch, load
from scalec.emulator.layouts import tensor_map
from scalec.emulator.machine.memory import GlobalMemory
from scalec.emulator.machine.options import Options
from scalec.emulator.stats import Stats
from tests.emulator.programs import Case, Pointer, Program, Scratch, TensorMap


def run(program: Program, case: Case, options: Options | None = None) -> tuple[dict[str, np.ndarray], Stats]:
    """What the arrays of the case hold after the launch, and its counters."""
    memory = GlobalMemory()
    loaded = load(program.text, memory)
    segments = {}
    for name, array in case.arrays.items():
        segment = segments[name] = memory.allocate(array.nbytes, name)
        segment.data[:] = np.frombuffer(array.tobytes(), np.uint8)
        segment.written[:] = name not in case.blank
    values: list = []
    for parameter in case.parameters:
        if isinstance(parameter, Pointer):
            values.append(segments[parameter.array].base + parameter.offset)
        elif isinstance(parameter, Scratch):
            values.append(memory.allocate(parameter.bytes, "scratch", max(parameter.align, 16)).base)
        elif isinstance(parameter, TensorMap):
            values.append(
                tensor_map.encode(
                    tensor_map.TensorMap(
                        parameter.element, segments[parameter.array].base, parameter.extents, parameter.strides,
                        parameter.box, interleave=parameter.interleave, swizzle=parameter.swizzle, fill=parameter.fill,
                    )
                )
            )  # fmt: skip
        else:
            values.append(parameter)
    stats = launch(
        loaded, program.entry, case.grid or program.grid, program.block, values,
        cluster=program.cluster, shared_bytes=program.shared, options=options or Options(),
    )  # fmt: skip
    after = {
        name: segments[name].data.copy().view(array.dtype).reshape(array.shape) for name, array in case.arrays.items()
    }
    return after, stats


def check(program: Program, seed: int = 0, options: Options | None = None) -> Stats:
    """Runs a program and compares every array with what it must hold.

    Raises:
        AssertionError: an array holds something else.
    """
    case = program.case(np.random.default_rng(seed))
    after, stats = run(program, case, options)
    for name, before in case.arrays.items():
        if name in case.ignored:
            continue
        expected = case.expected.get(name)
        if expected is None:
            assert np.array_equal(after[name].reshape(-1).view(np.uint8), before.reshape(-1).view(np.uint8)), (
                f"{program.name} changed {name}"
            )
            continue
        wrong = expected.misses(after[name])
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise AssertionError(
                f"{program.name}: {int(wrong.sum())} of {wrong.size} elements of {name} are wrong; the first at "
                f"{first}: {after[name][first]}, not {expected.values[first]}"
            )
    return stats
