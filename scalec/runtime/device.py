"""The device interface: all that the runtime asks of a GPU. The CUDA driver, the emulator and the tests implement it.

Addresses, streams and places are plain numbers: an address is that of device memory, a stream is a CUstream handle
(0: the legacy default stream), a place is ("cuda", ordinal) or ("cpu", 0).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scalec.runtime.trampoline import Trampoline

Place = tuple[str, int]
Launcher = Callable[[int], None]


@dataclass(frozen=True)
class TensorMap:
    """What a tensor map (CUtensorMap, PTX ISA 5.5.8) is made of; all sequences are innermost first.

    Attributes:
        element: the kind of element: "u8", "u64", "f16", "bf16", "f32", "i32", or one that copies pad to 16
            elements in 16 bytes: "b4x16_p64", "b6x16_p32".
        address: of the first element.
        extents: of the tensor, in elements.
        strides: bytes between consecutive indices of each dimension but the innermost.
        box: extents of one copy.
        swizzle: bytes of the swizzle: 0, 32, 64 or 128.
        atom: bytes that it keeps together: 16, or of 128 bytes 32.
    """

    element: str
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    atom: int = 16


Parameter = ctypes.c_int32 | ctypes.c_int64 | ctypes.c_uint64 | ctypes.c_float | ctypes.Array


class Device(Protocol):
    """A machine that runs kernels."""

    name: str  # for people, e.g. "NVIDIA H200"
    capability: tuple[int, int]  # (major, minor) compute capability
    sms: int  # how many SMs it has
    place: Place  # where its tensors live
    image: str  # what `load` takes: "cubin" or "ptx"
    checks: bool  # whether index tensors are checked before each launch, whatever SCALEC_CHECK says

    def load(self, image: bytes, entry: str, shared_bytes: int) -> Any:
        """The function `entry` of a cubin or a PTX text, allowed `shared_bytes` of dynamic shared memory.

        Raises:
            DeviceError: it cannot be loaded.
        """
        ...

    def clusters(self, function: Any, threads: int, shared_bytes: int, cluster: int) -> int:
        """How many clusters of `cluster` CTAs run at once."""
        ...

    def encode(self, tensor_map: TensorMap) -> ctypes.Array:
        """The 128 bytes of a tensor map."""
        ...

    @property
    def mover(self) -> Callable[[ctypes.Array], Callable[[int], None]] | None:
        """Of a tensor map that `encode` made, what points it at another address, in place; None where each launch is
        prepared anew."""
        ...

    @property
    def trampoline(self) -> Callable[..., Trampoline | None] | None:
        """What makes a launch in one call of native code; None where each launch is made by `prepare`.

        Its arguments are those of `prepare`, with `slots` (scalec.runtime.trampoline.Slot) for parameters, and for
        tensors what trampoline.make takes of them. It gives None where there can be none.
        """
        ...

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
        """A callable that launches `function` on a stream, as often as wished; it keeps `parameters` alive.

        Args:
            tensors: (name, address, bytes) of the memory that the launch may touch.
            dependent: whether it may begin while the kernel before it in its stream still runs (abi.Launch).
        """
        ...

    def locate(self, address: int) -> Place:
        """Where the memory of an address is."""
        ...

    def allocate(self, size: int, stream: int) -> int:
        """`size` bytes of device memory, usable on `stream` from now on, without host synchronisation."""
        ...

    def free(self, address: int, stream: int) -> None:
        """Gives memory back once the work now on `stream` is done, without host synchronisation."""
        ...

    def reserve(self, size: int) -> int:
        """`size` bytes of zeros for a kernel's own use on any stream, until `release`.

        They are there on return; streams that are being captured into a graph take no part in it.
        """
        ...

    def release(self, address: int) -> None:
        """Gives back what `reserve` gave, once all work on the device is done."""
        ...

    def upload(self, address: int, data: bytes | memoryview, stream: int) -> None:
        """Copies host bytes to device memory; the host bytes may be reused on return."""
        ...

    def download(self, address: int, size: int, stream: int) -> bytes:
        """Copies device memory to the host, after the work now on `stream`."""
        ...

    def read(self, address: int, size: int, stream: int) -> bytes | None:
        """Copies memory of a caller's tensor to the host, after the work now on `stream`; None where that is being
        captured into a graph, and nothing can be read."""
        ...

    def order(self, first: int, then: int) -> None:
        """Work given to stream `then` from now on runs after the work now on stream `first`."""
        ...

    def synchronize(self, stream: int) -> None:
        """Waits for the work on `stream`."""
        ...
