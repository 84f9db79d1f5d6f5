"""A call that torch.compile reads: what it puts into the graph is one op (scalec.runtime.custom_op).

Dynamo runs none of this, it follows it; so what cannot be followed (registering the op) stands in a function whose
result it takes as a constant. The kernel's serial number is a string that it guards: another kernel in the same place
is read again.
"""

from __future__ import annotations

from typing import Any

import torch

from scalec.runtime import checks, custom_op
from scalec.runtime.kernel import Kernel, kernels


def call(kernel: Kernel, operands: tuple[Any, ...], out: Any, stream: Any, named: dict[str, Any]) -> Any:
    """The call as one op. What a call outside would refuse is refused while it is read, or by the op's fake kernel."""
    values, outs = checks.bind(kernel.spec, operands, out, named)
    if stream is not None:
        return custom_op.call(kernel, values, outs, stream)  # refused there
    op, written = getattr(torch.ops.scalec, _name(kernel.serial)), _written(kernel.serial).split()
    if outs is None:
        return op.default(*values)
    if written:
        op.out(*values, **dict(zip(written, outs, strict=True)))
    else:
        op.default(*values, *outs)
    return outs[0] if len(outs) == 1 else outs


@torch.compiler.assume_constant_result
def _name(serial: str) -> str:
    return kernels[serial].op._qualified_op_name.rpartition("::")[2]


@torch.compiler.assume_constant_result
def _written(serial: str) -> str:
    return " ".join(custom_op.written_names(kernels[serial].spec))
