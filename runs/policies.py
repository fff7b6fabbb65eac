"""From the words of `--policy` to policies. The only place that knows which kinds there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from triton_agent.policy.protocol import Policy
from triton_agent.tools.errors import UsageError

DEFAULT = "builtin"


def make_policies(text: str) -> list[Policy]:
    """One policy, or several separated by commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("--policy names no policy", remedy=KINDS_TEXT)
    if len(set(names)) != len(names):
        raise UsageError(f"--policy {text}: one of them is named twice")
    return [_make(name) for name in names]


def _make(name: str) -> Policy:
    kind, _, rest = name.partition(":")
    if kind not in _KINDS:
        raise UsageError(f"--policy {name}: there is no such policy", remedy=KINDS_TEXT)
    return _KINDS[kind](rest)


def _builtin(rest: str) -> Policy:
    from triton_agent.policy.builtin import Builtin

    if rest:
        raise UsageError(f"--policy builtin:{rest}: the built-in author takes no argument")
    return Builtin()


def _scripted(rest: str) -> Policy:
    from triton_agent.policy.scripted import Scripted

    return Scripted.from_folder(Path(rest))


_KINDS: dict[str, Callable[[str], Policy]] = {"builtin": _builtin, "scripted": _scripted}
KINDS_TEXT = "one of: builtin (the author that comes along), scripted:FOLDER (kernel files in the order of their names)"
