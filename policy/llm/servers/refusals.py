"""Reads error responses of servers to decide if, when and how to ask again.

Uses the status, the headers and the text of the body; servers agree on little else. Not covered: requests without any
response; see `exchange.py`.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import json
import re
from collections.abc import Mapping
from typing import Any

WORDS_SHOWN = 300
"""Most characters shown of a server's message; some servers answer with a whole page."""
RETRIED = frozenset({408, 409, 425, 429})
"""Statuses that may pass according to the standard, in addition to all from 500 on."""
OVERFLOW_STATUSES = frozenset({400, 413, 422, 500})
OVERFLOW = re.compile(
    r"context[ _](?:length|size|window|limit)|maximum context|exceed_context|prompt is too long|too many tokens", re.I
)
CONTEXT_IS = re.compile(r"context (?:length|size|window|limit)(?: of| is)?(?: only)?:? ?\(?(\d+)", re.I)
FIELDS_REFUSED = frozenset({400, 422})
OPTIONAL_FIELDS: dict[str, str] = {
    **{
        name: rf"\b{name}\b"
        for name in (
            "return_token_ids",
            "stream_options",
            "logprobs",
            "top_p",
            "top_k",
            "min_p",
            "repetition_penalty",
            "repeat_penalty",
            "reasoning_effort",
            "thinking_token_budget",
            "temperature",
            "seed",
            "stream",
            "max_tokens",
            "system role",
        )
    },
    "n": r"""one completion choice|['"]n['"]|\bn (?:> ?1|must|is not|parameter)|\bn ?= ?\d|body\.n\b""",
    "tools": r"\btools\b|tool[ _]choice|tool-call-parser|tool use",
}
"""Fields that a request can omit or, like `max_tokens` and `system role`, express otherwise; and patterns that find
them in a refusal.
"""
NO_CREDIT = ("insufficient_quota", "billing")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason for a missing answer, and its remedy."""

    what: str
    remedy: str = ""
    again: bool = False
    """True if the failure may be temporary."""
    retry_after_s: float | None = None
    """Wait before a retry that the server named."""
    too_long: bool = False
    context_tokens: int | None = None
    fields: tuple[str, ...] = ()
    """Fields of the request that the server rejects."""


class NoReply(Exception):
    """Raised for a request without an answer; caught within this folder."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.what)
        self.refusal = refusal


def read_refusal(status: int, headers: Mapping[str, str], body: str, *, model: str, key_name: str) -> Refusal:
    """Read a response with a status other than 200."""
    details = _details(body)
    said = _words(details, body)
    what = f"{status}: {said}" if said else f"{status} without a word"
    if 300 <= status < 400:
        return _redirect(status, headers.get("location", ""))
    if status in OVERFLOW_STATUSES and OVERFLOW.search(f"{said} {details.get('code')} {details.get('type')}"):
        return Refusal(what=what, too_long=True, context_tokens=_context(details, said))
    if status in (401, 403):
        return Refusal(what=what, remedy=f"put a valid key into {key_name}, or name another with --api-key-env")
    if status == 402 or any(word in f"{details.get('code')} {details.get('type')}" for word in NO_CREDIT):
        return Refusal(what=what, remedy="the account has no credit left")
    if status == 404:
        return Refusal(
            what=what, remedy=f"check that the server calls its model {model} and that --base-url is its address"
        )
    if status in FIELDS_REFUSED:
        fields = _fields(f"{said} '{details.get('param') or ''}'")
        return Refusal(what=what, fields=fields, remedy="try a lower --max-answer-tokens" if "max_" in said else "")
    if status in RETRIED or status >= 500:
        return Refusal(what=what, again=True, retry_after_s=_retry_after(headers))
    return Refusal(what=what)


def read_error_event(error: Any, *, model: str, key_name: str) -> Refusal:
    """Read an error in the middle of a stream as if its code were the status."""
    details = error if isinstance(error, dict) else {"message": str(error)}
    code = details.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return read_refusal(status, {}, json.dumps({"error": details}), model=model, key_name=key_name)


def _details(body: str) -> dict[str, Any]:
    """Return the informative part of an error response, which servers put in different places."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    if isinstance(found, list) and found:
        found = found[0]
    if not isinstance(found, dict):
        return {}
    for name in ("error", "detail"):
        inner = found.get(name)
        if isinstance(inner, dict):
            return inner
        if inner:
            return {**found, "message": inner if isinstance(inner, str) else json.dumps(inner)}
    return found


def _words(details: dict[str, Any], body: str) -> str:
    message = details.get("message")
    text = message if isinstance(message, str) and message else re.sub(r"<[^>]*>", " ", body)
    return " ".join(text.split())[:WORDS_SHOWN]


def _redirect(status: int, location: str) -> Refusal:
    to = location.partition("?")[0] or "nowhere"
    return Refusal(
        what=f"{status}: it redirects to {to}",
        remedy="name the right address with --base-url; questions and keys are not sent to other addresses",
    )


def _context(details: dict[str, Any], said: str) -> int | None:
    told = details.get("n_ctx")
    found = CONTEXT_IS.search(said)
    tokens = told if isinstance(told, int) else int(found[1]) if found else 0
    return tokens if tokens > 0 else None


def _fields(said: str) -> tuple[str, ...]:
    named = [name for name, words in OPTIONAL_FIELDS.items() if re.search(words, said, re.I)]
    return tuple(name for name in named if name != "max_tokens" or "max_completion_tokens" in said)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait in seconds; servers send seconds, milliseconds under another name, or a date."""
    for name, unit_s in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d*)?", text):
            return float(text) * unit_s
        if text and unit_s == 1.0:
            return _until(text)
    return None


def _until(date: str) -> float | None:
    try:
        then = email.utils.parsedate_to_datetime(date)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=datetime.UTC)
    return max(0.0, (then - datetime.datetime.now(datetime.UTC)).total_seconds())
