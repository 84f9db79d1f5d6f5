"""A compiled kernel as a Python callable."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple

from scalec.abi import KernelSpec
from scalec.errors import ArgumentError, DeviceError, shown
from scalec.runtime import checks, devices, torch_calls
from scalec.runtime.array import DeviceArray
from scalec.runtime.bound import Bound
from scalec.runtime.device import Device, Place
from scalec.runtime.form import Form
from scalec.runtime.plan import Plan, packed, remember
from scalec.runtime.ready import Ready
from scalec.runtime.registry import kernels
from scalec.runtime.signature import Signature
from scalec.runtime.tensors import (
    TensorView,
    adopt,
    gpu_of,
    is_numpy,
    is_torch,
    stream_handle,
    torch_stream,
)
from scalec.runtime.workspace import Workspaces
from scalec.sizes import Range
from scalec.targets import TARGETS

_PLANS = 256  # shapes that one kernel keeps plans for
_ALIKE = 4  # strides, types or the like that calls of one shape on one GPU may have by turns
_serials = count()

_tracing: Callable[[], bool] = torch_calls.tracing  # torch's own once torch is there: a sixth of the time
_duals: Any = torch_calls.NoDuals  # likewise


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

    Tensors are torch's, or anything with DLPack or `__cuda_array_interface__`; on the emulator numpy's arrays too. The
    kernel runs on torch's current stream if a torch tensor is given, else on the legacy default stream, or on `stream`;
    the host does not wait. Without `out`, results are allocated: as torch tensors where a torch tensor is given, as
    numpy arrays where all tensors are numpy's (of ml_dtypes' types where numpy has none; elements below 8 bits as
    packed uint8), else as DeviceArray, which has `__dlpack__`, `__array__` and on a GPU `__cuda_array_interface__`.

    Where torch must see the call (torch.compile, torch.export, fake tensors, transforms) it is one op of torch's: `op`.
    It has no backward (scalec.differentiable has): with grad mode on, a tensor that requires grad is refused.

    A first call on a GPU loads the kernel; `load` does it early (before a CUDA graph is captured). A kernel that splits
    K has a workspace for each stream (scalec.runtime.workspace): keep it as long as the graphs captured from it.

    Attributes:
        spec: everything known of it.
        cubin: its machine code.
        ptx: its PTX, where it is at hand ("" in a bundle).
        fixed: the device it always runs on; None for the GPU of each call's tensors.
        serial: its number, of all made in this process.
        signature: what follows from the spec.
    """

    def __init__(self, spec: KernelSpec, cubin: bytes, *, ptx: str = "", device: Device | None = None) -> None:
        self.spec, self.cubin, self.ptx = spec, cubin, ptx
        self.signature = Signature.of(spec)
        self.fixed = device
        self.serial = str(next(_serials))
        self._loaded: dict[Place, Loaded] = {}
        self._count, self._given = len(spec.operands), any(t.given for t in spec.results)
        self._single = len(spec.results) == 1
        self._scalars = [(i, t.name) for i, t in enumerate(spec.operands) if t.scalar]
        self._tensors = _picker([i for i, t in enumerate(spec.operands) if not t.scalar])
        self._sizes = _sizes(self.signature)
        # by the form of the call (see _otherwise): of the last one, and of each of the sizes and GPUs seen
        self._last: list[Ready | None] = [None] * 4
        self._ready: dict[tuple[Any, ...], tuple[Ready, ...]] = {}
        self._op: Any = None
        kernels[self.serial] = self
        _notice_torch()

    @property
    def name(self) -> str:
        """The name of the entry function."""
        return self.spec.entry

    @property
    def op(self) -> Any:
        """The kernel as an op of torch's, `torch.ops.scalec.<name>`: see scalec.runtime.custom_op.

        Calls need not go through it: a call that torch.compile reads becomes this op by itself, and one outside it runs
        without torch's dispatcher. It is registered when it is first asked for, and then stays.

        Raises:
            ArgumentError: torch has not been imported.
        """
        if self._op is None:
            from scalec.runtime import custom_op

            self._op = custom_op.registered(self)
        return self._op

    def __deepcopy__(self, memo: Any) -> Kernel:
        return self  # a copy of a module that holds it has the same

    def __reduce__(self) -> Any:
        return _remade, (self.spec, self.cubin, self.ptx, self.fixed)

    def __repr__(self) -> str:
        inputs = ", ".join(t.name if t.scalar else checks.written(t) for t in self.spec.operands)
        results = ", ".join(map(checks.written, self.spec.results))
        known = {**self.spec.dims, **{d: Range(*within) for d, within in self.spec.ranges.items()}}
        fixed = ", ".join(f"{d}={s}" for d, s in known.items() if s is not None)
        return f"Kernel({results} <- {inputs}; {self.spec.target}{'; ' + fixed if fixed else ''})"

    def __call__(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Runs the kernel.

        Args:
            operands: in the order of spec.operands; by name too.
            out: the result to write, or a tuple of them.
            stream: a CUstream handle, or a stream object.

        Returns:
            The result, or a tuple of several: `out` where that is given, else new ones of the operands' library.

        Raises:
            ArgumentError: an argument does not fit; nothing was launched.
            DeviceError: no usable GPU, or the driver refused the launch.
        """
        if _tracing():
            from scalec.runtime import traced

            return traced.call(self, operands, out, stream, named)
        # the usual call, written out: each function called would cost a twentieth of it. The trampoline sees whether
        # there are as many tensors as there should be, and what `out` is
        usual = stream is None and not named and _duals._current_level < 0
        if usual and (not self._scalars or len(operands) == self._count):
            if self._scalars:
                tensors, scalars = self._tensors(operands), self._numbers(operands)
            else:
                tensors, scalars = operands, ()
            if out is None:
                outs, ready = None, self._last[0]
            else:
                outs, ready = (out,) if self._single else out, self._last[1]
            trampoline = None if ready is None else ready.trampoline  # called by itself: see Bound
            if ready is not None and trampoline is not None:
                made = trampoline(tensors, outs, scalars, None)
                if made is None:
                    made = ready.call_otherwise(tensors, outs, scalars, None)
                if made:
                    return made[0] if self._single else made
        return self._general(operands, out, stream, named)

    def bind(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> Bound:
        """A call that will be made again and again with these very arguments, those of a call: `bound = kernel.bind(A,
        B, out=C)`, then `bound()`. Nothing is launched yet. See Bound for what it keeps and follows.

        Raises:
            ArgumentError: an argument does not fit, or no result is given to write.
            DeviceError: no usable GPU.
        """
        return self._bound(self, operands, out, stream, named)

    def _bound(
        self, call: Callable[..., Any], operands: tuple[Any, ...], out: Any, stream: Any, named: dict[str, Any]
    ) -> Bound:
        """As `bind`; `call` is whom to ask once a tensor is no longer what it was."""
        operands, outs = checks.bind_all(self.spec, operands, out, named)
        tensors, scalars = self._tensors(operands), self._numbers(operands)
        torch, ready, every = _notice_torch(), None, tensors + outs
        if torch is None or not torch_calls.dispatched(torch, every):
            found = self._look(every, True, stream)
            if found.plan.grid:
                found.plan.keep((found.handle, *found.addresses, *packed(scalars)), scalars)
            if found.plain:
                ready = Ready(torch, found.plan, every)
                ready.hasten(tensors, outs, bound=True)
        return Bound(call, operands, outs, stream, tensors, scalars, ready)

    def _run(self, operands: tuple[Any, ...], outs: tuple[Any, ...] | None) -> Any:
        """The call behind torch's dispatcher, with operands, and results (None: allocates them), in order."""
        return self._otherwise(operands, outs, None, 2 if outs is None else 3)

    def load(self, device: Device | None = None) -> Loaded:
        """Loads the kernel on a device (if none is given, that of scalec.runtime.devices.default), once.

        Raises:
            ArgumentError: `device` is none.
            DeviceError: a GPU that the kernel is not compiled for, or none where one is asked for.
        """
        if device is None:
            device = self.fixed or devices.default(self.spec.target)
        elif not hasattr(device, "place"):
            raise ArgumentError(f"{shown(device)} is no device", expected="a device of scalec's", fix="leave it out")
        found = self._loaded.get(device.place)
        if found is not None:
            return found
        row = TARGETS.get(self.spec.target)
        if row is not None and row.capability != device.capability:
            major, minor = device.capability
            raise DeviceError(
                f"{self.name} is compiled for {self.spec.target}, {device.name} is sm_{major}{minor}",
                expected=", ".join(row.devices) or self.spec.target,
                fix="compile it for this GPU, run it on one of those, or on the emulator with SCALEC_DEVICE=emulator",
            )
        launch = self.spec.launch
        if device.image == "ptx" and not self.ptx:
            expected = "a kernel that scalec.compile made in this process, or read with its PTX"
            raise DeviceError(
                f"{device.name} runs PTX, and {self.name} came without it", expected=expected, fix="compile it here"
            )
        image = self.ptx.encode() if device.image == "ptx" else self.cubin
        function = device.load(image, self.spec.entry, launch.shared_bytes)
        clusters = device.clusters(function, launch.threads, launch.shared_bytes, launch.cluster)
        return self._loaded.setdefault(device.place, Loaded(device, function, clusters, Workspaces(device)))

    # --------------------------------------------------------------------------------------------------------- a call

    def _numbers(self, operands: tuple[Any, ...]) -> tuple[float, ...]:
        return tuple([checks.number(name, operands[i]) for i, name in self._scalars])

    def _general(self, operands: tuple[Any, ...], out: Any, stream: Any, named: dict[str, Any]) -> Any:
        """A call of any arguments, right or wrong."""
        outs = None
        if named or len(operands) != self._count:
            operands, outs = checks.bind(self.spec, operands, out, named)
        elif out is not None:
            if self._single and not isinstance(out, _SEVERAL):
                outs = (out,)
            else:
                operands, outs = checks.bind(self.spec, operands, out, named)
        elif self._given:
            checks.bind(self.spec, operands, out, named)  # refuses it
        return self._otherwise(operands, outs, stream, 0 if outs is None else 1)

    def _otherwise(self, operands: tuple[Any, ...], outs: tuple[Any, ...] | None, stream: Any, form: int) -> Any:
        """A call of one of these forms: 0 allocates results, 1 is given them; 2 and 3 are the same behind torch's
        dispatcher, where the state that `alike` sees is another one."""
        tensors, scalars = self._tensors(operands), self._numbers(operands)
        handle = None if stream is None else stream_handle(stream)
        for ready in self._known(tensors, form):
            given = outs
            if outs is None and handle is not None:
                if torch_calls.nested(tensors) or not ready.alike(*tensors):
                    continue
                given = tuple([_allocate(f, tensors[0], handle, True) for f in ready.plan.results])
            made = ready.call(tensors, given, scalars, handle)
            if made is not None:
                self._last[form] = ready
                return made[0] if self._single else made
        return self._first(operands, tensors + (outs or ()), scalars, outs, stream, form)

    def _known(self, tensors: tuple[Any, ...], form: int) -> Iterator[Ready]:
        """What earlier calls left: the last one, and those with tensors of these sizes on this GPU. Nothing where some
        may be dual, which no guard sees."""
        if _duals._current_level >= 0:
            return
        last = self._last[form]
        if last is not None:
            yield last
        try:
            found = self._ready.get(self._key(tensors, form), ())
        except Exception:  # not torch's tensors, of another rank, or their sizes symbols
            return
        for one in found:
            if one is not last:
                yield one

    def _key(self, tensors: tuple[Any, ...], form: int) -> tuple[Any, ...]:
        return form, tensors[0].get_device(), *[tensors[i].size(axis) for i, axis in self._sizes]

    def _first(
        self,
        operands: tuple[Any, ...],
        tensors: tuple[Any, ...],
        scalars: tuple[float, ...],
        outs: tuple[Any, ...] | None,
        stream: Any,
        form: int,
    ) -> Any:
        """A call with tensors that are not torch's, or like none of an earlier call."""
        torch = _notice_torch()
        if torch is not None and form < 2 and torch_calls.dispatched(torch, tensors):
            from scalec.runtime import custom_op

            return custom_op.call(self, operands, outs, stream)
        plan, device, handle, addresses, views, torch_at, plain = self._look(tensors, outs is not None, stream, form)
        if plain:
            self._keep(Ready(torch, plan, tensors), tensors, form)
        if outs is None and torch_at is not None:
            outs = tuple([_allocate(form, torch_at, handle, stream is not None) for form in plan.results])
            addresses += [o.data_ptr() for o in outs]
        elif outs is None:
            outs = tuple([_array(device, form, handle) for form in plan.results])
            addresses += [o.pointer for o in outs]
        elif torch is not None:
            torch_calls.writer(torch)([o for o in outs if is_torch(o)])
        if plan.grid:
            for view in views.values():
                if view.ready >= 0:
                    device.order(view.ready, handle)
            plan.launch((handle, *addresses, *packed(scalars)), scalars)
        if all(map(is_numpy, tensors)):
            outs = tuple([o.numpy() if isinstance(o, DeviceArray) else o for o in outs])
        return outs[0] if self._single else outs

    def _unwritten(self, operands: tuple[Any, ...], stream: Any = None) -> tuple[Any, ...]:
        """What a call with these operands, in order, would allocate for its results, unwritten; nothing is launched.

        Raises:
            ArgumentError: an operand does not fit.
            DeviceError: no usable GPU.
        """
        tensors, torch = self._tensors(operands), _notice_torch()
        if torch is not None and torch_calls.dispatched(torch, tensors):
            from scalec.runtime import custom_op

            return custom_op.made_results(self, operands)
        found = self._look(tensors, False, stream)
        if found.torch_at is None:
            return tuple([_array(found.device, form, found.handle) for form in found.plan.results])
        return tuple([_allocate(f, found.torch_at, found.handle, stream is not None) for f in found.plan.results])

    def _look(self, tensors: tuple[Any, ...], given: bool, stream: Any, form: int = 1) -> _Found:
        """Checks the tensors of a call (with the results if those are given), and finds or makes their plan."""
        torch = sys.modules.get("torch")
        if torch is not None and form < 2:
            torch_calls.refuse_gradients(torch, [t.name for t in self.signature.tensors], tensors)
        ours = [t for t in tensors if is_torch(t)]
        torch_at = next((t for t in ours if t.is_cuda), ours[0] if ours else None)
        loaded = self._loaded_for(tensors, torch_at)
        handle = self._stream(stream, torch_at)
        key, addresses, views = _adopted(self.signature, tensors, handle, loaded.device)
        plan = loaded.plans.get(key)
        if plan is None:
            plan = self._planned(loaded, key, tensors, views, given, handle)
        decided = self.fixed is not None or loaded.device.place[0] == "cuda"  # not by what SCALEC_DEVICE is now
        plain = bool(plan.grid) and decided and torch is not None and torch_calls.plain(torch, tensors)
        return _Found(plan, loaded.device, handle, addresses, views, torch_at, plain)

    def _keep(self, ready: Ready, tensors: tuple[Any, ...], form: int) -> None:
        key = self._key(tensors, form)
        remember(self._ready, key, (ready, *self._ready.get(key, ())[: _ALIKE - 1]), _PLANS)
        self._last[form] = ready

    def _loaded_for(self, tensors: Sequence[Any], torch_at: Any) -> Loaded:
        """The kernel on the device of the call's first tensor of ours, or else of its first GPU tensor."""
        if self.fixed is not None:
            return self._loaded.get(self.fixed.place) or self.load()
        ours = next((t.device for t in tensors if isinstance(t, DeviceArray)), None)
        if ours is not None:
            return self._loaded.get(ours.place) or self.load(ours)
        ordinal = torch_at.get_device() if torch_at is not None and torch_at.is_cuda else None
        if ordinal is None:
            every = (gpu_of(t.name, value) for t, value in zip(self.signature.tensors, tensors, strict=False))
            ordinal = next((i for i in every if i is not None), None)
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
        tensors: Sequence[Any],
        views: dict[int, TensorView],
        given: bool,
        handle: int,
    ) -> Plan:
        signature = self.signature
        seen = [
            views.get(i) or adopt(t.name, value, handle, loaded.device.locate)
            for i, (t, value) in enumerate(zip(signature.tensors, tensors, strict=False))
        ]
        count = len(signature.tensors) - len(self.spec.results)
        results, device, function = seen[count:] if given else None, loaded.device, loaded.function
        plan = Plan.make(signature, device, function, loaded.clusters, seen[:count], results, loaded.workspaces)
        remember(loaded.plans, key, plan, _PLANS)
        return plan


