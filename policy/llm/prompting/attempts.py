"""The parts of a prompt about this run: times, a table of attempts, a pair to compare, the best ones, a failure, the
parent.

Not covered: choosing the attempts, which the observation does, and the ranks of forms (`forms.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from triton_agent.memory.observation import Observation, Role, Tried
from triton_agent.policy.answer import without_notes
from triton_agent.policy.llm.prompting import facts
from triton_agent.policy.llm.prompting.facts import bullets, short_key
from triton_agent.policy.llm.prompting.fitting import PromptPart
from triton_agent.policy.llm.prompting.forms import Rank, form, growing, part, source_part
from triton_agent.policy.llm.prompting.quoting import fenced
from triton_agent.policy.llm.prompting.wording import worded
from triton_agent.tools.ranking import Standing
from triton_agent.tools.results import Status

MESSAGE_CHARACTERS = 1_600
SHORT_MESSAGE_CHARACTERS = 300
TRIED_SHOWN = (4, 12, 32)


def attempt_parts(observation: Observation) -> Iterator[PromptPart]:
    """Yield weaker attempts before better ones, and the parent last."""
    best = _best_first(observation)
    yield from _times(observation, _fastest(observation, best))
    yield from _tried([item for item in observation.of(Role.TRIED) if _is_judged(item)])
    yield from _contrast(observation, best, _slower(observation, best))
    for place, item in reversed(list(enumerate(best))):
        yield from _incumbent(item, place)
    yield from _last_error(observation)
    yield from _parent(observation.parent)


def _tried(items: Sequence[Tried]) -> Iterator[PromptPart]:
    """List attempts in short, the latest last; the oldest are left out first."""
    if items:
        lines = [facts.in_short(item) for item in reversed(items)]
        ranks = (Rank.TRIED_FEW, Rank.TRIED, Rank.TRIED_ALL)
        yield part("tried", *growing(lines, TRIED_SHOWN, ranks, "tried", "tried", backwards=True))


def _is_judged(item: Tried) -> bool:
    """Return True for a verdict on a kernel; False for an answer without a file or an attempt that could not be
    measured.
    """
    return item.status is not None and item.status is not Status.NO_ANSWER


def _times(observation: Observation, best: Tried | None) -> Iterator[PromptPart]:
    lines = facts.standing_facts(observation, best)
    if lines:
        yield part("times", form(Rank.HARDWARE, lambda: worded("standing", facts=bullets(lines))))


def _best_first(observation: Observation) -> list[Tried]:
    return sorted(observation.of(Role.INCUMBENT), key=_standing, reverse=True)


def _standing(item: Tried) -> Standing:
    """Return the standing, as far as it follows from the fields of the observation."""
    diagnosis = item.diagnosis
    return Standing(
        passed=item.status is Status.PASSED,
        speedup=item.speedup,
        left_to_torch=len(diagnosis.torch_operators) if diagnosis else 0,
        traffic_ratio=diagnosis.traffic_ratio if diagnosis else None,
        launches=sum(launch.launches for launch in diagnosis.launches) if diagnosis else 0,
    )


def _incumbent(item: Tried, place: int) -> Iterator[PromptPart]:
    key, later = short_key(item.attempt), 2 * place
    first = place == 0
    told = form(
        Rank.BEST_FACTS if first else Rank.OTHERS_FACTS + later,
        lambda: worded("incumbent", key=key, facts=bullets(facts.attempt_facts(item))),
    )
    yield part(f"facts of {key}", told)
    later_ranks = (Rank.OTHERS_KERNELS + later, Rank.OTHERS + later)
    yield source_part(
        f"attempt {key}",
        without_notes(item.source),
        (Rank.BEST_KERNELS, Rank.BEST) if first else later_ranks,
        f"source of {key}",
    )


def _slower(observation: Observation, best: Sequence[Tried]) -> Tried | None:
    """Return the attempt to compare with the best: the chosen contrast, or else the last incumbent that is surely
    slower.
    """
    chosen = next(iter(observation.of(Role.CONTRAST)), None)
    if chosen is not None:
        return chosen
    fastest = _fastest(observation, best)
    if fastest is None or fastest.speedup is None:
        return None
    slow = [item for item in best if item.speedup and item.speedup.high < fastest.speedup.low]
    return slow[-1] if slow else None


def _fastest(observation: Observation, best: Sequence[Tried]) -> Tried | None:
    parent = [item for item in observation.of(Role.PARENT) if item.status is Status.PASSED]
    return max((*parent, *best), key=_standing, default=None)


def _contrast(observation: Observation, best: Sequence[Tried], slower: Tried | None) -> Iterator[PromptPart]:
    """Show a pair of attempts and their scores; their sources are separate parts."""
    faster = _fastest(observation, best)
    if slower is None or faster is None or faster is slower:
        return
    fast, slow = (f"attempt {short_key(item.attempt)} ({facts.verdict(item)})" for item in (faster, slower))
    chosen = slower.role is Role.CONTRAST
    shown = bullets(facts.attempt_facts(slower)) if chosen else ""
    told = f"Attempt {short_key(slower.attempt)}, the slower one:\n\n{shown}" if chosen else ""
    words = functools.partial(worded, "contrast", fast=fast, slow=slow, facts=told)
    yield part("contrast", form(Rank.CONTRAST_FACTS, lambda: words().rstrip()))
    if chosen:
        key, ranks = short_key(slower.attempt), (Rank.CONTRAST_KERNELS, Rank.CONTRAST)
        yield source_part(f"attempt {key}, the slower one", without_notes(slower.source), ranks, f"source of {key}")


def _last_error(observation: Observation) -> Iterator[PromptPart]:
    """Show the latest failure with its message at length, unless it is the parent."""
    failed = [item for item in observation.tried if item.status is not None and item.status is not Status.PASSED]
    last = max(reversed(failed), key=lambda item: item.turn, default=None)
    if last is None or last.role is Role.PARENT or not last.message:
        return
    heading = worded("last_error", key=short_key(last.attempt), facts=bullets([f"verdict: {facts.verdict(last)}"]))
    told = form(Rank.LAST_ERROR, lambda: f"{heading}\n\n{_message(last, MESSAGE_CHARACTERS)}")
    yield part("latest failure", told)


def _parent(item: Tried | None) -> Iterator[PromptPart]:
    if item is None:
        return
    key, short = short_key(item.attempt), [f"verdict: {facts.verdict(item)}"]
    forms = (
        form(0, lambda: _headed(item, short, SHORT_MESSAGE_CHARACTERS)),
        form(Rank.PARENT_FACTS, lambda: told(item)),
    )
    yield PromptPart(name="parent", forms=forms, needed=True)
    three = (Rank.PARENT_SIGNATURES, Rank.PARENT_KERNELS, Rank.PARENT)
    yield source_part(f"attempt {key}", without_notes(item.source), three, "source of the parent")


def told(item: Tried) -> str:
    """State the verdict on the attempt to build on, its measurements and its error, without its source."""
    return _headed(item, facts.attempt_facts(item), MESSAGE_CHARACTERS)


def _headed(item: Tried, lines: list[str], most: int) -> str:
    repair = item.status is not Status.PASSED
    template = "parent_repair" if repair else "parent_improve"
    heading = worded(template, key=short_key(item.attempt), facts=bullets(lines))
    return f"{heading}\n\n{_message(item, most)}" if repair and item.message else heading


def _message(item: Tried, most: int) -> str:
    return worded("message", message=fenced(item.message, most=most))
