"""The checks of a call: what does not fit the kernel is refused before launch, by name, with the numbers in full."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scalec.abi import KernelSpec, TensorSpec
from scalec.errors import ArgumentError, shown
from scalec.formats import ELEMENT_TYPES, WORDS
from scalec.runtime.device import Device
from scalec.runtime.stored import (
    align_up,
    dense,
    has_gaps,
    itemsize,
    memory_order,
)
from scalec.runtime.tensors import CPU, TensorView
from scalec.suggestions import did_you_mean

_WHOLE_ROWS = 16  # bytes that copies and vectors of a thread store at once: no other result asks for as much

F32_MAX = 3.4028234663852886e38


def written(t: TensorSpec) -> str:
    """The tensor as the language writes it: A[m,k]."""
    return f"{t.name}[{','.join(map(str, t.shape))}]"


def seen(t: TensorSpec, view: TensorView) -> str:
    """The tensor as it came."""
    return f"{t.name} of shape {list(view.shape)}"


def check_device(name: str, tensor: Any, first: str, other: Any) -> None:
    """Refuses a torch tensor that is on another device than the first one."""
    if tensor.device != other.device:
        raise ArgumentError(
            f"{name} is on {tensor.device}, {first} is on {other.device}",
            expected="all tensors on one device",
            fix=f"{name}.to({str(other.device)!r})",
        )


# ----------------------------------------------------------------------------------------------------------- arguments


def bind(
    spec: KernelSpec, positional: Sequence[Any], out: Any, named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """(operands in order, results in order or None if they are to be allocated) of a call.

    A result that is read too (`+=`) follows the operands, or comes by its name or as `out`; others may come by name.
    """
    names = [t.name for t in spec.operands]
    takes = names + [t.name for t in spec.results if t.inout]
    known = names + [t.name for t in spec.results]
    if len(positional) > len(takes):
        raise ArgumentError(
            f"{spec.entry} takes {len(takes)} arguments, {len(positional)} were given",
            expected=", ".join(takes),
            fix="give a result as out=",
        )
    given = dict(zip(takes, positional, strict=False))
    for name, value in named.items():
        if name not in known:
            fix = did_you_mean(name, known) or f"leave {shown(name)} out"
            raise ArgumentError(f"{spec.entry} has no argument {name!r}", expected=", ".join(known), fix=fix)
        if name in given:
            got, fix = "by position and by name", f"leave {name}=... out"
            raise ArgumentError(f"{name} is given twice", got=got, expected="each argument once", fix=fix)
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        what, fix = f"missing argument{plural} {', '.join(missing)}", f"pass {missing[0]} too, in this order or by name"
        raise ArgumentError(what, expected=", ".join(takes), fix=fix)
    return tuple([given[name] for name in names]), _results(spec, given, out)


def bind_all(
    spec: KernelSpec, positional: Sequence[Any], out: Any, named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """`bind` of a call that is made again and again, whose results must be given.

    Raises:
        ArgumentError: an argument does not fit, or no result is given to write.
    """
    operands, outs = bind(spec, positional, out, named)
    if outs is None:
        raise ArgumentError(
            f"no result is given to bind: each call would write {spec.results[0].name} elsewhere",
            expected="memory that each call writes anew",
            fix=f"out={spec.results[0].name}",
        )
    return operands, outs


def _results(spec: KernelSpec, given: dict[str, Any], out: Any) -> tuple[Any, ...] | None:
    names = [t.name for t in spec.results]
    if out is not None:
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(outs) != len(names):
            expected = f"({', '.join(names)})"
            what, fix = (
                f"out has {len(outs)} results, {spec.entry} has {len(names)}",
                f"out={expected}, or none of them",
            )
            raise ArgumentError(what, expected=expected, fix=fix)
        for name, value in zip(names, outs, strict=True):
            if given.setdefault(name, value) is not value:
                got, fix = f"as out= and as {name}, two tensors", f"leave {name} or out= out"
                raise ArgumentError(f"{name} is given twice", got=got, expected="each result once", fix=fix)
    found = [given.get(name) for name in names]
    absent = [name for name, value in zip(names, found, strict=True) if value is None]
    for t in (t for t in spec.results if t.given and t.name in absent):
        why = "is accumulated into (+=)" if t.inout else f"keeps what {_kept(t)}"
        raise ArgumentError(
            f"{t.name} {why} and must be given",
            expected="memory with what it holds before the call",
            fix=f"{t.name}=tensor, or out=tensor",
        )
    if absent and len(absent) < len(names):
        raise ArgumentError(
            f"{absent[0]} is not given",
            got=", ".join(x for x in names if x not in absent),
            expected=f"all results or none: {', '.join(names)}",
            fix=f"{absent[0]}=tensor too, or none of them, which allocates all",
        )
    return None if absent else tuple(found)


def _kept(t: TensorSpec) -> str:
    """What of a result that is partly written is not."""
    if any(e.terms for e in t.shape):
        return "lies between the columns that are written"
    return "it holds where nothing is written (outside a range, or at an index that is skipped)"


def check_nothing(spec: KernelSpec, left: Sequence[TensorSpec], dims: Mapping[str, int]) -> None:
    """Refuses a call that has no tiles, and so launches nothing, where results have elements that tiles write.

    Raises:
        ArgumentError: `left`, the results that have elements, has such ones.
    """
    reduces = spec.launch.arrivals > 0  # results of fewer indices, of which nobody but a tile knows what is left out
    groups = {d for reads in spec.reads for domain in reads.domains for d in domain.dims}
    placed = {x.tensor for reads in spec.reads for x in reads.lookups}
    empty = {d for d, _, _ in spec.launch.tiles if not dims[d]} - groups

    def leaves(t: TensorSpec) -> bool:
        """Whether a result has elements that a tile would write: one of what an operand is reduced to lacks what is
        empty."""
        few = reduces and len(t.shape) < len(spec.launch.tiles) and all(dims[d] for d in t.counted)
        lacks = t.name not in placed and not t.counted and empty.isdisjoint(d for e in t.shape for d in e.names)
        return few or not t.given or bool(empty and lacks)

    written = [t.name for t in left if leaves(t)]
    if written:
        none = " and ".join(dim for dim, _, _ in spec.launch.tiles if not dims[dim])
        raise ArgumentError(
            f"{none} = 0 leaves no tile to write {' and '.join(written)} by",
            expected=f"at least one {none}",
            fix=f"call the program where {none} is not 0, and else write its results without it",
        )


def number(name: str, value: Any) -> float:
    """The value of a scalar argument; a tensor is refused (reading one from a GPU would wait for it)."""
    if type(value) is float and -F32_MAX <= value <= F32_MAX:
        return value
    if value is None:
        raise ArgumentError(f"{name} is None", expected="a number", fix=f"{name}=1.0, or another number")
    tensor = any(_has(value, a) for a in ("__dlpack__", "__cuda_array_interface__"))
    if not tensor and _has(value, "__float__") and not isinstance(value, bool):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        except Exception as error:  # whatever an object of a library's raises
            raise ArgumentError(
                f"{name} is not a number",
                got=f"{type(value).__qualname__}, of which float() raises {type(error).__name__}: {error}",
                expected="a Python number",
                fix=f"pass a number of Python's for {name}",
            ) from error
        if abs(found) <= F32_MAX or (isinstance(value, float) and not math.isfinite(value)) or found != found:
            return found
        raise ArgumentError(
            f"{name} is too large for f32",
            got=shown(value),
            expected=f"at most {F32_MAX:.7e}",
            fix=f"float('inf') where that is meant, or {name} times a power of two that the program takes off again",
        )
    raise ArgumentError(
        f"{name} is not a number",
        got=type(value).__qualname__,
        expected="a Python number",
        fix=f"{name}=float({name})" if tensor else f"{name}=1.0, or another number",
    )


def _has(value: Any, attribute: str) -> bool:
    try:
        return hasattr(value, attribute)
    except Exception:  # whatever an object of a library's raises
        return True


# --------------------------------------------------------------------------------------------- types, places, strides

# stored types that may stand for an element type, beside the type itself; packed elements are bytes of either sign
_STANDS_FOR: dict[str, frozenset[str]] = {
    t.name: frozenset({t.name, "uint8"} if t.bits <= 8 and t.name != "i8" else {t.name})
    | ({"i8"} if t.bits < 8 else frozenset())
    for t in ELEMENT_TYPES.values()
}
_STANDS_FOR["ue4m3"] |= {"e4m3"}
_STANDS_FOR["tf32"] |= {"f32"}


def check_type(t: TensorSpec, view: TensorView) -> None:
    """Refuses another element type."""
    if view.dtype in _STANDS_FOR[t.dtype] or (t.layout == "packed" and view.dtype == "uint32"):
        return
    known, bits = view.dtype in ELEMENT_TYPES, ELEMENT_TYPES[t.dtype].bits
    expected = f"{t.dtype} ({ELEMENT_TYPES[t.dtype].numpy})"
    fix = f"convert {t.name}" + _declared(t, view.dtype)
    if t.layout == "packed":
        expected, fix = "int32 of four ue8m0 each (layout packed)", f"pack {t.name}, or declare its scales @row"
    elif t.layout == WORDS:
        expected, fix = f"{t.dtype} in words of int32, or these as bytes (uint8)", f"pack {t.name}, or view it as int32"
    elif bits < 8:
        packed = math.lcm(bits, 8)
        fix = fix.replace("convert", "pack", 1)
        expected = f"{t.dtype} packed, {packed // bits} elements in {packed // 8} byte{'s'[: packed > 8]}, as uint8"
    elif "uint8" in _STANDS_FOR[t.dtype]:
        expected += ", or its bytes as uint8"
    elif t.dtype == "i32" and not known:  # as torch's and numpy's indices are by themselves
        fix = f"{t.name}.astype(numpy.int32)" if view.kind == "numpy" else f"{t.name}.to(torch.int32)"
    raise ArgumentError(
        f"{t.name} is {view.dtype}, expected {t.dtype}",
        got=f"{seen(t, view)} and type {view.dtype}",
        expected=expected,
        fix=fix,
    )


def _declared(t: TensorSpec, dtype: str) -> str:
    """How the program may say that type of a tensor instead, "" where no program can."""
    operand, scale, level = t.name.rpartition("_scale")
    if operand and scale and level in ("", "2"):  # no tensor of the text: `scale(...)` has its type
        said = f", or give the scales of {operand} that type in scale(...), as in BLOCK:{dtype}"
        return said if dtype in ELEMENT_TYPES and ELEMENT_TYPES[dtype].scale else ""
    # indices are i32 alone; what has 8 bits or fewer is mostly an operand of a product, which i32 and f32 cannot be
    wide = dtype in ("i32", "f32") and ELEMENT_TYPES[t.dtype].bits <= 8
    return f", or declare it {written(t)}:{dtype}" if dtype in ELEMENT_TYPES and t.dtype != "i32" and not wide else ""


def check_place(t: TensorSpec, view: TensorView, device: Device, first: str) -> None:
    """Refuses a tensor that is not on the kernel's device, which `first` decided ("" where it was chosen)."""
    if view.place == device.place or view.place == ("cuda", -1):
        return
    kind, ordinal = view.place
    here = f"{device.place[0]}:{device.place[1]}" if device.place[0] == "cuda" else "the host"
    if view.place == CPU:
        numpy = view.kind == "numpy"
        fix = "a tensor of torch or cupy there, or SCALEC_DEVICE=emulator" if numpy else f"{t.name}.cuda()"
        raise ArgumentError(f"{t.name} is on the CPU", expected=f"a tensor on {here} ({device.name})", fix=fix)
    raise ArgumentError(
        f"{t.name} is on {kind}:{ordinal}, " + (f"{first} is on {here}" if first else f"the kernel runs on {here}"),
        expected="all tensors on one device",
        fix=f"{t.name}.to({here!r})",
    )


