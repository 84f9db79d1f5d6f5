"""What a call asks of torch, by the shortest way that the installed torch has.

Of torch's internals each is tried once before it is relied on; without it the public way is taken, which is slower
and gives the same. Nothing here imports torch: it is called only with tensors of a torch that is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from scalec.errors import ArgumentError
from scalec.formats import ELEMENT_TYPES
from scalec.runtime import dlpack, handles
from scalec.runtime.handles import Handles
from scalec.runtime.trampoline import Asked

_is_nested = attrgetter("is_nested")

Check = Callable[..., bool]
Allocate = Callable[[], tuple[Any, ...]]
Stream = Callable[[int], int]
Forms = Sequence[tuple[tuple[int, ...], tuple[int, ...], str]]
"""(shape, strides, the language's type) of results."""


def tracing() -> bool:
    """Whether torch.compile is reading the code that asks (it takes this for true; see scalec.runtime.traced)."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


def plain(torch: Any, tensors: Sequence[Any]) -> bool:
    """Whether all are torch's own tensors: neither another library's, nor of a subclass."""
    return all(type(t) is torch.Tensor or type(t) is torch.nn.Parameter for t in tensors)


class NoDuals:
    """Stands for torch.autograd.forward_ad where there is no torch: there are no dual tensors."""

    _current_level = -1


def duals(torch: Any) -> Any:
    """What says by its `_current_level` whether dual tensors (torch's forward mode) may be there: 0 or more. Of a dual
    tensor nothing else tells what guards know of it."""
    found = getattr(torch.autograd, "forward_ad", None)
    return found if isinstance(getattr(found, "_current_level", None), int) else NoDuals


def has_tangent(torch: Any, value: Any) -> bool:
    """Whether a value is a dual tensor, of which torch's forward mode asks for a derivative."""
    found, functorch = duals(torch), torch._C._functorch
    if found._current_level < 0 or not isinstance(value, torch.Tensor):
        return False
    while functorch.is_batchedtensor(value):  # vmap has no rule for what is asked
        value = functorch.get_unwrapped(value)
    return found.unpack_dual(value).tangent is not None


def dispatched(torch: Any, tensors: Sequence[Any]) -> bool:
    """Whether somebody must see the call as an op of torch's: tensors without memory (fake, meta, functional, of a
    transform, of a subclass that dispatches), dual ones, a dispatch mode, a transform, or torch.jit.trace."""
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
            or has_tangent(torch, t)
            for t in tensors
            if isinstance(t, torch.Tensor)
        )
    )


def refuse_gradients(torch: Any, names: Sequence[str], tensors: Sequence[Any]) -> None:
    """Refuses tensors whose gradient somebody will ask for: a kernel has no backward. And dual ones, whose derivative
    torch's forward mode asks for: it would take that of the result for 0.

    Raises:
        ArgumentError: one requires grad, and grad mode is on; or one is dual.
    """
    refuse_tangents(torch, names, tensors)
    if not torch.is_grad_enabled():
        return
    for name, t in zip(names, tensors, strict=False):
        if isinstance(t, torch.Tensor) and t.requires_grad:
            raise ArgumentError(
                f"{name} requires grad, and a kernel has no backward",
                expected="a call that nothing is differentiated through",
                fix=f"call it under torch.no_grad() or torch.inference_mode(), or give {name}.detach()",
            )


def refuse_tangents(torch: Any, names: Sequence[str], tensors: Sequence[Any]) -> None:
    """Refuses dual tensors.

    Raises:
        ArgumentError: one is dual.
    """
    for name, t in zip(names, tensors, strict=False):
        if has_tangent(torch, t):
            raise ArgumentError(
                f"{name} has a tangent, and a kernel has no derivative in forward mode",
                got=f"a dual tensor (torch.func.jvp, torch.autograd.forward_ad) as {name}",
                expected="a call that nothing is differentiated through",
                fix=f"give {name} without its tangent: torch.autograd.forward_ad.unpack_dual({name}).primal",
            )


# ------------------------------------------------------------------------------------------- tensors of an earlier call


def alike(torch: Any, tensors: Sequence[Any]) -> Check:
    """What says of tensors whether they are as these, addresses apart: types, shapes, strides, dtypes, devices; and
    whether they may be taken as these were: no gradient asked for, nobody who must see the call as an op."""
    check, refused = _check(torch, tensors, sizes=True), _refused(torch, tensors)
    return check if refused is None else lambda *given: not refused() and check(*given)


def nested(tensors: Sequence[Any]) -> bool:
    """Whether one is of torch's nested kind, of which `alike` must not be asked: the guards ask it for strides, which
    it has not, and let the exception of C++ end the process. So must what is no tensor, which may hide one.

    Half of the guards' time (torch 2.13).
    """
    try:
        return True in map(_is_nested, tensors)
    except AttributeError:
        return True


