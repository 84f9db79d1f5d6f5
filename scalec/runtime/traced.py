"""A call that torch.compile reads: what it puts into the graph is one op (scalec.runtime.custom_op).

Dynamo runs none of `call`, it follows it; so what it cannot follow, or need not guard, stands in functions whose
results it takes as constants. They hang on the kernel's serial number, a string that it guards: another kernel in the
same place is read again.
"""

from __future__ import annotations

from typing import Any

import torch

from scalec.runtime import checks, custom_op
from scalec.runtime.registry import Registered, kernels


def call(kernel: Registered, operands: tuple[Any, ...], out: Any, stream: Any, named: dict[str, Any]) -> Any:
    """The call as one op. What a call outside would refuse is refused while it is read, or by the op's fake kernel."""
    outs = () if out is None else tuple(out) if isinstance(out, (tuple, list)) else (out,)
    given, several = (*operands, *named.values(), *outs), -1 if out is None else len(outs)
    order = _order(kernel.serial, len(operands), " ".join(named), several, stream is not None)
    inputs, written = order.split("|")
    values = [given[int(i)] for i in inputs.split()]
    results = [given[int(i)] for i in written.split()]
    op = getattr(torch.ops.scalec, _name(kernel.serial))
    if not results:
        return op.default(*values)
    getattr(op, _overload(kernel.serial))(*values, *results)
    return results[0] if len(results) == 1 else tuple(results)


def allocating(serial: str, operands: tuple[Any, ...]) -> Any:
    """A kernel's op, of operands in order, with results of its own; what it leaves of them holds anything."""
    return getattr(getattr(torch.ops.scalec, _name(serial)), _allocating(serial))(*operands)


@torch.compiler.assume_constant_result
def _allocating(serial: str) -> str:
    return custom_op.allocating(kernels[serial])


@torch.compiler.assume_constant_result
def _order(serial: str, operands: int, named: str, outs: int, stream: bool) -> str:
    """Where operands and results given stand among all arguments of a call: "0 1 2|3".

    Raises:
        ArgumentError: the arguments are not those of the kernel, or a stream is among them.
    """
    if stream:
        custom_op.refuse_stream()
    names = named.split()
    first = operands + len(names)
    out = None if outs < 0 else tuple(range(first, first + outs))
    by_name = dict(zip(names, range(operands, first), strict=True))
    values, results = checks.bind(kernels[serial].spec, tuple(range(operands)), out, by_name)
    return f"{' '.join(map(str, values))}|{' '.join(map(str, results or ()))}"


@torch.compiler.assume_constant_result
def _name(serial: str) -> str:
    return kernels[serial].op._qualified_op_name.rpartition("::")[2]


@torch.compiler.assume_constant_result
def _overload(serial: str) -> str:
    return custom_op.overload(kernels[serial].spec)
