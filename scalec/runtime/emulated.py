"""The emulator as a Device: runs kernels' PTX on this machine's processor, on tensors in host memory.

A launch is over when it returns, so streams have no meaning here. A mistake that the emulator finds in a kernel is a
DeviceError, with the instruction, the thread and what was expected.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scalec.emulator.findings import EmulatorError, Finding
from scalec.emulator.launch import Loaded
from scalec.emulator.launch import launch as emulate
from scalec.emulator.launch import load as load_text
from scalec.emulator.layouts import tensor_map as tensor_maps
from scalec.emulator.machine.machine import Options
from scalec.emulator.machine.memory import GlobalMemory
from scalec.emulator.stats import Stats
from scalec.errors import DeviceError
from scalec.runtime.device import Launcher, Parameter, Place, TensorMap
from scalec.targets import get_target

SMS = 4  # CTAs that run at once: enough for clusters and persistent kernels, few enough to be done soon
_ELEMENTS = {**{e: e for e in ("u8", "u64", "f16", "bf16", "f32", "b4x16_p64", "b6x16_p32")}, "i32": "s32"}


class EmulatedDevice:
    """A target's GPU, emulated. See scalec.runtime.device.Device for what each method does.

    Attributes:
        options: seed, kinds of findings to pass over, tensor-core mode, progress: see scalec.emulator's Options.
        stats: what the last launch counted.
        memory: the emulator's; its addresses are those of the host.
    """

    image = "ptx"
    mover = trampoline = None  # a launch is told which memory it may touch
    place: Place = ("cpu", 0)

    def __init__(self, target: str) -> None:
        self.name = f"the emulator ({target})"
        self.capability = get_target(target).capability
        self.sms = SMS
        self.options = Options(sms=SMS)
        self.stats: Stats | None = None
        self.memory = GlobalMemory()
        self._arrays: dict[int, np.ndarray] = {}

    def __repr__(self) -> str:
        return f"EmulatedDevice({self.name})"

    # ------------------------------------------------------------------------------------------------------- kernels

    def load(self, image: bytes, entry: str, shared_bytes: int) -> Any:
        try:
            return load_text(image.decode(), self.memory), entry
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
            for name, address, size in tensors:
                if size:
                    self._adopt(name, address, size)
            arguments = [bytes(memoryview(p).cast("B")) for p in kept]
            try:
                self.stats = emulate(
                    loaded,
                    entry,
                    (grid, 1, 1),
                    (threads, 1, 1),
                    arguments,
                    shared_bytes=shared_bytes,
                    options=self.options,
                )
            except EmulatorError as error:
                raise _device_error(entry, error) from error

        return launch

    def watch(self, progress: Callable[[Stats], None] | None) -> None:
        """Calls `progress` now and then during launches with what the launch has counted so far; None ends that."""
        self.options = replace(self.options, progress=progress)

    # -------------------------------------------------------------------------------------------------------- memory

    def _adopt(self, name: str, address: int, size: int) -> None:
        """Makes host memory that its owner keeps alive reachable for a launch, unless it is an allocation of ours."""
        known = self.memory.find(address)
        if known is not None and known.base <= address and address + size <= known.base + known.size:
            if known.base in self._arrays:
                known.name = name
                return
            self.memory.free(known.base)
        view = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        self.memory.adopt(address, view, name)

    def locate(self, address: int) -> Place:
        return self.place

    def allocate(self, size: int, stream: int) -> int:
        raw = np.empty(size + 256, np.uint8)
        start = -raw.ctypes.data % 256
        data = raw[start : start + size]
        address = int(data.ctypes.data)
        self.memory.adopt(address, data, f"allocation of {size} bytes", written=False)
        self._arrays[address] = raw
        return address

    def free(self, address: int, stream: int) -> None:
        self.memory.free(address)
        del self._arrays[address]

    def reserve(self, size: int) -> int:
        address = self.allocate(size, 0)
        self.upload(address, bytes(size), 0)
        return address

    def release(self, address: int) -> None:
        self.free(address, 0)

    def upload(self, address: int, data: bytes | memoryview, stream: int) -> None:
        segment, offset = self._range(address, len(data))
        segment.data[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
        segment.written[offset : offset + len(data)] = True

    def download(self, address: int, size: int, stream: int) -> bytes:
        segment, offset = self._range(address, size)
        return segment.data[offset : offset + size].tobytes()

    def _range(self, address: int, size: int) -> tuple[Any, int]:
        segment = self.memory.find(address)
        if segment is None or address < segment.base or address + size > segment.base + segment.size:
            raise DeviceError(f"{size} bytes at {address:#x} are no memory of {self.name}")
        return segment, address - segment.base

    def order(self, first: int, then: int) -> None:
        """Nothing: every launch is over when it returns."""

    def synchronize(self, stream: int) -> None:
        """Nothing: every launch is over when it returns."""


def _device_error(what: str, error: EmulatorError) -> DeviceError:
    """The finding as an error of this library: what is wrong, where, what was expected, the fix."""
    if isinstance(error, Finding):
        message = f"the emulator stopped {what}: {error.kind}: {error.message}"
        return DeviceError(message, got=error.where, expected=error.expected, fix=error.fix)
    return DeviceError(f"the emulator cannot run {what}: {error}")


_devices: dict[str, EmulatedDevice] = {}


def device(target: str) -> EmulatedDevice:
    """The emulated GPU of a target: always the same one."""
    return _devices.setdefault(target, EmulatedDevice(target))
