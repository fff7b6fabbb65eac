"""Elements of charts: a frame with title and description, lines, words, axes with round numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from triton_agent.runs.report.markup import Html, join, tag

WIDTH, HEIGHT = 720, 280
LEFT, RIGHT, TOP, BOTTOM = 72, 28, 24, 44


def svg(width: float, height: float, title: str, description: str, parts: Sequence[object]) -> Html:
    box = f"0 0 {width:g} {height:g}"
    inner = join([tag("title", title), tag("desc", description), *parts])
    drawing = tag(
        "svg", inner, viewBox=box, width=f"{width:g}", height=f"{height:g}", role="img", aria_label=title,
        class_="fits" if width == WIDTH else None,
    )  # fmt: skip
    return tag("div", drawing, class_="wide drawing", tabindex="0", role="region", aria_label=title)


def words_at(x: float, y: float, words: object, *, anchor: str = "start", class_: str | None = None) -> Html:
    return tag("text", words, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=class_)


def stroke(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return tag("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=class_)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return round numbers within a range, for an axis."""
    span = (high - low) or 1.0
    step = 10.0 ** math.floor(math.log10(span / wanted))
    step *= next((factor for factor in (1, 2, 5) if span / (step * factor) <= wanted), 10)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 12) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def grid_row(y: float, label: str, strong: bool) -> Html:
    line = stroke(LEFT, y, WIDTH - RIGHT, y, "one" if strong else "grid")
    return join([line, words_at(LEFT - 8, y + 4, label, anchor="end")])
