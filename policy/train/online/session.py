"""One online training from start to end: roll out, judge, update, repeat; or resume it.

    output/online.json       identity and settings of the training, fixed at the start
    output/updates.jsonl     a line for each update: rewards, pass rates, lengths, entropy, ratio, times
    output/policy-N          the weights that answer in update N; only the newest are kept
    output/checkpoint-N      to resume from, with the optimiser; the file `whole` in it marks it as complete
    output/final             the weights at the end

Rollouts are in the store only. A resumed training returns to its last complete checkpoint and takes the rollouts of the
updates since then from the store. These are the same rows in the same order, so the weights on a CPU are equal bit by
bit. Rollouts that were not stored are sampled again. Their seeds are the same, but a batch consists of the episodes
that are ready, so the last bits of their log-probabilities, and rarely a token, may differ from those that were lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import random
import secrets
import shutil
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, TrainerCallback

from triton_agent.memory.records import GradingMachine, new_run_id
from triton_agent.memory.store import Store
from triton_agent.policy.episode import Graded
from triton_agent.policy.protocol import Policy
from triton_agent.policy.rollout import TimeSpent, roll_out
from triton_agent.policy.train.online.curriculum import PassRate, choose
from triton_agent.policy.train.online.files import append_line, replace_text
from triton_agent.policy.train.online.rollouts import (
    UPDATES,
    EpisodeStore,
    OpenProblem,
    ProblemSource,
    SharedVerdicts,
    Versioned,
)
from triton_agent.policy.train.online.trainer import STEPS_AT_MOST, NothingLeft, OnlineTrainer
from triton_agent.policy.train.prepare import held_out
from triton_agent.policy.train.prepare.prepared import Prepared, TrainingLimits, TrainingRow, prepare
from triton_agent.policy.train.prepare.recipes import Recipe, unpaid
from triton_agent.policy.train.prepare.token_batches import batches_of
from triton_agent.policy.train.record.trajectories import Knowledge, collect
from triton_agent.policy.train.update.checkpoints import MarkWhole, last_whole_checkpoint, save_weights
from triton_agent.policy.train.update.grpo import GRPOSettings
from triton_agent.policy.train.update.plan_gains import paid, plan_gains
from triton_agent.policy.train.update.session import FINAL, Adapter, TrainingResult, load, peft_config, rescorer
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import Status

IDENTITY = "online.json"
POLICIES_KEPT = 2
"""Number of newest folders with weights to keep; an engine may still be reading the last but one."""
LOGGED = {"loss": "loss", "entropy": "entropy", "ratio": "ratio", "clipped": "clip_ratio/region_mean"}
"""Figures of an update and the trainer's names for them. Each is the mean over the update's steps."""
Line = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OnlineSettings:
    """Settings of the rollouts; those of the optimiser are in `GRPOSettings`."""

    updates: int = 100
    problems: int = 8
    """Problems per update."""
    answers: int = 8
    """Episodes per problem, which are compared with each other."""
    turns: int = 2
    """Turns per episode."""
    passes: int = 1
    """Training epochs over the rows of an update."""
    tokens_at_most: int = 4096
    """Most tokens of an answer, as set in the policy's sampling."""
    row_tokens_at_most: int | None = None
    """Most tokens of prompt and answer; longer rows are left out."""
    batch_size: int | None = 16
    """Episodes that the policy is asked about at once; None for all that are ready."""
    questions: int = 1
    """Batches that the policy is asked at a time."""
    save_every: int = 10
    """Updates between checkpoints."""

    def __post_init__(self) -> None:
        for name in ("updates", "problems", "turns", "passes", "tokens_at_most", "questions", "save_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}", remedy="a number above 0")
        if self.answers < 2:
            raise UsageError(f"answers is {self.answers}", remedy="at least 2: they are compared with each other")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The id and the settings that a training keeps when it is resumed."""

    training: str
    """Prefix of the ids of its runs."""
    settings: Mapping[str, Any]

    @classmethod
    def at(cls, output: Path, settings: Mapping[str, Any], *, resume: bool) -> Identity:
        """Create the identity of a new training, or read that of the training in the folder."""
        path = output / IDENTITY
        if path.exists() != resume:
            if resume:
                raise UsageError(
                    f"{output} holds no online training to continue", remedy="leave out --resume to begin one"
                )
            raise UsageError(
                f"{output} holds a training already", remedy="add --resume to continue, or name another folder"
            )
        settings = json.loads(json.dumps(dict(settings)))
        if resume:
            found = cls(**json.loads(path.read_text()))
            changed = {
                name
                for name in settings.keys() | found.settings.keys()
                if settings.get(name) != found.settings.get(name)
            }
            if changed:
                began = ", ".join(f"{name} {found.settings.get(name)}" for name in sorted(changed))
                raise UsageError(f"{output} was begun with {began}", remedy="resume with the settings of the beginning")
            return found
        made = cls(training=new_run_id(datetime.now(UTC), secrets.token_hex(8)), settings=settings)
        output.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps(dataclasses.asdict(made), indent=1) + "\n")
        return made


def train_online(
    model: str,
    problems: ProblemSource,
    policy: Policy,
    reload: Callable[[Path], Coroutine[Any, Any, None]],
    store: Store,
    recipe: Recipe,
    grpo: GRPOSettings,
    settings: OnlineSettings,
    *,
    adapter: Adapter | None = None,
    resume: bool = False,
    machine: GradingMachine | None = None,
    show: Callable[[Line], None] = lambda line: None,
) -> TrainingResult:
    """Train, or resume. `policy` answers with the weights last passed to `reload`; `show` is called with each line.

    The policy must sample at `grpo.temperature` and return tokens with their log-probabilities.
    """
    fixed: dict[str, Any] = {"model": model, "recipe": recipe.name, "problems": list(problems.names)}
    fixed |= {
        name: getattr(grpo, name)
        for name in ("learning_rate", "batch_size", "batch_tokens", "accumulation", "temperature", "seed")
    }
    if grpo.warmup:
        fixed["warmup"] = grpo.warmup
    fixed |= {f"online_{name}": getattr(settings, name) for name in ("problems", "answers", "turns", "passes")}
    identity = Identity.at(grpo.output, fixed, resume=resume)
    checkpoint = last_whole_checkpoint(grpo.output) if resume else None
    done = json.loads((checkpoint / IDENTITY).read_text())["updates"] if checkpoint else 0
    loaded, tokenizer = load(model, bf16=grpo.bf16 and adapter is not None, cpu=grpo.cpu, adapter=adapter)
    kept_back = held_out.read(model)
    with asyncio.Runner() as runner:
        updates = Updates(
            identity=identity,
            lines=Lines(grpo.output / UPDATES, done),
            problems=problems,
            policy=policy,
            reload=reload,
            store=store,
            recipe=recipe,
            grpo=grpo,
            settings=settings,
            tokenizer=tokenizer,
            kept_back=kept_back,
            machine=machine,
            show=show,
            runner=runner,
        )
        trainer = OnlineTrainer(
            updates.next_batch,
            settings=dataclasses.replace(grpo, steps=STEPS_AT_MOST, save_every=STEPS_AT_MOST),
            recipe=recipe,
            model=loaded,
            tokenizer=tokenizer,
            longest=settings.tokens_at_most,
            callbacks=[updates, MarkWhole(kept_back=kept_back)],  # the mark must be written last
            peft_config=peft_config(adapter, loaded),
        )
        if trainer.accelerator.num_processes > 1:
            raise UsageError("online training runs in one process", remedy="start it without a launcher")
        trainer.remove_callback(PrinterCallback)
        with contextlib.suppress(NothingLeft):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    weights = grpo.output / FINAL
    save_weights(trainer, weights, kept_back)
    return TrainingResult(
        steps=trainer.state.global_step, stopped="", weights=weights, history=tuple(updates.lines.all)
    )


class Lines:
    """The lines of `updates.jsonl`, one for each finished update."""

    def __init__(self, path: Path, done: int) -> None:
        """Keep the first `done` lines of an earlier process. Updates after its last checkpoint are done again."""
        self._path = path
        earlier = path.read_text().splitlines()[:done] if path.exists() else []
        self.all: list[dict[str, Any]] = [json.loads(line) for line in earlier]
        replace_text(path, "".join(f"{line}\n" for line in earlier))

    def add(self, line: Mapping[str, Any]) -> None:
        self.all.append(dict(line))
        append_line(self._path, line)


def rates_after(lines: Sequence[Line]) -> dict[str, PassRate]:
    """Return the pass rate of each problem after these updates."""
    found: dict[str, PassRate] = defaultdict(PassRate)
    for line in lines:
        for name, (passed, measured) in line["problems"].items():
            found[name] = found[name].after(passed, measured)
    return found


@dataclasses.dataclass(slots=True, kw_only=True)
class Going:
    """The update in progress."""

    version: str
    line: dict[str, Any]
    batches: list[Sequence[TrainingRow]] = dataclasses.field(default_factory=list)
    began_s: float = dataclasses.field(default_factory=time.monotonic)
    training_from_s: float = 0.0
    logs: list[Mapping[str, Any]] = dataclasses.field(default_factory=list)


class Updates(TrainerCallback):
    """Feeds the trainer: rolls out when the rows of the last update are used up, and writes a line for each update."""

    def __init__(
        self,
        *,
        identity: Identity,
        lines: Lines,
        problems: ProblemSource,
        policy: Policy,
        reload: Callable[[Path], Coroutine[Any, Any, None]],
        store: Store,
        recipe: Recipe,
        grpo: GRPOSettings,
        settings: OnlineSettings,
        tokenizer: Any,
        kept_back: Mapping[str, str],
        machine: GradingMachine | None,
        show: Callable[[Line], None],
        runner: asyncio.Runner,
    ) -> None:
        self.identity, self.lines, self.settings = identity, lines, settings
        self._problems, self._policy, self._reload = problems, policy, reload
        self._recipe, self._grpo, self._tokenizer = recipe, grpo, tokenizer
        self._kept_back, self._machine, self._show, self._runner = kept_back, machine, show, runner
        self._episodes = EpisodeStore(
            store, identity.training, policy.name, problems.names, turns=settings.turns, seed=grpo.seed
        )
        self._verdicts: dict[str, SharedVerdicts] = {}
        self._going: Going | None = None

    # -- rows for the trainer ----------------------------------------------------------------------------------------

    def next_batch(self, trainer: OnlineTrainer, count: int) -> Sequence[TrainingRow]:
        """Return the rows of the next step; begin a new update if those of the last one are used up."""
        while self._going is None:
            if len(self.lines.all) >= self.settings.updates:
                raise NothingLeft
            self._going = self._begin(trainer, count)
            trainer.asks_ratio = True
            if not self._going.batches:
                self._close()  # all returns were equal within each group: there is nothing to learn from
        return self._going.batches.pop(0)

    def _begin(self, trainer: OnlineTrainer, count: int) -> Going:
        """Roll out with the trainer's weights and prepare the rows of an update."""
        number, chosen = len(self.lines.all), self.settings
        going = Going(version=f"{self.identity.training}+{number}", line={"update": number})
        self._publish(trainer, number)
        published_s = time.monotonic()
        spent = TimeSpent()
        reached, before = self._reached(), self._stages()
        rolled, opened_s = self._runner.run(self._roll_out(going.version, number, spent))
        histories = [history for own in rolled.values() for history in own]
        rolled_s = time.monotonic()
        prepared = self._prepared(trainer, [item for history in histories for item in history], going)
        tokens = self._grpo.batch_tokens and self._grpo.batch_tokens * count
        going.batches = _batches(
            prepared.rows,
            count,
            chosen.passes,
            tokens,
            slices=self._grpo.accumulation,
            seed=self._grpo.seed,
            update=number,
        )
        going.training_from_s = time.monotonic()
        going.line |= {
            "version": going.version,
            **figures(histories),
            "problems": {name: tally(own) for name, own in rolled.items()},
            "verdicts": self._reached() - reached,
            "rows": len(prepared.rows),
            "groups": prepared.groups,
            "flat_groups": prepared.flat_groups,
            "left_out": dict(prepared.left_out),
            "steps": len(going.batches),
            "seconds": {
                "publish": published_s - going.began_s,
                "problems": opened_s,
                "generation": spent.generation_s,
                "overlapped": spent.overlapped_s,
                "verdicts": spent.verdicts_s,
                "storing": spent.storing_s,
                "prepare": going.training_from_s - rolled_s,
            },
            "stages": {name: total - before.get(name, 0.0) for name, total in self._stages().items()},
        }
        return going

    def _publish(self, trainer: OnlineTrainer, number: int) -> None:
        """Save the trainer's weights in a new folder and load them into the policy."""
        folder = self._grpo.output / f"policy-{number:05}"
        shutil.rmtree(folder, ignore_errors=True)
        trainer.save_model(str(folder))
        self._runner.run(self._reload(folder))
        for old in sorted(self._grpo.output.glob("policy-*"))[:-POLICIES_KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _chosen(self, number: int) -> list[str]:
        """Return the problems of an update. They are chosen by what was measured before the previous update, so that
        they can be opened while it is under way.
        """
        if number >= self.settings.updates:
            return []
        return choose(
            self._problems.names,
            rates_after(self.lines.all[: max(number - 1, 0)]),
            count=self.settings.problems,
            answers=self.settings.answers,
            seed=self._grpo.seed,
            update=number,
        )

    async def _roll_out(
        self, version: str, number: int, spent: TimeSpent
    ) -> tuple[dict[str, list[list[Graded]]], float]:
        """Return the histories of each problem's episodes, and the seconds of waiting for problems to open.

        The problems of the next update are opened meanwhile.
        """
        began, names = time.monotonic(), self._chosen(number)
        opened = {}
        for name, problem in (await self._problems.open(names)).items():
            held_out.refuse([held_out.identity(problem.view)], self._kept_back)
            known = self._verdicts.setdefault(name, SharedVerdicts(problem.judge))
            known.judge = problem.judge  # the judge changed if the problem's evaluator was stopped meanwhile
            opened[name] = OpenProblem(view=problem.view, judge=known, rules=problem.rules)
        ready_s = time.monotonic() - began
        opening = asyncio.create_task(_open_too(self._problems, names, self._chosen(number + 1)))
        try:
            histories = await roll_out(
                self._episodes.episodes(number, opened, self.settings.answers),
                Versioned(self._policy, version),
                turns=self.settings.turns,
                batch_size=self.settings.batch_size,
                questions=self.settings.questions,
                keeper=self._episodes,
                machine=self._machine,
                spent=spent,
                until_right=True,
            )
            await opening
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        answers = self.settings.answers
        rolled = {name: histories[place * answers : (place + 1) * answers] for place, name in enumerate(opened)}
        return rolled, ready_s

    def _reached(self) -> int:
        return sum(known.reached for known in self._verdicts.values())

    def _stages(self) -> Counter[str]:
        return sum((known.stages for known in self._verdicts.values()), Counter())

    def _prepared(self, trainer: OnlineTrainer, graded: Sequence[Graded], going: Going) -> Prepared:
        """Compute rewards and advantages by the recipe."""
        found = [(item.attempt, (item.grading,)) for item in graded]
        collected = collect(found, self._recipe, Knowledge(decode=self._tokenizer.decode))
        samples: Sequence[Any] = collected.samples
        if self._recipe.reasoning:
            trainer.model.eval()
            samples = paid(samples, self._recipe, plan_gains(samples, rescorer(trainer.model)))
            trainer.model.train()
        rewards = [sample.turn.reward for sample in samples]
        totals = [reward.total for reward in rewards if reward.total is not None]
        going.line["reward"] = statistics.fmean(totals) if totals else None
        going.line["hacks"] = sum(reward.hack for reward in rewards)
        going.line["unpaid"] = unpaid(self._recipe, rewards)
        limits = TrainingLimits(
            temperature=self._grpo.temperature,
            tokens_at_most=self.settings.row_tokens_at_most,
            seed=self._grpo.seed,
        )
        prepared = prepare(samples, self._recipe, limits, collected.unsampled)
        return dataclasses.replace(prepared, rows=tuple(sorted(prepared.rows, key=lambda row: row.key)))

    # -- the end of an update ----------------------------------------------------------------------------------------

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if self._going and not self._going.batches:
            control.should_log = True
            done = len(self.lines.all) + 1
            control.should_save = done % self.settings.save_every == 0 or done == self.settings.updates
            control.should_training_stop = done == self.settings.updates

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **rest: Any) -> None:
        """Collect the figures of a step. After the last step close the update, before its checkpoint is written."""
        if self._going and "loss" in (logs or {}):
            self._going.logs.append(logs or {})
            if not self._going.batches:
                self._close()

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        (folder / IDENTITY).write_text(json.dumps({"updates": len(self.lines.all)}))

    def _close(self) -> None:
        """Write the line of the update."""
        going, self._going = self._going, None
        assert going is not None
        for name, logged in LOGGED.items():
            values = [float(logs[logged]) for logs in going.logs if logged in logs]
            going.line[name] = statistics.fmean(values) if values else None
        now_s = time.monotonic()
        seconds = going.line["seconds"] | {"update": now_s - going.training_from_s, "all": now_s - going.began_s}
        told = ("publish", "problems", "generation", "verdicts", "storing", "prepare", "update")
        going.line["seconds"] = seconds | {"other": seconds["all"] - sum(seconds[name] for name in told)}
        self.lines.add(going.line)
        self._show(going.line)


