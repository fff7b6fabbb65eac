"""The contract of all policies: the built-in author, files, and language models in every kind of engine.

The language models are small and have random weights, but run in the engines that serve large ones. If an engine is not
installed, its part is skipped with the reason; `make test-vllm` installs all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.policy.llm.engines.real_engines import assert_exact, require_transformers, vllm_python, vllm_server

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
from triton_agent.memory.records import Attempt, Completion, Message, Run
from triton_agent.memory.store import Store
from triton_agent.policy.answer import write_answer
from triton_agent.policy.builtin import Builtin
from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.conversation import BROKEN
from triton_agent.policy.llm.engine import Engine, ModelQuestion, Sampling
from triton_agent.policy.protocol import Policy
from triton_agent.policy.scripted import Scripted
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = (ROOT / "tests/kernels/row_sum_f32/problem.py", ROOT / "tests/kernels/softmax_f32/problem.py")
SAMPLING = Sampling(temperature=1.0, max_tokens=24, seed=5)
SAY_ANYTHING = (Message(role="user", content="Write."),)
MANY = 320
"""Number of short answers of a model with random weights; one in 25 ends within a character."""
UNFINISHED = "\ufffd"
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
SLOW = ("openai", "vllm")
"""Kinds whose engine takes half a minute to start."""

Result = TypeVar("Result")


def wait(work: Coroutine[Any, Any, Result]) -> Result:
    """Run work in a new event loop, as trainers do."""
    return asyncio.run(work)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A policy, and the properties that only some policies have."""

    policy: Policy
    fresh: Callable[[], Policy] | None
    """Makes an equal policy; None if that is expensive."""
    model: Path | None
    """The model whose tokens the policy records; None if it records no tokens."""
    engine: Engine | None = None
    """The engine that samples the tokens."""
    keeps_seeds: bool = True
    """True if equal questions must get equal answers."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Plain:
    messages: tuple[Message, ...]
    version: str = "test"


def _render(observation: Observation, *, budget_tokens: int, count: Callable[[str], int]) -> _Plain:
    said = f"Turn {observation.turn}. Make this faster:\n{observation.problem.source[:400]}"
    return _Plain((Message(role="system", content="You write kernels."), Message(role="user", content=said)))


def _author(engine: Engine) -> LanguageAuthor:
    return LanguageAuthor(engine, SAMPLING, render=_render)


def _drawn_by(engine: Engine, another: Callable[[], Engine] | None, model: Path) -> Kind:
    fresh = (lambda: _author(another())) if another else None
    return Kind(policy=_author(engine), fresh=fresh, model=model, engine=engine)


def _builtin(request: pytest.FixtureRequest) -> Iterator[Kind]:
    yield Kind(policy=Builtin(), fresh=Builtin, model=None)


def _scripted(request: pytest.FixtureRequest) -> Iterator[Kind]:
    answers = [write_answer(f"plan {n}", f"class ModelNew:\n    answer = {n}\n") for n in range(20)]
    yield Kind(policy=Scripted(answers), fresh=lambda: Scripted(answers), model=None)


def _hf(request: pytest.FixtureRequest) -> Iterator[Kind]:
    require_transformers()
    from triton_agent.policy.llm.engines.transformers_engine import TransformersEngine

    model = request.getfixturevalue("served_model")

    def make() -> TransformersEngine:
        return TransformersEngine(model, device="cpu")

    yield _drawn_by(make(), make, model)


def _openai(request: pytest.FixtureRequest) -> Iterator[Kind]:
    from triton_agent.policy.llm.servers.openai import OpenAIEngine, Server

    vllm_python()
    model = request.getfixturevalue("served_model")
    log = request.getfixturevalue("tmp_path_factory").mktemp("server") / "log"
    with vllm_server(model, log) as url:

        def make() -> OpenAIEngine:
            return OpenAIEngine("served", Server.at(url, None))

        yield _drawn_by(make(), make, model)


def _vllm(request: pytest.FixtureRequest) -> Iterator[Kind]:
    from triton_agent.policy.llm.engines.vllm_engine import VllmEngine, VllmSettings

    settings = VllmSettings(python=vllm_python(), dtype="float32", eager=True, cpu_cache_gb=1)
    model = request.getfixturevalue("served_model")
    yield _drawn_by(VllmEngine(str(model), settings), None, model)


KINDS = {"builtin": _builtin, "scripted": _scripted, "hf": _hf, "openai": _openai, "vllm": _vllm}


MARKS = {"hf": pytest.mark.train} | dict.fromkeys(SLOW, pytest.mark.slow)


@pytest.fixture(scope="module", params=[pytest.param(name, marks=MARKS.get(name, ())) for name in KINDS])
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    made = contextlib.contextmanager(KINDS[request.param])(request)
    with made as kind:
        yield kind
        wait(kind.policy.close())


@pytest.fixture(scope="module")
def observations(nursery: Nursery) -> tuple[Observation, ...]:
    """Return observations of the first turn of two problems, built as a run builds them."""
    return tuple(_first_turn(path, nursery) for path in PROBLEMS)


def _first_turn(path: Path, nursery: Nursery) -> Observation:
    spec = parse_problem(str(path))
    with Evaluator(spec, EvaluatorSettings(device="cpu"), nursery=nursery) as evaluator:
        view = ProblemView.of(spec, evaluator.facts)
    return Observation(problem=view, rules=Rules(), turn=0, attempts_before=0, seed=7, budget=BudgetLeft(turns=3))


def texts(answers: Sequence[Completion | None]) -> list[str | None]:
    return [answer.text if answer else None for answer in answers]


def test_it_has_a_name_and_a_version(kind: Kind) -> None:
    assert isinstance(kind.policy, Policy)
    assert kind.policy.name and kind.policy.version


def test_it_gives_at_most_as_many_answers_as_asked_for_and_signs_them(
    kind: Kind, observations: tuple[Observation, ...]
) -> None:
    for n in (1, 3):
        answers = wait(kind.policy.propose(observations[0], n))
        assert 1 <= len(answers) <= n
        assert {answer.policy for answer in answers} == {kind.policy.name}
        # servers append their version
        assert all(answer.policy_version.startswith(kind.policy.version) for answer in answers)
        assert len(set(texts(answers))) == len(answers)


def test_the_same_observation_gets_the_same_answers_whatever_was_asked_in_between(
    kind: Kind, observations: tuple[Observation, ...]
) -> None:
    one, other = observations
    before = wait(kind.policy.propose(one, 2))
    between = wait(kind.policy.propose(other, 2))
    after = wait(kind.policy.propose(one, 2))
    assert [answer.messages for answer in before] == [answer.messages for answer in after]
    if kind.keeps_seeds:
        assert texts(before) == texts(after)
        if kind.model:
            assert texts(between) != texts(after)


def test_a_new_one_of_its_kind_gives_the_same_answers(kind: Kind, observations: tuple[Observation, ...]) -> None:
    if kind.fresh is None:
        pytest.skip("another engine takes too long; its version and questions are all there is to it")
    another = kind.fresh()
    assert another.version == kind.policy.version
    answers = wait(another.propose(observations[0], 2))
    assert texts(answers) == texts(wait(kind.policy.propose(observations[0], 2)))
    wait(another.close())


def test_many_observations_are_answered_in_their_order(kind: Kind, observations: tuple[Observation, ...]) -> None:
    one, other = observations
    alone = {seen.problem.digest: wait(kind.policy.propose(seen, 1)) for seen in (one, other)}
    together = wait(kind.policy.propose_many([one, other, one]))
    assert len(together) == 3
    for seen, answer in zip((one, other, one), together):
        assert answer is not None
        assert answer.messages == alone[seen.problem.digest][0].messages
        if kind.keeps_seeds:
            assert answer.text == alone[seen.problem.digest][0].text
    assert wait(kind.policy.propose_many([])) == []


def test_it_goes_on_after_a_question_was_called_off(kind: Kind, observations: tuple[Observation, ...]) -> None:
    before = wait(kind.policy.propose(observations[0], 2))

    async def call_off() -> None:
        task = asyncio.ensure_future(kind.policy.propose(observations[1], 3))
        await asyncio.sleep(0.05)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    wait(call_off())
    after = wait(kind.policy.propose(observations[0], 2))
    assert len(after) == len(before)
    assert not kind.keeps_seeds or texts(after) == texts(before)


def test_the_event_loop_goes_on_while_it_thinks(kind: Kind, observations: tuple[Observation, ...]) -> None:
    if kind.model is None:
        pytest.skip("answers at once")
    ended: list[str] = []

    async def other_work() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        ended.append("other work")

    async def ask() -> None:
        answers = await kind.policy.propose(observations[0], 4)
        ended.append(f"{len(answers)} answers")

    async def both() -> None:
        await asyncio.gather(ask(), other_work())

    wait(both())
    assert ended == ["other work", "4 answers"]


def test_answers_come_back_from_the_store_as_they_were(
    kind: Kind, observations: tuple[Observation, ...], tmp_path: Path
) -> None:
    answers = wait(kind.policy.propose(observations[0], 3))
    run = Run(id="r", problem=observations[0].problem, policy=kind.policy.name, settings={}, started_at=NOON)
    first = Attempt(
        run="r",
        turn=0,
        index=0,
        parent=None,
        observation=observations[0],
        completion=answers[0],
        created_at=NOON,
    )
    with Store.open(tmp_path / "store.db") as store:
        store.add_run(run)
        for index, answer in enumerate(answers):
            store.add_attempt(dataclasses.replace(first, index=index, completion=answer))
    with Store.open(tmp_path / "store.db") as store:
        assert [attempt.completion for attempt in store.attempts("r")] == answers


def test_tokens_rebuild_the_text_and_their_log_probabilities_are_the_models(
    kind: Kind, observations: tuple[Observation, ...]
) -> None:
    answers = [a for seen in observations for a in wait(kind.policy.propose(seen, 2))]
    if kind.model is None:
        assert all(answer.token_ids is None and answer.log_probabilities is None for answer in answers)
        return
    # An answer that was cut off is followed by a second request, whose prompt shows its beginning as text, not as
    # tokens.
    assert {answer.missing for answer in answers} <= {"", BROKEN}
    assert_exact(kind.model, answers, temperature=SAMPLING.temperature)


def test_answers_that_end_within_a_character_are_what_their_tokens_spell(kind: Kind) -> None:
    if kind.model is None or kind.engine is None:
        pytest.skip("has no tokens")
    short = dataclasses.replace(SAMPLING, max_tokens=2)
    (answers,) = wait(kind.engine.answer([ModelQuestion(messages=SAY_ANYTHING, n=MANY, sampling=short)]))
    assert any(answer.text.endswith(UNFINISHED) for answer in answers)
    assert not any(answer.missing for answer in answers)
    assert_exact(kind.model, answers, temperature=SAMPLING.temperature)


def test_it_can_be_closed_twice(kind: Kind) -> None:
    wait(kind.policy.close())
    wait(kind.policy.close())
