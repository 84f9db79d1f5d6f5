"""A kernel as an op of torch's: `torch.ops.scalec.<name>`, for torch.compile, torch.export and tensors without memory.

    C_5f3a...(Tensor A, Tensor B, Tensor A_scale, Tensor B_scale) -> Tensor
    C_5f3a....out(Tensor A, Tensor B, Tensor A_scale, Tensor B_scale, Tensor(a!) C) -> ()

A kernel that accumulates has the second form only, as its default overload. So has one that leaves elements unwritten;
callers to whom these may hold anything have the first form added to it, as `made`. An op is registered when it is first
asked for, and stays, with its kernel, as long as the process: torch keeps ops by name. The name is made of what the
kernel is, so torch.compile's caches find it again in another process.
"""

from __future__ import annotations

import hashlib
import keyword
import sys
import threading
from typing import Any

from scalec.abi import KernelSpec
from scalec.errors import ArgumentError
from scalec.runtime import checks, extents, plan, stored, torch_calls
from scalec.runtime.registry import Registered
from scalec.runtime.tensors import TensorView, torch_dtype

NAMESPACE = "scalec"
MADE = "made"
"""The overload that allocates results which are given else (`allocating`)."""

_lock = threading.Lock()
_registered: dict[str, Registered] = {}
_libraries: list[Any] = []
_making: set[str] = set()  # ops that have the overload MADE


def call(kernel: Registered, values: tuple[Any, ...], outs: tuple[Any, ...] | None, stream: Any) -> Any:
    """The call through torch's dispatcher.

    Raises:
        ArgumentError: a stream is given, which an op cannot take.
    """
    if stream is not None:
        refuse_stream()
    if outs is None:
        return kernel.op.default(*values)
    getattr(kernel.op, overload(kernel.spec))(*values, *outs)
    return outs[0] if len(outs) == 1 else outs


def refuse_stream() -> None:
    """Refuses a stream, which an op cannot take."""
    raise ArgumentError(
        "stream is given in a call that torch sees as an op",
        expected="torch's current stream",
        fix="call it inside `with torch.cuda.stream(stream):`",
    )


def overload(spec: KernelSpec) -> str:
    """The overload that is given results to write."""
    return "default" if any(t.given for t in spec.results) else "out"


