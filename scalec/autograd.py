"""`scalec.differentiable`: a program and the programs of its gradients, compiled to one op of torch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalec.api import compile
from scalec.arguments import checked
from scalec.errors import ArgumentError
from scalec.gradients import Recipe, grad
from scalec.gradients.grad import check_most, inputs
from scalec.runtime.differentiable import Differentiable


@checked
def differentiable(
    source: str,
    target: str | None = None,
    dims: Mapping[str, Any] | None = None,
    *,
    wrt: Sequence[str] | str | None = None,
    quantize: str | Recipe | None = None,
    types: Mapping[str, str] | None = None,
    straight_through: bool = False,
    once: Sequence[str] | str = (),
    covered: Sequence[str] | str = (),
    results: Sequence[str] | str | None = None,
    most: Mapping[str, int] | None = None,
) -> Differentiable:
    """Compiles a program and its gradients to an op that autograd goes through: `layer(A, B).sum().backward()`.

    Args:
        source: the program, e.g. "C[m,n] = gelu(A[m,k]@B[n,k] + bias[n])".
        target: a row of scalec.targets; see scalec.api.default_target if None.
        dims: sizes to fix, one of them as a range at most, as scalec.compile takes them.
        wrt: the inputs that have gradients; all of bf16, f16 and f32 without scales if None.
        quantize: what operands of the gradients' products are quantised to, as scalec.grad takes it.
        types: of gradients and of what is kept, likewise; an input's gradient has the input's type, as torch has it.
        straight_through: likewise.
        once: index tensors that name each row once at most, likewise.
        covered, results: likewise; a result that has no gradient is one that nothing is asked of.
        most: by index tensor through which rows of such an input are read, how often it names one row at most.

    Raises:
        ScalecError: what scalec.compile and scalec.grad raise; an input that torch has no gradient of.
    """
    names = inputs(source)
    plain = [n for n, has in names.items() if has]
    wanted = plain if wrt is None else [wrt] if isinstance(wrt, str) else list(wrt)
    if wrong := [n for n in wanted if n in names and n not in plain]:
        raise ArgumentError(
            f"{wrong[0]} is no tensor that torch has a gradient of",
            got="a scalar, an index, or a tensor of 8 bits or fewer or with scales",
            expected=", ".join(plain) or "a tensor of bf16, f16 or f32",
            fix="compile the programs of scalec.grad, and call them in a torch.autograd.Function",
        )
    if not wanted:
        raise ArgumentError(
            "no input of this program has a gradient in torch",
            got=", ".join(names),
            expected="a tensor of bf16, f16 or f32 without scales, and its name in wrt",
            fix="compile the programs of scalec.grad, and call them in a torch.autograd.Function; or, where nothing is "
            "differentiated, scalec.compile this one",
        )
    check_most(source, most or {})
    said = {"straight_through": straight_through, "once": once, "covered": covered, "results": results}
    made = grad(source, wrt=wanted, quantize=quantize, types=types, **said)
    sizes = dict(dims or {})
    forward = compile(made.forward, target, sizes)
    steps = [compile(s.text, target, {d: sizes[d] for d in s.dims if d in sizes}) for s in made.steps]
    return Differentiable(made, tuple(names), forward, steps, most or {})
