"""What a call asks of torch, by the shortest way that the installed torch has.

Of torch's internals each is tried once before it is relied on; without it the public way is taken, which is slower
and gives the same. Nothing here imports torch: it is called only with tensors of a torch that is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from scalec.errors import ArgumentError
from scalec.formats import ELEMENT_TYPES

Check = Callable[..., bool]


def tracing() -> bool:
    """Whether torch.compile is reading the code that asks (it takes this for true; see scalec.runtime.traced)."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


def plain(torch: Any, tensors: Sequence[Any]) -> bool:
    """Whether all are torch's own tensors: neither another library's, nor of a subclass."""
    return all(type(t) is torch.Tensor or type(t) is torch.nn.Parameter for t in tensors)


def dispatched(torch: Any, tensors: Sequence[Any]) -> bool:
    """Whether somebody must see the call as an op of torch's: tensors without memory (fake, meta, functional, of a
    transform, of a subclass that dispatches), a dispatch mode, a transform, or torch.jit.trace."""
    c = torch._C
    functorch = c._functorch
    return (
        bool(c._len_torch_dispatch_stack())
        or functorch.peek_interpreter_stack() is not None
        or c._get_tracing_state() is not None
        or any(
            type(t).__torch_dispatch__ is not c._disabled_torch_dispatch_impl
            or functorch.is_functorch_wrapped_tensor(t)
            or torch._is_functional_tensor(t)
            or t.is_meta
            for t in tensors
            if isinstance(t, torch.Tensor)
        )
    )


def refuse_gradients(torch: Any, names: Sequence[str], tensors: Sequence[Any]) -> None:
    """Refuses tensors whose gradient somebody will ask for: a kernel has no backward.

    Raises:
        ArgumentError: one requires grad, and grad mode is on.
    """
    if not torch.is_grad_enabled():
        return
    for name, t in zip(names, tensors, strict=False):
        if isinstance(t, torch.Tensor) and t.requires_grad:
            raise ArgumentError(
                f"{name} requires grad, and a kernel has no backward",
                expected="a call that nothing is differentiated through",
                fix=f"call it under torch.no_grad() or torch.inference_mode(), or give {name}.detach()",
            )


# ------------------------------------------------------------------------------------------- tensors of an earlier call


def alike(torch: Any, tensors: Sequence[Any]) -> Check:
    """What says of tensors whether they are as these, addresses apart: types, shapes, strides, dtypes, devices; and
    whether they may be taken as these were: no gradient asked for, nobody who must see the call as an op."""
    guards = _guards(torch)
    if guards is None or len({id(t) for t in tensors}) < len(tensors):  # torch's guards refuse one tensor given twice
        return _by_attributes(torch, tensors)
    return guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check


def _by_attributes(torch: Any, tensors: Sequence[Any]) -> Check:
    wanted = [(type(t), t.shape, t.stride(), t.dtype, t.device, t.is_neg()) for t in tensors]

    def check(*given: Any) -> bool:
        kind = torch.Tensor
        return (
            len(given) == len(wanted)
            and all(
                isinstance(t, kind) and (type(t), t.shape, t.stride(), t.dtype, t.device, t.is_neg()) == w
                for t, w in zip(given, wanted, strict=True)
            )
            and not (torch.is_grad_enabled() and any(t.requires_grad for t in given))
            and not dispatched(torch, given)
        )

    return check


@cache
def _guards(torch: Any) -> Any:
    """torch.compile's guards on tensors: one call for all of them, in 0.45 µs for five where asking each for shape,
    strides, dtype and device takes 2.5 (torch 2.13). None where they are not as they have been since torch 2.1."""
    try:
        found = torch._C._dynamo.guards.TensorGuards

        def make(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any = torch.float32) -> Any:
            return torch.empty_strided(shape, strides, dtype=dtype, device="cpu")

        first, second = make((2, 3), (4, 1)), make((5,), (1,))
        check = found(first, second, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        same = check(make((2, 3), (4, 1)), make((5,), (1,)))
        others = (
            make((2, 2), (4, 1)),
            make((2, 3), (3, 1)),
            make((2, 3, 1), (4, 1, 1)),
            make((2, 3), (4, 1), torch.int32),
            torch._neg_view(first),
            object(),
        )
        return found if same is True and not any(check(x, second) or check(first, x) for x in others) else None
    except (AttributeError, TypeError, RuntimeError):
        return None


# ----------------------------------------------------------------------------------------------------- results, streams


def result_dtype(torch: Any, dtype: str) -> Any:
    """torch's dtype of a result of the language's type: bytes where torch has none."""
    if ELEMENT_TYPES[dtype].bits < 8:
        return torch.uint8
    return getattr(torch, ELEMENT_TYPES[dtype].numpy, torch.uint8)


Forms = Sequence[tuple[tuple[int, ...], tuple[int, ...], str]]


def allocator(torch: Any, forms: Forms, device: Any) -> Callable[[], tuple[Any, ...]]:
    """What allocates tensors of these (shape, strides, the language's type) on a device and torch's current stream.

    Past the dispatcher where torch has that way, which takes the current GPU only (a third of the time).
    """
    wanted = [(shape, strides, result_dtype(torch, dtype)) for shape, strides, dtype in forms]
    short = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), f"_empty_strided_{device.type}", None)
    here: Callable[[], int] | None = getattr(torch._C, "_cuda_getDevice", None)
    ordinal = device.index or 0

    def public() -> tuple[Any, ...]:
        return tuple([torch.empty_strided(s, t, dtype=d, device=device) for s, t, d in wanted])

    if short is None or not _allocates(short, device) or (device.type == "cuda" and here is None):
        return public
    if device.type != "cuda" or here is None:
        return lambda: tuple([short(*form) for form in wanted])
    if len(wanted) > 1:
        return lambda: tuple([short(*form) for form in wanted]) if here() == ordinal else public()
    ((shape, strides, dtype),) = wanted
    return lambda: (short(shape, strides, dtype),) if here() == ordinal else public()


def _allocates(short: Callable[..., Any], device: Any) -> bool:
    torch = sys.modules["torch"]
    try:
        made = short((2, 3), (4, 1), torch.bfloat16)
        return (tuple(made.shape), made.stride(), made.dtype, made.device.type) == (
            (2, 3),
            (4, 1),
            torch.bfloat16,
            device.type,
        )
    except (TypeError, RuntimeError):
        return False


def stream_of(torch: Any, device: Any) -> Callable[[int], int]:
    """What says the handle of torch's current stream on a GPU, given its ordinal; on the host there is but 0."""
    if device.type != "cuda":
        return lambda _ordinal: 0
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a third of the time of current_stream()
    return raw if raw is not None else lambda ordinal: torch.cuda.current_stream(ordinal).cuda_stream


def writer(torch: Any) -> Callable[[Sequence[Any]], Any]:
    """What tells autograd that tensors have been written in place."""
    try:
        torch._C._increment_version(())  # of several tensors; once it took one
        return torch._C._increment_version
    except (AttributeError, TypeError):
        return lambda tensors: [torch.autograd.graph.increment_version(t) for t in tensors]
