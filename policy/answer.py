"""Reads an answer: a plan in words, then one complete Python file. Tolerant in form, exact about what is missing.

Whatever the author, an answer is text, so that what trains a language model later is what was judged. A file is found
in a fence, in tags, in a field of JSON, or as it stands; thoughts before it are no part of the answer. The time this
takes grows with the length of the answer and not faster, whatever it holds.

Not covered: whether the file is any good; that is the evaluator's to find out. Diffs are not applied.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence

from triton_agent.policy.fences import Block, blocks, flush_left
from triton_agent.tools.results import Finding
from triton_agent.tools.screen import screen

PYTHON = frozenset({"", "python", "py", "python3", "py3", "triton"})
WORDS = frozenset({"markdown", "md", "text", "plan"})
MODEL = re.compile(r"ModelNew[ \t]*[(:\[=]")
BEFORE_MODEL = re.compile(r"[ \t]*(class[ \t]+)?\Z")
INDENT_CHARACTERS = 80
CLASS = re.compile(r"^class[ \t]+(\w{1,60})", re.MULTILINE)
BARE_FILE = re.compile(
    r"^(?:import[ \t]+\w|from[ \t]+[\w.]+[ \t]+import\b|\"\"\"|'''|@triton\b|#!|class[ \t]+ModelNew[ \t]*[(:\[])",
    re.MULTILINE,
)
IMPORTS_TORCH = re.compile(r"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
IMPORTS = re.compile(r"^[ \t]*(?:import|from)[ \t]+(?:torch|triton)\b", re.MULTILINE)
THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|thoughts|reasoning)>", re.IGNORECASE)
TAG = re.compile(r"<(code|python|file|source|kernel|answer|solution)(?:[ \t][^<>\n]{0,200})?>", re.IGNORECASE)
ANY_TAG = re.compile(r"</?(?:plan|code|python|file|source|kernel|answer|solution)>", re.IGNORECASE)
DIFF = re.compile(r"@@ .{0,80}@@|diff --git |<{7} SEARCH|\*{3} Begin Patch")
DIFF_SIGNS = ("@@ ", "diff --git ", "<<<<<<< SEARCH", "*** Begin Patch")
"""One of these is in every text that `DIFF` matches; most texts hold none, and that is found out much faster."""
DIFF_LABELS = frozenset({"diff", "patch", "udiff"})
JSON = json.JSONDecoder(strict=False)
"""Line feeds within a text are let pass, and so is what comes after the JSON."""
PLAN_FIELDS = ("plan", "thought", "thoughts", "reasoning", "explanation")

WANTED = "write a plan, then one complete file with `class ModelNew` in one ```python block"


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
    whole = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    said, thought, thinking = _without_thoughts(whole)
    found = blocks(said)
    for read in (_fenced, _tagged, _from_json, _bare):
        answer = read(said, found)
        if answer is not None:
            return answer
    complaint = _complaint(whole, said, thought, thinking, found)
    return Answer(plan=_plan(said, found), source=None, complaint=complaint)


NOTE = re.compile(r"^(?:# )?decided: \{[^\n]*\n?", re.MULTILINE)
"""What the built-in author writes down for itself, in plan and file."""


def without_notes(text: str) -> str:
    """A plan, a file or an answer as somebody else should read it."""
    return NOTE.sub("", text)


def write_answer(plan: str, source: str) -> str:
    """The text that `read_answer` takes apart into these two again."""
    return f"{plan.strip()}\n\n```python\n{source.rstrip()}\n```\n"


# -- where a file may stand --------------------------------------------------------------------------------------------


def _fenced(said: str, found: Sequence[Block]) -> Answer | None:
    """The last file counts, for authors correct themselves; one that was cut short only if there is no whole one."""
    files = [block for block in found if _model_in(block.text) and not _is_diff(block)]
    if not files:
        return None
    closed = [block for block in files if block.closed]
    last = files[-1]
    if not last.closed:
        source = _without_last_tags(last.text)
        why = _no_python(source)
        if not why:
            return Answer(plan=_plan_around(last, said, found), source=source)
        if not closed:
            complaint = _cut_short("```python block", why, _line(said, last.begin))
            return Answer(plan=_plan_around(last, said, found), source=None, complaint=complaint)
        last = closed[-1]
    return Answer(plan=_plan_around(last, said, found), source=_with_what_it_needs(last, found))


def _with_what_it_needs(file: Block, found: Sequence[Block]) -> str:
    """A file in pieces, put together: the last piece has the class, and what it imports stands in earlier ones."""
    if IMPORTS_TORCH.search(file.text):
        return file.text
    before = [
        block.text
        for block in found
        if block.begin < file.begin and block.closed and block.label in PYTHON and not _model_in(block.text)
    ]
    pieces = [*before, file.text] if any(IMPORTS.search(text) for text in before) else [file.text]
    return "\n\n".join(text.strip("\n") for text in pieces) + "\n" if len(pieces) > 1 else file.text


def _tagged(said: str, found: Sequence[Block]) -> Answer | None:
    """`<code>...</code>` and the like, around the last mention of the class."""
    classes = list(_models(said))
    openers = [match for match in TAG.finditer(said) if classes and match.start() < classes[-1]]
    if not openers or _inside(classes[-1], found):
        return None
    opener = openers[-1]
    end = said.find(f"</{opener[1]}>", classes[-1])
    if end < 0:
        end = said.lower().find(f"</{opener[1].lower()}>", classes[-1])
    body = said[opener.end() : end if end >= 0 else len(said)].strip("\n")
    body = body.strip().removeprefix("<![CDATA[").removesuffix("]]>") if "<![CDATA[" in body[:40] else body
    source, plan = flush_left(body).rstrip() + "\n", _plan(said[: opener.start()], found)
    why = _no_python(source) if end < 0 else ""
    if why:
        complaint = _cut_short(f"<{opener[1]}> tag", why, _line(said, opener.start()))
        return Answer(plan=plan, source=None, complaint=complaint)
    return Answer(plan=plan, source=source)


def _from_json(said: str, found: Sequence[Block]) -> Answer | None:
    """A field that holds the file, whatever it is called."""
    for text in _json_texts(said, found):
        try:
            data, _ = JSON.raw_decode(text)
        except (ValueError, RecursionError):
            continue
        fields = data if isinstance(data, dict) else {}
        plan = next((value for name in PLAN_FIELDS if isinstance(value := fields.get(name), str)), "")
        for value in _texts_in(data):
            inner = _fenced(value, blocks(value)) or _bare(value, ())
            if inner is not None and inner.source is not None:
                return Answer(plan=plan.strip() or inner.plan, source=inner.source)
    return None


def _json_texts(said: str, found: Sequence[Block]) -> list[str]:
    """The last one first; only what mentions the class is worth parsing."""
    texts = [said.strip(), *(block.text.strip() for block in found if block.label in ("json", ""))]
    return [text for text in reversed(texts) if text.startswith("{") and "ModelNew" in text]


def _texts_in(data: object) -> Iterator[str]:
    """All text values that define the class, however deep."""
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += list(value.values())
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and _model_in(value):
            yield value


def _bare(said: str, found: Sequence[Block]) -> Answer | None:
    """A file without any fence, after words that are no Python."""
    if any(block.label in PYTHON for block in found) or _diff_in(said) is not None or said.lstrip().startswith("{"):
        return None
    begin = BARE_FILE.search(said)
    start = begin.start() if begin else 0
    if not any(place >= start for place in _models(said)):
        return None
    return Answer(plan=_plan(said[:start], ()), source=said[start:])


# -- thoughts and plans ------------------------------------------------------------------------------------------------


def _without_thoughts(text: str) -> tuple[str, str, bool]:
    """What is said, what was thought, and whether the thinking never ended.

    A chat may begin in the middle of a thought, so what stands before an end without a beginning is one, too.
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
    start = _line_start(text, place)
    return start is not None and not text[start:place].strip()


