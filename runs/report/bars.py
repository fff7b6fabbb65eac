"""Charts of bars as SVG: times with intervals, shares of a whole, errors beside their limits, scores of tokens.

Each takes plain numbers and returns markup with a title and a description for screen readers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from triton_agent.runs.report.drawing import TOP, WIDTH, stroke, svg, ticks, words_at
from triton_agent.runs.report.markup import Html, tag
from triton_agent.tools.results import Interval

LABEL_AT_MOST = 34
"""Characters of a label beside its bar."""
TOKENS_A_ROW = 96
TOKENS_AT_MOST = 4096
FADES = (-0.05, -0.3, -1.0, -3.0)
"""Log-probabilities from which on a token is drawn in a stronger colour."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A time with its interval, in the chart of times."""

    label: str
    value: Interval
    own: bool
    """True for the kernels' time, False for a baseline's."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A part of a whole."""

    label: str
    value: float
    own: bool = True
    """True for the candidate's kernels, False for operators of torch."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """An error as a share of its limit."""

    label: str
    used: float
    reference: float
    """The reference's own error as a share of the same limit."""
    ok: bool


def times(bars: Sequence[Bar], unit: str = "ms") -> Html:
    """Draw median and interval of each time, on one scale from zero."""
    left, row = 250, 34
    height = TOP + row * len(bars) + 36
    high = max(bar.value.high for bar in bars) * 1.05

    def x(value: float) -> float:
        return left + value / high * (WIDTH - left - 130)

    parts: list[object] = []
    for tick in ticks(0, high):
        parts.append(stroke(x(tick), TOP - 8, x(tick), height - 34, "grid"))
        parts.append(words_at(x(tick), height - 18, f"{tick:g}", anchor="middle"))
    for index, bar in enumerate(bars):
        y, value = TOP + row * index + row / 2, bar.value
        width = max(1.0, x(value.high) - x(value.low))
        colour = "own" if bar.own else "other"
        parts += [
            words_at(left - 12, y + 4, bar.label, anchor="end"),
            stroke(x(0), y, x(value.low), y, "lead"),
            tag("rect", x=f"{x(value.low):.1f}", y=f"{y - 7:.1f}", width=f"{width:.1f}", height="14", class_=colour),
            stroke(x(value.median), y - 11, x(value.median), y + 11, "median"),
            words_at(x(value.high) + 10, y + 4, f"{value.median:.4g} {unit}"),
        ]
    parts.append(words_at(WIDTH - 20, height - 18, unit, anchor="end"))
    said = "; ".join(f"{bar.label}: {bar.value.median:.4g} {unit}" for bar in bars)
    return svg(WIDTH, height, "Times, median and confidence interval", said, parts)


def shares(parts: Sequence[Share], unit: str, title: str) -> Html:
    """Draw how a whole divides: a bar for each part, with its share."""
    left, row = 250, 26
    whole = sum(part.value for part in parts) or 1.0
    high = max(part.value for part in parts) or 1.0
    height = TOP + row * len(parts)
    drawn: list[object] = []
    for index, part in enumerate(parts):
        y, width = TOP + row * index, max(1.0, part.value / high * (WIDTH - left - 170))
        drawn += [
            words_at(left - 12, y + 13, _cut(part.label), anchor="end"),
            tag("rect", x=left, y=y, width=f"{width:.1f}", height="17", rx="2", class_="own" if part.own else "other"),
            words_at(left + width + 8, y + 13, f"{part.value / whole:.0%}, {part.value:.4g} {unit}"),
        ]
    said = "; ".join(f"{part.label}: {part.value / whole:.0%}" for part in parts)
    return svg(WIDTH, height, title, said, drawn)


def margins(items: Sequence[Margin]) -> Html:
    """Draw the share of its limit that each error uses, on a logarithmic scale; a tick marks the reference's own."""
    left, row, right = 310, 24, WIDTH - 24
    low = min((math.log10(value) for item in items for value in (item.used, item.reference) if value > 0), default=-1)
    low = max(-6.0, min(-1.0, math.floor(low)))
    high = max(0.3, *(math.log10(item.used) + 0.1 for item in items if item.used > 0), 0.3)
    height = TOP + row * len(items) + 40

    def x(value: float) -> float:
        place = low if value <= 0 else min(high, max(low, math.log10(value)))
        return left + (place - low) / (high - low) * (right - left)

    drawn: list[object] = []
    for power in range(int(low), 1):
        drawn.append(stroke(x(10.0**power), TOP - 6, x(10.0**power), height - 36, "grid" if power else "limit"))
        drawn.append(
            words_at(x(10.0**power), height - 20, "limit" if not power else f"{10.0**power:g}", anchor="middle")
        )
    for index, item in enumerate(items):
        y = TOP + row * index + row / 2
        width = max(2.0, x(item.used) - left)
        said = f"{item.label}: {item.used:.3g} of its limit; the reference itself {item.reference:.3g}"
        bar = tag(
            "rect", x=left, y=f"{y - 6:.1f}", width=f"{width:.1f}", height="12", rx="2",
            class_="own" if item.ok else "over",
        )  # fmt: skip
        mark = stroke(x(item.reference), y - 9, x(item.reference), y + 9, "median")
        drawn.append(
            tag("g", tag("title", said), words_at(left - 10, y + 4, _cut(item.label, 44), anchor="end"), bar, mark)
        )
    drawn.append(
        words_at(left, height - 4, "error as a share of what is allowed; the tick is the reference's own error")
    )
    about = f"{len(items)} errors, {sum(not item.ok for item in items)} beyond their limits"
    return svg(WIDTH, height, "Errors and their limits", about, drawn)


def token_scores(ids: Sequence[int], scores: Sequence[float]) -> Html:
    """Draw a cell for each sampled token; the less likely it was, the stronger the colour."""
    shown = min(len(ids), TOKENS_AT_MOST)
    size = (WIDTH - 8) / TOKENS_A_ROW
    cells = [
        tag(
            "rect", tag("title", f"token {place}, id {ids[place]}: {scores[place]:.3f}"),
            x=f"{4 + place % TOKENS_A_ROW * size:.1f}", y=4 + place // TOKENS_A_ROW * 12,
            width=f"{size - 0.8:.1f}", height="10",
            class_=f"t{sum(scores[place] < limit for limit in FADES)}",
        )
        for place in range(shown)
    ]  # fmt: skip
    height = 12 * math.ceil(shown / TOKENS_A_ROW) + 8
    about = f"{len(ids)} tokens; mean log-probability {sum(scores) / max(1, len(scores)):.3f}"
    return svg(WIDTH, height, "Log-probabilities of the sampled tokens", about, cells)


def _cut(label: str, most: int = LABEL_AT_MOST) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"