def check_strides(
    t: TensorSpec, view: TensorView, free: frozenset[int], mapped: bool, output: bool, spaced: bool = False
) -> None:
    """Refuses strides that the kernel cannot walk.

    Args:
        free: axes whose stride the kernel is told; the others must have no gap, unless tensor maps carry the strides.
        mapped: whether the tensor is reached through tensor maps alone.
        output: whether the kernel writes it.
        spaced: whether it is a part of a tensor that need not be contiguous, where the kernel is told that stride too.
    """
    if not view.shape or 0 in view.shape:
        return
    other = "another out=" if output else ""  # of a copy, nobody would have what is written
    if t.layout == "blocked":
        if has_gaps(view):
            raise ArgumentError(
                f"{t.name} is not contiguous",
                got=f"strides {view.strides} of shape {list(view.shape)}",
                expected="tiles without gaps (layout blocked)",
                fix=other or contiguous(t.name, view),
            )
        return
    inner, item = t.contiguous, itemsize(t.dtype)
    index = t.shape[inner] if t.shape else "0"
    if view.shape[inner] > 1 and view.strides[inner] != 1 and not (spaced and inner in free):
        stored = contiguous(t.name, view)
        if t.layout in ("col", "packed"):
            turn = f"{'swapaxes' if view.kind == 'numpy' else 'transpose'}(-1, -2)"
            stored = f"{contiguous(f'{t.name}.{turn}', view)}.{turn}"
        elif t.name.endswith("_scale") and len(view.shape) == 2 and view.strides[0] == 1:
            stored += ", or declare these scales @col"
        elif t.dtype in ("f32", "ue8m0", "ue4m3") and len(view.shape) == 2 and view.strides[0] == 1:
            stored += f", or write {t.name}[{t.shape[1]},{t.shape[0]}] and pass {t.name}.T"
        raise ArgumentError(
            f"{t.name} is not contiguous along index {inner} ({index})",
            got=f"strides {view.strides}",
            expected=f"a stride of 1 along index {inner}" + (f" (layout {t.layout})" if t.layout != "row" else ""),
            fix=other or stored,
        )
    gapless = dense(t, view.shape)
    outer = [axis for axis in memory_order(t) if axis != inner and view.shape[axis] > 1]
    words = [inner - 1] if t.layout == WORDS and view.shape[inner - 1] > 1 else []
    for axis in (axis for axis in words if view.strides[axis] != gapless[axis]):
        raise ArgumentError(
            f"{t.name} has words that are {view.strides[axis]} bytes apart along index {axis} ({t.shape[axis]})",
            got=f"strides {view.strides}",
            expected=f"words of {gapless[axis]} bytes beside each other",
            fix=contiguous(t.name, view),
        )
    reach = view.shape[inner]  # elements from the first to past the last of those that closer strides walk
    for axis in sorted(outer, key=lambda axis: view.strides[axis]):
        extent, stride = view.shape[axis], view.strides[axis]
        where = f"along index {axis} ({t.shape[axis]})"
        if stride < 0 or (stride == 0 and mapped) or (output and stride < reach):
            raise ArgumentError(
                f"{t.name} has a stride of {stride} elements {where}",
                got=f"strides {view.strides} of shape {list(view.shape)}",
                expected=f"at least {reach if output else 1}" + (": results must not overlap" if output else ""),
                fix=other or contiguous(t.name, view),
            )
        if not mapped and axis not in free and stride != gapless[axis]:
            raise ArgumentError(
                f"{t.name} has a stride of {stride} elements {where}, the kernel needs {gapless[axis]}",
                got=f"strides {view.strides}",
                expected=f"strides {gapless}",
                fix=other or contiguous(t.name, view),
            )
        if stride * item % t.align and axis not in words:
            raise _unaligned_stride(t, view, axis, stride == gapless[axis], output)
        reach += (extent - 1) * stride


