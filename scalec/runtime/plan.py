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
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from scalec import env
from scalec.abi import PADDED_BOX, Argument, TensorSpec
from scalec.errors import ArgumentError
from scalec.formats import WORDS
from scalec.operations import multiplications
from scalec.runtime import checks, extents, spans, stored
from scalec.runtime.device import Device, Launcher, Parameter
from scalec.runtime.form import Form
from scalec.runtime.moved import Moved, Mover
from scalec.runtime.signature import Signature, Use
from scalec.runtime.slots import SLOTS, Given, Places, number, tensor_map, written
from scalec.runtime.tensors import TensorView
from scalec.runtime.trampoline import Answer, Asked, Results, Slot, Trampoline
from scalec.runtime.views import part
from scalec.runtime.workspace import PER_THREAD, Workspace, Workspaces

COPIED = 16
"""Bytes at multiples of which rows begin that bulk copies read (CUDA Driver API, cuTensorMapEncodeTiled)."""

_KEPT = 256  # launchers, and tensor maps, that one plan keeps


@dataclass
class Plan:
    """A checked call, addresses and scalars apart.

    Attributes:
        dims: the size of every dimension, as the kernel walks it: see `of_nothing`.
        grid: CTAs to launch; 0 where the results have no elements and nothing is to be done.
        workspace: bytes of the workspace's parts and of its counters; (0, 0) where the kernel needs none.
        operands: forms of the tensor operands.
        results: forms of the results: those given, or those to allocate.
        workspaces: where that comes from.
        launchers: made so far, by stream, addresses and scalars (`launch`).
        maps: tensor maps made so far, by parameter and address.
        template: the parameters of a launch, as bytes; None before the first launch.
        moved: parameters for what comes once; None before the first launch, and where the device moves none.
        seen: what came once.
        walked: forms as the kernel walks them, of a plan that walks dimensions as one (scalec.runtime.spans).
        zeros: where operands without elements are taken to be, by their places among the tensors; see `of_nothing`.
        checked: index tensors that are read and checked before each launch (scalec.runtime.indices): places and forms.
        sizes: the size of every dimension, as the caller gives it.
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
    launchers: dict[tuple[Any, ...], Launcher] = field(default_factory=dict)
    maps: dict[tuple[int, int], ctypes.Array] = field(default_factory=dict)
    template: list[bytes] | None = None
    moved: Moved | None = None
    seen: set[tuple[Any, ...]] = field(default_factory=set)
    zeros: dict[int, int] = field(default_factory=dict)
    checked: tuple[tuple[int, Form], ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    walked: tuple[Form, ...] = ()

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
        views = {t.name: stored.fitted(t, view) for t, view in given}
        first = next((n for n, v in views.items() if v.place == device.place), "")
        inputs = {t.name for t in spec.operands}
        for t in signature.tensors:
            if t.name not in views:
                continue
            checks.check_place(t, views[t.name], device, first)
            checks.check_type(t, views[t.name])
            if t.name not in inputs and views[t.name].read_only:
                raise ArgumentError(
                    f"{t.name} is read-only",
                    got=f"memory that forbids writing ({views[t.name].kind})",
                    expected="memory that the kernel may write",
                    fix="another out=",
                )
        dims = extents.bind_dims(spec, views)
        for t in signature.tensors:
            if signature.uses[t.name].padded:
                extents.check_padded(t, dims)
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
        for v in spec.views:  # no more than the tensor's own strides, which the kernel need not be told of any axis of
            (at,) = [i for i, t in enumerate(signature.tensors) if t.name == v.tensor]
            made, use = part(v, forms[at], dims)[0], signature.uses[v.name]
            if v.tensor in views:
                shown = views[v.tensor]._replace(shape=made.shape, strides=made.strides)
                checks.check_strides(made.spec, shown, use.strides, use.mapped, False, spaced=True)
            if use.padded:
                extents.check_padded(made.spec, dims)
        count = len(signature.tensors) - len(spec.results)
        plan = Plan(signature, device, function, dims, 0, tuple(forms[:count]), tuple(forms[count:]), workspaces)
        if all(0 in f.shape for f in plan.results) or not spec.launch.units(dims):  # what has gaps may be all gap
            if all(dims.get(d, 1) for d in signature.unread):
                checks.check_nothing(spec, [f.spec for f in plan.results if 0 not in f.shape], dims)
            return plan
        plan.sizes = dims
        if signature.indices and (device.checks or env.CHECK.get()):
            plan.checked = tuple([(i, forms[i]) for i in signature.indices])
        if not spec.launch.by_element and any(0 in f.shape for f in plan.operands):
            plan.of_nothing()
        elif spec.launch.spans:
            plan.dims, plan.walked = spans.walked(spec.launch, dims, forms)
        extents.check_tiles(spec, dims, plan.dims)
        plan.grid = spec.launch.grid(plan.dims, clusters)
        plan.workspace = spec.launch.workspace(plan.dims)
        return plan

    def of_nothing(self) -> None:
        """Sums over no elements are 0, as those over one that is 0: kernels walk at least one K block, and no driver
        makes a tensor map without elements. So dimensions of 0 are walked as one of 1, and operands that have them are
        zeros of the kernel's own, wherever the caller's are (NULL is as good as any). So are those whose extents then
        are others: offsets of no group are [0], and as those of one group [0, 0]."""
        uses = self.signature.uses
        inner = {f.spec.shape[f.spec.contiguous].dim for f in self.operands if uses[f.spec.name].padded}
        walked = {d: size or (PADDED_BOX if d in inner else 1) for d, size in self.dims.items()}
        empty = [i for i, f in enumerate(self.operands) if 0 in f.shape or _sizes(f, walked) != _sizes(f, self.dims)]
        forms = list(self.operands)
        for i in empty:
            t = forms[i].spec
            forms[i] = Form.of(t, *allocated(t, walked, uses[t.name]))
        self.workspaces = self.workspaces or Workspaces(self.device)
        address = self.workspaces.zeros(max(forms[i].span for i in empty))
        self.dims, self.operands, self.zeros = walked, tuple(forms), dict.fromkeys(empty, address)

    def launch(self, key: tuple[Any, ...], scalars: tuple[float, ...]) -> None:
        """Launches. What comes a second time gets a launcher of its own: `launchers[key]`, given the stream.

        Args:
            key: the stream, the addresses of operands and results, and `packed(scalars)` where there are any.

        Raises:
            ArgumentError: NULL, alignment, or a result that overlaps another tensor.
            DeviceError: the driver refused the launch.
        """
        stream, addresses = key[0], key[1 : 1 + self.count]
        key, workspace = self._whole(key)
        if self.moved is not None and key not in self.seen and key not in self.launchers:
            if len(self.seen) >= _KEPT:
                self.seen.clear()
            self.seen.add(key)
            self.moved.launch(addresses, scalars, workspace, stream)
            return
        self._kept(key, addresses, scalars, workspace)(stream)

    def keep(self, key: tuple[Any, ...], scalars: tuple[float, ...]) -> None:
        """Checks the addresses of a launch, and makes its launcher, without launching; arguments are those of `launch`.

        Raises:
            ArgumentError: NULL, alignment, or a result that overlaps another tensor.
        """
        key, workspace = self._whole(key)
        self._kept(key, key[1 : 1 + self.count], scalars, workspace)

    def _whole(self, key: tuple[Any, ...]) -> tuple[tuple[Any, ...], Workspace | None]:
        """A launch's key, with the thread where that decides the stream, and its workspace."""
        if not self.workspace[0] or self.workspaces is None:
            return key, None
        workspace = self.workspaces.of(key[0], self.workspace)
        return (*key, threading.get_ident()) if key[0] == PER_THREAD else key, workspace

    def _kept(
        self, key: tuple[Any, ...], addresses: tuple[int, ...], scalars: tuple[float, ...], workspace: Workspace | None
    ) -> Launcher:
        found = self.launchers.get(key)
        if found is None:
            found = self.launcher(addresses, scalars, workspace)
            remember(self.launchers, key, found, _KEPT)
        return found

    def trampoline(self, asked: Asked) -> Trampoline | None:
        """What makes calls with tensors that are as the plan's, wherever they are; None where there can be none, and
        before the first launch. See scalec.runtime.trampoline.

        Args:
            asked: what is asked of torch.
        """
        make, launch, template = self.device.trampoline, self.signature.spec.launch, self.template
        if make is None or template is None or self.zeros or self.checked:
            return None
        forms = (*self.operands, *self.results)
        places = self.places
        arguments = self.signature.spec.arguments
        made = make(
            self.function,
            self.grid,
            launch.threads,
            launch.shared_bytes,
            [Slot(d, *written(self.signature.scalars, places, a)) for d, a in zip(template, arguments, strict=True)],
            [f.span for f in forms],
            [f.spec.align for f in forms],
            len(self.operands),
            asked,
            self.small,
        )
        if made is None or not self.workspace[0] or self.workspaces is None:
            return made
        of, needed, current, ordinal = self.workspaces.of, self.workspace, asked.stream, asked.ordinal

        def with_workspace(
            tensors: tuple[Any, ...], outs: Results, scalars: tuple[float, ...], stream: int | None
        ) -> Answer:
            if stream is None:
                stream = current(ordinal)
            workspace = of(stream, needed)
            return made(tensors, outs, (*scalars, workspace.parts, workspace.counters), stream)

        return with_workspace

    @cached_property
    def small(self) -> bool:
        """Whether its launch may begin before the one before it has ended (abi.Launch.dependent)."""
        spec = self.signature.spec
        return spec.launch.dependent > 0 and multiplications(spec, self.dims) <= spec.launch.dependent

    @cached_property
    def parts(self) -> dict[str, tuple[int, Form, int]]:
        """The parts of operands that arguments speak of, by name: whose they are, forms, and bytes from where these
        begin."""
        names, found = [f.spec.name for f in self.operands], {}
        for view in self.signature.spec.views:
            i = names.index(view.tensor)
            found[view.name] = i, *part(view, self.operands[i], self.dims)
        return found

    @property
    def places(self) -> Places:
        """What slots.written and Moved take."""
        own: dict[str, tuple[int, int]] = {f.spec.name: (i, 0) for i, f in enumerate((*self.operands, *self.results))}
        return own | {name: (i, offset) for name, (i, _, offset) in self.parts.items()}

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
        given = addresses
        addresses = tuple([self.zeros.get(i, address) for i, address in enumerate(addresses)])
        for i, (form, address) in enumerate(zip(forms, addresses, strict=True)):
            if form.span:
                checks.check_address(form.spec, address, i >= len(self.operands))
        for i in range(len(self.operands), len(forms)):
            for j in range(i):
                checks.check_overlap(forms[j], addresses[j], forms[i], addresses[i])
        seen = self.walked or forms
        where = dict(zip((f.spec.name for f in forms), zip(seen, addresses, strict=True), strict=True))
        where |= {name: (form, addresses[i] + offset) for name, (i, form, offset) in self.parts.items()}
        values = dict(zip(self.signature.scalars, scalars, strict=True))
        spec = self.signature.spec
        sizes = self.dims if self.walked else self.sizes
        bound = Given(where, values, self.dims, sizes, workspace, self.tensor_map)
        slots = [SLOTS[a.kind](i, a, bound) for i, a in enumerate(spec.arguments)]
        memory = [(f.spec.name, address, f.span) for f, address in zip(forms, addresses, strict=True)]
        if workspace is not None:
            memory.append(("the sums of the parts", workspace.parts, workspace.part_bytes))
            memory.append(("the counters of the tiles", workspace.counters, workspace.counter_bytes))
        if self.template is None:
            self.template = [bytes(memoryview(slot).cast("B")) for slot in slots]
        if self.checked:
            return self._after_check(given, self._prepared(slots, memory))
        if self.moved is None and self.device.mover is not None and not self.zeros:
            self.moved = self._moving(self.device.mover, bound)
        return self._prepared(slots, memory)

    def _after_check(self, addresses: tuple[int, ...], launcher: Launcher) -> Launcher:
        """A launcher that first reads the index tensors, and refuses what they must not hold."""
        from scalec.runtime import indices

        def launch(stream: int) -> None:
            held = {f.spec.name: indices.held(self.device, addresses[i], f, stream) for i, f in self.checked}
            found = {name: entries for name, entries in held.items() if entries is not None}
            if len(found) == len(held):
                indices.check(self.signature.spec, self.sizes, found)
            launcher(stream)

        return launch

    def _prepared(self, slots: Sequence[Parameter], memory: Sequence[tuple[str, int, int]] = ()) -> Launcher:
        launch = self.signature.spec.launch
        return self.device.prepare(
            self.function, self.grid, launch.threads, launch.shared_bytes, slots, memory, self.small
        )

    def _moving(self, mover: Mover, given: Given) -> Moved:
        """Parameters of their own, bound as `given`, that later launches move."""
        spec = self.signature.spec
        own = replace(
            given, tensor_map=lambda _index, a, form, address: self.device.encode(tensor_map(a, form, address))
        )
        slots = [SLOTS[a.kind](i, a, own) for i, a in enumerate(spec.arguments)]
        places = self.places
        tensors = [places[a.tensor] if a.kind in ("tensor_map", "pointer") else (-1, 0) for a in spec.arguments]
        numbers = [number(self.signature.scalars, a) for a in spec.arguments]
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


