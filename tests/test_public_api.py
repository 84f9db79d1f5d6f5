"""What scalec.__all__ names, the functions of its modules and the methods of what they return, found by looking: each
parameter in turn with values that nobody should give, the others right. scalec.errors, nothing else."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import scalec
from scalec import frontend, reference
from scalec.api import Bundle, Program
from scalec.errors import shown
from scalec.formats import FORMATS
from scalec.ir import context as contexts
from scalec.runtime import bundle
from scalec.runtime.array import DeviceArray
from scalec.runtime.devices import emulator
from tests.nasty import VALUES, only_ours

PRODUCT = "C[m,n] = A[m,k]@B[n,k]"
SIZES = {"n": 16, "k": 16}
BYTES = np.arange(16, dtype=np.uint8).reshape(2, 8)
(LEVEL,) = FORMATS["mxfp8"].lhs
OPERANDS = tuple(np.ones((rows, 16), ml_dtypes.bfloat16) for rows in (8, 16))
OUT = np.empty((8, 16), ml_dtypes.bfloat16)
ROWS = np.ones((4, 32), np.float32)
VALUES8 = np.ones((4, 32), ml_dtypes.float8_e4m3fn)
CALLED = ("__call__", "__getitem__", "__contains__")
"""Methods with a name of Python's own that users call."""


GOOD: dict[str, Any] = {
    "source": PRODUCT,
    "target": "sm_90a",
    "dims": {**SIZES, "m": 8},
    "sizes": {**SIZES, "m": 8},
    "exact": True,
    "x": np.ones((2, 64)),
    "y": np.ones((2, 64)),
    "amax": 1.0,
    "codes": BYTES,
    "packed": BYTES,
    "array": BYTES,
    "scales": BYTES,
    "values": BYTES,
    "element": "e4m3",
    "layout": "col",
    "level": LEVEL,
    "outer": 1.0,
    "diff": 1.0,
    "max_error": 1.0,
    "levels": [LEVEL],
    "shape": (2, 8),
    "key": "C",
    "name": "C",
    "blocked": np.zeros((128, 4), np.uint8),
    "rows": 2,
    "cols": 3,
    "value": 0,
    "operands": OPERANDS,
    "stream": 0,
}
"""What a parameter of this name is right with."""

OWN: dict[str, dict[str, Any]] = {
    "compile": {"dims": SIZES},
    "Kernel.bind": {"out": OUT},
    "Program.bind": {"out": OUT},
    "dequantize": {"values": VALUES8, "scale": np.ones((4, 1), np.uint8), "format": "mxfp8", "target": "sm_90a"},
    "differentiable": {"target": "sm_90a"},
    "quantize": {"x": ROWS, "format": "mxfp8", "target": "sm_90a"},
    "reference.dequantize": {"values": np.zeros((2, 8), np.uint8), "scales": [np.ones((2, 1), np.uint8)]},
    "reference.from_words": {"words": np.zeros((2, 3, 8), np.uint8)},
    "reference.from_packed": {"packed": np.zeros((2, 2), np.int32), "count": 3},
    "reference.make": {"dims": {"m": 8}},
    "reference.quantize_format": {"name": "mxfp8", "side": "rhs", "rounding": "up"},
    "silu_mul_quantize": {"gate": ROWS, "up": ROWS, "format": "mxfp8", "target": "sm_90a"},
    "reference.run": {"arguments": dict(zip("AB", OPERANDS, strict=True))},
}
"""What it is right with for one function alone."""


@dataclass(frozen=True)
class Entry:
    """A function that users call, and right arguments by parameter."""

    function: Callable[..., object]
    good: Mapping[str, Any]

    def call(self, name: str = "", value: object = None) -> object:
        """Right arguments, but for one parameter."""
        named = {**self.good, name: value} if name else dict(self.good)
        parameters = inspect.signature(self.function).parameters.values()
        first = [named.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in named]
        operands = named.pop("operands", ())
        return self.function(*first, *(operands if isinstance(operands, tuple) else [operands]), **named)


def functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., object]]]:
    """What a module says is public, or all that it defines."""
    for name in getattr(module, "__all__", None) or vars(module):
        value = getattr(module, name)
        if inspect.isfunction(value) and value.__module__.startswith(module.__name__) and not name.startswith("_"):
            yield f"{module.__name__.removeprefix('scalec.')}.{name}", value


def methods(thing: object) -> Iterator[tuple[str, Callable[..., object]]]:
    """The methods of an object that users call; not what makes one of another kind's (class methods)."""
    for name in dir(type(thing)):
        method = getattr(type(thing), name)
        if (not name.startswith("_") or name in CALLED) and callable(method) and not inspect.ismethod(method):
            yield f"{type(thing).__name__}.{name}", getattr(thing, name)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Entry]]:
    """Every public function and method, by name."""
    folder = tmp_path_factory.mktemp("public")
    with pytest.MonkeyPatch.context() as patch, contexts.context():
        patch.setenv("SCALEC_DEVICE", "emulator")
        kernel = scalec.compile(PRODUCT, "sm_90a", SIZES)
        bundle.write(folder, [kernel])
        module = frontend.build(PRODUCT, SIZES)
        good = {**GOOD, "directory": folder, "module": module, "text": kernel.spec.to_json()}
        good["data"] = json.loads(good["text"])
        things = [
            *(kernel, scalec.compile(PRODUCT, "sm_90a", {**SIZES, "m": "1:8"}), kernel.bind(*OPERANDS, out=OUT)),
            *(
                Bundle({"C": Program("C", [kernel])}),
                kernel.spec,
                DeviceArray.from_host(emulator("sm_90a"), BYTES, "i8"),
            ),
            *(reference.errors(1, 1), reference.quantize_format(np.ones((2, 64)), "mxfp8")),
        ]
        named = [(name, getattr(scalec, name)) for name in scalec.__all__]
        found = dict(pair for pair in named if inspect.isfunction(pair[1]))
        for some in (*(functions(v) for _, v in named if inspect.ismodule(v)), *map(methods, things)):
            found.update(some)
        every = {}
        for name, function in found.items():
            known = {**good, **OWN.get(name, {})}
            parameters = inspect.signature(function).parameters.values()
            needed = {p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
            assert needed <= known.keys(), f"{name}: what is right for {needed - known.keys()}? Say so in GOOD or OWN"
            every[name] = Entry(function, {n: known[n] for n in {*needed, *OWN.get(name, {})}})
        yield every


def test_all_are_found(entries: dict[str, Entry]) -> None:
    returned = {"Kernel", "Program", "Bound", "Bundle", "KernelSpec", "DeviceArray", "Errors", "Quantized"}
    modules = {"env", "errors", "reference"}
    functions = {"compile", "dequantize", "differentiable", "grad", "load", "quantize", "silu_mul_quantize"}
    assert {name.split(".")[0] for name in entries} == {*functions, *modules, *returned}
    assert {f"reference.{n}" for n in reference.__all__ if inspect.isfunction(getattr(reference, n))} <= entries.keys()


def test_right_arguments_are_taken(entries: dict[str, Entry]) -> None:
    for entry in entries.values():
        entry.call()


def test_wrong_ones_are_refused_by_name(entries: dict[str, Entry]) -> None:
    faults = []
    for name, entry in entries.items():
        for parameter in inspect.signature(entry.function).parameters:
            for value in VALUES:
                try:
                    only_ours(lambda entry=entry, p=parameter, v=value: entry.call(p, v), parameter)
                except AssertionError as error:
                    faults.append(f"{name}, {shown(value)}: {error!s:.300}")
    assert not faults, "\n".join([f"{len(faults)} faults", *faults])
