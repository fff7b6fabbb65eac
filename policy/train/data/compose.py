"""Composes a problem: draws sizes and a dtype, and adds steps one after another.

A problem is a pure function of seed, difficulty and number. Its shapes are consistent; `probe.py` decides if it is
worth solving.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

from triton_agent.policy.train.data import blocks, pointwise, rows
from triton_agent.policy.train.data.blueprint import Blueprint, Size, Value
from triton_agent.policy.train.data.pointwise import Move


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difficulty:
    """Steps, settings and dtypes from which the problems of a difficulty are drawn."""

    steps: tuple[int, ...]
    """Numbers of steps, of which one is drawn."""
    settings: tuple[str, ...]
    dtypes: tuple[str, ...]
    groups: tuple[tuple[float, Sequence[Move]], ...]
    """Groups of steps with their weights."""
    ends: tuple[tuple[float, Sequence[Move]], ...]
    """Groups of last steps, after which none follows, with their probabilities."""
    branches: float = 0.0
    """Probability that a step combines its value with an earlier one."""
    two_outputs: float = 0.0


_SIZES: Mapping[str, Mapping[str, tuple[tuple[int, ...], int | None]]] = {
    "vector": {"SIZE": ((1 << 18, 1 << 20, 1 << 21, 1_000_000, 1 << 22), 3000)},
    "rows": {
        "ROWS": ((512, 1024, 2048, 4096, 8192, 6000), 7),
        "WIDTH": ((128, 256, 512, 768, 1000, 1024, 1536, 2048), None),
    },
    "sequence": {
        "BATCH": ((2, 4, 8, 16), 2),
        "STEPS": ((128, 256, 512, 1024), 5),
        "WIDTH": ((64, 128, 256, 384, 512, 768), None),
    },
    "scores": {
        "BATCH": ((2, 4, 8), 3),
        "HEADS": ((4, 8, 12), 2),
        "QUERIES": ((64, 128, 256), 5),
        "KEYS": ((64, 128, 200, 256), None),
    },
    "image": {
        "BATCH": ((4, 8, 16), 2),
        "CHANNELS": ((16, 32, 64, 96), None),
        "HEIGHT": ((16, 28, 32, 56, 64), 10),
        "WIDTH": ((16, 28, 32, 56, 64), 12),
    },
}
"""Axes of each setting: the sizes of which one is drawn, and the size while probing (None for the drawn one).

