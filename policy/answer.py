"""Reads an answer: a plan in words, then one complete Python file. Tolerant in form, exact about what is missing.

Whatever the author, an answer is text, so that what trains a language model later is what was judged. Not covered:
whether the file is any good; that is the evaluator's to find out.
"""

from __future__ import annotations

import dataclasses
import re

FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
OPEN_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:python|py)?[ \t]*\n", re.MULTILINE)
THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
OPEN_THINKING = re.compile(r"<think(?:ing)?>.*\Z", re.DOTALL)
PYTHON = frozenset({"", "python", "py", "python3", "triton"})
MODEL = re.compile(r"^\s*class\s+ModelNew\b", re.MULTILINE)
BARE_FILE = re.compile(r"^(?:import |from |\"\"\"|#|@triton)", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an author wrote, taken apart."""

    plan: str
    source: str | None
    """The file; None where there is none to judge."""
    complaint: str = ""
    """What is wrong with the form, for the author; empty exactly where there is a file."""


def read_answer(text: str) -> Answer:
    """The plan and the file in an answer."""
    said = OPEN_THINKING.sub("", THINKING.sub("", text))
    blocks = [match for match in FENCE.finditer(said) if match[2].lower() in PYTHON]
    files = [match for match in blocks if MODEL.search(match[3])]
    if files:
        last = files[-1]  # authors correct themselves: the last word counts
        return Answer(plan=_plan(said[: last.start()]), source=last[3])
    if not blocks and MODEL.search(said):
        return _without_fences(said)
    return Answer(plan=_plan(said), source=None, complaint=_complaint(text, said, blocks))


def write_answer(plan: str, source: str) -> str:
    """The text that `read_answer` takes apart into these two again."""
    return f"{plan.strip()}\n\n```python\n{source.rstrip()}\n```\n"


def _without_fences(said: str) -> Answer:
    """A file as it is, or one whose fence was never closed; the latter may be cut short, which compiling will tell."""
    fence = OPEN_FENCE.search(said)
    if fence:
        return Answer(plan=_plan(said[: fence.start()]), source=said[fence.end() :])
    begin = BARE_FILE.search(said)
    start = begin.start() if begin else 0
    return Answer(plan=_plan(said[:start]), source=said[start:])


def _plan(text: str) -> str:
    return FENCE.sub("", text).strip()


def _complaint(text: str, said: str, blocks: list[re.Match[str]]) -> str:
    if not text.strip():
        return "the answer is empty"
    if not said.strip():
        return "the answer ends before the thinking does; write the plan and the file after it"
    if blocks:
        return "no code block defines `class ModelNew`; write one complete file in one ```python block"
    return "there is no ```python block; write a plan, then one complete file in one ```python block"
