"""Options for language models, shared by the commands that use them.

Keys are never options: `--api-key-env` names the environment variable that holds one. These options are stored with a
run.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triton_agent.tools.errors import UsageError

if TYPE_CHECKING:
    from triton_agent.policy.llm.engine import Sampling
    from triton_agent.policy.llm.engines.vllm_engine import VllmSettings
    from triton_agent.policy.llm.servers.pacing import Limits
    from triton_agent.policy.llm.servers.price import Price

DTYPES = ("auto", "float32", "bfloat16", "float16")
HOTTEST = 2.0
"""Highest temperature that servers accept."""

BASE_URL = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Server of openai:MODEL: http://127.0.0.1:8000/v1")
]
API_KEY_ENV = Annotated[
    str | None,
    typer.Option("--api-key-env", metavar="NAME", help="Environment variable with the key; default: OPENAI_API_KEY."),
]
TEMPERATURE = Annotated[
    float | None, typer.Option("--temperature", help="Sampling temperature of the language model; default: 0.8.")
]
TOP_P = Annotated[
    float | None, typer.Option("--top-p", help="Sample from the likeliest tokens whose probabilities add up to this.")
]
TOP_K = Annotated[int | None, typer.Option("--top-k", help="Sample from this many likeliest tokens; 0: from all.")]
MIN_P = Annotated[
    float | None, typer.Option("--min-p", help="Ignore tokens below this share of the likeliest token's probability.")
]
REPETITION_PENALTY = Annotated[
    float | None, typer.Option("--repetition-penalty", help="Above 1: make repeated tokens less likely.")
]
MAX_ANSWER_TOKENS = Annotated[
    int | None, typer.Option("--max-answer-tokens", help="Maximum length of one answer; default: 8192.")
]
MAX_THINKING_TOKENS = Annotated[
    int | None,
    typer.Option(
        "--max-thinking-tokens",
        help="Maximum length of the thoughts before an answer; default with --reasoning-effort: 16384.",
    ),
]
REASONING_EFFORT = Annotated[
    str | None,
    typer.Option("--reasoning-effort", metavar="WORD", help="openai: how long to think: low, medium, high, ..."),
]
EXTRA_BODY = Annotated[
    str | None, typer.Option("--extra-body", metavar="JSON", help="openai: additional fields of each request.")
]
REQUESTS_PER_MINUTE = Annotated[
    int | None, typer.Option("--requests-per-minute", help="openai: maximum number of requests a minute.")
]
TOKENS_PER_MINUTE = Annotated[
    int | None, typer.Option("--tokens-per-minute", help="openai: maximum number of tokens a minute, prompts included.")
]
MODEL_TOOLS = Annotated[
    bool,
    typer.Option(
        "--model-tools",
        help="openai: let the model read profiles, try drafts and recall earlier runs before it answers.",
    ),
]
CONTEXT_TOKENS = Annotated[
    int | None, typer.Option("--context-tokens", help="Context length, if the server does not report it.")
]
PRICE = Annotated[
    str | None, typer.Option("--price", metavar="IN,OUT[,CACHED]", help="Price of a million tokens: 0.15,0.60.")
]
VLLM_PYTHON = Annotated[
    str | None,
    typer.Option(
        "--vllm-python", metavar="PATH", help="Python with vLLM installed; default: $TRITON_AGENT_VLLM_PYTHON."
    ),
]
ADAPTER = Annotated[str | None, typer.Option("--adapter", metavar="DIR", help="LoRA adapter for vllm:MODEL.")]
SPECULATE = Annotated[
    int | None,
    typer.Option("--speculate", metavar="N", help="vllm: predict N tokens from repeated text; answers stay the same."),
]
GPU_MEMORY = Annotated[
    float | None, typer.Option("--gpu-memory", metavar="SHARE", help="vllm: share of the GPU's memory; default: 0.6.")
]
MODEL_DTYPE = Annotated[
    str | None,
    typer.Option("--model-dtype", metavar="T", help="hf, vllm: compute in float32 or bfloat16; default: as stored."),
]
STRUCTURED = Annotated[
    bool, typer.Option("--structured", help="vllm: constrain answers to a plan and one Python file.")
]
OPTIONS: dict[str, tuple[Any, Any]] = {
    "base_url": (BASE_URL, None),
    "api_key_env": (API_KEY_ENV, None),
    "temperature": (TEMPERATURE, None),
    "top_p": (TOP_P, None),
    "top_k": (TOP_K, None),
    "min_p": (MIN_P, None),
    "repetition_penalty": (REPETITION_PENALTY, None),
    "max_answer_tokens": (MAX_ANSWER_TOKENS, None),
    "max_thinking_tokens": (MAX_THINKING_TOKENS, None),
    "reasoning_effort": (REASONING_EFFORT, None),
    "extra_body": (EXTRA_BODY, None),
    "requests_per_minute": (REQUESTS_PER_MINUTE, None),
    "tokens_per_minute": (TOKENS_PER_MINUTE, None),
    "model_tools": (MODEL_TOOLS, False),
    "context_tokens": (CONTEXT_TOKENS, None),
    "price": (PRICE, None),
    "vllm_python": (VLLM_PYTHON, None),
    "adapter": (ADAPTER, None),
    "speculate": (SPECULATE, None),
    "gpu_memory": (GPU_MEMORY, None),
    "model_dtype": (MODEL_DTYPE, None),
    "structured": (STRUCTURED, False),
}
"""Options of every command that uses language models: annotation and default by name."""


ONLY_FOR: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("reasoning_effort", "extra_body", "requests_per_minute", "tokens_per_minute", "model_tools"), ("openai",)
    ),
    **dict.fromkeys(("top_p", "top_k", "min_p", "repetition_penalty", "max_thinking_tokens"), ("openai", "vllm", "hf")),
    "structured": ("vllm",),
}
"""The kinds of language models that support an option; other kinds refuse it."""
THINKING_TOKENS = 16_384
"""Maximum length of thoughts if --reasoning-effort is given without --max-thinking-tokens."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Values of the options; None for an option that was not given."""

    base_url: str | None = None
    api_key_env: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_answer_tokens: int | None = None
    max_thinking_tokens: int | None = None
    reasoning_effort: str | None = None
    extra_body: str | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    model_tools: bool = False
    context_tokens: int | None = None
    price: str | None = None
    vllm_python: str | None = None
    adapter: str | None = None
    speculate: int | None = None
    gpu_memory: float | None = None
    model_dtype: str | None = None
    structured: bool = False

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature <= HOTTEST:
            raise UsageError(f"--temperature {self.temperature}", remedy=f"a number from 0 to {HOTTEST:g}")
        for name in ("max_answer_tokens", "context_tokens", "requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} {value}", remedy="at least 1")
        for name in ("top_k", "max_thinking_tokens"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UsageError(f"--{name.replace('_', '-')} {value}", remedy="at least 0")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"--top-p {self.top_p}", remedy="above 0, at most 1")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise UsageError(f"--min-p {self.min_p}", remedy="a number from 0 to 1")
        if self.repetition_penalty is not None and self.repetition_penalty <= 0:
            raise UsageError(f"--repetition-penalty {self.repetition_penalty}", remedy="above 0; 1 for none")
        self.extra_fields()
        if self.speculate is not None and self.speculate < 0:
            raise UsageError(f"--speculate {self.speculate}", remedy="a number of tokens; 0: no speculation")
        if self.gpu_memory is not None and not 0 < self.gpu_memory <= 1:
            raise UsageError(f"--gpu-memory {self.gpu_memory}", remedy="above 0, at most 1")
        if self.model_dtype is not None and self.model_dtype not in DTYPES:
            raise UsageError(f"--model-dtype {self.model_dtype}", remedy=f"one of {', '.join(DTYPES)}")

    def sampling(self) -> Sampling:
        """Return the settings for sampling."""
        from triton_agent.policy.llm.engine import Sampling

        usual, pattern = Sampling(), ""
        if self.structured:
            from triton_agent.policy.answer import ANSWER_PATTERN as pattern
        thinking = self.max_thinking_tokens
        given: dict[str, Any] = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "min_p": self.min_p,
            "repetition_penalty": self.repetition_penalty,
            "max_tokens": self.max_answer_tokens,
            "max_thinking_tokens": THINKING_TOKENS if thinking is None and self.reasoning_effort else thinking,
            "pattern": pattern,
        }
        return dataclasses.replace(usual, **{name: value for name, value in given.items() if value is not None})

    def extra_fields(self) -> dict[str, Any]:
        """Return the additional fields of each request."""
        try:
            found = json.loads(self.extra_body) if self.extra_body is not None else {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            remedy = """a JSON object, as in '{"chat_template_kwargs": {"enable_thinking": true}}'"""
            raise UsageError(f"--extra-body {self.extra_body}", remedy=remedy)
        return found

    def limits(self) -> Limits:
        """Return the limits per minute of a server."""
        from triton_agent.policy.llm.servers.pacing import Limits

        return Limits(requests=self.requests_per_minute, tokens=self.tokens_per_minute)

    def only_for(self, kind: str) -> None:
        """Raise UsageError if an option was given that this kind of language model does not support."""
        for name, kinds in ONLY_FOR.items():
            if getattr(self, name) not in (None, False) and kind not in kinds:
                others = " or ".join(f"{other}:" for other in kinds)
                raise UsageError(f"--{name.replace('_', '-')}: not for {kind}:", remedy=f"use {others}")

    def vllm(self) -> VllmSettings:
        """Return the settings for starting vLLM."""
        from triton_agent.policy.llm.engines.vllm_engine import VllmSettings

        given = {
            "python": self.vllm_python,
            "adapter": self.adapter,
            "guess_ahead": self.speculate,
            "gpu_memory": self.gpu_memory,
            "dtype": self.model_dtype,
            "context_tokens": self.context_tokens,
        }
        return VllmSettings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]

    def price_list(self) -> Price:
        from triton_agent.policy.llm.servers.price import parse_price

        return parse_price(self.price)