_SEVERAL = (tuple, list)


class _Found(NamedTuple):
    """A call's plan, device, stream, addresses, views of tensors that are not torch's, and its first that is; `plain`
    says that later calls may know it by torch's guards (Ready)."""

    plan: Plan
    device: Device
    handle: int
    addresses: list[int]
    views: dict[int, TensorView]
    torch_at: Any
    plain: bool


def _notice_torch() -> Any:
    """torch, if it is there; from then on its own word on whether a call is being traced, or tensors may be dual."""
    global _tracing, _duals
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "compiler"):
        _tracing, _duals = torch.compiler.is_dynamo_compiling, torch_calls.duals(torch)
        return torch
    return None


def _remade(spec: KernelSpec, cubin: bytes, ptx: str, device: Device | None) -> Kernel:
    return Kernel(spec, cubin, ptx=ptx, device=device)


def _picker(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What takes from a tuple the items at these places, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[i] for i in places])


def _sizes(signature: Signature) -> list[tuple[int, int]]:
    """Where the sizes that may differ from call to call are seen: (operand's place, axis)."""
    spec, found = signature.spec, {}
    for i, t in enumerate(signature.tensors[: len(signature.tensors) - len(spec.results)]):
        for axis, e in enumerate(t.shape):
            if e.tells and spec.dims.get(e.tells) is None and t.layout != "blocked":
                found.setdefault(e.tells, (i, axis))
    return list(found.values())


