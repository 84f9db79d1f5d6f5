"""A small language model that trains with scalec's linear layers, in BF16 and in FP8.

    pip install -e '.[torch,gpu]' && python examples/python/language_model.py    # on a GPU; or else emulated, small
    python examples/python/language_model.py --target sm_100a                    # on the emulator, as that GPU

It reads characters of this repository's documentation. All its linear layers are those of linear.py: in BF16 one op
that torch's autograd goes through, in FP8 by DeepSeek-V3's recipe. Attention, norms, the loss and AdamW are torch's.

The same model, from the same seed and with the same text, also trains in torch alone, in float32 and with linear layers
of BF16. PASS says that a loss at the end is that of float32, to a part of what float32 has learnt.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import torch
from linear import LINEAR, TARGETS, fp8_linear, size
from torch import Tensor, nn
from torch.nn import functional

import scalec

SIZES = {
    "width": (512, 128),
    "inner": (2048, 128),
    "layers": (4, 1),
    "heads": (8, 2),
    "context": (256, 16),
    "batch": (32, 2),
    "steps": (300, 4),
    "texts": (300, 1),
}
"""Defaults on a GPU and on the emulator, which has one text again and again, as that is learnt in a few steps."""

CHARACTERS = 128  # ASCII; others become question marks
ACCEPTED = {"torch": 0.02, "BF16": 0.02, "FP8": 0.05}
"""How far the mean loss of the last quarter of the steps may be from float32's, as a part of what that has fallen."""

Product = Callable[[Tensor, Tensor, Tensor], Tensor]
"""x [rows, inputs], w [outputs, inputs] and bias [outputs] to [rows, outputs], all of float32."""


class Linear(nn.Module):
    """A linear layer of float32 parameters, which `product` multiplies by."""

    def __init__(self, inputs: int, outputs: int, product: Product) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.product = product

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x.reshape(-1, x.shape[-1]), self.weight, self.bias).view(*x.shape[:-1], -1)


class Block(nn.Module):
    """Attention and two linear layers, each added to what comes in."""

    def __init__(self, width: int, inner: int, heads: int, product: Product) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.qkv, self.out = Linear(width, 3 * width, product), Linear(width, width, product)
        self.up, self.down = Linear(width, inner, product), Linear(inner, width, product)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Model(nn.Module):
    """Characters [batch, context] to the logits of the next ones."""

    def __init__(self, sizes: Mapping[str, int], product: Product) -> None:
        super().__init__()
        width = sizes["width"]
        self.characters, self.places = nn.Embedding(CHARACTERS, width), nn.Embedding(sizes["context"], width)
        blocks = [Block(width, sizes["inner"], sizes["heads"], product) for _ in range(sizes["layers"])]
        self.blocks = nn.Sequential(*blocks, nn.LayerNorm(width), Linear(width, CHARACTERS, product))

    def forward(self, text: Tensor) -> Tensor:
        places = torch.arange(text.shape[1], device=text.device)
        return self.blocks(self.characters(text) + self.places(places))


