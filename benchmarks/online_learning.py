"""Tests whether a policy learns online, from verdicts on its own answers: a tiny one, judged in the interpreter.

For each seed a new policy is taught the form of an answer, by the examples of `learning.py`: it writes complete
kernels, more of them wrong than right. From there it learns in two ways that use the same number of judged answers:

- online: multi-turn GRPO with real verdicts; every update trains on what the current weights answered;
- rejection sampling: the taught policy gives all answers at once, and is fine-tuned on those that passed. Once at the
  rate of GRPO, and once at one tenth of the rate that taught it; the better of the two, by the answers that are told
  below, is the one to beat.

Reported are the rewards of new samples, as in `learning.py`, with the interval of the gain over the taught policy and
over rejection sampling, and how the time of the online training divides.

Exits with 1 if an interval does not exclude 0, and with 2 if training is not installed. The settings were chosen on
seeds below 100.

    python benchmarks/online_learning.py --seeds 3
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks import learning  # noqa: E402

if TYPE_CHECKING:
    from triton_agent.memory.observation import Observation
    from triton_agent.policy.train.evaluate.figures import JudgedAnswer
    from triton_agent.tools.results import Interval

FIRST_SEED = 101
TOKENS_AT_MOST = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes of the experiment."""

    updates: int
    rollouts: int
    """Rollouts of a problem in an update, with up to two turns each."""
    teaching_steps: int
    answers: int
    """New samples of a problem, for each figure."""
    learning_rate: float
    passes: int


