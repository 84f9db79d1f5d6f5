"""A mixture-of-experts layer that trains, in scalec programs and torch's routing ops, in BF16 and in FP8.

    pip install -e '.[torch,gpu]' && python examples/python/moe_train.py    # on a GPU; or else on the emulator, small
    python examples/python/moe_train.py --target sm_100a                    # on the emulator, as that GPU

Four programs are the layer: the product by gate and up, which reads the tokens' rows in the experts' order; the
activation; the product by down; and the sum of a token's rows, weighted. `scalec.grad` writes the programs of their
gradients, which run here as it wrote them. A range of rows becomes one of what is summed (`dW`), the gather of rows the
sum of a token's rows (`dX`), that sum a scatter (`dY`), and routing weights get the product of two rows (`dw`). torch
routes, and has the gradient of that.

FP8, as DeepSeek-V3 trains: see linear.py. Every operand of a product is FP8, quantised along what is summed. What one
program's gradient is and the next one's reads, dY, and dG and dU, is needed quantised alone. So in place of programs
that compute it there are such as write it quantised, rounded once: dG and dU in both orders (`at_once`), each to where
the gradient of their product reads it; dY, whose rows are tokens' rows times a weight, along m alone (`GATHERED`).

Results and gradients are compared with torch's autograd in float64, their errors in FP8 with those of the roundings
alone; and each gradient with finite differences of the float64 layer along that gradient.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from linear import dequantised, error, quantised, report
from moe import COMBINE, TARGETS, Routing, microseconds, size
from torch import Tensor
from torch.nn.functional import silu

import scalec
from scalec.gradients import Step

SIZES = {
    "tokens": (8192, 24),
    "experts": (16, 3),
    "topk": (4, 2),
    "hidden": (4096, 256),
    "inter": (1536, 128),
}
"""Defaults on a GPU, where weights in float64 and their gradients need room too, and on the emulator."""

ROWS = "for m in off[g]:off[g+1]"  # rows off[g] to off[g+1] are expert g's
BF16 = {
    "gate_up": f"T[m,n] = X[token[m],k] @ W[g,n,k] {ROWS}",
    "gated": "H[m,n] = silu(G[m,n]) * U[m,n]",  # the halves of T
    "down": f"Y[m,n] = H[m,k] @ Wd[g,n,k] {ROWS}",
    "combine": COMBINE["masked"],
}
FP8 = BF16 | {
    "gate_up": f"T[m,n] = X[token[m],k] @ W[g,n,k] scale(1x128,1x128x128) {ROWS}",
    "gated": "H[m,n]:e4m3 scale(1x128) = silu(G[m,n]) * U[m,n]",  # beside it H_m, which dWd reads
    "down": f"Y[m,n] = H[m,k] @ Wd[g,n,k] scale(1x128,1x128x128) {ROWS}",
}
FORWARD = {"gated": f"{FP8['gated']}; H_m[n,m]:e4m3 scale(1x128@col) = silu(G[m,n]) * U[m,n]"}
ROUNDED = {"X": "X[m,k] = x[m,k]", "W": "W[g,n,k] = w[g,n,k]:f32", "Wd": "Wd[g,n,k] = w[g,n,k]:f32"}
"""What makes the operands of BF16."""
ACTIVATIONS = "X[m,k]:e4m3 scale(1x128) = x[m,k]"
TURNS = ("sm_90a",)
"""The targets whose FP8 products read operands contiguous along what is summed alone; others turn them in each tile."""

Named = dict[str, Tensor]


WEIGHED = "weight[slot[m]]:f32 * "
GATHERED = (
    Step({"dZ_n": ""}, "dZ_n[t,n]:e4m3 scale(1x128) = dZ[t,n]", {}, (), dims=("t", "n")),
    Step({"dY_m": ""}, f"dY_m[n,m]:e4m3 scale(1x128@col) = {WEIGHED}dZ[token[m],n]", {}, (), dims=("m", "n")),
)
"""What scalec.grad scatters, `dY[row[t,j],n] = dZ[t,n] * w[t,j]`, along m. Along n a weight is one number for all that
is summed: dH reads dZ's rows, which are quantised once a token, and multiplies behind (`weighed`)."""


