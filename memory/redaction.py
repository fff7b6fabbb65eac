"""Keeps keys and passwords out of the store: what looks like a secret in settings is replaced before it is written.

Three things give a secret away: the name it stands under (`api_key`, `hf_token`, `client_secret`), its own form (a
password in a URL, the prefixes that providers give their keys), or that it is the value of an environment variable of
such a name. Numbers are never secrets (`max_tokens`). What people and models write in sources and messages is not
looked at: there, nothing may be changed.
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
"""One of them anywhere in a name is enough."""
_SECRET_LAST_WORDS = frozenset({"key", "keys", "token", "tokens", "auth", "pass"})
"""They count where they end a name: `api_key` is one, `key_file` and `api_key_env` say where one is."""
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
"""How the providers of models and repositories, clouds and standards write their keys."""
_SHORTEST_SECRET = 8
"""Shorter values of the environment are found everywhere by chance."""


def redact(data: Mapping[str, Any], *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The same plain data without anything that looks like a secret."""
    secrets = secrets_of(os.environ if environment is None else environment)
    return {str(name): _redacted(str(name), value, secrets) for name, value in data.items()}


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Text without passwords in URLs, keys of a known form, or any of the `secrets`."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = _PASSWORD_IN_URL.sub(rf"\g<before>{REDACTED}", text)
    text = _PASSWORD_IN_QUERY.sub(rf"\g<before>{REDACTED}", text)
    return _KEY_FORMS.sub(REDACTED, text)


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values of environment variables with a telling name; the longest first, since one may hold another."""
    found = {value for name, value in environment.items() if is_telling(name) and len(value) >= _SHORTEST_SECRET}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def is_telling(name: str) -> bool:
    """Return whether what stands under that name is a secret, as far as a name can tell."""
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