def contiguous(what: str, view: TensorView) -> str:
    """How the library of a tensor makes a copy without gaps."""
    return f"numpy.ascontiguousarray({what})" if view.kind == "numpy" else f"{what}.contiguous()"


def _unaligned_stride(t: TensorSpec, view: TensorView, axis: int, gapless: bool, output: bool) -> ArgumentError:
    inner, item = t.contiguous, itemsize(t.dtype)
    stride, multiple = view.strides[axis], t.align // item
    expected = f"a stride along index {axis} ({t.shape[axis]}) that is a multiple of {multiple} elements"
    e = t.shape[inner]
    if gapless and stride == view.shape[inner] and e.dim and e.divisor == 1 and ELEMENT_TYPES[t.dtype].bits >= 8:
        padded = align_up(stride, multiple)
        return ArgumentError(
            f"{t.name}: {e.dim} = {stride} is not a multiple of {t.align} bytes for {t.dtype}",
            got=f"rows of {stride * item} bytes",
            expected=expected,
            fix=f"pad the rows of {t.name} to {padded * item} bytes: give a view of {stride} columns of a tensor that "
            f"has {padded}",
        )
    return ArgumentError(
        f"{t.name} has a stride of {stride} elements ({stride * item} bytes) along index {axis} ({t.shape[axis]}), "
        f"not a multiple of {t.align} bytes",
        got=f"strides {view.strides}",
        expected=expected,
        fix=(f"{contiguous(t.name, view)}, or " if not output and dense(t, view.shape)[axis] % multiple == 0 else "")
        + f"a stride of {align_up(stride, multiple)} elements{_asks_for_less(t) if output else ''}",
    )


