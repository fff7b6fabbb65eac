"""Solves the problems of a dataset by the built-in author, and makes repairs of injected faults.

Files are judged by the evaluator, in processes of its own; a fault that the evaluator does not refuse is dropped. If
only a share of the problems is judged, the author's first answers to the others are taken as they are, without faults.
A problem is in the journal once its attempts are in the store, so an interrupted run continues with the next problem.
What could not be measured is not in the journal and is tried again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import datetime
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from triton_agent.memory.listing import RunFilter
from triton_agent.memory.observation import BudgetLeft, ProblemView, Rules
from triton_agent.memory.records import Attempt, Completion, Grading, Run, RunEnd, new_run_id
from triton_agent.memory.store import Store
from triton_agent.memory.verdicts import passed
from triton_agent.policy.answer import without_notes, write_answer
from triton_agent.policy.builtin import Builtin
from triton_agent.policy.episode import Graded, Judge, make_attempt, observe, step, trajectory_seed
from triton_agent.policy.rollout import Episode, roll_out
from triton_agent.policy.train.data.candidates import Row
from triton_agent.policy.train.data.conversations import FAULT_POLICY, conversations
from triton_agent.policy.train.data.faults import faulty_versions
from triton_agent.policy.train.online.rollouts import SharedVerdicts
from triton_agent.runs.data.folder import SOLVED, STORE, DatasetFolder
from triton_agent.tools.errors import InstrumentError, ProblemError
from triton_agent.tools.evaluate.sets_evaluator import evaluator_for
from triton_agent.tools.machine.hardware import Gpu
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import own_nursery
from triton_agent.tools.results import Evaluation
from triton_agent.tools.settings import EvaluatorSettings

UNJUDGED = "not judged"
"""Outcome of a problem whose answer was taken as it is."""
HARMLESS = 3
"""Faults tried beyond the wanted number, since some leave the answer unchanged."""


Attempts = tuple[tuple[Attempt, Grading | None], ...]
"""Attempts of a run with their verdicts; None for one that was not judged."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SolveSettings:
    evaluator: EvaluatorSettings
    turns: int
    faults: int
    jobs: int
    judged: float = 1.0
    """Share of the problems whose answers are judged."""
    cards: tuple[Gpu, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Solved:
    """The result of solving one problem."""

    name: str
    outcome: str
    runs: tuple[tuple[Run, Attempts], ...] = ()
    measured: bool = True


def solve_all(
    folder: DatasetFolder,
    rows: Sequence[Row],
    settings: SolveSettings,
    on_progress: Callable[[str], None],
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Solve what is not solved yet; return how many problems could not be measured."""
    unmeasured = 0
    with (
        own_nursery(settings.evaluator.card, many_problems=True) as nursery,
        Store.open(folder.path / STORE) as store,
        concurrent.futures.ThreadPoolExecutor(settings.jobs) as pool,
    ):
        _note_stored(folder, store)
        there = {line["name"] for line in folder.lines(SOLVED)}
        left = [row for row in rows if row["name"] not in there]

        def solve(row: Row) -> _Solved:
            spec = parse_problem(str(folder.file_of(row)))
            try:
                with evaluator_for(spec, settings.evaluator, nursery=nursery, say=say) as evaluator:
                    view = ProblemView.of(spec, evaluator.facts, settings.cards)
                    if not _is_judged(row, settings.judged):
                        return asyncio.run(_answered(row, view, settings))
                    return asyncio.run(_solve(row, view, _JudgedOnce(evaluator), settings))
            except ProblemError as error:
                return _Solved(name=row["name"], outcome=f"not accepted as a problem: {error.what}")
            except InstrumentError as error:
                return _Solved(name=row["name"], outcome=error.what, measured=False)

        futures = [pool.submit(solve, row) for row in left]
        try:
            for future in concurrent.futures.as_completed(futures):
                solved = future.result()
                on_progress(solved.outcome)
                if not solved.measured:
                    unmeasured += 1
                    continue
                _store_runs(store, solved)
                folder.append(SOLVED, _line(solved.name, solved.outcome, [run for run, _ in solved.runs]))
        finally:
            for future in futures:
                future.cancel()
            nursery.close()  # ends what an interruption leaves behind, waits for memory too
    return unmeasured


def _store_runs(store: Store, solved: _Solved) -> None:
    """Store the runs of a problem in one commit, so that a kill leaves all of them or none."""
    records: list[Any] = []
    now = datetime.datetime.now(datetime.UTC)
    for run, attempts in solved.runs:
        run = dataclasses.replace(run, settings={**run.settings, "outcome": solved.outcome})
        last, grading = attempts[-1]
        best = last.key if grading is not None and passed(grading.evaluation) else None
        end = RunEnd(run=run.id, stop_reason="turns", best=best, ended_at=now)
        records += [store.prepare(run), *(store.prepare(*one) for one in attempts), store.prepare(end)]
    for refused in store.commit(records):
        if refused is not None:
            raise refused


def _note_stored(folder: DatasetFolder, store: Store) -> None:
    """Note problems in the journal whose runs were stored right before a kill."""
    noted = {run for line in folder.lines(SOLVED) for run in line["runs"]}
    found: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for listed in store.runs(RunFilter(limit=None, with_best=False)):
        if listed.id not in noted:
            run = store.run(listed.id)
            if "outcome" in run.settings:  # earlier versions did not store it
                found[run.settings["problem"], run.settings["outcome"]].append(run)
    for (name, outcome), runs in found.items():
        folder.append(SOLVED, _line(name, outcome, sorted(runs, key=lambda run: run.started_at)))


def _line(name: str, outcome: str, runs: Sequence[Run]) -> dict[str, Any]:
    return {"name": name, "outcome": outcome, "runs": [run.id for run in runs]}


class _JudgedOnce(SharedVerdicts):
    """Judges a file without its notes, so that a repair, which is the kernel that passed before, is not judged
    again.
    """

    async def evaluate_async(self, source: str, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        return await super().evaluate_async(without_notes(source).rstrip() + "\n", on_stage)


def _is_judged(row: Row, share: float) -> bool:
    """Choose by the problem's digest, so that a run that continues chooses alike."""
    return random.Random(row["sha256"]).random() < share


async def _answered(row: Row, view: ProblemView, settings: SolveSettings) -> _Solved:
    """Take the author's first answer as it is."""
    run = _run(row, view, "builtin")
    seen = observe(
        view,
        _rules(settings),
        (),
        BudgetLeft(turns=settings.turns),
        turn=0,
        attempts_before=0,
        seed=trajectory_seed(run.id, 0),
    )
    answers = await Builtin().propose(seen)
    if not answers:
        return _Solved(name=row["name"], outcome="no answer")
    attempt = make_attempt(run.id, seen, answers[0], index=0, parent=None)
    return _Solved(name=row["name"], outcome=UNJUDGED, runs=((run, ((attempt, None),)),))


async def _solve(row: Row, view: ProblemView, evaluator: Judge, settings: SolveSettings) -> _Solved:
    """Let the author solve the problem; then put faults into its kernel and repair them."""
    rules = _rules(settings)
    run = _run(row, view, "builtin")
    episode = Episode(run=run.id, problem=view, judge=evaluator, rules=rules)
    (history,) = await roll_out([episode], Builtin(), turns=settings.turns)
    if any(graded.evaluation is None for graded in history):
        return _Solved(name=row["name"], outcome="not measured", measured=False)
    good = [graded for graded in history if passed(graded.evaluation)]
    if not good:
        outcome = f"first answer: {history[0].evaluation.status}" if history and history[0].evaluation else "no answer"
        return _Solved(name=row["name"], outcome=outcome, runs=((run, _pairs(history)),) if history else ())
    best = max(good, key=lambda graded: graded.standing)
    chance = random.Random(row["sha256"])
    repaired: list[tuple[Run, Attempts]] = []
    source = without_notes(best.attempt.source or "")
    for fault, text in faulty_versions(chance, source)[: settings.faults + HARMLESS if settings.faults else 0]:
        if len(repaired) == settings.faults:
            break
        broken_run = _run(row, view, f"{FAULT_POLICY}:{fault.name}")
        seen = observe(
            view, rules, (), BudgetLeft(turns=2), turn=0, attempts_before=0, seed=trajectory_seed(broken_run.id, 0)
        )
        said = Completion(
            text=write_answer(without_notes(best.attempt.plan), text), policy=f"{FAULT_POLICY}:{fault.name}"
        )
        broken = await step(broken_run.id, seen, said, evaluator)
        if broken.evaluation is None:
            return _Solved(name=row["name"], outcome="not measured", measured=False)
        if passed(broken.evaluation):
            continue
        answer = Completion(text=write_answer(f"{fault.cause} {fault.remedy}", source), policy="repair")
        mended = await _repaired(broken, answer, evaluator)
        if mended.evaluation is None:
            return _Solved(name=row["name"], outcome="not measured", measured=False)
        repaired.append((broken_run, _pairs([broken, mended])))
    return _Solved(name=row["name"], outcome="passed", runs=((run, _pairs(history)), *repaired))


def _pairs(history: Sequence[Graded]) -> Attempts:
    return tuple((graded.attempt, graded.grading) for graded in history)


async def _repaired(broken: Graded, answer: Completion, evaluator: Judge) -> Graded:
    """Store the repair as the turn after a faulty attempt."""
    before = broken.attempt
    seen = observe(
        before.observation.problem,
        before.observation.rules,
        (broken,),
        BudgetLeft(turns=1),
        turn=1,
        attempts_before=1,
        seed=before.observation.seed,
        parent=before.key,
    )
    return await step(before.run, seen, answer, evaluator, parent=before.key)


def _rules(settings: SolveSettings) -> Rules:
    return Rules(target=settings.evaluator.target or Rules().target)


def _run(row: Row, view: ProblemView, policy: str) -> Run:
    now = datetime.datetime.now(datetime.UTC)
    said = {"command": "data make", "problem": row["name"]}
    return Run(
        id=new_run_id(now, f"{row['name']} {policy}"), problem=view, policy=policy, settings=said, started_at=now
    )


def conversations_of(folder: DatasetFolder, rows: Sequence[Row], prompt_tokens: int) -> list[dict[str, Any]]:
    """Return the conversations of all solved problems, in the order of the problems."""
    from triton_agent.policy.llm.prompting.counting import token_bound
    from triton_agent.policy.llm.prompting.prompt import as_messages

    runs: Mapping[str, Sequence[str]] = {line["name"]: line["runs"] for line in folder.lines(SOLVED)}
    render = as_messages(budget_tokens=prompt_tokens, count=token_bound)
    found: list[dict[str, Any]] = []
    if not any(runs.values()):
        return found
    with Store.open(folder.path / STORE, read_only=True) as store:
        for row in rows:
            judged = [(a, store.gradings(a.key)) for run in runs.get(row["name"], ()) for a in store.attempts(run)]
            found += conversations(row, judged, render)
    return found
