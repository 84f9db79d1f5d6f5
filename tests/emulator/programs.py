"""The PTX under data/ that other compilers made, with what it is launched on and what must come out.

Nothing here imports the emulator. `programs()` gives them all; each has a `case(rng)`: memory, parameters, results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Pointer:
    """A parameter: the address of an array, plus so many bytes."""

    array: str
    offset: int = 0


@dataclass(frozen=True)
class TensorMap:
    """A parameter of 128 bytes: a tensor map over an array, dimension 0 innermost."""

    array: str  # its name among the case's arrays
    element: str  # as PTX ISA 5.5.1 has it: "bf16", "u8", "b4x16_p64", .
    extents: tuple[int, ...]  # elements along each dimension
    strides: tuple[int, ...]  # bytes along dimensions 1 and up
    box: tuple[int, ...]  # elements along each dimension
    swizzle: int = 0  # bytes of the span: 0, 32, 64, 128
    interleave: int = 0  # bytes: 0, 16, 32
    fill: str = "zero"


@dataclass(frozen=True)
class Scratch:
    """A parameter: the address of memory for the kernel's own use."""

    bytes: int
    align: int = 16


Parameter = Pointer | TensorMap | Scratch | np.generic | bytes


@dataclass(frozen=True)
class Expected:
    """What an array holds after the launch."""

    values: np.ndarray  # of the array's shape; float64 or integers, of which as many bits count as the array has
    tolerance: Any = 0  # of floats: the largest difference, a number or of the array's shape

    def misses(self, actual: np.ndarray) -> np.ndarray:
        """Which elements of `actual` are wrong; not-a-number agrees with not-a-number alone."""
        if actual.dtype.kind in "iu":
            return actual != self.values.astype(actual.dtype)
        want = np.asarray(self.values, np.float64)
        have = actual.astype(np.float64)
        with np.errstate(invalid="ignore"):
            close = np.abs(have - want) <= self.tolerance
        return ~(close | (have == want) | (np.isnan(have) & np.isnan(want)))


@dataclass
class Case:
    """One launch."""

    arrays: dict[str, np.ndarray]  # what lies in global memory
    parameters: list[Parameter]  # of the kernel, in order
    expected: dict[str, Expected]  # array -> what it holds afterwards. An array that is not named stays as it is.
    blank: frozenset[str] = frozenset()  # arrays whose bytes count as unwritten before the launch
    grid: tuple[int, int, int] | None = None  # instead of the program's
    ignored: frozenset[str] = frozenset()  # arrays of which nothing is asked afterwards


@dataclass(frozen=True)
class Program:
    """A stored PTX file and how it is launched."""

    name: str  # of the test
    path: Path  # the PTX
    entry: str
    target: str
    grid: tuple[int, int, int]  # CTAs along x, y, z
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: int  # dynamic shared memory in bytes
    case: Callable[[np.random.Generator], Case]  # makes memory, parameters and results

    @property
    def text(self) -> str:
        return self.path.read_text()


@dataclass
class Given:
    """What a program's author says of a launch, by the names of the kernel's arguments.

    Attributes:
        values: argument -> array (passed by its address), numpy scalar, or Python int (of the parameter's type).
        expected: array -> what it holds afterwards.
        blank: outputs, unwritten before.
        grid: programs along x, y, z.
        maps: argument -> array that its tensor map is over; by default the argument's own name.
    """

    values: dict[str, Any]
    expected: dict[str, Expected]
    grid: tuple[int, ...] = (1,)
    maps: Mapping[str, str] = field(default_factory=dict)


def blank(shape: tuple[int, ...] | int, dtype: Any) -> np.ndarray:
    """An output that must be written: every byte 0xFF, not-a-number in every floating type."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = 0xFF
    return array


# the codes that PTX ISA 5.5.1 gives element types in tensormap.replace, which Triton's metadata repeats
ELEMENTS = {0: "u8", 1: "u16", 2: "u32", 3: "s32", 6: "f16", 7: "f32", 9: "f64", 10: "bf16", 14: "b4x16_p64"}
SCALARS = {"i32": np.int32, "i64": np.int64, "u32": np.uint32, "fp32": np.float32, "fp64": np.float64}


def triton_program(name: str, row: Mapping[str, Any], give: Callable[[np.random.Generator], Given]) -> Program:
    """A program of data/triton: its parameters in Triton's order (data/triton/README.md)."""

    def case(rng: np.random.Generator) -> Case:
        given = give(rng)
        arrays = {key: value for key, value in given.values.items() if isinstance(value, np.ndarray)}
        parameters: list[Parameter] = []
        descriptions = iter(row.get("tensor_maps", ()))
        for argument, kind in row["arguments"].items():
            if kind.startswith("tensordesc"):
                array = given.maps.get(argument, argument)
                parameters.extend(_tensor_map(array, arrays[array], next(descriptions)))
            elif kind.startswith("*"):
                parameters.append(Pointer(argument))
            else:
                parameters.append(SCALARS[kind.partition(":")[0]](given.values[argument]))
        size, align = row["scratch"]
        parameters += [Scratch(size * 64, align), Scratch(0)]
        grid = (*given.grid, 1, 1)[:3]
        outputs = frozenset(
            key for key in given.expected if bool((arrays[key].reshape(-1).view(np.uint8) == 0xFF).all())
        )
        return Case(arrays, parameters, given.expected, outputs, (grid[0] * row["cluster"][0], grid[1], grid[2]))

    return Program(
        name, DATA / "triton" / f"{name}.ptx", row["entry"], row["target"], (1, 1, 1),
        tuple(row["block"]), tuple(row["cluster"]), row["shared"], case,
    )  # fmt: skip


def _tensor_map(name: str, array: np.ndarray, facts: Mapping[str, Any]) -> list[Parameter]:
    """A tensor descriptor takes a map, its shape and its strides in elements."""
    element = ELEMENTS[facts["elem_type"]]
    extents = tuple(reversed(array.shape))
    if element.startswith("b4"):
        extents = (2 * extents[0], *extents[1:])
    strides = tuple(reversed(array.strides))[1:]
    box = tuple(reversed(facts["block_size"]))
    swizzle = (0, 32, 64, 128)[facts["swizzle"]]
    return [
        TensorMap(name, element, extents, strides, box, swizzle),
        *(np.int32(extent) for extent in array.shape),
        *(np.int64(stride // array.itemsize) for stride in array.strides),
    ]


def triton_index() -> dict[str, dict[str, Any]]:
    return json.loads((DATA / "triton" / "index.json").read_text())


def cuda_index() -> dict[str, dict[str, Any]]:
    return json.loads((DATA / "nvcc" / "index.json").read_text())


def programs() -> Iterable[Program]:
    """Every stored program."""
    from tests.emulator import programs_elementwise, programs_gluon, programs_matmul, programs_nvcc

    index = triton_index()
    makers = {**programs_matmul.MAKERS, **programs_elementwise.MAKERS, **programs_gluon.MAKERS}
    for name, row in index.items():
        yield triton_program(name, row, makers[name.rpartition(".")[0]](row))
    yield from programs_nvcc.programs()
