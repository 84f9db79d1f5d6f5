"""A program of several launches, called as one: what one of them leaves in memory, a later one reads."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from collections.abc import Sequence as Several
from dataclasses import replace
from itertools import count
from typing import Any

from scalec.abi import KernelSpec, TensorSpec
from scalec.errors import ArgumentError
from scalec.reads import Lookup, Reads
from scalec.runtime import checks, torch_calls
from scalec.runtime.bound import Bound
from scalec.runtime.device import Device
from scalec.runtime.dispatch import Program
from scalec.runtime.form import Form
from scalec.runtime.kernel import Kernel, Loaded
from scalec.runtime.registry import kernels
from scalec.runtime.signature import Signature
from scalec.runtime.tensors import Turned, adopt, is_torch

_serials = count()

_MADE = r"\s*NAME\[[^=]*?\](?::(\w+))?(?:\s*scale\(([^=]*?)(?: of [^=]*?)?\))?\s*=\s*(.*?)(?: (?:for|with) .*)?\s*"
"""A statement that makes NAME: its element type, its blocks of scales and its value."""


class Sequence:
    """The launches of one program, called as one: arguments, results and refusals are those of a Kernel.

    A call makes what stands between two launches as it makes results, so torch's allocator has it back after the call,
    and a CUDA graph keeps its own. `bind` makes it once. torch.compile sees one op where each launch has one kernel,
    else an op for each launch. A result that does not fit a later launch is refused when the first has been launched:
    that wrote nothing but what stands between, and results of its own. Where results are added to, all launches are
    checked before.

    Attributes:
        spec: the program's: what a caller passes and receives, its sizes. Schedule and launch are the first one's, and
            arguments there are none.
        launches: a kernel for each, or several for parts of a range of sizes.
        between: the tensors that one launch leaves to a later one.
        turned: operands that a launch reads with their last two indices exchanged: what it calls them, what callers do.
        cubin, ptx: those of all launches, one behind the other.
        serial: its number, of all made in this process.
        signature: what follows from the specs.
    """

    def __init__(
        self,
        source: str,
        launches: Several[Kernel | Program],
        operands: Several[str],
        results: Several[str],
        turned: Several[tuple[str, str]] = (),
    ) -> None:
        self.source, self.launches, self.turned = source, _fitting(launches, results), tuple(turned)
        specs = [_spec(x) for x in self.launches]
        made = {t.name: t for spec in specs for t in spec.results}
        known = {t.name: t for spec in specs for t in spec.operands} | made
        known |= {given: _seen(known[name], given, known.get(given.rpartition("_scale")[0])) for name, given in turned}
        self.between = tuple(made[n] for n in made if n not in results)
        self.spec = _whole(source, specs, [known[n] for n in operands], [known[n] for n in results])
        self._ahead = [
            {
                i: more
                for i, t in enumerate(s.operands)
                if t.name in made and (more := len(t.shape) - len(made[t.name].shape))
            }
            for s in specs
        ]
        self.signature = _signature(self.spec, [_first(x).signature for x in self.launches], self.turned)
        self._steps = [([t.name for t in s.operands], [t.name for t in s.results]) for s in specs]
        have = {*operands, *(name for name, _ in turned)}
        for inputs, left in self._steps:
            if missing := set(inputs) - have:
                raise KeyError(min(missing))
            have.update(left)
        self._names = tuple(t.name for t in self.spec.results)
        self.cubin = b"".join(k.cubin for k in self.kernels)
        self.ptx = "".join(k.ptx for k in self.kernels)
        self.serial = f"sequence {next(_serials)}"
        self._one_op = all(len(kernels_of(x)) == 1 for x in self.launches)
        self._op: Any = None
        kernels[self.serial] = self

    @property
    def fixed(self) -> Device | None:
        """The device that all launches always run on; None for the GPU of each call's tensors."""
        return _first(self.launches[0]).fixed

    @fixed.setter
    def fixed(self, device: Device | None) -> None:
        for kernel in self.kernels:
            kernel.fixed = device

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels of all launches."""
        return [k for x in self.launches for k in kernels_of(x)]

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.spec.entry

    @property
    def op(self) -> Any:
        """All launches as one op of torch's: see Kernel.op.

        Raises:
            ArgumentError: torch has not been imported, or the kernel of a launch depends on the sizes of the call.
        """
        if not self._one_op:
            raise ArgumentError(
                f"{self.name} has several kernels for one launch",
                expected="one for each",
                fix="call it: torch sees an op",
            )
        if self._op is None:
            from scalec.runtime import custom_op

            self._op = custom_op.registered(self)
        return self._op

    def __deepcopy__(self, memo: Any) -> Sequence:
        return self

    def __reduce__(self) -> Any:
        names = [t.name for t in self.spec.operands]
        return Sequence, (self.source, self.launches, names, self._names, self.turned)

    def __repr__(self) -> str:
        return f"Sequence({self.name}: {', then '.join(map(repr, self.launches))})"

    def __call__(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Runs all launches, one behind the other; arguments are those of Kernel.__call__.

        Raises:
            ArgumentError: an argument does not fit.
            DeviceError: no usable GPU, or the driver refused a launch.
        """
        if self._one_op and torch_calls.tracing():
            from scalec.runtime import traced

            return traced.call(self, operands, out, stream, named)
        values, outs = checks.bind(self.spec, operands, out, named)
        return self._run(values, outs, stream)

    def bind(self, *operands: Any, out: Any = None, stream: Any = None, **named: Any) -> BoundSequence:
        """A call that will be made again and again with these very arguments, and the same memory between launches: see
        Kernel.bind.

        Raises:
            ArgumentError: an argument does not fit, or no result is given to write.
            DeviceError: no usable GPU.
        """
        values, outs = checks.bind_all(self.spec, operands, out, named)
        return BoundSequence(self, self._bound(values, outs, stream), values, outs)

    def check_overlaps(self, operands: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
        """Refuses results that lie over one another, or over an operand: each launch sees but its own tensors.

        Raises:
            ArgumentError: two tensors share a byte, one of them a result; or a tensor is none.
        """
        scalars, torch = set(self.signature.scalars), sys.modules.get("torch")
        tensors = [x for t, x in zip(self.spec.operands, operands, strict=True) if t.name not in scalars] + [*outs]
        if torch is not None and torch_calls.dispatched(torch, tensors):
            return  # without memory, or seen again where they have some
        seen: list[tuple[Form, int]] = []
        for i, (t, x) in enumerate(zip(self.signature.tensors, tensors, strict=True)):
            view = adopt(t.name, x, -1, lambda _: ("cuda", -1))
            form = Form.of(t, view.shape, view.strides)
            for other, at in seen if i >= len(tensors) - len(outs) else ():
                checks.check_overlap(other, at, form, view.pointer)
            seen.append((form, view.pointer))

    def calls(
        self, operands: tuple[Any, ...], outs: tuple[Any, ...], stream: Any = None
    ) -> list[tuple[Kernel | Program, tuple[Any, ...], tuple[Any, ...]]]:
        """Each launch with its operands and results, in order, of operands and results of the whole."""
        have, every = self._named(operands, outs), []
        for launch, (inputs, results), ahead in zip(self.launches, self._steps, self._ahead, strict=True):
            given = self._given(have, inputs, ahead)
            have |= self._missing(launch, given, results, have, stream)
            every.append((launch, given, tuple([have[name] for name in results])))
        return every

    def load(self, device: Device | None = None) -> Loaded:
        """Loads every kernel on a device (before a CUDA graph is captured), and returns the first; see Kernel.load.

        Raises:
            DeviceError: a GPU that a kernel is not compiled for, or none where one is asked for.
        """
        first, *_ = [k.load(device) for k in self.kernels]
        return first

    def _named(self, operands: tuple[Any, ...], outs: tuple[Any, ...] | None) -> dict[str, Any]:
        have = dict(zip((t.name for t in self.spec.operands), operands, strict=True))
        have |= {name: _turned(have[given]) for name, given in self.turned}
        return have | dict(zip(self._names, outs or (), strict=False))

    def _run(self, operands: tuple[Any, ...], outs: tuple[Any, ...] | None, stream: Any = None) -> Any:
        """The launches, with operands, and results (None: allocates them), in order."""
        have = self._named(operands, outs)
        if outs is not None:
            self.check_overlaps(operands, outs)
            if any(t.inout for t in self.spec.results) and not torch_calls.tracing():
                self.launched(self._bound(operands, outs, stream))
                return outs[0] if len(outs) == 1 else outs
        for launch, (inputs, results), ahead in zip(self.launches, self._steps, self._ahead, strict=True):
            given, out = self._given(have, inputs, ahead), None
            try:
                if any(name in have for name in results) or any(t.given for t in _spec(launch).results):
                    have |= self._missing(launch, given, results, have, stream)
                    out = tuple([have[name] for name in results])
                made = launch(*given, out=out, stream=stream)
            except ArgumentError as error:
                raise self._of_caller(error) from None
            have |= zip(results, made if len(results) > 1 else (made,), strict=True)
        made = tuple([have[name] for name in self._names])
        return made[0] if len(made) == 1 else made

    def launched(self, every: Iterable[Any]) -> None:
        """Launches what is bound, one behind the other."""
        try:
            for bound in every:
                bound()
        except ArgumentError as error:  # of what index tensors hold
            raise self._of_caller(error) from None

    def _bound(self, operands: tuple[Any, ...], outs: tuple[Any, ...], stream: Any) -> list[Any]:
        """Each launch, bound to its operands and results."""
        try:
            every = self.calls(operands, outs, stream)
            return [launch.bind(*given, out=out, stream=stream) for launch, given, out in every]
        except ArgumentError as error:
            raise self._of_caller(error) from None

    def _of_caller(self, error: ArgumentError) -> ArgumentError:
        """The refusal of a launch, in which what it reads with exchanged indices is a view of what its caller did, and
        what stands between is what its caller wrote."""
        said = [(rf"\b{name}\b", f"{given}.mT") for name, given in self.turned]
        own = [t.name for t in reversed(self.between) if not re.search(rf"\b{t.name}\b", self.source)]
        said += [(rf"\b{re.escape(dim)}\b", text) for name in own for dim, text in self._dims_of(name)]
        said += [(rf"\b{name}\b(\[[^]]*\])?(:\w+)?", text) for name in own if (text := self._written(name))]
        return reworded(error, said)

    def _dims_of(self, name: str) -> list[tuple[str, str]]:
        """Dimensions that are called after a tensor between two launches, and what the caller's tensor calls them."""
        statements = [x for launch in self.launches for x in re.split(r"[;\n]", _spec(launch).source)]
        found = next((m for x in statements if (m := re.match(rf"\s*{re.escape(name)}\[([\w,]*)\]", x))), None)
        if found is None:
            return []
        return [(f"{name}_{axis}", dim) for axis, dim in enumerate(found[1].split(","))]

    def _written(self, name: str) -> str:
        """What a tensor between two launches is, as far as one statement says; "" where none does."""
        tensor, scale, _ = name.rpartition("_scale")
        own = _MADE.replace("NAME", re.escape(tensor or name))
        statements = [x for launch in self.launches for x in re.split(r"[;\n]", _spec(launch).source)]
        found = next((m for x in statements if (m := re.fullmatch(own, x))), None)
        if found is None:
            return ""
        element, block, value = found.groups()
        if block is not None:
            value = f"quantize({value}, {element}, {block})"
        return f"the scale of {value}" if scale else value

    def _given(self, have: dict[str, Any], inputs: list[str], ahead: dict[int, int]) -> tuple[Any, ...]:
        """The operands of a launch. What stands between two may have indices more in front there, by which rows are
        skipped (scalec.frontend.cut): it has the same at each, of as many as any operand's indices may name."""
        given = [have[name] for name in inputs]
        if ahead:
            operands = [have[t.name] for t in self.spec.operands if not t.scalar]
            most = max(n for x in operands for n in (1, *_shape(x)))
            for i, more in ahead.items():
                given[i] = _expanded(given[i], (most,) * more)
        return tuple(given)

    def _missing(
        self, launch: Kernel | Program, given: tuple[Any, ...], results: list[str], have: dict[str, Any], stream: Any
    ) -> dict[str, Any]:
        """Memory for those results of a launch that stand between two."""
        if all(name in have for name in results):
            return {}
        kernel = launch if isinstance(launch, Kernel) else launch.kernel(*given)
        if torch_calls.tracing():
            from scalec.runtime import custom_op

            made = custom_op.made_results(kernel, given)
        else:
            made = kernel._unwritten(given, stream)
        return {name: x for name, x in zip(results, made, strict=True) if name not in have}


class BoundSequence:
    """Launches bound to their arguments: `bound()` launches all, one behind the other. See scalec.runtime.bound.Bound.

    Attributes:
        out: the result that each call writes; a tuple of several.
    """

    __slots__ = ("_bound", "_lie", "_operands", "_outs", "_sequence", "_torch", "out")

    def __init__(
        self, sequence: Sequence, bound: Several[Bound], operands: tuple[Any, ...], outs: tuple[Any, ...]
    ) -> None:
        self._sequence, self._bound, self._operands, self._outs = sequence, tuple(bound), operands, outs
        self._torch = [x for x in (*operands, *outs) if is_torch(x)]
        self.out = outs[0] if len(outs) == 1 else outs
        sequence.check_overlaps(operands, outs)
        self._lie = self._lying()

    def _lying(self) -> list[Any]:
        """Where torch's tensors are, which may come to lie elsewhere."""
        return [(x.data_ptr(), x.shape, x.stride()) for x in self._torch]

    def __call__(self) -> Any:
        """Launches, and returns `out`; raises what Bound.__call__ does."""
        if (lie := self._lying()) != self._lie:
            self._sequence.check_overlaps(self._operands, self._outs)
            self._lie = lie
        self._sequence.launched(self._bound)
        return self.out

    def __repr__(self) -> str:
        return f"BoundSequence({', then '.join(map(repr, self._bound))})"


def _fitting(launches: Several[Kernel | Program], names: Several[str]) -> tuple[Kernel | Program, ...]:
    """The launches, of which each leaves its results with rows as far apart as a later one needs them: copies of rows
    begin at multiples of 16 bytes, which who stores single elements does not ask for. What stands between is not read
    where no result of the whole (`names`) has elements, and need not be written: the scale of a tensor without rows."""
    needs: dict[str, int] = {}
    for launch in launches:
        for kernel in kernels_of(launch):
            for t in kernel.spec.operands:
                needs[t.name] = max(needs.get(t.name, 1), t.align)
    last = [{e.dim for e in t.shape} for x in launches for t in _spec(x).results if t.name in names]
    unread = frozenset(set.intersection(*last) - {""}) if last else frozenset[str]()

    def one(kernel: Kernel) -> Kernel:
        results = tuple(replace(t, align=max(t.align, needs.get(t.name, 1))) for t in kernel.spec.results)
        between = not {t.name for t in results} & {*names}
        if results == kernel.spec.results and not between:
            return kernel
        made = Kernel(replace(kernel.spec, results=results), kernel.cubin, ptx=kernel.ptx, device=kernel.fixed)
        if between:
            made.signature = replace(made.signature, unread=unread)
        return made

    return tuple(one(x) if isinstance(x, Kernel) else Program(x.name, map(one, x.kernels)) for x in launches)


def kernels_of(launch: Kernel | Program) -> list[Kernel]:
    """The kernels of a launch."""
    return launch.kernels if isinstance(launch, Program) else [launch]


def _first(launch: Kernel | Program) -> Kernel:
    return kernels_of(launch)[0]


def _spec(launch: Kernel | Program) -> KernelSpec:
    return _first(launch).spec


def _shape(x: Any) -> tuple[int, ...]:
    """The extents of a tensor that a caller passed."""
    return tuple(x.shape if is_torch(x) else adopt("an operand", x, -1, lambda _: ("cuda", -1)).shape)


def _expanded(x: Any, extents: tuple[int, ...]) -> Any:
    """A tensor between two launches with further indices in front, along which nothing changes."""
    return x.expand(*extents, *x.shape) if is_torch(x) else x._expanded(extents)


def _turned(x: Any) -> Any:
    """A tensor that a caller passed, with its last two indices exchanged."""
    return x.transpose(-1, -2) if is_torch(x) else Turned(x)


def _seen(t: TensorSpec, name: str, of: TensorSpec | None) -> TensorSpec:
    """An operand, of what a launch reads with its last two indices exchanged: scales of operand `of`, whose other
    indices are these scales' too."""
    ahead = of.shape[:-2] if of is not None and len(of.shape) == len(t.shape) else t.shape[:-2]
    ahead = tuple(x if y.names else y for x, y in zip(ahead, t.shape[:-2], strict=True))
    return replace(t, name=name, shape=(*ahead, *t.shape[:-3:-1]), layout="row" if t.layout == "col" else "col")


def _whole(source: str, specs: list[KernelSpec], operands: list[TensorSpec], results: list[TensorSpec]) -> KernelSpec:
    """The spec of a program of several launches."""
    dims = {name: size for spec in reversed(specs) for name, size in spec.dims.items()}
    seen = [extent for t in (*operands, *results) for extent in t.shape]
    told = {name for extent in seen for name in extent.names}  # not what tensors in between alone have
    return replace(
        specs[0],
        source=source,
        entry=specs[-1].entry,
        dims={name: dims[name] for spec in specs for name in spec.dims if name in told},
        operands=tuple(operands),
        results=tuple(results),
        arguments=(),
        ranges={},
        limits={},
        views=(),
        reads=_reads(specs, operands),
    )


def _reads(specs: list[KernelSpec], operands: list[TensorSpec]) -> tuple[Reads, ...]:
    """What launches read from memory before they know what to compute. An index of what one left to another is one of
    the operand that has as many there; one by which rows are skipped once more says nothing new."""
    left = {t.name: t for spec in reversed(specs) for t in spec.results}
    places = {extent: (t.name, axis) for t in reversed(operands) for axis, extent in enumerate(t.shape)}

    known = {t.name: len(t.shape) for spec in specs for t in spec.operands}
    again = {name for name, t in left.items() if known.get(name, 0) > len(t.shape)}

    def of_operand(x: Lookup) -> Lookup:
        tensor, axis = places.get(left[x.tensor].shape[x.axis], ("", 0)) if x.tensor in left else ("", 0)
        return replace(x, tensor=tensor, axis=axis) if tensor and x.once is None else x

    every = [r for spec in specs for r in spec.reads]
    return tuple(replace(r, lookups=tuple(of_operand(x) for x in r.lookups if x.tensor not in again)) for r in every)


def _signature(spec: KernelSpec, parts: list[Signature], turned: Several[tuple[str, str]]) -> Signature:
    """What follows from the specs of all launches."""
    tensors = (*(t for t in spec.operands if not t.scalar), *spec.results)
    uses = {name: use for part in reversed(parts) for name, use in part.uses.items()}
    ranks = {t.name: len(t.shape) for t in spec.operands}
    for name, given in turned:
        exchanged = {ranks[given] - 2: ranks[given] - 1, ranks[given] - 1: ranks[given] - 2}
        uses[given] = replace(uses[name], strides=frozenset(exchanged.get(axis, axis) for axis in uses[name].strides))
    return Signature(spec, tensors, tuple(t.name for t in spec.operands if t.scalar), uses)


def reworded(error: ArgumentError, said: Iterable[tuple[str, str]]) -> ArgumentError:
    """A refusal in a caller's words: regular expressions, and what stands for what they find."""
    parts = [error.message, error.got, error.expected, error.fix]
    for name, text in said:
        parts = [re.sub(name, text, part) for part in parts]
    message, got, expected, fix = parts
    return ArgumentError(message, got=got, expected=expected, fix=fix, place=error.place)
