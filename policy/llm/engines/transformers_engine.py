"""`hf:FOLDER`: a model in this process by transformers, on the CPU or a GPU. For small models and for tests.

The model is loaded at the first question, in a thread that also samples, so that the event loop stays free. Questions
that arrive meanwhile are answered together afterwards. Tokens and log-probabilities are those that were sampled. Equal
seeds give equal answers on one machine. On a GPU the engine samples under the shared lease and releases it between two
tokens when another process waits for exclusive use.

Not covered: several GPUs, quantized weights, constrained decoding; `vllm:` supports these and is faster.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import importlib.util
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from triton_agent.memory.records import Distribution, SamplingRecord, Usage
from triton_agent.policy.llm.engine import EngineError, ModelQuestion, Sampled, Trouble, seeds_of
from triton_agent.policy.llm.engines.model_folder import PLAIN_TEMPLATE, context_of, require_model, version_of
from triton_agent.policy.llm.engines.vllm_worker import prompt_ids, text_of, vocabulary_digest
from triton_agent.tools.errors import UsageError
from triton_agent.tools.machine.hardware import uuid_of
from triton_agent.tools.machine.lease import Mode, awaited, lease
from triton_agent.tools.race.clock_room import Place

ROWS_AT_ONCE = 16
"""Answers per batch on a CPU, where larger batches gain little."""
ROWS_ON_A_GPU = 256
"""Most answers per batch on a GPU; fewer if they do not fit into a quarter of its free memory."""
NEEDED = ("torch", "transformers", "tokenizers")
QUIET = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class _Asked:
    """The questions of one caller, who may give up."""

    questions: tuple[ModelQuestion, ...]
    answers: asyncio.Future[list[list[Sampled]]]
    given_up: bool = False


class TransformersEngine:
    """An engine that keeps only the model between calls."""

    def __init__(
        self, folder: Path, *, device: str = "auto", dtype: str = "auto", rows_at_once: int | None = None
    ) -> None:
        """`rows_at_once` limits the answers per batch; None chooses a number that suits the device."""
        self.name = f"hf:{folder}"
        require_model(folder, f"--policy {self.name}")
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise UsageError(
                f"needs {', '.join(missing)}, not installed here",
                where=f"--policy {self.name}",
                remedy="pip install 'triton-agent[train]', or serve the model and use openai:MODEL",
            )
        self._device, self._dtype, self._rows_at_once = device, dtype, rows_at_once
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None
        self._asked: list[_Asked] = []
        self._answering: asyncio.Task[None] | None = None
        self._tokenizer: Any = None
        self._vocabulary = ""
        self._loading = threading.Lock()
        self._take(folder)

    def _take(self, folder: Path) -> None:
        self.folder = folder
        self.version = version_of(folder)
        self.context_tokens = context_of(folder)
        self._model: Any = None

    def count(self, text: str) -> int:
        """Count with the model's tokenizer, which the first call loads."""
        return len(self._tokens()(text, add_special_tokens=False)["input_ids"])

    async def prepare(self) -> None:
        """Load the tokenizer in a thread, because rendering prompts needs it."""
        await asyncio.to_thread(self._tokens)

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        """Sample all answers to all questions in batches."""
        loop = asyncio.get_running_loop()
        mine = _Asked(questions=tuple(questions), answers=loop.create_future())
        self._asked.append(mine)
        if self._answering is None or self._answering.done():
            self._answering = loop.create_task(self._answer_all())
        try:
            return await asyncio.shield(mine.answers)
        except asyncio.CancelledError:
            mine.given_up = True
            await asyncio.wait([mine.answers])
            mine.answers.exception() if not mine.answers.cancelled() else None
            raise

    async def _answer_all(self) -> None:
        """Answer until no questions are left. Questions that wait at the same time are answered together."""
        self._threads = self._threads or concurrent.futures.ThreadPoolExecutor(1, "hf")
        await asyncio.sleep(0)
        while self._asked:
            together, self._asked = self._asked, []
            questions = tuple(question for asked in together for question in asked.questions)
            stop = functools.partial(_all_given_up, together)
            work = asyncio.get_running_loop().run_in_executor(self._threads, self._answer, questions, stop)
            try:
                answers = iter(await asyncio.shield(work))
            except asyncio.CancelledError:
                for asked in together:
                    asked.given_up = True
                await asyncio.wait([work])
                work.exception()
                for asked in (*together, *self._asked):
                    asked.answers.cancel()
                self._asked = []
                raise
            except Exception as error:
                for asked in together:
                    asked.answers.set_exception(error)
            else:
                for asked in together:
                    asked.answers.set_result([next(answers) for _ in asked.questions])

    async def reload(self, folder: Path) -> None:
        """Replace the weights by those in this folder."""
        require_model(folder, "new weights")
        with self._loading:
            self._take(folder)

    async def close(self) -> None:
        """Free the model and end the thread."""
        threads, self._threads = self._threads, None
        if threads:
            await asyncio.to_thread(threads.shutdown, wait=True, cancel_futures=True)
        self._model = None

    def _tokens(self) -> Any:
        with self._loading:
            if self._tokenizer is None:
                for name, value in QUIET.items():
                    os.environ.setdefault(name, value)
                from transformers import AutoTokenizer

                try:
                    self._tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
                    self._vocabulary = vocabulary_digest(self._tokenizer)
                except Exception as error:  # the library raises many kinds of errors for broken files
                    raise UsageError(f"its tokenizer does not load: {error}", where=f"--policy {self.name}") from error
            return self._tokenizer

    def _weights(self) -> Any:
        with self._loading:
            if self._model is None:
                import torch
                from transformers import AutoModelForCausalLM
                from transformers.utils import logging

                logging.disable_progress_bar()
                device = self._device
                if device == "auto":
                    device = "cuda" if torch.cuda.is_available() else "cpu"
                try:
                    model = AutoModelForCausalLM.from_pretrained(self.folder, dtype=self._dtype, local_files_only=True)
                    self._model = model.to(device).eval()
                except Exception as error:
                    raise EngineError(f"the model does not load: {error}", where=f"--policy {self.name}") from error
            return self._model

    def _answer(self, questions: tuple[ModelQuestion, ...], stop: Callable[[], bool]) -> list[list[Sampled]]:
        """Answer questions, in the engine's thread."""
        tokenizer, model = self._tokens(), self._weights()
        answers: list[list[Sampled]] = [[] for _ in questions]
        due: list[tuple[int, Any, SamplingRecord]] = []
        for index, question in enumerate(questions):
            ids = prompt_ids(tokenizer, [_plain(message) for message in question.messages], PLAIN_TEMPLATE)
            room = self.context_tokens - len(ids)
            if question.sampling.pattern:
                why = Trouble(what="hf: does not support an answer pattern", remedy="use vllm:")
                answers[index] = [Sampled(text="", trouble=why)]
            elif room < 1:
                answers[index] = [too_long(len(ids), self.context_tokens)]
            else:
                drawn = question.sampling
                due += [
                    (index, row, drawn.record(seed=row.seed, tokens_at_most=row.tokens_at_most))
                    for row in _rows(question, ids, room)
                ]
        at_once = self._rows_at_once or (rows_that_fit(model, [row for _, row, _ in due]) if due else 1)
        for first in range(0, len(due), at_once):
            part = due[first : first + at_once]
            samples = self._draw(tokenizer, model, [row for _, row, _ in part], stop)
            for (index, _, record), sampled in zip(part, samples):
                answers[index].append(dataclasses.replace(sampled, sampling=record))
        return answers

    def _draw(self, tokenizer: Any, model: Any, rows: list[Any], stop: Callable[[], bool]) -> list[Sampled]:
        import torch

        from triton_agent.policy.llm.engines.drawing import draw

        began, version = time.monotonic(), self.version
        try:
            with _on_card(model) as pause:
                drawn = draw(model, rows, end_ids=_end_ids(tokenizer, model), stop=stop, pause=pause)
        except torch.OutOfMemoryError as error:
            raise EngineError(
                "the model ran out of memory", where=self.name, remedy="ask for shorter answers, or use a smaller model"
            ) from error
        wall_s = time.monotonic() - began
        return [
            Sampled(
                text=text_of(tokenizer, answer.token_ids),
                finish_reason=answer.finish_reason,
                prompt_ids=row.prompt_ids,
                token_ids=tuple(answer.token_ids),
                log_probabilities=tuple(answer.log_probabilities),
                log_probabilities_of=Distribution.SAMPLED,
                tokenizer=self._vocabulary,
                usage=Usage(prompt_tokens=len(row.prompt_ids), completion_tokens=len(answer.token_ids), wall_s=wall_s),
                version=version,
            )
            for row, answer in zip(rows, drawn)
        ]


