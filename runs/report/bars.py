"""Charts of bars as SVG: times with intervals, shares of a whole, errors beside their limits, scores of tokens.

Each takes plain numbers and returns markup with a title and a description for screen readers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from triton_agent.runs.report.drawing import TOP, WIDTH, stroke, svg, ticks, words_at
from triton_agent.runs.report.markup import Html, tag
from triton_agent.runs.report.words import ms_said
from triton_agent.tools.results import Interval

LABEL_AT_MOST = 64
"""Characters of a label above its bar."""
ROW, EDGE, FIGURES = 44, 8, 130
"""Height of a bar with its label above it; the margin; the room for the figures to the right of bars."""
LINE, LABELS = 30, 166
"""Height of a bar with its label to the left of it; the room for that label."""
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


def times(groups: Mapping[str, Sequence[Bar]], unit: str = "ms") -> Html:
    """Draw median and interval of each time, on one scale from zero; bars of one clock stand together."""
    everything = [bar for bars in groups.values() for bar in bars]
    height = LINE * (len(groups) + len(everything)) + 26
    high = max(bar.value.high for bar in everything) * 1.02

    def x(value: float) -> float:
        return LABELS + value / high * (WIDTH - LABELS - FIGURES)

    parts: list[object] = []
    for tick in ticks(0, high):
        parts.append(stroke(x(tick), 8, x(tick), height - 26, "grid"))
        parts.append(words_at(x(tick), height - 6, f"{tick:g}" if tick else f"0 {unit}", anchor="middle"))
    y = 0
    for group, bars in groups.items():
        parts.append(words_at(EDGE, y + 20, group, class_="strong"))
        for bar in bars:
            y, value, colour = y + LINE, bar.value, "own" if bar.own else "other"
            said = f"{group}, {bar.label}: {value.median:.4g} [{value.low:.4g}, {value.high:.4g}] {unit}"
            parts += [
                words_at(LABELS - 10, y + 20, bar.label, anchor="end"),
                stroke(x(0), y + 15, x(value.low), y + 15, f"thick {colour}"),
                tag(
                    "rect", tag("title", said), x=f"{x(value.low):.1f}", y=y + 8,
                    width=f"{max(1.0, x(value.high) - x(value.low)):.1f}", height="14", class_=colour,
                ),
                stroke(x(value.median), y + 5, x(value.median), y + 25, "median"),
                words_at(
                    x(value.high) + 10, y + 20, f"{ms_said(value.median)} {unit}", class_="strong" if bar.own else None
                ),
            ]  # fmt: skip
        y += LINE
    said = "; ".join(
        f"{bar.label}, {group}: {bar.value.median:.4g} {unit}" for group, bars in groups.items() for bar in bars
    )
    return svg(WIDTH, height, "Times, median and confidence interval", said, parts)


def shares(parts: Sequence[Share], unit: str, title: str) -> Html:
    """Draw how a whole divides: a bar for each part, with its share."""
    whole = sum(part.value for part in parts) or 1.0
    high = max(part.value for part in parts) or 1.0
    drawn: list[object] = []
    for index, part in enumerate(parts):
        y, width = 4 + ROW * index, max(1.0, part.value / high * (WIDTH - EDGE - FIGURES - 60))
        colour = "own" if part.own else "other"
        drawn += [
            words_at(EDGE, y + 13, _cut(part.label)),
            tag("rect", x=EDGE, y=y + 19, width=f"{width:.1f}", height="14", class_=colour),
            words_at(EDGE + width + 10, y + 32, f"{part.value / whole:.0%}, {part.value:.4g} {unit}"),
        ]
    said = "; ".join(f"{part.label}: {part.value / whole:.0%}" for part in parts)
    return svg(WIDTH, 8 + ROW * len(parts), title, said, drawn)


def margins(items: Sequence[Margin]) -> Html:
    """Draw the share of its limit that each error uses, on a logarithmic scale; a tick marks the reference's own."""
    known = [math.log10(value) for item in items for value in (item.used, item.reference) if value > 0]
    low = max(-6, min(-1, math.floor(min(known, default=-1))))
    high = min(3.0, max(0.2, *(math.log10(item.used) + 0.1 for item in items if item.used > 0), 0.2))
    height = TOP + ROW * len(items) + 50

    def x(value: float) -> float:
        place = low if value <= 0 else min(high, max(low, math.log10(value)))
        return EDGE + (place - low) / (high - low) * (WIDTH - 2 * EDGE)

    drawn: list[object] = []
    for power in range(low, 1):
        drawn.append(stroke(x(10.0**power), TOP - 6, x(10.0**power), height - 48, "grid" if power else "limit"))
        name = f"{10.0**power:g}" if power else "limit"
        drawn.append(words_at(x(10.0**power), height - 30, name, anchor="start" if power == low else "middle"))
    for index, item in enumerate(items):
        y, width = TOP + ROW * index, max(2.0, x(item.used) - EDGE)
        said = f"{item.label}: {item.used:.3g} of its limit; the reference itself {item.reference:.3g}"
        colour = "own" if item.ok else "over"
        bar = tag("rect", x=EDGE, y=y + 19, width=f"{width:.1f}", height="12", class_=colour)
        mark = stroke(x(item.reference), y + 15, x(item.reference), y + 35, "median")
        drawn.append(tag("g", tag("title", said), words_at(EDGE, y + 13, _cut(item.label)), bar, mark))
    drawn.append(words_at(EDGE, height - 8, "error over what is allowed; tick: the reference's own error"))
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


def _cut(label: str) -> str:
    return label if len(label) <= LABEL_AT_MOST else f"{label[: LABEL_AT_MOST - 1]}…"
