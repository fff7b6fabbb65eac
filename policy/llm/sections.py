"""The parts of a prompt and the forms they may take, in the order in which they are read.

What stays the same over a run comes first (rules, problem, hardware, what was recalled), so that servers find it in
their caches; then what was tried, the weaker before the better, the attempt to set out from last. Which part may be how
long, and what gives way first, is said by the ranks in one place.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence

from triton_agent.memory.observation import Lesson, Observation, Role, Tried
from triton_agent.policy.answer import without_notes
from triton_agent.policy.llm import facts
from triton_agent.policy.llm.condensing import kernels_only, signatures_only
from triton_agent.policy.llm.facts import bullets, short_key
from triton_agent.policy.llm.fitting import Form, Part
from triton_agent.policy.llm.quoting import fenced, inline, on_a_line
from triton_agent.policy.llm.wording import worded
from triton_agent.tools.graph import OperatorGraph
from triton_agent.tools.results import Status
from triton_agent.tools.screen import ALLOWED_MODULES

SOURCE_CHARACTERS = 40_000
"""Of one file, at full length; files for kernels are a tenth of it."""
GRAPH_CHARACTERS = 12_000
MESSAGE_CHARACTERS = 1_600
SHORT_MESSAGE_CHARACTERS = 300
TRIED_SHOWN = (4, 12, 32)
LESSONS_SHOWN = (3, 8, 24)


class Rank:
    """What is served first; the needed parts at their shortest come before all of these."""

    PARENT_FACTS = 10
    RULES = 20
    HARDWARE = 25
    PARENT_SIGNATURES = 30
    TASK_SHORT = 40
    PARENT_KERNELS = 50
    TASK = 60
    PARENT = 70
    LAST_ERROR = 80
    TRIED_FEW = 90
    LESSONS_FEW = 100
    BEST_FACTS = 110
    BEST_KERNELS = 120
    GRAPH = 130
    CONTRAST_FACTS = 140
    CONTRAST_KERNELS = 150
    BEST = 160
    RECALLED_KERNELS = 170
    TRIED = 190
    OTHERS_FACTS = 200
    OTHERS_KERNELS = 210
    TASK_WHOLE = 220
    LESSONS = 230
    RECALLED = 240
    CONTRAST = 250
    OTHERS = 260
    TRIED_ALL = 270
    LESSONS_ALL = 280


def system_part(observation: Observation) -> Part:
    """Role, rules and the form of an answer."""
    rules = observation.rules
    values = {
        "precision": worded("precision_tf32" if rules.precision == "tf32" else "precision_same"),
        "library": worded("library_yes" if rules.allow_library else "library_no"),
    }
    modules = ", ".join(f"`{name}`" for name in sorted(ALLOWED_MODULES))
    return Part(
        name="rules",
        forms=(
            _form(0, lambda: worded("system_short", **values)),
            _form(Rank.RULES, lambda: worded("system", **values, modules=modules)),
        ),
        needed=True,
    )


def user_parts(observation: Observation) -> list[Part]:
    """All else, as one message."""
    best = _best_first(observation)
    slower = _slower(observation, best)
    return [
        _task(observation),
        *_graph(observation),
        _hardware(observation),
        *_recalled(observation.recalled),
        *_tried(observation.of(Role.TRIED)),
        *_contrast(observation, best, slower),
        *[part for place, item in reversed(list(enumerate(best))) for part in _incumbent(item, place)],
        *_last_error(observation),
        *_parent(observation.parent),
        _turn(observation),
    ]


# -- the problem -------------------------------------------------------------------------------------------------------


def _task(observation: Observation) -> Part:
    problem = observation.problem
    lines = bullets(facts.problem_facts(problem))

    def write(most: int, told: str) -> str:
        source = fenced(problem.source, label="python", most=most)
        return worded("task", name=inline(problem.name, 80), facts=told, source=source)

    return Part(
        name="original",
        forms=(
            _form(0, lambda: write(600, "- shortened to fit")),
            _form(Rank.TASK_SHORT, lambda: write(2_000, lines)),
            _form(Rank.TASK, lambda: write(8_000, lines)),
            _form(Rank.TASK_WHOLE, lambda: write(SOURCE_CHARACTERS, lines)),
        ),
        needed=True,
    )


def _graph(observation: Observation) -> list[Part]:
    text = _graph_text(json.dumps(observation.problem.graphs[0])) if observation.problem.graphs else ""
    if not text:
        return []
    return [_part("operators", _form(Rank.GRAPH, lambda: worded("graph", graph=fenced(text, most=GRAPH_CHARACTERS))))]


@functools.lru_cache(maxsize=16)
def _graph_text(graph: str) -> str:
    """Empty for what is no graph of this version: it may come from an older store."""
    try:
        return OperatorGraph.from_json(json.loads(graph)).dump()
    except (KeyError, TypeError, ValueError, AttributeError):
        return ""


def _hardware(observation: Observation) -> Part:
    return _part(
        "hardware",
        _form(Rank.HARDWARE, lambda: worded("hardware", facts=bullets(facts.hardware_facts(observation)))),
    )


# -- from other runs ---------------------------------------------------------------------------------------------------


def _recalled(lessons: Sequence[Lesson]) -> Iterator[Part]:
    short = [lesson for lesson in lessons if lesson.kind != "kernel"]
    if short:
        lines = [
            f"{on_a_line(lesson.kind, 20)}: {on_a_line(lesson.text, 300)} ({on_a_line(lesson.why, 160)})"
            for lesson in short
        ]
        ranks = (Rank.LESSONS_FEW, Rank.LESSONS, Rank.LESSONS_ALL)
        yield _part("recalled lessons", *_growing(lines, LESSONS_SHOWN, ranks, "lessons", "lessons"))
    for number, lesson in enumerate(item for item in lessons if item.kind == "kernel"):
        later = 2 * min(number, 4)
        heading = worded("recalled_kernel", why=inline(lesson.why, 300))
        pair = (Rank.RECALLED_KERNELS + later, Rank.RECALLED + later)
        yield _source("this kernel", lesson.text, pair, f"recalled kernel {number + 1}", heading)


# -- from this run -----------------------------------------------------------------------------------------------------


def _tried(items: Sequence[Tried]) -> Iterator[Part]:
    """The latest last; the oldest are left out first."""
    if items:
        lines = [facts.in_short(item) for item in reversed(items)]
        ranks = (Rank.TRIED_FEW, Rank.TRIED, Rank.TRIED_ALL)
        yield _part("tried", *_growing(lines, TRIED_SHOWN, ranks, "tried", "tried", backwards=True))


def _growing(
    lines: Sequence[str],
    counts: Sequence[int],
    ranks: Sequence[int],
    template: str,
    value: str,
    *,
    backwards: bool = False,
) -> list[Form]:
    """A list with the first few lines, with more, with all; `backwards` puts the first line last."""

    def write(count: int) -> str:
        shown = list(lines[:count])
        left_out = [f"[... {len(lines) - count} older or lesser ones left out ...]"] if len(lines) > count else []
        ordered = [*left_out, *reversed(shown)] if backwards else [*shown, *left_out]
        return worded(template, **{value: fenced("\n".join(ordered))})

    return [_form(rank, functools.partial(write, count)) for rank, count in zip(ranks, counts)]


def _best_first(observation: Observation) -> list[Tried]:
    return sorted(observation.of(Role.INCUMBENT), key=_merit)


def _merit(item: Tried) -> tuple[float, float, int]:
    """Smaller is better: by speed where it was measured, else by bytes moved and launches."""
    diagnosis = item.diagnosis
    ratio = diagnosis.traffic_ratio if diagnosis else None
    launches = sum(launch.launches for launch in diagnosis.launches) if diagnosis else 0
    return (-item.speedup.median if item.speedup else 0.0, ratio if ratio is not None else float("inf"), launches)


def _incumbent(item: Tried, place: int) -> Iterator[Part]:
    key, later = short_key(item.attempt), 2 * place
    first = place == 0
    told = _form(
        Rank.BEST_FACTS if first else Rank.OTHERS_FACTS + later,
        lambda: worded("incumbent", key=key, facts=bullets(facts.attempt_facts(item))),
    )
    yield _part(f"facts of {key}", told)
    later_ranks = (Rank.OTHERS_KERNELS + later, Rank.OTHERS + later)
    yield _source(
        key, without_notes(item.source), (Rank.BEST_KERNELS, Rank.BEST) if first else later_ranks, f"source of {key}"
    )


def _slower(observation: Observation, best: Sequence[Tried]) -> Tried | None:
    """What to hold against the best: what was chosen for that, or else the last of the best that is surely slower."""
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
    return min((*parent, *best), key=_merit, default=None)


def _contrast(observation: Observation, best: Sequence[Tried], slower: Tried | None) -> Iterator[Part]:
    """The pair and its scores; the faster one's source stands in a part of its own, and so may the slower's."""
    faster = _fastest(observation, best)
    if slower is None or faster is None or faster is slower:
        return
    fast, slow = (f"{short_key(item.attempt)} ({facts.verdict(item)})" for item in (faster, slower))
    chosen = slower.role is Role.CONTRAST
    shown = facts.attempt_facts(slower) if chosen else [f"slower: {slow}"]
    words = functools.partial(worded, "contrast", fast=fast, slow=slow, facts=bullets(shown))
    yield _part("contrast", _form(Rank.CONTRAST_FACTS, words))
    if chosen:
        key, ranks = short_key(slower.attempt), (Rank.CONTRAST_KERNELS, Rank.CONTRAST)
        yield _source(f"{key}, the slower one", without_notes(slower.source), ranks, f"source of {key}")


def _last_error(observation: Observation) -> Iterator[Part]:
    """The latest of those that did not pass, unless it is the parent: its message at length."""
    failed = [item for item in observation.tried if item.status is not None and item.status is not Status.PASSED]
    last = max(reversed(failed), key=lambda item: item.turn, default=None)
    if last is None or last.role is Role.PARENT or not last.message:
        return
    heading = worded("last_error", key=short_key(last.attempt), facts=bullets([f"verdict: {facts.verdict(last)}"]))
    told = _form(Rank.LAST_ERROR, lambda: f"{heading}\n\n{_message(last, MESSAGE_CHARACTERS)}")
    yield _part("latest failure", told)


def _parent(item: Tried | None) -> Iterator[Part]:
    if item is None:
        return
    key, repair = short_key(item.attempt), item.status is not Status.PASSED
    template = "parent_repair" if repair else "parent_improve"

    def write(lines: list[str], most: int) -> str:
        heading = worded(template, key=key, facts=bullets(lines))
        return f"{heading}\n\n{_message(item, most)}" if repair and item.message else heading

    short = [f"verdict: {facts.verdict(item)}"]
    forms = (
        _form(0, lambda: write(short, SHORT_MESSAGE_CHARACTERS)),
        _form(Rank.PARENT_FACTS, lambda: write(facts.attempt_facts(item), MESSAGE_CHARACTERS)),
    )
    yield Part(name="parent", forms=forms, needed=True)
    three = (Rank.PARENT_SIGNATURES, Rank.PARENT_KERNELS, Rank.PARENT)
    yield _source(key, without_notes(item.source), three, "source of the parent")


def _turn(observation: Observation) -> Part:
    budget, parent = facts.budget_facts(observation.budget), observation.parent
    if parent is None:
        form = _form(0, lambda: worded("turn_fresh", budget=budget))
    else:
        template = "turn_improve" if parent.status is Status.PASSED else "turn_repair"
        form = _form(0, lambda: worded(template, budget=budget, key=short_key(parent.attempt)))
    return Part(name="turn", forms=(form,), needed=True)


# -- forms -------------------------------------------------------------------------------------------------------------


def _message(item: Tried, most: int) -> str:
    return worded("message", message=fenced(item.message, most=most))


def _source(key: str, source: str, ranks: Sequence[int], name: str, heading: str = "") -> Part:
    """Kernels alone, then the whole file; with three ranks, what the kernels are called with before that."""

    def write(condense: Callable[[str], str] | None, how: str) -> str:
        text = condense(source) if condense else source
        if not text.strip():
            return ""
        told = worded("source", key=key, how=how, source=fenced(text, label="python", most=SOURCE_CHARACTERS))
        return f"{heading}\n\n{told}" if heading else told

    forms = [
        lambda: write(signatures_only, ", its kernels without their bodies"),
        lambda: write(kernels_only, ", its kernels only"),
        lambda: write(None, ""),
    ]
    return _part(name, *[_form(rank, form) for rank, form in zip(ranks, forms[-len(ranks) :])])


def _form(rank: int, write: Callable[[], str]) -> Form:
    return Form(rank=rank, write=write)


def _part(name: str, *forms: Form) -> Part:
    return Part(name=name, forms=forms)
