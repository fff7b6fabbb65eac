"""Stored attempts become samples: tokens as sampled, roles by where the code begins, reasons for what is left out."""

from __future__ import annotations

import dataclasses

import pytest
from tests.policy.train.evaluations import DIAGNOSIS, KERNEL, failed
from tests.policy.train.logged import NOW, attempt, grading
from tests.verdicts import passed

from triton_agent.memory.records import Grading, InstrumentFailure, Message
from triton_agent.policy.answer import read_answer, write_answer
from triton_agent.policy.train.prepare.credit import TokenRole
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.record.trajectories import Knowledge, collect, latest_evaluation, token_roles
from triton_agent.tools.kernel_profile import Profile
from triton_agent.tools.results import Finding

FEEDBACK, PLAN, CODE = TokenRole.FEEDBACK, TokenRole.PLAN, TokenRole.CODE
DEFAULT = RECIPES["default"]


def letters(tokens: object) -> str:
    """A tokenizer whose tokens are characters."""
    return "".join(map(chr, tokens))  # type: ignore[call-overload]


def test_the_plan_ends_where_the_source_begins() -> None:
    text = write_answer("Fuse both, then tile.", KERNEL)
    source = read_answer(text).source
    assert source is not None
    tokens = [ord(character) for character in text]
    roles = token_roles(tokens, None, source, letters)
    begin = roles.index(CODE)
    assert letters(tokens[:begin]).rstrip() == "Fuse both, then tile.\n\n```python"
    assert set(roles[begin:]) == {CODE}


def test_a_token_that_spans_the_border_belongs_to_the_code() -> None:
    pieces = ["plan ", "it\nim", "port triton"]
    roles = token_roles([0, 1, 2], None, "import triton", lambda ids: "".join(pieces[i] for i in ids))
    assert roles == (PLAN, CODE, CODE)


def test_the_last_mention_of_the_source_counts() -> None:
    text = "x=1 or rather x=1"
    assert token_roles([ord(c) for c in text], None, "x=1", letters).index(CODE) == text.rindex("x=1")


def test_an_answer_without_code_is_all_plan_and_feedback_is_nobodys() -> None:
    assert token_roles([65, 66], None, None, letters) == (PLAN, PLAN)
    assert token_roles([65, 66, 67], [True, False, True], "C", letters) == (PLAN, FEEDBACK, CODE)
    assert token_roles([65, 66], [True, False], "AB", None) == (CODE, FEEDBACK), "without a tokenizer all is code"


def test_a_source_that_was_tidied_up_is_found_by_its_fence() -> None:
    text = "plan\n```python\nx = 1 \nclass ModelNew: pass\n```\n"
    roles = token_roles([ord(c) for c in text], None, "x = 1\nclass ModelNew: pass", letters)
    assert roles.index(CODE) == text.index("```")


def test_samples_keep_tokens_parents_and_groups_as_they_were() -> None:
    first = attempt("r", 0, token_ids=(5, 6, 7), log_probabilities=(-0.1, -0.2, -0.3), source="x")
    second = attempt("r", 1, parent=first.key, token_ids=(8,), log_probabilities=(-1.0,), mask=(True,))
    records = [(a, (grading(a.key, passed()),)) for a in (second, first)]
    samples = collect(records, DEFAULT).samples
    assert [s.turn.key for s in samples] == ["r/0.0", "r/1.0"]
    assert samples[1].turn.parent == "r/0.0" and samples[0].turn.group == samples[1].turn.group
    assert samples[0].log_probabilities == (-0.1, -0.2, -0.3) and samples[0].prompt_ids == (1, 2)
    assert samples[0].turn.potential == DEFAULT.potentials[passed().status]


def test_problems_judged_in_different_ways_are_different_groups() -> None:
    one = attempt("r", 0, token_ids=(5,))
    view = dataclasses.replace(one.observation.problem, device="NVIDIA H200")
    on_gpu = dataclasses.replace(one, run="s", observation=dataclasses.replace(one.observation, problem=view))
    groups = {s.turn.group for s in collect([(one, ()), (on_gpu, ())], DEFAULT).samples}
    assert len(groups) == 2


def test_what_cannot_be_trained_on_is_counted_with_its_reason() -> None:
    served = attempt("a", 0, missing="the server does not tell")
    author = attempt("b", 0)
    promptless = attempt("c", 0, token_ids=(5,), prompt_ids=None)
    all_feedback = attempt("d", 0, token_ids=(5,), mask=(False,))
    collection = collect([(a, ()) for a in (served, author, promptless, all_feedback)], DEFAULT)
    assert collection.samples == ()
    assert collection.left_out == {
        "the server does not tell": 1,
        "no tokens were stored": 2,
        "no prompt was stored": 1,
    }


def test_messages_stand_in_for_prompt_tokens_that_were_not_kept() -> None:
    asked = attempt("a", 0, prompt_ids=None, messages=(Message(role="user", content="hi"),), token_ids=(5,))
    knowledge = Knowledge(encode=lambda messages: [ord(c) for c in messages[0].content])
    assert collect([(asked, ())], DEFAULT, knowledge).samples[0].prompt_ids == (104, 105)


def test_the_last_verdict_counts_and_a_failure_to_measure_is_no_verdict() -> None:
    lost = Grading(attempt="a", failure=InstrumentFailure(kind="WorkerLost", what="gone"), grader="2", graded_at=NOW)
    old, new = grading("a", passed()), grading("a", failed(Finding.RACE), minutes=5)
    assert latest_evaluation([new, old, lost]) == new.evaluation
    assert latest_evaluation([lost]) is None and latest_evaluation([]) is None
    unmeasured = attempt("a", 0, token_ids=(5,))
    assert collect([(unmeasured, (lost,))], DEFAULT).samples[0].turn.reward.total is None


def test_alike_candidates_are_counted_within_their_problem() -> None:
    made = [
        attempt(run, 0, problem=p, token_ids=(5,), source=KERNEL) for run, p in (("a", "p"), ("b", "p"), ("c", "q"))
    ]
    samples = collect([(a, (grading(a.key, passed()),)) for a in made], DEFAULT).samples
    assert [s.turn.reward.parts["novelty"] for s in samples] == pytest.approx([0.05, 0.05 / 2**0.5, 0.05])


def test_a_flagged_problem_and_measured_shares_reach_the_reward() -> None:
    made = attempt("a", 0, token_ids=(5,))
    records = [(made, (grading(made.key, passed()),))]
    flagged = collect(records, DEFAULT, Knowledge(sound={"p": False})).samples[0]
    assert flagged.turn.reward.total == 0.0 and flagged.turn.reward.why
    profiled = dataclasses.replace(
        passed(), diagnosis=dataclasses.replace(DIAGNOSIS, profile=Profile(device_ms=1.0, own_share=0.5, kernels=()))
    )
    shared = collect([(made, (grading(made.key, profiled),))], RECIPES["drkernel"]).samples[0]
    assert shared.turn.reward.parts["share"] == 0.5 and shared.kernel_share == 0.5
