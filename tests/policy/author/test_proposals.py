"""The built-in author finds its next proposals without planning kernels that nobody measures."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Role, Rules, Tried
from triton_agent.memory.records import Grading, InstrumentFailure
from triton_agent.policy import builtin
from triton_agent.policy.answer import read_answer, without_notes
from triton_agent.policy.author.brief import Brief
from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.decisions import Feedback, neighbours
from triton_agent.policy.author.writer import BY_CHOICE, NO_KERNEL, write
from triton_agent.policy.episode import Graded, make_attempt, observe
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.graph.fingerprint import fingerprint
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

TWO_KERNELS = """
ROWS, WIDTH = 6, 40


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return torch.softmax(self.second(torch.relu(self.first(x))), -1)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
"""


def observation(spec: ProblemSpec, brief: Brief, tried: tuple[Tried, ...] = ()) -> Observation:
    view = ProblemView(
        digest=spec.digest,
        name=spec.name,
        spec=spec.to_json(),
        source=brief.source,
        fingerprint=fingerprint(brief.graphs[0]),
        graphs=tuple(graph.to_json() for graph in brief.graphs),
        device="cpu",
    )
    return Observation(problem=view, rules=Rules(), turn=0, seed=0, budget=BudgetLeft(), tried=tried)


def test_on_a_cpu_nothing_is_planned_around_other_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed on a CPU, so other tiles cannot help. Planning them took minutes for a large model."""
    spec = problem(tmp_path, TWO_KERNELS)
    brief = brief_of(spec)
    seen = observation(spec, brief)
    asked: list[Choice] = []

    def noted(brief: Brief, choice: Choice, feedback: Feedback) -> list[Choice]:
        asked.append(choice)
        return neighbours(brief, choice, feedback)

    monkeypatch.setattr(builtin, "neighbours", noted)
    assert len(asyncio.run(builtin.Builtin().propose(seen))) == 1 and not asked
    assert asyncio.run(builtin.Builtin().propose(seen, 8)) and asked
    assert not any(choice.tiles for choice in asked)


LOGITS = """
class Model(nn.Module):
    def forward(self, x):
        logp = F.log_softmax(x, 1)
        return logp, -(logp.exp() * logp).sum(1)


def get_inputs():
    return [torch.randn(3, 5, 6, 7)]
"""


def test_no_file_is_written_twice_whatever_was_decided(tmp_path: Path) -> None:
    """Different choices can give the same file, and a second verdict on the same file adds nothing."""
    spec = problem(tmp_path, LOGITS)
    brief = brief_of(spec)
    first = asyncio.run(builtin.Builtin().propose(observation(spec, brief), 1))
    tried = Tried(attempt="0.0", turn=0, role=Role.PARENT, status=None, plan=first[0].text)
    more = asyncio.run(builtin.Builtin().propose(observation(spec, brief, (tried,)), 8))
    files = [completion.text.split("```python")[1].split("# decided")[0] for completion in first + more]
    assert len(files) == len(set(files)) > 2


def test_what_was_tried_is_known_however_long_its_plan_is(tmp_path: Path) -> None:
    spec = problem(tmp_path, TWO_KERNELS)
    brief = brief_of(spec, allow_library=True)
    empty = dataclasses.replace(observation(spec, brief), rules=Rules(allow_library=True))
    history = []
    for completion in asyncio.run(builtin.Builtin().propose(empty, 3)):
        attempt = make_attempt("run", empty, completion, index=len(history), parent=None)
        attempt = dataclasses.replace(attempt, plan=f"{'One more kernel. ' * 40}\n{attempt.plan}")
        failure = InstrumentFailure(kind="InstrumentError", what="no card")
        graded_at = datetime.datetime.now(datetime.UTC)
        grading = Grading(attempt=attempt.key, failure=failure, grader="1", graded_at=graded_at)
        history.append(Graded(attempt=attempt, grading=grading))
    seen = observe(empty.problem, empty.rules, history, BudgetLeft(), turn=1, attempts_before=3, seed=0)
    assert all(len(item.plan) < 700 for item in seen.tried)
    again = asyncio.run(builtin.Builtin().propose(seen, 8))
    old = {item.attempt.source for item in history}
    assert again and not old & {read_answer(completion.text).source for completion in again}


def test_a_plan_says_in_words_what_was_decided_and_keeps_its_notes_for_the_end(tmp_path: Path) -> None:
    spec = problem(tmp_path, TWO_KERNELS)
    brief = brief_of(spec, allow_library=True)
    proposed = asyncio.run(builtin.Builtin().propose(observation(spec, brief), 8))
    plans = [read_answer(completion.text).plan for completion in proposed]
    assert plans[0].startswith("The fewest launches that the author can plan.")
    assert len({plan.splitlines()[0] for plan in plans}) > 1
    assert all(plan.splitlines()[-1].startswith("decided: {") for plan in plans)
    assert all("{" not in without_notes(plan) for plan in plans)


LINEAR_ALONE = TWO_KERNELS.replace("torch.softmax(self.second(torch.relu(self.first(x))), -1)", "self.first(x)")


def left_to_torch(brief: Brief, choice: Choice) -> list[tuple[int, ...]]:
    found = (other.left_to_torch for other in neighbours(brief, choice, Feedback()))
    return list(dict.fromkeys(found))


def test_where_the_library_may_multiply_it_is_tried_beside_own_products(tmp_path: Path, nursery: Nursery) -> None:
    spec = problem(tmp_path, TWO_KERNELS)
    brief = brief_of(spec, allow_library=True)
    both, *singly = sorted(filter(None, left_to_torch(brief, Choice())), key=len, reverse=True)
    assert neighbours(brief, Choice(), Feedback())[0] == Choice(left_to_torch=both)
    assert sorted(singly) == [(place,) for place in both] and len(both) == 2
    answer = write(brief, Choice(left_to_torch=both))
    assert "tl.dot" not in answer.source and "@triton.jit" in answer.source
    assert BY_CHOICE in answer.plan and NO_KERNEL not in answer.plan
    with Evaluator(spec, EvaluatorSettings(target=None, allow_library=True), nursery=nursery) as evaluator:
        verdict = evaluator.evaluate(answer.source)
    assert verdict.status == "passed", verdict.message  # also with transposed inputs, which no own kernel reads
    assert () in left_to_torch(brief, Choice(left_to_torch=both))


def test_the_librarys_work_alone_is_no_proposal(tmp_path: Path) -> None:
    assert left_to_torch(brief_of(problem(tmp_path, LINEAR_ALONE), allow_library=True), Choice()) == [()]
    assert left_to_torch(brief_of(problem(tmp_path, TWO_KERNELS)), Choice()) == [()]
