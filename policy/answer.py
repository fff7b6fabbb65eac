"""Parses an answer into a plan in words and one complete Python file; tolerant in form, exact about what is missing.

Every author answers in text, so a language model is later trained on exactly the text that was judged. The file may be
in a fence, in tags, in a field of JSON, or without any of these; thoughts before it are dropped. The time taken is
linear in the length of any answer.

Not covered: the quality of the file, which the evaluator judges. Diffs are not applied.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from triton_agent.policy.answer_complaint import complain, cut_short, no_python
from triton_agent.policy.answer_landmarks import (
    JSON,
    PYTHON,
    diff_in,
    inside,
    is_diff,
    json_texts,
    line_number,
    line_start,
    model_in,
    models,
)
from triton_agent.policy.fences import CodeBlock, blocks, flush_left

WORDS = frozenset({"markdown", "md", "text", "plan"})
BARE_FILE = re.compile(
    r"^(?:import[ \t]+\w|from[ \t]+[\w.]+[ \t]+import\b|\"\"\"|'''|@triton\b|#!|class[ \t]+ModelNew[ \t]*[(:\[])",
    re.MULTILINE,
)
IMPORTS_TORCH = re.compile(r"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
IMPORTS = re.compile(r"^[ \t]*(?:import|from)[ \t]+(?:torch|triton)\b", re.MULTILINE)
THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|thoughts|reasoning)>", re.IGNORECASE)
TAG = re.compile(r"<(code|python|file|source|kernel|answer|solution)(?:[ \t][^<>\n]{0,200})?>", re.IGNORECASE)
ANY_TAG = re.compile(r"</?(?:plan|code|python|file|source|kernel|answer|solution)>", re.IGNORECASE)
PLAN_FIELDS = ("plan", "thought", "thoughts", "reasoning", "explanation")
_PLAN = r"[^`\n ][^`]{0,4000}"
_CODE = r"[^`]*\nclass ModelNew\(nn\.Module\):\n[^`]*\n"
ANSWER_PATTERN = rf"{_PLAN}\n```python\nimport torch\n{_CODE}```\n?"
"""The form of an answer as a regular expression, for engines with constrained decoding: a plan, then one file.

Small models forget the form. With constrained decoding every answer holds a file to judge, and recorded
log-probabilities are normalized over the tokens that the form allows.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAnswer:
    """The parts of an author's answer."""

    plan: str
    source: str | None
    """The file; None if the answer has none."""
    complaint: str = ""
    """What is wrong with the answer's form, written for its author; empty exactly if there is a file."""


def read_answer(text: str) -> ParsedAnswer:
    whole = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    said, thought, thinking = _without_thoughts(whole)
    found = blocks(said)
    for read in (_fenced, _tagged, _from_json, _bare):
        answer = read(said, found)
        if answer is not None:
            return answer
    return ParsedAnswer(plan=_plan(said, found), source=None, complaint=complain(whole, said, thought, thinking, found))


NOTE = re.compile(r"^(?:# )?decided: \{[^\n]*\n?", re.MULTILINE)
"""Lines in which the built-in author records its decisions, in its plan and in its file."""


def without_notes(text: str) -> str:
    """Remove the built-in author's recorded decisions from a plan, a file or an answer."""
    return NOTE.sub("", text)


def write_answer(plan: str, source: str) -> str:
    """Write an answer from which `read_answer` returns this plan and source."""
    return f"{plan.strip()}\n\n```python\n{source.rstrip()}\n```\n"


# -- where the file may be ---------------------------------------------------------------------------------------------


def _fenced(said: str, found: Sequence[CodeBlock]) -> ParsedAnswer | None:
    """Take the last fenced file, because authors correct themselves; a truncated one only if no file is complete."""
    files = [block for block in found if model_in(block.text) and not is_diff(block)]
    if not files:
        return None
    closed = [block for block in files if block.closed]
    last = files[-1]
    if not last.closed:
        source = _without_last_tags(last.text)
        why = no_python(source)
        if not why:
            return ParsedAnswer(plan=_plan_around(last, said, found), source=source)
        if not closed:
            complaint = cut_short("```python block", why, line_number(said, last.begin))
            return ParsedAnswer(plan=_plan_around(last, said, found), source=None, complaint=complaint)
        last = closed[-1]
    return ParsedAnswer(plan=_plan_around(last, said, found), source=_with_what_it_needs(last, found))


def _with_what_it_needs(file: CodeBlock, found: Sequence[CodeBlock]) -> str:
    """Join a file that was given in pieces: the last block has the class, earlier blocks its imports."""
    if IMPORTS_TORCH.search(file.text):
        return file.text
    before = [
        block.text
        for block in found
        if block.begin < file.begin and block.closed and block.label in PYTHON and not model_in(block.text)
    ]
    pieces = [*before, file.text] if any(IMPORTS.search(text) for text in before) else [file.text]
    return "\n\n".join(text.strip("\n") for text in pieces) + "\n" if len(pieces) > 1 else file.text


