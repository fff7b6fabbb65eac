"""A policy over an engine: shows it what an observation holds, asks, and keeps what was sampled as it was sampled.

Where a question turns out too long for the model it is asked again, shorter. Keeps nothing between calls but why
answers are missing, for whoever asks. Not covered: how a question reads (`prompting`) and how an answer is read
(`policy/answer.py`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

from triton_agent.memory.observation import Observation
from triton_agent.memory.records import Completion, Message, Usage
from triton_agent.policy.llm.engine import Engine, EngineError, Preparable, Question, Sampled, Sampling, Trouble
from triton_agent.policy.llm.prompting import prompt

TEMPLATE_TOKENS = 64
"""What a chat template puts around two messages, with room to spare."""
SHRINK = 0.6
"""What is left of the context that a question is made for, each time it proves too long."""
SHRINKS = 5
"""Then it is less than a tenth, and the fault lies elsewhere."""
LEAST_CONTEXT_TOKENS = 512
"""Nothing that is worth asking fits into less."""
TOO_SMALL = "the model's context is too small for this problem; --context-tokens says how large it is, if you know"


class Prompted(Protocol):
    """What a renderer makes; see `prompting/prompt.py`."""

    @property
    def messages(self) -> tuple[Message, ...]: ...
    @property
    def version(self) -> str: ...


class Render(Protocol):
    """Turns an observation into messages of at most so many tokens."""

    def __call__(self, observation: Observation, *, budget_tokens: int, count: Callable[[str], int]) -> Prompted: ...


class LanguageAuthor:
    """A language model that writes kernels."""

    def __init__(self, engine: Engine, sampling: Sampling | None = None, *, render: Render = prompt.render) -> None:
        self._engine = engine
        self._sampling = sampling or Sampling()
        self._render = render
        self._count = prompt.RememberedCount(engine.count)
        self._troubles: dict[str, None] = {}

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def version(self) -> str:
        return self._engine.version

    async def propose(self, observation: Observation, n: int = 1) -> list[Completion]:
        """At most n answers; EngineError where troubles left none."""
        return (await self._ask([_Asking(seen=observation, n=n)]))[0]

    async def propose_many(self, observations: Sequence[Observation]) -> list[Completion | None]:
        """One answer each; None for those that got none, and EngineError where troubles left none at all."""
        found = await self._ask([_Asking(seen=seen, n=1) for seen in observations])
        return [answers[0] if answers else None for answers in found]

    def troubles(self) -> list[str]:
        """Why answers were missing since this was last asked."""
        told, self._troubles = list(self._troubles), {}
        return told

    async def close(self) -> None:
        await self._engine.close()

    # -- asking ----------------------------------------------------------------------------------------------------

    async def _ask(self, asking: list[_Asking]) -> list[list[Completion]]:
        if isinstance(self._engine, Preparable):
            await self._engine.prepare()
        for item in asking:
            item.context_tokens = self._engine.context_tokens
        open_ones = asking
        for _ in range(1 + SHRINKS):
            await self._ask_once(open_ones)
            open_ones = [item for item in open_ones if item.shrink()]
            if not open_ones:
                break
        troubles = [sampled.trouble for item in asking for sampled in item.sampled if sampled.trouble]
        answers = [self._completions(item) for item in asking]
        if troubles and not any(answers):
            raise _error(troubles[0], self.name)
        self._troubles |= dict.fromkeys(trouble.what for trouble in troubles)
        return answers

    async def _ask_once(self, asking: Sequence[_Asking]) -> None:
        """All in one batch."""
        questions: list[tuple[_Asking, Question]] = []
        for item in asking:
            try:
                questions.append((item, self._question(item)))
            except prompt.PromptTooLong as error:  # a smaller context would only make it worse
                item.sampled = [Sampled(text="", trouble=Trouble(what=error.what, remedy=TOO_SMALL))]
        answers = await self._engine.answer([question for _, question in questions]) if questions else []
        for (item, _), sampled in zip(questions, answers):
            item.sampled = sampled

    def _question(self, item: _Asking) -> Question:
        """In half of the context at most the answer, in the rest the prompt."""
        answer = min(self._sampling.max_tokens, item.context_tokens // 2)
        budget = max(0, item.context_tokens - answer - TEMPLATE_TOKENS)
        page = self._render(item.seen, budget_tokens=budget, count=self._count)
        item.messages = tuple(dataclasses.replace(one, content=_sendable(one.content)) for one in page.messages)
        item.prompt_version = page.version
        sampling = dataclasses.replace(self._sampling, max_tokens=answer, seed=_seed(item.seen))
        return Question(messages=item.messages, n=item.n, sampling=sampling)

    def _completions(self, item: _Asking) -> list[Completion]:
        return [
            Completion(
                text=sampled.text,
                policy=self.name,
                policy_version=sampled.version or self.version,
                prompt_version=item.prompt_version,
                messages=item.messages,
                prompt_ids=sampled.prompt_ids,
                token_ids=sampled.token_ids,
                log_probabilities=sampled.log_probabilities,
                finish_reason=sampled.finish_reason,
                missing=sampled.missing,
                usage=Usage(
                    prompt_tokens=sampled.prompt_tokens,
                    completion_tokens=sampled.completion_tokens,
                    cost=sampled.cost,
                    wall_s=sampled.wall_s,
                ),
            )
            for sampled in item.sampled[: item.n]
            if sampled.trouble is None
        ]


@dataclasses.dataclass(slots=True, kw_only=True)
class _Asking:
    """One observation on its way to answers."""

    seen: Observation
    n: int
    context_tokens: int = 0
    """What question and answer are made to fit into."""
    messages: tuple[Message, ...] = ()
    prompt_version: str = ""
    sampled: list[Sampled] = dataclasses.field(default_factory=list)

    def shrink(self) -> bool:
        """Return whether to ask again for being too long, and then with less."""
        long = [sampled.trouble for sampled in self.sampled if sampled.trouble and sampled.trouble.too_long]
        if len(long) < len(self.sampled) or not long:
            return False
        told = long[0].context_tokens
        fits = told if told is not None and told < self.context_tokens else int(self.context_tokens * SHRINK)
        self.context_tokens = fits
        return fits >= LEAST_CONTEXT_TOKENS


def _error(trouble: Trouble, name: str) -> EngineError:
    return EngineError(trouble.what, where=name, remedy=TOO_SMALL if trouble.too_long else trouble.remedy)


def _seed(seen: Observation) -> int:
    """The same for the same answers of a run with the same seed, and another for each."""
    digest = hashlib.sha256(f"{seen.seed}/{seen.turn}/{seen.attempts_before}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def _sendable(text: str) -> str:
    """Without lone surrogates, which a model may have written once and no server or tokenizer takes."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
