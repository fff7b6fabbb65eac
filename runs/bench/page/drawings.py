"""Draws a benchmark as SVG: every problem's speed-up, the share faster than any factor, nearness to the floor.

Each function takes plain numbers and returns markup with a title and a description for screen readers. Colours come
from the page's style; no meaning rests on colour alone.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from triton_agent.runs.report.drawing import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    grid_row,
    stroke,
    svg,
    ticks,
    words_at,
)
from triton_agent.runs.report.markup import Html, tag
from triton_agent.tools.results import Interval

STYLE = """
svg .series { fill: none; stroke: var(--good); stroke-width: 2; } svg .series-1 { stroke-dasharray: 7 4; }
svg .series-2 { stroke-dasharray: 2 3; } svg .plain { fill: var(--other); } svg .bar { fill: var(--own); }
"""
FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
BINS = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One problem in a chart."""

    label: str
    href: str
    value: Interval | None
    """None for unsolved, which is drawn as a cross at 1."""
    marked: bool = False


def ladder(points: Sequence[Point], title: str, unit: str) -> Html:
    """Draw problems from the fastest to the slowest, then the unsolved ones, on a logarithmic scale."""
    known = sorted((p for p in points if p.value), key=lambda p: p.value.median if p.value else 0, reverse=True)
    ordered = [*known, *(point for point in points if point.value is None)]
    lows, highs = zip(*((p.value.low, p.value.high) for p in known if p.value), (1.0, 1.0))
    y = _logarithmic(min(0.9, *lows) / 1.1, max(1.1, *highs) * 1.1)

    def x(place: float) -> float:
        return LEFT + (place + 0.5) / max(1, len(ordered)) * (WIDTH - LEFT - RIGHT)

    parts: list[object] = [grid_row(y(factor), f"{factor:g}x", factor == 1) for factor in _factors(y)]
    parts.append(words_at(LEFT - 52, 14, unit))
    parts += [_mark(point, x(place), y) for place, point in enumerate(ordered)]
    parts.append(words_at((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "problems, the fastest first", anchor="middle"))
    above = sum(point.value is not None and point.value.median > 1 for point in known)
    about = f"{len(known)} problems with a figure, {above} above 1, and {len(ordered) - len(known)} unsolved"
    return svg(WIDTH, HEIGHT, title, about, parts)


def _mark(point: Point, x: float, y: Callable[[float], float]) -> Html:
    if point.value is None:
        size, middle = 2.5, y(1.0)
        strokes = (
            f"M{x - size:.1f} {middle - size:.1f}L{x + size:.1f} {middle + size:.1f}"
            f"M{x - size:.1f} {middle + size:.1f}L{x + size:.1f} {middle - size:.1f}"
        )
        return tag(
            "a", tag("title", f"{point.label}: unsolved"), tag("path", d=strokes, class_="failed"), href=point.href
        )
    value = point.value
    said = f"{point.label}: {value.median:.2f}x [{value.low:.2f}, {value.high:.2f}]"
    halo = tag("circle", cx=f"{x:.1f}", cy=f"{y(value.median):.1f}", r="6", class_="halo") if point.marked else Html("")
    dot = tag("circle", cx=f"{x:.1f}", cy=f"{y(value.median):.1f}", r="3", class_="passed")
    return tag(
        "a", tag("title", said), halo, stroke(x, y(value.low), x, y(value.high), "whisker"), dot, href=point.href
    )


def _logarithmic(low: float, high: float) -> Callable[[float], float]:
    """Return a function from a factor to its height, limited to the frame."""
    bottom, span = math.log(low), math.log(high / low)

    def height(factor: float) -> float:
        share = (math.log(max(factor, low)) - bottom) / span
        return HEIGHT - BOTTOM - min(share, 1.0) * (HEIGHT - TOP - BOTTOM)

    return height


def _factors(y: Callable[[float], float]) -> list[float]:
    """Return round factors within the frame, without those that would overlap; 1 is always among them."""
    inside = [factor for factor in FACTORS if TOP < y(factor) < HEIGHT - BOTTOM]
    kept = [1.0]
    for factor in sorted(inside, key=lambda factor: abs(math.log(factor))):
        if all(abs(y(factor) - y(other)) > 16 for other in kept):
            kept.append(factor)
    return sorted(kept)


def fast_curves(series: Mapping[str, Sequence[float | None]]) -> Html:
    """Draw for every factor p the share of all problems that are solved and faster than p, a line for each baseline."""
    seen = [value for values in series.values() for value in values if value is not None]
    low, high = min(0.5, *seen, 1.0) * 0.95, max(2.0, *seen, 1.0) * 1.05
    across = _logarithmic(low, high)  # the same scale for the horizontal axis
    along = (WIDTH - LEFT - RIGHT) / (HEIGHT - TOP - BOTTOM)

    def x(factor: float) -> float:
        return LEFT + (HEIGHT - BOTTOM - across(factor)) * along

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts: list[object] = [grid_row(y(share), f"{share:.0%}", False) for share in ticks(0, 1)]
    parts.append(stroke(x(1), TOP, x(1), HEIGHT - BOTTOM, "one"))
    parts += [
        words_at(x(factor), HEIGHT - BOTTOM + 18, f"{factor:g}x", anchor="middle")
        for factor in FACTORS
        if low <= factor <= high
    ]
    for place, (name, values) in enumerate(series.items()):
        parts.append(tag("polyline", points=_stairs(values, x, y, low, high), class_=f"series series-{place}"))
        parts.append(stroke(WIDTH - 230, 20 + 18 * place, WIDTH - 190, 20 + 18 * place, f"series series-{place}"))
        parts.append(words_at(WIDTH - 182, 24 + 18 * place, name))
    parts.append(words_at(LEFT - 52, 14, "share of all problems faster than"))
    said = "; ".join(f"{name}: {_share_above(values, 1):.0%} faster than 1x" for name, values in series.items())
    return svg(WIDTH, HEIGHT, "Share of problems faster than a factor", said, parts)


def _share_above(values: Sequence[float | None], factor: float) -> float:
    return sum(value is not None and value > factor for value in values) / max(1, len(values))


def _stairs(
    values: Sequence[float | None],
    x: Callable[[float], float],
    y: Callable[[float], float],
    low: float,
    high: float,
) -> str:
    """Return a step line: the share falls by one problem at each speed-up."""
    known = sorted(value for value in values if value is not None)
    points = [(low, _share_above(values, low))]
    for value in known:
        points += [(value, points[-1][1]), (value, _share_above(values, value))]
    points.append((high, points[-1][1]))
    return " ".join(f"{x(factor):.1f},{y(share):.1f}" for factor, share in points)


def histogram(shares: Sequence[float], title: str, unit: str) -> Html:
    """Draw how many problems lie in each tenth; values above 1 are in the last one."""
    edges = [index / BINS for index in range(1, BINS)]
    counts = [0] * BINS
    for share in shares:
        counts[bisect.bisect_right(edges, share)] += 1
    top = max(counts)
    width = (WIDTH - LEFT - RIGHT) / BINS

    def y(count: float) -> float:
        return HEIGHT - BOTTOM - count / top * (HEIGHT - TOP - BOTTOM - 10)

    parts: list[object] = [
        grid_row(y(count), f"{count:g}", False) for count in ticks(0, top) if float(count).is_integer()
    ]
    for index, count in enumerate(counts):
        left = LEFT + index * width
        words = f"{index / BINS:.0%} to {(index + 1) / BINS:.0%}: {count}"
        shape = tag(
            "rect", x=f"{left + 3:.1f}", y=f"{y(count):.1f}", width=f"{width - 6:.1f}",
            height=f"{HEIGHT - BOTTOM - y(count):.1f}", class_="bar",
        )  # fmt: skip
        parts.append(tag("g", tag("title", words), shape))
    parts += [
        words_at(LEFT + index * width, HEIGHT - BOTTOM + 18, f"{index / BINS:.0%}", anchor="middle")
        for index in range(0, BINS + 1, 2)
    ]
    parts.append(words_at(LEFT - 52, 14, unit))
    said = f"{len(shares)} problems, {sum(share >= 0.5 for share in shares)} of them at half or more"
    return svg(WIDTH, HEIGHT, title, said, parts)
