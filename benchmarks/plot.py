"""Draws a result of the bench as SVG, or writes it as a Markdown table.

    python benchmarks/plot.py benchmarks/results/DATE-GPU-SUITE.json -o benchmarks/results/DATE-GPU-SUITE.svg
    python benchmarks/plot.py RESULT.json --table

How many times as fast as the baseline (the first contender after scalec, such as cuBLASLt's block-scaled kernel) each
contender is, shape by shape, in groups of one M. Drawing needs matplotlib: the extra `bench`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, log
from pathlib import Path
from typing import Any

import click

OURS = "scalec"
MODES = ("burst", "sustained")
STYLES = (("#0b62a4", "o"), ("#d1731b", "s"), ("#6a8f3c", "x"), ("#8c5fa8", "^"), ("#777777", "v"))
"""Colour and marker of scalec and then of each contender; those of published ratios come last and are hollow."""


@dataclass(frozen=True)
class Shape:
    """One shape of a result.

    Attributes:
        m, n, k: its sizes.
        label: what has it.
        us: by mode and contender, the median in microseconds.
        tflops: by mode, scalec's TFLOP/s.
        published: by source, ratios over the baseline that the run did not measure.
    """

    m: int
    n: int
    k: int
    label: str
    us: Mapping[str, Mapping[str, float]]
    tflops: Mapping[str, float]
    published: Mapping[str, float]

    def over(self, baseline: str, name: str, mode: str) -> float | None:
        """How many times as fast `name` is as the baseline; None where one of them was not measured."""
        us = self.us[mode]
        return us[baseline] / us[name] if baseline in us and name in us else None


@dataclass(frozen=True)
class Result:
    """A result file, its shapes by M, then n, then k.

    Attributes:
        title: expression, GPU, date and commit.
        baseline: the contender that the others are compared with.
        names: of scalec and the contenders but the baseline.
        modes: which of MODES were measured.
    """

    title: str
    baseline: str
    names: tuple[str, ...]
    modes: tuple[str, ...]
    shapes: tuple[Shape, ...]


def read(text: str) -> Result:
    """A result file's content.

    Raises:
        click.ClickException: not a result of the bench, or one in which scalec has no contender.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        shapes = [_shape(s) for s in data["shapes"]]
        title = f"{data['expression']}, {data['gpu']}, {data['date'][:10]}, commit {data['commit']}"
        names = list(dict.fromkeys(name for s in data["shapes"] for name in s["contenders"]))
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"not a result that `scalec bench -o` wrote: {error!r}") from None
    others = [name for name in names if name != OURS]
    if not others:
        raise click.ClickException("a result with no contender: nothing to compare scalec with")
    modes = tuple(mode for mode in MODES if all(s.us[mode] for s in shapes))
    shapes.sort(key=lambda s: (s.m, s.n, s.k))
    return Result(title, others[0], (OURS, *others[1:]), modes, tuple(shapes))


def _shape(data: Mapping[str, Any]) -> Shape:
    contenders = data["contenders"]
    held = {name: c["sustained"] for name, c in contenders.items() if "sustained" in c}
    us = {mode: {n: c["median_us"] for n, c in of.items()} for mode, of in zip(MODES, (contenders, held), strict=True)}
    tflops = {mode: of[OURS]["tflops"] for mode, of in zip(MODES, (contenders, held), strict=True) if OURS in of}
    sizes = data["dims"]
    return Shape(sizes["m"], sizes["n"], sizes["k"], data.get("of", ""), us, tflops, data.get("published", {}))


def ratios(result: Result, name: str, mode: str) -> list[float | None]:
    """For each shape, how many times as fast `name` is as the baseline."""
    return [shape.over(result.baseline, name, mode) for shape in result.shapes]


def table(result: Result) -> str:
    """A Markdown table: scalec's time and rate, and each one's speed over the baseline; then the geometric means.

    A cell has burst and sustained figures, where both were measured, apart by a slash.
    """
    sources = list(dict.fromkeys(source for s in result.shapes for source in s.published))
    head = ["m, n, k", "of", "µs", "TFLOP/s", *(short(name) for name in result.names), *sources]
    lines = [_line(head), "|" + "---|" * len(head)]
    for s in result.shapes:
        times = _pair(f"{s.us[mode][OURS]:.1f}" for mode in result.modes)
        rates = _pair(f"{s.tflops[mode]:.0f}" for mode in result.modes)
        speeds = [_pair(_ratio(s.over(result.baseline, name, mode)) for mode in result.modes) for name in result.names]
        published = [_ratio(s.published.get(source)) for source in sources]
        lines.append(_line([f"{s.m}, {s.n}, {s.k}", s.label, times, rates, *speeds, *published]))
    means = [_pair(_ratio(mean(result, name, mode)) for mode in result.modes) for name in result.names]
    lines.append(_line(["geometric mean", "", "", "", *means, *[""] * len(sources)]))
    about = f"Speed over {result.baseline}, {' / '.join(result.modes)}; {result.title}"
    return f"{about}\n\n" + "\n".join(lines) + "\n"


