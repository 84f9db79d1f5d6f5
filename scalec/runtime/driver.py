"""The CUDA driver as a Device, through cuda-bindings, which is imported only when a GPU is asked for.

Works beside torch: a device uses the context that is current on the calling thread if it is one of that GPU, else the
GPU's primary context, which is torch's; a launch leaves the thread's current context as it found it.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple

from scalec.errors import DeviceError
from scalec.runtime import trampoline, trampoline_block
from scalec.runtime.device import Launcher, Parameter, Place, TensorMap
from scalec.targets import TARGETS

_MAP_BYTES, _MAP_ALIGN = 128, 64  # of a CUtensorMap (CUDA driver API, CUtensorMap_st)
_VERSION = 12000  # of the driver API, the first to have tensor maps
_LEGACY_STREAM = 1  # CU_GET_PROC_ADDRESS_LEGACY_STREAM: stream 0 is that one (scalec.runtime.device)
_ATTRS = 40  # offset of CUlaunchConfig.attrs (cuda.h, 64-bit)
_PORTABLE_CLUSTER = 8  # CUDA programming guide, "Thread Block Clusters": 8 CTAs are portable


@cache
def _cuda() -> Any:
    """cuda.bindings.driver, initialised.

    Raises:
        DeviceError: cuda-bindings is missing, or there is no driver or no GPU.
    """
    try:
        cu: Any = import_module("cuda.bindings.driver")
    except ImportError as error:
        raise DeviceError(
            "running a kernel needs cuda-bindings",
            got=str(error),
            expected="a module cuda.bindings",
            fix="pip install 'scalec[gpu]'",
        ) from None
    try:
        result = cu.cuInit(0)
    except Exception as error:  # the loader's own error types differ between releases
        raise DeviceError(
            "no NVIDIA driver on this machine",
            got=str(error),
            expected="libcuda.so.1 of an NVIDIA driver",
            fix="run on a machine with an NVIDIA GPU",
        ) from None
    _check(cu, result, "cuInit")
    return cu


_INVALID_HANDLE = 400
"""CUDA_ERROR_INVALID_HANDLE (CUDA driver API, CUresult)."""
_OF_THIS_GPU = "a stream of the GPU that the tensors are on, which lives"


def _check(cu: Any, result: tuple[Any, ...], call: str, *, fix: str = "") -> Any:
    """What a driver call returned besides its status.

    Raises:
        DeviceError: with the driver's name and text of the error.
    """
    status, *values = result
    if int(status):
        name, text = cu.cuGetErrorName(status)[1], cu.cuGetErrorString(status)[1]
        words = " ".join(part.decode() if isinstance(part, bytes) else str(part) for part in (name, text) if part)
        raise DeviceError(f"{call} failed", got=f"{words} ({int(status)})", fix=fix)
    return values[0] if len(values) == 1 else tuple(values)


class GpuFacts(NamedTuple):
    """One GPU: its ordinal, name, (major, minor) capability, SMs, and the target to compile for ("" if none)."""

    ordinal: int
    name: str
    capability: tuple[int, int]
    sms: int
    target: str


@cache
def facts(ordinal: int) -> GpuFacts:
    """The facts of one GPU.

    Raises:
        DeviceError: no such GPU.
    """
    cu = _cuda()
    handle = _check(cu, cu.cuDeviceGet(ordinal), f"cuDeviceGet({ordinal})")
    # what stands behind the first zero is whatever was there (seen on an H200: zeros, then spaces)
    name = _check(cu, cu.cuDeviceGetName(128, handle), "cuDeviceGetName").partition(b"\0")[0].decode()
    which = cu.CUdevice_attribute

    def attribute(key: Any) -> int:
        return int(_check(cu, cu.cuDeviceGetAttribute(key, handle), "cuDeviceGetAttribute"))

    capability = (
        attribute(which.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        attribute(which.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    )
    target = next((t.name for t in TARGETS.values() if t.capability == capability), "")
    return GpuFacts(ordinal, name, capability, attribute(which.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), target)


def gpus() -> list[GpuFacts]:
    """Every GPU that the driver shows.

    Raises:
        DeviceError: there is no driver.
    """
    cu = _cuda()
    return [facts(i) for i in range(_check(cu, cu.cuDeviceGetCount(), "cuDeviceGetCount"))]


def current_ordinal() -> int:
    """The GPU of the context that is current on this thread; the first GPU where none is current."""
    cu = _cuda()
    context = _check(cu, cu.cuCtxGetCurrent(), "cuCtxGetCurrent")
    return int(_check(cu, cu.cuCtxGetDevice(), "cuCtxGetDevice")) if int(context) else 0


def detect() -> GpuFacts | None:
    """The current GPU's facts, or None where there is no GPU that can be used."""
    try:
        return facts(current_ordinal())
    except DeviceError:
        return None