def remember(kept: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Adds to what is kept, whose oldest go where there are `most`; threads may do so at the same time."""
    for oldest in list(kept)[: 1 - most] if len(kept) >= most else ():
        kept.pop(oldest, None)
    kept[key] = value


def packed(scalars: tuple[float, ...]) -> tuple[Any, ...]:
    """Scalars as a part of a launcher's key: by their bits, which tell -0.0 from 0.0, and one NaN is another."""
    return (struct.pack(f"{len(scalars)}d", *scalars),) if scalars else ()


def allocated(
    t: TensorSpec, dims: Mapping[str, int], use: Use, largest: Callable[[Any, Any], Any] = max
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape, strides) of a result to allocate: without gaps if its alignment allows, else with padded rows. Columns of
    scales begin where a product can copy them, which this kernel need not.

    Args:
        largest: max, or what does its work where sizes are symbols.
    """
    shape, order = stored.stored_shape(t, dims), stored.memory_order(t)
    align = max(t.align, COPIED) if t.layout in ("col", "packed") else t.align
    multiple = max(1, align // stored.itemsize(t.dtype))
    gapless, padded = [0] * len(shape), [0] * len(shape)
    step = wide = 1
    for place, axis in enumerate(order):
        gapless[axis], padded[axis] = step, wide
        if place + 1 < len(order):
            extent = largest(shape[axis], 1)
            together = 1 if t.layout == WORDS and not place else multiple  # words lie beside each other
            step, wide = step * extent, stored.align_up(wide * extent, together)
    walks = use.mapped or all(a in use.strides or padded[a] == gapless[a] for a in order)
    return shape, tuple(padded if walks else gapless)


def _sizes(form: Form, dims: Mapping[str, int]) -> tuple[int, ...]:
    return stored.stored_shape(form.spec, dims)
