"""A policy that assembles a model from its parts: first with all parts, then without each of them.

It keeps nothing between calls: the sets that were tried are read from the plans of the attempts, the parts and their
sources belong to the run. Without timings the largest set that passes is the answer, and parts are removed only to
find one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

from triton_agent.memory.observation import Observation, Tried
from triton_agent.memory.records import Completion
from triton_agent.policy.answer import write_answer
from triton_agent.runs.parts.assembly import Placed, assemble
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.ranking import Standing
from triton_agent.tools.results import Status

NAME, VERSION = "parts", "1"
_PLAN = re.compile(r"^parts in place: (.+)$", re.MULTILINE)

Names = frozenset[str]


class Assembler:
    """Proposes sets of parts, each as a complete file."""

    name = NAME

    def __init__(self, spec: ProblemSpec, placed: Sequence[Placed]) -> None:
        """`placed`: the parts, the most expensive first."""
        self._spec = spec
        self._placed = list(placed)
        self.version = hashlib.sha256("\0".join([VERSION, *(item.source for item in placed)]).encode()).hexdigest()[:12]

    async def propose(self, observation: Observation, n: int = 1) -> list[Completion]:
        """Propose the next sets."""
        tried = {names: known for item in observation.tried for names, known in _read(item)}
        names = [item.part.name for item in self._placed]
        fresh: list[Names] = []
        for wanted in next_sets(names, tried):
            if len(fresh) < n and wanted not in fresh:
                fresh.append(wanted)
        return [self._completion(wanted) for wanted in fresh]

    async def propose_many(self, observations: Sequence[Observation]) -> list[Completion | None]:
        found = [await self.propose(observation) for observation in observations]
        return [answers[0] if answers else None for answers in found]

    async def close(self) -> None:
        """Nothing to close."""

    def _completion(self, wanted: Names) -> Completion:
        placed = [item for item in self._placed if item.part.name in wanted]
        plan = f"parts in place: {', '.join(item.part.name for item in placed)}"
        text = write_answer(plan, assemble(self._spec, placed))
        return Completion(text=text, policy=self.name, policy_version=self.version)


def next_sets(names: Sequence[str], tried: dict[Names, Standing]) -> Iterator[Names]:
    """Yield sets to try next, in order; nothing if there is no more to learn."""
    everything = frozenset(names)
    if not everything:
        return
    base = best_set(tried)
    if everything not in tried:
        yield everything
    if base is not None and tried[base].speedup is None:
        return  # nothing was timed, and this is the largest set that passes
    for name in reversed(names):  # the least expensive part is removed first
        smaller = (base or everything) - {name}
        if name in (base or everything) and smaller and smaller not in tried:
            yield smaller
    if base is None:
        yield from (frozenset({name}) for name in names if frozenset({name}) not in tried)


def best_set(tried: dict[Names, Standing]) -> Names | None:
    """Return the set with the best standing; None if nothing passed."""
    best: Names | None = None
    for names, known in tried.items():
        if known.surpasses(tried[best] if best else None):
            best = names
    return best


def _read(item: Tried) -> list[tuple[Names, Standing]]:
    names = names_in(item.plan)
    return [(names, Standing(passed=item.status is Status.PASSED, speedup=item.speedup))] if names else []


def names_in(plan: str) -> Names:
    """Return the parts named in a plan of this policy."""
    found = _PLAN.search(plan)
    return frozenset(name.strip() for name in found[1].split(",")) if found else frozenset()
