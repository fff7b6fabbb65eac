"""A vLLM engine behind two pipes: JSON lines in, JSON lines out. Runs under any interpreter that has vLLM.

It imports nothing of this project, and vLLM only after the first line, so that it works in another environment and
another version of Python. The first line holds the settings; each later line asks, names another adapter, or cancels.
vLLM batches questions as they arrive. When its input ends, the process ends with everything it started.

Not covered: several machines; images.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))
ENDS = "</end of input>"


class RequestRefused(Exception):
    """Raised for a request that cannot be served while the engine still works."""


def prompt_ids(tokenizer: Any, messages: Sequence[Mapping[str, str]], plain_template: str) -> list[int]:
    """Tokenize a conversation with the model's chat template, or with the plain one if it has none."""
    template = None if getattr(tokenizer, "chat_template", None) else plain_template
    try:
        text = _rendered(tokenizer, messages, template)
    except Exception:  # templates raise any exception; many reject a system role
        text = _rendered(tokenizer, _without_system(messages), template)
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _rendered(tokenizer: Any, messages: Sequence[Mapping[str, str]], template: str | None) -> str:
    text: str = tokenizer.apply_chat_template(
        list(messages), add_generation_prompt=True, tokenize=False, **({"chat_template": template} if template else {})
    )
    return text


