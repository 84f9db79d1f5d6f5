"""The kernels of one program, called as one: which one runs is decided by the sizes of a call's tensors."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from scalec.abi import KernelSpec, TensorSpec
from scalec.errors import ArgumentError, ScalecError
from scalec.formats import ELEMENT_TYPES
from scalec.runtime import checks, torch_calls
from scalec.runtime.bound import Bound
from scalec.runtime.device import Device
from scalec.runtime.kernel import Kernel
from scalec.runtime.stored import stored_shape
from scalec.runtime.tensors import adopt
from scalec.sizes import Range
from scalec.targets import TARGETS

_CHOSEN = 1024  # shapes that one program remembers the kernel of

_SUMS = ("swap", "cta_group", "split", "promote")
"""Fields of a schedule, beside the K of `tile`, that the order of a row's sums depends on."""


@dataclass(frozen=True)
class Ladder:
    """Kernels that differ in the range of one dimension alone, in its order: a call asks one extent and looks it up.

    Attributes:
        operand, axis: of the call's positional arguments, whose extent is the dimension's size.
        low: the smallest size of the first kernel.
        tops: the largest size of each kernel.
        kernels: in the order of `tops`.
    """

    operand: int
    axis: int
    low: int
    tops: tuple[int, ...]
    kernels: tuple[Kernel, ...]

    @staticmethod
    def of(kernels: Iterable[Kernel]) -> Ladder | None:
        """The ladder that the kernels are, None where they are no such thing."""
        every = list(kernels)
        spec = every[0].spec
        if len(spec.ranges) != 1 or any(_but_ranges(k.spec) != _but_ranges(spec) for k in every):
            return None
        ((dim, _),) = spec.ranges.items()
        every.sort(key=lambda k: k.spec.ranges[dim])
        ranges = [k.spec.ranges[dim] for k in every]
        if any(one[1] + 1 != other[0] for one, other in pairwise(ranges)):
            return None
        for i, t in enumerate(spec.operands):
            for axis, e in enumerate(t.shape):
                if e.dim == dim and e.divisor == 1 and not _packed(t, axis):
                    return Ladder(i, axis, ranges[0][0], tuple(high for _, high in ranges), tuple(every))
        return None

    def find(self, operands: tuple[Any, ...]) -> Kernel | None:
        """The kernel for these positional arguments; None where they do not say, or where no range has their size."""
        try:
            size = operands[self.operand].shape[self.axis]
            step = bisect_left(self.tops, size)
        except Exception:  # whatever an object of a library's raises: it is refused by name later
            return None
        return self.kernels[step] if step < len(self.tops) and (size >= self.low or size == 0) else None


def _but_ranges(spec: KernelSpec) -> tuple[Any, ...]:
    """What the kernels of a ladder have in common."""
    shapes = [(t.name, t.shape, t.layout, t.dtype, t.scalar) for t in (*spec.operands, *spec.results)]
    return spec.source, spec.target, sorted(spec.dims.items()), sorted(spec.ranges), shapes


