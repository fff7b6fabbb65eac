"""Names the first thing to fix in the form of an answer, and how to fix it.

Written for the author, who gets it as the message of a verdict. Not covered: faults of a file that was found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from triton_agent.policy.answer_landmarks import (
    DIFF_LABELS,
    JSON,
    PYTHON,
    diff_in,
    json_texts,
    line_number,
    model_in,
)
from triton_agent.policy.fences import CodeBlock
from triton_agent.tools.candidate.screen import screen
from triton_agent.tools.results import Finding

CLASS = re.compile(r"^class[ \t]+(\w{1,60})", re.MULTILINE)
WANTED = "write a plan, then one complete file with `class ModelNew` in one ```python block"


def complain(whole: str, said: str, thought: str, thinking: bool, found: Sequence[CodeBlock]) -> str:
    """Explain why an answer has no file. `thinking` is True if its thoughts never ended."""
    if not whole.strip():
        return f"the answer is empty: {WANTED}"
    if thinking and not said.strip():
        return f"the answer ends before the thinking does: think less, then {WANTED}"
    if not said.strip():
        return f"the answer is all thinking, and nothing follows the end of it: after the thinking, {WANTED}"
    place = diff_in(said)
    if place is not None or any(block.label in DIFF_LABELS for block in found):
        place = next(block.begin for block in found if block.label in DIFF_LABELS) if place is None else place
        return f"line {line_number(said, place)} begins a diff, and diffs are not applied: {WANTED}"
    return _broken_json(said, found) or _without_class(said, thought, found)


def _broken_json(said: str, found: Sequence[CodeBlock]) -> str:
    for text in json_texts(said, found):
        try:
            JSON.raw_decode(text)
        except ValueError as error:
            return f"the JSON around the file is broken ({str(error)[:120]}): {WANTED}, without JSON"
        except RecursionError:
            return f"the JSON around the file is nested too deeply: {WANTED}, without JSON"
    return ""


def _without_class(said: str, thought: str, found: Sequence[CodeBlock]) -> str:
    python = [block for block in found if block.label in PYTHON and block.text.strip()]
    if python and not python[-1].closed:
        where = f"the ```python block that begins at line {line_number(said, python[-1].begin)} is never closed"
        return f"{where} and has no `class ModelNew`: the answer was cut short. Shorten it; {WANTED}"
    if python:
        names = list(dict.fromkeys(name for block in python for name in CLASS.findall(block.text)))[:4]
        instead = f"; classes there: {', '.join(names)}" if names else ""
        outside = ", which stands outside of them" if model_in(said) else ""
        return f"no code block defines `class ModelNew`{outside}{instead}: {WANTED}"
    if model_in(thought):
        return f"there is no ```python block; the file stands in the thinking only: after the thinking, {WANTED}"
    if "ModelNew" in said:
        return f"there is no ```python block; `ModelNew` is only spoken of: {WANTED}"
    return f"there is no ```python block: {WANTED}"


def cut_short(what: str, why: str, line: int) -> str:
    return (
        f"the {what} that begins at line {line} is never closed and what it holds is not valid Python ({why}): "
        f"the answer was cut short. Shorten plan and file; {WANTED}"
    )


def no_python(source: str) -> str:
    """Return why a text is not Python; empty if it is."""
    objection = screen(source, strict=False)
    return objection.message if objection is not None and objection.finding is Finding.SYNTAX else ""
