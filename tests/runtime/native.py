"""A driver for trampolines whose functions are Python's, and trampolines of two operands and a result into it."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from scalec.runtime import trampoline
from scalec.runtime.trampoline import Asked, Slot
from scalec.runtime.trampoline_block import F32, POINTER, TENSOR_MAP, U64

CONFIG = struct.pack("7I4xQQI4x", 132, 1, 1, 384, 1, 1, 200000, 0, 0, 1)
ATTRIBUTES = struct.pack("I4xI60x", 6, 1)
STREAM_AT, ATTRS_AT = 32, 40


class Driver:
    """Driver functions in Python: what they were given, and what they answer."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []
        self.context, self.status, self.replaced = 0x100, 0, 0
        self.log: list[Any] = []
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self.functions = (
            ctypes.CFUNCTYPE(number, *[pointer] * 4)(self.launch),
            ctypes.CFUNCTYPE(number, pointer, ctypes.c_uint64)(self.replace),
            ctypes.CFUNCTYPE(number, ctypes.POINTER(ctypes.c_uint64))(self.current),
        )
        self.sizes: list[int] = []

    @property
    def entries(self) -> trampoline.Driver:
        return trampoline.Driver(*[ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self.functions])

    def launch(self, config: int, function: int, table: int, extra: int | None) -> int:
        pointers = (ctypes.c_void_p * len(self.sizes)).from_address(table)
        values = [ctypes.string_at(p or 0, size) for p, size in zip(pointers, self.sizes, strict=True)]
        made = ctypes.string_at(config, 56)
        attributes = ctypes.string_at(struct.unpack_from("Q", made, ATTRS_AT)[0], 72)
        self.launches.append((made, attributes, function, values, extra, [p or 0 for p in pointers]))
        self.log.append("launch")
        return self.status

    def replace(self, tensor_map: int, address: int) -> int:
        ctypes.c_uint64.from_address(tensor_map).value = address
        return self.replaced

    def current(self, context: Any) -> int:
        context[0] = self.context
        return 0


MAP = bytes(range(128))
SLOTS = [
    Slot(b"\1\2\3\4"),
    Slot(MAP, TENSOR_MAP, 0),
    Slot(bytes(8), POINTER, 2),
    Slot(bytes(4), F32, 0),
    Slot(bytes(8), U64, 1),
    Slot(MAP, TENSOR_MAP, 1),
    Slot(MAP, TENSOR_MAP, 1, 0x240),
    Slot(bytes(8), POINTER, 0, 0x18),
]
PLACES = (0x1000, 0x2000, 0x3000)
NOTHING = Asked()


def made(driver: Driver, slots=SLOTS, spans=(256, 256, 256), aligns=(16, 16, 4), asked=NOTHING, **changes) -> Any:
    """A trampoline of two operands and a result."""
    driver.sizes = [len(s.data) for s in slots]
    fields: dict[str, Any] = {"context": 0x100, "function": 0x400, "config": CONFIG, "attributes": ATTRIBUTES} | changes
    return trampoline.make(driver.entries, slots=slots, spans=spans, aligns=aligns, operands=2, asked=asked, **fields)


def call(launch: Any, places=PLACES, numbers=(1.0, 1), stream: Any = 0) -> Any:
    """What it answers: the results, None or False."""
    return launch(tuple(places[:2]), tuple(places[2:]), numbers, stream)
