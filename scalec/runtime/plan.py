"""The launch plan: a kernel's spec and the tensors of a call, checked once, become the launch's arguments.

A Plan holds what shapes, strides and types decide (grid, results, slots); it is made once for each. A plan is bound to
addresses and scalars into a launcher, which is kept too for each stream: a call repeated on the same tensors checks
nothing twice.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

from scalec.abi import (
    PADDED,
    PADDED_ALIGN,
    PADDED_BOX,
    PADDED_SWIZZLES,
    TILE_WORDS,
    TILES,
    Argument,
    KernelSpec,
    Shares,
    TensorSpec,
)
from scalec.errors import ArgumentError, UnsupportedError
from scalec.formats import ELEMENT_TYPES
from scalec.runtime import checks, stored
from scalec.runtime.device import Device, Launcher, Parameter, TensorMap
from scalec.runtime.moved import Moved, Mover
from scalec.runtime.tensors import TensorView
from scalec.runtime.workspace import PER_THREAD, Workspace, Workspaces

_NEWER = "load it with the scalec that compiled it"
_KEPT = 256  # launchers, and tensor maps, that one plan keeps

# element type -> element of its tensor maps: copies move bits, so every 8-bit and packed type is bytes
MAP_ELEMENTS: dict[str, str] = {
    **{t.name: "u8" for t in ELEMENT_TYPES.values() if t.bits <= 8},
    "f16": "f16",
    "bf16": "bf16",
    "f32": "f32",
    "tf32": "f32",
    "i32": "i32",
}
# and where the copy pads sixteen of them to 16 bytes (abi.PADDED)
PADDED_ELEMENTS = {"e2m1": "b4x16_p64", "e3m2": "b6x16_p32", "e2m3": "b6x16_p32"}
_TILE_ELEMENT = "u64"  # of abi.TILES


@dataclass(frozen=True)
class Use:
    """How a kernel reaches a tensor: through tensor maps alone, whether one pads, and which strides it is told."""

    mapped: bool
    padded: bool
    strides: frozenset[int]


@dataclass(frozen=True)
class Signature:
    """What follows from the spec alone, made once for a kernel.

    Attributes:
        tensors: tensor operands, then results: the order of addresses in a plan.
        scalars: names of the numbers, in order.
        uses: how each tensor is reached.
    """

    spec: KernelSpec
    tensors: tuple[TensorSpec, ...]
    scalars: tuple[str, ...]
    uses: dict[str, Use]

    @staticmethod
    def of(spec: KernelSpec) -> Signature:
        """The signature of a spec.

        Raises:
            UnsupportedError: a scale layout, or a kind of argument, that this runtime does not know.
        """
        for t in (*spec.operands, *spec.results):
            if t.layout not in stored.LAYOUTS:
                expected = ", ".join(stored.LAYOUTS)
                raise UnsupportedError(f"{t.name} has layout {t.layout!r}", expected=expected, fix=_NEWER)
        for a in spec.arguments:
            if a.kind not in _SLOTS:
                raise UnsupportedError(f"a kernel argument of kind {a.kind!r}", expected=", ".join(_SLOTS), fix=_NEWER)
            if a.kind == "tensor_map":
                _check_map(spec, a)
        tensors = (*(t for t in spec.operands if not t.scalar), *spec.results)
        uses = {}
        for t in tensors:
            kinds = {a.kind for a in spec.arguments if a.tensor == t.name}
            axes = frozenset(a.axis for a in spec.arguments if a.tensor == t.name and a.kind == "stride")
            padded = any(a.tensor == t.name and a.element == PADDED for a in spec.arguments)
            uses[t.name] = Use("tensor_map" in kinds and "pointer" not in kinds, padded, axes)
        return Signature(spec, tensors, tuple(t.name for t in spec.operands if t.scalar), uses)


def _check_map(spec: KernelSpec, a: Argument) -> None:
    """Refuses a tensor map that no driver would make, of what the spec alone says (see abi.PADDED)."""
    t = next((t for t in (*spec.operands, *spec.results) if t.name == a.tensor), None)
    if t is None:
        raise UnsupportedError(f"a tensor map over {a.tensor!r}, which is no tensor of the kernel")
    what = f"the tensor map of {t.name}"
    if a.element not in ("", PADDED, TILES):
        raise UnsupportedError(
            f"{what} has elements {a.element!r}", expected=f"'', {PADDED!r} or {TILES!r}", fix=_NEWER
        )
    if (t.layout == "blocked") != (a.element == TILES):
        raise UnsupportedError(
            f"{what} has elements {a.element!r} and layout {t.layout}",
            expected=f"elements {TILES!r} with layout blocked, and only there",
        )
    if a.element == TILES and (len(t.shape), len(a.box), a.swizzle) != (2, 2, 0):
        raise UnsupportedError(
            f"{what} is over tiles (layout blocked)",
            got=f"{len(t.shape)} indices, a box {a.box}, a swizzle of {a.swizzle} bytes",
            expected="two indices, a box of two extents, no swizzle",
        )
    swizzles = " or ".join(map(str, PADDED_SWIZZLES))
    for fits, got, expected in (
        (t.dtype in PADDED_ELEMENTS, f"elements of {t.dtype}", ", ".join(PADDED_ELEMENTS)),
        (t not in spec.results, "a result", "an operand: such copies are loads"),
        (a.box[:1] == (PADDED_BOX,), f"a box {a.box}", f"{PADDED_BOX} elements along the contiguous index"),
        (a.swizzle in PADDED_SWIZZLES, f"a swizzle of {a.swizzle} bytes", f"{swizzles}"),
        (t.align % PADDED_ALIGN == 0, f"an alignment of {t.align} bytes", f"a multiple of {PADDED_ALIGN}"),
    ):
        if a.element == PADDED and not fits:
            raise UnsupportedError(f"{what} pads elements", got=got, expected=expected)


@dataclass(frozen=True)
class Form:
    """A tensor without its address: shape and strides in stored elements, bytes spanned, and for the overlap test the
    bytes of a row and between rows (0 where rows say nothing)."""

    spec: TensorSpec
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    span: int
    row: int
    step: int

    @staticmethod
    def of(t: TensorSpec, shape: tuple[int, ...], strides: tuple[int, ...]) -> Form:
        """The form of a tensor of this shape."""
        item = stored.itemsize(t.dtype)
        rows = [(e, s) for e, s in zip(shape, strides, strict=True) if e > 1 and s > 1]
        row = step = 0
        if len(rows) == 1 and t.shape:
            row, step = shape[stored.contiguous_axis(t)] * item, rows[0][1] * item
        return Form(t, shape, strides, checks.span(shape, strides, item), row, step)

    def at(self, address: int) -> tuple[int, int, int, int]:
        """What checks.overlap takes."""
        return address, self.span, self.row, self.step


@dataclass
class Plan:
    """A checked call, addresses and scalars apart.

    Attributes:
        dims: the size of every dimension.
        grid: CTAs to launch; 0 where the results have no elements and nothing is to be done.
        workspace: bytes of the workspace's parts and of its counters; (0, 0) where the kernel needs none.
        shares: how tiles are dealt out where some are cut; None where none is.
        operands: forms of the tensor operands.
        results: forms of the results: those given, or those to allocate.
        workspaces: where that comes from.
        launchers: made so far, by stream, addresses and scalars (`launch`).
        maps: tensor maps made so far, by parameter and address.
        moved: parameters for what comes once; None before the first launch, and where the device moves none.
        seen: what came once.
    """

    signature: Signature
    device: Device
    function: Any
    dims: dict[str, int]
    grid: int
    operands: tuple[Form, ...]
    results: tuple[Form, ...]
    workspaces: Workspaces | None = None
    workspace: tuple[int, int] = (0, 0)
    shares: Shares | None = None
    launchers: dict[tuple[Any, ...], Launcher] = field(default_factory=dict)
    maps: dict[tuple[int, int], ctypes.Array] = field(default_factory=dict)
    moved: Moved | None = None
    seen: set[tuple[Any, ...]] = field(default_factory=set)

    @staticmethod
    def make(
        signature: Signature,
        device: Device,
        function: Any,
        clusters: int,
        operands: Sequence[TensorView],
        results: Sequence[TensorView] | None,
        workspaces: Workspaces | None = None,
    ) -> Plan:
        """Checks a call's shapes, types, places and strides, and plans its launch.

        Args:
            clusters: how many clusters run at once.
            operands: the tensor operands, in order.
            results: the results, or None to plan them for allocation.
            workspaces: where a workspace comes from; a kernel that needs none needs none of them.

        Raises:
            ArgumentError: what does not fit, by name.
        """
        spec = signature.spec
        given = zip(signature.tensors, (*operands, *(results or ())), strict=False)
        views = {t.name: stored.single(t, view) for t, view in given}
        first = next((n for n, v in views.items() if v.place == device.place), "")
        inputs = {t.name for t in spec.operands}
        for t in signature.tensors:
            if t.name not in views:
                continue
            checks.check_place(t, views[t.name], device, first)
            checks.check_type(t, views[t.name])
            if t.name not in inputs and views[t.name].read_only:
                raise ArgumentError(f"{t.name} is read-only", expected="memory that the kernel may write")
        dims = checks.bind_dims(spec, views)
        for t in signature.tensors:
            if signature.uses[t.name].padded:
                checks.check_padded(t, dims)
        forms = []
        for t in signature.tensors:
            view, use = views.get(t.name), signature.uses[t.name]
            if view is None:
                forms.append(Form.of(t, *allocated(t, dims, use)))
                continue
            checks.check_strides(t, view, use.strides, use.mapped, t.name not in inputs)
            if t.layout == "blocked":  # seen as whole tiles, whatever its holder's shape
                shape = stored.stored_shape(t, dims)
                forms.append(Form.of(t, shape, stored.dense(t, shape)))
                continue
            forms.append(Form.of(t, view.shape, view.strides))
        count = len(signature.tensors) - len(spec.results)
        plan = Plan(signature, device, function, dims, 0, tuple(forms[:count]), tuple(forms[count:]), workspaces)
        if all(0 in f.shape for f in plan.results):
            return plan
        for form in plan.operands:
            if 0 in form.shape:
                raise ArgumentError(
                    f"{form.spec.name} has no elements, but {plan.results[0].spec.name} has",
                    got=f"{form.spec.name} of shape {list(form.shape)}",
                    expected="at least one element to sum over",
                )
        plan.grid = spec.launch.grid(dims, clusters)
        plan.workspace = spec.launch.workspace(dims, clusters)
        if spec.launch.k_units:
            plan.shares = spec.launch.dealt(dims, clusters)
        return plan

    def launch(self, key: tuple[Any, ...], scalars: tuple[float, ...]) -> None:
        """Launches. What comes a second time gets a launcher of its own: `launchers[key]`, given the stream.

        Args:
            key: the stream, the addresses of operands and results, and `packed(scalars)` where there are any.

        Raises:
            ArgumentError: NULL, alignment, or a result that overlaps another tensor.
            DeviceError: the driver refused the launch.
        """
        stream, addresses, workspace = key[0], key[1 : 1 + self.count], None
        if self.workspace[0] and self.workspaces is not None:
            workspace = self.workspaces.of(stream, self.workspace)
            if stream == PER_THREAD:
                key = (*key, threading.get_ident())
        found = self.launchers.get(key)
        if found is None:
            if self.moved is not None and key not in self.seen:
                if len(self.seen) >= _KEPT:
                    self.seen.clear()
                self.seen.add(key)
                self.moved.launch(addresses, scalars, workspace, stream)
                return
            found = self.launcher(addresses, scalars, workspace)
            while len(self.launchers) >= _KEPT:
                self.launchers.pop(next(iter(self.launchers)), None)
            self.launchers[key] = found
        found(stream)

    @cached_property
    def count(self) -> int:
        """How many tensors it has."""
        return len(self.operands) + len(self.results)

    def launcher(
        self, addresses: tuple[int, ...], scalars: tuple[float, ...], workspace: Workspace | None = None
    ) -> Launcher:
        """A launcher for these addresses (operands, then results) and scalars, and a workspace where one is needed.

        Raises:
            ArgumentError: NULL, alignment, or a result that overlaps another tensor.
        """
        forms = (*self.operands, *self.results)
        for form, address in zip(forms, addresses, strict=True):
            if form.span:
                checks.check_address(form.spec, address)
        _check_overlap(forms, addresses, len(self.operands))
        where = dict(zip((f.spec.name for f in forms), zip(forms, addresses, strict=True), strict=True))
        values = dict(zip(self.signature.scalars, scalars, strict=True))
        spec = self.signature.spec
        given = Given(where, values, workspace)
        slots = [_SLOTS[a.kind](self, i, a, given) for i, a in enumerate(spec.arguments)]
        memory = [(f.spec.name, address, f.span) for f, address in zip(forms, addresses, strict=True)]
        if workspace is not None:
            memory.append(("the sums of the parts", workspace.parts, workspace.part_bytes))
            memory.append(("the counters of the tiles", workspace.counters, workspace.counter_bytes))
        if self.moved is None and self.device.mover is not None:
            self.moved = self._moving(self.device.mover, given, [f.spec.name for f in forms])
        return self._prepared(slots, memory)

    def _prepared(self, slots: Sequence[Parameter], memory: Sequence[tuple[str, int, int]] = ()) -> Launcher:
        spec, launch = self.signature.spec, self.signature.spec.launch
        small = prod(self.dims[d] for d in spec.flops) <= launch.dependent
        return self.device.prepare(self.function, self.grid, launch.threads, launch.shared_bytes, slots, memory, small)

    def _moving(self, mover: Mover, given: Given, names: Sequence[str]) -> Moved:
        """Parameters of their own, bound as `given`, that later launches move."""
        spec = self.signature.spec
        slots = [
            self.device.encode(tensor_map(a, *given.where[a.tensor]))
            if a.kind == "tensor_map"
            else _SLOTS[a.kind](self, i, a, given)
            for i, a in enumerate(spec.arguments)
        ]
        tensors = [names.index(a.tensor) if a.kind in ("tensor_map", "pointer") else -1 for a in spec.arguments]
        numbers = [_number(self.signature, a) for a in spec.arguments]
        launcher = self._prepared(slots)
        forms = (*self.operands, *self.results)
        return Moved(mover, forms, len(self.operands), slots, tensors, numbers, launcher)

    def tensor_map(self, index: int, argument: Argument, form: Form, address: int) -> ctypes.Array:
        """The tensor map of parameter `index`."""
        found = self.maps.get((index, address))
        if found is None:
            found = self.device.encode(tensor_map(argument, form, address))
            if len(self.maps) >= _KEPT:
                self.maps.clear()
            self.maps[index, address] = found
        return found


def packed(scalars: tuple[float, ...]) -> tuple[Any, ...]:
    """Scalars as a part of a launcher's key: by their bits, which tell -0.0 from 0.0, and one NaN is another."""
    return (struct.pack(f"{len(scalars)}d", *scalars),) if scalars else ()