async def _open_too(problems: ProblemSource, used: Sequence[str], names: Sequence[str]) -> None:
    """Open problems while others are in use."""
    await problems.open([*used, *names])


def _batches(
    rows: Sequence[TrainingRow], count: int, passes: int, tokens: int | None, *, slices: int, seed: int, update: int
) -> list[Sequence[TrainingRow]]:
    """Shuffle the rows for each pass and divide them into batches of `tokens` tokens, or else of about equal size, at
    most `count` rows. Rows are repeated only to make a batch's size a multiple of `slices`.
    """
    found: list[Sequence[TrainingRow]] = []
    for number in range(passes if rows else 0):
        order = random.Random(f"{seed}/{update}/{number}").sample(range(len(rows)), len(rows))
        if tokens:
            found += batches_of([rows[place] for place in order], tokens)
            continue
        steps = -(-len(rows) // count)
        for step in range(steps):
            places = order[len(rows) * step // steps : len(rows) * (step + 1) // steps]
            places += (order * slices)[: -len(places) % slices]
            found.append([rows[place] for place in places])
    return found


def figures(histories: Sequence[Sequence[Graded]]) -> dict[str, Any]:
    """Return statistics of rollouts, by turn where turns differ."""
    graded = [item for history in histories for item in history]
    statuses = Counter(str(item.evaluation.status) if item.evaluation else "unmeasured" for item in graded)
    turns = range(max((len(history) for history in histories), default=0))
    by_turn = [[history[turn] for history in histories if len(history) > turn] for turn in turns]
    said = [item.attempt.completion for item in graded]
    return {
        "episodes": len(histories),
        "attempts": len(graded),
        "correct": [_share_passed(items) for items in by_turn],
        "statuses": dict(sorted(statuses.items())),
        "answer_tokens": _mean(len(one.token_ids or ()) for one in said),
        "prompt_tokens": _mean(len(one.prompt_ids or ()) for one in said),
        "cut": sum(one.finish_reason == "length" for one in said),
    }


def _share_passed(graded: Sequence[Graded]) -> float | None:
    measured = [item.evaluation.status is Status.PASSED for item in graded if item.evaluation]
    return statistics.fmean(measured) if measured else None


def _mean(values: Iterator[int]) -> float | None:
    found = list(values)
    return statistics.fmean(found) if found else None


def tally(histories: Sequence[Sequence[Graded]]) -> tuple[int, int]:
    """Return how many answers to a problem passed, and how many were measured."""
    measured = [item.evaluation.status is Status.PASSED for history in histories for item in history if item.evaluation]
    return sum(measured), len(measured)
