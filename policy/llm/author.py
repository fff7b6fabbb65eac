"""A policy over an engine: renders an observation, asks the model, and stores the sample exactly as it was drawn.

If a question is too long for the model, it is asked again with a shorter prompt. A model with tools may use them before
it answers. A model whose answer was cut off is asked once for a shorter one. Between calls the policy keeps only the
reasons for missing answers. Not covered: the prompt (`prompting`) and parsing answers (`policy/answer.py`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

from triton_agent.memory.observation import Observation
from triton_agent.memory.records import Completion, Message
from triton_agent.policy.answer import thoughts_apart
from triton_agent.policy.llm.conversation import Conversation, asked_to_be_shorter
from triton_agent.policy.llm.engine import Engine, EngineError, ModelQuestion, Preparable, Sampled, Sampling, Trouble
from triton_agent.policy.llm.prompting import prompt
from triton_agent.policy.llm.toolbox import Toolbox

TEMPLATE_TOKENS = 64
"""Estimated tokens that a chat template puts around two messages, with a margin."""
SHRINK = 0.6
"""Factor by which the assumed context shrinks each time a question is too long."""
SHRINKS = 5
"""Most times that the context is shrunk. After that it is below a tenth, and the failure must have another cause."""
LEAST_CONTEXT_TOKENS = 512
"""Smallest context that is tried; no useful question fits into less."""
GROUP_DIGITS = 32
TOOL_ROUNDS = 8
"""Most requests for one answer in which the model may call tools."""
LEAST_ANSWER_TOKENS = 256
"""Fewest tokens that can hold a file. A conversation with less room left is not continued."""
TOO_SMALL = "the model's context is too small for this problem; --context-tokens says how large it is, if you know"


class Prompted(Protocol):
    """The result of a renderer; see `prompting/prompt.py`."""

    @property
    def messages(self) -> tuple[Message, ...]: ...
    @property
    def version(self) -> str: ...


class Render(Protocol):
    """Renders an observation as messages of at most `budget_tokens` tokens."""

    def __call__(self, observation: Observation, *, budget_tokens: int, count: Callable[[str], int]) -> Prompted: ...


class LanguageAuthor:
    """A language model that writes kernels."""

    takes_tasks = True
    """True because the policy follows the task of an observation, so the search may choose one; see
    `agent/tasks.py`.
    """

    def __init__(
        self,
        engine: Engine,
        sampling: Sampling | None = None,
        *,
        uses_tools: bool = False,
        shortens: bool = True,
        render: Render = prompt.render,
    ) -> None:
        """With `uses_tools`, offer the tools of `equip`. With `shortens`, ask once more if an answer was cut off."""
        self._engine = engine
        self._sampling = sampling or Sampling()
        self._uses_tools, self._shortens = uses_tools, shortens
        self._toolbox: Toolbox | None = None
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
        """Return at most n answers; raise EngineError if all of them failed."""
        return (await self._ask([_Asking(seen=observation, n=n)]))[0]

    async def propose_many(self, observations: Sequence[Observation]) -> list[Completion | None]:
        """Return one answer to each observation, None where it failed; raise EngineError if all failed."""
        found = await self._ask([_Asking(seen=seen, n=1) for seen in observations])
        return [answers[0] if answers else None for answers in found]

    def equip(self, toolbox: Toolbox) -> None:
        """Offer these tools in later questions, if the policy was made with `uses_tools`."""
        if self._uses_tools:
            self._toolbox = toolbox

    def troubles(self) -> list[str]:
        """Return and clear the reasons for missing answers."""
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
        answers = list(await asyncio.gather(*map(self._completions, asking)))
        if troubles and not any(answers):
            raise _error(troubles[0], self.name)
        self._troubles |= dict.fromkeys(trouble.what for trouble in troubles)
        return answers

    async def _ask_once(self, asking: Sequence[_Asking]) -> None:
        """Ask all questions in one batch."""
        questions: list[tuple[_Asking, ModelQuestion]] = []
        for item in asking:
            try:
                questions.append((item, self._question(item)))
            # no retry with a smaller context, which would leave the prompt even less room
            except prompt.PromptTooLong as error:
                item.sampled = [Sampled(text="", trouble=Trouble(what=error.what, remedy=TOO_SMALL))]
        answers = await self._engine.answer([question for _, question in questions]) if questions else []
        for (item, _), sampled in zip(questions, answers):
            item.sampled = sampled

    def _question(self, item: _Asking) -> ModelQuestion:
        """Render a question. Thoughts and answer get at most half of the context, and the prompt gets the rest."""
        wanted = self._sampling
        share = min(1.0, item.context_tokens // 2 / wanted.tokens_at_most)
        answer, thoughts = int(wanted.max_tokens * share), int(wanted.max_thinking_tokens * share)
        budget = max(0, item.context_tokens - answer - thoughts - TEMPLATE_TOKENS)
        page = self._render(item.seen, budget_tokens=budget, count=self._count)
        item.messages = tuple(dataclasses.replace(one, content=_sendable(one.content)) for one in page.messages)
        item.prompt_version = page.version
        item.sampling = dataclasses.replace(
            wanted, max_tokens=answer, max_thinking_tokens=thoughts, seed=_seed(item.seen)
        )
        tools = self._toolbox.specs if self._toolbox is not None else ()
        return ModelQuestion(messages=item.messages, n=item.n, sampling=item.sampling, tools=tools)

    async def _completions(self, item: _Asking) -> list[Completion]:
        answered = [sampled for sampled in item.sampled[: item.n] if sampled.trouble is None]
        talks = [self._conversed(item, number, sampled) for number, sampled in enumerate(answered)]
        return [self._completion(item, talk) for talk in await asyncio.gather(*talks) if talk is not None]

    async def _conversed(self, item: _Asking, number: int, sampled: Sampled) -> Conversation | None:
        """Let the model use its tools, and ask once more if the answer was cut off; return None if the server failed.

        An answer that was cut off is kept if the second request fails.
        """
        talk, used = Conversation(messages=item.messages, sampled=sampled), list[str]()
        for _ in range(TOOL_ROUNDS):
            if self._toolbox is None or not talk.sampled.calls:
                break
            asked = Message(role="assistant", content=talk.sampled.text, calls=talk.sampled.calls)
            results = []
            for call in talk.sampled.calls:
                result = _sendable(await self._toolbox.use(call, item.seen, used))
                results.append(Message(role="tool", content=result, answers_call=call.id))
                used.append(call.name)
            continued = await self._continued(item, number, talk, (asked, *results))
            if continued is None:
                return None
            talk = continued
        if self._shortens and talk.sampled.finish_reason == "length":
            talk = await self._continued(item, number, talk, asked_to_be_shorter(talk.sampled)) or talk
        return talk

    async def _continued(
        self, item: _Asking, number: int, talk: Conversation, messages: tuple[Message, ...]
    ) -> Conversation | None:
        """Ask for the next answer of a conversation; return None if it does not fit or the server failed."""
        whole = (*talk.messages, *messages)
        taken = sum(self._count(one.content) + TEMPLATE_TOKENS for one in whole)
        taken += sum(self._count(call.arguments) for one in whole for call in one.calls)
        room = item.context_tokens - taken - item.sampling.max_thinking_tokens
        if room < LEAST_ANSWER_TOKENS:
            return None
        sampling = dataclasses.replace(
            item.sampling, max_tokens=min(item.sampling.max_tokens, room), seed=item.sampling.seed + number
        )
        tools = self._toolbox.specs if self._toolbox is not None else ()
        (answers,) = await self._engine.answer([ModelQuestion(messages=whole, sampling=sampling, tools=tools)])
        troubles = [sampled.trouble for sampled in answers if sampled.trouble]
        self._troubles |= dict.fromkeys(trouble.what for trouble in troubles)
        return talk.and_then(messages, answers[0]) if answers and not troubles else None

    def _completion(self, item: _Asking, talk: Conversation) -> Completion:
        sampled = talk.sampled
        apart = (sampled.reasoning, sampled.text) if sampled.reasoning else thoughts_apart(sampled.text)
        return Completion(
            text=apart[1],
            reasoning=apart[0],
            policy=self.name,
            policy_version=sampled.version or self.version,
            adapter_version=sampled.adapter_version,
            prompt_version=item.prompt_version,
            tokenizer=sampled.tokenizer,
            sampling=sampled.sampling,
            group=ModelQuestion(messages=talk.messages).digest.hex()[:GROUP_DIGITS],
            messages=talk.messages,
            prompt_ids=sampled.prompt_ids,
            token_ids=sampled.token_ids,
            log_probabilities=sampled.log_probabilities,
            log_probabilities_of=sampled.log_probabilities_of,
            mask=talk.mask,
            finish_reason=sampled.finish_reason,
            missing=sampled.missing,
            usage=sampled.usage,
        )


@dataclasses.dataclass(slots=True, kw_only=True)
class _Asking:
    """One observation and its answers so far."""

    seen: Observation
    n: int
    context_tokens: int = 0
    """Most tokens of question and answer together."""
    messages: tuple[Message, ...] = ()
    prompt_version: str = ""
    sampling: Sampling = dataclasses.field(default_factory=Sampling)
    sampled: list[Sampled] = dataclasses.field(default_factory=list)

    def shrink(self) -> bool:
        """Shrink the context if all answers failed because the question was too long; return True to ask again."""
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
    """Return a seed derived from the run's seed, the turn and the number of earlier answers."""
    digest = hashlib.sha256(f"{seen.seed}/{seen.turn}/{seen.attempts_before}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def _sendable(text: str) -> str:
    """Replace lone surrogates, which a model may have written but servers and tokenizers reject."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
