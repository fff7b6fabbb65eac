"""Charts of a run as SVG: speed-up over the turns and over sizes, the roofline, the tree of attempts.

Each takes plain numbers and returns markup with a title and a description for screen readers. Colours come from the
page's style; no information is given by colour alone.
"""

from __future__ import annotations

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
from triton_agent.runs.report.markup import Html, join, tag
from triton_agent.tools.results import Interval


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One attempt in a chart."""

    name: str
    href: str
    turn: int
    kind: str
    """`passed`, `failed` or `unmeasured`."""
    status: str
    best: bool = False
    parents: tuple[str, ...] = ()
    speedup: Interval | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """A horizontal limit of the roofline."""

    name: str
    flops_per_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePoint:
    """A kernel in the roofline."""

    name: str
    flops_per_byte: float
    flops_per_s: float
    best: bool


def speed_over_turns(marks: Sequence[Mark]) -> Html:
    """Draw every measured attempt with its interval, and the best so far as a step line."""
    timed = [(mark, mark.speedup) for mark in marks if mark.speedup is not None]
    turns = max(mark.turn for mark in marks)
    high = max(1.1, *(speedup.high for _, speedup in timed)) * 1.08
    low = min(0.9, *(speedup.low for _, speedup in timed)) * 0.92

    def x(turn: float) -> float:
        return LEFT + (turn + 0.5) / (turns + 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts: list[object] = [grid_row(y(value), f"{value:g}x", value == 1) for value in sorted({1.0, *ticks(low, high)})]
    every = max(1, (turns + 1) // 12)
    parts += [words_at(x(turn), HEIGHT - BOTTOM + 18, turn, anchor="middle") for turn in range(0, turns + 1, every)]
    parts.append(words_at((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "turn", anchor="middle"))
    parts.append(words_at(LEFT - 52, 14, "times as fast as the reference, device time"))
    parts.append(_stair(timed, x, y, turns))
    aside = _asides(marks)
    for mark, speedup in timed:
        at = x(mark.turn + aside[mark.name])
        whisker = stroke(at, y(speedup.low), at, y(speedup.high), "whisker")
        said = tag("title", f"{mark.name}: {speedup.median:.2f}x [{speedup.low:.2f}, {speedup.high:.2f}]")
        dot = _node(at, y(speedup.median), mark, 5)
        parts.append(tag("a", said, whisker, dot, href=mark.href))
    top = max(timed, key=lambda item: item[1].median)
    fastest = f"the fastest is {top[0].name}, {top[1].median:.2f} times"
    about = f"{len(timed)} measured attempts in {turns + 1} turns; {fastest}"
    return svg(WIDTH, HEIGHT, "Speed-up over the turns", about, parts)


def progress(series: Mapping[str, Sequence[Mark]]) -> Html:
    """Draw the best so far of several runs over their turns, a line for each."""
    timed = {name: [(mark, mark.speedup) for mark in marks if mark.speedup] for name, marks in series.items()}
    every = [item for items in timed.values() for item in items]
    turns = max(mark.turn for mark, _ in every)
    high = max(1.1, *(speedup.median for _, speedup in every)) * 1.08
    low = min(0.9, *(speedup.median for _, speedup in every)) * 0.92

    def x(turn: float) -> float:
        return LEFT + (turn + 0.5) / (turns + 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts: list[object] = [grid_row(y(value), f"{value:g}x", value == 1) for value in sorted({1.0, *ticks(low, high)})]
    step = max(1, (turns + 1) // 12)
    parts += [words_at(x(turn), HEIGHT - BOTTOM + 18, turn, anchor="middle") for turn in range(0, turns + 1, step)]
    parts.append(words_at((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "turn", anchor="middle"))
    for place, (name, items) in enumerate(timed.items()):
        parts.append(_stair(items, x, y, turns, f"series series-{place}"))
        parts.append(stroke(WIDTH - 250, 12 + 16 * place, WIDTH - 214, 12 + 16 * place, f"series series-{place}"))
        parts.append(words_at(WIDTH - 206, 16 + 16 * place, name))
    said = "; ".join(f"{name}: {max(value.median for _, value in items):.2f}" for name, items in timed.items())
    return svg(WIDTH, HEIGHT, "The best so far over the turns", said, parts)


def curve(
    name: str,
    points: Sequence[tuple[float, float]],
    *,
    over: str = "step",
    link_of: Callable[[float], str | None] | None = None,
) -> Html:
    """Draw one figure over the steps of a training; with `link_of` every point leads somewhere."""
    first, last = points[0][0], points[-1][0]
    values = [value for _, value in points]
    low, high = min(values), max(values)
    margin = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    low, high, height = low - margin, high + margin, 200

    def x(step: float) -> float:
        return LEFT + (step - first) / ((last - first) or 1.0) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return height - BOTTOM - (value - low) / (high - low) * (height - TOP - 10 - BOTTOM)

    parts: list[object] = [grid_row(y(value), f"{value:g}", False) for value in ticks(low, high, 4)]
    parts += [words_at(x(step), height - BOTTOM + 18, f"{step:g}", anchor="middle") for step in ticks(first, last, 8)]
    places = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in points)
    parts.append(tag("polyline", points=places, class_="series series-0"))
    for step, value in points if link_of else points[-1:]:
        said = tag("title", f"{over} {step:g}: {value:.5g}")
        dot = tag("circle", said, cx=f"{x(step):.1f}", cy=f"{y(value):.1f}", r="3")
        place = link_of(step) if link_of else None
        parts.append(tag("a", dot, href=place) if place else dot)
    parts.append(words_at(WIDTH - RIGHT, height - 6, over, anchor="end"))
    about = f"from {values[0]:.4g} at {over} {first:g} to {values[-1]:.4g} at {over} {last:g}"
    return svg(WIDTH, height, name, about, parts)


def speed_over_size(name: str, lines: Mapping[str, Sequence[tuple[int, Interval]]]) -> Html:
    """Draw speed-ups with their intervals over a size, on a logarithmic axis; `lines` are clocks by name."""
    spots = [spot for line in lines.values() for spot in line]
    high = max(1.1, *(speedup.high for _, speedup in spots)) * 1.08
    low = min(0.9, *(speedup.low for _, speedup in spots)) * 0.92
    least, largest = (math.log(find(size for size, _ in spots)) for find in (min, max))

    def x(size: float) -> float:
        return LEFT + 20 + (math.log(size) - least) / ((largest - least) or 1.0) * (WIDTH - LEFT - RIGHT - 40)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts: list[object] = [grid_row(y(value), f"{value:g}x", value == 1) for value in sorted({1.0, *ticks(low, high)})]
    parts += [words_at(x(size), HEIGHT - BOTTOM + 18, size, anchor="middle") for size in {size for size, _ in spots}]
    parts.append(words_at((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, name, anchor="middle"))
    parts.append(words_at(LEFT - 52, 14, "times as fast as the reference"))
    for number, (clock, line) in enumerate(lines.items()):
        at = [(x(size) + 6 * number, speedup) for size, speedup in sorted(line, key=lambda spot: spot[0])]
        places = " ".join(f"{left:.1f},{y(speedup.median):.1f}" for left, speedup in at)
        parts.append(tag("polyline", points=places, class_="stair"))
        for left, speedup in at:
            said = tag("title", f"{clock}: {speedup.median:.2f}x [{speedup.low:.2f}, {speedup.high:.2f}]")
            whisker = stroke(left, y(speedup.low), left, y(speedup.high), "whisker")
            dot = tag("circle", cx=f"{left:.1f}", cy=f"{y(speedup.median):.1f}", r="4", class_="passed")
            parts.append(tag("g", said, whisker, dot))
        parts.append(words_at(at[-1][0] - 6, y(at[-1][1].median) - 10, clock, anchor="end"))
    shown = "; ".join(
        f"{clock} at {size}: {speedup.median:.2f}" for clock, line in lines.items() for size, speedup in line
    )
    return svg(WIDTH, HEIGHT, f"Speed-up over {name}", shown, parts)


def _asides(marks: Sequence[Mark]) -> dict[str, float]:
    """Return horizontal offsets by name: attempts of one turn stand side by side."""
    turns: dict[int, list[str]] = {}
    for mark in marks:
        turns.setdefault(mark.turn, []).append(mark.name)
    return {
        name: (place - (len(together) - 1) / 2) * 0.7 / max(4, len(together))
        for together in turns.values()
        for place, name in enumerate(together)
    }


def _stair(
    timed: Sequence[tuple[Mark, Interval]],
    x: Callable[[float], float],
    y: Callable[[float], float],
    turns: int,
    class_: str = "stair",
) -> Html:
    best, points = 0.0, list[str]()
    for turn in range(turns + 1):
        now = max([best, *(speedup.median for mark, speedup in timed if mark.turn == turn and mark.kind == "passed")])
        if now > best and best:
            points.append(f"{x(turn):.1f},{y(best):.1f}")
        best = now
        if best:
            points.append(f"{x(turn):.1f},{y(best):.1f}")
    return tag("polyline", points=" ".join(points), class_=class_) if len(points) > 1 else Html("")


def _node(x: float, y: float, mark: Mark, radius: float) -> Html:
    """Draw a disc for passed, a cross for failed, a ring for not measured; the best has a halo."""
    halo = tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{radius + 4:g}", class_="halo") if mark.best else None
    if mark.kind == "failed":
        r = radius * 0.8
        strokes = f"M{x - r:.1f} {y - r:.1f}L{x + r:.1f} {y + r:.1f}M{x - r:.1f} {y + r:.1f}L{x + r:.1f} {y - r:.1f}"
        return join([halo, tag("path", d=strokes, class_="failed")])
    return join([halo, tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{radius:g}", class_=mark.kind)])


def roofline(spots: Sequence[RooflinePoint], bytes_per_s: float | None, roofs: Sequence[Roof]) -> Html:
    """Draw attained arithmetic rate over arithmetic intensity, both logarithmic, under the measured roofs."""
    rates = [spot.flops_per_s for spot in spots] + [roof.flops_per_s for roof in roofs]
    places = [spot.flops_per_byte for spot in spots]
    if bytes_per_s is not None:
        places += [roof.flops_per_s / bytes_per_s for roof in roofs]
        rates += [spot.flops_per_byte * bytes_per_s for spot in spots]
    x_low, x_high = math.floor(math.log10(min(places)) - 0.5), math.ceil(math.log10(max(places)) + 0.5)
    y_low, y_high = math.floor(math.log10(min(rates)) - 0.5), math.ceil(math.log10(max(rates)) + 0.3)

    def x(value: float) -> float:
        return LEFT + (math.log10(value) - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)

    parts: list[object] = [grid_row(y(10.0**n), _short(10.0**n), False) for n in range(y_low, y_high + 1)]
    parts.append(words_at(LEFT, 14, "operations per second"))
    parts += [
        words_at(x(10.0**n), HEIGHT - BOTTOM + 18, f"{10.0**n:g}", anchor="middle") for n in range(x_low, x_high + 1)
    ]
    parts.append(
        words_at((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "operations per byte of the least traffic", anchor="middle")
    )
    parts += _roofs(bytes_per_s, roofs, (10.0**x_low, 10.0**x_high), (10.0**y_low, 10.0**y_high), x, y)
    for spot in spots:
        kind = Mark(name=spot.name, href="", turn=0, kind="passed", status="", best=spot.best)
        said = tag("title", f"{spot.name}: {_short(spot.flops_per_s)} operations per second")
        parts.append(tag("g", said, _node(x(spot.flops_per_byte), y(spot.flops_per_s), kind, 5)))
    about = f"{len(spots)} kernels at {places[0]:.3g} operations per byte"
    return svg(WIDTH, HEIGHT, "Roofline", about, parts)


CROWDED = 22
"""Roofs that are closer to one above them are named beside it."""


def _roofs(
    bytes_per_s: float | None,
    roofs: Sequence[Roof],
    places: tuple[float, float],
    rates: tuple[float, float],
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> list[object]:
    parts: list[object] = []
    named: list[tuple[float, list[str]]] = []
    for roof in sorted(roofs, key=lambda roof: roof.flops_per_s, reverse=True):
        start, height = max(places[0], roof.flops_per_s / bytes_per_s if bytes_per_s else 0.0), y(roof.flops_per_s)
        parts.append(stroke(x(start), height, x(places[1]), height, "roof"))
        if not named or height - named[-1][0] > CROWDED:
            named.append((height, []))
        named[-1][1].append(f"{roof.name}: {_short(roof.flops_per_s)}")
    parts += [words_at(x(places[1]) - 6, height - 5, ", ".join(names), anchor="end") for height, names in named]
    if bytes_per_s:
        low, high = max(places[0], rates[0] / bytes_per_s), min(places[1], rates[1] / bytes_per_s)
        high = min(high, max((roof.flops_per_s for roof in roofs), default=rates[1]) / bytes_per_s)
        parts.append(stroke(x(low), y(low * bytes_per_s), x(high), y(high * bytes_per_s), "roof"))
        middle = math.sqrt(low * high)
        words = f"memory: {bytes_per_s / 1e9:,.0f} GB/s"
        parts.append(words_at(x(middle) + 12, y(middle * bytes_per_s) + 14, words))
    return parts


def _short(rate: float) -> str:
    """Format a rate: `51.2 T`."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if rate >= factor:
            return f"{rate / factor:.3g} {prefix}"
    return f"{rate:.3g}"


