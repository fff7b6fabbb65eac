"""The parts of a prompt in reading order, except those about attempts (`attempts.py`).

Parts that stay constant over a run come first (rules, problem, hardware, primer, lessons of earlier runs), so that
servers find them in their prefix caches. Times and attempts follow, weaker attempts before better ones and the parent
last. Lengths and priorities are in `forms.py`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence

from triton_agent.memory.observation import Lesson, Observation, Task
from triton_agent.policy.llm.prompting import facts
from triton_agent.policy.llm.prompting.attempts import attempt_parts
from triton_agent.policy.llm.prompting.facts import bullets, short_key
from triton_agent.policy.llm.prompting.fitting import PromptPart
from triton_agent.policy.llm.prompting.folding import folded
from triton_agent.policy.llm.prompting.forms import SOURCE_CHARACTERS, Rank, form, growing, part, source_part
from triton_agent.policy.llm.prompting.quoting import fenced, inline, on_a_line
from triton_agent.policy.llm.prompting.wording import worded
from triton_agent.tools.candidate.screen import ALLOWED_MODULES
from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.graph.operators import Kind, kind_of
from triton_agent.tools.results import Status

GRAPH_CHARACTERS = 12_000
LESSONS_SHOWN = (3, 8, 24)
WORKED: dict[Kind, str] = {"heavy": "worked_products", "reduction": "worked_rows", "arithmetic": "worked_pointwise"}
"""Maps the heaviest kind of operator in a problem to the template of its worked kernel."""


def system_part(observation: Observation) -> PromptPart:
    """Return the system message: role, rules and the form of an answer."""
    rules = observation.rules
    values = {
        "precision": worded("precision_tf32" if rules.precision == "tf32" else "precision_same"),
        "library": worded("library_yes" if rules.allow_library else "library_no"),
    }
    modules = ", ".join(f"`{name}`" for name in sorted(ALLOWED_MODULES))
    return PromptPart(
        name="rules",
        forms=(
            form(0, lambda: worded("system_short", **values)),
            form(Rank.RULES, lambda: worded("system", **values, modules=modules)),
        ),
        needed=True,
    )


def user_parts(observation: Observation) -> list[PromptPart]:
    """Return the parts of the user message."""
    return [
        _task(observation),
        *_graph(observation),
        _hardware(observation),
        part("primer", form(Rank.PRIMER, lambda: worded("primer"))),
        *_worked(observation),
        *_recalled(observation.recalled),
        *attempt_parts(observation),
        _turn(observation),
    ]


# -- the problem -------------------------------------------------------------------------------------------------------


def _task(observation: Observation) -> PromptPart:
    problem = observation.problem
    lines = bullets(facts.problem_facts(problem))

    def write(most: int, told: str) -> str:
        source = fenced(problem.source, label="python", most=most)
        return worded("task", name=inline(problem.name, 80), facts=told, source=source)

    return PromptPart(
        name="reference",
        forms=(
            form(0, lambda: write(600, "- shortened to fit")),
            form(Rank.TASK_SHORT, lambda: write(2_000, lines)),
            form(Rank.TASK, lambda: write(8_000, lines)),
            form(Rank.TASK_WHOLE, lambda: write(SOURCE_CHARACTERS, lines)),
        ),
        needed=True,
    )


def _graph(observation: Observation) -> list[PromptPart]:
    text = _graph_text(json.dumps(observation.problem.graphs[0])) if observation.problem.graphs else ""
    if not text:
        return []
    sizes = " at the scaled-down sizes" if facts.is_scaled_down(observation.problem) else ""
    quoted = fenced(text, most=GRAPH_CHARACTERS)
    return [part("operators", form(Rank.GRAPH, lambda: worded("graph", sizes=sizes, graph=quoted)))]


@functools.lru_cache(maxsize=16)
def _graph_text(graph: str) -> str:
    """Render a graph, with repeated parts folded; empty if it is not a graph of this version, as in an older store."""
    try:
        return folded(OperatorGraph.from_json(json.loads(graph)).dump())
    except (KeyError, TypeError, ValueError, AttributeError):
        return ""


@functools.lru_cache(maxsize=16)
def _kinds(graph: str) -> frozenset[Kind]:
    """Return the kinds of a graph's operators; empty if it is not a graph of this version."""
    try:
        return frozenset(kind_of(node.operator) for node in OperatorGraph.from_json(json.loads(graph)).nodes)
    except (KeyError, TypeError, ValueError, AttributeError):
        return frozenset()


def _hardware(observation: Observation) -> PromptPart:
    return part(
        "hardware",
        form(Rank.HARDWARE, lambda: worded("hardware", facts=bullets(facts.hardware_facts(observation)))),
    )


def _worked(observation: Observation) -> list[PromptPart]:
    """Return a verified kernel of the problem's kind, unless an earlier run has one for a related problem."""
    if any(lesson.kind == "kernel" for lesson in observation.recalled):
        return []
    kinds = _kinds(json.dumps(observation.problem.graphs[0])) if observation.problem.graphs else frozenset()
    name = next((name for kind, name in WORKED.items() if kind in kinds), None)
    return [part("worked kernel", form(Rank.WORKED, lambda: worded(name)))] if name else []


# -- from other runs ---------------------------------------------------------------------------------------------------


def _recalled(lessons: Sequence[Lesson]) -> Iterator[PromptPart]:
    short = [lesson for lesson in lessons if lesson.kind != "kernel"]
    if short:
        lines = [
            f"{on_a_line(lesson.kind, 20)}: {on_a_line(lesson.text, 300)} ({on_a_line(lesson.why, 160)})"
            for lesson in short
        ]
        ranks = (Rank.LESSONS_FEW, Rank.LESSONS, Rank.LESSONS_ALL)
        yield part("recalled lessons", *growing(lines, LESSONS_SHOWN, ranks, "lessons", "lessons"))
    for number, lesson in enumerate(item for item in lessons if item.kind == "kernel"):
        later = 2 * min(number, 4)
        heading = worded("recalled_kernel", why=inline(lesson.why, 300))
        pair = (Rank.RECALLED_KERNELS + later, Rank.RECALLED + later)
        yield source_part("this kernel", lesson.text, pair, f"recalled kernel {number + 1}", heading)


# -- what is wanted ----------------------------------------------------------------------------------------------------


def _turn(observation: Observation) -> PromptPart:
    budget, parent, task = facts.budget_facts(observation.budget), observation.parent, observation.task
    values = {"budget": budget, "key": short_key(parent.attempt) if parent else ""}
    timed = parent is not None and parent.device_ms is not None
    untimed = "" if timed or observation.problem.device != "cpu" else "_untimed"
    if task is Task.RESTART and observation.tried:
        template = "turn_restart"
    elif parent is None:
        template = "turn_fresh" if observation.tried else "turn_first"
    elif parent.status is not Status.PASSED:
        template = "turn_repair"
    elif task is Task.COMBINE and observation.partner:
        template, values["partner"] = f"turn_combine{untimed}", short_key(observation.partner)
    elif task is Task.IMPROVE and (worst := facts.largest_bottleneck(parent)) is not None:
        template = "turn_bottleneck"
        values |= {"bottleneck": inline(worst.name, 40), "cost": f"{worst.lost_ms:.3g}"}
    else:
        template = f"turn_improve{untimed}"
    return PromptPart(name="turn", forms=(form(0, lambda: worded(template, **values)),), needed=True)
