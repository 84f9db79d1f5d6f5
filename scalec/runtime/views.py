"""Parts of operands that a kernel takes as tensors of their own (abi.View)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scalec.abi import TensorSpec, Term, View
from scalec.errors import ArgumentError
from scalec.runtime import stored
from scalec.runtime.form import Form


def spec_of(view: View, tensor: TensorSpec) -> TensorSpec:
    """A part as a tensor."""
    return replace(tensor, name=view.name, shape=view.shape)


def part(view: View, whole: Form, dims: Mapping[str, int]) -> tuple[Form, int]:
    """The form of a part of an operand, and by how many bytes it begins behind the operand.

    Args:
        dims: the size of every dimension.

    Raises:
        ArgumentError: at these sizes it begins within what shares a scale or a tile of scales, or at an address that
            the kernel cannot read.
    """
    tensor, begin = whole.spec, 0
    for axis, e in enumerate(view.first):
        for term in e.terms or ((Term(e.dim, divisor=e.divisor),) if e.dim else ()):
            if (dims[term.dim] + term.offset) % term.divisor:
                _refuse(view, tensor, f"{term.dim} = {dims[term.dim]}", f"a multiple of {term.divisor}")
        first = e.value(dims)
        if tensor.layout == "blocked" and axis == len(view.first) - 2 and first % stored.TILE[0]:
            _refuse(
                view, tensor, f"row {first} of the scales", f"a multiple of {stored.TILE[0]}: tiles have as many rows"
            )
        begin += first * whole.strides[axis]
    begin *= stored.itemsize(tensor.dtype)
    if begin % tensor.align:
        _refuse(view, tensor, f"{begin} bytes behind {tensor.name}", f"a multiple of {tensor.align} bytes")
    steps = zip(whole.strides, view.steps, strict=True)
    spec = spec_of(view, tensor)
    return Form.of(spec, stored.stored_shape(spec, dims), tuple(stride * step for stride, step in steps)), begin


def _refuse(view: View, tensor: TensorSpec, got: str, expected: str) -> None:
    raise ArgumentError(
        f"{view.name} begins where the kernel cannot read a part of {tensor.name}",
        got=got,
        expected=expected,
        fix=f"other sizes, or a program that has parts of {tensor.name} as tensors of their own",
    )
