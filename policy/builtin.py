"""The built-in author as a policy: it writes kernels by rules, with no weights and no key. `author/` does the writing.

It answers in the form that a language model uses: a plan in words and a file. Its decisions stand in the plan's last
line and at the end of the file, and are read from there again. It therefore keeps nothing between calls, and a resumed
or forked run continues from the decisions of its parent. It gives the same answers to the same observation; on a slow
machine perhaps fewer of them for a model of many hundred operators.

Not covered: learning across problems beyond the recalled lessons; graphs that change with the values of inputs.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
import time
from collections.abc import Collection, Iterator, Sequence

from triton_agent.memory.observation import Observation, ProblemView, Rules, Tried
from triton_agent.memory.records import Completion
from triton_agent.policy.answer import write_answer
from triton_agent.policy.author.brief import Answer, BeyondAuthor, Brief, Hardware
from triton_agent.policy.author.choice import Choice, Tiles
from triton_agent.policy.author.decisions import Feedback, KernelFeedback, first_choice, neighbours
from triton_agent.policy.author.writer import write
from triton_agent.tools.graph.graph import OperatorGraph
from triton_agent.tools.machine.hardware import CardFacts
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.results import Status

NAME = "builtin"
VERSION = "33"
"""Version of the author; raised whenever the same observation could lead to another answer."""
DECIDED = re.compile(r"^(?:# )?decided: (\{.*\})$", re.MULTILINE)
DEPTH = 2
"""How many changes away from a starting point the author looks for an untried choice."""

PATIENCE_S = 30.0
"""Time after which no more files are planned for one turn, if there is one."""


class Builtin:
    """Writes kernels by rules about operators and GPUs, and from the feedback on earlier attempts."""

    name = NAME
    version = VERSION
    trusted = True
    """Its files differ only in numbers that it chose itself, so quick looks may sort them."""

    async def propose(self, observation: Observation, n: int = 1) -> list[Completion]:
        """Return the most promising files that were not tried yet."""
        brief = brief_for(observation.problem, observation.rules)
        if brief is None:
            return []
        tried = {choice for item in observation.tried for choice in [_recorded_choice(item.plan)] if choice is not None}
        answers: list[Completion] = []
        until_s = time.monotonic() + PATIENCE_S
        for choice, answer in files(brief, observation.parent, tried, until_s):
            answers.append(_completion(choice, answer))
            if len(answers) == n:
                break
        return answers

    async def propose_many(self, observations: Sequence[Observation]) -> list[Completion | None]:
        found = [await self.propose(observation) for observation in observations]
        return [answers[0] if answers else None for answers in found]

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def why_nothing(problem: ProblemView, rules: Rules) -> str:
    """Return why the author has no file for a problem; empty if it has one."""
    brief = brief_for(problem, rules)
    if brief is None:
        return "there is no graph of its operators"
    try:
        write(brief, first_choice(brief))
    except BeyondAuthor as reason:
        return str(reason)
    return ""


def files(
    brief: Brief, parent: Tried | None = None, tried: Collection[Choice] = (), until_s: float = math.inf
) -> Iterator[tuple[Choice, Answer]]:
    """Yield the files that the author writes, in order, each once and none that was tried.

    After `until_s` of the monotonic clock there are no more, if there was one.
    """
    seen = set(tried)
    sources = {answer.source for answer in map(functools.partial(_written, brief), seen) if answer is not None}
    has_one = False
    for choice in _next_choices(brief, parent):
        if has_one and time.monotonic() > until_s:
            return
        if choice in seen:
            continue
        seen.add(choice)
        answer = _written(brief, choice)
        if answer is not None and answer.source not in sources:  # different decisions may give the same file
            sources.add(answer.source)
            has_one = True
            yield choice, answer


def _next_choices(brief: Brief, parent: Tried | None) -> Iterator[Choice]:
    """Yield choices near the parent's, nearest first; without a parent, begin with the first choice."""
    if parent is None:
        start, feedback = first_choice(brief), Feedback()
        yield start
    else:
        start, feedback = _recorded_choice(parent.source) or first_choice(brief), _feedback(parent)
    ring, seen = [start], {start}
    for _ in range(DEPTH):
        further: list[Choice] = []
        for choice in ring:
            for new in neighbours(brief, choice, feedback):
                if new not in seen:
                    seen.add(new)
                    if _worth_trying(new, start, brief, feedback):
                        further.append(new)
                        yield new
        ring = further


def _worth_trying(choice: Choice, start: Choice, brief: Brief, feedback: Feedback) -> bool:
    """Return False for a change of tiles on the CPU after a pass: nothing is timed there, so it would teach nothing."""
    return brief.device != "cpu" or feedback.status != Status.PASSED or choice.tiles == start.tiles


