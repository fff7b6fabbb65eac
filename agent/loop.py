"""The loop as a LangGraph graph: recall, propose, evaluate in parallel, reflect, repeat.

    START -> recall -> propose -> evaluate x n -> reflect -> propose | finish -> END

The nodes are methods of `Loop`, which is given policies, evaluator and ledger; the state holds keys only. Every answer
is stored before it is judged, and every verdict before the next turn. A killed run therefore resumes at the node it was
in, and nothing that was stored is requested, judged or stored again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send

from triton_agent.agent import portfolio, search, sorting, tasks
from triton_agent.agent.authors import Authors
from triton_agent.agent.ledger import RECALLED, Ledger, graded_like
from triton_agent.agent.pool import Pool
from triton_agent.agent.settings import LoopSettings, Search, Spent, StopReason, exhausted, left
from triton_agent.agent.state import LEFT_OUT, Assignment, Event, LoopState, initial_state
from triton_agent.agent.tasks import Assigned, TaskCount
from triton_agent.memory.observation import Lesson, Observation, Task
from triton_agent.memory.records import Attempt, Completion, Grading, GradingMachine
from triton_agent.policy.episode import Graded, Judge, grade, make_attempt, observe, trajectory_seed
from triton_agent.policy.protocol import Policy
from triton_agent.tools.ranking import best_of

LANES = 8
"""Most parallel `evaluate` nodes. With more attempts, several share a lane, because each lane costs a checkpoint of 1.5
ms.
"""
STEPS_PER_TURN = 3
"""Super-steps of the graph: propose, evaluate, reflect."""
FRUITLESS_TURNS = 2
"""Consecutive turns without a measurement after which the run ends."""


class Loop:
    """One run, from its stored state to its end."""

    def __init__(
        self,
        ledger: Ledger,
        policies: Sequence[Policy],
        judges: Sequence[Judge] | Pool[Judge],
        settings: LoopSettings,
        *,
        recall: Callable[[], Sequence[Lesson]] = tuple,
        earlier_tasks: Callable[[], Mapping[Task, TaskCount]] = dict,
        machine: GradingMachine | None = None,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
    ) -> None:
        """`judges` holds one judge for each GPU, all of one model; they share the evaluations. `recall` returns the
        lessons of earlier runs, and `earlier_tasks` counts how often the tasks of earlier runs paid off.
        """
        self.ledger = ledger
        self.settings = settings
        self._authors = Authors(policies, self._tell)
        self._recall_from_memory, self._tasks_from_memory = recall, earlier_tasks
        self._machine = machine or GradingMachine()
        self._checkpointer = checkpointer
        self._judges = judges if isinstance(judges, Pool) else Pool(judges)
        self._recalled: tuple[Lesson, ...] = ()
        self._earlier_tasks: Mapping[Task, TaskCount] = {}
        self._taken_up_s = time.monotonic()
        self._seconds_before = 0.0
        self._longest_verdict_s = 0.0
        self._asked_to_stop = False

    def stop(self) -> None:
        """End after the evaluations under way, with the best so far."""
        self._asked_to_stop = True
        self._authors.stop()

    # -- the graph -------------------------------------------------------------------------------------------------

    def graph(self) -> CompiledStateGraph[LoopState, None, LoopState, LoopState]:
        """Build the graph."""
        builder = StateGraph(LoopState)
        builder.add_node("recall", self.recall)
        builder.add_node("propose", self.propose)
        builder.add_node("evaluate", self.evaluate, input_schema=Assignment)
        builder.add_node("reflect", self.reflect)
        builder.add_node("finish", self.finish)
        builder.add_edge(START, "recall")
        builder.add_edge("recall", "propose")
        builder.add_edge("evaluate", "reflect")
        builder.add_edge("finish", END)
        return builder.compile(checkpointer=self._checkpointer)

    async def events(self) -> AsyncIterator[Event]:
        """Run to the end, yielding events as they happen."""
        graph = self.graph()
        config: Any = {
            "configurable": {"thread_id": self.ledger.run.id},
            "recursion_limit": STEPS_PER_TURN * self.settings.turns + 10,
            "max_concurrency": max(64, self.settings.parallel),
        }
        start: LoopState | None = self._start()
        if self._checkpointer:
            known = await graph.aget_state(config)
            if known.next:  # the run was killed during a turn
                self._seconds_before, start = known.values["seconds"], None
                self._take_up_memory()
        # langgraph refuses `durability` without a checkpointer
        kept: Literal["sync"] | None = "sync" if self._checkpointer else None
        async for event in graph.astream(start, config, stream_mode="custom", durability=kept):
            yield event

    def _start(self) -> LoopState:
        """Return the initial state according to the ledger: the beginning of the run, or the turn after its last
        end.
        """
        turns = {attempt.turn for attempt in self.ledger.attempts()}
        turn = max(turns, default=self.ledger.first_turn)
        if turns and all(self.ledger.is_graded(attempt.key) for attempt in self.ledger.of_turn(turn)):
            turn += 1
        self._seconds_before = self.ledger.seconds_before()
        return {**initial_state(self.ledger.run.id), "turn": turn, "seconds": self._seconds_before}

    # -- nodes -----------------------------------------------------------------------------------------------------

    async def recall(self, state: LoopState) -> dict[str, Any]:
        """Load lessons of earlier runs on similar problems, and how often the tasks of those runs paid off."""
        if not self._take_up_memory():
            lessons = tuple(await asyncio.to_thread(self._recall_from_memory))
            task_counts = await asyncio.to_thread(self._tasks_from_memory)
            plain = [dataclasses.asdict(lesson) for lesson in lessons]
            await self.ledger.note(RECALLED, lessons=plain, tasks=tasks.to_plain(task_counts))
            self._recalled, self._earlier_tasks = lessons, task_counts
        _stream("recalled", lessons=len(self._recalled))
        return {}

    def _take_up_memory(self) -> bool:
        """Restore what was recalled when the run began; return False if nothing was recalled yet."""
        noted = self.ledger.noted(RECALLED)
        self._recalled = tuple(Lesson(**lesson) for event in noted for lesson in event.data["lessons"])
        self._earlier_tasks = tasks.summed(event.data.get("tasks", {}) for event in noted)
        return bool(noted)

    async def propose(self, state: LoopState) -> Command[Literal["evaluate", "finish"]]:
        """Request the turn's answers, unless the ledger already holds them from before a crash."""
        turn = state["turn"]
        attempts = self.ledger.of_turn(turn)
        if not attempts:
            _stream("turn", turn=turn)
            attempts = await self._ask(turn, state)
            await self.ledger.add_attempts(attempts)
        if not attempts:
            stop = self._reason_for_no_answers(state)
            return Command(goto="finish", update={"stop": stop.value, "seconds": self._seconds()})
        for attempt in attempts:
            _stream("proposed", key=attempt.key, parent=attempt.parent, policy=attempt.completion.policy)
        due = [attempt.key for attempt in attempts]
        lanes = [due[first::LANES] for first in range(min(LANES, len(due)))]
        return Command(goto=[Send("evaluate", Assignment(keys=keys)) for keys in lanes], update={"due": due})

    async def _ask(self, turn: int, state: LoopState) -> list[Attempt]:
        """Request the turn's answers; if the chosen policies give none, ask the remaining ones."""
        history, able = self.ledger.past(before_turn=turn), self._authors.able(turn)
        while able and not self._asked_to_stop:
            names = portfolio.assign(history, able, n=self.settings.parallel, seed=f"{self.settings.seed}/{turn}")
            attempts = await self._ask_policies(names, history, turn, state)
            if attempts:
                return attempts
            able = [name for name in able if name not in names]
        return []

    async def _ask_policies(
        self, names: list[str], history: list[Graded], turn: int, state: LoopState
    ) -> list[Attempt]:
        groups: dict[tuple[str, Assigned], int] = {}
        for name, assigned in zip(names, self._assigned(names, history, turn)):
            groups[name, assigned] = groups.get((name, assigned), 0) + 1
        asked = {name: self.ledger.asked(name, turn) for name in names}
        questions: list[tuple[str, str | None, Observation, int]] = []
        for (name, assigned), count in groups.items():
            observation = self._observe(history, state, turn, assigned, asked[name])
            asked[name] += count
            questions.append((name, assigned.parent, observation, count))
        answers = await asyncio.gather(*(self._answers(name, seen, count) for name, _, seen, count in questions))
        flat: list[tuple[Observation, str | None, Completion]] = [
            (seen, parent, completion)
            for (_, parent, seen, _), completions in zip(questions, answers)
            for completion in completions
        ]
        return [
            make_attempt(self.ledger.run.id, seen, completion, index=index, parent=parent)
            for index, (seen, parent, completion) in enumerate(flat)
        ]

    def _assigned(self, names: list[str], history: list[Graded], turn: int) -> list[Assigned]:
        """Return the parents that the search chooses, and tasks for policies that accept them. The first turn of a
        forked run builds on the attempt that the run was forked from.
        """
        origin, n = self.ledger.run.forked_from, self.settings.parallel
        if origin is not None and turn == self.ledger.first_turn:
            return [Assigned(parent=origin)] * n
        chosen = [Assigned(parent=parent) for parent in search.choose_parents(history, self.settings, turn=turn, n=n)]
        if self.settings.search is not Search.CHAIN:
            given = tasks.assign(history, self.settings, self._earlier_tasks, turn=turn, n=n)
            for place, name in enumerate(names):
                if getattr(self._authors[name], "takes_tasks", False):
                    chosen[place] = given[place]
        return chosen

    async def _answers(self, name: str, seen: Observation, count: int) -> list[Completion]:
        """Ask a policy. On GPUs, ask a trusted policy for several times as many answers and keep the fastest by a quick
        look.
        """
        policy, early = self._authors[name], seen.turn == 0
        trusted = getattr(policy, "trusted", False)
        # In the first turn an early verdict is worth more than the best of many.
        if early or not (trusted and all(map(sorting.can_look, self._judges.members))):
            return await self._authors.ask(name, seen, count)
        offered = await policy.propose(seen, count * sorting.LOOKS_PER_VERDICT)
        _stream("sorting", offered=len(offered))
        kept, looks = await sorting.most_promising(offered, self._judges, count, self._leave_out)
        if looks:
            await self.ledger.note("sketched", turn=seen.turn, looks=[look.to_plain() for look in looks])
        return kept

    def _observe(
        self, history: list[Graded], state: LoopState, turn: int, assigned: Assigned, asked: int
    ) -> Observation:
        return observe(
            self.ledger.run.problem,
            self.settings.rules,
            history,
            left(self.settings, self._spent(state)),
            turn=turn,
            attempts_before=asked,
            seed=trajectory_seed(self.ledger.run.id, self.settings.seed),
            parent=assigned.parent,
            recalled=self._recalled,
            task=assigned.task,
            partner=assigned.partner,
        )

    async def evaluate(self, state: Assignment) -> dict[str, Any]:
        """Judge the attempts that were not judged before a crash. Copies of other attempts take over the verdict."""
        done = await asyncio.gather(*map(self._evaluate, state["keys"]))
        return {"graded": [key for key, graded in zip(state["keys"], done) if graded]}

    async def _evaluate(self, key: str) -> bool:
        """Judge one attempt; return True if it has a verdict now."""
        if not self.ledger.is_graded(key):
            grading = await self._judges.tried(
                functools.partial(self._grade, self.ledger.attempt(key)),
                self._trouble,
                at_once=min(self.settings.at_once or self.settings.parallel, self.settings.parallel),
                again_alone=True,  # most instrument failures pass
                left_out=self._leave_out,
            )
            if grading is None:
                return False
            if not self.ledger.is_graded(key):  # it could not be measured
                await self.ledger.add_grading(grading)
        _stream("graded", key=key)
        return True

    async def _grade(self, attempt: Attempt, judge: Judge) -> Grading | None:
        """Grade an attempt and store the grading, unless it has to be judged again.

        Return None if the run is being stopped (`--resume` will grade it), or if the turn has found enough drafts.
        """
        if self._asked_to_stop or self._has_draft_enough():
            return None
        write, loop = get_stream_writer(), asyncio.get_running_loop()

        def on_stage(stage: str) -> None:
            loop.call_soon_threadsafe(write, {"kind": "stage", "key": attempt.key, "stage": stage})

        _stream("evaluating", key=attempt.key)
        twin, began_s = self.ledger.twin_of(attempt), self._seconds()
        grading = graded_like(attempt, twin) if twin else await grade(attempt, judge, self._machine, on_stage)
        self._longest_verdict_s = max(self._longest_verdict_s, self._seconds() - began_s)
        if not self._trouble(grading):
            await self.ledger.add_grading(grading)  # now, since the next draft to judge depends on it
        return grading

    def _trouble(self, grading: Grading | None) -> str:
        """Return why the attempt must be judged again; empty if it need not be."""
        if grading is None or grading.failure is None or self._asked_to_stop:
            return ""
        return grading.failure.what or grading.failure.kind

    async def _leave_out(self, judge: Judge, what: str) -> None:
        place = getattr(getattr(judge, "facts", None), "place", "a judge")  # evaluators name their card in `facts`
        await self._tell(LEFT_OUT, judge=place, what=what, others=len(self._judges.members))

    async def reflect(self, state: LoopState) -> Command[Literal["propose", "finish"]]:
        """Decide whether to continue."""
        turn = state["turn"]
        stop = self._reason_to_stop(state)
        best = best_of(self.ledger.history())
        _stream("reflected", turn=turn, best=best.attempt.key if best else None, stop=stop.value if stop else "")
        update = {"turn": turn + 1, "due": [], "seconds": self._seconds()}
        if stop is None:
            return Command(goto="propose", update=update)
        if stop is StopReason.INTERRUPTED and not all(map(self.ledger.is_graded, state["due"])):
            update = {"seconds": self._seconds()}
        return Command(goto="finish", update={**update, "stop": stop.value})

    async def finish(self, state: LoopState) -> dict[str, Any]:
        """Store the end of the run."""
        best = best_of(self.ledger.history())
        key = best.attempt.key if best else None
        summary: dict[str, Any] = {"spent": dataclasses.asdict(self._spent(state))}
        if given := tasks.task_counts(self.ledger.history()):
            summary["tasks"] = tasks.to_plain(given)
        if self._authors.failures:
            summary["failed"] = self._authors.failures
        await self.ledger.end(state["stop"], key, summary)
        _stream("finished", stop=state["stop"], best=key)
        return {"seconds": self._seconds()}

    # -- when to stop ----------------------------------------------------------------------------------------------

    def _reason_to_stop(self, state: LoopState) -> StopReason | None:
        if self._asked_to_stop:
            return StopReason.INTERRUPTED
        history = self.ledger.history()
        spent = dataclasses.replace(self._spent(state), turns=state["turn"] + 1)
        if self._near_floor(history):
            return StopReason.NEAR_FLOOR
        if _only_failures(history, state["turn"]):
            return StopReason.INSTRUMENT
        used_up = exhausted(left(self.settings, spent))
        if used_up is not None:
            return used_up
        return StopReason.NO_PROGRESS if self._no_progress(history, state["turn"]) else None

    def _reason_for_no_answers(self, state: LoopState) -> StopReason:
        if self._asked_to_stop:
            return StopReason.INTERRUPTED
        used_up = exhausted(left(self.settings, self._spent(state)))
        if used_up is not None:
            return used_up
        return StopReason.POLICY_FAILED if self._authors.failures else StopReason.POLICY_DONE

    def _near_floor(self, history: list[Graded]) -> bool:
        """Return True if the best kernel nearly reaches the floor: its time does, or, for a draft, it is a single
        launch that moves hardly more than the fewest bytes.
        """
        best = best_of(history)
        evaluation = best.evaluation if best else None
        if best is None or evaluation is None or evaluation.diagnosis is None:
            return False
        floor_ms, ratio = evaluation.diagnosis.floor_ms, evaluation.diagnosis.traffic_ratio
        if best.standing.speedup is None:
            alone = best.standing.launches <= 1 and not best.standing.left_to_torch
            return alone and ratio is not None and ratio * self.settings.near_floor <= 1
        if floor_ms is None or not best.standing.faster_than_reference:
            return False
        device_ms = [item.candidate_ms.median for item in evaluation.timings if item.kind == "device"]
        return bool(device_ms) and floor_ms >= self.settings.near_floor * device_ms[0]

    def _has_draft_enough(self) -> bool:
        """Return True if the run ends with a draft after this turn, and another verdict is not worth its time.

        The draft is near the floor, or judging another one and the file to ship would take longer than there is time.
        """
        history = self.ledger.history()
        best = best_of(history)
        if self.settings.patience or best is None or best.standing.speedup is not None:
            return False
        left_s = math.inf if self.settings.seconds is None else self.settings.seconds - self._seconds()
        return self._near_floor(history) or 2 * self._longest_verdict_s > left_s

    def _no_progress(self, history: list[Graded], turn: int) -> bool:
        best = best_of(history)
        settled = best is not None and (best.standing.speedup is None or best.standing.faster_than_reference)
        return bool(best and settled and turn - best.attempt.turn >= self.settings.patience)

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._taken_up_s

    def _spent(self, state: LoopState) -> Spent:
        usages = [item.attempt.completion.usage for item in self.ledger.history()]
        return Spent(
            turns=state["turn"],
            seconds=self._seconds(),
            tokens=sum(usage.prompt_tokens + usage.completion_tokens for usage in usages),
            cost=sum(usage.cost for usage in usages),
        )

    async def _tell(self, kind: str, **data: Any) -> None:
        """Store an event and stream it."""
        await self.ledger.note(kind, **data)
        _stream(kind, **data)


def _only_failures(history: list[Graded], turn: int) -> bool:
    """Return True if the latest turns brought only instrument failures."""
    latest = [item for item in history if turn - item.attempt.turn < FRUITLESS_TURNS]
    turns = {item.attempt.turn for item in latest}
    return len(turns) == FRUITLESS_TURNS and all(item.grading.failure is not None for item in latest)


def _stream(kind: str, **data: Any) -> None:
    get_stream_writer()({"kind": kind, **data})