def allocated(
    t: TensorSpec, dims: Mapping[str, int], use: Use, largest: Callable[[Any, Any], Any] = max
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape, strides) of a result to allocate: without gaps if its alignment allows, else with padded rows.

    Args:
        largest: max, or what does its work where sizes are symbols.
    """
    shape, order = stored.stored_shape(t, dims), stored.memory_order(t)
    multiple = max(1, t.align // stored.itemsize(t.dtype))
    gapless, padded = [0] * len(shape), [0] * len(shape)
    step = wide = 1
    for place, axis in enumerate(order):
        gapless[axis], padded[axis] = step, wide
        if place + 1 < len(order):
            extent = largest(shape[axis], 1)
            step, wide = step * extent, stored.align_up(wide * extent, multiple)
    walks = use.mapped or all(a in use.strides or padded[a] == gapless[a] for a in order)
    return shape, tuple(padded if walks else gapless)


def tensor_map(argument: Argument, form: Form, address: int) -> TensorMap:
    """What the tensor map of an argument over a tensor at `address` is made of."""
    t, padded = form.spec, argument.element == PADDED
    if argument.element == TILES:
        rows, columns = stored.TILE
        across, down = form.shape[1] // columns, form.shape[0] // rows
        extents, step = (TILE_WORDS * across, down), rows * columns * across
        return TensorMap(_TILE_ELEMENT, address, extents, (step,), argument.box, argument.swizzle)
    item, order = stored.itemsize(t.dtype), stored.memory_order(t)
    strides, reach = [], item
    for inner, axis in pairwise(order):
        reach = stored.align_up(reach * form.shape[inner], PADDED_ALIGN if padded else 16)
        # the stride of an index that takes one value is never used, but the driver checks it
        reach = form.strides[axis] * item if form.shape[axis] > 1 else reach
        strides.append(reach)
    extents = [form.shape[axis] for axis in order]
    if padded:  # checks.check_padded saw that these are whole bytes
        extents[0] = extents[0] * 8 // ELEMENT_TYPES[t.dtype].bits
    element = (PADDED_ELEMENTS if padded else MAP_ELEMENTS)[t.dtype]
    return TensorMap(element, address, tuple(extents), tuple(strides), argument.box, argument.swizzle)


def _check_overlap(forms: Sequence[Form], addresses: Sequence[int], operands: int) -> None:
    for i in range(operands, len(forms)):
        for j in range(i):
            checks.check_overlap(forms[j], addresses[j], forms[i], addresses[i])


# ---------------------------------------------------------------------------------------- arguments: kind -> parameter


@dataclass(frozen=True)
class Given:
    """What a launch is bound to: forms and addresses of tensors, and scalars, by name; a workspace."""

    where: dict[str, tuple[Form, int]]
    values: dict[str, float]
    workspace: Workspace | None


def _tensor_map(plan: Plan, index: int, a: Argument, given: Given) -> Parameter:
    return plan.tensor_map(index, a, *given.where[a.tensor])


def _pointer(_plan: Plan, _index: int, a: Argument, given: Given) -> Parameter:
    return ctypes.c_uint64(given.where[a.tensor][1])


def _dim(plan: Plan, _index: int, a: Argument, _given: Given) -> Parameter:
    return ctypes.c_int32(plan.dims[a.dim])


def _stride(_plan: Plan, _index: int, a: Argument, given: Given) -> Parameter:
    form, _ = given.where[a.tensor]
    if form.shape[a.axis] > 1:
        return ctypes.c_int64(form.strides[a.axis])
    return ctypes.c_int64(stored.dense(form.spec, form.shape)[a.axis])  # never walked; libraries put anything there


def _scalar(_plan: Plan, _index: int, a: Argument, given: Given) -> Parameter:
    return ctypes.c_float(given.values[a.tensor])


def _workspace(_plan: Plan, _index: int, a: Argument, given: Given) -> Parameter:
    if given.workspace is None:
        raise UnsupportedError(f"a kernel argument of kind {a.kind!r}, and no split of K", fix=_NEWER)
    return ctypes.c_uint64(given.workspace.parts if a.kind == "parts" else given.workspace.counters)


def _share(plan: Plan, _index: int, a: Argument, _given: Given) -> Parameter:
    if plan.shares is None:
        raise UnsupportedError(f"a kernel argument of kind {a.kind!r}, and no tile is cut", fix=_NEWER)
    return ctypes.c_int32(getattr(plan.shares, a.kind))


def _number(signature: Signature, a: Argument) -> Callable[[Any, Any], Any] | None:
    """What sets an argument from the scalars and the workspace of a launch; None where it is neither's."""
    if a.kind == "scalar":
        index = signature.scalars.index(a.tensor)
        return lambda scalars, _workspace: scalars[index]
    if a.kind in ("parts", "counters"):
        return lambda _scalars, workspace: getattr(workspace, a.kind)
    return None


_SLOTS = {
    "tensor_map": _tensor_map,
    "pointer": _pointer,
    "dim": _dim,
    "stride": _stride,
    "scalar": _scalar,
    "parts": _workspace,
    "counters": _workspace,
    "whole": _share,
    "share": _share,
    "longer": _share,
}