def weights(name: str, target: str) -> str:
    """The program that quantises weights."""
    made = f"{name}[g,n,k]:e4m3 scale(1x128x128) = w[g,n,k]:f32"
    return f"{made}; {name}_n[g,k,n]:e4m3 scale(1x128x128) = w[g,n,k]" if target in TURNS else made


def named(names: Iterable[str], made: Any) -> Named:
    """What a kernel returned, by name."""
    return dict(zip(names, made if isinstance(made, tuple) else (made,), strict=True))


def at_once(text: str, name: str) -> Step:
    """A program that computes `name` as a step that writes it quantised along each of its indices instead."""
    orders = f"{name}_n[m,n]:e4m3 scale(1x128) = {name}\n{name}_m[n,m]:e4m3 scale(1x128@col) = {name}"
    return Step({f"{name}_n": "", f"{name}_m": ""}, f"{text}\n{orders}", {}, (), dims=("m", "n"))


def weighed(step: Step) -> Step:
    """dH = dY_n @ Wd of dZ_n's rows."""
    to, _, value = step.text.partition(" = ")
    made, _, rows = value.replace("dY_n[m,n]", "dZ_n[token[m],n]").partition(" for ")
    return replace(step, text=f"{to} = {WEIGHED}({made}) for {rows}")


def steps_of(name: str, source: str, fp8: bool, options: Mapping[str, Any]) -> Sequence[Step]:
    """The programs of the gradients of one of the four."""
    steps = scalec.grad(source, **options).steps
    if not fp8:
        return steps
    if name == "gated":
        alone = {x: scalec.grad(source, wrt=x, **options).steps for x in "GU"}
        return [at_once(step.text, f"d{x}") for x, (step,) in alone.items()]
    if name == "combine":
        return [x for s in steps for x in (GATHERED if "dY" in s.results else (s,))]
    steps = [s for s in steps if not {"dY_n", "dT_n"} & s.results.keys()]
    return [weighed(s) if "dH" in s.results else s for s in steps]