FULL = Scale(updates=16, rollouts=20, teaching_steps=600, answers=256, learning_rate=2e-4, passes=3)
QUICK = Scale(updates=4, rollouts=8, teaching_steps=500, answers=32, learning_rate=2e-4, passes=3)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The figures of one seed."""

    seed: int
    verdicts: int
    gain: Interval
    """Gain in reward of online training over the taught policy."""
    over_rejection: Interval
    """Gain in reward of online training over rejection sampling."""
    correct: Mapping[str, float]
    """Share of right answers: taught, rejection (same rate), rejection (its own rate), online."""
    seconds: Mapping[str, float]
    """Seconds of the online training by activity."""
    online_s: float
    wall_s: float

    @property
    def holds(self) -> bool:
        return self.gain.low > 0 and self.over_rejection.low > 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    messages: tuple[Any, ...]
    version: str = "online_learning/1"


def render(observation: Observation, *, budget_tokens: int, count: Callable[[str], int]) -> Page:
    """Return the conversation of the examples: the question and, on the second turn, the first answer with its
    verdict.
    """
    from triton_agent.memory.records import Message
    from triton_agent.policy.answer import write_answer

    said = learning.question(observation.problem.name)
    earlier = observation.parent
    if earlier is not None:
        text = write_answer(earlier.plan, earlier.source) if earlier.source else earlier.plan
        said += [{"role": "assistant", "content": text}, learning.reply(str(earlier.status or "unknown"))]
    return Page(messages=tuple(Message(**message) for message in said))


class Problems:
    """The problems of `learning.py`, whose evaluators stay open."""

    names: Sequence[str] = tuple(learning.PROBLEMS)

    def __init__(self, evaluators: Mapping[str, Any]) -> None:
        from triton_agent.memory.observation import ProblemView
        from triton_agent.policy.train.online.rollouts import OpenProblem

        self._open = {
            name: OpenProblem(view=ProblemView.of(one.spec, one.facts), judge=one) for name, one in evaluators.items()
        }

    async def open(self, names: Sequence[str]) -> Mapping[str, Any]:
        return {name: self._open[name] for name in names}


@contextlib.contextmanager
def evaluators(folder: Path) -> Iterator[dict[str, Any]]:
    """The evaluators of all problems, by name."""
    from triton_agent.tools.evaluate.evaluator import Evaluator
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.processes.zygotes import Nursery
    from triton_agent.tools.settings import EvaluatorSettings

    settings = EvaluatorSettings(shapes="given", target=None, modes=("eval",))
    with contextlib.ExitStack() as stack:
        nursery = stack.enter_context(Nursery(str(folder / "nursery.log")))
        found = {}
        for name, expression in learning.PROBLEMS.items():
            path = folder / f"{name}.py"
            path.write_text(learning.PROBLEM.format(expression=expression))
            found[name] = stack.enter_context(Evaluator(parse_problem(str(path)), settings, nursery=nursery))
        yield found


def learn(seed: int, scale: Scale, judges: Mapping[str, Any], rights: learning.Rights, folder: Path) -> Learned:
    """Run one seed from a new policy to its figures."""
    from triton_agent.policy.train.evaluate.figures import gain, scores
    from triton_agent.policy.train.prepare.recipes import RECIPES
    from triton_agent.policy.train.update.session import load

    began = time.perf_counter()
    size = dataclasses.replace(learning.QUICK, teaching_steps=scale.teaching_steps, answers=scale.answers)
    taught = learning.teach(seed, size, rights, folder)
    _, tokenizer = load(taught, cpu=True)
    bench = learning.bench_of(tokenizer, lambda problem, source: judges[problem].evaluate(source), size, seed)
    online_from = time.perf_counter()
    online = train_online(taught, scale, judges, seed, folder / "online")
    online_s = time.perf_counter() - online_from
    models = {"taught": load(taught, cpu=True)[0].eval(), "online": load(online, cpu=True)[0].eval()}
    lines = [json.loads(line) for line in (folder / "online" / "updates.jsonl").read_text().splitlines()]
    judged = sum(line["attempts"] for line in lines)
    size = dataclasses.replace(size, trajectories=scale.updates * scale.rollouts)
    records = learning.log(models["taught"], bench, size, seed)
    records = first_judged(records, judged, seed)
    for name, rate in (("rejection, same rate", scale.learning_rate), ("rejection, own rate", learning.REJECTION_RATE)):
        models[name] = learning.imitate(taught, records, rate, 3.0, seed, folder / f"imitated-{rate:g}")
    asked: dict[str, Sequence[JudgedAnswer]] = {name: bench.ask(model) for name, model in models.items()}
    score = scores(RECIPES["default"])
    rejection = max(
        ("rejection, same rate", "rejection, own rate"), key=lambda name: learning.mean(asked[name], score["reward"])
    )
    return Learned(
        seed=seed,
        verdicts=judged,
        gain=gain(asked["taught"], asked["online"], score["reward"]),
        over_rejection=gain(asked[rejection], asked["online"], score["reward"]),
        correct={name: learning.mean(answers, score["correct"]) for name, answers in asked.items()},
        seconds={name: sum(line["seconds"][name] for line in lines) for name in lines[0]["seconds"]},
        online_s=online_s,
        wall_s=time.perf_counter() - began,
    )


def first_judged(records: Sequence[learning.Record], count: int, seed: int) -> list[learning.Record]:
    """Return random whole trajectories with about so many answers. Answers after a right one are left out."""
    runs: dict[str, list[learning.Record]] = {}
    for record in records:
        runs.setdefault(record[0].run, []).append(record)
    chosen: list[learning.Record] = []
    for run in random.Random(seed).sample(sorted(runs), len(runs)):
        first, *later = runs[run]
        evaluation = first[1][0].evaluation
        chosen += [first] if evaluation and evaluation.status == "passed" else [first, *later]
        if len(chosen) >= count:
            break
    return chosen


def train_online(taught: str, scale: Scale, judges: Mapping[str, Any], seed: int, folder: Path) -> str:
    """Return the weights after online training, with the default recipe."""
    from triton_agent.memory.store import Store
    from triton_agent.policy.llm.author import LanguageAuthor
    from triton_agent.policy.llm.engine import Sampling
    from triton_agent.policy.llm.engines.transformers_engine import TransformersEngine
    from triton_agent.policy.train.online.session import OnlineSettings
    from triton_agent.policy.train.online.session import train_online as train
    from triton_agent.policy.train.prepare.recipes import RECIPES
    from triton_agent.policy.train.update.grpo import GRPOSettings

    folder.mkdir()
    engine = TransformersEngine(Path(taught), device="cpu", rows_at_once=64)
    settings = OnlineSettings(
        updates=scale.updates,
        problems=len(learning.PROBLEMS),
        answers=scale.rollouts,
        turns=2,
        passes=scale.passes,
        tokens_at_most=TOKENS_AT_MOST,
        batch_size=64,
        save_every=10**6,
    )
    with Store.open(folder / "runs.db") as store:
        outcome = train(
            taught,
            Problems(judges),
            LanguageAuthor(engine, Sampling(temperature=1.0, max_tokens=TOKENS_AT_MOST), render=render),
            engine.reload,
            store,
            RECIPES["default"],
            GRPOSettings(
                output=folder,
                cpu=True,
                learning_rate=scale.learning_rate,
                batch_size=32,
                proximal=True,  # as `train grpo --online` does
                seed=seed,
            ),
            settings,
        )
    asyncio.run(engine.close())
    return str(outcome.weights)


def row(learned: Learned) -> dict[str, object]:
    """Return the row for the CSV file."""
    from triton_agent.tools.versions import installed

    flat: dict[str, object] = {"seed": learned.seed, "verdicts": learned.verdicts}
    for name in ("gain", "over_rejection"):
        found = getattr(learned, name)
        flat |= {name: f"{found.median:.4f}", f"{name}_low": f"{found.low:.4f}", f"{name}_high": f"{found.high:.4f}"}
    flat |= {f"correct_{name.replace(', ', '_').replace(' ', '_')}": f"{v:.4f}" for name, v in learned.correct.items()}
    flat |= {f"{name}_s": f"{value:.1f}" for name, value in learned.seconds.items()}
    versions = {name: installed(name) or "none" for name in ("transformers", "trl")}
    return {**flat, "online_s": f"{learned.online_s:.1f}", "wall_s": f"{learned.wall_s:.1f}", **versions}


def told(learned: Learned) -> str:
    """Return the figures of one seed, in words."""
    shares = ", ".join(f"{name} {share:.0%}" for name, share in learned.correct.items())
    spent = ", ".join(f"{name} {value:.0f}" for name, value in learned.seconds.items())
    return (
        f"seed {learned.seed}: gain in reward {learning.text(learned.gain)}, over rejection sampling "
        f"{learning.text(learned.over_rejection)} with {learned.verdicts} verdicts each\n"
        f"  right answers: {shares}\n  seconds online: {spent}; of the seed: {learned.wall_s:.0f}"
    )


def main() -> int:
    options = learning.options_of(__doc__, FIRST_SEED)
    import torch
    from benchmarks.rows import RESULTS, append, provenance

    torch.set_num_threads(1)  # a tiny model gains nothing from more, and the judges need the other core
    shared, found = provenance(), []
    with tempfile.TemporaryDirectory(prefix="online-learning-") as scratch, evaluators(Path(scratch)) as judges:
        rights = learning.right_answers(lambda problem, source: judges[problem].evaluate(source))
        for seed in range(options.first, options.first + options.seeds):
            folder = Path(scratch) / str(seed)
            folder.mkdir()
            learned = learn(seed, QUICK if options.quick else FULL, judges, rights, folder)
            found.append(learned)
            print(told(learned), flush=True)
            if not options.quick:
                append(RESULTS / "online_learning.csv", shared, [row(learned)])
    return 0 if all(learned.holds for learned in found) else 1


if __name__ == "__main__":
    sys.exit(main())
