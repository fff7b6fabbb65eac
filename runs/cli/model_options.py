"""Options for language models, shared by the commands that use them.

Keys are never options: `--api-key-env` names the environment variable that holds one. These options are stored with a
run.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triton_agent.tools.errors import UsageError

if TYPE_CHECKING:
    from triton_agent.policy.llm.engine import Sampling
    from triton_agent.policy.llm.engines.vllm_engine import VllmSettings
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
MAX_ANSWER_TOKENS = Annotated[
    int | None,
    typer.Option("--max-answer-tokens", help="Length of one answer at most, reasoning included; default: 8192."),
]
CONTEXT_TOKENS = Annotated[
    int | None, typer.Option("--context-tokens", help="Context length, if the server does not report it.")
]
PRICE = Annotated[
    str | None, typer.Option("--price", metavar="IN,OUT", help="Price of a million input and output tokens: 0.15,0.60.")
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
    typer.Option(
        "--speculate", metavar="N", help="vllm: speculate N tokens from repeated text; answers stay the same."
    ),
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
    "max_answer_tokens": (MAX_ANSWER_TOKENS, None),
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The options as given; None if not given."""

    base_url: str | None = None
    api_key_env: str | None = None
    temperature: float | None = None
    max_answer_tokens: int | None = None
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
        for name in ("max_answer_tokens", "context_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} {value}", remedy="at least 1")
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
            from triton_agent.policy.llm.prompting.answer_pattern import ANSWER_PATTERN as pattern
        return Sampling(
            temperature=usual.temperature if self.temperature is None else self.temperature,
            max_tokens=usual.max_tokens if self.max_answer_tokens is None else self.max_answer_tokens,
            pattern=pattern,
        )

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
