"""A program and its gradients as one op of torch's, `torch.ops.scalec.<name>`, that autograd goes through.

The op returns the program's results and, behind them, what the gradients read of it (scalec.gradients): these are
saved as they are, once, beside the inputs that the gradients read. Backward runs the steps that what is asked for
needs, each the op of its kernel (scalec.runtime.custom_op), so that torch.compile sees one op forward and one a step
backward. The gradient of a gradient is refused, as that of any kernel. Where no gradient can be asked for, a second op
runs the program alone, which is compiled then: nothing is kept, and operands are quantised in its own order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from scalec.abi import KernelSpec, TensorSpec
from scalec.errors import ArgumentError, shown
from scalec.formats import WORDS
from scalec.gradients.steps import Gradients, LeftOut, Step
from scalec.runtime import checks, custom_op, made_indices, torch_calls
from scalec.runtime.dispatch import Program
from scalec.runtime.kernel import Kernel
from scalec.runtime.sequence import Sequence as Launches
from scalec.runtime.sequence import reworded
from scalec.runtime.stored import align_up

_libraries: list[Any] = []


class Differentiable:
    """A program whose gradients torch's autograd finds: `C = layer(A, B)`, `C.sum().backward()`.

    Called as a Kernel is, with torch tensors alone, and without `out`: results are allocated, and where a program
    leaves elements unwritten these are 0, as is their gradient.

    Args:
        gradients: what scalec.grad made.
        names: of the program's arguments, in their order, without scales of what is quantised here.
        forward: the kernel of `gradients.forward`.
        steps, quantisers: those of `gradients.steps`, and of `gradients.quantisers`.
        most: by index tensor, how often it names one row at most, where rows are read through it.
        alone: gives the program's kernel where nothing is differentiated, and those of its quantisers.

    Raises:
        ArgumentError: `most` lacks an index, or the program adds to what a caller gives.
    """

    def __init__(
        self,
        gradients: Gradients,
        names: Sequence[str],
        forward: Kernel | Program | Launches,
        steps: Sequence[Kernel | Program | Launches],
        most: Mapping[str, int],
        quantisers: Sequence[Kernel | Program | Launches],
        alone: Callable[[], tuple[Kernel | Program | Launches, Sequence[Kernel | Program | Launches]]],
    ) -> None:
        self.gradients, self.forward, self.steps, self.most = gradients, forward, tuple(steps), dict(most)
        self.quantisers, self._alone = tuple(quantisers), cache(alone)
        self.names = tuple(names)
        spec = _spec(forward)
        for t in spec.results:
            if t.inout:
                raise ArgumentError(
                    f"{t.name} is added to in place, which autograd cannot see",
                    got="+=",
                    expected="=",
                    fix=f"define {t.name} with =, and add to it in torch",
                )
        for index in gradients.indices.values():
            for source in index.tensors if index.kind in ("inverse", "points") else ():
                if source not in self.most:
                    raise ArgumentError(
                        f"{index.of} is read at {source}, and how often one row is read is not known",
                        expected=f"the most times that {source} names one row, as most={{'{source}': 8}}",
                        fix=f"or once='{source}', where that is 1",
                    )
        made = {n for s in gradients.quantisers for n in s.makes}
        for s in gradients.steps:
            if missing := [n for n, what in s.reads.items() if what == "layout" and n not in made]:
                of = gradients.layouts.get(missing[0], missing[0])
                raise ArgumentError(
                    f"{', '.join(s.results)} reads {missing[0]}, which is {of} with another index last",
                    got=f"{of} as the program has it",
                    expected=f"what {of} is quantised of, as quantized_from={{'{of}': 'bf16'}}",
                    fix=f"or compile the programs of scalec.grad, and give them {missing[0]}",
                )
        self._scalars = {t.name for t in spec.operands if t.scalar}
        self._count = len(spec.results) - len(gradients.kept)
        read = {n for s in gradients.steps for n in s.reads}
        self._quantised = [n for s in gradients.quantisers for n in s.makes if n in read]
        self._results = [*(t.name for t in spec.results), *self._quantised]
        self.op, self.alone = _registered(self), _registered(self, alone=True)

    def __call__(self, *operands: Any, **named: Any) -> Any:
        """The results; arguments in the order of the program's, by name too.

        Raises:
            ArgumentError: an argument is missing, unknown or does not fit.
            DeviceError: no usable GPU.
        """
        import torch

        first, rest = operands, self.names[len(operands) :]
        if len(operands) > len(self.names) or set(named) != set(rest):
            raise ArgumentError(
                "the arguments are not those of the program",
                got=f"{len(operands)} in order, and {', '.join(named) or 'none'} by name",
                expected=", ".join(self.names),
                fix="pass each of these once, in this order or by name",
            )
        values = (*first, *[named[n] for n in rest])
        for name, value in zip(self.names, values, strict=True):
            if name not in self._scalars and not isinstance(value, torch.Tensor):
                raise ArgumentError(
                    f"{name} is of type {type(value).__qualname__}",
                    got=shown(value),
                    expected="a torch tensor",
                    fix=f"torch.as_tensor({name}), or scalec.compile, whose kernels take other tensors too",
                )
        if not torch_calls.tracing():  # a transform hides the tangent from the op
            torch_calls.refuse_tangents(torch, self.names, values)
        asked = torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values)
        made = (self.op if asked else self.alone)(
            *[checks.number(n, v) if n in self._scalars else v for n, v in zip(self.names, values, strict=True)]
        )
        made = made if isinstance(made, (tuple, list)) else (made,)
        return made[0] if self._count == 1 else tuple(made[: self._count])

    def __deepcopy__(self, memo: Any) -> Differentiable:
        return self  # a copy of a module that holds it has the same

    # --------------------------------------------------------------------------------------------------- for torch

    def run(self, *values: Any) -> Any:
        """The forward program, as the op runs it.

        Raises:
            ArgumentError: a tensor is dual: the op has no derivative in torch's forward mode.
        """
        import torch

        torch_calls.refuse_tangents(torch, self.names, values)
        made, known = self._made(values, launched, self.forward, self.quantisers)
        return _one_or_all((*made, *(known[n] for n in self._quantised)))

    def run_alone(self, *values: Any) -> Any:
        """The program alone, likewise."""
        import torch

        torch_calls.refuse_tangents(torch, self.names, values)
        return _one_or_all(self._made(values, launched, *self._alone())[0])

    def fake(self, *values: Any) -> Any:
        """Its results without memory."""
        made, known = self._made(values, _unwritten, self.forward, self.quantisers)
        return _one_or_all((*made, *(known[n] for n in self._quantised)))

    def fake_alone(self, *values: Any) -> Any:
        """Those of the program alone: nothing is compiled for them."""
        return _one_or_all(self._made(values, _unwritten, self.forward, self.quantisers)[0][: self._count])

    def _made(
        self,
        values: Sequence[Any],
        run: Callable[[Any, Mapping[str, Any]], Sequence[Any]],
        forward: Kernel | Program | Launches,
        quantisers: Sequence[Kernel | Program | Launches],
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """The results, and all that is known then."""
        import torch

        known = dict(zip(self.names, values, strict=True))
        for step, kernel in zip(self.gradients.quantisers, quantisers, strict=True):
            (source, *rest), (operand, *_) = step.reads, step.results
            (told,) = [t.dtype for t in _spec(kernel).operands if t.name == source]
            if known[operand].dtype != torch_calls.result_dtype(torch, told):
                raise ArgumentError(
                    f"{operand} is {known[operand].dtype}, and is quantised of {told}",
                    got=str(known[operand].dtype),
                    expected=told,
                    fix=f"convert {operand}, or say its type in quantized_from",
                )
            shapes = {n: tuple(v.shape) for n, v in known.items() if n not in self._scalars}
            every = {n: made_indices.made(self.gradients.indices[n], known, shapes, self.most) for n in rest}
            named = {t.name: {source: known[operand], **every}[t.name] for t in _spec(kernel).operands}
            try:
                _check_whole(step, kernel, named)
                made = run(kernel, named)
            except ArgumentError as error:
                raise reworded(error, [(rf"\b{source}\b", operand)]) from None
            known |= dict(zip([t.name for t in _spec(kernel).results], made, strict=True))
        return run(forward, known), known

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves what the gradients that are asked for read."""
        ctx.set_materialize_grads(False)
        outputs = dict(zip(self._results, output if isinstance(output, (tuple, list)) else (output,), strict=True))
        given = dict(zip(self.names, inputs, strict=True))
        wanted = [n for n, needed in zip(self.names, ctx.needs_input_grad, strict=False) if needed]
        for n in wanted:
            if n not in self.gradients.of:
                raise ArgumentError(
                    f"{n} requires grad, and has no gradient here",
                    expected=f"one of {', '.join(self.gradients.of)}",
                    fix=f"give {n}.detach(), or name it in wrt",
                )
        read = {n: what for s in self._needed(wanted) for n, what in s.reads.items()}
        made_of = [self.gradients.indices[n] for n, what in read.items() if what == "index"]
        read |= {tensor: "input" for index in made_of for tensor in index.tensors}
        read |= {self.gradients.parts[n].of: "input" for n, what in read.items() if what == "part"}
        read |= {x.source: "input" for n, points in self.gradients.left_out.items() if n in read for x in points}
        saved = ("input", "kept", "layout")
        tensors = [n for n, what in read.items() if what in saved and n not in self._scalars]
        ctx.wanted, ctx.tensors = wanted, tensors
        ctx.numbers = {n: given[n] for n in self._scalars if n in read}
        ctx.shapes = {n: tuple(v.shape) for n, v in given.items() if n not in self._scalars}
        ctx.kinds = {n: (v.dtype, v.device, tuple(v.shape)) for n, v in outputs.items()}
        ctx.save_for_backward(*[outputs[n] if n in outputs else given[n] for n in tensors])

    def backward(self, ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        import torch

        if torch.is_grad_enabled() and any(d is not None and d.requires_grad for d in (*gradients, *ctx.saved_tensors)):
            raise ArgumentError(
                "the gradient of a gradient is asked for, which is not there",
                got="backward with create_graph=True",
                expected="gradients that nothing is differentiated through",
                fix="leave create_graph out",
            )
        known = {**ctx.numbers, **dict(zip(ctx.tensors, ctx.saved_tensors, strict=True))}
        for name, d in zip(self._results, gradients, strict=True):
            if name in self._results[: self._count] and d is not None and name not in self.gradients.given:
                raise ArgumentError(
                    f"the gradient of {name} is asked for, and was not made",
                    expected=", ".join(self.gradients.given),
                    fix=f"name it in results, or use {name}.detach()",
                )
            if (called := self.gradients.given.get(name)) is not None:
                dtype, device, shape = ctx.kinds[name]
                if d is None:
                    known[called] = torch.zeros(shape, dtype=dtype, device=device)
                    continue
                for points in self.gradients.left_out.get(called, ()):
                    d = d if points.source not in known else torch.where(_there(points, known, shape), d, 0)
                known[called] = d.contiguous()
        shapes = {n: shape for n, (_, _, shape) in ctx.kinds.items()} | ctx.shapes
        parts = self.gradients.parts.items()
        shapes |= {n: part.shape(shapes[part.of]) for n, part in parts if part.of in shapes}
        shapes |= {name: shapes[n] for n, name in self.gradients.of.items() if n in shapes}
        for step, kernel in self._pairs(ctx.wanted):
            self._take(step, kernel, known, shapes)
        return tuple(known[self.gradients.of[n]] if n in ctx.wanted else None for n in self.names)

    def _take(
        self,
        step: Step,
        kernel: Kernel | Program | Launches,
        known: dict[str, Any],
        shapes: Mapping[str, tuple[int, ...]],
    ) -> None:
        """Runs a step on what is `known`, and adds its results."""
        parts = self.gradients.parts
        for n, what in step.reads.items():
            if what == "index" and n not in known:
                known[n] = made_indices.made(self.gradients.indices[n], known, shapes, self.most)
            elif what == "part" and n not in known:
                known[n] = parts[n].view(known[parts[n].of])
        named, views = {n: known[n] for n in step.reads}, {}
        for n in (n for n in step.results if n in parts):
            whole = parts[n].of
            if whole not in known:
                known[whole] = self._whole(whole, kernel, named, shapes[whole])
            views[n] = parts[n].view(known[whole])
        _check_whole(step, kernel, named)
        shape = next((shapes[n] for n in step.of if n in shapes), None)  # of what is zeroed, which has one
        made = launched(kernel, named, like=shape, outs=views)
        known |= dict(zip([t.name for t in _spec(kernel).results], made, strict=True))

    def _whole(self, name: str, kernel: Any, named: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
        """Memory for a gradient that is made part by part, zeros if steps do not make all."""
        import torch

        result = next(t for t in _spec(kernel).results if t.name in self.gradients.made_of(name))
        first = next(v for v in named.values() if isinstance(v, torch.Tensor))
        made = first.new_empty(shape, dtype=torch_calls.result_dtype(torch, result.dtype))
        return made if self.gradients.whole(name) else made.zero_()

    def _pairs(self, wanted: Sequence[str]) -> list[tuple[Step, Kernel | Program | Launches]]:
        needed = self._needed(wanted)
        return [(s, k) for s, k in zip(self.gradients.steps, self.steps, strict=True) if s in needed]

    def _needed(self, wanted: Sequence[str]) -> list[Step]:
        """The steps that make the gradients of these inputs."""
        names, found = {x for n in wanted for x in self.gradients.made_of(self.gradients.of[n])}, []
        for s in reversed(self.gradients.steps):
            if names & set(s.makes):
                found.append(s)
                names |= set(s.reads)
        return found


def _check_whole(step: Step, kernel: Kernel | Program | Launches, named: Mapping[str, Any]) -> None:
    """Refuses tensors of which parts alone would be transformed together."""
    for t in _spec(kernel).operands:
        shape = () if t.scalar else named[t.name].shape  # of words as int32 without those of a word
        for e, size in zip(t.shape, shape, strict=False):
            number = step.whole.get(e.tells, 1)
            if size % number:
                raise ArgumentError(
                    f"{t.name} has {size} {e.tells}, of which {number} at a time are transformed together",
                    got=f"{e.tells} = {size}",
                    expected=f"a multiple of {number}",
                    fix="pad with zeros, or give a scalec.gradients.Recipe with hadamard=0",
                )


def _there(points: LeftOut, known: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """Where no negative index leaves points of a result out, of one entry along what the index is the same for."""
    named = known[points.source] >= 0
    for i, (axis, block) in enumerate(points.axes):
        if block > 1:
            named = named.repeat_interleave(block, i).narrow(i, 0, shape[axis])
    order = sorted(range(len(points.axes)), key=lambda i: points.axes[i][0])
    sizes = {points.axes[i][0]: named.shape[i] for i in order}
    return named.permute(order).reshape([sizes.get(axis, 1) for axis in range(len(shape))])


def _one_or_all(made: Sequence[Any]) -> Any:
    return made[0] if len(made) == 1 else tuple(made)


def _unwritten(kernel: Kernel | Program | Launches, named: Mapping[str, Any]) -> list[Any]:
    return _empty(kernel, named)[1]


def launched(
    kernel: Kernel | Program | Launches,
    named: Mapping[str, Any],
    like: tuple[int, ...] | None = None,
    outs: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Any, ...]:
    """The results of a kernel, those that `outs` names written there. What it leaves elements of unwritten begins as
    zeros, of the shape `like` where the operands do not tell it."""
    spec = _spec(kernel)
    named, names = {t.name: _aligned(t, named[t.name]) for t in spec.operands}, [t.name for t in spec.results]
    given = any(t.given for t in spec.results)
    if not given and not outs:
        made = kernel(*named.values())
        return made if isinstance(made, tuple) else (made,)
    one, made = (kernel, [outs[n] for n in names]) if outs.keys() == set(names) else _empty(kernel, named, like)
    made = [outs.get(n, o) for n, o in zip(names, made, strict=True)]
    made = [o.zero_() for o in made] if given else made
    one(*named.values(), out=tuple(made) if len(made) > 1 else made[0])
    return tuple(made)


def _aligned(t: TensorSpec, value: Any) -> Any:
    """An operand whose rows lie and begin where the kernel reads them: a copy with padded rows, if they do not. Nobody
    else can pad them: they are of a gradient, as autograd gives it, or of a step before."""
    if t.scalar or value.dim() < 2:
        return value
    if t.layout == WORDS and value.dim() == len(t.shape):  # of bytes: those of a word follow each other
        import torch

        return _aligned(t, value.contiguous().view(torch.int32).squeeze(-1))
    inner, item = min(t.contiguous, value.dim() - 1), value.element_size()
    outer = [axis for axis in range(value.dim()) if axis != inner]
    if value.stride(inner) == 1 and not any(value.stride(axis) * item % t.align for axis in outer):
        return value
    wide = align_up(value.shape[inner] * item, t.align) // item
    rows = value.new_empty([*(value.shape[axis] for axis in outer), wide])
    copy = rows.narrow(-1, 0, value.shape[inner]).movedim(-1, inner)
    copy.copy_(value)
    return copy


def _empty(
    kernel: Kernel | Program | Launches, named: Mapping[str, Any], like: tuple[int, ...] | None = None
) -> tuple[Kernel | Launches, list[Any]]:
    """The kernel that runs these operands, and results like those it makes."""
    values = tuple([named[t.name] for t in _spec(kernel).operands])
    one = kernel._kernel(values, None, {}) if isinstance(kernel, Program) else kernel
    told = {e.dim for t in one.spec.operands for e in t.shape if e.divisor == 1}
    told |= {dim for dim, size in one.spec.dims.items() if size is not None}
    if like is None or {e.dim for t in one.spec.results for e in t.shape if e.dim} <= told:
        return one, list(custom_op.made_results(one, values))
    import torch

    (result,) = one.spec.results
    first = next(v for v in values if isinstance(v, torch.Tensor))
    return one, [first.new_empty(like, dtype=torch_calls.result_dtype(torch, result.dtype))]


def _spec(kernel: Kernel | Program | Launches) -> KernelSpec:
    return kernel.kernels[0].spec if isinstance(kernel, Program) else kernel.spec


def _registered(program: Differentiable, *, alone: bool = False) -> Any:
    """The op, registered now; or the one without gradients."""
    import torch

    spec = _spec(program.forward)
    every = (*program.quantisers, program.forward, *program.steps)
    kernels = [k for p in every for k in (p.kernels if isinstance(p, Program) else [p])]
    parts = [k.op._qualified_op_name for k in kernels] + [repr(program.gradients), repr(sorted(program.most.items()))]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    of, count = ("alone", program._count) if alone else ("grad", len(program._results))
    own = f"{spec.entry.replace('$', '_').replace('%', '_')}_{of}_{digest}"
    name, space = f"{custom_op.NAMESPACE}::{own}", getattr(torch.ops, custom_op.NAMESPACE)
    if not hasattr(space, own):
        library = torch.library.Library(custom_op.NAMESPACE, "FRAGMENT")
        _libraries.append(library)
        inputs = [f"{'float' if n in program._scalars else 'Tensor'} a{i}" for i, n in enumerate(program.names)]
        results = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        tags = [
            torch.Tag.pt2_compliant_tag,
            getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order),
        ]
        library.define(f"{own}({', '.join(inputs)}) -> {results}", tags=tags)
        library.impl(own, program.run_alone if alone else program.run, "CompositeExplicitAutograd")
        torch.library.register_fake(name, program.fake_alone if alone else program.fake, lib=library)
        if not alone:
            torch.library.register_autograd(name, program.backward, setup_context=program.save, lib=library)
    return getattr(space, own).default
