"""A device without a GPU: it records launches and tensor maps; its memory is the host's."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scalec.abi import PARAMETERS, Argument, Extent, KernelSpec, Launch, TensorSpec
from scalec.runtime import trampoline, trampoline_block
from scalec.runtime.device import Parameter, Place, TensorMap

CONTEXT = 0x100  # the driver's handle of the device's context


@dataclass
class Recorded:
    """One launch, its parameters as Python values (a tensor map as its TensorMap)."""

    function: Any
    grid: int
    threads: int
    shared_bytes: int
    stream: int
    parameters: list[Any]
    dependent: bool = False
    native: bool = False


@dataclass
class FakeDevice:
    """Implements scalec.runtime.device.Device."""

    name: str = "Fake H200"
    capability: tuple[int, int] = (9, 0)
    sms: int = 132
    place: Place = ("cuda", 0)
    image: str = "cubin"
    checks: bool = False
    capturing: bool = False
    launches: list[Recorded] = field(default_factory=list)
    encoded: list[TensorMap] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    prepared: int = 0
    moved: int = 0
    ordered: list[tuple[int, int]] = field(default_factory=list)
    memory: dict[int, Any] = field(default_factory=dict)
    freed: list[int] = field(default_factory=list)
    reserved: dict[int, int] = field(default_factory=dict)
    released: list[int] = field(default_factory=list)
    places: dict[int, Place] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    run: Callable[[Recorded], None] | None = None
    native: bool = False  # launches by scalec.runtime.trampoline where it can, into a driver of Python functions
    current: int = CONTEXT
    status: int = 0  # that the driver of trampolines gives a launch
    tried: int = 0  # launches that trampolines asked it for

    def load(self, image: bytes, entry: str, shared_bytes: int) -> Any:
        self.loads.append(entry)
        return (entry, image)

    def clusters(self, function: Any, threads: int, shared_bytes: int, cluster: int) -> int:
        return self.sms // cluster

    def encode(self, tensor_map: TensorMap) -> ctypes.Array:
        self.encoded.append(tensor_map)
        return ctypes.create_string_buffer(f"map {len(self.encoded) - 1}".encode(), 128)

    def mover(self, tensor_map: ctypes.Array) -> Callable[[int], None]:
        def move(address: int) -> None:
            self.moved += 1
            self.encoded.append(replace(self.encoded[int(tensor_map.value.split()[1])], address=address))
            tensor_map.value = f"map {len(self.encoded) - 1}".encode()

        return move

    def prepare(
        self,
        function: Any,
        grid: int,
        threads: int,
        shared_bytes: int,
        parameters: Sequence[Parameter],
        tensors: Sequence[tuple[str, int, int]] = (),
        dependent: bool = False,
    ) -> Callable[[int], None]:
        self.prepared += 1

        def launch(stream: int) -> None:
            values = [self._value(p) for p in parameters]
            self.launches.append(Recorded(function, grid, threads, shared_bytes, stream, values, dependent))
            if self.run is not None:
                self.run(self.launches[-1])

        return launch

    @property
    def trampoline(self) -> Callable[..., Any] | None:
        return self._trampoline if self.native else None

    def _trampoline(
        self,
        function: Any,
        grid: int,
        threads: int,
        shared_bytes: int,
        slots: Sequence[trampoline.Slot],
        spans: Sequence[int],
        aligns: Sequence[int],
        operands: int,
        asked: trampoline.Asked,
        dependent: bool = False,
    ) -> Any:
        """A real one, whose driver records what it is given."""
        kinds = {4: ctypes.c_int32, 8: ctypes.c_uint64}

        def launch(config: int, _function: int, table: int, extra: int | None) -> int:
            assert extra is None
            self.tried += 1
            pointers = (ctypes.c_void_p * len(slots)).from_address(table)
            values = []
            for slot, pointer in zip(slots, pointers, strict=True):
                kind = ctypes.c_float if slot.kind == trampoline_block.F32 else kinds.get(len(slot.data))
                assert pointer is not None
                assert pointer % (64 if kind is None else len(slot.data)) == 0
                value = (kind or ctypes.c_char * 128).from_address(pointer).value
                values.append(self.encoded[int(value.split()[1])] if kind is None else value)
            if not self.status:
                stream = ctypes.c_uint64.from_address(config + 32).value
                made = Recorded(function, grid, threads, shared_bytes, stream, values, dependent, native=True)
                self.launches.append(made)
                if self.run is not None:
                    self.run(made)
            return self.status

        def move(tensor_map: int, address: int) -> int:
            self.mover((ctypes.c_char * 128).from_address(tensor_map))(address)
            return 0

        def current(context: Any) -> int:
            context[0] = self.current
            return 0

        number, pointer = ctypes.c_int, ctypes.c_void_p
        functions = [
            ctypes.CFUNCTYPE(number, *[pointer] * 4)(launch),
            ctypes.CFUNCTYPE(number, *[pointer] * 2)(move),
            ctypes.CFUNCTYPE(number, ctypes.POINTER(ctypes.c_uint64))(current),
        ]
        self.kept += functions
        driver = trampoline.Driver(*[ctypes.cast(f, pointer).value or 0 for f in functions])
        config = bytes(trampoline_block.CONFIG)
        return trampoline.make(driver, CONTEXT, 1, config, b"", slots, spans, aligns, operands, asked)

    def _value(self, parameter: Parameter) -> Any:
        if isinstance(parameter, ctypes.Array):
            return self.encoded[int(parameter.value.split()[1])]
        return parameter.value

    def locate(self, address: int) -> Place:
        return self.places.get(address, self.place)

    def allocate(self, size: int, stream: int) -> int:
        buffer = ctypes.create_string_buffer(size + 256)
        address = -(-ctypes.addressof(buffer) // 256) * 256
        self.memory[address] = buffer
        return address

    def free(self, address: int, stream: int) -> None:
        self.freed.append(address)
        self.memory.pop(address)

    def reserve(self, size: int) -> int:
        address = self.allocate(size, 0)
        ctypes.memset(address, 0, size)
        self.reserved[address] = size
        return address

    def release(self, address: int) -> None:
        self.released.append(address)
        self.memory.pop(address)

    def upload(self, address: int, data: bytes | memoryview, stream: int) -> None:
        ctypes.memmove(address, bytes(data), len(data))

    def download(self, address: int, size: int, stream: int) -> bytes:
        return ctypes.string_at(address, size)

    def read(self, address: int, size: int, stream: int) -> bytes | None:
        return None if self.capturing else self.download(address, size, stream)

    def order(self, first: int, then: int) -> None:
        self.ordered.append((first, then))

    def synchronize(self, stream: int) -> None:
        pass


class Tensor:
    """Something with `__cuda_array_interface__` at an address that nobody reads."""

    def __init__(
        self,
        shape: tuple[int, ...],
        typestr: str = "|u1",
        strides: tuple[int, ...] | None = None,
        at: int = 0x10000000,
        stream: int | None = None,
        read_only: bool = False,
    ) -> None:
        size = int(typestr[2:])
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "strides": None if strides is None else tuple(s * size for s in strides),
            "data": (at, read_only),
            "version": 3,
            "stream": stream,
        }


M, N, K = Extent("m"), Extent("n"), Extent("k")
KB, NB = Extent("k", 128), Extent("n", 128)


def gemm_spec(**dims: int | None) -> KernelSpec:
    """The spec of C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128): A and B by tensor maps, the rest by pointers."""
    return KernelSpec(
        source="C[m,n] = A[m,k]@B[n,k] scale(1x128,128x128)",
        target="sm_90a",
        entry="C",
        dims={"m": None, "n": None, "k": None, **dims},
        operands=(
            TensorSpec("A", "e4m3", (M, K)),
            TensorSpec("B", "e4m3", (N, K)),
            TensorSpec("A_scale", "f32", (M, KB), align=4),
            TensorSpec("B_scale", "f32", (NB, KB), align=4),
        ),
        results=(TensorSpec("C", "bf16", (M, N), align=2),),
        arguments=(
            Argument("tensor_map", "A", box=(128, 64), swizzle=128),
            Argument("tensor_map", "B", box=(128, 128), swizzle=128),
            Argument("pointer", "A_scale"),
            Argument("stride", "A_scale", axis=0),
            Argument("pointer", "B_scale"),
            Argument("stride", "B_scale", axis=0),
            Argument("pointer", "C"),
            Argument("stride", "C", axis=0),
            Argument("dim", dim="m"),
        ),
        launch=Launch(384, 200000, 2, (("m", 128, 2), ("n", 128, 1))),
        schedule="tile=128x128x128",
        flops=("m", "n", "k"),
    )


def machine_code(spec: KernelSpec, code: bytes = b"", target: int = 90, abi: int = 8, flags: int = 0) -> bytes:
    """An ELF file of CUDA with the spec's entry point, whose code is these bytes."""
    notes = struct.pack("<BBHIII", 4, 0x10, 12, spec.launch.threads, 1, 1)
    for i, a in enumerate(spec.arguments):
        notes += struct.pack("<BBHIHHI", 4, 0x17, 12, 0, i, 0, PARAMETERS[a.kind] << 18)
    sections = {".text." + spec.entry: code, ".nv.info." + spec.entry: notes, ".shstrtab": b""}
    names, at, rows = b"\0", 64, [bytes(64)]
    sections[".shstrtab"] = b"\0" + b"".join(name.encode() + b"\0" for name in sections)
    for name, data in sections.items():
        rows.append(struct.pack("<IIQQQQIIQQ", len(names), 1, 0, 0, at, len(data), 0, 0, 1, 0))
        names, at = names + name.encode() + b"\0", at + len(data)
    flags = flags or target << 8
    head = struct.pack("<4s4xB7xHHIQQQIHHHHHH", b"\x7fELF", abi, 2, 190, 1, 0, 0, at, flags, 64, 56, 0, 64, 4, 3)
    return head + b"".join(sections.values()) + b"".join(rows)


