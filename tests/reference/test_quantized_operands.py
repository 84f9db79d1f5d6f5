"""What it costs to quantise an operand anew: the table of docs/language.md, of fewer samples."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from scalec.formats import Granularity
from scalec.reference import quantize, quantize_format, round_to

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
ROWS = re.findall(r"^\| `(\w+)`(?: by `1x(\d+)`)? \| (its own|`1x128(?::ue8m0)?`) \| ([\d. |]*) \|$", PAGE, re.M)
SAMPLES = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "Laplace": lambda rng, shape: rng.laplace(size=shape),
    "Student's t, 4 degrees": lambda rng, shape: rng.standard_t(4, shape),
}


def stored(x: np.ndarray, name: str, block: str) -> np.ndarray:
    """The values that a tensor of samples has, without a scale of the whole."""
    if name == "bf16":
        return round_to(x, "bf16")
    if name == "i4":
        return quantize(x, "i4", [Granularity((1, int(block)), "bf16")]).dequantized()
    q = quantize_format(x, name, "rhs")
    return q.dequantized() / (float(q.scales[1].ravel()[0]) if len(q.scales) > 1 else 1.0)


def test_the_table_is_there() -> None:
    assert len(ROWS) == 9
    assert "| " + " | ".join(SAMPLES) + " |" in PAGE


@pytest.mark.parametrize(("name", "block", "new", "figures"), ROWS)
def test_errors(name: str, block: str, new: str, figures: str) -> None:
    for told, (which, draw) in zip(figures.split(" | "), SAMPLES.items(), strict=True):
        x = draw(np.random.default_rng(0), (128, 4096))
        of, made = x, stored(x, name, block)
        if new == "its own":
            of = x / (np.abs(x).max() / (448 * 6))
        else:
            scale = Granularity((1, 128), "ue8m0" if "ue8m0" in new else "f32")
            of, made = made, quantize(made, "e4m3", [scale]).dequantized()
        error = np.sqrt(np.sum((made - of) ** 2) / np.sum(of**2))
        assert abs(error - float(told)) < 0.0015, f"{which}: {error:.4f}"