def registered(kernel: Registered) -> Any:
    """The op (an OpOverloadPacket) of a kernel, registered now if it has not been.

    Raises:
        ArgumentError: torch has not been imported.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        what = "an op is one of torch's, which has not been imported"
        raise ArgumentError(what, expected="torch among the imported modules", fix="import torch")
    with _lock:
        full = _name(kernel)
        while (known := _registered.get(full)) is not None:
            if known.fixed is kernel.fixed:  # the same program, compiled or loaded twice
                break
            full = f"{full}_"
        else:
            _registered[full] = kernel
            _register(torch, kernel, full)
    return getattr(getattr(torch.ops, NAMESPACE), full)


def allocating(kernel: Registered) -> str:
    """The overload that allocates results: MADE, which is added to an op of results that are given."""
    import torch

    full = kernel.op._qualified_op_name
    if overload(kernel.spec) == "out":  # a second one with the same schema would end the process when torch unloads
        return "default"
    with _lock:
        if full not in _making:
            _making.add(full)
            library, tags, inputs, _, results = _started(torch, kernel.spec)
            making = f"({', '.join(inputs)}) -> {results}"
            _define(torch, library, kernel, f"{full.rpartition('::')[2]}.{MADE}", making, tags)
    return MADE


def _started(torch: Any, spec: KernelSpec) -> tuple[Any, list[Any], list[str], list[str], str]:
    """A library to define in, tags, and what schemas say of operands, of results given, and of results."""
    library, names = torch.library.Library(NAMESPACE, "FRAGMENT"), _argument_names(spec)
    # Inductor may choose other strides for what an op without this tag reads, and the kernel was made for these
    tags = [torch.Tag.pt2_compliant_tag, getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)]
    inputs = [f"{'float' if t.scalar else 'Tensor'} {n}" for t, n in zip(spec.operands, names, strict=False)]
    written = [f"Tensor({_alias(i)}!) {n}" for i, n in enumerate(names[len(inputs) :])]
    results = "Tensor" if len(written) == 1 else f"({', '.join(['Tensor'] * len(written))})"
    _libraries.append(library)
    return library, tags, inputs, written, results


def _register(torch: Any, kernel: Registered, full: str) -> None:
    spec = kernel.spec
    library, tags, inputs, written, results = _started(torch, spec)
    if overload(spec) == "out":
        _define(torch, library, kernel, full, f"({', '.join(inputs)}) -> {results}", tags)
        full += ".out"
    _define(torch, library, kernel, full, f"({', '.join([*inputs, *written])}) -> ()", tags)


def _define(torch: Any, library: Any, kernel: Registered, name: str, schema: str, tags: list[Any]) -> None:
    """One overload: what it does, what it does to tensors without memory, and that nothing is differentiated."""
    library.define(name + schema, tags=tags)
    packet, _, which = name.partition(".")
    count, given, names = len(kernel.spec.operands), schema.endswith("()"), _argument_names(kernel.spec)

    def run(*args: Any) -> Any:
        if which == MADE:
            made = made_results(kernel, args)
            kernel._run(args, made)
            return made[0] if len(made) == 1 else made
        found = kernel._run(args[:count], args[count:] if given else None)
        return None if given else found

    def fake(*args: Any) -> Any:
        made = made_results(kernel, args[:count], args[count:] if given else None)
        return None if given else made[0] if len(made) == 1 else made

    def refuse(keys: Any, *args: Any) -> Any:
        torch_calls.refuse_gradients(torch, names, args)
        op = getattr(getattr(getattr(torch.ops, NAMESPACE), packet), which or "default")
        return op.redispatch(keys & torch._C._after_autograd_keyset, *args)

    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)
    library.impl(name, refuse, "Autograd", with_keyset=True)


def _name(kernel: Registered) -> str:
    """The program's entry, and a digest of all that it computes with."""
    parts = (kernel.spec.to_json().encode(), kernel.cubin, kernel.ptx.encode())
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts))
    return f"{kernel.spec.entry.replace('$', '_').replace('%', '_')}_{digest.hexdigest()[:16]}"


def _argument_names(spec: KernelSpec) -> list[str]:
    """Names of operands, then results, that a schema can have."""
    found: list[str] = []
    for i, t in enumerate((*spec.operands, *spec.results)):
        fits = t.name.isidentifier() and t.name.isascii() and not keyword.iskeyword(t.name) and t.name != "self"
        found.append(t.name if fits else f"argument_{i}")
    return found


def _alias(i: int) -> str:
    return chr(ord("a") + i) if i < 26 else f"a{i}"


def made_results(kernel: Registered, values: tuple[Any, ...], outs: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
    """Results, unwritten, of the shapes, strides and types that a launch would give; sizes may be symbols.

    Raises:
        ArgumentError: shapes or types that the kernel does not take.
    """
    import torch

    spec = kernel.spec
    operands = [(t, v) for t, v in zip(spec.operands, values, strict=True) if not t.scalar]
    given = [*operands, *zip(spec.results, outs or (), strict=False)]
    views = {}
    for t, value in given:
        views[t.name] = stored.fitted(t, _view(value))
        checks.check_type(t, views[t.name])
        use = kernel.signature.uses[t.name]
        checks.check_strides(t, views[t.name], use.strides, use.mapped, t in spec.results)
    dims = extents.bind_dims(spec, views)
    device = operands[0][1].device if operands else torch.device("cpu")
    for t, value in given:
        checks.check_device(t.name, value, given[0][0].name, given[0][1])
    if outs is not None:
        return outs
    made = []
    for t in spec.results:
        dtype = torch_calls.result_dtype(torch, t.dtype)
        shape, strides = plan.allocated(t, dims, kernel.signature.uses[t.name], torch.sym_max)
        made.append(torch.empty_strided(shape, strides, dtype=dtype, device=device))
    return tuple(made)


def _view(value: Any) -> TensorView:
    """A tensor without memory, its sizes as they are: numbers or symbols."""
    place = (value.device.type, value.device.index or 0)
    return TensorView(0, tuple(value.shape), tuple(value.stride()), torch_dtype(value.dtype), place, "torch")