def _plan_around(file: Block, said: str, found: Sequence[Block]) -> str:
    """What is said before the file, or else after it."""
    return _plan(said[: file.begin], found) or _plan(said[file.end :], blocks(said[file.end :]))


def _plan(text: str, found: Sequence[Block]) -> str:
    """Words without code and tags."""
    words, at = [], 0
    for block in found:
        if block.begin < len(text):
            words += [text[at : block.begin], block.text if block.label in WORDS else ""]
            at = block.end
    words.append(text[at:])
    return ANY_TAG.sub("", "".join(words)).strip()


# -- what is wrong -----------------------------------------------------------------------------------------------------


def _complaint(whole: str, said: str, thought: str, thinking: bool, found: Sequence[Block]) -> str:
    """Exactly one thing, the first to mend, and how."""
    if not whole.strip():
        return f"the answer is empty: {WANTED}"
    if thinking and not said.strip():
        return f"the answer ends before the thinking does: think less, then {WANTED}"
    if not said.strip():
        return f"the answer is all thinking, and nothing follows the end of it: after the thinking, {WANTED}"
    place = _diff_in(said)
    if place is not None or any(block.label in DIFF_LABELS for block in found):
        place = next(block.begin for block in found if block.label in DIFF_LABELS) if place is None else place
        return f"line {_line(said, place)} begins a diff, and diffs are not applied: {WANTED}"
    return _broken_json(said, found) or _without_class(said, thought, found)


