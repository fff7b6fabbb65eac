"""The rollout worker of asynchronous training: asks a server, has answers judged, and queues rows for TRL's trainer.

A group is all episodes at one problem that are compared with each other. Several groups are under way at a time, and a
new one begins as soon as one has ended, with the problem that the curriculum draws. Each answer comes from the weights
that were published last when it was asked for. The trainer discards rows whose weights are too old.

    output/groups.jsonl   a line when a group begins, and a line with its figures when it has ended

Not covered: the queue's other end, weights, packing and the loss, which are TRL's (`asynchronous.py`).
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from triton_agent.memory.records import GradingMachine
from triton_agent.policy.episode import Graded
from triton_agent.policy.llm.engine import ModelQuestion, Sampled
from triton_agent.policy.llm.servers.openai import OpenAIEngine, Server
from triton_agent.policy.protocol import Policy
from triton_agent.policy.rollout import roll_out
from triton_agent.policy.train.online.curriculum import PassRate, choose
from triton_agent.policy.train.online.files import append_line, replace_text
from triton_agent.policy.train.online.rollouts import EpisodeStore, OpenProblem, ProblemSource, SharedVerdicts
from triton_agent.policy.train.online.session import OnlineSettings, figures, tally
from triton_agent.policy.train.prepare import held_out
from triton_agent.policy.train.prepare.prepared import Prepared, TrainingRow
from triton_agent.tools.errors import UsageError

GROUPS = "groups.jsonl"
ROWS_WAITING_AT_MOST = 1024
"""Rows in the queue at which no further group begins."""
LOOK_S = 0.2
"""Seconds between looks at a full queue, and between signs of life."""


class ServedWeights:
    """An engine that asks a server of vLLM for the weights that were published last."""

    def __init__(self, model: str, server: Server, training: str) -> None:
        """`model` is the server's name of the weights; `training` is the prefix of their versions."""
        self._model, self._server, self._training = model, server, training
        self._engine = OpenAIEngine(model, server)
        self.number = 0

    def publish(self, number: int, adapter: str = "") -> None:
        """Ask for version `number` from now on. An adapter has a name of its own for each version."""
        self.number = number
        if adapter:
            self._engine = OpenAIEngine(adapter, self._server)

    @property
    def name(self) -> str:
        return f"openai:{self._model}"

    @property
    def version(self) -> str:
        return f"{self._training}+{self.number}"

    @property
    def context_tokens(self) -> int:
        return self._engine.context_tokens

    def count(self, text: str) -> int:
        return self._engine.count(text)

    async def answer(self, questions: Sequence[ModelQuestion]) -> list[list[Sampled]]:
        version, engine = self.version, self._engine
        answers = await engine.answer(questions)
        return [[dataclasses.replace(one, version=version) for one in found] for found in answers]

    async def close(self) -> None:
        """Do nothing: connections end with each answer."""


class Groups:
    """The groups of a training, in a file, so that a resumed training continues with those that were not trained on."""

    def __init__(self, output: Path, trained: Sequence[int]) -> None:
        """`trained` are the groups that the trainer's checkpoint has seen."""
        self._path = output / GROUPS
        self._unused: dict[int, str] = {}
        self.ended: list[Mapping[str, Any]] = []
        self.next = 0
        for line in self._whole_lines():
            number = line["group"]
            self.next = max(self.next, number + 1)
            if number not in trained:
                self._unused[number] = line["problem"]
            if "rows" in line:
                self.ended.append(line)
                if not line["rows"]:
                    self._unused.pop(number, None)

    def _whole_lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines, and remove the last one if a kill cut it off."""
        if not self._path.exists():
            return
        text = self._path.read_text()
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            replace_text(self._path, whole)
        yield from map(json.loads, whole.splitlines())

    def begin(self, choose_problem: Callable[[int], str]) -> tuple[int, str]:
        """Return the next group and its problem: one that was begun earlier, or a new one."""
        if self._unused:
            number = min(self._unused)
            return number, self._unused.pop(number)
        number, self.next = self.next, self.next + 1
        name = choose_problem(number)
        append_line(self._path, {"group": number, "problem": name})
        return number, name

    def end(self, line: Mapping[str, Any]) -> None:
        self.ended.append(line)
        append_line(self._path, line)

    def rates(self) -> dict[str, PassRate]:
        """Return the pass rate of each problem after all groups that ended."""
        found: dict[str, PassRate] = collections.defaultdict(PassRate)
        for line in self.ended:
            found[line["problem"]] = found[line["problem"]].after(*line["passed"])
        return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """Translates versions of the weights across a resume, which skips numbers so that none is given twice."""

    first: int
    """First version of this process."""
    checkpoint: int
    """Version of the same weights when the checkpoint was written."""

    def now(self, version: str) -> int:
        """Return the version that is as old in this process as the answer's was at the checkpoint."""
        number = int(version.rpartition("+")[2])
        return number if number >= self.first else self.first - max(0, self.checkpoint - number)


