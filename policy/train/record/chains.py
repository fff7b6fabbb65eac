"""Determines how attempts follow each other: which turn builds on which, and where a search decided that.

Considers all attempts of a run, whoever wrote them, even if they cannot be trained on.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An attempt as part of a chain."""

    key: str
    run: str
    number: int
    """Number of the turn within the run."""
    parent: str | None
    author: str
    program: str = ""
    """Hash of its candidate, see `novelty.program`; empty without one, or if it could not be measured."""
    progress: float = 0.0
    """Progress that the recipe gives to its verdict; 0 without a verdict."""


def searched_runs(links: Iterable[Link]) -> frozenset[str]:
    """Return the runs in which a search cut, extended or restarted chains.

    In a run without search, every answer builds on one answer of the previous turn, no two on the same one, up to the
    last turn. In other runs an answer was followed because of its result, so its later turns are no estimate for the
    answers that were not followed.
    """
    runs: dict[str, dict[str, Link]] = defaultdict(dict)
    for link in links:
        runs[link.run][link.key] = link
    return frozenset(run for run, own in runs.items() if not _are_plain_chains(own))


def _are_plain_chains(own: Mapping[str, Link]) -> bool:
    last = max(link.number for link in own.values())
    children = Counter(link.parent for link in own.values())
    for link in own.values():
        before = own.get(link.parent or "")
        if link.number and (before is None or before.number != link.number - 1):
            return False
        if children[link.key] != (link.number < last) or (not link.number and link.parent):
            return False
    return True


def own_parents(links: Iterable[Link]) -> dict[str, str | None]:
    """Return the same author's previous turn on the path to each attempt; None if there is none.

    In a chain of several authors, each is credited with its own later turns only.
    """
    by_key = {link.key: link for link in links}
    found: dict[str, str | None] = {}
    for link in by_key.values():
        above = _parent(link, by_key)
        while above is not None and above.author != link.author:
            above = _parent(above, by_key)
        found[link.key] = above.key if above else None
    return found


def _parent(link: Link, by_key: Mapping[str, Link]) -> Link | None:
    """Return the parent within the run; the attempt that a run was forked from is not part of the run."""
    parent = by_key.get(link.parent or "")
    if parent is None or parent.run != link.run:
        return None
    if parent.number >= link.number:
        raise ValueError(f"{link.key} builds on {parent.key}, which is not an earlier turn")
    return parent


def progress_before(links: Iterable[Link]) -> dict[str, float]:
    """Return the best progress on the path to each attempt, whoever's attempts these are."""
    by_key = {link.key: link for link in links}
    found: dict[str, float] = {}
    for link in sorted(by_key.values(), key=lambda link: link.number):
        above = _parent(link, by_key)
        found[link.key] = max(above.progress, found[above.key]) if above else 0.0
    return found


def twins(links: Iterable[Link]) -> frozenset[str]:
    """Return the attempts whose program was already an answer in an earlier turn of the run."""
    links = list(links)
    first: dict[tuple[str, str], int] = {}
    for link in links:
        place = (link.run, link.program)
        first[place] = min(link.number, first.get(place, link.number))
    return frozenset(link.key for link in links if link.program and first[link.run, link.program] < link.number)