def _without_system(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Move the system message before the first user message."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    rest = [dict(message) for message in messages if message["role"] != "system"]
    if system and rest:
        rest[0]["content"] = "\n\n".join([*system, rest[0]["content"]])
    return rest


def text_of(tokenizer: Any, token_ids: Sequence[int]) -> str:
    """Decode tokens without special ones, such as the end of a turn."""
    text: str = tokenizer.decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text


def vocabulary_digest(tokenizer: Any) -> str:
    """Return a digest of all tokens and their ids. Equal digests mean that token ids are interchangeable."""
    digest = hashlib.sha256()
    for token, number in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        digest.update(f"{number} {token!r}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


class Served:
    """The engine, its tokenizer and its adapter."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        from vllm import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM

        # on CPUs vLLM cannot rewind a seeded generator after a piece of a long prompt, and dies
        whole_prompts = {"enable_chunked_prefill": False} if current_platform.is_cpu() else {}
        self.engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**start["engine"], **whole_prompts))
        self.tokenizer = self.engine.get_tokenizer()
        self.plain_template = start["plain_template"]
        self.adapter: Any = None
        self.adapters = 0
        self.requests = 0
        if start["adapter"]:
            self.adapt(start["adapter"])

    @property
    def context_tokens(self) -> int:
        return int(self.engine.model_config.max_model_len)

    def described(self, version: str) -> dict[str, Any]:
        """Return the engine's description of itself, including the kind of log-probabilities that it returns."""
        mode = getattr(self.engine.model_config, "logprobs_mode", "")
        return {
            "vllm": version,
            "context_tokens": self.context_tokens,
            "logprobs_mode": str(getattr(mode, "value", mode)),
            "tokenizer": vocabulary_digest(self.tokenizer),
        }

    def adapt(self, folder: str) -> None:
        """Replace the LoRA adapter."""
        from vllm.lora.request import LoRARequest

        self.adapters += 1  # the engine caches adapters by number, so new weights need a new number
        self.adapter = LoRARequest(f"adapter-{self.adapters}", self.adapters, folder)

    async def ask(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Sample one answer for each seed."""
        ids = prompt_ids(self.tokenizer, asked["messages"], self.plain_template)
        room = self.context_tokens - len(ids)
        if room < 1:
            raise RequestRefused(f"the question takes {len(ids)} tokens and the model {self.context_tokens} in all")
        limit = min(asked["max_tokens"], room)
        return list(await asyncio.gather(*(self._draw(ids, asked, limit, seed) for seed in asked["seeds"])))

    async def _draw(self, ids: list[int], asked: Mapping[str, Any], limit: int, seed: int) -> dict[str, Any]:
        self.requests += 1
        final = None
        params = self._params(asked, limit, seed)
        prompt: Any = {"prompt_token_ids": ids}
        async for output in self.engine.generate(prompt, params, f"q{self.requests}", lora_request=self.adapter):
            final = output
        if final is None:
            raise RequestRefused("the engine gave no answer")
        drawn = final.outputs[0]
        tokens = list(drawn.token_ids)
        return {
            "text": text_of(self.tokenizer, tokens),
            "finish_reason": drawn.finish_reason or "stop",
            "prompt_ids": ids,
            "token_ids": tokens,
            "seed": seed,
            "tokens_at_most": limit,
            "log_probabilities": [at[token].logprob for at, token in zip(drawn.logprobs, tokens)],
        }

    def _params(self, asked: Mapping[str, Any], limit: int, seed: int) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        form = StructuredOutputsParams(regex=asked["pattern"]) if asked["pattern"] else None
        return SamplingParams(
            temperature=asked["temperature"],
            top_p=asked["top_p"],
            top_k=asked["top_k"],
            min_p=asked["min_p"],
            repetition_penalty=asked["repetition_penalty"],
            max_tokens=limit,
            seed=seed,
            logprobs=0,  # only the log-probability of the sampled token
            detokenize=False,  # the whole answer is decoded at once, which is exact and cheaper
            output_kind=RequestOutputKind.FINAL_ONLY,
            structured_outputs=form,
        )


class RequestLoop:
    """Serves requests until the input ends."""

    def __init__(self, served: Served, answers: Any) -> None:
        self.served = served
        self.answers = answers
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self, lines: asyncio.Queue[str]) -> None:
        while (line := await lines.get()) != ENDS:
            request = json.loads(line)
            if "cancel" in request:
                task = self.tasks.get(request["cancel"])
                if task:
                    task.cancel()
                continue
            self.tasks[request["id"]] = asyncio.ensure_future(self._answer(request))

    async def _answer(self, request: Mapping[str, Any]) -> None:
        reply: dict[str, Any]
        try:
            if "adapt" in request:
                self.served.adapt(request["adapt"])
                reply = {"done": True}
            else:
                reply = {"answers": await self.served.ask(request["ask"])}
        except asyncio.CancelledError:
            reply = {"cancelled": True}
        except Exception as error:  # any error of a request becomes its reply, and other requests continue
            reply = {"error": f"{type(error).__name__}: {error}"[:2000], "dead": self.served.engine.errored}
            if isinstance(error, RequestRefused):
                reply = {"refused": str(error)}
        self.tasks.pop(request["id"], None)
        _reply(self.answers, {"id": request["id"]} | reply)


def _reply(answers: Any, reply: Mapping[str, Any]) -> None:
    answers.write(json.dumps(reply, allow_nan=False) + "\n")
    answers.flush()


class Input:
    """Reads lines; if they end before the engine has started, ends the process."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        self.serving = False

    def read(self, loop: asyncio.AbstractEventLoop) -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(self.lines.put_nowait, line)
        if not self.serving:
            end_group()
        loop.call_soon_threadsafe(self.lines.put_nowait, ENDS)


def end_group() -> None:
    """Kill this process, which leads a process group, and everything it started."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


async def run(answers: Any) -> None:
    start = json.loads(sys.stdin.readline())
    given = Input()
    threading.Thread(target=given.read, args=(asyncio.get_running_loop(),), daemon=True).start()
    try:
        import vllm

        served = Served(start)
    except BaseException as error:
        _reply(answers, {"failed": f"{type(error).__name__}: {error}"[:2000]})
        raise
    given.serving = True
    _reply(answers, {"ready": served.described(vllm.__version__)})
    try:
        await RequestLoop(served, answers).serve(given.lines)
    finally:
        served.engine.shutdown()


def main() -> None:
    # the files beside this one must not be importable
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != FOLDER]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with answers
    try:
        asyncio.run(run(answers))
    except BaseException:
        traceback.print_exc()
    finally:
        end_group()


if __name__ == "__main__":
    main()
