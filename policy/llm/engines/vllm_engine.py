"""`vllm:MODEL_OR_FOLDER`: a vLLM engine in its own process, under an interpreter that has vLLM.

It starts at the first question. vLLM batches all questions of a turn, and of all runs that share the engine, and
computes shared prefixes once. Tokens are those that were sampled; log-probabilities are those of the distribution that
they were sampled from, after temperature and cut-offs. An engine that dies is restarted once for its unanswered
questions. Not covered: several machines; use `openai:` for servers.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.memory.records import Distribution, Usage
from triton_agent.policy.llm.engine import EngineError, ModelQuestion, Sampled, Trouble, seeds_of
from triton_agent.policy.llm.engines.interpreters import find_interpreter
from triton_agent.policy.llm.engines.lookup import ModelLookup
from triton_agent.policy.llm.engines.model_folder import (
    PLAIN_TEMPLATE,
    context_of,
    in_float32,
    require_model,
    version_of,
)
from triton_agent.policy.llm.engines.vllm_process import EngineGone, VllmProcess
from triton_agent.tools.errors import UsageError

QUIET = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONSAFEPATH": "1",
}
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
NOT_HANDED_ON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "TRITON_INTERPRET", "TRITON_CACHE_DIR")
"""Variables of this environment that would be wrong in the other interpreter."""
SECRETS = ("_API_KEY", "_SECRET", "_PASSWORD")
MODES = {"processed_logprobs": Distribution.SAMPLED, "raw_logprobs": Distribution.MODEL}
"""vLLM's names for the log-probabilities that it returns."""
END_GRACE_S = 20.0
"""Time for a clean shutdown, which takes about five seconds and frees memory shared with vLLM's own processes."""
GUESS_FROM, GUESS_FROM_AT_MOST = 3, 6
"""Least and greatest number of last tokens that must have occurred before for their continuation to be guessed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    python: str | None = None
    """Interpreter with vLLM; None uses the one in the environment variable, or else this one."""
    adapter: str | None = None
    """LoRA adapter: a folder, or a name on the hub."""
    adapts: bool = False
    """Start with room for an adapter that comes later, by `reload`."""
    adapter_rank: int = 64
    """Highest rank of an adapter."""
    guess_ahead: int = 0
    """Tokens guessed from repetitions in question and answer and verified in one step; 0 turns this off."""
    context_tokens: int | None = None
    """A limit below the model's own, to save memory."""
    dtype: str = "auto"
    """Dtype to compute in; "auto" is that of the stored weights."""
    gpu_memory: float = 0.6
    """Share of a GPU's memory for the engine; the rest is for judging kernels."""
    gpus: int = 1
    """GPUs that share the weights."""
    cpu_cache_gb: int = 4
    eager: bool = False
    """Skip compilation: a faster start, but slower answers."""
    start_within_s: float = 1800.0
    """Time limit for starting; large weights come from slow disks."""
    answer_within_s: float = 3600.0
    """Time limit for all questions of one turn."""

    def __post_init__(self) -> None:
        for name in ("guess_ahead", "adapter_rank", "gpus", "cpu_cache_gb"):
            if getattr(self, name) < (0 if name == "guess_ahead" else 1):
                raise UsageError(f"{name} {getattr(self, name)} is too little for a vLLM engine")
        if not 0 < self.gpu_memory <= 1:
            raise UsageError(f"gpu_memory {self.gpu_memory} is not a share", remedy="above 0, at most 1")


