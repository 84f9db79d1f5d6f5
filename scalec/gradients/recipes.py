"""What the operands of gradients are quantised to, a row each.

Sources: DeepSeek-V3 technical report, section 3.3.2 (tiles of 1x128 of activations and of their gradients, blocks of
128x128 of weights; activations that were 1x128 in the forward pass are 128x1 in the backward one); OCP MX 1.0 and
NVIDIA's MXFP8 recipe of TransformerEngine (blocks of 32 along what is summed, both layouts); NVIDIA, Pretraining Large
Language Models with NVFP4, 2025, section 4 (blocks of 1x16 of activations and gradients, of 16x16 of weights, Hadamard
transforms of both operands of the weights' gradient, gradients rounded by chance).
"""

from __future__ import annotations

from dataclasses import dataclass

from scalec.formats import Granularity


@dataclass(frozen=True)
class Recipe:
    """What a step's operands are, along the index that is summed.

    Attributes:
        name: what `quantize=` says.
        gradient: element type and scales of gradients.
        operand: of the other operand, where it has no scales that are of use along this index: it is quantised again,
            of what it holds. Scales that are of use, as those of 128x128, stay.
        both: whether an operand that is quantised already is given with blocks along its other index too, quantised
            once, of what it was made of; else it is quantised again, of what it holds.
        turned: the layout of scales of what is turned on that way, "" for that of the granularity. The sum is over what
            were rows then, whose number is seldom known: rows of scales begin anywhere, and threads would load them one
            by one, where a column of a block's scales is one copy.
        second: whether scales have a second level, one f32 for all, which the program that quantises finds.
        hadamard: of the gradient of a product's right operand, elements along what is summed that both operands have
            transformed together before they are quantised, 0: none. Where the sum is over a range, its bounds are
            multiples of that, or nothing is transformed.
        stochastic: whether gradients are rounded by chance.
    """

    name: str
    gradient: tuple[str, Granularity]
    operand: tuple[str, Granularity]
    both: bool = False
    turned: str = ""
    second: bool = False
    hadamard: int = 0
    stochastic: bool = False


_ROW, _MX, _SQUARE = Granularity((1, 128)), Granularity((1, 32), "ue8m0"), Granularity((128, 128))
_NV = Granularity((1, 16), "ue4m3")

RECIPES: dict[str, Recipe] = {
    r.name: r
    for r in (
        Recipe("deepseek_v3", ("e4m3", _ROW), ("e4m3", _ROW), turned="col"),
        Recipe("deepseek_v3_2d", ("e4m3", _SQUARE), ("e4m3", _ROW), turned="col"),
        Recipe("mxfp8", ("e4m3", _MX), ("e4m3", _MX), both=True),
        Recipe("mxfp8_e5m2", ("e5m2", _MX), ("e4m3", _MX), both=True),
        Recipe("nvfp4", ("e2m1", _NV), ("e2m1", _NV), both=True, second=True, hadamard=16, stochastic=True),
    )
}
