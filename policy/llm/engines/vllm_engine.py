"""`vllm:MODEL_OR_FOLDER`: a vLLM engine of our own, in a process of its own, under an interpreter that has vLLM.

Started at the first question. All questions of a turn, and of all runs that share the engine, are batched by vLLM as
they come; beginnings that questions share are computed once. Tokens are those that were drawn, and log-probabilities
those of the distribution they were drawn from, temperature and cut-offs included. An engine that dies is started once
more for the questions it owed. Not covered: several machines; see `openai:` for servers.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.policy.llm.engine import EngineError, Question, Sampled, Trouble
from triton_agent.policy.llm.engines.interpreters import find_interpreter
from triton_agent.policy.llm.engines.lookup import Lookup
from triton_agent.policy.llm.engines.model_folder import PLAIN_TEMPLATE, context_of, require_model, version_of
from triton_agent.policy.llm.engines.vllm_process import EngineGone, VllmProcess
from triton_agent.policy.llm.seeds import seeds_of
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
"""Ours, and wrong in another environment."""
SECRETS = ("_API_KEY", "_SECRET", "_PASSWORD")
END_GRACE_S = 20.0
"""A tidy end takes about five; it frees memory shared with vLLM's own processes."""
GUESS_FROM, GUESS_FROM_AT_MOST = 3, 6
"""How many last tokens must have occurred before, so that what followed them then is guessed again."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """How an engine is started."""

    python: str | None = None
    """Interpreter that has vLLM; None looks in the environment, then takes this one."""
    adapter: str | None = None
    """Low-rank matrices to answer with: a folder, or a name on the hub."""
    adapter_rank: int = 64
    """The highest rank an adapter may have."""
    guess_ahead: int = 0
    """Tokens guessed from what repeats in question and answer, then checked all at once; 0 draws one after another."""
    context_tokens: int | None = None
    """Less than the model could, to save memory."""
    dtype: str = "auto"
    gpu_memory: float = 0.6
    """Share of a GPU's memory; kernels are judged on the same GPU."""
    gpus: int = 1
    """Over which the weights are split."""
    cpu_cache_gb: int = 4
    eager: bool = False
    """Starts faster, answers slower: compiles nothing."""
    start_within_s: float = 1800.0
    """Large weights come from slow disks."""
    answer_within_s: float = 3600.0
    """For all questions of one turn."""

    def __post_init__(self) -> None:
        for name in ("guess_ahead", "adapter_rank", "gpus", "cpu_cache_gb"):
            if getattr(self, name) < (0 if name == "guess_ahead" else 1):
                raise UsageError(f"{name} {getattr(self, name)} is too little for a vLLM engine")
        if not 0 < self.gpu_memory <= 1:
            raise UsageError(f"gpu_memory {self.gpu_memory} is no share", remedy="above 0, at most 1")


