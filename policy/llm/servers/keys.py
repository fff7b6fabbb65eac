"""A server's key: read from the environment, sent in one header, never shown."""

from __future__ import annotations

import os
import re

from triton_agent.memory.redaction import REDACTED, redact_text
from triton_agent.tools.errors import UsageError

SHORTEST_SECRET = 8
"""Length from which on a value is treated as a secret. Shorter ones are placeholders for local servers (`EMPTY`), which
may occur in any text.
"""
SENDABLE = re.compile(r"[\x21-\x7e]+")


class Key:
    """The value of an environment variable. If it is empty, no header is sent."""

    __slots__ = ("_secret", "name")

    def __init__(self, name: str, secret: str) -> None:
        self.name = name
        self._secret = secret

    @classmethod
    def from_environment(cls, name: str, *, required: bool = False) -> Key:
        secret = os.environ.get(name, "").strip()
        if required and not secret:
            raise UsageError(
                f"there is no key in {name}",
                remedy=f"export {name}=... before the command; a server of your own is named with --base-url",
            )
        if secret and not SENDABLE.fullmatch(secret):
            raise UsageError(f"the value of {name} cannot be a key", remedy="printable ASCII characters without spaces")
        return cls(name, secret)

    def __repr__(self) -> str:
        return f"Key(from {self.name})"

    def __reduce__(self) -> tuple[object, ...]:
        return Key.from_environment, (self.name,)

    def __bool__(self) -> bool:
        return bool(self._secret)

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._secret}"} if self._secret else {}

    def reveal(self) -> str:
        """Return the key for libraries that take it as an argument; empty if there is none."""
        return self._secret

    def is_in(self, text: str) -> bool:
        return len(self._secret) >= SHORTEST_SECRET and self._secret in text

    def hide(self, text: str) -> str:
        """Replace the key in a text."""
        return text.replace(self._secret, REDACTED) if self.is_in(text) else text

    def clean(self, text: str) -> str:
        """Remove this key, and anything that looks like another, from a server's message."""
        return redact_text(self.hide(text))