_devices: dict[tuple[int, int], CudaDevice] = {}


def device(ordinal: int | None = None) -> CudaDevice:
    """A GPU as a Device; the current one (else the first) if no ordinal is given.

    Raises:
        DeviceError: no such GPU, or no driver.
    """
    cu = _cuda()
    context = _check(cu, cu.cuCtxGetCurrent(), "cuCtxGetCurrent")
    here = current_ordinal()
    if ordinal is None:
        ordinal = here
    if not int(context) or here != ordinal:
        handle = _check(cu, cu.cuDeviceGet(facts(ordinal).ordinal), "cuDeviceGet")
        context = _check(cu, cu.cuDevicePrimaryCtxRetain(handle), "cuDevicePrimaryCtxRetain")
    key = (ordinal, int(context))
    return _devices.setdefault(key, CudaDevice(facts(ordinal), context))


def locate(address: int) -> Place:
    """Where the memory of an address is, by the driver's tables; the host where it knows nothing of it."""
    cu = _cuda()
    which = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status, ordinal = cu.cuPointerGetAttribute(which, address)
    return ("cpu", 0) if int(status) else ("cuda", int(ordinal))


@cache
def _entries(cu: Any) -> trampoline.Driver | None:
    """Addresses of the driver's functions that a trampoline calls; None where it has not got them."""
    found = []
    for name in ("cuLaunchKernelEx", "cuTensorMapReplaceAddress", "cuCtxGetCurrent"):
        status, address, *_ = cu.cuGetProcAddress(name.encode(), _VERSION, _LEGACY_STREAM)
        if int(status) or not address:
            return None
        found.append(int(address))
    return trampoline.Driver(*found)


_SWIZZLES = {(0, 16): "NONE", (32, 16): "32B", (64, 16): "64B", (128, 16): "128B", (128, 32): "128B_ATOM_32B"}
_ELEMENTS = {
    "u8": "UINT8",
    "u64": "UINT64",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT32",
    "i32": "INT32",
    "b4x16_p64": "16U4_ALIGN16B",
    "b6x16_p32": "16U6_ALIGN16B",
}