class VllmEngine:
    """Keeps nothing between calls but the running engine."""

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
        self._lookup = Lookup(self._weights, self._python, self._environment())
        self._process: VllmProcess | None = None

    @property
    def version(self) -> str:
        """Of the weights in use, and of the adapter."""
        own = self._lookup.version()
        if self._adapter is None:
            return own
        folder = Path(self._adapter)
        return f"{own}+{version_of(folder) if folder.is_dir() else self._adapter}"

    @property
    def context_tokens(self) -> int:
        limit = context_of(self._lookup.folder())
        return min(limit, self.settings.context_tokens or limit)

    def count(self, text: str) -> int:
        """By the model's tokenizer; the engine need not run."""
        return self._lookup.count(text)

    async def prepare(self) -> None:
        """Finds the model's small files, and its tokenizer, in a thread: the hub may be asked for them."""
        await asyncio.to_thread(self.count, "")

    async def answer(self, questions: Sequence[Question]) -> list[list[Sampled]]:
        """All answers to all questions, batched by the engine."""
        try:
            async with asyncio.timeout(self.settings.start_within_s + self.settings.answer_within_s):
                try:
                    return await self._answer(questions)
                except EngineGone:  # seeds make it the same answers
                    return await self._answer(questions)
        except TimeoutError as error:
            await self.close()
            raise EngineError("vLLM gave no answer in time", where=self.name) from error

    async def reload(self, folder: Path) -> None:
        """Answer with the weights of this folder, or the adapter in it, from now on.

        An adapter is changed in the running engine. For other weights the next question starts another one: vLLM can
        load them in place, but on a CPU it kept parts of the old ones, without a word.
        """
        if (folder / "adapter_config.json").is_file():
            await self._adapt(folder)
            return
        require_model(folder, "new weights")
        await self.close()
        self._weights = str(folder.resolve())
        self._lookup = Lookup(self._weights, self._python, self._environment())

    async def _adapt(self, folder: Path) -> None:
        if self._adapter is None:
            raise UsageError("the engine was started without adapters", remedy="start it with one: the setting adapter")
        if self._process and self._process.alive:
            reply = await self._asked(self._process, {"adapt": str(folder.resolve())})
            if "done" not in reply:
                raise EngineError(f"the adapter does not load: {reply.get('error', reply)}", where=str(folder))
        self._adapter = str(folder.resolve())

    async def close(self) -> None:
        """End the engine's process."""
        process, self._process = self._process, None
        if process:
            await asyncio.to_thread(process.end, END_GRACE_S)
        await asyncio.to_thread(self._lookup.close)

    async def _answer(self, questions: Sequence[Question]) -> list[list[Sampled]]:
        process = await self._running()
        tasks = [asyncio.ensure_future(self._one(process, question)) for question in questions]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _running(self) -> VllmProcess:
        """The engine, once it has started."""
        if self._process is None or not self._process.alive:
            self._process = VllmProcess(self._python, self._start(), self._environment())
        process = self._process
        ready = asyncio.wrap_future(process.ready)
        ready.add_done_callback(lambda done: done.cancelled() or done.exception())  # also where nobody waits any more
        limit_s = self.settings.start_within_s
        if not (await asyncio.wait({ready}, timeout=limit_s))[0]:
            await asyncio.to_thread(process.kill)
            raise EngineError(f"vLLM did not start within {limit_s:g} s", where=self.name)
        try:
            ready.result()
        except EngineGone as error:
            raise EngineError("vLLM ended while it started", where=error.where, remedy=error.remedy) from error
        return process

    async def _one(self, process: VllmProcess, question: Question) -> list[Sampled]:
        drawn = question.sampling
        asked = {
            "messages": [{"role": message.role, "content": message.content} for message in question.messages],
            "seeds": seeds_of(question),
            "temperature": drawn.temperature,
            "top_p": drawn.top_p,
            "max_tokens": drawn.max_tokens,
            "pattern": drawn.pattern,
        }
        began, version = time.monotonic(), self.version
        reply = await self._asked(process, {"ask": asked})
        wall_s = time.monotonic() - began
        if reply.get("dead"):
            await asyncio.to_thread(process.kill)
            raise EngineGone("vLLM's engine died", where=self.name, remedy=reply["error"])
        if "refused" in reply:
            return [Sampled(text="", trouble=Trouble(what=reply["refused"], too_long=True))]
        if "answers" not in reply:
            raise EngineError(f"vLLM refuses the question: {reply.get('error', reply)}", where=self.name)
        return [_sampled(found, wall_s, version) for found in reply["answers"]]

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
            "dtype": settings.dtype,
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
        if self._adapter:
            engine |= {"enable_lora": True, "max_lora_rank": settings.adapter_rank}
        return {"engine": engine, "plain_template": PLAIN_TEMPLATE, "adapter": self._adapter}

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
    """A folder by its whole path, or a name for the hub."""
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


def _sampled(found: Mapping[str, Any], wall_s: float, version: str) -> Sampled:
    return Sampled(
        text=found["text"],
        finish_reason=found["finish_reason"],
        prompt_ids=tuple(found["prompt_ids"]),
        token_ids=tuple(found["token_ids"]),
        log_probabilities=tuple(found["log_probabilities"]),
        prompt_tokens=len(found["prompt_ids"]),
        completion_tokens=len(found["token_ids"]),
        wall_s=wall_s,
        version=version,
    )