def _asks_for_less(t: TensorSpec) -> str:
    """What could be done for a result whose rows are stored by copies or whole vectors, "" for others."""
    if t.align != _WHOLE_ROWS:
        return ""
    columns = t.shape[t.contiguous].dim
    less = f", or, if nothing is contracted, one that is not told {columns}" if columns else ""
    return f", or a kernel with epilogue=direct{less}, which asks for less"


# ----------------------------------------------------------------------------------------------------------- addresses


def check_address(t: TensorSpec, pointer: int, output: bool) -> None:
    """Refuses NULL and addresses that the kernel cannot use, which writes what is an `output`; the tensor has
    elements."""
    if not pointer:
        raise ArgumentError(
            f"{t.name} is NULL", got="address 0", expected="memory", fix=f"allocate {t.name} before the call"
        )
    if pointer % t.align:
        raise ArgumentError(
            f"{t.name} begins at address {pointer:#x}, not a multiple of {t.align} bytes",
            got=f"{pointer % t.align} bytes past one",
            expected=f"an address that is a multiple of {t.align}",
            fix=f"another out={_asks_for_less(t)}" if output else _copied(t.name),
        )


def _copied(name: str) -> str:
    """How a tensor is copied, as torch and as numpy say it."""
    return f"{name}.clone() (numpy: {name}.copy())"