def tree(marks: Sequence[Mark]) -> Html:
    """Draw attempts in a column for each turn, joined to their parents."""
    rows: dict[int, list[Mark]] = {}
    for mark in marks:
        rows.setdefault(mark.turn, []).append(mark)
    column, row, margin = 92, 46, 46
    place = {
        mark.name: (margin + column * index, 40 + row * line)
        for index, turn in enumerate(sorted(rows))
        for line, mark in enumerate(rows[turn])
    }
    width = 2 * margin + column * (len(rows) - 1) + 20
    height = 40 + row * max(len(items) for items in rows.values())
    parts: list[object] = [
        words_at(margin + column * i, 14, f"turn {turn}", anchor="middle") for i, turn in enumerate(sorted(rows))
    ]
    for mark in marks:
        for parent in mark.parents:
            if parent in place:
                (x1, y1), (x2, y2) = place[parent], place[mark.name]
                bend = (x1 + x2) / 2
                path = f"M{x1 + 9} {y1}C{bend:.1f} {y1} {bend:.1f} {y2} {x2 - 9} {y2}"
                parts.append(tag("path", d=path, class_="edge"))
    for mark in marks:
        x, y = place[mark.name]
        label = words_at(x, y + 22, mark.name, anchor="middle", class_="strong" if mark.best else None)
        said = tag("title", f"{mark.name}: {mark.status}{' (best)' if mark.best else ''}")
        parts.append(tag("a", said, _node(x, y, mark, 7), label, href=mark.href))
    about = "; ".join(f"{mark.name} {mark.status}" for mark in marks[:60])
    return svg(max(width, 240), height, "Tree of attempts", about, parts)