def _tagged(said: str, found: Sequence[CodeBlock]) -> ParsedAnswer | None:
    """Take the file in `<code>...</code>` or a similar tag around the last mention of the class."""
    classes = list(models(said))
    openers = [match for match in TAG.finditer(said) if classes and match.start() < classes[-1]]
    if not openers or inside(classes[-1], found):
        return None
    opener = openers[-1]
    end = said.find(f"</{opener[1]}>", classes[-1])
    if end < 0:
        end = said.lower().find(f"</{opener[1].lower()}>", classes[-1])
    body = said[opener.end() : end if end >= 0 else len(said)].strip("\n")
    body = body.strip().removeprefix("<![CDATA[").removesuffix("]]>") if "<![CDATA[" in body[:40] else body
    source, plan = flush_left(body).rstrip() + "\n", _plan(said[: opener.start()], found)
    why = no_python(source) if end < 0 else ""
    if why:
        complaint = cut_short(f"<{opener[1]}> tag", why, line_number(said, opener.start()))
        return ParsedAnswer(plan=plan, source=None, complaint=complaint)
    return ParsedAnswer(plan=plan, source=source)


def _from_json(said: str, found: Sequence[CodeBlock]) -> ParsedAnswer | None:
    """Take the file from any field of JSON that holds one."""
    for text in json_texts(said, found):
        try:
            data, _ = JSON.raw_decode(text)
        except (ValueError, RecursionError):
            continue
        fields = data if isinstance(data, dict) else {}
        plan = next((value for name in PLAN_FIELDS if isinstance(value := fields.get(name), str)), "")
        for value in _texts_in(data):
            inner = _fenced(value, blocks(value)) or _bare(value, ())
            if inner is not None and inner.source is not None:
                return ParsedAnswer(plan=plan.strip() or inner.plan, source=inner.source)
    return None


def _texts_in(data: object) -> Iterator[str]:
    """Yield every string, at any depth, that defines the class."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += list(value.values())
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and model_in(value):
            yield value


def _bare(said: str, found: Sequence[CodeBlock]) -> ParsedAnswer | None:
    """Take a file that follows prose without a fence."""
    if any(block.label in PYTHON for block in found) or diff_in(said) is not None or said.lstrip().startswith("{"):
        return None
    begin = BARE_FILE.search(said)
    start = begin.start() if begin else 0
    if not any(place >= start for place in models(said)):
        return None
    return ParsedAnswer(plan=_plan(said[:start], ()), source=said[start:])


# -- thoughts and plans ------------------------------------------------------------------------------------------------


def thoughts_apart(text: str) -> tuple[str, str]:
    """Split a text into the thoughts that it begins with and the answer after them. Thoughts without an end tag leave
    no answer.

    A chat template may have opened the thoughts already, so that the text holds only their end tag.
    """
    tags = THOUGHT.finditer(text)
    first = next(tags, None)
    if first is None:
        return "", text
    if first[1]:
        return text[: first.start()], text[first.end() :].lstrip("\n")
    if text[: first.start()].strip():
        return "", text
    end = next((tag for tag in tags if tag[1]), None)
    if end is None:
        return text[first.end() :], ""
    return text[first.end() : end.start()], text[end.end() :].lstrip("\n")


def _without_thoughts(text: str) -> tuple[str, str, bool]:
    """Return the answer, the thoughts, and True if the thoughts never ended.

    A chat may begin in the middle of a thought, so text before an end tag without a begin tag counts as a thought, too.
    """
    said: list[str] = []
    thought: list[str] = []
    at, thinking = 0, False
    for tag in THOUGHT.finditer(text):
        if tag[1]:
            thought += [*(() if thinking else said), text[at : tag.start()]]
            said = said if thinking else []
            at, thinking = tag.end(), False
        elif not thinking and _begins_line(text, tag.start()):
            said.append(text[at : tag.start()])
            at, thinking = tag.end(), True
    (thought if thinking else said).append(text[at:])
    return "".join(said), "".join(thought), thinking


def _begins_line(text: str, place: int) -> bool:
    start = line_start(text, place)
    return start is not None and not text[start:place].strip()


def _plan_around(file: CodeBlock, said: str, found: Sequence[CodeBlock]) -> str:
    """Return the text before the file; if that is empty, the text after it."""
    return _plan(said[: file.begin], found) or _plan(said[file.end :], blocks(said[file.end :]))


def _plan(text: str, found: Sequence[CodeBlock]) -> str:
    """Return the prose, without code and tags."""
    words, at = [], 0
    for block in found:
        if block.begin < len(text):
            words += [text[at : block.begin], block.text if block.label in WORDS else ""]
            at = block.end
    words.append(text[at:])
    return ANY_TAG.sub("", "".join(words)).strip()


def _without_last_tags(text: str) -> str:
    """Drop closing tags at the end: an answer may end in `</answer>` although its fence was never closed."""
    kept = text.rstrip()
    while kept.endswith(">") and (tag := kept.rfind("</")) >= 0 and ANY_TAG.fullmatch(kept, tag):
        kept = kept[:tag].rstrip()
    return kept + "\n" if kept != text.rstrip() else text