def span(view_shape: Sequence[int], strides: Sequence[int], item: int) -> int:
    """Bytes from a tensor's first element to past its last; 0 without elements."""
    if 0 in view_shape:
        return 0
    return (1 + sum((e - 1) * s for e, s in zip(view_shape, strides, strict=True))) * item


def overlap(first: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    """Whether two tensors may share a byte; each is (address, span, bytes of a row, bytes between rows or 0).

    Ranges are compared, and where both have rows at the same distance, the columns: two column ranges of one buffer
    do not overlap.
    """
    (a, a_span, a_row, a_step), (b, b_span, b_row, b_step) = first, other
    if not a_span or not b_span or a + a_span <= b or b + b_span <= a:
        return False
    if a_step and a_step == b_step:
        shift = (b - a) % a_step
        return shift < a_row or shift + b_row > a_step
    return True


def check_overlap(first: Any, at: int, result: Any, result_at: int) -> None:
    """Refuses a result that shares a byte with another tensor; both are plan.Forms, with their addresses."""
    if overlap(first.at(at), result.at(result_at)):
        name, other = result.spec.name, first.spec.name
        raise ArgumentError(
            f"{name} overlaps {other} in memory",
            got=f"{name} at {result_at:#x} ({result.span} bytes), {other} at {at:#x} ({first.span} bytes)",
            expected="a result in memory of its own",
            fix=f"give another out=, or {_copied(other)}",
        )