class Layer:
    """The layer and its gradients, of bf16 tokens and of f32 weights.

    Args:
        sizes: `experts`, `topk`, `hidden` and `inter`; the last two are multiples of 128.
        tokens: that are expected, for speed alone.
        fp8: whether products are of FP8; else of BF16.
        target: of the kernels.
    """

    def __init__(self, sizes: Mapping[str, int], tokens: int, fp8: bool, target: str) -> None:
        self.topk, self.target = sizes["topk"], target
        g, j, hidden, inter = (sizes[s] for s in ("experts", "topk", "hidden", "inter"))
        dims = {
            "gate_up": {"g": g, "n": 2 * inter, "k": hidden},
            "gated": {"n": inter},
            "down": {"g": g, "n": hidden, "k": inter},
            "combine": {"n": hidden, "j": j},
        }
        products: dict[str, Any] = {"quantize": "deepseek_v3"} if fp8 else {}
        turned = fp8 and target in TURNS
        options: dict[str, dict[str, Any]] = {
            "gate_up": products | {"types": {"dW": "f32"}, "turned": "W" if turned else ()},
            "gated": {"straight_through": True},
            "down": products | {"types": {"dWd": "f32"}, "turned": ("H", "Wd") if turned else "H" if fp8 else ()},
            "combine": {"once": "row"},
        }
        about = f" about {max(1, tokens * j // g)}"  # rows of an expert
        self.forward: list[scalec.Kernel] = []
        self.backward: list[scalec.Kernel] = []
        for name, program in (FP8 if fp8 else BF16).items():
            source = f"{program}{about}" if ROWS in program else program
            forward = scalec.grad(source, **options[name]).forward
            self.forward.append(self.kernel(FORWARD.get(name, forward) if fp8 else forward, dims[name]))
            known = {"j": j, **dims[name]}  # a token has j rows
            steps = steps_of(name, source, fp8, options[name])
            made = [self.kernel(s.text, {d: known[d] for d in s.dims if d in known}) for s in steps]
            self.backward = made + self.backward
        operands = {"X": ACTIVATIONS} | {n: weights(n, target) for n in ("W", "Wd")} if fp8 else ROUNDED
        sizes_of = {"X": {"k": hidden}, "W": dims["gate_up"], "Wd": dims["down"]}
        self.operands = {name: self.kernel(text, sizes_of[name]) for name, text in operands.items()}
        self.reads = {t.name for kernel in self.backward for t in kernel.spec.operands} | {"token"}
        self.widths = {"T": 2 * inter, "dT": 2 * inter, "dH": inter}
        self.widths |= dict.fromkeys(("Y", "dY", "X_rows", "dX_rows"), hidden)

    def kernel(self, program: str, dims: Mapping[str, int]) -> scalec.Kernel:
        """A program, compiled."""
        return scalec.compile(program, self.target, dims)

    def __call__(self, x: Tensor, gate_up: Tensor, down: Tensor, to: Routing) -> Tensor:
        """[tokens, hidden], as x is; gate_up is [experts, 2 * inter, hidden], down [experts, hidden, inter]."""
        return _Layer.apply(x, gate_up, down, to.weights, self, to)  # pyright: ignore[reportReturnType]

    def room(self, name: str, like: Tensor) -> Tensor:
        """Memory for a result whose rows are found on the device: it is given at the call. `like` has as many rows.
        Quantised ones are called by the index that lies side by side, as dY_n [m, n] and dY_m [n, m]."""
        if name in self.widths:
            return like.new_empty(len(like), self.widths[name], dtype=torch.bfloat16)
        of, _, last = name.removesuffix("_scale").rpartition("_")
        rows, columns = (len(like), self.widths[of]) if last == "n" else (self.widths[of], len(like))
        if name.endswith("_scale"):
            made = [rows, -(-columns // 128)]
            return torch.empty_strided(made, (made[1], 1) if last == "n" else (1, rows), device=like.device)
        return like.new_empty(rows, columns, dtype=torch.float8_e4m3fn)

    def halves(self, known: Named) -> Named:
        """Memory for dT, and its halves: that of dG and that of dU."""
        made = {n: self.room(n, known["token"]) for n in sorted(self.reads) if n.partition("_")[0] == "dT"}
        parts = {n: t.chunk(2, 0 if "_m" in n else 1) for n, t in made.items()}
        return made | {
            n.replace("T", x, 1): half for n, two in parts.items() for x, half in zip("GU", two, strict=True)
        }

    def run(self, kernels: Sequence[scalec.Kernel], known: Named, wanted: Container[str]) -> Named:
        """Programs, one after the other: each reads what is known by name, and what it makes is known then, until
        nothing that follows reads it; what is `wanted` stays."""
        for i, kernel in enumerate(kernels):
            names = [t.name for t in kernel.spec.results]
            given = [t.name for t in kernel.spec.results if t.given]
            known |= {n: self.room(n, known["token"]) for n in given if n not in known}
            out = {"out": tuple(known[n] for n in names)} if names[0] in known else {}
            known |= named(names, kernel(*[known[t.name] for t in kernel.spec.operands], **out))
            later = {t.name for k in kernels[i + 1 :] for t in (*k.spec.operands, *k.spec.results)}
            known = {n: t for n, t in known.items() if n in later or n in wanted}
        return known


class _Layer(torch.autograd.Function):
    """The layer, as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gate_up: Tensor, down: Tensor, w: Tensor, layer: Layer, to: Routing) -> Tensor:
        places = torch.arange(len(to.slot), dtype=torch.int32, device=w.device)
        row = places.scatter(0, to.slot.long(), places).view(w.shape)  # where a token's rows stand
        known = {"w": w, "weight": w.flatten(), "row": row, "token_inv": row, "off": to.off}
        known |= {"slot": to.slot, "token": to.slot // layer.topk}
        for name, given in (("X", x), ("W", gate_up), ("Wd", down)):
            kernel = layer.operands[name]
            known |= named([t.name for t in kernel.spec.results], kernel(given))
        known["T"] = layer.room("T", to.slot)
        known["G"], known["U"] = known["T"].chunk(2, 1)
        known = layer.run(layer.forward, known, layer.reads | {"Z"})
        ctx.layer, ctx.names = layer, [n for n in known if n in layer.reads]
        ctx.save_for_backward(*[known[n] for n in ctx.names])
        return known["Z"]

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        known = {"dZ": dz.contiguous(), **dict(zip(ctx.names, ctx.saved_tensors, strict=True))}
        known |= ctx.layer.halves(known)
        known["dw"] = torch.empty_like(known["row"], dtype=torch.float32)
        made = ctx.layer.run(ctx.layer.backward, known, ("token", "dX", "dW", "dWd", "dw"))
        return made["dX"], made["dW"], made["dWd"], made["dw"], None, None


def exact(x: Tensor, gate_up: Tensor, down: Tensor, logits: Tensor, to: Routing) -> Tensor:
    """The layer in the type of its arguments, expert by expert."""
    token, w = to.slot // to.experts.shape[1], logits.gather(1, to.experts).softmax(1)
    gate, up = each(x[token], gate_up, to).chunk(2, 1)
    y = w.flatten()[to.slot, None] * each(silu(gate) * up, down, to)
    return torch.zeros_like(x).index_add(0, token, y)


def each(x: Tensor, weights: Tensor, to: Routing) -> Tensor:
    """The product of each expert's rows and its weights."""
    return torch.cat([x[i:j] @ weights[g].T for g, (i, j) in enumerate(pairwise(to.off.tolist()))])


def outer(x: Tensor, y: Tensor, to: Routing) -> Tensor:
    """The sum of the products of each expert's rows, one such matrix for each."""
    return torch.stack([x[i:j].T @ y[i:j] for i, j in pairwise(to.off.tolist())])


def in_fp8(x: Tensor, rows: int = 1) -> Tensor:
    """Rounded to FP8, in blocks of rows x 128: float64 of what is stored."""
    values, scale = quantised(x.reshape(-1, x.shape[-1]), rows)
    return dequantised(values, scale, rows).double().view(x.shape)


def turned(x: Tensor) -> Tensor:
    """The same in blocks of 128 rows."""
    return in_fp8(x.T.contiguous()).T


def rounded(x: Tensor, gate_up: Tensor, down: Tensor, w: Tensor, dz: Tensor, to: Routing) -> Named:
    """The layer and its gradients by hand, in float64 but for the operands of products, which are rounded to FP8."""
    token, row = to.slot // to.experts.shape[1], to.slot.argsort().view(w.shape)
    x, gate_up, down = in_fp8(x), in_fp8(gate_up, 128), in_fp8(down, 128)
    t = each(x[token], gate_up, to)
    gate, up = t.chunk(2, 1)
    s = gate.sigmoid()
    h = gate * s * up
    y = each(in_fp8(h), down, to)
    dy = torch.empty_like(y)
    dy[row] = w[:, :, None] * dz[:, None]
    dh = w.flatten()[to.slot, None] * each(in_fp8(dz)[token], down.mT, to)
    dt = torch.cat([dh * up * s * (1 + gate * (1 - s)), dh * gate * s], 1)
    return {
        "Z": (w[:, :, None] * y[row]).sum(1),
        "dX": each(in_fp8(dt), gate_up.mT, to)[row].sum(1),
        "dW": outer(turned(dt), turned(x[token]), to),
        "dWd": outer(turned(dy), turned(h), to),
        "dw": (dz[:, None] * y[row]).sum(2),
    }


def slopes(
    leaves: Named, found: Named, loss: Callable[[Named], Tensor], limits: Mapping[str, float], name: str
) -> bool:
    """Each gradient's length against the slope along it, by finite differences of the float64 layer."""
    passed = True
    for what, leaf in leaves.items():
        d = found[f"d{what}"].double()
        step = 1e-4 * d * leaf.norm() / d.norm()
        high, low = (loss(leaves | {what: leaf + s}) for s in (step, -step))
        slope = float((high - low) / (2 * step.norm()))
        off = abs(float(d.norm()) / slope - 1)
        right = off <= limits[f"d{what}"]  # NaN is not
        passed &= right
        print(
            f"{name:5} d{what:4} slope along it {slope:.5g}, off by {off:.3%}  {'PASS' if right else 'FAIL'}",
            flush=True,
        )
    return passed


def check(fp8: bool, layer: Layer, leaves: Named, dz: Tensor) -> bool:
    """Forward and backward once, compared; False if a result or a gradient is wrong."""
    name = "FP8" if fp8 else "BF16"
    given = {n: t.clone().requires_grad_() for n, t in leaves.items()}
    to = Routing.of(given["logits"], layer.topk)

    def step() -> tuple[Tensor, ...]:
        z = layer(given["X"], given["W"], given["Wd"], to)
        return z, *torch.autograd.grad(z, list(given.values()), dz, retain_graph=True)

    made = dict(zip(("Z", *(f"d{n}" for n in given)), step(), strict=True))
    doubles = {n: t.double().requires_grad_() for n, t in leaves.items()}
    x, gate_up, down, logits = doubles.values()
    z = exact(x, gate_up, down, logits, to)
    gradients = torch.autograd.grad(z, list(doubles.values()), dz.double())
    known = {"Z": z.detach(), **{f"d{n}": d for n, d in zip(doubles, gradients, strict=True)}}
    limits = dict.fromkeys(made, 2**-7)
    if fp8:
        w = logits.gather(1, to.experts).softmax(1)
        off = rounded(x.detach(), gate_up.detach(), down.detach(), w.detach(), dz.double(), to)
        (off["dlogits"],) = torch.autograd.grad(w, logits, off["dw"])
        limits = {n: 1.1 * error(off[n], known[n]) for n in made}
    passed = report(name, made, known, limits)
    doubles = {n: t.detach() for n, t in doubles.items()}

    def loss(at: Named) -> Tensor:
        return (exact(at["X"], at["W"], at["Wd"], at["logits"], to) * dz.double()).sum()

    passed &= slopes(doubles, made, loss, limits, name)
    if dz.is_cuda:
        time = microseconds(step)
        flops = 18 * len(to.slot) * leaves["W"][0].numel() / 2
        print(f"{name:5} {time:.0f} us forward and backward, {flops / time / 1e6:.0f} TFLOP/s", flush=True)
    return passed


def main(arguments: list[str] | None = None) -> int:
    """The layer in BF16 and in FP8; 1 if a result or a gradient is wrong."""
    parser = argparse.ArgumentParser(
        description="A mixture-of-experts layer, forward and backward, in scalec programs."
    )
    told = "run on the emulator of this GPU; without it on the GPU, if there is one"
    parser.add_argument("--target", choices=TARGETS.values(), help=told)
    for name, defaults in SIZES.items():
        parser.add_argument(f"--{name}", type=size, help="default: {} on a GPU, {} on the emulator".format(*defaults))
    parser.add_argument("--only", choices=["BF16", "FP8"], help="default: both")
    given = parser.parse_args(arguments)
    emulated = os.environ.get("SCALEC_DEVICE") == "emulator"
    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() and not emulated else (0, 0)
    cuda = given.target is None and capability in TARGETS
    sizes = {s: getattr(given, s) or d[0 if cuda else 1] for s, d in SIZES.items()}
    tokens, experts, topk, hidden, inter = sizes.values()
    if topk > experts or hidden % 128 or inter % 128 or tokens * topk % 16:
        parser.error(
            "topk is at most experts, hidden and inter are multiples of 128, and tokens times topk is one of 16"
        )  # rows of what is turned begin at 16 bytes
    if cuda:
        device, target, where = "cuda", TARGETS[capability], torch.cuda.get_device_name()
    else:
        device, target, where = "cpu", given.target or "sm_90a", "the emulator"
        os.environ["SCALEC_DEVICE"] = "emulator"
    print(f"{where} ({target}): {tokens} tokens, {experts} experts, {topk} for a token, {hidden} x {inter}", flush=True)
    torch.manual_seed(0)
    leaves = {
        "X": torch.randn(tokens, hidden, dtype=torch.bfloat16, device=device),
        "W": torch.randn(experts, 2 * inter, hidden, device=device) / hidden**0.5,
        "Wd": torch.randn(experts, hidden, inter, device=device) / inter**0.5,
        "logits": torch.randn(tokens, experts, device=device) - torch.arange(experts, device=device).log1p(),
    }
    dz = torch.randn(tokens, hidden, dtype=torch.bfloat16, device=device)
    passed = True
    for name in ["BF16", "FP8"] if given.only is None else [given.only]:
        fp8 = name == "FP8"
        passed &= check(fp8, Layer(sizes, tokens, fp8, target), leaves, dz)
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
