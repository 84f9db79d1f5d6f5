"""Times over M as an SVG: both axes logarithmic, a line for each of several things measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 200, 40, 50
COLOURS = ("#1b6ac9", "#d1495b", "#3a8f5c", "#8a5bb5", "#c98a1b", "#4a4a4a")
DASHED = "roofline"
"""Lines whose name begins so are dashed: nobody measured them."""


def chart(title: str, lines: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str) -> str:
    """The SVG of lines, each of points (x, y), all above 0; `x` and `y` are what the axes are called.

    Raises:
        ValueError: no point, or one that has no logarithm.
    """
    points = [p for line in lines.values() for p in line]
    if not points or min(min(p) for p in points) <= 0:
        raise ValueError("a chart needs points above 0")
    across, up = _Axis.over([p[0] for p in points], LEFT, WIDTH - RIGHT), _Axis.over(
        [p[1] for p in points], HEIGHT - BOTTOM, TOP
    )  # fmt: skip
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, TOP - 16, title, size=14),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x, anchor="middle"),
        f'<g transform="translate(18 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">{_text(0, 0, y, anchor="middle")}</g>',
    ]
    for value in across.ticks():
        at = across.at(value)
        made += [
            _line(at, TOP, at, HEIGHT - BOTTOM, "#dddddd"),
            _text(at, HEIGHT - BOTTOM + 18, f"{value:g}", "middle"),
        ]
    for value in up.ticks():
        at = up.at(value)
        made += [_line(LEFT, at, WIDTH - RIGHT, at, "#dddddd"), _text(LEFT - 8, at + 4, f"{value:g}", "end")]
    for i, (name, line) in enumerate(lines.items()):
        colour, dash = COLOURS[i % len(COLOURS)], ' stroke-dasharray="5 4"' if name.startswith(DASHED) else ""
        where = " ".join(f"{across.at(a):.1f},{up.at(b):.1f}" for a, b in sorted(line))
        made.append(f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        if not dash:
            made += [f'<circle cx="{across.at(a):.1f}" cy="{up.at(b):.1f}" r="2.5" fill="{colour}"/>' for a, b in line]
        row = TOP + 10 + 20 * i
        made += [
            f'<line x1="{WIDTH - RIGHT + 12}" y1="{row}" x2="{WIDTH - RIGHT + 36}" y2="{row}" stroke="{colour}" '
            f'stroke-width="2"{dash}/>',
            _text(WIDTH - RIGHT + 42, row + 4, name),
        ]
    return "\n".join([*made, "</svg>\n"])


class _Axis:
    """One logarithmic axis: values from `low` to `high` between two places."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self.start, self.end = low, high, start, end

    @staticmethod
    def over(values: Sequence[float], start: float, end: float) -> _Axis:
        low, high = min(values), max(values)
        return _Axis(low / 1.15, high * 1.15, start, end)

    def at(self, value: float) -> float:
        share = (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """1, 2 and 5 of every power of ten within; powers alone where these are many."""
        powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        steps = (1, 2, 5) if len(powers) <= 4 else (1,)
        return [s * 10.0**p for p in powers for s in steps if self.low <= s * 10.0**p <= self.high]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