def code_of(cubin: bytes) -> bytes:
    """What `machine_code` was given."""
    return cubin[64 : cubin.index(struct.pack("<BBH", 4, 0x10, 12))]


def simple_spec(**changes: Any) -> KernelSpec:
    """The spec of C[m,n]:f32 = alpha * (A[m,k] @ B[k,n]) + bias[n], all by pointers."""
    fields: dict[str, Any] = {
        "source": "C[m,n]:f32 = alpha * (A[m,k] @ B[k,n]) + bias[n]",
        "target": "sm_90a",
        "entry": "C",
        "dims": {"m": None, "n": None, "k": None},
        "operands": (
            TensorSpec("alpha", "f32", (), scalar=True),
            TensorSpec("A", "bf16", (M, K), align=2),
            TensorSpec("B", "bf16", (K, N), align=2),
            TensorSpec("bias", "f32", (N,), align=4),
        ),
        "results": (TensorSpec("C", "f32", (M, N), align=4),),
        "arguments": (
            Argument("scalar", "alpha"),
            Argument("pointer", "A"),
            Argument("pointer", "B"),
            Argument("stride", "B", axis=0),
            Argument("pointer", "bias"),
            Argument("pointer", "C"),
            Argument("dim", dim="k"),
        ),
        "launch": Launch(128, 0, 1, (("m", 64, 1), ("n", 64, 1))),
    }
    return KernelSpec(**{**fields, **changes})


def gemm_tensors(m: int = 256, n: int = 512, k: int = 1024, at: int = 0x10000000) -> dict[str, Tensor]:
    """Operands of gemm_spec, each in memory of its own."""
    kb, nb, step = -(-k // 128), -(-n // 128), 1 << 30
    return {
        "A": Tensor((m, k), at=at),
        "B": Tensor((n, k), at=at + step),
        "A_scale": Tensor((m, kb), "<f4", at=at + 2 * step),
        "B_scale": Tensor((nb, kb), "<f4", at=at + 3 * step),
    }
