"""Candidate problems of a dataset, and the split of accepted ones by composition.

A candidate is a pure function of seed and number. The split hashes the pairs of steps that feed each other: a problem
with a held-out pair is held out, so no training problem has one. In addition, a set of operators belongs to the split
that had it first, and problems of the other split with the same set are left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from triton_agent.policy.train.data.compose import DIFFICULTIES, compose
from triton_agent.policy.train.data.outline import Known, outlines_of
from triton_agent.policy.train.data.probe import Refused, probe

TRAIN, HELD_OUT = "train", "held_out"
SPLITS = (TRAIN, HELD_OUT)
WORDS_IN_NAME = 3
CONTAMINATED = "like a problem of --against"
SURPLUS = 1.5
"""Factor by which more pairs are held out than the share requires, so that held-out problems are found early enough."""

Row = dict[str, Any]
"""One problem as a row of the dataset, with lists in place of mappings so that all rows have one type."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DataSettings:
    """The settings that determine a dataset's problems."""

    count: int
    seed: int
    difficulties: tuple[str, ...]
    held_out: float
    """Share of problems whose compositions are held out."""

    def difficulty_of(self, number: int) -> str:
        return self.difficulties[number % len(self.difficulties)]

    @property
    def quotas(self) -> dict[str, int]:
        held_out = round(self.count * self.held_out)
        return {TRAIN: self.count - held_out, HELD_OUT: held_out}

    @property
    def pair_rate(self) -> float:
        """Share of pairs that are held out, chosen so that about the wanted share of problems has such a pair."""
        pairs = statistics.mean(n - 1 for name in self.difficulties for n in DIFFICULTIES[name].steps)
        return 1 - float((1 - min(SURPLUS * self.held_out, 0.9)) ** (1 / max(pairs, 1.0)))


def is_held_out(pair: str, settings: DataSettings) -> bool:
    drawn = int.from_bytes(hashlib.sha256(f"{settings.seed}/{pair}".encode()).digest()[:6])
    return drawn < settings.pair_rate * 2**48


def candidate(settings: DataSettings, number: int, known: Known) -> Row:
    """Compose and probe the problem of this number; raise Refused if it is not worth solving."""
    difficulty = settings.difficulty_of(number)
    blueprint = compose(settings.seed, difficulty, number // len(settings.difficulties))
    if len(blueprint.steps) not in DIFFICULTIES[difficulty].steps:
        raise Refused("no further step fits")
    found, text = probe(blueprint), blueprint.text()
    if known.like(outlines_of(text)):
        raise Refused(CONTAMINATED)
    steps = [step.word for step in blueprint.steps]
    pairs = sorted("+".join(pair) for pair in blueprint.pairs())
    return {
        "name": f"{difficulty}_{number:07d}_{'_'.join(steps[:WORDS_IN_NAME])}",
        "split": HELD_OUT if any(is_held_out(pair, settings) for pair in pairs) else TRAIN,
        "difficulty": difficulty,
        "title": " ".join(re.findall(r'"""(.*?)"""', text, re.DOTALL)[0].split()),
        "steps": steps,
        "pairs": pairs,
        "operators": [name for name, count in found.operators.items() for _ in range(count)],
        "kinds": [name for name, count in found.kinds.items() for _ in range(count)],
        "dtype": blueprint.dtype,
        "input_shapes": [list(shape) for shape in found.shapes],
        "output_shapes": [list(shape) for shape in found.output_shapes],
        "parameters": found.parameters,
        "fingerprint": found.fingerprint,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "source": text,
    }


class Accepted:
    """The accepted problems, and the reasons why others were left out."""

    def __init__(self, settings: DataSettings) -> None:
        self.settings = settings
        self.rows: list[Row] = []
        self.refused: Counter[str] = Counter()
        self.tried = 0
        self._left = dict(settings.quotas)
        self._fingerprints: set[str] = set()
        self._combinations: dict[tuple[str, ...], str] = {}

    @property
    def full(self) -> bool:
        return not any(self._left.values())

    def offer(self, outcome: Row | str) -> None:
        """Accept a candidate, or count why it is left out. Nothing is counted once the dataset is full."""
        if self.full:
            return
        self.tried += 1
        reason = outcome if isinstance(outcome, str) else self._why_not(outcome)
        if reason:
            self.refused[reason] += 1
            return
        assert not isinstance(outcome, str)
        self._fingerprints.add(outcome["fingerprint"])
        self._combinations[combination(outcome)] = outcome["split"]
        self._left[outcome["split"]] -= 1
        self.rows.append(outcome)

    def _why_not(self, row: Row) -> str:
        if row["fingerprint"] in self._fingerprints:
            return "the graph of another problem"
        if self._combinations.get(combination(row), row["split"]) != row["split"]:
            return "operators of a problem of the other split"
        return "" if self._left[row["split"]] else f"{row['split']} is complete"


def combination(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the set of operators of a problem."""
    return tuple(sorted(set(row["operators"])))


def seen_compositions(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of held-out problems whose composition occurs in training. There must be none."""
    trained = [row for row in rows if row["split"] == TRAIN]
    pairs = {pair for row in trained for pair in row["pairs"]}
    combinations = {combination(row) for row in trained}
    fingerprints = {row["fingerprint"] for row in trained}
    return [
        row["name"]
        for row in rows
        if row["split"] == HELD_OUT
        if not set(row["pairs"]) - pairs or combination(row) in combinations or row["fingerprint"] in fingerprints
    ]
