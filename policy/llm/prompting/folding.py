"""Folds repetitions in the text of an operator graph: the steps of an unrolled loop, the layers of a network.

If a group of lines repeats with other numbers, the first two and the last repetition are shown, with a note between
them on the number of repetitions left out. Works on lines of any text. The result is for reading, not for running.
"""

from __future__ import annotations

import re

LONGEST_GROUP = 64
"""Longest repeated group, in lines; a transformer's layer has about 50."""
WORTH_FOLDING = 12
"""Fewest lines that are worth replacing by a note."""
LINE_CHARACTERS = 400
LINE_ENDS = 120
NUMBER = re.compile(r"\d+")


def folded(text: str) -> str:
    """Return the text with repeated groups of lines folded and long lines shortened."""
    lines = text.split("\n")
    kinds = [NUMBER.sub("#", line) for line in lines]
    shown: list[str] = []
    at = 0
    while at < len(lines):
        size, times = _repeated(kinds, at)
        left_out = size * (times - 3)
        if left_out < WORTH_FOLDING:
            shown.append(lines[at])
            at += 1
            continue
        begin, end = at + 2 * size, at + (times - 1) * size
        what = "line is" if size == 1 else f"{size} lines are"
        shown += lines[at:begin]
        shown.append(f"[... the last {what} repeated {times - 3} times with other numbers ...]")
        shown += lines[end : end + size]
        at = end + size
    return "\n".join(map(_shortened, shown))


def _repeated(kinds: list[str], at: int) -> tuple[int, int]:
    """Return the size of the group whose repetitions from here cover the most lines, and the number of repetitions."""
    best = (1, 1)
    for size in range(1, min(LONGEST_GROUP, (len(kinds) - at) // 2) + 1):
        end = at + size
        while end < len(kinds) and kinds[end] == kinds[end - size]:
            end += 1
        times = (end - at) // size
        if size * times > best[0] * best[1] and times > 1:
            best = (size, times)
    return best


def _shortened(line: str) -> str:
    if len(line) <= LINE_CHARACTERS:
        return line
    return f"{line[:LINE_ENDS]} [... {len(line) - 2 * LINE_ENDS:,} characters left out ...] {line[-LINE_ENDS:]}"
