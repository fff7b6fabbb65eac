"""Quotes foreign text in a prompt as data, so that it can neither end its quotation nor hide anything.

Prints, exceptions, sources, plans, and names of files and kernels can contain any text that a model or a stranger
wrote. Special tokens of chat templates would end the turn. Fences would end the quotation. Control and zero-width
characters would show people another text than the model reads. A megabyte of prints would push out the rest of the
prompt.

Not covered: whether a model obeys quoted text. The label of a quotation and the rules in the prompt address that.
"""

from __future__ import annotations

import functools
import re

ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b.?"
)
"""Terminal escape sequences, with their arguments."""
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Control characters except tab and line feed, direction marks and zero-width characters, variation selectors, and tag
characters, which can hide text.
"""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
"""ASCII control characters. Most texts contain none and skip the slower patterns."""
HALVES = re.compile("[\ud800-\udfff]")
"""Lone surrogates, which no tokenizer accepts."""
MARKS = re.compile(
    r"<(?=[|｜/]?[|｜▁]"
    r"|/?(?i:s|bos|eos|pad|unk|mask|sep|cls|sop|eop|think|thinking|tool_call|tool_response|tools|im_start|im_end"
    r"|start_of_turn|end_of_turn|start_of_image|end_of_image|start_of_audio|end_of_audio|fim_\w{1,16}|endoftext"
    r"|reserved_\w{1,16}|unused\d{1,4})>"
    r"|</?(?i:SYS)>>)"
    r"|\[(?=/?(?i:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|IMG|PREFIX|SUFFIX|MIDDLE"
    r"|gMASK|CLS|SEP|MASK|PAD|UNK|BOS|EOS)\]"
    r"|\|(?i:[a-z]))"
    r"|\](?=~!?(?i:[a-z])[\[\]])"
)
"""Special tokens of chat templates and tokenizers; the pattern matches their first character."""
LONG_RUN = re.compile(r"`{9,}")
INLINE_CHARACTERS = 160


def cleaned(text: str) -> str:
    """Remove invisible characters and insert a space into every special token.

    Inserting a space joins no characters, so it creates no new special token.
    """
    if not text.isascii() or CONTROL.search(text):
        text = ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
        text = HALVES.sub("\ufffd", UNSEEN.sub("", text))
    return MARKS.sub(lambda mark: f"{mark[0]} ", text)


def clipped(text: str, most: int, *, missing: int = 0) -> str:
    """Cut a text to about `most` characters: its beginning, its end, and a count of the characters left out.

    `missing` characters were already cut and are added to the count.
    """
    if len(text) <= most and not missing:
        return text
    size = min(most, len(text))
    head, tail = text[: size - size // 3], text[len(text) - size // 3 :]
    head = head[: head.rfind("\n") + 1] if head.rfind("\n") > len(head) // 2 else f"{head}\n"
    first = tail.find("\n")
    tail = tail[first + 1 :] if 0 <= first < len(tail) // 2 else tail
    return f"{head}[... {len(text) - len(head) - len(tail) + missing:,} characters left out ...]\n{tail}"


def fenced(text: str, *, label: str = "text", most: int = 60_000) -> str:
    """Quote a text in a block that nothing in the text can close."""
    missing = max(0, len(text) - 4 * most)
    return _fenced(text[: 2 * most] + text[-2 * most :] if missing else text, label, most, missing)


@functools.lru_cache(maxsize=512)
def _fenced(text: str, label: str, most: int, missing: int) -> str:
    """Quote a text; cached, because a prompt mostly quotes the same texts as the previous one."""
    text = cleaned(text)
    text = LONG_RUN.sub(lambda run: f"[{len(run[0])} backticks]", clipped(text, most, missing=missing).strip("\n"))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{label}\n{text}\n{fence}"


def on_a_line(text: str, most: int = INLINE_CHARACTERS) -> str:
    """Clean a text and shorten it to one line within a fence."""
    line = " ".join(cleaned(text[: 8 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def inline(text: str, most: int = INLINE_CHARACTERS) -> str:
    """Quote a text within a sentence as inline code."""
    return f"`{on_a_line(text, most).replace('`', chr(39))}`"