class Program:
    """The kernels of one program: specialisations by sizes, ranges of sizes and target, called as one.

    Attributes:
        name: its name in a bundle; that of its entry function otherwise.
        kernels: the specialisations: those that fix most dims first, then those for a range, the smallest sizes first.

    Raises:
        ScalecError: kernels that are to give bit-equal rows, and add in different orders.
    """

    def __init__(self, name: str, kernels: Iterable[Kernel]) -> None:
        self.name = name
        self.kernels = sorted(kernels, key=lambda k: _specialised(k.spec))
        _check_invariant(name, self.kernels)
        self._ladder = Ladder.of(self.kernels) if len(self.kernels) > 1 else None
        self._tensors = [i for i, t in enumerate(self.kernels[0].spec.operands) if not t.scalar]
        self._targets = len({k.spec.target for k in self.kernels})
        self._chosen: dict[tuple[Any, ...], Kernel] = {}  # by GPUs and shapes

    def __call__(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Runs the most specialised kernel that these tensors fit; arguments are those of Kernel.__call__.

        Raises:
            ArgumentError: none fits, or an argument fits no kernel.
            DeviceError: no usable GPU, or no kernel for it.
        """
        return self._kernel(operands, out, named)(*operands, out=out, stream=stream, **named)

    def bind(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> Bound:
        """A call that will be made again and again with these very arguments: see Kernel.bind.

        Raises:
            ArgumentError: none fits, an argument fits no kernel, or no result is given to write.
            DeviceError: no usable GPU, or no kernel for it.
        """
        return self._kernel(operands, out, named)._bound(self, operands, out, stream, named)

    def __repr__(self) -> str:
        return f"Program({self.name}: {', '.join(map(repr, self.kernels))})"

    def load(self, device: Device | None = None) -> None:
        """Loads every kernel on a device (before a CUDA graph is captured); see Kernel.load.

        Raises:
            DeviceError: a GPU that a kernel is not compiled for, or none where one is asked for.
        """
        for kernel in self.kernels:
            kernel.load(device)

    def kernel(self, *operands: Any) -> Kernel:
        """The kernel that a call with these operands would run, whatever results it is given.

        Raises:
            ArgumentError: none fits.
            DeviceError: no usable GPU.
        """
        spec = self.kernels[0].spec
        return self._kernel(operands[: len(spec.operands)], (object(),) * len(spec.results), {})

    def _kernel(self, operands: tuple[Any, ...], out: Any, named: dict[str, Any]) -> Kernel:
        kernel = self._ladder.find(operands) if self._ladder is not None and not torch_calls.tracing() else None
        if kernel is None:
            kernel = self.kernels[0] if len(self.kernels) == 1 else self._choice(operands, out, named)
        return kernel

    def _choice(self, operands: tuple[Any, ...], out: Any, named: dict[str, Any]) -> Kernel:
        """The kernel for these arguments, as found for other tensors of torch's with their shapes on their GPU."""
        if named or len(operands) < len(self.kernels[0].spec.operands) or torch_calls.tracing():
            return self._fitting(operands, out, named)
        tensors = [operands[i] for i in self._tensors]
        try:
            key = (*[t.get_device() for t in tensors], *[t.shape for t in tensors])
            found = self._chosen.get(key)
        except Exception:  # not torch's tensors, or their sizes symbols
            return self._fitting(operands, out, named)
        if self._targets > 1 and key[0] < 0:  # the current GPU decides
            return self._fitting(operands, out, named)
        if found is None:
            found = self._fitting(operands, out, named)
            if len(self._chosen) >= _CHOSEN:
                self._chosen.clear()
            self._chosen[key] = found
        return found

    def _fitting(self, operands: tuple[Any, ...], out: Any, named: dict[str, Any]) -> Kernel:
        spec = self.kernels[0].spec
        values, _ = checks.bind(spec, operands, out, named)
        tensors = [(t, value) for t, value in zip(spec.operands, values, strict=True) if not t.scalar]
        shapes = {t.name: _shape(t.name, value) for t, value in tensors}
        fits = [k for k in self.kernels if _fits(k.spec, shapes)]
        if not fits:
            seen = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
            raise ArgumentError(
                f"no kernel of {self.name} is compiled for these shapes",
                got=seen,
                expected=f"one of: {'; '.join(_dims(k.spec) for k in self.kernels)}",
                fix="compile with a range that has these sizes, or leave sizes open; in a bundle under the same name",
            )
        targets = {k.spec.target for k in fits}
        if len(targets) == 1:
            return fits[0]
        capability = _capability(fits[0], values)
        able = (k for k in fits if (row := TARGETS.get(k.spec.target)) is None or row.capability == capability)
        return next(able, fits[0])


def runs(spec: KernelSpec, sizes: Mapping[str, int]) -> bool:
    """Whether a kernel runs these sizes, one of every dimension."""
    fixed = all(name in sizes and size in (None, sizes[name]) for name, size in spec.dims.items())
    return fixed and all(Range(*within).has(sizes[name]) for name, within in spec.ranges.items())


def _specialised(spec: KernelSpec) -> tuple[Any, ...]:
    """The order in which kernels are asked whether they fit."""
    fixed = sum(size is not None for size in spec.dims.values())
    return -fixed, -len(spec.ranges), sorted(spec.ranges.values())


def _dims(spec: KernelSpec) -> str:
    known = [f"{name} = {size}" for name, size in spec.dims.items() if size is not None]
    known += [f"{name} = {Range(*within)}" for name, within in spec.ranges.items()]
    return f"{', '.join(known) or 'any size'} ({spec.target})"


def _shape(name: str, value: Any) -> tuple[int, ...]:
    try:
        return tuple([int(e) for e in value.shape])
    except Exception:  # whatever an object of a library's raises
        return adopt(name, value, -1, lambda _: ("cuda", -1)).shape


def _packed(t: TensorSpec, axis: int) -> bool:
    """Whether a stored extent does not tell the dimension's: several elements in a byte, or whole tiles."""
    return t.scalar or t.layout == "blocked" or (ELEMENT_TYPES[t.dtype].bits < 8 and axis == t.contiguous)


def _fits(spec: KernelSpec, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether every size fixed at compile time is the one of these shapes, and every range has theirs, but for those of
    the program: beyond them its kernel says why."""
    for t in spec.operands:
        shape = shapes.get(t.name, ())
        if t.scalar or t.layout == "blocked" or len(shape) != len(t.shape):
            continue
        known = {name: size for name, size in spec.dims.items() if size is not None}
        wanted = stored_shape(t, {dim: 0 for e in t.shape for dim in e.names} | known)
        fixed = [all(dim in known for dim in e.names) for e in t.shape]
        if any(f and want != have for f, want, have in zip(fixed, wanted, shape, strict=True)):
            return False
        for axis, (e, have) in enumerate(zip(t.shape, shape, strict=True)):
            within = spec.ranges.get(e.dim) if e.divisor == 1 and not _packed(t, axis) else None
            if within is not None and e.dim not in spec.limits and not Range(*within).has(have):
                return False
    return True


def order_of_sums(schedule: str) -> dict[str, str]:
    """What the order of a row's sums depends on in a kernel of this schedule: those for several M must agree."""
    fields = dict(f.split("=", 1) for f in schedule.split(", ") if "=" in f)
    return {**{f: fields.get(f, "") for f in _SUMS}, "tile K": fields.get("tile", "").rpartition("x")[2]}


def _check_invariant(name: str, kernels: Iterable[Kernel]) -> None:
    """Refuses kernels for the same problem, all invariant, whose sums are taken in different orders."""
    seen: dict[Any, dict[str, str]] = {}
    for k in kernels:
        if "invariant=1" not in k.spec.schedule.split(", "):
            continue
        m, n, *_ = k.spec.flops or ("", "")
        order = order_of_sums(k.spec.schedule)
        rows = n if order["swap"] == "1" else m  # of the program: the kernel's are those of the transposed result
        others = tuple((d, size) for d, size in k.spec.dims.items() if d != rows)
        first = seen.setdefault((k.spec.source, k.spec.target, others), order)
        if order != first:
            one, other = (
                [f"{f} = {v}" for f, v in x.items() if v != y[f]] for x, y in ((first, order), (order, first))
            )
            raise ScalecError(
                f"kernels of {name} are to give bit-equal rows, and add in different orders",
                got=f"{', '.join(one)}; and {', '.join(other)}",
                expected="the same in all that are compiled with invariant",
                fix="leave these fields out of the schedules of each, or give all the same",
            )


def _capability(kernel: Kernel, values: Sequence[Any]) -> tuple[int, int]:
    if kernel.fixed is not None:
        return kernel.fixed.capability
    from scalec.runtime import driver

    ordinals = (v.get_device() for v in values if hasattr(v, "get_device"))
    ordinal = next((i for i in ordinals if i >= 0), None)
    return driver.facts(driver.current_ordinal() if ordinal is None else ordinal).capability
