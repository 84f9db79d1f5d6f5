"""A compiled kernel as a Python callable."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scalec.abi import KernelSpec
from scalec.errors import ArgumentError, DeviceError
from scalec.formats import ELEMENT_TYPES
from scalec.runtime import checks, devices, dlpack
from scalec.runtime.array import DeviceArray
from scalec.runtime.device import Device, Place
from scalec.runtime.plan import Form, Plan, Signature
from scalec.runtime.tensors import TensorView, adopt, is_torch, stream_handle, torch_stream
from scalec.runtime.workspace import Workspaces
from scalec.targets import TARGETS

_PLANS = 256  # shapes that one kernel keeps plans for


@dataclass
class Loaded:
    """A kernel on a device: its function, the clusters that run at once, and the workspaces and plans made so far."""

    device: Device
    function: Any
    clusters: int
    workspaces: Workspaces
    plans: dict[tuple[Any, ...], Plan] = field(default_factory=dict)


class Kernel:
    """A compiled kernel: `C = kernel(A, B, A_scale, B_scale)`.

    Tensors are torch's, or anything with DLPack or `__cuda_array_interface__`. The kernel runs on torch's current
    stream if a torch tensor is given, else on the legacy default stream, or on `stream`; the host does not wait.
    Without `out`, results are allocated: by torch where a torch tensor is given, else as DeviceArray.

    A first call on a GPU loads the kernel; `load` does it early (before a CUDA graph is captured). A kernel that splits
    K has a workspace for each stream (scalec.runtime.workspace): keep it as long as the graphs captured from it.

    Attributes:
        spec: everything known of it.
        cubin: its machine code.
        ptx: its PTX, where it is at hand ("" in a bundle).
        fixed: the device it always runs on; None for the GPU of each call's tensors.
    """

    def __init__(self, spec: KernelSpec, cubin: bytes, *, ptx: str = "", device: Device | None = None) -> None:
        self.spec, self.cubin, self.ptx = spec, cubin, ptx
        self._signature = Signature.of(spec)
        self.fixed = device
        self._loaded: dict[Place, Loaded] = {}
        self._tensors = [i for i, t in enumerate(spec.operands) if not t.scalar]
        self._inout = any(t.inout for t in spec.results)
        self._scalars = [(i, t.name) for i, t in enumerate(spec.operands) if t.scalar]

    @property
    def name(self) -> str:
        """The name of the entry function."""
        return self.spec.entry

    def __repr__(self) -> str:
        inputs = ", ".join(t.name if t.scalar else checks.written(t) for t in self.spec.operands)
        results = ", ".join(map(checks.written, self.spec.results))
        fixed = ", ".join(f"{d}={s}" for d, s in self.spec.dims.items() if s is not None)
        return f"Kernel({results} <- {inputs}; {self.spec.target}{'; ' + fixed if fixed else ''})"

    def __call__(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Runs the kernel.

        Args:
            operands: in the order of spec.operands; by name too.
            out: the result to write, or a tuple of them.
            stream: a CUstream handle, or a stream object.

        Returns:
            The result, or a tuple of several.

        Raises:
            ArgumentError: an argument does not fit; nothing was launched.
            DeviceError: no usable GPU, or the driver refused the launch.
        """
        plain = not named and len(operands) == len(self.spec.operands)
        if plain and out is None and not self._inout:
            values, outs = operands, None
        elif plain and len(self.spec.results) == 1 and is_torch(out):
            values, outs = operands, [out]
        else:
            values, outs = checks.bind(self.spec, operands, out, named)
        tensors = [values[i] for i in self._tensors]
        scalars = tuple([checks.number(name, values[i]) for i, name in self._scalars])
        if outs is not None:
            tensors += outs
        adopted = _all_of_torch(tensors) if self.fixed is None else None
        loaded = self._loaded.get(("cuda", adopted.ordinal)) if adopted is not None else None
        if adopted is not None and loaded is not None:  # the usual call: nothing but torch's tensors on one GPU
            torch_at, key, addresses, views = tensors[0], adopted.key, adopted.addresses, _NO_VIEWS
            handle = torch_stream(adopted.ordinal) if stream is None else stream_handle(stream)
        else:
            torch_at = next((t for t in tensors if is_torch(t)), None)
            loaded = self._loaded_for(tensors, torch_at)
            handle = self._stream(stream, torch_at)
            key, addresses, views = _adopted(self._signature, tensors, handle, loaded.device)
        plan = loaded.plans.get(key)
        if plan is None:
            plan = self._planned(loaded, key, tensors, views, outs is not None, handle)
        if outs is None:
            outs = [_allocate(loaded.device, form, torch_at, handle, stream is not None) for form in plan.results]
            addresses += [o.data_ptr() if torch_at is not None else o.pointer for o in outs]
        if plan.grid:
            if views:
                for view in views.values():
                    if view.ready >= 0:
                        loaded.device.order(view.ready, handle)
            workspace = loaded.workspaces.of(handle, plan.workspace) if plan.workspace[0] else None
            plan.launch(tuple(addresses), scalars, workspace, handle)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def load(self, device: Device | None = None) -> Loaded:
        """Loads the kernel on a device (if none is given, that of scalec.runtime.devices.default), once.

        Raises:
            DeviceError: a GPU that the kernel is not compiled for, or none where one is asked for.
        """
        device = device or self.fixed or devices.default(self.spec.target)
        found = self._loaded.get(device.place)
        if found is not None:
            return found
        row = TARGETS.get(self.spec.target)
        if row is not None and row.capability != device.capability:
            major, minor = device.capability
            raise DeviceError(
                f"{self.name} is compiled for {self.spec.target}, {device.name} is sm_{major}{minor}",
                fix=f"compile it for this GPU, run it on one of {', '.join(row.devices) or self.spec.target}, or on the"
                " emulator with SCALEC_DEVICE=emulator",
            )
        launch = self.spec.launch
        if device.image == "ptx" and not self.ptx:
            raise DeviceError(f"{device.name} runs PTX, and {self.name} came without it", fix="compile it here")
        image = self.ptx.encode() if device.image == "ptx" else self.cubin
        function = device.load(image, self.spec.entry, launch.shared_bytes)
        clusters = device.clusters(function, launch.threads, launch.shared_bytes, launch.cluster)
        return self._loaded.setdefault(device.place, Loaded(device, function, clusters, Workspaces(device)))

    def launch_grid(self, dims: Mapping[str, int], clusters: int | None = None) -> int:
        """CTAs launched for these sizes (those fixed at compile time may be left out).

        Args:
            clusters: clusters that run at once; as on the device it is loaded on, else as on the target's usual part.
        """
        sizes = {name: size for name, size in self.spec.dims.items() if size is not None} | dict(dims)
        missing = [dim for dim, _, _ in self.spec.launch.tiles if dim not in sizes]
        if missing:
            raise ArgumentError(f"the size of {', '.join(missing)} is not given", expected=", ".join(self.spec.dims))
        if clusters is None:
            loaded = next(iter(self._loaded.values()), None)
            row = TARGETS.get(self.spec.target)
            if loaded is None and row is None:
                raise ArgumentError(f"unknown target {self.spec.target!r}", fix="give clusters=")
            clusters = loaded.clusters if loaded is not None else row.sms // self.spec.launch.cluster  # pyright: ignore
        return self.spec.launch.grid(sizes, clusters)

    # --------------------------------------------------------------------------------------------------------- a call

    def _loaded_for(self, tensors: list[Any], torch_at: Any) -> Loaded:
        """The kernel on the device of the call's first tensor of ours, or else of its first GPU tensor."""
        if self.fixed is not None:
            return self._loaded.get(self.fixed.place) or self.load()
        ours = next((t.device for t in tensors if isinstance(t, DeviceArray)), None)
        if ours is not None:
            return self._loaded.get(ours.place) or self.load(ours)
        ordinal = torch_at.get_device() if torch_at is not None and torch_at.is_cuda else None
        if ordinal is None:
            ordinal = next((i for i in map(_ordinal, tensors) if i is not None), None)
        if ordinal is not None and (found := self._loaded.get(("cuda", ordinal))) is not None:
            return found
        return self.load(devices.default(self.spec.target, ordinal))

    def _stream(self, stream: Any, torch_at: Any) -> int:
        if stream is not None:
            return stream_handle(stream)
        return torch_stream(torch_at.get_device()) if torch_at is not None and torch_at.is_cuda else 0

    def _planned(
        self,
        loaded: Loaded,
        key: tuple[Any, ...],
        tensors: list[Any],
        views: dict[int, TensorView],
        given: bool,
        handle: int,
    ) -> Plan:
        signature = self._signature
        seen = [
            views.get(i) or adopt(t.name, value, handle, loaded.device.locate)
            for i, (t, value) in enumerate(zip(signature.tensors, tensors, strict=False))
        ]
        count = len(self._tensors)
        results = seen[count:] if given else None
        plan = Plan.make(signature, loaded.device, loaded.function, loaded.clusters, seen[:count], results)
        while len(loaded.plans) >= _PLANS:
            loaded.plans.pop(next(iter(loaded.plans)), None)
        loaded.plans[key] = plan
        return plan


