"""An exception of a candidate as plain data: its kind, its text, and where in the candidate's file it passed."""

from __future__ import annotations

import linecache
import traceback
from typing import Any

TEXT_LIMIT = 4000
"""Characters of an exception's text that are passed on; a candidate decides how long it is."""


def report_of(error: BaseException, path: str) -> dict[str, Any]:
    lines = [
        {"line": frame.lineno, "function": frame.name, "code": (frame.line or "").strip()[:200]}
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    line = getattr(error, "line", None)
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append({"line": error.lineno, "function": "", "code": (error.text or "").strip()[:200]})
    elif isinstance(line, int):
        lines.append({"line": line, "function": "", "code": linecache.getline(path, line).strip()[:200]})
    kinds = [kind.__name__ for kind in type(error).__mro__]
    return {"kind": kinds[0], "kinds": kinds, "text": _text(error), "lines": lines[-4:]}


def _text(error: BaseException) -> str:
    try:
        return str(error)[:TEXT_LIMIT]
    except BaseException:  # a hostile __str__
        return "<no text>"
