"""What the operands of gradients are quantised to, a row each.

Sources: DeepSeek-V3 technical report, section 3.3.2 (tiles of 1x128 of activations and of their gradients, blocks of
128x128 of weights; activations that were 1x128 in the forward pass are 128x1 in the backward one); OCP MX 1.0 and
NVIDIA's MXFP8 recipe of TransformerEngine (blocks of 32 along what is summed, both layouts).
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
    """

    name: str
    gradient: tuple[str, Granularity]
    operand: tuple[str, Granularity]
    both: bool = False
    turned: str = ""


_ROW, _MX, _SQUARE = Granularity((1, 128)), Granularity((1, 32), "ue8m0"), Granularity((128, 128))

RECIPES: dict[str, Recipe] = {
    r.name: r
    for r in (
        Recipe("deepseek_v3", ("e4m3", _ROW), ("e4m3", _ROW), turned="col"),
        Recipe("deepseek_v3_2d", ("e4m3", _SQUARE), ("e4m3", _ROW), turned="col"),
        Recipe("mxfp8", ("e4m3", _MX), ("e4m3", _MX), both=True),
        Recipe("mxfp8_e5m2", ("e5m2", _MX), ("e4m3", _MX), both=True),
    )
}