class _AllOfTorch(NamedTuple):
    """Of tensors that are all torch's: the key of their plan, their addresses, and the GPU of the first."""

    key: tuple[Any, ...]
    addresses: list[int]
    ordinal: int


_NO_VIEWS: dict[int, TensorView] = {}


def _all_of_torch(tensors: list[Any]) -> _AllOfTorch | None:
    """None where another tensor is among them, or one without strides or storage, or where the first is on no GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not tensors:
        return None
    kind, key, addresses = torch.Tensor, [], []
    try:
        for t in tensors:
            if not isinstance(t, kind):
                return None
            key += (t.shape, t.stride(), t.dtype, t.device)
            addresses.append(t.data_ptr())
    except RuntimeError:
        return None
    ordinal = tensors[0].get_device()
    return _AllOfTorch(tuple(key), addresses, ordinal) if ordinal >= 0 and tensors[0].is_cuda else None


def _adopted(
    signature: Signature, tensors: list[Any], handle: int, device: Device
) -> tuple[tuple[Any, ...], list[int], dict[int, TensorView]]:
    """(key of the plan, addresses, views of tensors that are not torch's) of a call's tensors."""
    torch = sys.modules.get("torch")
    kind = torch.Tensor if torch is not None else ()
    key: list[Any] = []
    addresses: list[int] = []
    views: dict[int, TensorView] = {}
    for i, t in enumerate(tensors):
        if isinstance(t, kind):
            try:
                key += (t.shape, t.stride(), t.dtype, t.device)
                addresses.append(t.data_ptr())
                continue
            except RuntimeError:  # no strides or no storage: adopt says what it is
                pass
        view = adopt(signature.tensors[i].name, t, handle, device.locate)
        views[i] = view
        key.append((view.layout, view.read_only))
        addresses.append(view.pointer)
    return tuple(key), addresses, views


def _ordinal(value: Any) -> int | None:
    """The GPU of a tensor that is not torch's, if it says."""
    if hasattr(value, "__cuda_array_interface__"):
        from scalec.runtime import driver

        pointer = value.__cuda_array_interface__["data"][0]
        kind, ordinal = driver.locate(int(pointer)) if pointer else ("", 0)
        return ordinal if kind == "cuda" else None
    if hasattr(value, "__dlpack_device__"):
        kind, ordinal = value.__dlpack_device__()
        return int(ordinal) if int(kind) in (dlpack.CUDA, dlpack.CUDA_MANAGED) else None
    return None


def _allocate(device: Device, form: Form, torch_at: Any, handle: int, foreign: bool) -> Any:
    """A result: torch's where the call has a torch tensor (on the call's stream), else ours."""
    t = form.spec
    if torch_at is None:
        return DeviceArray(device, form.shape, t.dtype, form.strides, handle)
    torch = sys.modules["torch"]
    packed = ELEMENT_TYPES[t.dtype].bits < 8
    dtype = torch.uint8 if packed else getattr(torch, ELEMENT_TYPES[t.dtype].numpy, torch.uint8)
    if not (foreign and torch_at.is_cuda):
        return torch.empty_strided(form.shape, form.strides, dtype=dtype, device=torch_at.device)
    with torch.cuda.stream(torch.cuda.ExternalStream(handle, device=torch_at.device)):
        return torch.empty_strided(form.shape, form.strides, dtype=dtype, device=torch_at.device)
