"""The emulator as a Device: runs kernels' PTX on this machine's processor, on tensors in host memory.

A launch is over when it returns, so streams have no meaning here, but threads may launch at the same time: each launch
has a memory of its own, which holds the bytes of its tensors and what the judge notes of them, and which ends with the
launch. A mistake that the emulator finds in a kernel is a DeviceError, with the instruction, the thread and what was
expected.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scalec.emulator.findings import SILENT, EmulatorError, Finding
from scalec.emulator.launch import Loaded
from scalec.emulator.launch import launch as emulate
from scalec.emulator.launch import load as load_text
from scalec.emulator.layouts import tensor_map as tensor_maps
from scalec.emulator.machine.memory import GlobalMemory, Segment
from scalec.emulator.machine.options import Options
from scalec.emulator.stats import Stats
from scalec.errors import DeviceError
from scalec.runtime.device import Launcher, Parameter, Place, TensorMap
from scalec.targets import get_target

_ALIGN = 256  # bytes, as cuMemAlloc does
SMS = 4  # CTAs that run at once: enough for clusters and persistent kernels, few enough to be done soon
_ELEMENTS = {**{e: e for e in ("u8", "u64", "f16", "bf16", "f32", "b4x16_p64", "b6x16_p32")}, "i32": "s32"}


class _Reserved(threading.local):
    """A kernel's own memory, which is another one for each thread: launches on one stream would wait for each other."""

    def __init__(self, address: int, size: int) -> None:
        self.segment = Segment("a workspace", "global", address, size, np.zeros(size, np.uint8))


class Allocations:
    """The device's own allocations, by address; a finalizer may free one at any moment, in any thread."""

    def __init__(self) -> None:
        self._segments: dict[int, Segment] = {}
        self._reserved: dict[int, tuple[np.ndarray, _Reserved]] = {}

    def allocate(self, size: int) -> int:
        """`size` bytes that were never written."""
        data = _aligned(size)
        address = int(data.ctypes.data)
        self._segments[address] = Segment(f"allocation of {size} bytes", "global", address, size, data)
        self._segments[address].written[:] = False
        return address

    def reserve(self, size: int) -> int:
        """An address, at which each thread finds `size` bytes of its own, zeros at first."""
        kept = _aligned(size)
        address = int(kept.ctypes.data)
        self._reserved[address] = kept, _Reserved(address, size)
        return address

    def free(self, address: int) -> None:
        """Ends an allocation of either kind."""
        if self._segments.pop(address, None) is None:
            del self._reserved[address]

    def reset(self) -> None:
        """Makes what is reserved zeros, as the calling thread sees it: after a launch that came to no end, counters are
        not what it found."""
        for _, reserved in tuple(self._reserved.values()):
            reserved.segment.data[:] = 0

    def find(self, address: int, size: int = 1) -> Segment | None:
        """The allocation that these bytes lie in, as the calling thread sees it."""
        every = (*tuple(self._segments.values()), *(r.segment for _, r in tuple(self._reserved.values())))
        return next((s for s in every if s.base <= address and address + size <= s.base + s.size), None)


def _aligned(size: int) -> np.ndarray:
    raw = np.empty(size + _ALIGN, np.uint8)
    return raw[-raw.ctypes.data % _ALIGN :][:size]