class VllmEngine:
    """An engine that keeps only its process between calls."""

    def __init__(self, model: str, settings: VllmSettings | None = None) -> None:
        self.name = f"vllm:{model}"
        self.settings = settings or VllmSettings()
        self._model = model
        self._adapter = _found_adapter(self.settings.adapter)
        path = Path(model).expanduser()
        if model and path.is_dir():
            require_model(path, f"--policy {self.name}")
        elif not model or model.startswith((".", "/", "~")) or model.count("/") > 1:
            raise UsageError("no such folder", where=f"--policy {self.name}", remedy="name a folder or a hub's model")
        self._weights = str(path.resolve()) if path.is_dir() else model
        self._python = find_interpreter(self.settings.python)
        self._lookup = ModelLookup(self._weights, self._python, self._environment())
        self._process: VllmProcess | None = None

    @property
    def version(self) -> str:
        """Version of the weights in use and of the adapter."""
        return "+".join(filter(None, (self._lookup.version(), self.adapter_version)))

    @property
    def adapter_version(self) -> str:
        """Version of the adapter in use; empty without one."""
        if self._adapter is None:
            return ""
        folder = Path(self._adapter)
        return version_of(folder) if folder.is_dir() else self._adapter

    @property
    def context_tokens(self) -> int:
        limit = context_of(self._lookup.folder())
        return min(limit, self.settings.context_tokens or limit)

    def count(self, text: str) -> int:
        """Count with the model's tokenizer; the engine need not run."""
        return self._lookup.count(text)

    async def prepare(self) -> None:
        """Find the model's small files and tokenizer, in a thread because the hub may have to be asked."""
        await asyncio.to_thread(self.count, "")

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        """Answer all questions, batched by vLLM."""
        try:
            async with asyncio.timeout(self.settings.start_within_s + self.settings.answer_within_s):
                try:
                    return await self._answer(questions)
                except EngineGone:  # the same seeds give the same answers
                    return await self._answer(questions)
        except TimeoutError as error:
            await self.close()
            raise EngineError("vLLM gave no answer in time", where=self.name) from error

    async def reload(self, folder: Path) -> None:
        """Replace the weights or the adapter by those in this folder.

        An adapter is replaced in the running engine. Other weights take effect in a new engine at the next question:
        vLLM can load weights in place, but on a CPU it silently kept parts of the old ones.
        """
        if (folder / "adapter_config.json").is_file():
            await self._adapt(folder)
            return
        require_model(folder, "new weights")
        await self.close()
        self._weights = str(folder.resolve())
        self._lookup = ModelLookup(self._weights, self._python, self._environment())

    async def _adapt(self, folder: Path) -> None:
        if self._adapter is None and not self.settings.adapts:
            raise UsageError("the engine was started without adapters", remedy="start it with one: the setting adapter")
        if self._process and self._process.alive:
            reply = await self._asked(self._process, {"adapt": str(folder.resolve())})
            if "done" not in reply:
                raise EngineError(f"the adapter does not load: {reply.get('error', reply)}", where=str(folder))
        self._adapter = str(folder.resolve())

    async def close(self) -> None:
        process, self._process = self._process, None
        if process:
            await asyncio.to_thread(process.end, END_GRACE_S)
        await asyncio.to_thread(self._lookup.close)

    async def _answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        process = await self._running()
        tasks = [asyncio.ensure_future(self._one(process, question)) for question in questions]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _running(self) -> VllmProcess:
        """Return the engine's process once it has started."""
        if self._process is None or not self._process.alive:
            self._process = VllmProcess(self._python, self._start(), self._environment())
        process = self._process
        ready = asyncio.wrap_future(process.ready)
        # retrieve the exception even if no caller waits any more
        ready.add_done_callback(lambda done: done.cancelled() or done.exception())
        limit_s = self.settings.start_within_s
        if not (await asyncio.wait({ready}, timeout=limit_s))[0]:
            await asyncio.to_thread(process.kill)
            raise EngineError(f"vLLM did not start within {limit_s:g} s", where=self.name)
        try:
            ready.result()
        except EngineGone as error:
            raise EngineError("vLLM ended while it started", where=error.where, remedy=error.remedy) from error
        return process

    async def _one(self, process: VllmProcess, question: ModelQuestion) -> list[Sampled]:
        drawn = question.sampling
        asked = {
            "messages": [{"role": message.role, "content": message.content} for message in question.messages],
            "seeds": seeds_of(question),
            "temperature": drawn.temperature,
            "top_p": drawn.top_p,
            "top_k": drawn.top_k,
            "min_p": drawn.min_p,
            "repetition_penalty": drawn.repetition_penalty,
            "max_tokens": drawn.tokens_at_most,
            "pattern": drawn.pattern,
        }
        began, version, adapter = time.monotonic(), self.version, self.adapter_version
        reply = await self._asked(process, {"ask": asked})
        wall_s = time.monotonic() - began
        if reply.get("dead"):
            await asyncio.to_thread(process.kill)
            raise EngineGone("vLLM's engine died", where=self.name, remedy=reply["error"])
        if "refused" in reply:
            return [Sampled(text="", trouble=Trouble(what=reply["refused"], too_long=True))]
        if "answers" not in reply:
            raise EngineError(f"vLLM refuses the question: {reply.get('error', reply)}", where=self.name)
        said = process.ready.result()
        return [
            Sampled(
                text=found["text"],
                finish_reason=found["finish_reason"],
                prompt_ids=tuple(found["prompt_ids"]),
                token_ids=tuple(found["token_ids"]),
                log_probabilities=tuple(found["log_probabilities"]),
                log_probabilities_of=MODES.get(said["logprobs_mode"], Distribution.UNKNOWN),
                sampling=drawn.record(seed=found["seed"], tokens_at_most=found["tokens_at_most"]),
                tokenizer=said["tokenizer"],
                usage=Usage(
                    prompt_tokens=len(found["prompt_ids"]),
                    completion_tokens=len(found["token_ids"]),
                    wall_s=wall_s,
                ),
                version=version,
                adapter_version=adapter,
            )
            for found in reply["answers"]
        ]

    async def _asked(self, process: VllmProcess, request: Mapping[str, Any]) -> dict[str, Any]:
        number, reply = await asyncio.to_thread(process.ask, request)
        try:
            return await asyncio.wrap_future(reply)
        finally:
            if not reply.done() or reply.cancelled():
                process.cancel(number)

    def _start(self) -> dict[str, Any]:
        settings = self.settings
        engine: dict[str, Any] = {
            "model": self._weights,
            "dtype": self._dtype(),
            "enable_prefix_caching": True,
            "logprobs_mode": "processed_logprobs",
            "gpu_memory_utilization": settings.gpu_memory,
            "tensor_parallel_size": settings.gpus,
            "enforce_eager": settings.eager,
            "seed": 0,
        }
        if settings.context_tokens:
            engine["max_model_len"] = self.context_tokens
        if settings.guess_ahead:
            engine["speculative_config"] = {
                "method": "ngram",
                "num_speculative_tokens": settings.guess_ahead,
                "prompt_lookup_min": GUESS_FROM,
                "prompt_lookup_max": GUESS_FROM_AT_MOST,
            }
        if self._adapter or self.settings.adapts:
            engine |= {"enable_lora": True, "max_lora_rank": settings.adapter_rank}
        return {"engine": engine, "plain_template": PLAIN_TEMPLATE, "adapter": self._adapter}

    def _dtype(self) -> str:
        """Return vLLM's name of the dtype. Its own `auto` computes in bfloat16 with weights that are float32, and then
        answers have other probabilities than in training.
        """
        dtype = self.settings.dtype
        return "float32" if dtype == "auto" and in_float32(self._lookup.folder()) else dtype

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in NOT_HANDED_ON and not name.endswith(SECRETS)
        }
        offline = OFFLINE if Path(self._weights).is_dir() and not _on_hub(self._adapter) else {}
        return kept | QUIET | offline | {"VLLM_CPU_KVCACHE_SPACE": str(self.settings.cpu_cache_gb)}


def _on_hub(adapter: str | None) -> bool:
    return adapter is not None and not Path(adapter).is_dir()


def _found_adapter(named: str | None) -> str | None:
    """Return an adapter's absolute path, or its name on the hub."""
    if named is None:
        return None
    folder = Path(named).expanduser()
    if folder.is_dir():
        if not (folder / "adapter_config.json").is_file():
            raise UsageError("no adapter_config.json there: not an adapter", where=f"--adapter {named}")
        return str(folder.resolve())
    if not named or named.startswith((".", "/", "~")) or named.count("/") > 1:
        raise UsageError("no such folder", where=f"--adapter {named}", remedy="a folder with adapter_config.json")
    return named