def _written(brief: Brief, choice: Choice) -> Answer | None:
    """Write the file of a choice; return None if the author cannot write it."""
    try:
        return write(brief, choice)
    except BeyondAuthor:
        return None


def _completion(choice: Choice, answer: Answer) -> Completion:
    decided = f"decided: {json.dumps(_to_plain(choice), sort_keys=True)}"
    text = write_answer(f"{_in_words(choice)}\n{answer.plan}\n{decided}", f"{answer.source.rstrip()}\n\n# {decided}\n")
    return Completion(text=text, policy=NAME, policy_version=VERSION)


def _feedback(parent: Tried) -> Feedback:
    profile = parent.diagnosis.profile if parent.diagnosis else None
    times = {kernel.kernel: kernel.device_ms for kernel in profile.kernels} if profile else {}
    return Feedback(
        status=str(parent.status or ""),
        message=parent.message,
        kernels=tuple(
            KernelFeedback(
                name=item.kernel,
                spill_bytes=item.spill_bytes or 0,
                registers=item.registers or 0,
                shared_bytes=item.shared_bytes,
                device_ms=times.get(item.kernel),
            )
            for item in parent.resources
        ),
        device_ms=parent.device_ms,
        floor_ms=parent.diagnosis.floor_ms if parent.diagnosis else None,
        launches=sum(item.launches for item in parent.diagnosis.launches) if parent.diagnosis else 0,
    )


# -- facts about the problem ------------------------------------------------------------------------------------------


def brief_for(problem: ProblemView, rules: Rules) -> Brief | None:
    """Collect the facts that the author works from; None if there is no operator graph."""
    if not problem.graphs:
        return None
    spec = ProblemSpec.from_json(problem.spec)
    card = problem.card or CardFacts()
    # Write for the card that runs the candidate, whatever target the rules name.
    target = f"cuda:{card.compute_capability.replace('.', '')}" if card.compute_capability else rules.target
    return Brief(
        source="\n\n".join(filter(None, (problem.source, problem.beside))),
        class_name=spec.class_name or "Model",
        graphs=tuple(OperatorGraph.from_json(graph) for graph in problem.graphs),
        train_graphs=tuple(OperatorGraph.from_json(graph) for graph in problem.train_graphs),
        numbers=problem.numbers,
        tensors=problem.tensors,
        input_structure=problem.input_structure,
        allow_library=rules.allow_library,
        allow_tf32=rules.precision == "tf32",
        target=target,
        hardware=Hardware.of(target, card.multiprocessors),
        device="cpu" if problem.device == "cpu" else "cuda",
    )


# -- decisions as text -------------------------------------------------------------------------------------------------


def _to_plain(choice: Choice) -> dict[str, object]:
    """Return only the fields that differ from the defaults, to keep the recorded line short."""
    plain = _differing(choice, Choice())
    if choice.tiles:
        plain["tiles"] = {key: _differing(tiles, Tiles()) for key, tiles in choice.tiles}
    return plain


def _in_words(choice: Choice) -> str:
    """Describe how the choice differs from the first choice."""
    stored, left, tiles = len(choice.stored), len(choice.left_to_torch), len(choice.tiles)
    said = [
        f"{stored} more value{'s' * (stored > 1)} stored between kernels" if stored else "",
        "" if choice.merge else "kernels over the same axes kept apart",
        "products that are added computed by one kernel" if choice.joined else "",
        f"{left} operator{'s' * (left > 1)} left to torch" if left else "",
        "products in full float32 precision" if choice.exact else "",
        f"tiles set for {tiles} kernel{'s' * (tiles > 1)}" if tiles else "",
    ]
    text = "; ".join(filter(None, said)) or "the fewest launches that the author can plan"
    return f"{text[0].upper()}{text[1:]}."


def _differing(value: Choice | Tiles, default: Choice | Tiles) -> dict[str, object]:
    names = [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names if getattr(value, name) != getattr(default, name)}


def _recorded_choice(text: str) -> Choice | None:
    """Return the choice that a plan or a file records; None if another author wrote it."""
    found = DECIDED.findall(text)
    if not found:
        return None
    try:
        plain = json.loads(found[-1])
        tiles = {key: Tiles(**fields) for key, fields in plain.pop("tiles", {}).items()}
        lists = {name: tuple(value) for name, value in plain.items() if isinstance(value, list)}
        return Choice(**{**plain, **lists, "tiles": tuple(sorted(tiles.items()))})
    except (ValueError, TypeError):
        return None
