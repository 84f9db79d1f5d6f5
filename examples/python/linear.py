"""A linear layer that trains: its gradients are programs that `scalec.grad` writes, in BF16 and in FP8.

    pip install -e '.[torch,gpu]' && python examples/python/linear.py    # on a GPU; or else on the emulator, small
    python examples/python/linear.py --target sm_100a                    # on the emulator, as that GPU

BF16: `scalec.differentiable` compiles the layer and the programs of its gradients to one op that torch's autograd goes
through, under torch.compile too.

FP8, as DeepSeek-V3 trains: activations and gradients have a scale for each 1x128, weights one for each 128x128. The op
multiplies what it quantises itself (`quantized_from`): its input along each of its indices, of one read, and its
weight. What backward reads is kept, the input along the other index alone. Backward quantises the gradient along each
of its indices. FP8 products of sm_90a read what they sum contiguous alone: there the weight, whose blocks are square,
is quantised in both orders of one read, and backward keeps the turned one. In the shell this prints the programs:

    scalec grad 'Y[m,n] = X[m,k] @ W[n,k] scale(1x128,128x128)' --quantize deepseek_v3 --quantized-from X=bf16,W=f32

With "deepseek_v3_2d" a gradient's blocks are square too, so that dW has one scale for 128 of its rows: less to do, and
coarser.

All is compared with float64, the errors of FP8 with those of its rounding alone, and gradients with finite differences.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

import scalec

SIZES = {"rows": (8192, 128), "outputs": (7168, 128), "inputs": (2048, 256)}
"""Defaults on a GPU and on the emulator."""

TARGETS = {(9, 0): "sm_90a", (10, 0): "sm_100a", (10, 3): "sm_103a", (12, 0): "sm_120a"}
"""The target of a GPU, by its compute capability."""

Named = Mapping[str, Tensor]

LINEAR = "Y[m,n] = X[m,k] @ W[n,k] + bias[n]"
FP8 = "Y[m,n] = X[m,k] @ W[n,k] scale(1x128,128x128)"


def fp8_linear(
    outputs: int, inputs: int, target: str, recipe: str = "deepseek_v3"
) -> Callable[[Tensor, Tensor], Tensor]:
    """Y = X @ W in FP8, of bf16 X and f32 W, whose gradients have these types.

    Args:
        outputs, inputs: of the layer, multiples of 128.
        target: of the kernels.
        recipe: of scalec.gradients.RECIPES, with f32 scales.
    """
    sizes, given = {"n": outputs, "k": inputs}, {"X": "bf16", "W": "f32"}
    return scalec.differentiable(FP8, target, sizes, quantize=recipe, quantized_from=given)


def turned(x: Tensor, rows: int = 1) -> tuple[Tensor, Tensor]:
    """A matrix turned, in FP8."""
    return quantised(x.T.contiguous(), rows)


def quantised(x: Tensor, rows: int = 1) -> tuple[Tensor, Tensor]:
    """FP8, and an f32 scale for each block of rows x 128; the last blocks may be partial."""
    tall, wide = (-(-s // b) * b for s, b in zip(x.shape, (rows, 128), strict=True))
    padded = torch.nn.functional.pad(x.float(), (0, wide - x.shape[1], 0, tall - x.shape[0]))
    blocks = padded.unflatten(1, (-1, 128)).unflatten(0, (-1, rows))
    largest = blocks.abs().amax((1, 3), keepdim=True)
    scale = torch.where(largest > 0, (largest / 448).clamp(min=2**-126), 1.0)
    values = (blocks / scale).reshape(tall, wide)[: x.shape[0], : x.shape[1]]
    return values.to(torch.float8_e4m3fn), scale[:, 0, :, 0].contiguous()


def dequantised(x: Tensor, scale: Tensor, rows: int = 1) -> Tensor:
    """The f32 values of what `quantised` made."""
    spread = scale.repeat_interleave(rows, 0)[: x.shape[0]].repeat_interleave(128, 1)[:, : x.shape[1]]
    return x.float() * spread


def error(found: Tensor, exact: Tensor) -> float:
    """Relative, of all elements together."""
    return float((found.detach().double() - exact).norm() / exact.norm())


def report(name: str, found: Named, exact: Named, limits: Mapping[str, float]) -> bool:
    """Prints the errors; False if one is too large."""
    passed = True
    for what, value in found.items():
        off = error(value, exact[what])
        right = off <= limits[what]  # NaN is not
        passed &= right
        print(
            f"{name:5} {what:5} error {off:.3%}, accepted {limits[what]:.3%}  {'PASS' if right else 'FAIL'}", flush=True
        )
    return passed


def slopes(name: str, leaves: Named, found: Named, dy: Tensor, limits: Mapping[str, float]) -> bool:
    """Each gradient's length against the slope along it, by finite differences of the float64 layer."""
    passed, given = True, {n: t.detach().double() for n, t in leaves.items()}
    for what, leaf in given.items():
        d = found[f"d{what}"].double()
        step = 1e-4 * d * leaf.norm() / d.norm()
        at = [given | {what: leaf + s} for s in (step, -step)]
        high, low = ((((v["X"] @ v["W"].T) + v.get("bias", 0)) * dy.double()).sum() for v in at)
        off = abs(float(2 * step.norm() * d.norm() / (high - low)) - 1)
        right = off <= limits[f"d{what}"]  # NaN is not
        passed &= right
        print(f"{name:5} d{what:4} slope along it off by {off:.3%}  {'PASS' if right else 'FAIL'}", flush=True)
    return passed


