"""Makes text from models, candidates and foreign files safe for a terminal.

Control characters could move the cursor, recolour the screen or retitle the window, and direction marks could show code
in another order than it runs. Each is replaced by its code. Files and JSON keep the text unchanged.
"""

from __future__ import annotations

import re

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
"""Control characters except tab and line feed; characters without width; lone surrogates."""


def legible(text: str) -> str:
    r"""Replace every control character by its number, as in `\\x1b`."""
    return _UNSEEN.sub(lambda found: f"\\x{ord(found[0]):02x}", text.replace("\r\n", "\n"))


def in_a_line(text: str, width: int = 60) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(legible(text[: 8 * width]).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