def short(name: str) -> str:
    """A contender's name without torch's function."""
    return name.removeprefix("torch._scaled_mm ")


def mean(result: Result, name: str, mode: str) -> float | None:
    """The geometric mean of a contender's speed over the baseline; None where a shape has not both."""
    known = [r for r in ratios(result, name, mode) if r is not None]
    return exp(sum(map(log, known)) / len(known)) if len(known) == len(result.shapes) else None


def _pair(cells: Iterable[str]) -> str:
    found = list(cells)
    return " / ".join(found) if any(found) else ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def draw(result: Result, path: str) -> None:
    """Writes the figure: one panel a mode, a column a shape, a marker a contender.

    Raises:
        click.ClickException: no matplotlib.
    """
    try:
        import matplotlib
    except ImportError:
        raise click.ClickException("drawing needs matplotlib: pip install 'scalec[bench]'") from None
    matplotlib.use("svg")
    matplotlib.rcParams |= {
        "svg.fonttype": "none",
        "svg.hashsalt": "scalec",
        "font.size": 8,
    }  # text; the same each time
    from matplotlib import pyplot

    count = len(result.shapes)
    figure, panels = pyplot.subplots(
        len(result.modes), 1, sharex=True, squeeze=False, layout="constrained",
        figsize=(max(5.0, 1.5 + 0.21 * count), 1.3 + 2.3 * len(result.modes)),
    )  # fmt: skip
    for panel, mode in zip(panels[:, 0], result.modes, strict=True):
        _panel(panel, result, mode)
    last = panels[-1, 0]
    last.set_xticks(range(count), [f"{s.n}×{s.k}" for s in result.shapes], rotation=90, fontsize=6)
    last.set_xlabel("n×k, in groups of one m")
    panels[0, 0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=5, frameon=False, fontsize=7)
    figure.suptitle(result.title, fontsize=8)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def _panel(panel: Any, result: Result, mode: str) -> None:
    panel.axhline(1, color="#999999", linewidth=0.8, label=f"{result.baseline} = 1")
    for index, name in enumerate(result.names):
        colour, marker = STYLES[index % len(STYLES)]
        points = [(x, r) for x, r in enumerate(ratios(result, name, mode)) if r is not None]
        panel.plot(*zip(*points, strict=True), marker, color=colour, markersize=4, label=short(name))
    sources = dict.fromkeys(source for s in result.shapes for source in s.published) if mode == MODES[0] else ()
    for source in sources:  # measured after pauses, so beside no sustained figures
        points = [(x, s.published[source]) for x, s in enumerate(result.shapes) if source in s.published]
        panel.plot(*zip(*points, strict=True), "D", color="#444444", markersize=3.5, fillstyle="none", label=source)
    start = 0
    for m, group in groupby(result.shapes, key=lambda s: s.m):
        end = start + len(list(group))
        if start:
            panel.axvline(start - 0.5, color="#dddddd", linewidth=0.6)
        panel.text(
            (start + end - 1) / 2, 1.01, f"m={m}", transform=panel.get_xaxis_transform(), ha="center", fontsize=6
        )
        start = end
    panel.set_ylim(bottom=0)
    panel.set_xlim(-0.7, len(result.shapes) - 0.3)
    panel.grid(axis="y", linewidth=0.3)
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_ylabel(f"speed, {mode}")


@click.command(help=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "output", metavar="PATH", help="Write the SVG there.")
@click.option("--table", "as_table", is_flag=True, help="Print a Markdown table.")
def main(result: Path, output: str | None, as_table: bool) -> None:
    if not output and not as_table:
        raise click.UsageError("nothing to do: give -o PATH or --table")
    found = read(result.read_text(encoding="utf-8"))
    if as_table:
        click.echo(table(found), nl=False)
    if output:
        draw(found, output)


if __name__ == "__main__":
    main()