class EmulatedDevice:
    """A target's GPU, emulated. See scalec.runtime.device.Device for what each method does.

    Attributes:
        options: seed, kinds of findings to pass over, tensor-core mode, progress: see scalec.emulator's Options.
        stats: what the last launch counted.
        memory: allocations of its own; their addresses are those of the host.
    """

    image = "ptx"
    checks = True
    mover = trampoline = None  # a launch is told which memory it may touch
    place: Place = ("cpu", 0)

    def __init__(self, target: str) -> None:
        self.name = f"the emulator ({target})"
        self.capability = get_target(target).capability
        self.sms = SMS
        self.options = Options(sms=SMS, check=frozenset(SILENT))  # kernels of ours leave nothing to what GPUs do
        self.stats: Stats | None = None
        self.memory = Allocations()

    def __repr__(self) -> str:
        return f"EmulatedDevice({self.name})"

    # ------------------------------------------------------------------------------------------------------- kernels

    def load(self, image: bytes, entry: str, shared_bytes: int) -> Any:
        try:
            return load_text(image.decode(), GlobalMemory()), entry
        except EmulatorError as error:
            raise _device_error(entry, error) from error

    def clusters(self, function: Any, threads: int, shared_bytes: int, cluster: int) -> int:
        return max(1, self.sms // cluster)

    def encode(self, tensor_map: TensorMap) -> ctypes.Array:
        m = tensor_map
        described = tensor_maps.TensorMap(
            _ELEMENTS[m.element],
            m.address,
            m.extents,
            m.strides,
            m.box,
            (1,) * len(m.extents),
            swizzle=m.swizzle,
            atomicity=f"{m.atom}B",
        )
        try:
            return ctypes.create_string_buffer(tensor_maps.encode(described), tensor_maps.TENSOR_MAP_BYTES)
        except EmulatorError as error:
            raise _device_error("a tensor map", error) from error

    def prepare(
        self,
        function: Any,
        grid: int,
        threads: int,
        shared_bytes: int,
        parameters: Sequence[Parameter],
        tensors: Sequence[tuple[str, int, int]] = (),
        dependent: bool = False,
    ) -> Launcher:
        loaded: Loaded
        loaded, entry = function
        kept = tuple(parameters)

        def launch(stream: int) -> None:
            try:
                seen = replace(loaded, memory=self._view(loaded.memory, tensors))
            except (MemoryError, OverflowError, ValueError) as error:
                name, _, size = max(tensors, key=lambda t: t[2])
                what = f"{self.name} has no memory to judge {size} bytes of {name} in"
                fix = "smaller sizes, or a GPU"
                raise DeviceError(what, got=str(error), expected="twice the host's memory", fix=fix) from error
            arguments = [bytes(memoryview(p).cast("B")) for p in kept]
            try:
                self.stats = emulate(
                    seen,
                    entry,
                    (grid, 1, 1),
                    (threads, 1, 1),
                    arguments,
                    shared_bytes=shared_bytes,
                    options=replace(self.options, dependent=dependent),
                )
            except BaseException as error:  # Ctrl-C among others
                self.memory.reset()
                if isinstance(error, EmulatorError):
                    raise _device_error(entry, error) from error
                raise

        return launch

    def watch(self, progress: Callable[[Stats], None] | None) -> None:
        """Calls `progress` now and then during launches with what the launch has counted so far; None ends that."""
        self.options = replace(self.options, progress=progress)

    # -------------------------------------------------------------------------------------------------------- memory

    def _view(self, module: GlobalMemory, tensors: Sequence[tuple[str, int, int]]) -> GlobalMemory:
        """The memory of one launch: a module's variables, and tensors (name, address, bytes), which callers keep alive.

        Tensors that share bytes are one segment, so that a byte has one history."""
        memory = GlobalMemory()
        for variable in module.segments():
            memory.adopt(variable.base, variable.data, variable.name)
        for names, address, size in _merged(tensors):
            known = self.memory.find(address, size)
            if known is None:
                # not np.ctypeslib: numpy imports that when first asked, and by two threads at a time recurses for ever
                data = np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)
                memory.adopt(address, data, names)
            else:
                part = slice(address - known.base, address - known.base + size)
                memory.adopt(address, known.data[part], names).written = known.written[part]
        return memory

    def locate(self, address: int) -> Place:
        return self.place

    def allocate(self, size: int, stream: int) -> int:
        return self.memory.allocate(size)

    def free(self, address: int, stream: int) -> None:
        self.memory.free(address)

    def reserve(self, size: int) -> int:
        return self.memory.reserve(size)

    def release(self, address: int) -> None:
        self.memory.free(address)

    def upload(self, address: int, data: bytes | memoryview, stream: int) -> None:
        segment, offset = self._range(address, len(data))
        segment.data[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
        segment.written[offset : offset + len(data)] = True

    def download(self, address: int, size: int, stream: int) -> bytes:
        segment, offset = self._range(address, size)
        return segment.data[offset : offset + size].tobytes()

    def read(self, address: int, size: int, stream: int) -> bytes:
        return ctypes.string_at(address, size)

    def _range(self, address: int, size: int) -> tuple[Segment, int]:
        segment = self.memory.find(address, size)
        if segment is None:
            expected, fix = "an array of this device", "pass numpy arrays, or DeviceArray.from_host of this device"
            what = f"{size} bytes at {address:#x} are no memory of {self.name}"
            raise DeviceError(what, expected=expected, fix=fix)
        return segment, address - segment.base

    def order(self, first: int, then: int) -> None:
        """Nothing: every launch is over when it returns."""

    def synchronize(self, stream: int) -> None:
        """Nothing: every launch is over when it returns."""


def _merged(tensors: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """The tensors that have bytes, by address; those that share some as one, with all their names."""
    found: list[tuple[str, int, int]] = []
    for name, address, size in sorted((t for t in tensors if t[2]), key=lambda t: t[1]):
        if found and address < found[-1][1] + found[-1][2]:
            names, start, before = found.pop()
            found.append((f"{names} and {name}", start, max(before, address + size - start)))
        else:
            found.append((name, address, size))
    return found


def _device_error(what: str, error: EmulatorError) -> DeviceError:
    """The finding as an error of this library: what is wrong, where, what was expected, the fix."""
    if isinstance(error, Finding):
        message = f"the emulator stopped {what}: {error.kind}: {error.message}"
        return DeviceError(message, got=error.where, expected=error.expected, fix=error.fix)
    expected, fix = "PTX that scalec makes, or that docs/emulator.md names", "run it on a GPU"
    return DeviceError(f"the emulator cannot run {what}: {error}", expected=expected, fix=fix)


_devices: dict[str, EmulatedDevice] = {}


def device(target: str) -> EmulatedDevice:
    """The emulated GPU of a target: always the same one."""
    return _devices.setdefault(target, EmulatedDevice(target))
