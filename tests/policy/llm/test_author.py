"""The author on top of an engine: prompts within its limits, and no answer lost."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.policy.llm.asking import render, seen

from triton_agent.memory.observation import BudgetLeft
from triton_agent.memory.records import Usage
from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import EngineError, ModelQuestion, Sampled, Sampling, Trouble
from triton_agent.policy.protocol import Policy

DOWN = Sampled(text="", trouble=Trouble(what="down"))


class Heard:
    """An engine that answers with a function of the test and records the questions."""

    name, version = "heard:model", "7"

    def __init__(self, answer: Callable[[ModelQuestion], list[Sampled]], context_tokens: int = 2000) -> None:
        self._answer = answer
        self.context_tokens = context_tokens
        self.batches: list[list[ModelQuestion]] = []

    def count(self, text: str) -> int:
        return len(text.split())

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        self.batches.append(list(questions))
        return [self._answer(question) for question in questions]

    async def close(self) -> None:
        self.batches.append([])


def said(text: str, **more: Any) -> Sampled:
    return Sampled(text=text, **more)


def words(question: ModelQuestion) -> int:
    return sum(len(message.content.split()) for message in question.messages)


def test_it_is_a_policy() -> None:
    assert isinstance(LanguageAuthor(Heard(lambda question: [])), Policy)


def test_a_completion_keeps_all_that_was_sampled() -> None:
    sampled = said(
        "text", finish_reason="length", prompt_ids=(1,), token_ids=(2, 3), log_probabilities=(-1.0, -2.0), missing="m"
    )
    usage = Usage(prompt_tokens=4, cached_tokens=3, completion_tokens=2, reasoning_tokens=1, cost=0.5, wall_s=0.25)
    sampled = dataclasses.replace(sampled, usage=usage, version="8")
    engine = Heard(lambda question: [sampled])
    (answer,) = asyncio.run(LanguageAuthor(engine, render=render, shortens=False).propose(seen()))
    for name in ("text", "finish_reason", "prompt_ids", "token_ids", "log_probabilities", "missing"):
        assert getattr(answer, name) == getattr(sampled, name)
    assert (answer.policy, answer.policy_version, answer.prompt_version) == ("heard:model", "8", "test/1")
    assert answer.usage == usage
    assert [message.role for message in answer.messages] == ["system", "user"]


@pytest.mark.parametrize(("context", "answer"), [(2000, 500), (800, 400), (100_000, 500)])
def test_question_and_answer_fit_into_the_context_together(context: int, answer: int) -> None:
    engine = Heard(lambda question: [said("x")], context)
    asyncio.run(LanguageAuthor(engine, Sampling(max_tokens=500), render=render).propose(seen()))
    ((question,),) = engine.batches
    assert question.sampling.max_tokens == answer
    assert words(question) + answer <= context


def test_thoughts_and_answer_share_half_of_a_small_context() -> None:
    engine = Heard(lambda question: [said("x")], 4000)
    asyncio.run(
        LanguageAuthor(engine, Sampling(max_tokens=1000, max_thinking_tokens=3000), render=render).propose(seen())
    )
    ((question,),) = engine.batches
    assert (question.sampling.max_tokens, question.sampling.max_thinking_tokens) == (500, 1500)
    assert words(question) + question.sampling.tokens_at_most <= 4000


def test_only_the_questions_that_were_too_long_are_asked_again() -> None:
    def answer(question: ModelQuestion) -> list[Sampled]:
        too_long = question.sampling.seed == long_seed and words(question) > 800
        return [Sampled(text="", trouble=Trouble(what="too long", too_long=True)) if too_long else said("x")]

    probe = Heard(lambda question: [said("x")])
    asyncio.run(LanguageAuthor(probe, render=render).propose(seen(attempts_before=1)))
    long_seed = probe.batches[0][0].sampling.seed
    engine = Heard(answer)
    author = LanguageAuthor(engine, Sampling(max_tokens=100), render=render)
    answers = asyncio.run(author.propose_many([seen(attempts_before=number) for number in range(3)]))
    assert [one.text for one in answers if one] == ["x", "x", "x"]
    assert len(engine.batches[0]) == 3 and all(len(batch) == 1 for batch in engine.batches[1:])
    assert words(engine.batches[-1][0]) <= 800 < words(engine.batches[-2][0])


def test_a_question_that_never_fits_ends_in_an_error_and_not_for_ever() -> None:
    engine = Heard(lambda question: [Sampled(text="", trouble=Trouble(what="too long", too_long=True))], 100_000)
    with pytest.raises(EngineError, match="too long") as raised:
        asyncio.run(LanguageAuthor(engine, render=render).propose(seen()))
    assert "--context-tokens" in raised.value.remedy
    sizes = [words(batch[0]) for batch in engine.batches]
    assert len(sizes) == 6 and sizes == sorted(sizes, reverse=True)


def test_a_context_too_small_for_any_question_is_an_engine_that_cannot_be_asked() -> None:
    engine = Heard(lambda question: [said("x")], 64)
    with pytest.raises(EngineError, match="--context-tokens"):
        asyncio.run(LanguageAuthor(engine).propose(seen()))
    assert engine.batches == []


def test_one_failure_in_a_batch_is_a_gap_and_all_of_them_an_error() -> None:
    turns = iter([[DOWN], [said("x")], [DOWN], [DOWN]])
    author = LanguageAuthor(Heard(lambda question: next(turns)), render=render)
    both = [seen(), seen(attempts_before=1)]
    first, second = asyncio.run(author.propose_many(both))
    assert first is None and second is not None and second.text == "x"
    assert author.troubles() == ["down"] and author.troubles() == []
    with pytest.raises(EngineError, match="down"):
        asyncio.run(author.propose_many(both))


def test_an_engine_with_nothing_to_say_is_no_failure() -> None:
    assert asyncio.run(LanguageAuthor(Heard(lambda question: []), render=render).propose(seen(), 3)) == []


def test_nothing_is_kept_between_calls() -> None:
    engine = Heard(lambda question: [said("x")] * question.n)
    author = LanguageAuthor(engine, render=render)
    first = asyncio.run(author.propose(seen(), 2))
    asyncio.run(author.propose(seen(turn=5, budget=BudgetLeft(turns=1))))
    assert asyncio.run(author.propose(seen(), 2)) == first
    assert engine.batches[0] == engine.batches[2]


def test_halves_of_letters_are_not_sent() -> None:
    def broken(observation: Any, *, budget_tokens: int, count: Any) -> Any:
        page = render(observation, budget_tokens=budget_tokens, count=count)
        user = dataclasses.replace(page.messages[1], content="a\ud800b ü")
        return dataclasses.replace(page, messages=(page.messages[0], user))

    engine = Heard(lambda question: [said("x")])
    (answer,) = asyncio.run(LanguageAuthor(engine, render=broken).propose(seen()))
    assert engine.batches[0][0].messages[1].content.encode() and answer.messages[1].content.endswith("b ü")
