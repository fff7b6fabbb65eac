"""Makes policies from `--policy`. This is the only module that knows all kinds of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from triton_agent.policy.protocol import Policy
from triton_agent.runs.cli.model_options import ModelOptions
from triton_agent.tools.errors import UsageError

if TYPE_CHECKING:
    from triton_agent.policy.llm.engine import Engine

DEFAULT = "builtin"


def make_policies(text: str, options: ModelOptions | None = None) -> list[Policy]:
    """Make one policy, or several separated by commas; the options apply to language models."""
    require_known(text)
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("--policy names no policy", remedy=KINDS_TEXT)
    if len(set(names)) != len(names):
        raise UsageError(f"--policy {text}: one of them is named twice")
    return [_make(name, options or ModelOptions()) for name in names]


def require_known(text: str) -> None:
    """Raise UsageError if a policy is of no known kind. Makes none of them."""
    for name in filter(None, map(str.strip, text.split(","))):
        if name.partition(":")[0] not in {*_MODELS, *_KINDS}:
            raise UsageError(f"--policy {name}: there is no such policy", remedy=KINDS_TEXT)


def asks_models(text: str) -> bool:
    """Return True if one of the named policies is a language model."""
    return any(name.strip().partition(":")[0] in _MODELS for name in text.split(","))


def _make(name: str, options: ModelOptions) -> Policy:
    kind, _, rest = name.partition(":")
    if kind in _MODELS:
        options.only_for(kind)
        return _author(_MODELS[kind](rest, options), options)
    return _KINDS[kind](rest)


def _author(engine: Engine, options: ModelOptions) -> Policy:
    from triton_agent.policy.llm.author import LanguageAuthor

    return LanguageAuthor(engine, options.sampling(), uses_tools=options.model_tools)


def _builtin(rest: str) -> Policy:
    from triton_agent.policy.builtin import Builtin

    if rest:
        raise UsageError(f"--policy builtin:{rest}: the built-in author takes no argument")
    return Builtin()


def _scripted(rest: str) -> Policy:
    from triton_agent.policy.scripted import Scripted

    return Scripted.from_folder(Path(rest))


def _own(rest: str) -> Policy:
    from triton_agent.runs.cli.own_policy import load_policy

    return load_policy(rest)


def _openai(rest: str, options: ModelOptions) -> Engine:
    from triton_agent.policy.llm.servers.openai import OpenAIEngine, Server

    server = Server.at(
        options.base_url,
        options.api_key_env,
        context_tokens=options.context_tokens,
        price=options.price_list(),
        limits=options.limits(),
        reasoning_effort=options.reasoning_effort or "",
        extra_body=options.extra_fields(),
    )
    return OpenAIEngine(rest, server)


def _chat(rest: str, options: ModelOptions) -> Engine:
    from triton_agent.policy.llm.servers.chat import open_chat

    return open_chat(
        rest,
        options.sampling(),
        base_url=options.base_url,
        key_name=options.api_key_env,
        context_tokens=options.context_tokens,
        price=options.price_list(),
    )


def _vllm(rest: str, options: ModelOptions) -> Engine:
    from triton_agent.policy.llm.engines.vllm_engine import VllmEngine

    return VllmEngine(rest, options.vllm())


def _hf(rest: str, options: ModelOptions) -> Engine:
    from triton_agent.policy.llm.engines.transformers_engine import TransformersEngine

    if not rest:
        raise UsageError("--policy hf: names no folder", remedy="--policy hf:FOLDER")
    return TransformersEngine(Path(rest).expanduser(), dtype=options.model_dtype or "auto")


_KINDS: dict[str, Callable[[str], Policy]] = {"builtin": _builtin, "scripted": _scripted, "own": _own}
_MODELS: dict[str, Callable[[str, ModelOptions], Engine]] = {
    "openai": _openai,
    "chat": _chat,
    "vllm": _vllm,
    "hf": _hf,
}
KINDS_TEXT = (
    "one of: builtin (the built-in author), scripted:FOLDER (kernel files in the order of their names), "
    "openai:MODEL with --base-url (any server of that format), chat:PROVIDER:MODEL (through LangChain), "
    "vllm:MODEL_OR_FOLDER (vLLM on this machine), hf:FOLDER (a small model in this process), "
    "own:FILE.py:CLASS (your own policy)"
)