class CudaDevice:
    """One GPU in one context. See scalec.runtime.device.Device for what each method does."""

    image = "cubin"
    checks = False

    def __init__(self, gpu: GpuFacts, context: Any) -> None:
        self._cu, self._context, self._handle = _cuda(), context, int(context)
        self.name, self.capability, self.sms = gpu.name, gpu.capability, gpu.sms
        self.ordinal = gpu.ordinal
        self.place: Place = ("cuda", gpu.ordinal)

    def __repr__(self) -> str:
        return f"CudaDevice({self.name}, cuda:{self.ordinal})"

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Our context is the thread's current one in the body."""
        cu = self._cu
        if int(cu.cuCtxGetCurrent()[1]) == self._handle:
            yield
            return
        _check(cu, cu.cuCtxPushCurrent(self._context), "cuCtxPushCurrent")
        try:
            yield
        finally:
            _check(cu, cu.cuCtxPopCurrent(), "cuCtxPopCurrent")

    # ------------------------------------------------------------------------------------------------------- kernels

    def load(self, image: bytes, entry: str, shared_bytes: int) -> Any:
        cu, which = self._cu, self._cu.CUfunction_attribute
        with self._current():
            module = _check(cu, cu.cuModuleLoadData(image), "cuModuleLoadData")
            name = f"cuModuleGetFunction({entry})"
            function = _check(cu, cu.cuModuleGetFunction(module, entry.encode()), name)
            key = which.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            what = f"cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES, {shared_bytes})"
            _check(cu, cu.cuFuncSetAttribute(function, key, shared_bytes), what)
        return function

    def clusters(self, function: Any, threads: int, shared_bytes: int, cluster: int) -> int:
        """Clusters that run at once: SMs without cluster; with one, what the driver says (a GPC's SMs may not divide
        by the cluster, and one cluster that does not fit would run after all the others)."""
        cu = self._cu
        if cluster == 1:
            return self.sms
        with self._current():
            if cluster > _PORTABLE_CLUSTER:
                key = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
                _check(cu, cu.cuFuncSetAttribute(function, key, 1), "cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE)")
            attribute = cu.CUlaunchAttribute()
            attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            shape = attribute.value.clusterDim
            shape.x, shape.y, shape.z = cluster, 1, 1
            attribute.value.clusterDim = shape
            config = cu.CUlaunchConfig()
            config.gridDimX, config.gridDimY, config.gridDimZ = max(self.sms // cluster, 1) * cluster, 1, 1
            config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
            config.sharedMemBytes, config.attrs, config.numAttrs = shared_bytes, [attribute], 1
            most = _check(
                cu,
                cu.cuOccupancyMaxActiveClusters(function, config),
                "cuOccupancyMaxActiveClusters",
                fix="a smaller cluster or tile",
            )
        if most < 1:
            raise DeviceError(
                f"no cluster of {cluster} CTAs with {shared_bytes} bytes of shared memory fits on {self.name}",
                expected="room for one cluster at least",
                fix="a smaller cluster",
            )
        return min(int(most), self.sms // cluster)

    def encode(self, tensor_map: TensorMap) -> ctypes.Array:
        cu, m = self._cu, tensor_map
        with self._current():
            result = cu.cuTensorMapEncodeTiled(
                getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_ELEMENTS[m.element]}"),
                len(m.extents),
                m.address,
                [cu.cuuint64_t(e) for e in m.extents],
                [cu.cuuint64_t(s) for s in m.strides],
                [cu.cuuint32_t(e) for e in m.box],
                [cu.cuuint32_t(1)] * len(m.extents),
                cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                getattr(cu.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[m.swizzle, m.atom]}"),
                cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        made = _check(cu, result, f"cuTensorMapEncodeTiled({m})")
        room = ctypes.create_string_buffer(_MAP_BYTES + _MAP_ALIGN)
        aligned = (ctypes.c_char * _MAP_BYTES).from_buffer(room, -ctypes.addressof(room) % _MAP_ALIGN)
        ctypes.memmove(aligned, made.getPtr(), _MAP_BYTES)
        return aligned

    def mover(self, tensor_map: ctypes.Array) -> Callable[[int], None]:
        cu, replace = self._cu, self._cu.cuTensorMapReplaceAddress
        seen = cu.CUtensorMap(_ptr=ctypes.addressof(tensor_map))

        def move(address: int, _kept: ctypes.Array = tensor_map) -> None:
            result = replace(seen, address)
            if result[0]:  # a thread that has not used CUDA yet has no context, and the call asks for one
                with self._current():
                    _check(cu, replace(seen, address), f"cuTensorMapReplaceAddress({address:#x})")

        return move

    def _config(self, grid: int, threads: int, shared_bytes: int, stream: int, dependent: bool) -> Any:
        """How a launch is made (CUDA driver API, cuLaunchKernelEx); a dependent one waits itself for the one before."""
        cu = self._cu
        config = cu.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes, config.hStream = shared_bytes, stream
        if dependent:
            attribute = cu.CUlaunchAttribute()
            attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            config.attrs, config.numAttrs = [attribute], 1
        return config

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
        cu, context, handle, current = self._cu, self._context, self._handle, self._cu.cuCtxGetCurrent
        kept = tuple(parameters)
        table = (ctypes.c_void_p * max(len(kept), 1))(*map(ctypes.addressof, kept))
        address = ctypes.addressof(table)
        starts: dict[int, Callable[[], Any]] = {}  # by stream, all but the call made: a third less of the host's time

        def launch(stream: int, _kept: Any = (kept, table)) -> None:
            start = starts.get(stream)
            if start is None:
                config = self._config(grid, threads, shared_bytes, stream, dependent)
                start = starts[stream] = partial(cu.cuLaunchKernelEx, config, function, address, 0)
            now = current()[1]
            if now == context or int(now) == handle:
                result = start()
            else:
                with self._current():
                    result = start()
            if result[0]:  # an int that is 0 for success
                what = f"cuLaunchKernelEx of {grid} CTAs of {threads} threads, {shared_bytes} bytes shared"
                _check(cu, result, what, fix=_OF_THIS_GPU if int(result[0]) == _INVALID_HANDLE else "")

        return launch

    def trampoline(
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
    ) -> trampoline.Trampoline | None:
        entries = _entries(self._cu)
        if entries is None:
            return None
        made = self._config(grid, threads, shared_bytes, 0, dependent)
        config = ctypes.string_at(int(made.getPtr()), trampoline_block.CONFIG)
        (at,) = struct.unpack_from("Q", config, _ATTRS)
        attributes = ctypes.string_at(at, trampoline_block.ATTRIBUTE) if dependent else b""
        return trampoline.make(
            entries, self._handle, int(function), config, attributes, slots, spans, aligns, operands, asked
        )

    # -------------------------------------------------------------------------------------------------------- memory

    def locate(self, address: int) -> Place:
        return locate(address)

    def allocate(self, size: int, stream: int) -> int:
        with self._current():
            return int(_check(self._cu, self._cu.cuMemAllocAsync(size, stream), f"cuMemAllocAsync({size})"))

    def free(self, address: int, stream: int) -> None:
        with self._current():
            _check(self._cu, self._cu.cuMemFreeAsync(address, stream), "cuMemFreeAsync")

    @contextmanager
    def _beside_captures(self) -> Iterator[None]:
        """In the body this thread may call what a capture of another stream, or of its own, would forbid."""
        cu = self._cu
        relaxed = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        with self._current():
            before = _check(cu, cu.cuThreadExchangeStreamCaptureMode(relaxed), "cuThreadExchangeStreamCaptureMode")
            try:
                yield
            finally:
                cu.cuThreadExchangeStreamCaptureMode(before)

    def reserve(self, size: int) -> int:
        cu = self._cu
        with self._beside_captures():
            address = int(_check(cu, cu.cuMemAlloc(size), f"cuMemAlloc({size})"))
            stream = self.stream()
            _check(cu, cu.cuMemsetD8Async(address, 0, size, stream), "cuMemsetD8Async")
            _check(cu, cu.cuStreamSynchronize(stream), "cuStreamSynchronize")
            _check(cu, cu.cuStreamDestroy(stream), "cuStreamDestroy")
        return address

    def release(self, address: int) -> None:
        with self._beside_captures():
            _check(self._cu, self._cu.cuMemFree(address), "cuMemFree")

    def upload(self, address: int, data: bytes | memoryview, stream: int) -> None:
        source = (ctypes.c_ubyte * len(data)).from_buffer_copy(data)
        with self._current():
            result = self._cu.cuMemcpyHtoDAsync(address, ctypes.addressof(source), len(data), stream)
            _check(self._cu, result, "cuMemcpyHtoDAsync")
            self.synchronize(stream)

    def download(self, address: int, size: int, stream: int) -> bytes:
        target = (ctypes.c_ubyte * size)()
        with self._current():
            result = self._cu.cuMemcpyDtoHAsync(ctypes.addressof(target), address, size, stream)
            _check(self._cu, result, "cuMemcpyDtoHAsync")
            self.synchronize(stream)
        return bytes(target)

    def read(self, address: int, size: int, stream: int) -> bytes | None:
        cu = self._cu
        with self._current():
            capturing = _check(cu, cu.cuStreamIsCapturing(stream), "cuStreamIsCapturing")
        if capturing != cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE:
            return None
        return self.download(address, size, stream)

    # ----------------------------------------------------------------------------------------------- streams, events

    def stream(self) -> int:
        """A new stream that does not wait for the legacy default stream."""
        flags = self._cu.CUstream_flags.CU_STREAM_NON_BLOCKING
        with self._current():
            return int(_check(self._cu, self._cu.cuStreamCreate(flags), "cuStreamCreate"))

    def order(self, first: int, then: int) -> None:
        if first == then:
            return
        event = self.record(first, timing=False)
        with self._current():
            _check(self._cu, self._cu.cuStreamWaitEvent(then, event, 0), "cuStreamWaitEvent")
            _check(self._cu, self._cu.cuEventDestroy(event), "cuEventDestroy")

    def record(self, stream: int, timing: bool = True) -> Any:
        """An event recorded on a stream now."""
        cu = self._cu
        flags = cu.CUevent_flags.CU_EVENT_DEFAULT if timing else cu.CUevent_flags.CU_EVENT_DISABLE_TIMING
        with self._current():
            event = _check(cu, cu.cuEventCreate(flags), "cuEventCreate")
            _check(cu, cu.cuEventRecord(event, stream), "cuEventRecord")
        return event

    def elapsed(self, first: Any, last: Any) -> float:
        """Seconds between two recorded events; waits for the last."""
        cu = self._cu
        with self._current():
            _check(cu, cu.cuEventSynchronize(last), "cuEventSynchronize")
            return _check(cu, cu.cuEventElapsedTime(first, last), "cuEventElapsedTime") / 1e3

    def synchronize(self, stream: int) -> None:
        with self._current():
            _check(self._cu, self._cu.cuStreamSynchronize(stream), "cuStreamSynchronize")