def bf16(x: Tensor, w: Tensor, bias: Tensor, dy: Tensor, target: str) -> bool:
    """The layer in BF16, and compiled by torch."""
    layer = scalec.differentiable(LINEAR, target, {"n": w.shape[0], "k": w.shape[1]})
    exact = {"Y": x.double() @ w.double().T + bias.double(), "dX": dy.double() @ w.double()}
    exact |= {"dW": dy.double().T @ x.double(), "dbias": dy.double().sum(0)}
    compiled = torch.compile(lambda *tensors: layer(*tensors), fullgraph=True, backend="aot_eager")
    passed = True
    for name, call in (("BF16", layer), ("graph", compiled)):
        leaves = [t.clone().requires_grad_() for t in (x, w, bias)]
        y = call(*leaves)
        made: dict[str, Tensor] = dict(
            zip(("Y", "dX", "dW", "dbias"), (y, *torch.autograd.grad(y, leaves, dy)), strict=True)
        )
        limits = dict.fromkeys(made, 2**-8)
        passed &= report(name, made, exact, limits)
        passed &= slopes(name, {"X": x, "W": w, "bias": bias}, made, dy, limits)
    return passed


def fp8(x: Tensor, w: Tensor, dy: Tensor, target: str, recipe: str, rows: int) -> bool:
    """The layer in FP8, gradients in blocks of so many rows: as far from float64 as these roundings are, made here."""
    layer = fp8_linear(w.shape[0], w.shape[1], target, recipe)
    leaves = x.clone().requires_grad_(), w.float().requires_grad_()
    y = layer(*leaves)
    made: dict[str, Tensor] = dict(zip(("Y", "dX", "dW"), (y, *torch.autograd.grad(y, leaves, dy)), strict=True))
    exact = {"Y": x.double() @ w.double().T, "dX": dy.double() @ w.double(), "dW": dy.double().T @ x.double()}
    (q, p), r = (dequantised(*of(x)) for of in (quantised, turned)), dequantised(*quantised(w, 128), 128)
    d, t = (dequantised(*of(dy, rows=rows), rows) for of in (quantised, turned))
    rounded = {"Y": q.double() @ r.double().T, "dX": d.double() @ r.double(), "dW": t.double() @ p.double().T}
    limits = {what: 1.1 * error(value, exact[what]) for what, value in rounded.items()}
    name = "FP8" if rows == 1 else "2D"
    passed = report(name, made, exact, limits)
    return slopes(name, {"X": x, "W": w}, made, dy, limits) and passed


def size(text: str) -> int:
    """A size of the command line: 1 or more."""
    if (value := int(text)) < 1:
        raise ValueError(f"{value} is no size")
    return value


def main(arguments: list[str] | None = None) -> int:
    """Both layers; 1 if a result or a gradient is wrong."""
    parser = argparse.ArgumentParser(description="A linear layer, forward and backward, in scalec programs.")
    told = "run on the emulator of this GPU; without it on the GPU, if there is one"
    parser.add_argument("--target", choices=TARGETS.values(), help=told)
    for name, defaults in SIZES.items():
        parser.add_argument(f"--{name}", type=size, help="default: {} on a GPU, {} on the emulator".format(*defaults))
    given = parser.parse_args(arguments)
    emulated = os.environ.get("SCALEC_DEVICE") == "emulator"
    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() and not emulated else (0, 0)
    cuda = given.target is None and capability in TARGETS
    rows, outputs, inputs = (getattr(given, s) or d[0 if cuda else 1] for s, d in SIZES.items())
    if outputs % 128 or inputs % 128:
        parser.error("outputs and inputs are multiples of 128")
    if cuda:
        device, target, where = "cuda", TARGETS[capability], torch.cuda.get_device_name()
    else:
        device, target, where = "cpu", given.target or "sm_90a", "the emulator"
        os.environ["SCALEC_DEVICE"] = "emulator"
    print(f"{where} ({target}): {rows} rows, {inputs} to {outputs}", flush=True)
    torch.manual_seed(0)
    options: Any = {"dtype": torch.bfloat16, "device": device}
    x, dy, bias = (
        torch.randn(rows, inputs, **options),
        torch.randn(rows, outputs, **options),
        torch.randn(outputs, **options),
    )
    w = torch.randn(outputs, inputs, **options) / inputs**0.5
    passed = [bf16(x, w, bias, dy, target)]
    passed += [fp8(x, w, dy, target, *how) for how in (("deepseek_v3", 1), ("deepseek_v3_2d", 128))]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
