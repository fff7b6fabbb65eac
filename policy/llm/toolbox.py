"""Tools that a model may call before it answers: a profile, a trial of a draft, and lessons of earlier runs.

A toolbox is given to `LanguageAuthor`, which passes on calls and results. A result is text. Errors in a call are
results, too, since the model can correct the call. A trial is no verdict: it is never stored as one, and no answer is
preferred because of it. Not covered: trying drafts and reading memory; both are given as functions.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from triton_agent.memory.observation import Lesson, Observation, Tried
from triton_agent.memory.records import ToolCall
from triton_agent.policy.answer import read_answer
from triton_agent.policy.llm.engine import ToolSpec
from triton_agent.policy.llm.prompting import facts
from triton_agent.policy.llm.prompting.facts import bullets, short_key
from triton_agent.policy.llm.prompting.quoting import fenced, on_a_line
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.results import Evaluation

DRAFTS_PER_ANSWER = 3
"""Drafts that a model may try before one answer; each takes the judge some seconds."""
RESULT_CHARACTERS = 8_000
LESSONS_TOLD = 4
PROFILE = ToolSpec(
    name="profile",
    description="Time per kernel, bottlenecks and compiler's report of an earlier attempt of this run.",
    parameters={
        "type": "object",
        "properties": {"attempt": {"type": "string", "description": "as in `3.0`; the fastest one if left out"}},
    },
)
EVALUATE_DRAFT = ToolSpec(
    name="evaluate_draft",
    description="Compile a complete file with `class ModelNew` and compare one call at one small size with the "
    f"reference. Shows errors early; it is no verdict. At most {DRAFTS_PER_ANSWER} times before an answer.",
    parameters={
        "type": "object",
        "properties": {"source": {"type": "string", "description": "the complete Python file"}},
        "required": ["source"],
    },
)
READ_MEMORY = ToolSpec(
    name="read_memory",
    description="Kernels, frequent failures and confirmed techniques of earlier runs for related problems.",
    parameters={
        "type": "object",
        "properties": {"words": {"type": "string", "description": "only lessons that mention one of these words"}},
    },
)


class Toolbox(Protocol):
    """Tools that a model may call while it works on one answer."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    async def use(self, call: ToolCall, seen: Observation, used: Sequence[str]) -> str:
        """Return the result of a call. `used` names the tools called earlier for the same answer."""


@runtime_checkable
class Equippable(Protocol):
    """A policy that may use tools."""

    def equip(self, toolbox: Toolbox) -> None:
        """Offer these tools in later questions, if the policy uses tools."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunTools:
    """The tools of a run."""

    try_draft: Callable[[str], Awaitable[Evaluation]]
    """Compile a file and check one small call of it."""
    recall: Callable[[], Sequence[Lesson]]
    """Returns all lessons of earlier runs about the problem."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return PROFILE, EVALUATE_DRAFT, READ_MEMORY

    async def use(self, call: ToolCall, seen: Observation, used: Sequence[str]) -> str:
        """Return the result of a call, shortened in its middle if it is long."""
        try:
            arguments = json.loads(call.arguments or "{}")
        except ValueError as error:
            return f"The arguments are not valid JSON: {error}"
        if not isinstance(arguments, dict):
            return "The arguments must be a JSON object."
        if call.name == PROFILE.name:
            return profile(seen, arguments)
        if call.name == READ_MEMORY.name:
            return memory(self.recall(), str(arguments.get("words") or ""))
        if call.name == EVALUATE_DRAFT.name:
            return await self._tried(arguments, used)
        return f"There is no such tool; there are {', '.join(spec.name for spec in self.specs)}."

    async def _tried(self, arguments: Mapping[str, Any], used: Sequence[str]) -> str:
        if used.count(EVALUATE_DRAFT.name) >= DRAFTS_PER_ANSWER:
            return f"All {DRAFTS_PER_ANSWER} trials are used up. Write your answer."
        answer = read_answer(str(arguments.get("source") or ""))
        if answer.source is None:
            return f"No complete file in `source`: {answer.complaint}"
        try:
            found = await self.try_draft(answer.source)
        except InstrumentError as error:
            return f"The trial could not be made, which says nothing about the file: {error.what}"
        return draft_result(found)


def profile(seen: Observation, arguments: Mapping[str, Any]) -> str:
    """Describe the attempt with the given key, or else the fastest, of those that are shown in full."""
    shown = [item for item in seen.tried if item.diagnosis is not None or item.resources]
    wanted = str(arguments.get("attempt") or "").removeprefix("attempt ").strip()
    found = [item for item in shown if short_key(item.attempt) == wanted] if wanted else _fastest(shown)
    if not found:
        known = ", ".join(short_key(item.attempt) for item in shown) or "none"
        return f"No profile of attempt {wanted or '(any)'}. Attempts with one: {known}."
    return f"Attempt {short_key(found[0].attempt)}:\n{bullets(facts.attempt_facts(found[0]))}"


def _fastest(shown: Sequence[Tried]) -> list[Tried]:
    timed = [item for item in shown if item.device_ms is not None]
    return sorted(timed, key=lambda item: item.device_ms or 0.0)[:1] or list(shown[-1:])


def draft_result(found: Evaluation) -> str:
    """Describe a trial in words."""
    report = [f"- {line}" for line in facts.resource_facts(found.resources)]
    if found.finding is None:
        done = "It compiles, and one call at a small size agrees with the reference. Other sizes are not checked."
        return "\n".join([done, *report])
    stage = found.stages[-1].stage if found.stages else "the first look"
    quoted = fenced(found.message, most=RESULT_CHARACTERS)
    return "\n".join([f"It fails in the stage `{stage}` with {found.finding.value}:", quoted, *report])


def memory(lessons: Sequence[Lesson], words: str) -> str:
    """List the lessons that mention one of the words; without words, the first lessons."""
    wanted = [word.lower() for word in words.split()]
    told = [item for item in lessons if not wanted or any(word in f"{item.text} {item.why}".lower() for word in wanted)]
    if not told:
        return (
            "No lesson of an earlier run mentions it."
            if wanted
            else "There are no lessons of earlier runs on related problems."
        )
    return "\n\n".join(
        f"{on_a_line(item.kind, 20)}, {on_a_line(item.why, 200)}:\n{fenced(item.text, most=RESULT_CHARACTERS // 2)}"
        for item in told[:LESSONS_TOLD]
    )