class RolloutWorker:
    """A worker of TRL's trainer (`RolloutWorkerProtocol`); it runs in a thread of the trainer's process."""

    def __init__(
        self,
        *,
        problems: ProblemSource,
        policy: Policy,
        episodes: EpisodeStore,
        groups: Groups,
        prepared: Callable[[Sequence[Graded]], Prepared],
        published: Callable[[int], None],
        settings: OnlineSettings,
        seed: int,
        kept_back: Mapping[str, str],
        ages: Ages,
        machine: GradingMachine | None,
    ) -> None:
        """`prepared` computes rewards and advantages; `published` is told of each new version of the weights."""
        self.rollout_buffer: queue.Queue[RolloutSample] = queue.Queue()
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue()
        self._problems, self._policy, self._episodes, self._groups = problems, policy, episodes, groups
        self._prepared, self._published, self._settings = prepared, published, settings
        self._seed, self._kept_back, self._ages, self._machine = seed, kept_back, ages, machine
        self._verdicts: dict[str, SharedVerdicts] = {}
        self._under_way: collections.Counter[str] = collections.Counter()
        self._refused: set[str] = set()
        self._stopped, self._alive_s = threading.Event(), time.monotonic()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rollouts", daemon=True)

    # -- what the trainer calls --------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def update_model_version(self, model_version: int) -> None:
        self._published(model_version)

    def check_health(self, stale_after_s: float) -> None:
        if self._failure is not None:
            raise self._failure
        if self._thread.is_alive() and time.monotonic() - self._alive_s > stale_after_s:
            raise TimeoutError(f"the rollout worker has not responded for {stale_after_s:g} s")

    # -- rollouts ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._produce())
        except BaseException as error:  # the trainer raises it: this thread has nobody to raise it to
            self._failure = error

    async def _produce(self) -> None:
        """Roll out groups, `settings.problems` at a time, until the trainer stops."""
        self._opening = asyncio.Lock()
        under_way: set[asyncio.Task[None]] = set()
        try:
            while not self._stopped.is_set():
                self._alive_s = time.monotonic()
                while len(under_way) < self._settings.problems and self.rollout_buffer.qsize() < ROWS_WAITING_AT_MOST:
                    number, name = self._groups.begin(self._choose)
                    under_way.add(asyncio.create_task(self._group(number, name)))
                if not under_way:
                    await asyncio.sleep(LOOK_S)
                    continue
                done, under_way = await asyncio.wait(under_way, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _choose(self, number: int) -> str:
        [name] = choose(
            self._problems.names,
            self._groups.rates(),
            count=1,
            answers=self._settings.answers,
            seed=self._seed,
            update=number,
        )
        return name

    async def _group(self, number: int, name: str) -> None:
        """Roll out a group, and queue its rows."""
        began_s = time.monotonic()
        self._under_way[name] += 1
        try:
            problem = await self._opened(name)
            answers = self._settings.answers
            episodes = self._episodes.episodes(number, {name: problem}, answers) if problem else []
            histories = await roll_out(
                episodes,
                self._policy,
                turns=self._settings.turns,
                batch_size=1,  # the server batches by itself
                questions=answers,
                keeper=self._episodes,
                machine=self._machine,
                until_right=True,
            )
        finally:
            self._under_way[name] -= 1
        graded = [item for history in histories for item in history]
        prepared = self._prepared(graded)
        versions = {item.attempt.key: item.attempt.completion.policy_version for item in graded}
        for row in prepared.rows:
            for sample in samples_of(row, number, self._ages.now(versions[row.key])):
                self.rollout_buffer.put(sample)
        line = {"group": number, "problem": name, "rows": len(prepared.rows), "passed": tally(histories)}
        line |= figures(histories) | {"left_out": dict(prepared.left_out), "seconds": time.monotonic() - began_s}
        self._groups.end(line)

    async def _opened(self, name: str) -> OpenProblem | None:
        """Open a problem; None if it cannot be judged. Problems of other groups under way stay open."""
        async with self._opening:
            names = [name, *(other for other, groups in self._under_way.items() if groups and other != name)]
            problem = (await self._problems.open(names)).get(name)
        if problem is None:
            self._refused.add(name)
            if self._refused.issuperset(self._problems.names):
                raise UsageError("none of the problems can be judged", remedy="triton-agent check-problem says why")
            return None
        held_out.refuse([held_out.identity(problem.view)], self._kept_back)
        known = self._verdicts.setdefault(name, SharedVerdicts(problem.judge))
        known.judge = problem.judge
        return OpenProblem(view=problem.view, judge=known, rules=problem.rules)


def samples_of(row: TrainingRow, group: int, version: int) -> Iterator[RolloutSample]:
    """Yield a row as TRL's samples: one for each value that its tokens' advantages have.

    A sample has one advantage, and plan and code have one each. The samples of a row share all tokens, which TRL passes
    through the model once.
    """
    numbers = row.numbers.load()
    context = len(numbers.prompt_ids)
    advantages, chosen = row.advantages, row.chosen
    parts = {name: value for name, value in row.parts.items() if value is not None}
    for value in sorted({advantage for advantage, own in zip(advantages, chosen) if own}):
        mask = [own and advantage == value for advantage, own in zip(advantages, chosen)]
        yield RolloutSample(
            prompt=[],
            completion=[],
            input_ids=np.array([*numbers.prompt_ids, *numbers.token_ids]),
            completion_mask=np.array([0] * context + list(map(int, mask))),
            old_log_probs=np.array([0.0] * context + list(numbers.log_probabilities or ()), dtype=np.float32),
            advantage=value,
            model_version=version,
            group_id=group,
            metrics={"reward": row.reward, **{f"reward/{name}": value for name, value in parts.items()}},
            enqueued_at=time.time(),
        )