def asked(
    torch: Any,
    operands: Sequence[Any],
    results: Sequence[Any],
    given: bool,
    allocate: Allocate,
    stream: Stream,
    ordinal: int,
    bound: bool = False,
) -> Asked:
    """What a trampoline asks to know that tensors are as these, as `alike` says, and where they are.

    Args:
        given: whether calls are given the results, or allocate them by `allocate`.
        stream, ordinal: what says the current stream, and of which GPU (see `stream_of`).
        bound: whether all calls have these very tensors, results given.
    """
    exchange, device, tensors = _exchange(torch), _DEVICES.get(operands[0].device.type), (*operands, *results)
    told = _handles(torch)
    if not (plain(torch, tensors) and _seen(told, tensors)):
        told = Handles()
    if not _seen(exchange, tensors):
        exchange = exchange._replace(find=0)
    sizes = not (told.data_ptr or exchange.find)
    together = [tensors[i : i + _TOGETHER] for i in range(0, len(tensors), _TOGETHER)] if bound else []
    return Asked(
        check=None if bound else _check(torch, operands, sizes=sizes),
        check_results=_check(torch, results, sizes=sizes) if given and not bound else None,
        checks=[(_check(torch, some, sizes=sizes), some) for some in together],
        refused=_refused(torch, tensors),
        address=torch.Tensor.data_ptr,
        handles=told,
        types=[type(t) for t in tensors],
        exchange=exchange.find,
        extents=[tuple(t.shape) for t in tensors],
        strides=[tuple(t.stride()) for t in tensors],
        wrote=writer(torch) if given else None,
        allocate=allocate,
        stream=stream,
        ordinal=ordinal,
        work_stream=0 if device is None else exchange.work_stream,
        device=(device or 0, ordinal),
    )


_TOGETHER = 4
"""Tensors that torch's guards see in one call: they note them in a table, which grows at the third and the fifth (0.20
µs for four, 0.28 for five, 0.12 for two; torch 2.13)."""


def _check(torch: Any, tensors: Sequence[Any], *, sizes: bool) -> Check:
    """What says whether tensors are as these; shapes and strides apart unless `sizes`."""
    guards = _guards(torch)
    if guards is None or len({id(t) for t in tensors}) < len(tensors):  # torch's guards refuse one tensor given twice
        return _by_attributes(torch, tensors)
    free = None if sizes else [[None] * t.dim() for t in tensors]
    return guards(*tensors, dynamic_dims_sizes=free, dynamic_dims_strides=free).check


def _refused(torch: Any, tensors: Sequence[Any]) -> Callable[[], bool] | None:
    """What says whether a gradient is asked for of tensors like these: torch's guards know what requires grad, and not
    whether grad mode is on."""
    return torch.is_grad_enabled if any(t.requires_grad for t in tensors) else None


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
        free = [[None, None], [None]]
        loose = found(first, second, dynamic_dims_sizes=free, dynamic_dims_strides=free).check
        others = (
            make((2, 2), (4, 1)),
            make((2, 3), (3, 1)),
            make((2, 3, 1), (4, 1, 1)),
            make((2, 3), (4, 1), torch.int32),
            torch._neg_view(first),
            object(),
        )
        differ = not any(check(x, second) or check(first, x) for x in others)
        loosely = loose(make((3, 9), (1, 5)), second) and not any(loose(x, second) for x in others[2:])
        return found if same is True and differ and loosely else None
    except (AttributeError, TypeError, RuntimeError):
        return None


_DEVICES = {"cpu": dlpack.CPU, "cuda": dlpack.CUDA}
"""Kind of device -> DLPack's number of it."""


@cache
def _handles(torch: Any) -> Handles:
    """What says where a tensor is, and its extents and strides, by torch's stable functions of C: 0.19 µs less for
    five tensors than by `_exchange` (torch 2.13). Zeros where they are not, or are not what they were."""
    varied = _varied(torch)
    found = handles.find(torch, varied)
    return found if _seen(found, varied) else Handles()


@cache
def _exchange(torch: Any) -> dlpack.Exchange:
    """What says in one call where a tensor is, and its extents and strides, and what says which stream is the current
    one: torch has them since 2.10. Zeros where they are not, or are not what they were.

    It takes what `data_ptr` takes, and torch's guards need not look at sizes, which is a quarter of their time
    (0.38 µs for five tensors instead of 0.50, torch 2.13).
    """
    found = dlpack.exchange(getattr(torch.Tensor, "__dlpack_c_exchange_api__", None))
    return found if _seen(found, _varied(torch)) else dlpack.Exchange(0, 0)


def _varied(torch: Any) -> tuple[Any, ...]:
    """Tensors to try those on: views that begin within memory, of odd strides, of one element; a parameter."""
    memory = torch.empty(64, dtype=torch.bfloat16, device="cpu")
    views = memory[3:].as_strided((2, 3), (4, 1)), memory.as_strided((1, 3, 1), (7, 2, 5)), memory[5]
    return (*views, torch.nn.Parameter(memory[:4], requires_grad=False))


def _seen(found: dlpack.Exchange | Handles, tensors: Sequence[Any]) -> bool:
    """Whether it says of tensors what they say themselves."""

    def look(t: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        return handles.look(found, t) if isinstance(found, Handles) else dlpack.look(found, t)

    try:
        return found[0] != 0 and all(look(t) == (t.data_ptr(), tuple(t.shape), tuple(t.stride())) for t in tensors)
    except (RuntimeError, ValueError, BufferError):  # a type that DLPack has not got
        return False


# ----------------------------------------------------------------------------------------------------- results, streams


def result_dtype(torch: Any, dtype: str) -> Any:
    """torch's dtype of a result of the language's type: bytes where torch has none."""
    if ELEMENT_TYPES[dtype].bits < 8:
        return torch.uint8
    return getattr(torch, ELEMENT_TYPES[dtype].numpy, torch.uint8)


def allocator(torch: Any, forms: Forms, device: Any) -> Allocate:
    """What allocates tensors of these forms on a device and torch's current stream.

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


def stream_of(torch: Any, device: Any) -> Stream:
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