def _broken_json(said: str, found: Sequence[Block]) -> str:
    for text in _json_texts(said, found):
        try:
            JSON.raw_decode(text)
        except ValueError as error:
            return f"the JSON around the file is broken ({str(error)[:120]}): {WANTED}, without JSON"
        except RecursionError:
            return f"the JSON around the file is nested too deeply: {WANTED}, without JSON"
    return ""


def _without_class(said: str, thought: str, found: Sequence[Block]) -> str:
    python = [block for block in found if block.label in PYTHON and block.text.strip()]
    if python and not python[-1].closed:
        where = f"the ```python block that begins at line {_line(said, python[-1].begin)} is never closed"
        return f"{where} and has no `class ModelNew`: the answer was cut short. Shorten it; {WANTED}"
    if python:
        names = list(dict.fromkeys(name for block in python for name in CLASS.findall(block.text)))[:4]
        instead = f"; classes there: {', '.join(names)}" if names else ""
        outside = ", which stands outside of them" if _model_in(said) else ""
        return f"no code block defines `class ModelNew`{outside}{instead}: {WANTED}"
    if _model_in(thought):
        return f"there is no ```python block; the file stands in the thinking only: after the thinking, {WANTED}"
    if "ModelNew" in said:
        return f"there is no ```python block; `ModelNew` is only spoken of: {WANTED}"
    return f"there is no ```python block: {WANTED}"


def _cut_short(what: str, why: str, line: int) -> str:
    return (
        f"the {what} that begins at line {line} is never closed and what it holds is not valid Python ({why}): "
        f"the answer was cut short. Shorten plan and file; {WANTED}"
    )


def _no_python(source: str) -> str:
    """Why a text is no Python; empty where it is."""
    objection = screen(source, strict=False)
    return objection.message if objection is not None and objection.finding is Finding.SYNTAX else ""


def _without_last_tags(text: str) -> str:
    """An answer may end in `</answer>` although its fence was never closed."""
    kept = text.rstrip()
    while kept.endswith(">") and (tag := kept.rfind("</")) >= 0 and ANY_TAG.fullmatch(kept, tag):
        kept = kept[:tag].rstrip()
    return kept + "\n" if kept != text.rstrip() else text


def _models(text: str) -> Iterator[int]:
    """Where the class is defined, or its name bound: at the beginning of a line."""
    for found in MODEL.finditer(text):
        start = _line_start(text, found.start())
        before = BEFORE_MODEL.match(text, start, found.start()) if start is not None else None
        if before and bool(before[1]) != (found[0][-1] == "="):
            yield found.start()


def _model_in(text: str) -> bool:
    return next(_models(text), None) is not None


def _diff_in(text: str) -> int | None:
    """Where a diff begins; None where there is none."""
    if not any(sign in text for sign in DIFF_SIGNS):
        return None
    places = (found.start() for found in DIFF.finditer(text))
    return next((place for place in places if place == 0 or text[place - 1] == "\n"), None)


def _line_start(text: str, place: int) -> int | None:
    """Where the line begins; None where that is further off than any indent."""
    line_feed = text.rfind("\n", max(0, place - INDENT_CHARACTERS - 1), place)
    return line_feed + 1 if line_feed >= 0 or place <= INDENT_CHARACTERS else None


def _is_diff(block: Block) -> bool:
    return block.label in DIFF_LABELS or _diff_in(block.text) is not None


def _inside(place: int, found: Sequence[Block]) -> bool:
    return any(block.begin <= place < block.end for block in found)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