def _adopted(
    signature: Signature, tensors: Sequence[Any], handle: int, device: Device
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
                key += (t.shape, t.stride(), t.dtype, t.device, t.is_neg())
                addresses.append(t.data_ptr())
                continue
            except RuntimeError:  # no strides or no storage: adopt says what it is
                pass
        view = adopt(signature.tensors[i].name, t, handle, device.locate)
        views[i] = view
        key.append((view.layout, view.read_only))
        addresses.append(view.pointer)
    return tuple(key), addresses, views


def _array(device: Device, form: Form, handle: int) -> DeviceArray:
    """A result of ours, for a call without torch's tensors."""
    return DeviceArray(device, form.shape, form.spec.dtype, form.strides, handle)


def _allocate(form: Form, torch_at: Any, handle: int, foreign: bool) -> Any:
    """A result of torch's, on the call's stream."""
    torch = sys.modules["torch"]
    dtype = torch_calls.result_dtype(torch, form.spec.dtype)
    if not (foreign and torch_at.is_cuda):
        return torch.empty_strided(form.shape, form.strides, dtype=dtype, device=torch_at.device)
    with torch.cuda.stream(torch.cuda.ExternalStream(handle, device=torch_at.device)):
        return torch.empty_strided(form.shape, form.strides, dtype=dtype, device=torch_at.device)
