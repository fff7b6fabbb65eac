"""Keeps keys and passwords out of the store: replaces what looks like a secret in settings before they are written.

A value counts as a secret by its name (`api_key`, `hf_token`, `client_secret`), by its form (a password in a URL, the
prefixes that providers give their keys), or because it is the value of an environment variable with such a name.
Numbers are never redacted, as in `max_tokens`. Sources and messages of people and models are not searched: they have
to be kept unchanged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

REDACTED = "[redacted]"
_SECRET_WORDS = frozenset(
    {"secret", "secrets", "password", "passwd", "passphrase", "credential", "credentials"}
    | {"authorization", "apikey", "bearer", "cookie"}
)
"""One of these words anywhere in a name is enough."""
_SECRET_LAST_WORDS = frozenset({"key", "keys", "token", "tokens", "auth", "pass"})
"""These words count only at the end of a name: `api_key` is a secret, `key_file` and `api_key_env` say where one is."""
_TOKENS_OF_TEXT = frozenset({"eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "start", "end", "special"})
_ATTEMPT_KEY = re.compile(r"[^\s/]+/\d+\.\d+")
_PASSWORD_IN_URL = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s@/]+(?=@)", re.IGNORECASE)
_PASSWORD_IN_QUERY = re.compile(
    r"(?P<before>[?&;](?:[a-z0-9_-]*(?:key|token|secret|password|passwd|pwd|signature))=)[^\s&;#]+", re.IGNORECASE
)
_KEY_FORMS = re.compile(
    r"""\b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,} | \bhf_[A-Za-z0-9]{16,} | \bgh[pousr]_[A-Za-z0-9]{20,}
      | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,} | \bxox[abprs]-[\w-]{10,} | \bA[KS]IA[A-Z0-9]{16}\b
      | \bAIza[\w-]{30,} | \bnvapi-[\w-]{20,} | \beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}
      | (?<=\bBearer[ ])[\w.~+/=-]{8,}
      | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*KEY-----|\Z)""",
    re.VERBOSE | re.DOTALL,
)
"""Patterns of keys as providers of models, repositories and clouds write them, and of private keys."""
_SHORTEST_SECRET = 8
"""Shorter values of environment variables would match by chance."""


def redact(data: Mapping[str, Any], *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the data with everything that looks like a secret replaced."""
    secrets = secrets_of(os.environ if environment is None else environment)
    return {str(name): _redacted(str(name), value, secrets) for name, value in data.items()}


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace passwords in URLs, keys of a known form, and all `secrets` in a text."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = _PASSWORD_IN_URL.sub(rf"\g<before>{REDACTED}", text)
    text = _PASSWORD_IN_QUERY.sub(rf"\g<before>{REDACTED}", text)
    return _KEY_FORMS.sub(REDACTED, text)


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of environment variables with a telling name, longest first, since one may contain another."""
    found = {value for name, value in environment.items() if is_telling(name) and len(value) >= _SHORTEST_SECRET}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def is_telling(name: str) -> bool:
    """Return True if a value of that name is a secret, as far as a name can tell."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    if _SECRET_WORDS & {*words, "".join(words)}:
        return True
    return words[-1:] != [] and words[-1] in _SECRET_LAST_WORDS and not _TOKENS_OF_TEXT & set(words)


def _redacted(name: str, value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _redacted(str(key), item, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(name, item, secrets) for item in value]
    if not isinstance(value, str):
        return value
    if is_telling(name) and value and not _ATTEMPT_KEY.fullmatch(value):
        return REDACTED
    return redact_text(value, secrets)