def products(target: str) -> dict[str, Product]:
    """The ways to multiply, by name; float32 is what the others are compared with."""

    @cache
    def bf16(outputs: int, inputs: int) -> Callable[..., Tensor]:
        return scalec.differentiable(LINEAR, target, {"n": outputs, "k": inputs})

    @cache
    def fp8(outputs: int, inputs: int) -> Callable[[Tensor, Tensor], Tensor]:
        return fp8_linear(outputs, inputs, target)

    def of_torch(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        return functional.linear(x.bfloat16(), w.bfloat16(), bias.bfloat16()).float()

    def of_bf16(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        return bf16(*w.shape)(x.bfloat16(), w.bfloat16(), bias.bfloat16()).float()

    def of_fp8(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        return fp8(*w.shape)(x.bfloat16(), w).float() + bias

    return {"float32": functional.linear, "torch": of_torch, "BF16": of_bf16, "FP8": of_fp8}


def repository() -> Tensor:
    """The characters of the documentation, as numbers."""
    root = Path(__file__).resolve().parents[2]
    files = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    text = "\n".join(f.read_text(encoding="utf-8") for f in files)
    return torch.frombuffer(bytearray(text.encode("ascii", "replace")), dtype=torch.uint8).long()


def trained(product: Product, sizes: Mapping[str, int], device: str) -> list[float]:
    """The loss of each step, of a model and of pieces of text that a seed decides."""
    torch.manual_seed(0)
    text, context = repository(), sizes["context"]
    begins = torch.randint(len(text) - context, (sizes["texts"], sizes["batch"], 1))
    model = Model(sizes, product).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    losses: list[Tensor] = []
    for step in range(sizes["steps"]):
        piece = text[begins[step % sizes["texts"]] + torch.arange(context + 1)].to(device)
        loss = functional.cross_entropy(model(piece[:, :-1]).flatten(0, 1), piece[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def compare(losses: Mapping[str, list[float]]) -> bool:
    """Prints losses side by side, and how far they are at the end from float32's; False if one is too far."""
    known, count = losses["float32"], len(losses["float32"])
    print("step   " + "".join(f"{name:>10}" for name in losses))
    for step in sorted({*range(0, count, max(1, count // 10)), count - 1}):
        print(f"{step:<7}" + "".join(f"{of[step]:10.4f}" for of in losses.values()))
    last = max(1, count // 4)
    end = {name: sum(of[-last:]) / last for name, of in losses.items()}
    fallen, passed = known[0] - end["float32"], True
    for name, accepted in ACCEPTED.items():
        if name in end:
            off = abs(end[name] - end["float32"])
            right = off <= accepted * fallen  # NaN is not
            passed &= right
            print(
                f"{name:7} ends at {end[name]:.4f}, float32 at {end['float32']:.4f} after {known[0]:.4f}:"
                f" off by {off / fallen:.2%} of that, accepted {accepted:.0%}  {'PASS' if right else 'FAIL'}"
            )
    return passed


def main(arguments: list[str] | None = None) -> int:
    """Trains; 1 if a loss is not that of float32."""
    parser = argparse.ArgumentParser(description="A language model that trains with scalec's linear layers.")
    told = "run on the emulator of this GPU; without it on the GPU, if there is one"
    parser.add_argument("--target", choices=TARGETS.values(), help=told)
    parser.add_argument("--only", choices=["BF16", "FP8"], help="default: both")
    for name, defaults in SIZES.items():
        parser.add_argument(f"--{name}", type=size, help="default: {} on a GPU, {} on the emulator".format(*defaults))
    given = parser.parse_args(arguments)
    emulated = os.environ.get("SCALEC_DEVICE") == "emulator"
    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() and not emulated else (0, 0)
    cuda = given.target is None and capability in TARGETS
    sizes = {s: getattr(given, s) or d[0 if cuda else 1] for s, d in SIZES.items()}
    if sizes["width"] % 128 or sizes["inner"] % 128 or sizes["width"] % sizes["heads"]:
        parser.error("width and inner are multiples of 128, and width one of heads")
    if sizes["steps"] < 2:
        parser.error("steps are 2 or more: what is compared is how far the loss falls")
    if sizes["batch"] * sizes["context"] % 16:
        parser.error("batch times context is a multiple of 16")  # rows of what is turned begin at 16 bytes
    if cuda:
        device, target, where = "cuda", TARGETS[capability], torch.cuda.get_device_name()
    else:
        device, target, where = "cpu", given.target or "sm_90a", "the emulator"
        os.environ["SCALEC_DEVICE"] = "emulator"
    print(f"{where} ({target}): {', '.join(f'{value} {name}' for name, value in sizes.items())}", flush=True)
    left_out = {"BF16": "FP8", "FP8": "BF16", None: ""}[given.only]
    ways = {name: product for name, product in products(target).items() if name != left_out}
    return 0 if compare({name: trained(product, sizes, device) for name, product in ways.items()}) else 1


if __name__ == "__main__":
    raise SystemExit(main())
