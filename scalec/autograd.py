"""`scalec.differentiable`: a program and the programs of its gradients, compiled to one op of torch's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scalec.api import compile, default_target
from scalec.arguments import checked
from scalec.errors import ArgumentError
from scalec.gradients import Recipe, grad
from scalec.gradients.grad import check_most, elements, inputs
from scalec.gradients.steps import Step
from scalec.runtime.differentiable import Differentiable
from scalec.targets import get_target


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
    quantized_from: Mapping[str, str] | None = None,
    turned: Sequence[str] | str | None = None,
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
        quantized_from: by operand with scales, the type in which it is given, e.g. {"X": "bf16", "W": "f32"}: the op
            quantises it, has it in place of the operand and its scales, and keeps for backward what it quantised.
        turned: those of them that are quantised with another index last too where their blocks would do as they are,
            as scalec.grad takes it; those that the target multiplies contiguous along what is summed alone if None.

    Raises:
        ScalecError: what scalec.compile and scalec.grad raise; an input that torch has no gradient of.
    """
    names, given = inputs(source), dict(quantized_from or {})
    plain = [n for n, has in names.items() if has or n in given]
    wanted = plain if wrt is None else [wrt] if isinstance(wrt, str) else list(wrt)
    if wrong := [n for n in wanted if n in names and n not in plain]:
        raise ArgumentError(
            f"{wrong[0]} is no tensor that torch has a gradient of",
            got="a scalar, an index, or a tensor of 8 bits or fewer or with scales",
            expected=", ".join(plain) or "a tensor of bf16, f16 or f32",
            fix=f"one with scales may be quantised here, quantized_from={{'{wrong[0]}': 'bf16'}}; else compile the "
            "programs of scalec.grad, and call them in a torch.autograd.Function",
        )
    if not wanted:
        raise ArgumentError(
            "no input of this program has a gradient in torch",
            got=", ".join(names),
            expected="a tensor of bf16, f16 or f32 without scales, and its name in wrt",
            fix="those with scales may be quantised here, as quantized_from={'A': 'bf16', 'B': 'f32'} says; or, where "
            "nothing is differentiated, scalec.compile this program",
        )
    check_most(source, most or {})
    said = {"straight_through": straight_through, "once": once, "covered": covered, "results": results}
    if turned is None:
        turned = _turned(source, given, target or default_target()) if given else ()
    made = grad(source, wrt=wanted, quantize=quantize, types=types, quantized_from=given, turned=turned, **said)
    sizes = dict(dims or {})
    forward = compile(made.forward, target, sizes)

    def compiled(steps: Sequence[Step]) -> list[Any]:
        return [compile(s.text, target, {d: sizes[d] for d in s.dims if d in sizes}) for s in steps]

    quantisers = compiled(made.quantisers)

    def alone() -> tuple[Any, list[Any]]:
        """Of the program and its quantisers those that make more than itself needs, compiled without that."""
        pairs = zip(made.quantisers, quantisers, strict=True)
        own = [k if len(s.results) == 1 else compiled([s.first()])[0] for s, k in pairs]
        return compile(source, target, sizes) if made.kept else forward, own

    scales = {n for s in made.quantisers for n in s.makes if n not in s.results}
    arguments = tuple(n for n in names if n not in scales)
    return Differentiable(made, arguments, forward, compiled(made.steps), most or {}, quantisers, alone)


def _turned(source: str, names: Iterable[str], target: str) -> list[str]:
    """Those of some operands that no instruction of the target multiplies stored with another index contiguous."""
    element_of, families = elements(source), get_target(target).mma
    turns = {x for m in families for x in m.operands if m.reads_transposed(x)}
    return [n for n in names if n in element_of and element_of[n] not in turns]
