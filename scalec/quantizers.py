"""`scalec.quantize`, `dequantize` and `silu_mul_quantize`: programs without a contraction, written from arguments.

What a format means stands in scalec.quantized_formats. Each function writes the program's text, compiles it once and
calls it. torch.compile reads them: what it must not follow are functions whose results it takes as constants
(`_constant`).
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np

from scalec import api, env
from scalec.errors import ArgumentError, SourceError, shown
from scalec.formats import FORMATS, LAYOUTS, MOST_WORDS
from scalec.quantized_formats import Meaning, meaning_of, not_among
from scalec.runtime import torch_calls
from scalec.runtime.tensors import CPU, LIBRARY_NAMES, adopt, is_numpy, is_torch, torch_dtype
from scalec.targets import TARGETS

_FLOATS = ("bf16", "f16", "f32")
"""Types that are quantised, and that dequantised values have."""

_ALIGNED = 16  # elements: the length of rows is fixed where it is a multiple, so that threads load 16 bytes at once
_GROUPS = " for m in offsets[g]:offsets[g+1]"
_WORD = (1 << 32) - 1
_SMALLEST = repr(2.0**-126)  # of scales that are found: the smallest normal f32


def _constant(function: Any) -> Any:
    """Has torch.compile take what a function returns as a constant, as torch.compiler.assume_constant_result does."""
    function._dynamo_marked_constant = True
    return function


def quantize(
    x: Any,
    format: str,
    *,
    layout: str = "row",
    transposed: bool = False,
    both: bool = False,
    batched: bool = False,
    rows: Any = None,
    offsets: Any = None,
    by: int = 1,
    scale2: Any = None,
    seed: Any = None,
    target: str | None = None,
) -> tuple[Any, ...]:
    """Quantises a tensor: `values, scale = scalec.quantize(x, "mxfp8")`, one kernel that reads x once.

    Args:
        x: a torch tensor or numpy array [..., m, k] of bf16, f16 or f32. Leading indices are rows: [tokens, k] is
            what a kernel sees. A torch tensor is on the GPU; one on a CPU, and numpy's, numpy quantises.
        format: a format, as "mxfp8", "mxfp6", "nvfp4", "fp8_block"; or rows x columns of a block of e4m3, as "1x128",
            "128x128", "1xk" (whole rows), "1x32:ue8m0" (scales that are not f32), or "tensor", one scale for all; or
            "e5m2 scale(1x128)".
        layout: of the scales: "row", "col", "packed" or "blocked".
        transposed: gives values [k, m], in blocks along m.
        both: gives a pair of results from one read: (those of x, those transposed).
        batched: leading indices are batches, each a matrix [m, k] with blocks and layouts of its own.
        rows: with `batched`, int32 on x's device, one for each matrix: how many of its rows, the first ones, are
            quantised. What belongs to the others is left unwritten.
        offsets: int32 on x's device, [groups + 1]: rows offsets[g] to offsets[g + 1] of x [m, k] are those of group g,
            with blocks, and tiles of layout "blocked", of its own (`apart`). Rows of no group are left unwritten.
        by: promises that all offsets are multiples of this, but for ends at m: of what is transposed 2 of 4 bits, 4 of
            6, as groups then share no bytes.
        scale2: of a format with a scale of the whole tensor (nvfp4, tensor), that scale, one f32. If None it is found
            by launches before: amax(x) over the product of the largest element and the largest scale (448 * 6; 448 of
            "tensor"), 1 of zeros; with rows or offsets that of all rows that are quantised.
        seed: rounds values by chance, by the bits of a seed: a number from 0 to 2^64 - 1, or on x's device an int32
            tensor of four, which a launch reads (the words of Philox's key and of half its counter). None: to nearest.
        target: a row of scalec.targets; see scalec.api.default_target if None.

    Returns:
        (values, scale), and scale2 as a third where the format has both, of x's library; with `both` two of these.
        Values below 8 bits are packed. Values have x's leading indices, but with `transposed` only if `batched`;
        scales have them if `batched`, or in layout "row" of blocks of one row, and are else those of a matrix.

    Raises:
        ArgumentError: an argument is not one of these, or they do not go together.
        UnsupportedError: the compiler has no kernel for it.
    """
    flags = {"transposed": transposed, "both": both, "batched": batched}
    meaning = _held({"x": x}, format, layout, flags, target)
    return _quantized("x{at}:{0}", (x,), meaning, flags, (rows, offsets, by), scale2, seed, target)


def silu_mul_quantize(
    gate: Any,
    up: Any,
    format: str,
    *,
    layout: str = "row",
    transposed: bool = False,
    both: bool = False,
    batched: bool = False,
    rows: Any = None,
    offsets: Any = None,
    by: int = 1,
    scale2: Any = None,
    seed: Any = None,
    target: str | None = None,
) -> tuple[Any, ...]:
    """Quantises `silu(gate) * up`, computed in f32 and rounded once, in one kernel.

    Args:
        gate, up: tensors of one shape, as quantize takes them. Where `up` is None, `gate` is [..., m, 2k] and has both:
            the gate in the first half of its last index, what it multiplies in the second.

    All else is as quantize has it.
    """
    flags = {"transposed": transposed, "both": both, "batched": batched}
    tensors = {"gate": gate} if up is None else {"gate": gate, "up": up}
    meaning = _held(tensors, format, layout, flags, target)
    if up is None:
        half = gate.shape[-1] // 2
        gate, up = gate[..., :half], gate[..., half:]
    if gate.shape != up.shape:
        expected = "one shape; where up is None, both in one tensor whose last index is even"
        got = f"{tuple(gate.shape)}, {tuple(up.shape)}"
        fix = "leave up out, and give both in one tensor, or cut them to one shape"
        raise ArgumentError("gate and up differ", got=got, expected=expected, fix=fix)
    value = "silu(gate{at}:{0}) * up{at}:{1}"
    return _quantized(value, (gate, up), meaning, flags, (rows, offsets, by), scale2, seed, target)


def dequantize(
    values: Any,
    scale: Any,
    format: str,
    scale2: Any = None,
    *,
    dtype: str = "bf16",
    layout: str = "row",
    batched: bool = False,
    k: int | None = None,
    target: str | None = None,
) -> Any:
    """The tensor that values and scales stand for: `scalec.dequantize(values, scale, "mxfp8")`.

    Args:
        values, scale: as quantize returns them, values [..., m, k]; transposed ones are tensors like others.
            of "tensor" a scale may be a number.
        scale2: likewise, where the format has one beside others (nvfp4).
        format, layout, batched, target: what they were quantised with; scales may have 16 bits: "1x64:bf16".
        dtype: of the result: "bf16", "f16" or "f32".
        k: the length of a row, which below 8 bits its bytes alone do not tell: 5 or 6 elements of 4 bits are 3 bytes, 3
            or 4 of 6 bits. None: the larger one.

    Returns a tensor [..., m, k] of the library of `values`, computed in f32 and rounded. Raises what quantize does.
    """
    alone = isinstance(format, str) and isinstance(layout, str) and _meaning(format, layout).alone
    tensors = {"values": values} if alone else {"values": values, "scale": scale}
    meaning = _held(tensors, format, layout, {"batched": batched}, target, dtype)
    if alone and scale2 is not None:
        fix = "pass it as scale, and leave scale2 out"
        raise ArgumentError("scale2 is given", expected="one scale of the whole tensor", fix=fix)
    outer = _outer(values, scale if alone else scale2, meaning, batched, "scale" if alone else "scale2")
    if alone:
        (scale,), outer = outer, ()
    at = "[b,m,k]" if batched else "[m,k]"
    length = _length(values, meaning.bits, k)
    scales = _matrices(scale, batched) if len(scale.shape) == len(values.shape) else scale
    text = f"y{at}:{dtype} = values{at}:{meaning.along[0]}"
    made = _run(text, length, target, _matrices(values, batched), scales, *outer, said=k is not None)
    return _led(made, values.shape[:-1])


def _length(values: Any, bits: int, k: int | None) -> int:
    """How many elements a row of values has: as many as its bytes hold, or the `k` that is said."""
    width = values.shape[-1]
    most = width * 8 // bits
    if k is None or torch_calls.tracing():
        return most if k is None else k
    if not _integer(k) or k < 0 or -(-k * bits // 8) != width:
        least = max((width - 1) * 8 // bits + 1, 0) if width else 0
        expected = f"{most}" if least == most else f"{least} to {most}"
        raise ArgumentError(
            f"k = {shown(k)}",
            got=f"values with rows of {width} bytes, elements of {bits} bits",
            expected=f"{expected}, which such rows hold; None is {most}",
        )
    return k


def _quantized(
    value: str,
    tensors: tuple[Any, ...],
    meaning: Meaning,
    flags: dict[str, bool],
    masks: tuple[Any, Any, int],
    scale2: Any,
    seed: Any,
    target: str | None,
) -> tuple[Any, ...]:
    """What quantize returns, of an expression of tensors of one shape; {at} in it is their index, {0} a type. `masks`
    are rows, offsets, and what these are multiples of."""
    x, batched, batch = tensors[0], flags["batched"], "b," if flags["batched"] else ""
    turns = (0, 1) if flags["both"] else (int(flags["transposed"]),)  # torch 2.11's dynamo takes no bool as an index
    within, ends = _range(x, batched, *masks, "" if meaning.alone else " apart")
    if masks[1] is not None and not meaning.alone and 1 in turns and not torch_calls.tracing():
        _check_turned(meaning, masks[2])
    right = value.format(*[_element(t.dtype) for t in tensors], at=f"[{batch}m,k]")
    matrices, finds = [_matrices(t, batched) for t in tensors], scale2 is None and meaning.largest != ""
    amax = f"max(max[{batch}m,k](abs({right})), 0)"
    largest = f"max({amax} / {meaning.largest}, {_SMALLEST}) + (1 - sign({amax})){within}"
    found = f"[{'0,0,0' if batched else '0,0'}]:f32 = {largest}"
    if finds and meaning.alone:
        scale2, finds = _run(f"scale2{found}", x.shape[-1], target, *matrices, *ends), False
    outer: tuple[Any, ...] = () if finds else _outer(x, scale2, meaning, batched)
    given = outer * len(turns)
    if meaning.alone:
        given = (_reciprocal(outer[0].reshape(1)),)
        right = f"({right}) * r[0]:f32"
        if len(tensors) == 1 and not torch_calls.tracing() and _on_host(x):  # this product is rounded to f32, as there
            with np.errstate(invalid="ignore"):
                matrices = [(np.asarray(m, np.float32) if is_numpy(m) else m.float()) * given[0] for m in matrices]
            right, given = right.partition(":")[0][1:] + ":f32", ()
    seeds = () if seed is None else (_seed(x, seed),)
    if seeds:
        right = f"stochastic({right}, {', '.join(f'seed[{i}]' for i in range(MOST_WORDS))})"
    types = (meaning.alone, meaning.alone) if meaning.alone else meaning.along
    lines = [f"{'qt'[t]}[{batch}{('m,k', 'k,m')[t]}]:{types[t]} = {right}{within}" for t in turns]
    if finds:
        lines = [*(f"{'qt'[t]}_scale2{found}" for t in turns), *lines]
    last = (*ends, *seeds) if finds else (*given, *seeds, *ends) if meaning.alone else (*seeds, *ends, *given)
    made = _run("\n".join(lines), x.shape[-1], target, *matrices, *last)
    made, lead, results = made if isinstance(made, tuple) else (made,), x.shape[:-2], []
    if finds:
        outer, made = made[:1], made[len(turns) :]
    each = len(made) // len(turns)
    for i, turned in enumerate(turns):
        values, *scales = made[each * i : each * i + each]
        led = values.shape[:-1] if turned else x.shape[:-1]
        values = _led(values, (*lead, values.shape[-2]) if batched else led)
        if batched:
            scales = [_led(s, (*lead, *s.shape[1:-1])) for s in scales]
        elif not turned and meaning.by_row:
            scales = [_led(s, x.shape[:-1]) for s in scales]
        results.append((values, *scales, *[o.reshape(()) for o in outer]))
    return tuple(results) if flags["both"] else results[0]


def _run(text: str, length: int, target: str | None, x: Any, *others: Any, said: bool = False) -> Any:
    """What the program returns, for rows of a length; `said`: which shapes do not tell."""
    length = index(length)  # torch.compile may have a symbol for it
    fixed = length if said or length % _ALIGNED == 0 else None
    tensors: tuple[Any, ...] = (x, *others)
    if torch_calls.tracing():
        from scalec.runtime import traced

        return traced.allocating(_serial(text, fixed, target), tensors)
    if _on_host(x):
        from scalec import on_host

        with _of_arguments():
            made = on_host.run(text, tensors)
        return made if not said else made[..., :length].copy() if is_numpy(made) else made[..., :length].contiguous()
    kernel = _compiled(text, fixed, target or api.default_target())
    if " for " not in text:
        return kernel(*tensors)
    outs: tuple[Any, ...]
    if is_torch(x):
        from scalec.runtime import custom_op

        outs = custom_op.made_results(kernel, tensors)
        return kernel(*tensors, out=outs[0] if len(outs) == 1 else outs)
    from scalec import on_host

    outs = on_host.unwritten(kernel, tensors)
    kernel(*tensors, out=outs[0] if len(outs) == 1 else outs)
    return outs[0].numpy() if len(outs) == 1 else tuple([x.numpy() for x in outs])


def _on_host(x: Any) -> bool:
    """Whether numpy computes, and no kernel: of tensors in the host's memory, unless kernels are to run there."""
    return env.DEVICE.get() != "emulator" and (is_numpy(x) or x.device.type == "cpu")


@_constant
def _serial(text: str, length: int | None, target: str | None) -> str:
    return _compiled(text, length, target or api.default_target()).serial


@cache
def _compiled(text: str, length: int | None, target: str) -> Any:
    with _of_arguments():
        return api.compile(text, target, {} if length is None else {"k": length})


@contextmanager
def _of_arguments() -> Iterator[None]:
    """What is wrong with a program that no caller wrote is so with format and layout."""
    try:
        yield
    except SourceError as error:
        said = [re.sub(r" ?@(\w+)", r" layout=\1", x) for x in (error.message, error.got, error.expected, error.fix)]
        raise ArgumentError(f"format and layout: {said[0]}", got=said[1], expected=said[2], fix=said[3]) from error


@_constant
def _meaning(format: str, layout: str) -> Meaning:
    return meaning_of(format, layout)  # torch.compile looks through a cache


# ------------------------------------------------------------------------------------------------------------ tensors


def _held(
    tensors: dict[str, Any], format: Any, layout: Any, flags: dict[str, Any], target: Any, dtype: Any = "f32"
) -> Meaning:
    """What format and layout mean; refuses these and other arguments that are none."""
    if torch_calls.tracing():  # what is wrong in a call that torch.compile reads, the op refuses
        return _meaning(format, layout)
    for name, value, known in (("layout", layout, LAYOUTS), ("dtype", dtype, _FLOATS), ("target", target, TARGETS)):
        if not ((isinstance(value, str) and value in known) or (name == "target" and value is None)):
            raise not_among(name, value, known)
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ArgumentError(f"{name} = {shown(value)}", expected="True or False", fix=f"{name}=bool(...)")
    if flags.get("both") and flags["transposed"]:
        raise ArgumentError("both and transposed are given", expected="one of them", fix="both gives the two")
    for name, x in tensors.items():
        least, tensor = 3 if flags["batched"] else 1, is_numpy(x) or (is_torch(x) and not x.is_nested)
        least = 0 if name == "scale" else least
        any_type = name in ("values", "scale")
        if not tensor or len(x.shape) < least or not (any_type or _element(x.dtype) in _FLOATS):
            got = f"{x.dtype}, {len(x.shape)} indices" if tensor else f"{shown(x)}, of type {type(x).__qualname__}"
            of = "" if any_type else f" of {', '.join(_FLOATS)}"
            expected = f"a torch tensor or a numpy array{of}, at least {least} indices"
            fix = f"{name}.float() or {name}.astype(numpy.float32)"
            if not tensor or len(x.shape) < least:
                fix = f"torch.as_tensor({name}), or {name}.reshape with {least} indices"
            raise ArgumentError(f"{name} does not fit", got=got, expected=expected, fix=fix)
        adopt(name, x, 0, lambda pointer: CPU)  # refuses masks, sparse tensors and lazy views before these are reduced
    if not all(_alike(x, y) for x, y in pairwise(tensors.values())):
        got = ", ".join(f"{name} of type {type(x).__qualname__}" for name, x in tensors.items())
        expected, fix = "torch tensors alone, or numpy arrays alone", "torch.from_numpy(...), or tensor.numpy()"
        raise ArgumentError("tensors of two libraries", got=got, expected=expected, fix=fix)
    if not isinstance(format, str):
        raise not_among("format", format, FORMATS)
    return _meaning(format, layout)


def _alike(x: Any, y: Any) -> bool:
    """Whether both are torch's tensors, or both numpy's arrays."""
    return (is_torch(x) and is_torch(y)) or (is_numpy(x) and is_numpy(y))


@_constant
def _element(dtype: Any) -> str:
    """The language's name of a library's dtype; its own where the language has none."""
    name = getattr(dtype, "name", None)
    return LIBRARY_NAMES.get(name, name) if isinstance(name, str) else torch_dtype(dtype)


def _integer(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _matrices(x: Any, batched: bool) -> Any:
    """A tensor whose leading indices are one: of rows, or of batches."""
    kept = 2 if batched else 1
    return x if len(x.shape) == kept + 1 else x.reshape((math.prod(x.shape[:-kept]), *x.shape[-kept:]))


def _led(x: Any, lead: Any) -> Any:
    """A tensor with other indices in front of its last one."""
    return x if x.shape[:-1] == lead else x.reshape((*lead, x.shape[-1]))


def _outer(x: Any, scale2: Any, meaning: Meaning, batched: bool, name: str = "scale2") -> tuple[Any, ...]:
    """The scale of the whole tensor, an argument's, as a kernel takes it, none where the format has none."""
    if (scale2 is not None) != (meaning.largest != ""):
        expected = "one f32 where the format has a scale of the whole tensor, as nvfp4 has, and none where not"
        found = f"no {name}" if scale2 is None else name
        fix = f"pass the {name} that goes with the values" if scale2 is None else f"leave {name} out"
        raise ArgumentError(f"{name} and format do not go together", got=found, expected=expected, fix=fix)
    if scale2 is None:
        return ()
    if is_torch(scale2) and not torch_calls.tracing():
        torch_calls.refuse_gradients(sys.modules["torch"], [name], [scale2])
    shape = (1,) * (3 if batched else 2)
    try:
        if is_numpy(x):
            return (np.asarray(scale2, np.float32).reshape(shape),)
        torch: Any = sys.modules["torch"]
        return (torch.as_tensor(scale2, dtype=torch.float32, device=x.device).reshape(shape),)
    except Exception as error:  # whatever a library raises
        raise ArgumentError(
            f"{name} = {shown(scale2)}",
            got=f"type {type(scale2).__qualname__}",
            expected="one number: a scale of the whole tensor",
            fix="pass a number, or a tensor of one element",
        ) from error


def _reciprocal(scale: Any) -> Any:
    """Of a scale, one f32 as a kernel takes it, what values are multiplied by."""
    if is_numpy(scale):
        with np.errstate(all="ignore"):
            return np.float32(1) / scale
    return scale.reciprocal()


def _range(x: Any, batched: bool, rows: Any, offsets: Any, by: int, apart: str) -> tuple[str, tuple[Any, ...]]:
    """The range of rows that a program has, and the tensor that tells it; `apart`: of groups that have blocks."""
    if not _integer(by) or by < 1 or (by > 1 and offsets is None):
        expected = "what all offsets are multiples of, at least 1" + "; without offsets 1" * (offsets is None)
        raise ArgumentError(f"by = {shown(by)}", expected=expected, fix="leave it out, or give offsets")
    if rows is None and offsets is None:
        return "", ()
    groups = f"{_GROUPS} by {by}{apart}" if by > 1 else f"{_GROUPS}{apart}"
    if torch_calls.tracing():
        return (" for m < rows[b]", (rows.reshape((-1,)),)) if rows is not None else (groups, (offsets,))
    if rows is not None and offsets is not None:
        expected, fix = "one of them", "rows of a batch of matrices, offsets of the rows of one matrix"
        raise ArgumentError("rows and offsets are given", got="both", expected=expected, fix=fix)
    if rows is not None and not batched:
        expected = "a number of rows for each matrix of a batch"
        raise ArgumentError("rows without batched=True", got="batched=False", expected=expected, fix="batched=True")
    if offsets is not None and (batched or len(x.shape) != 2):
        got = f"{len(x.shape)} indices" + (", batched" if batched else "")
        expected, fix = "x of [m, k], not batched", "x.reshape(-1, x.shape[-1]), with offsets of all of its rows"
        raise ArgumentError("offsets are of the rows of one matrix", got=got, expected=expected, fix=fix)
    name, ends = ("offsets", offsets) if rows is None else ("rows", rows)
    ends: Any = ends
    if not (_alike(ends, x) and _element(ends.dtype) == "i32"):
        got = f"a tensor of {ends.dtype}" if hasattr(ends, "dtype") else ""
        fix = f"torch.tensor({name}, dtype=torch.int32, device=x.device), or numpy.array({name}, numpy.int32)"
        raise ArgumentError(
            f"{name} = {shown(ends)}", got=got, expected="an int32 tensor on the device of x, of its library", fix=fix
        )
    if name == "rows":
        if len(ends.shape) != 1 and ends.shape != x.shape[:-2]:
            expected, fix = f"{list(x.shape[:-2])}, or one index", "rows.reshape(-1), of the matrices in their order"
            raise ArgumentError("rows does not fit", got=f"shape {list(ends.shape)}", expected=expected, fix=fix)
        return " for m < rows[b]", (ends.reshape((math.prod(ends.shape),)),)
    return groups, (ends,)


def _check_turned(meaning: Meaning, by: int) -> None:
    """Refuses groups that share bytes, or scales, of what is transposed."""
    if meaning.whole:
        got, expected = "transposed or both, and offsets", "blocks of so many rows, which each group has of its own"
        fix = "1x32 or 1x128; or quantise the rows of each group in a call of its own"
        raise ArgumentError("format is one of whole rows, along which groups lie", got=got, expected=expected, fix=fix)
    together = 8 // math.gcd(8, meaning.bits)
    if by % together:
        raise ArgumentError(
            f"by = {by}",
            got=f"elements of {meaning.bits} bits, {together} of which share bytes with each other, transposed",
            expected=f"a multiple of {together}, as all offsets then are: groups share no byte",
            fix=f"by={together}, with offsets that are multiples of it, or not transposed",
        )


def _seed(x: Any, seed: Any) -> Any:
    """The numbers that random bits are made of, as a kernel takes them."""
    if _alike(seed, x):
        return seed  # what is wrong with it, the kernel's call says
    if not _integer(seed) or not 0 <= seed < 1 << 64:
        expected = "a number from 0 to 2^64 - 1, or an int32 tensor of four"
        fix = "seed=torch.seed() % 2**64, or leave it out to round to nearest"
        raise ArgumentError(f"seed = {shown(seed)}", expected=expected, fix=fix)
    seed = int(seed)
    words = [seed & _WORD, seed >> 32, 0, 0]
    signed = [w - (w >> 31 << 32) for w in words]
    if is_numpy(x):
        return np.array(signed, np.int32)
    torch: Any = sys.modules["torch"]
    return torch.tensor(signed, dtype=torch.int32, device=x.device)