def _all_given_up(together: Sequence[_Asked]) -> bool:
    return all(asked.given_up for asked in together)


@contextlib.contextmanager
def _on_card(model: Any) -> Iterator[Callable[[], None]]:
    """Hold the shared lease of the model's GPU. Call the yielded function to let in a process that waits for exclusive
    use.

    Afterwards free the cached memory, which the verdicts on the answers need.
    """
    if model.device.type != "cuda":
        yield lambda: None
        return
    import torch

    card = uuid_of(model.device.index or 0)
    place = Place(functools.partial(_shared, card), overdue=functools.partial(awaited, card))
    with place.step():
        try:
            yield place.pause
        finally:
            torch.cuda.empty_cache()


def _shared(card: str, mode: Mode) -> contextlib.AbstractContextManager[None]:
    return lease(card, what="triton-agent: drawing answers", mode=mode)


def rows_that_fit(model: Any, rows: Sequence[Any]) -> int:
    """Return how many of these answers fit into one batch, all counted with the length of the longest."""
    if model.device.type != "cuda":
        return ROWS_AT_ONCE
    import torch

    longest = max(len(row.prompt_ids) + row.tokens_at_most for row in rows)
    row_bytes = longest * cache_bytes(model.config, model.dtype.itemsize)
    free_bytes: int = torch.cuda.mem_get_info(model.device)[0]
    return int(max(1, min(ROWS_ON_A_GPU, free_bytes // 4 // row_bytes)))


def cache_bytes(config: Any, item_bytes: int) -> int:
    """Return the bytes of keys and values per token."""
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return int(2 * text.num_hidden_layers * heads * width * item_bytes)


def too_long(tokens: int, context: int) -> Sampled:
    """Return the trouble of a question that leaves no room for an answer."""
    why = f"the question takes {tokens} tokens and the model {context} in all"
    return Sampled(text="", trouble=Trouble(what=why, too_long=True, context_tokens=context))


def _rows(question: ModelQuestion, ids: list[int], room: int) -> list[Any]:
    from triton_agent.policy.llm.engines.drawing import DrawRequest

    drawn = question.sampling
    return [
        DrawRequest(
            prompt_ids=tuple(ids),
            tokens_at_most=min(drawn.tokens_at_most, room),
            temperature=drawn.temperature,
            top_p=drawn.top_p,
            top_k=drawn.top_k,
            min_p=drawn.min_p,
            repetition_penalty=drawn.repetition_penalty,
            seed=seed,
        )
        for seed in seeds_of(question)
    ]


def _plain(message: Any) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


def _end_ids(tokenizer: Any, model: Any) -> frozenset[int]:
    """Return the tokens that end an answer, according to the tokenizer and to the model's settings."""
    stated = getattr(model.generation_config, "eos_token_id", None)
    found = stated if isinstance(stated, list) else [stated]
    return frozenset(token for token in (*found, tokenizer.eos_token_id) if token is not None)
