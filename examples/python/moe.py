"""A mixture-of-experts layer in scalec programs and torch's routing ops, in two layouts, with FP8 operands.

    pip install -e '.[torch,gpu]' && python examples/python/moe.py    # on a GPU; or else on the emulator, small
    python examples/python/moe.py --target sm_100a                    # on the emulator, as that GPU

Ragged, of prefill: the slots (token, choice) are sorted by expert, and three programs do the rest, each one kernel. The
first multiplies by gate and up, which are the halves of one tensor, and writes what they make together in FP8; it reads
the tokens' rows through `token[m]`, so nothing copies them together. The second multiplies by the router's weights and
writes each row to its slot, so nothing permutes them back. The third adds up the choices of a token, in their order.
Masked, of decode: DeepEP's low-latency dispatch has put the rows of expert g into `X[g, 0:rows[g]]`; the same two
programs, without an index, and a sum that reads each token's rows where they are, and weighs them.

Offsets, counts and indices stay on the device, and the host reads none of them: one CUDA graph of routing and layer is
captured, then replayed with other routings. Each result is compared with float64 on the dequantised operands.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

import scalec

SIZES = {
    "tokens": (4096, 24),
    "experts": (128, 4),
    "topk": (8, 2),
    "hidden": (7168, 256),
    "inter": (2048, 128),
}
"""Defaults on a GPU and on the emulator."""

TARGETS = {(9, 0): "sm_90a", (10, 0): "sm_100a", (10, 3): "sm_103a", (12, 0): "sm_120a"}
"""The target of a GPU, by its compute capability."""

RAGGED = {  # rows off[g] to off[g+1] are expert g's; no padding between experts, an expert may have no rows
    "gated": "H[m,n]:e4m3 scale(1x128) = silu(X[token[m],k] @ W[g,n,k] scale(1x128,1x128x128))"
    " * (X[token[m],k] @ W[g,n+size(n),k] scale(1x128,1x128x128)) for m in off[g]:off[g+1]",
    "down": "Y[slot[m],n] = w[m]:f32 * (H[m,k] @ Wd[g,n,k] scale(1x128,1x128x128)) for m in off[g]:off[g+1]",
}
MASKED = {  # the first rows[g] rows of X[g] are expert g's, the others may be anything; scales as DeepEP has them
    "gated": "H[g,m,n]:e4m3 scale(1x1x128) = silu(X[g,m,k] @ W[g,n,k] scale(1x1x128@col,1x128x128))"
    " * (X[g,m,k] @ W[g,n+size(n),k] scale(1x1x128@col,1x128x128)) for m < rows[g]",
    "down": "Y[g,m,n] = H[g,m,k] @ Wd[g,n,k] scale(1x1x128,1x128x128) for m < rows[g]",
}

COMBINE = {
    "ragged": "Z[t,n] = sum[j](Y[t,j,n])",
    "masked": "Z[t,n] = sum[j](w[t,j]:f32 * Y[row[t,j],n])",
}


class Routing(NamedTuple):
    """Who computes what: a slot is token * topk + choice, and m counts the slots sorted by expert."""

    experts: Tensor  # [tokens, topk]
    weights: Tensor  # [tokens, topk]
    slot: Tensor  # [m]: the slot of a row
    off: Tensor  # [experts + 1]: the rows at which an expert begins

    @classmethod
    def of(cls, logits: Tensor, topk: int) -> Routing:
        """The largest logits of each token. Not with bincount: that reads its largest entry on the host."""
        largest, experts = logits.topk(topk)
        by_expert, slot = experts.flatten().sort(stable=True)
        bounds = torch.arange(logits.shape[1] + 1, device=logits.device)
        return cls(experts, largest.softmax(-1), slot.int(), torch.searchsorted(by_expert, bounds, out_int32=True))


class Experts:
    """The experts' weights in FP8, with a scale for each block of 128x128, and the programs that multiply by them.

    Args:
        gate_up: [experts, 2 * inter, hidden], the rows of gate before those of up.
        down: [experts, hidden, inter].
        topk: experts of a token.
        prefill, decode: tokens that are expected in the ragged and in the masked layout, for speed alone.
        target: of the kernels.
    """

    def __init__(self, gate_up: Tensor, down: Tensor, topk: int, prefill: int, decode: int, target: str) -> None:
        self.topk, self.target, self.inter = topk, target, down.shape[2]
        (w, scale), (wd, wd_scale) = quantise(gate_up, 128), quantise(down, 128)
        self.named = {"gated": {"W": w, "W_scale": scale}, "down": {"Wd": wd, "Wd_scale": wd_scale}}
        self.ragged_kernels, self.masked_kernels = self.compiled(RAGGED, prefill), self.compiled(MASKED, decode)
        sizes = {"n": down.shape[1], "j": topk}
        self.combine = {name: scalec.compile(program, target, sizes) for name, program in COMBINE.items()}

    def compiled(self, programs: dict[str, str], tokens: int) -> dict[str, scalec.Kernel]:
        """A kernel for each program: the number of rows stays open, the weights' sizes are known."""
        kernels = {}
        for name, program in programs.items():
            g, n, k = next(iter(self.named[name].values())).shape
            n = self.inter if name == "gated" else n
            about = max(1, tokens * self.topk // g)  # rows of an expert
            kernels[name] = scalec.compile(f"{program} about {about}", self.target, {"g": g, "n": n, "k": k})
        return kernels

    def ragged(self, x: Tensor, x_scale: Tensor, to: Routing) -> Tensor:
        """The layer's output for tokens `x` [tokens, hidden]."""
        rows, kernels = len(to.slot), self.ragged_kernels
        hidden, scale = self.between(x, rows)
        y = torch.empty(rows, x.shape[1], dtype=torch.bfloat16, device=x.device)
        gathered = {"X": x, "X_scale": x_scale, "token": to.slot // self.topk, "off": to.off}
        kernels["gated"](**gathered, **self.named["gated"], out=(hidden, scale))
        w = to.weights.flatten()[to.slot]
        kernels["down"](slot=to.slot, w=w, H=hidden, H_scale=scale, **self.named["down"], off=to.off, out=y)
        return self.combine["ragged"](Y=y.view(-1, self.topk, y.shape[1]))

    def masked(self, x: Tensor, x_scale: Tensor, to: Routing) -> Tensor:
        """The same, between what DeepEP's dispatch and combine do; torch's indexing stands for those two here."""
        tokens, kernels, rows = len(x), self.masked_kernels, to.off.diff()
        most = -(-tokens // 4) * 4  # of one expert, which has a token once; columns of scales begin at 16 bytes
        row = to.off[:-1, None] + torch.arange(most, device=x.device)
        token = (to.slot // self.topk)[row.clamp(max=len(to.slot) - 1)]
        x, x_scale = x.view(torch.uint8)[token].view(x.dtype), x_scale[token].mT.contiguous().mT

        hidden, scale = self.between(x, len(rows), most)
        y = torch.empty(len(rows), most, x.shape[2], dtype=torch.bfloat16, device=x.device)
        kernels["gated"](X=x, X_scale=x_scale, **self.named["gated"], rows=rows, out=(hidden, scale))
        kernels["down"](H=hidden, H_scale=scale, **self.named["down"], rows=rows, out=y)

        place = to.slot.argsort().view(tokens, self.topk) - to.off[to.experts]
        at = (to.experts * most + place).int()
        return self.combine["masked"](w=to.weights, Y=y.view(-1, y.shape[2]), row=at)

    def between(self, x: Tensor, *rows: int) -> tuple[Tensor, Tensor]:
        """Room for H and its scales: results whose rows are found on the device are given at the call."""
        hidden = torch.empty(*rows, self.inter, dtype=torch.float8_e4m3fn, device=x.device)
        return hidden, torch.empty(*rows, self.inter // 128, device=x.device)

    def reference(self, x: Tensor, x_scale: Tensor, to: Routing) -> tuple[Tensor, Tensor]:
        """The layer in float64 on the dequantised operands, and with its hidden values rounded to FP8."""
        x = dequantised(x, x_scale)
        exact, rounded = torch.zeros_like(x), torch.zeros_like(x)
        named = self.named["gated"] | self.named["down"]
        for g in range(len(named["W"])):
            gate_up, down = (dequantised(named[w][g], named[f"{w}_scale"][g], 128) for w in ("W", "Wd"))
            gate, up = gate_up.chunk(2)
            token, choice = (to.experts == g).nonzero(as_tuple=True)
            hidden = torch.nn.functional.silu(x[token] @ gate.T) * (x[token] @ up.T)
            w = to.weights[token, choice, None].double()
            exact.index_add_(0, token, w * (hidden @ down.T))
            rounded.index_add_(0, token, w * (dequantised(*quantise(hidden)) @ down.T))
        return exact, rounded


def quantise(x: Tensor, rows: int = 1) -> tuple[Tensor, Tensor]:
    """FP8 and an f32 scale for each block of rows x 128."""
    blocks = x.float().unflatten(-1, (-1, 128)).unflatten(-3, (-1, rows))
    scale = blocks.abs().amax((-3, -1), keepdim=True).clamp(min=1e-12) / 448
    return (blocks / scale).to(torch.float8_e4m3fn).view(x.shape), scale[..., 0, :, 0]


def dequantised(x: Tensor, scale: Tensor, rows: int = 1) -> Tensor:
    """The float64 values of what `quantise` made."""
    blocks = x.double().unflatten(-1, (-1, 128)).unflatten(-3, (-1, rows))
    return (blocks * scale[..., :, None, :, None]).view(x.shape)


def worst(y: Tensor, expected: Tensor) -> float:
    """The largest relative error of a token's row."""
    return float(((y.double() - expected).norm(dim=1) / expected.norm(dim=1)).max())


def captured(step: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """A CUDA graph of `step` as a function that replays it, and where the replays leave the result."""
    step()  # the first call of a kernel loads it
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = step()
    return graph.replay, y


def microseconds(replay: Callable[[], object], times: int = 20) -> float:
    """The time of a replay, of several in a row."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / times * 1000


def compare(name: str, layer: Callable[..., Tensor], experts: Experts, x: Tensor, logits: dict[str, Tensor]) -> bool:
    """Runs one layout with several routings, prints errors and times; False if an error is too large."""
    fp8, scale = quantise(x)
    now = next(iter(logits.values())).clone()  # the graph reads the logits here

    def step() -> Tensor:
        return layer(fp8, scale, Routing.of(now, experts.topk))

    replay, y = captured(step) if x.is_cuda else (None, None)
    passed = True
    for routing, values in logits.items():
        now.copy_(values)
        if replay is not None and y is not None:
            replay()
            result = y
        else:
            result = step()
        to = Routing.of(values, experts.topk)
        exact, rounded = experts.reference(fp8, scale, to)
        error, rounding = worst(result, exact), worst(rounded, exact)
        right = error <= 1.25 * rounding  # NaN is not; the rest is rounding Y to bf16
        passed &= right
        rows = to.off.diff()
        report = f"{name:6}  {routing:6}  {len(x)} tokens, {int(rows.min())} to {int(rows.max())} rows an expert"
        report += f"  error {error:.2%} (of rounding H to FP8: {rounding:.2%})  {'PASS' if right else 'FAIL'}"
        if replay is not None:
            time = microseconds(replay)
            flops = 6 * len(to.slot) * x.shape[1] * experts.inter
            report += f"  {time:.0f} us with its routing, {flops / time / 1e6:.0f} TFLOP/s"
        print(report, flush=True)
    return passed


def size(text: str) -> int:
    """A size of the command line: 1 or more."""
    if (value := int(text)) < 1:
        raise ValueError(f"{value} is no size")
    return value


def main(arguments: list[str] | None = None) -> int:
    """Both layouts; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description="A mixture-of-experts layer in scalec programs.")
    told = "run on the emulator of this GPU; without it on the GPU, if there is one"
    parser.add_argument("--target", choices=TARGETS.values(), help=told)
    for name, defaults in SIZES.items():
        parser.add_argument(f"--{name}", type=size, help="default: {} on a GPU, {} on the emulator".format(*defaults))
    given = parser.parse_args(arguments)
    emulated = os.environ.get("SCALEC_DEVICE") == "emulator"
    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() and not emulated else (0, 0)
    cuda = given.target is None and capability in TARGETS
    tokens, count, topk, hidden, inter = (getattr(given, s) or d[0 if cuda else 1] for s, d in SIZES.items())
    if topk > count or hidden % 128 or inter % 128:
        parser.error("topk is at most experts, and hidden and inter are multiples of 128")
    if cuda:
        device, target, where = "cuda", TARGETS[capability], torch.cuda.get_device_name()
    else:
        device, target, where = "cpu", given.target or "sm_90a", "the emulator"
        os.environ["SCALEC_DEVICE"] = "emulator"
    print(f"{where} ({target}): {count} experts, {topk} of them for a token, {hidden} x {inter}", flush=True)

    torch.manual_seed(0)
    options = {"dtype": torch.bfloat16, "device": device}
    shapes = (2 * inter, hidden), (hidden, inter)
    gate_up, down = (torch.randn(count, n, k, **options) / k**0.5 for n, k in shapes)
    decode = min(tokens, 128)
    experts = Experts(gate_up, down, topk, tokens, decode, target)
    x = torch.randn(tokens, hidden, **options)
    even = torch.randn(tokens, count, device=device)
    skewed = even - 3 * torch.arange(count, device=device).log1p()  # most rows for the first experts
    passed = True
    for name, layer, most in (("ragged", experts.ragged, tokens), ("masked", experts.masked, decode)):
        routings = {"even": even[:most], "skewed": skewed[:most]}
        passed &= compare(name, layer, experts, x[:most], routings)
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
