"""Stored attempts become samples: sampled tokens, roles of tokens, and reasons for skipped attempts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import pytest
from tests.policy.llm.prompting.record_runs import load
from tests.policy.train.evaluations import DIAGNOSIS, KERNEL, failed, timing
from tests.policy.train.logged import NOW, attempt, grading
from tests.recorded_run import recorded
from tests.verdicts import passed

from triton_agent.memory.observation import Lesson, Role, Tried
from triton_agent.memory.records import Grading, InstrumentFailure, Message, SamplingRecord
from triton_agent.policy.answer import read_answer, write_answer
from triton_agent.policy.train.prepare.credit import TokenRole, assign
from triton_agent.policy.train.prepare.recipes import RECIPES, unpaid
from triton_agent.policy.train.record.roles import Spelling, token_roles
from triton_agent.policy.train.record.trajectories import (
    COPY,
    TWIN,
    Knowledge,
    TrainingSample,
    collect,
    collect_parts,
    latest_evaluation,
)
from triton_agent.tools.kernel_profile import Profile
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Evaluation, Finding, Interval, Status

FEEDBACK, PLAN, CODE = TokenRole.FEEDBACK, TokenRole.PLAN, TokenRole.CODE
DEFAULT = RECIPES["default"]


def letters(tokens: object) -> str:
    """Decode tokens that are characters."""
    return "".join(map(chr, tokens))  # type: ignore[call-overload]


LETTERS = Spelling(letters)


def test_the_plan_ends_where_the_source_begins() -> None:
    text = write_answer("Fuse both, then tile.", KERNEL)
    source = read_answer(text).source
    assert source is not None
    tokens = [ord(character) for character in text]
    roles = token_roles(tokens, None, source, LETTERS)
    begin = roles.index(CODE)
    assert letters(tokens[:begin]).rstrip() == "Fuse both, then tile.\n\n```python"
    assert set(roles[begin:]) == {CODE}


def test_a_token_that_spans_the_border_belongs_to_the_code() -> None:
    pieces = ["plan ", "it\nim", "port triton"]
    roles = token_roles([0, 1, 2], None, "import triton", Spelling(lambda ids: "".join(pieces[i] for i in ids)))
    assert list(roles) == [PLAN, CODE, CODE]


def test_the_last_mention_of_the_source_counts() -> None:
    text = "x=1 or rather x=1"
    assert token_roles([ord(c) for c in text], None, "x=1", LETTERS).index(CODE) == text.rindex("x=1")


def test_an_answer_without_code_is_all_plan_and_feedback_is_nobodys() -> None:
    assert list(token_roles([65, 66], None, None, LETTERS)) == [PLAN, PLAN]
    assert list(token_roles([65, 66, 67], [True, False, True], "C", LETTERS)) == [PLAN, FEEDBACK, CODE]
    assert list(token_roles([65, 66], [True, False], "AB", None)) == [CODE, FEEDBACK], "without a tokenizer all is code"


def test_a_tokenizer_whose_tokens_do_not_add_up_finds_the_code_too() -> None:
    """The tokenizer drops the space before the first word and spells one letter with two tokens."""
    words = {0: " plan", 1: " import", 2: " triton", 3: "\u00c3", 4: "\u00a9"}

    def decode(ids: Sequence[int]) -> str:
        return "".join(words[i] for i in ids).replace("\u00c3\u00a9", "\u00e9").removeprefix(" ")

    tokens = [0, 3, 4, 1, 2]
    assert list(token_roles(tokens, None, "import triton", Spelling(decode))) == [PLAN, PLAN, PLAN, CODE, CODE]


def test_a_source_that_was_tidied_up_is_found_by_its_fence() -> None:
    text = "plan\n```python\nx = 1 \nclass ModelNew: pass\n```\n"
    roles = token_roles([ord(c) for c in text], None, "x = 1\nclass ModelNew: pass", LETTERS)
    assert roles.index(CODE) == text.index("```")


def test_samples_keep_tokens_parents_and_groups_as_they_were() -> None:
    first = attempt("r", 0, token_ids=(5, 6, 7), log_probabilities=(-0.1, -0.2, -0.3), source="x")
    second = attempt("r", 1, parent=first.key, token_ids=(8,), log_probabilities=(-1.0,), mask=(True,))
    records = [(a, (grading(a.key, passed()),)) for a in (second, first)]
    samples = collect(records, DEFAULT).samples
    assert [s.turn.key for s in samples] == ["r/0.0", "r/1.0"]
    assert samples[1].turn.parent == "r/0.0" and samples[0].turn.group == samples[1].turn.group
    assert list(samples[0].numbers.load().log_probabilities or ()) == [-0.1, -0.2, -0.3]
    assert list(samples[0].numbers.load().prompt_ids) == [1, 2]
    assert samples[0].turn.progress_before == 0.0
    assert samples[0].turn.progress_after == samples[1].turn.progress_before == DEFAULT.potentials[passed().status]


def test_problems_judged_in_different_ways_are_different_groups() -> None:
    one = attempt("r", 0, token_ids=(5,))
    view = dataclasses.replace(one.observation.problem, device="NVIDIA H200")
    on_gpu = dataclasses.replace(one, run="s", observation=dataclasses.replace(one.observation, problem=view))
    groups = {s.turn.group for s in collect([(one, ()), (on_gpu, ())], DEFAULT).samples}
    assert len(groups) == 2


def test_a_draw_that_was_logged_twice_counts_once() -> None:
    record = SamplingRecord(temperature=1.0, seed=7)
    runs = [attempt(run, 0, token_ids=(5, 6), sampling=record) for run in ("a", "b")]
    chance = [attempt(run, 0, token_ids=(5, 6), sampling=dataclasses.replace(record, seed=s)) for run, s in
              (("c", 8), ("d", None), ("e", None))]  # fmt: skip
    collection = collect([(a, ()) for a in (*runs, *chance)], DEFAULT)
    assert [s.turn.key for s in collection.samples] == ["a/0.0", "c/0.0", "d/0.0", "e/0.0"]
    assert collection.left_out == {"the same draw is in another run": 1}


def test_several_processes_collect_what_one_does() -> None:
    runs = [
        (made, ())
        for run in "dcba"
        for made in [attempt(run, 0, token_ids=(5, 6), source=KERNEL, sampling=SamplingRecord(seed=ord(run) % 2))]
    ]
    parts = [functools.partial(list, runs[:1]), functools.partial(list, runs[1:])]
    knowledge = Knowledge(decode=letters)
    together = collect_parts(parts, DEFAULT, knowledge, 2)
    assert together == collect(runs, DEFAULT, knowledge)
    assert [sample.turn.key for sample in together.samples] == ["a/0.0", "b/0.0"], "whichever process read them"
    assert together.left_out == {"the same draw is in another run": 2}


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
    assert collect([(asked, ())], DEFAULT, knowledge).samples[0].numbers.load().prompt_ids.tolist() == [104, 105]


def test_the_last_verdict_counts_and_a_failure_to_measure_is_no_verdict() -> None:
    lost = Grading(attempt="a", failure=InstrumentFailure(kind="WorkerLost", what="gone"), grader="2", graded_at=NOW)
    old, new = grading("a", passed()), grading("a", failed(Finding.RACE), minutes=5)
    assert latest_evaluation([new, old, lost]) == new.evaluation
    assert latest_evaluation([lost]) is None and latest_evaluation([]) is None
    unmeasured = attempt("a", 0, token_ids=(5,))
    assert collect([(unmeasured, (lost,))], DEFAULT).samples[0].turn.reward.total is None


def test_alike_candidates_of_a_group_are_equally_novel_in_whatever_order_they_came() -> None:
    made = [
        attempt(run, 0, problem=p, token_ids=(5,), source=KERNEL) for run, p in (("a", "p"), ("b", "p"), ("c", "q"))
    ]
    samples = collect([(a, (grading(a.key, passed()),)) for a in made], DEFAULT).samples
    assert [s.turn.reward.parts["novelty"] for s in samples] == pytest.approx([0.05 / 2**0.5, 0.05 / 2**0.5, 0.05])


def test_breaking_a_right_kernel_never_earns_more_than_another_right_one() -> None:
    """Without a GPU no gain in speed is measured, and the rest of the reward decides."""
    another = KERNEL.replace("pass", "return x + y")
    wrong = answered(failed(Finding.VALUES, launched=True), another, shown(KERNEL)).turn.reward
    right = answered(passed(), another, shown(KERNEL)).turn.reward
    assert wrong.total == 0.0 < right.total  # type: ignore[operator]


def test_eight_equal_wrong_answers_have_no_advantage_over_each_other() -> None:
    wrong = failed(Finding.VALUES, launched=True)
    made = [attempt(f"r{i}", 0, token_ids=(5, i), source=KERNEL) for i in range(8)]
    novel = attempt("s", 0, token_ids=(6,), source=KERNEL.replace("pass", "return x + y"))
    for attempts in (made, [*made, novel]):
        samples = collect([(a, (grading(a.key, wrong),)) for a in attempts], DEFAULT).samples
        credit = assign([s.turn for s in samples], DEFAULT)
        assert credit.advantages == {} and credit.flat_groups == 1, "being new among the wrong is no result either"


def shown(source: str, speedup: Interval | None = None, status: Status = Status.PASSED) -> Tried:
    return Tried(attempt="r/0.0", turn=0, role=Role.PARENT, status=status, source=source, speedup=speedup)


def answered(evaluation: Evaluation, source: str, *seen: Tried, recalled: tuple[Lesson, ...] = ()) -> TrainingSample:
    """Return the sample of the second answer of a run, whose prompt showed these attempts and lessons."""
    first = attempt("r", 0, token_ids=(4,), source="f(0)")
    second = attempt("r", 1, parent=first.key, token_ids=(5,), source=source)
    observation = dataclasses.replace(second.observation, tried=seen, recalled=recalled)
    second = dataclasses.replace(second, observation=observation)
    records = [(first, (grading(first.key, passed()),)), (second, (grading(second.key, evaluation),))]
    return collect(records, DEFAULT).samples[1]


def test_a_copy_from_the_prompt_earns_nothing_and_is_forgiven_nothing() -> None:
    fast = passed(timing(2, 2, 2))
    lesson = Lesson(kind="kernel", text=KERNEL, why="same structure", speedup=2.0)
    for copied in (
        answered(fast, KERNEL, shown(KERNEL)),
        answered(fast, KERNEL.replace("double", "twice") + "\n# mine", shown(KERNEL)),
        answered(fast, KERNEL, recalled=(lesson,)),
    ):
        assert copied.turn.reward.total == 0.0 and copied.turn.reward.why == COPY
    cheat = answered(failed(Finding.TAMPERED), KERNEL, shown(KERNEL)).turn.reward
    assert cheat.hack and cheat.total == DEFAULT.worst
    own = answered(fast, KERNEL.replace("pass", "return y + x"), shown(KERNEL.replace("pass", "return x + y")))
    assert own.turn.reward.why == "", "operands that changed places are another program"


def test_the_answer_of_an_earlier_turn_earns_nothing_a_second_time() -> None:
    assert answered(passed(timing(2, 2, 2)), "f(0)").turn.reward.why == TWIN


def test_over_a_kernel_that_stood_in_the_prompt_only_the_gain_is_paid() -> None:
    before = Interval(low=2.0, median=2.0, high=2.0)
    four, two = passed(timing(4, 4, 4)), passed(timing(1.8, 2, 2.2))
    other = shown("f(1)", before)
    assert answered(four, "f(2)", other).turn.reward.parts["gain"] == pytest.approx(0.5 * 1.0)
    assert answered(two, "f(2)", other).turn.reward.parts["gain"] == 0.0
    assert answered(failed(Finding.VALUES), "f(2)", other).turn.reward.parts["gain"] == 0.0
    assert answered(four, "f(2)", shown("f(1)")).turn.reward.parts["gain"] is None, "what stood there was not timed"
    assert answered(passed(), "f(2)", shown("f(1)")).turn.reward.parts["gain"] == 0.0
    repaired = answered(four, "f(2)", shown("f(1)", status=Status.WRONG_VALUES)).turn
    assert repaired.reward.parts["correct"] == 1.0 and "gain" not in repaired.reward.parts
    assert not repaired.improves and answered(four, "f(2)", other).turn.improves


def test_a_kernel_that_could_not_be_measured_may_be_written_again() -> None:
    lost = InstrumentFailure(kind="WorkerLost", what="gone")
    first, second = (
        attempt("r", turn, parent=p, token_ids=(5,), source=KERNEL) for turn, p in ((0, None), (1, "r/0.0"))
    )
    tried = Tried(attempt=first.key, turn=0, role=Role.PARENT, status=None, source=KERNEL)
    second = dataclasses.replace(second, observation=dataclasses.replace(second.observation, tried=(tried,)))
    unmeasured = Grading(attempt=first.key, failure=lost, grader="2", graded_at=NOW)
    again = collect([(first, (unmeasured,)), (second, (grading(second.key, passed()),))], DEFAULT).samples[1].turn
    assert again.reward.parts["correct"] == 1.0 and again.reward.why == ""


def test_tokens_of_tools_do_not_make_an_answer_too_long() -> None:
    """A conversation of three requests, each with a limit of 100 tokens."""
    mask = (True,) * 70 + (False,) * 500 + (True,) * 90 + (False,) * 9 + (True,) * 20
    limits = SamplingRecord(temperature=1.0, tokens_at_most=100)
    talk = attempt("a", 0, token_ids=(5,) * len(mask), mask=mask, sampling=limits)
    paid = collect([(talk, (grading(talk.key, failed(Finding.VALUES)),))], DEFAULT).samples[0].turn.reward
    assert paid.parts["overlong"] == pytest.approx(-0.5 * 0.5), "of the longest answer, 90 tokens"


def test_a_later_turn_without_tokens_counts_in_the_returns_of_the_turns_before() -> None:
    """Two equal chains of three turns; the server did not return the tokens of one turn of the first."""
    records, kevin = [], RECIPES["kevin"]
    for run in "ab":
        for turn, verdict in enumerate((failed(Finding.VALUES), passed(timing(2, 2, 2)), passed(timing(3, 3, 3)))):
            parent = f"{run}/{turn - 1}.0" if turn else None
            tokens = None if (run, turn) == ("a", 1) else (5, turn)
            made = attempt(run, turn, parent=parent, token_ids=tokens, source=f"{run} = {turn}")
            records.append((made, (grading(made.key, verdict),)))
    alone = attempt("c", 0, token_ids=(9,), source="c = 0")
    records.append((alone, (grading(alone.key, failed(Finding.VALUES)),)))
    collected = collect(records, kevin)
    assert [turn.key for turn in collected.unsampled] == ["a/1.0"] and collected.left_out == {
        "no tokens were stored": 1
    }
    credit = assign([*(sample.turn for sample in collected.samples), *collected.unsampled], kevin)
    found = {key: advantage.code for key, advantage in credit.advantages.items()}
    assert found["a/0.0"] == found["b/0.0"] > found["c/0.0"] and found["a/2.0"] == found["b/2.0"]
    assert "a/1.0" not in found and credit.groups == 1 and sum(credit.left_out.values()) == 0


def test_the_limit_of_an_answer_and_its_fingerprint_come_from_the_record() -> None:
    limited = attempt("a", 0, token_ids=(5,) * 90, sampling=SamplingRecord(temperature=1.0, tokens_at_most=100))
    paid = collect([(limited, (grading(limited.key, failed(Finding.VALUES)),))], DEFAULT).samples[0].turn.reward
    assert paid.parts["overlong"] == pytest.approx(-0.5 * 0.5)


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


@pytest.mark.parametrize(
    ("recipe", "lacking"),
    [
        ("autotriton", set()),
        ("tritonrl", {"speed"}),
        ("kevin", {"speed"}),
        ("drkernel", {"speed", "share"}),
        ("milestones", {"milestone"}),
        ("drpo", {"speed"}),
        ("default", {"speed", "share", "milestone", "gain", "reasoning", "overlong"}),
    ],
)
def test_a_real_run_pays_every_part_that_needs_no_gpu_and_no_policy(
    recipe: str, lacking: set[str], nursery: Nursery
) -> None:
    """The kernels are the examples, judged by the real evaluator without a GPU."""
    run = recorded(nursery)
    records = [(one, [g for g in run.gradings if g.attempt == one.key]) for one in run.attempts]
    rewards = [sample.turn.reward for sample in collect(records, RECIPES[recipe]).samples]
    assert len(rewards) >= 3 and any(reward.passed for reward in rewards)
    assert set(unpaid(RECIPES[recipe], rewards)) == lacking


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("story", ["combine", "smaller_blocks"])
def test_the_measurements_of_a_run_on_a_gpu_pay_the_parts_that_need_one(recipe: str, story: str) -> None:
    """Three kernels that passed on an H100, each shown those before it; timed, profiled, the last one the fastest."""
    seen, limited = load("cuda")[story], SamplingRecord(temperature=1.0, tokens_at_most=100)
    records = []
    for turn, tried in enumerate(seen.tried):
        over_eager, over_compile = tried.speedup, tried.baselines_ms.get("compile")
        assert over_eager and tried.device_ms and tried.diagnosis and tried.source
        timings = [timing(over_eager.low, over_eager.median, over_eager.high)]
        if over_compile:
            timings.append(timing(*[over_compile / tried.device_ms] * 3, baseline="compile (float32)"))
        made = attempt("a", turn, token_ids=(5, turn), source=tried.source, sampling=limited)
        made = dataclasses.replace(made, observation=dataclasses.replace(seen, turn=turn, tried=seen.tried[:turn]))
        verdict = dataclasses.replace(passed(*timings), diagnosis=tried.diagnosis)
        records.append((made, (grading(made.key, verdict),)))
    rewards = [sample.turn.reward for sample in collect(records, RECIPES[recipe]).samples]
    assert len(rewards) == 3 and all(reward.total is not None for reward in rewards)
    assert unpaid(RECIPES[recipe], rewards) == (["reasoning"] if recipe == "default" else [])
    if recipe == "default":
        assert (rewards[2].parts["gain"] or 0.0) > 0.0, "the last is faster than those that it was shown"