The last axis keeps its size while probing, because the effect of a softmax or a mean depends on it.
"""
_STREAMS = {
    "vector": ("x", "signal"),
    "rows": ("x", "hidden_state"),
    "sequence": ("x", "tokens"),
    "scores": ("scores", "x"),
    "image": ("x", "image"),
}

_PARAMETERS: Sequence[Move] = (rows.bias, rows.weight, rows.affine, rows.prelu)
_OF_ROWS: Sequence[Move] = (rows.factor_of_row, rows.offset_of_row)
_NORMS: Sequence[Move] = (rows.layer_norm, rows.layer_norm, rows.weighted_rms_norm, *rows.CENTRE)
_MASKS: Sequence[Move] = (pointwise.masked, pointwise.selected, pointwise.signed_branch)
_SUMS: Sequence[Move] = (*rows.REDUCTIONS, rows.dot_product, rows.entropy)
_ORDER: Sequence[Move] = (rows.running_sum, rows.flipped, rows.rolled, rows.glu)

DIFFICULTIES: Mapping[str, Difficulty] = {
    "tiny": Difficulty(
        steps=(1, 2, 2, 3, 3, 3),
        settings=("rows", "rows", "rows", "vector"),
        dtypes=("float32",),
        groups=(
            (6, pointwise.ACTIVATIONS),
            (2, pointwise.AFFINE),
            (2, pointwise.BINARY),
            (1.5, rows.CENTRE),
            (1, rows.SOFTMAX),
            (0.5, (rows.bias, rows.weight)),
        ),
        ends=((0.25, rows.REDUCTIONS),),
    ),
    "easy": Difficulty(
        steps=(2, 3, 3, 4),
        settings=("rows", "rows", "sequence", "vector", "scores"),
        dtypes=("float32", "float32", "float16", "bfloat16"),
        groups=(
            (5, pointwise.ACTIVATIONS),
            (2, pointwise.AFFINE),
            (2, pointwise.BINARY),
            (2, _PARAMETERS),
            (1, _OF_ROWS),
            (2, _NORMS),
            (1, rows.SOFTMAX),
            (1, _MASKS),
        ),
        ends=((0.25, _SUMS), (0.05, blocks.LOSSES)),
    ),
    "medium": Difficulty(
        steps=(4, 5, 5, 6, 7),
        settings=("rows", "sequence", "scores", "image", "image"),
        dtypes=("float32", "float32", "float16", "bfloat16"),
        groups=(
            (4, pointwise.ACTIVATIONS),
            (1, pointwise.AFFINE),
            (2, pointwise.BINARY),
            (2, _PARAMETERS),
            (1, _OF_ROWS),
            (2, _NORMS),
            (1, rows.SOFTMAX),
            (1, _MASKS),
            (1, _ORDER),
            (2, [move for move in blocks.IMAGES if move is not blocks.convolution]),
        ),
        ends=((0.2, _SUMS), (0.1, blocks.LOSSES)),
        branches=0.15,
        two_outputs=0.1,
    ),
    "hard": Difficulty(
        steps=(6, 7, 8, 9, 10, 12),
        settings=("rows", "sequence", "sequence", "image", "image"),
        dtypes=("float32", "float32", "float16", "bfloat16"),
        groups=(
            (3, pointwise.ACTIVATIONS),
            (1, pointwise.AFFINE),
            (1.5, pointwise.BINARY),
            (2, _PARAMETERS),
            (1, _OF_ROWS),
            (2, _NORMS),
            (1, rows.SOFTMAX),
            (1, _MASKS),
            (1, _ORDER),
            (3, blocks.IMAGES),
            (3, blocks.PRODUCTS),
        ),
        ends=((0.2, _SUMS), (0.1, blocks.LOSSES)),
        branches=0.2,
        two_outputs=0.2,
    ),
}
TRIES = 12
"""Most steps that are tried for one position; most of them fit."""


def compose(seed: int, difficulty: str, number: int) -> Blueprint:
    """Compose the problem of this number."""
    chance = random.Random(f"{seed}/{difficulty}/{number}")
    rules = DIFFICULTIES[difficulty]
    setting = chance.choice(rules.settings)
    sizes = {}
    for name, (choices, small) in _SIZES[setting].items():
        given = chance.choice(choices)
        sizes[name] = Size(given=given, small=small or given)
    blueprint = Blueprint(chance, sizes, chance.choice(rules.dtypes))
    x = blueprint.input(_STREAMS[setting], tuple(sizes), positive=chance.random() < 0.1)
    line = [x]
    steps = chance.choice(rules.steps)
    end = _drawn_end(chance, rules)
    while len(blueprint.steps) < steps - (end is not None) or not blueprint.steps:
        following = _next(blueprint, rules, line)
        if following is None:
            break
        line.append(following)
    last = _first_that_fits(blueprint, line[-1], end) if end is not None else None
    line += [last] if last is not None else []
    blueprint.outputs = [line[-1].name]
    if len(line) > 3 and chance.random() < rules.two_outputs:
        blueprint.outputs.insert(0, chance.choice(line[1:-1]).name)
    return blueprint


def _drawn_end(chance: random.Random, rules: Difficulty) -> Sequence[Move] | None:
    drawn = chance.random()
    for share, moves in rules.ends:
        if drawn < share:
            return moves
        drawn -= share
    return None


def _next(blueprint: Blueprint, rules: Difficulty, line: Sequence[Value]) -> Value | None:
    """Add one step after the last value."""
    if len(line) > 2 and blueprint.chance.random() < rules.branches:
        combined = pointwise.with_earlier(blueprint, line[-1], blueprint.chance.choice(line[:-1]))
        if combined is not None:
            return combined
    weights, groups = zip(*rules.groups)
    for moves in blueprint.chance.choices(groups, weights, k=TRIES):
        made = _first_that_fits(blueprint, line[-1], moves)
        if made is not None:
            return made
    return None


def _first_that_fits(blueprint: Blueprint, x: Value, moves: Sequence[Move]) -> Value | None:
    """Add the first of these steps that fits and whose kind is not used yet."""
    there = {step.word for step in blueprint.steps}
    for move in blueprint.chance.sample(list(moves), len(moves)):
        if getattr(move, "word", None) in there:
            continue
        before = blueprint.mark()
        made = move(blueprint, x)
        if made is not None and made.word not in there:
            return made
        blueprint.back_to(before)
    return None
