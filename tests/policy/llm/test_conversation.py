"""Answers that take more than one request: second requests after an answer was cut off, and tool calls."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.agent.tables import passed
from tests.policy.llm.asking import render, seen
from tests.policy.llm.prompting import shown
from tests.policy.llm.test_author import Heard, said

from triton_agent.memory.observation import Lesson, Role
from triton_agent.memory.records import Completion, ToolCall, Usage
from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import ModelQuestion, Sampled, Sampling, Trouble
from triton_agent.policy.llm.toolbox import DRAFTS_PER_ANSWER, RunTools
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.results import DECISIONS, Evaluation, Finding

DRAFT = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"


def asked(
    answers: list[Sampled], *, tools: Any = None, context: int = 20_000, **settings: Any
) -> tuple[list[Completion], list[ModelQuestion]]:
    """Ask an engine that gives these answers in order for one completion; return the completions and the questions."""
    left = iter(answers)
    engine = Heard(lambda question: [next(left)], context)
    author = LanguageAuthor(
        engine,
        Sampling(max_tokens=500),
        render=settings.pop("render", render),
        uses_tools=tools is not None,
        **settings,
    )
    if tools is not None:
        author.equip(tools)
    observation = shown.observation(shown.passed("0.0", 1.5, Role.PARENT)) if tools is not None else seen()
    found = asyncio.run(author.propose(observation))
    return found, [question for batch in engine.batches for question in batch]


# -- answers that were cut off -------------------------------------------------------------------------------------


def test_an_answer_that_was_cut_off_is_asked_for_once_more_and_told_so() -> None:
    cut = said("a plan, then ```python\nimport", finish_reason="length", usage=Usage(completion_tokens=500, cost=1.0))
    (answer,), (_, second) = asked([cut, said("short", usage=Usage(completion_tokens=20, cost=0.5))])
    assert answer.text == "short" and answer.usage == Usage(completion_tokens=520, cost=1.5)
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "user"]
    assert second.messages[2].content.startswith("a plan") and second.messages[2].content.endswith("[cut off here]")
    assert "reached the limit of 500 tokens" in second.messages[3].content and "shorter" in second.messages[3].content
    assert answer.messages == second.messages


def test_thoughts_are_not_shown_again_and_a_model_that_only_thought_is_told_so() -> None:
    cut = said("<think>hm, hm", finish_reason="length", usage=Usage(completion_tokens=500))
    (answer,), (_, second) = asked([cut, said("<think>ah</think>\n\nshort")])
    assert (answer.reasoning, answer.text) == ("ah", "short")
    assert "hm" not in repr(second.messages) and "before your answer began" in second.messages[3].content


def test_it_is_asked_once_only_and_keeps_the_first_answer_if_the_second_fails() -> None:
    cut = said("first", finish_reason="length")
    (answer,), questions = asked([cut, said("second", finish_reason="length")])
    assert (answer.text, answer.finish_reason, len(questions)) == ("second", "length", 2)
    (answer,), _ = asked([cut, Sampled(text="", trouble=Trouble(what="down"))])
    assert (answer.text, answer.finish_reason) == ("first", "length")
    (answer,), questions = asked([cut], shortens=False)
    assert (answer.text, len(questions)) == ("first", 1)


def test_groups_are_of_answers_to_the_same_messages() -> None:
    cut = said("first", finish_reason="length")
    (one,), _ = asked([said("x")])
    (other,), _ = asked([said("y")])
    (again,), _ = asked([cut, said("z")])
    assert one.group == other.group != again.group


def test_tokens_of_all_requests_are_one_sequence_in_which_only_the_model_s_own_count() -> None:
    cut = said("ab", finish_reason="length", prompt_ids=(1, 2), token_ids=(3, 4), log_probabilities=(-1.0, -2.0))
    then = said("c", prompt_ids=(1, 2, 3, 4, 5, 6), token_ids=(7,), log_probabilities=(-3.0,))
    (answer,), _ = asked([cut, then])
    assert (answer.prompt_ids, answer.token_ids) == ((1, 2), (3, 4, 5, 6, 7))
    assert answer.log_probabilities == (-1.0, -2.0, 0.0, 0.0, -3.0)
    assert answer.mask == (True, True, False, False, True)


def test_tokens_that_do_not_continue_each_other_are_not_joined() -> None:
    cut = said("ab", finish_reason="length", prompt_ids=(1, 2), token_ids=(3, 4), log_probabilities=(-1.0, -2.0))
    then = said("c", prompt_ids=(1, 9, 5), token_ids=(7,), log_probabilities=(-3.0,))
    (answer,), _ = asked([cut, then])
    assert (answer.prompt_ids, answer.token_ids, answer.mask) == ((1, 9, 5), (7,), None)
    assert "only the tokens of the last answer" in answer.missing


# -- tools ---------------------------------------------------------------------------------------------------------


def calling(name: str, **arguments: Any) -> Sampled:
    call = ToolCall(id="c1", name=name, arguments=json.dumps(arguments))
    return said("let me see", calls=(call,), finish_reason="tool_calls", reasoning="secret thoughts")


def evaluation(finding: Finding | None = None, message: str = "") -> Evaluation:
    made = passed(DRAFT, 1.0)
    if finding is None:
        return made
    return dataclasses.replace(made, status=DECISIONS[finding].status, finding=finding, message=message, timings=())


def tools(judge: Callable[[str], Evaluation] | None = None, lessons: tuple[Lesson, ...] = shown.LESSONS) -> RunTools:
    async def try_draft(source: str) -> Evaluation:
        return judge(source) if judge else evaluation()

    return RunTools(try_draft=try_draft, recall=lambda: lessons)


def result_of(call: Sampled, **given: Any) -> str:
    (answer,), (first, second) = asked([call, said("done")], tools=tools(**given), render=short)
    assert {tool.name for tool in first.tools} == {"profile", "evaluate_draft", "read_memory"}
    assert answer.text == "done" and answer.messages == second.messages
    asking, result = second.messages[-2:]
    assert asking.calls == call.calls and result.role == "tool" and result.answers_call == "c1"
    assert "secret thoughts" not in repr(second.messages)
    return result.content


def short(observation: Any, *, budget_tokens: int, count: Any) -> Any:
    return render(observation, budget_tokens=100, count=count)


def test_a_model_reads_the_profile_of_an_attempt() -> None:
    told = result_of(calling("profile", attempt="attempt 0.0"))
    assert told.startswith("Attempt 0.0:") and "softmax_kernel" in told and "registers" in told
    assert result_of(calling("profile")) == told
    assert "Attempts with one: 0.0" in result_of(calling("profile", attempt="9.9"))


def test_a_model_tries_a_draft_before_it_answers() -> None:
    seen_sources = []

    def judge(source: str) -> Evaluation:
        seen_sources.append(source)
        return evaluation(Finding.COMPILE, "line 3: no such thing")

    told = result_of(calling("evaluate_draft", source=DRAFT), judge=judge)
    assert seen_sources == [DRAFT]
    assert Finding.COMPILE.value in told and "line 3: no such thing" in told
    assert "agrees with the reference" in result_of(calling("evaluate_draft", source=DRAFT))
    assert "No complete file" in result_of(calling("evaluate_draft", source="x = 1"))


def test_a_trial_that_the_instrument_fails_says_nothing_about_the_draft() -> None:
    def judge(source: str) -> Evaluation:
        raise InstrumentError("the GPU is gone")

    told = result_of(calling("evaluate_draft", source=DRAFT), judge=judge)
    assert "says nothing about the file" in told and "the GPU is gone" in told


def test_only_a_few_drafts_are_tried_for_one_answer() -> None:
    tried: list[str] = []

    def judge(source: str) -> Evaluation:
        tried.append(source)
        return evaluation()

    calls = [calling("evaluate_draft", source=DRAFT)] * (DRAFTS_PER_ANSWER + 1)
    (answer,), questions = asked([*calls, said("done")], tools=tools(judge), render=short)
    assert len(tried) == DRAFTS_PER_ANSWER and answer.text == "done"
    assert "are used up" in questions[-1].messages[-1].content


def test_a_model_reads_what_earlier_runs_know() -> None:
    told = result_of(calling("read_memory", words="num_warps"))
    assert "num_warps 4 -> 8" in told and "NameError" not in told
    assert "No lesson of an earlier run mentions it" in result_of(calling("read_memory", words="unheard-of"))
    assert "related problems" in result_of(calling("read_memory"), lessons=())


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (said("", calls=(ToolCall(id="c1", name="profile", arguments="{"),)), "not valid JSON"),
        (said("", calls=(ToolCall(id="c1", name="profile", arguments="[]"),)), "a JSON object"),
        (said("", calls=(ToolCall(id="c1", name="rm", arguments="{}"),)), "no such tool"),
    ],
)
def test_a_wrong_call_is_answered_in_words(call: Sampled, told: str) -> None:
    assert told in result_of(call)


def test_a_model_that_only_calls_tools_ends_without_an_answer() -> None:
    (answer,), questions = asked([calling("profile")] * 20, tools=tools(), render=short)
    assert len(questions) == 9 and answer.text == "let me see"


def test_a_model_without_tools_is_offered_none() -> None:
    engine = Heard(lambda question: [said("x")])
    author = LanguageAuthor(engine, render=render)
    author.equip(tools())
    asyncio.run(author.propose(seen()))
    assert engine.batches[0][0].tools == ()
