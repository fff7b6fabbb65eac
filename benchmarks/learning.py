"""Tests whether a policy learns from logged runs alone: a tiny one, from scratch, judged by the real evaluator.

For each seed a new policy is taught by examples with every answer to every problem, the right ones more often, so that
it writes complete kernels, more of them wrong than right. It answers each problem many times over two turns; the
answers are judged and logged. Then GRPO trains on that log only, without new samples, and the policy is asked again.
Reported are the likelihoods of logged turns that passed and that failed, before and after, and the reward of new
samples, with the interval of the gain. As a control, the same training is done with the log's verdicts shuffled among
the answers to a problem: its gain was not learned from verdicts. To see what GRPO adds, the policy is also fine-tuned
on the logged answers that passed, which is rejection sampling, at two rates; the better one is compared.

It shows that the training works. It does not show how well a large model would learn: the problems are elementwise, and
an answer is one of nine.

Exits with 1 if an interval does not exclude 0 or the gain is not above that of the control, and with 2 if training is
not installed. The gain over rejection sampling is told and decides nothing. The settings were chosen on other seeds,
none above 100, so the first reported seed is 101.

    python benchmarks/learning.py --seeds 3
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triton_agent.memory.records import Attempt, Grading
    from triton_agent.policy.train.evaluate.figures import JudgedAnswer
    from triton_agent.policy.train.evaluate.trial import Trial
    from triton_agent.policy.train.record.trajectories import TrainingSample
    from triton_agent.tools.results import Interval

    Record = tuple[Attempt, tuple[Grading, ...]]

HERE = Path(__file__).resolve().parent
PROBLEMS = {"relu": "torch.relu(x)", "fall": "torch.clamp(-x, max=0.0)", "square": "x * x", "size": "x.abs()"}
"""Expression of each problem, by its name."""
NAN = "propagate_nan=tl.PropagateNan.ALL"
OUTER = {
    "maximum": f"tl.maximum({{}}, 0.0, {NAN})",
    "minimum": f"tl.minimum({{}}, 0.0, {NAN})",
    "magnitude": "tl.abs({})",
}
INNER = {"itself": "a", "negative": "-a", "square": "a * a"}
"""The two choices an answer makes: nine kernels, of which one or two are right for each problem."""

PROBLEM = """import torch

SIZE = 512

class Model(torch.nn.Module):
    def forward(self, x):
        return {expression}

def get_inputs():
    return [torch.randn(SIZE)]

def get_init_inputs():
    return []
"""
KERNEL = """import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    tl.store(y + i, {expression}, mask=i < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
        return y
"""
Message = dict[str, str]
Rights = frozenset[tuple[str, str, str]]
"""Problem, outer and inner choice of each answer that passes."""


FIRST_SEED = 101
BATCH_SIZE = 32
REJECTION_RATE = 4e-4
"""Learning rate of rejection sampling beside that of GRPO: a tenth of the rate that taught the policy."""
LEARNING_RATE = 2e-4
"""Learning rate of GRPO. Twice as much broke the form of every third answer, on a seed that is not reported."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes of the experiment."""

    trajectories: int
    """Trajectories of a problem, with two turns each."""
    answers: int
    """New samples of a problem, before and after."""
    teaching_steps: int
    right_times: int
    """Copies of a right answer among the examples for each copy of a wrong one."""
    epochs: int


FULL = Scale(trajectories=128, answers=256, teaching_steps=800, right_times=4, epochs=4)
QUICK = Scale(trajectories=48, answers=64, teaching_steps=600, right_times=4, epochs=8)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Results of one seed."""

    seed: int
    good: Interval
    """Change of the log-likelihood of turns that passed, per turn."""
    bad: Interval
    reward_before: float
    reward_after: float
    gain: Interval
    control: Interval
    """Gain from shuffled verdicts."""
    over_rejection: Interval
    """Gain over fine-tuning on the logged answers that passed, at the better of two rates."""
    correct_before: float
    correct_after: float
    correct_rejection: float
    wall_s: float

    @property
    def holds(self) -> bool:
        return self.good.low > 0 and self.bad.high < 0 and self.gain.low > max(0.0, self.control.high)


def answer(problem: str, outer: str, inner: str) -> str:
    """Its plan names the problem first: what is to be decided next then depends on a word just said."""
    from triton_agent.policy.answer import write_answer

    expression = OUTER[outer].format(INNER[inner])
    return write_answer(f"For {problem} take the {outer} of {inner}.", KERNEL.format(expression=expression))


def question(problem: str) -> list[Message]:
    return [{"role": "user", "content": f"Write a Triton kernel for {problem}."}]


def reply(status: str) -> Message:
    return {"role": "user", "content": f"Verdict: {status}. Write another."}


def examples(draw: random.Random, right: Rights, times: int) -> Iterator[dict[str, list[Message]]]:
    """Yield conversations of one and two turns: every answer to every problem, the right ones `times` as often."""
    for problem, outer, inner in itertools.product(PROBLEMS, OUTER, INNER):
        said = {"role": "assistant", "content": answer(problem, outer, inner)}
        for _ in range(times if (problem, outer, inner) in right else 1):
            yield {"messages": [*question(problem), said]}
            first = {"role": "assistant", "content": answer(problem, draw.choice([*OUTER]), draw.choice([*INNER]))}
            status = draw.choice(["wrong_values", "passed"])
            yield {"messages": [*question(problem), first, reply(status), said]}


def right_answers(judge: Any) -> Rights:
    """Return the answers that pass, by the judge that trains and tests as well."""
    from triton_agent.policy.answer import read_answer
    from triton_agent.tools.results import Status

    found = set()
    for problem, outer, inner in itertools.product(PROBLEMS, OUTER, INNER):
        source = read_answer(answer(problem, outer, inner)).source or ""
        if judge(problem, source).status is Status.PASSED:
            found.add((problem, outer, inner))
    return frozenset(found)


@contextlib.contextmanager
def judges(folder: Path) -> Iterator[Any]:
    """Yield a judge of all problems, each with its evaluator."""
    from triton_agent.tools.evaluate.evaluator import Evaluator
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.processes.zygotes import Nursery
    from triton_agent.tools.settings import EvaluatorSettings

    settings = EvaluatorSettings(shapes="given", target=None, modes=("eval",))
    with contextlib.ExitStack() as stack:
        nursery = stack.enter_context(Nursery(str(folder / "nursery.log")))
        evaluators = {}
        for name, expression in PROBLEMS.items():
            path = folder / f"{name}.py"
            path.write_text(PROBLEM.format(expression=expression))
            spec = parse_problem(str(path))
            evaluators[name] = stack.enter_context(Evaluator(spec, settings, nursery=nursery))
        yield lambda problem, source: evaluators[problem].evaluate(source)


def learn(seed: int, scale: Scale, judge: Any, rights: Rights, folder: Path) -> Learned:
    """Run one seed from a new policy to its figures."""
    from triton_agent.policy.train.evaluate.figures import gain, scores
    from triton_agent.policy.train.prepare.recipes import RECIPES
    from triton_agent.policy.train.record.trajectories import Knowledge, collect
    from triton_agent.policy.train.update.session import load

    began = time.perf_counter()
    recipe = RECIPES["default"]
    taught = teach(seed, scale, rights, folder)
    model, tokenizer = load(taught, cpu=True)
    bench = bench_of(tokenizer, judge, scale, seed)
    records = log(model.eval(), bench, scale, seed)
    samples, control = (
        collect(found, recipe, Knowledge(decode=tokenizer.decode)).samples
        for found in (records, shuffled(records, random.Random(seed)))
    )
    trained = reinforce(taught, samples, scale, seed, folder / "grpo")
    good, bad = (likelier(model, trained, samples, passed) for passed in (True, False))
    models = (model, trained, reinforce(taught, control, scale, seed, folder / "control"))
    before, after, unlearned = map(bench.ask, models)
    score = scores(recipe)
    imitated = [
        bench.ask(imitate(taught, records, rate, scale.epochs, seed, folder / f"imitated-{rate:g}"))
        for rate in (LEARNING_RATE, REJECTION_RATE)
    ]
    rejection = max(imitated, key=lambda answers: mean(answers, score["reward"]))
    return Learned(
        seed=seed,
        good=good,
        bad=bad,
        reward_before=mean(before, score["reward"]),
        reward_after=mean(after, score["reward"]),
        gain=gain(before, after, score["reward"]),
        control=gain(before, unlearned, score["reward"]),
        over_rejection=gain(rejection, after, score["reward"]),
        correct_before=mean(before, score["correct"]),
        correct_after=mean(after, score["correct"]),
        correct_rejection=mean(rejection, score["correct"]),
        wall_s=time.perf_counter() - began,
    )


def reinforce(taught: str, samples: Sequence[TrainingSample], scale: Scale, seed: int, output: Path) -> Any:
    """Return the policy after GRPO on the log, clipped as `train grpo --runs` does."""
    from triton_agent.policy.train.prepare.prepared import prepare
    from triton_agent.policy.train.prepare.recipes import RECIPES
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import load, train_grpo

    recipe = RECIPES["default"]
    settings = GRPOSettings(
        output=output,
        cpu=True,
        learning_rate=LEARNING_RATE,
        batch_size=BATCH_SIZE,
        epochs=scale.epochs,
        proximal=True,
        save_every=10**6,
        seed=seed,
    )
    outcome = train_grpo(taught, prepare(samples, recipe), recipe, settings)
    return load(str(outcome.weights), cpu=True)[0].eval()


def imitate(taught: str, records: Sequence[Record], rate: float, epochs: float, seed: int, output: Path) -> Any:
    """Return the policy after fine-tuning on the logged answers that passed."""
    from triton_agent.policy.train.update.session import load
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    texts = {attempt.key: attempt.completion.text for attempt, _ in records}
    verdicts = {attempt.key: grading.evaluation for attempt, (grading,) in records}
    rows = []
    for attempt, (grading,) in records:
        if grading.evaluation and grading.evaluation.status == "passed":
            talk = question(attempt.observation.problem.name)
            if attempt.parent:
                earlier = verdicts[attempt.parent]
                status = str(earlier.status) if earlier else "unknown"
                talk += [{"role": "assistant", "content": texts[attempt.parent]}, reply(status)]
            rows.append({"messages": [*talk, {"role": "assistant", "content": attempt.completion.text}]})
    settings = SFTSettings(
        output=output,
        cpu=True,
        learning_rate=rate,
        epochs=epochs,
        batch_size=BATCH_SIZE,
        save_every=10**6,
        seed=seed,
    )
    return load(str(train_sft(taught, rows, settings).weights), cpu=True)[0].eval()


def teach(seed: int, scale: Scale, rights: Rights, folder: Path) -> str:
    """Return a new policy that knows the form of an answer."""
    from triton_agent.policy.train.update.fresh import make_policy
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    rows = list(examples(random.Random(seed), rights, scale.right_times))
    make_policy("tiny", vocabulary(), folder / "fresh", seed=seed, across_words=True)
    settings = SFTSettings(
        output=folder / "sft",
        cpu=True,
        learning_rate=4e-3,
        steps=scale.teaching_steps,
        batch_size=8,
        save_every=10**6,
        seed=seed,
    )
    return str(train_sft(str(folder / "fresh"), rows, settings).weights)


def vocabulary() -> list[str]:
    """Return texts for a tokenizer with one token for each constant line of the kernel, and tokens for each choice."""
    fixed = KERNEL.replace("{expression}", "\n").splitlines(keepends=True)
    choices = [piece for form in OUTER.values() for piece in form.split("{}")] + [*INNER.values()]
    words = [f" {word}" for word in (*OUTER, *INNER, *PROBLEMS)]
    asked = ["Write a Triton kernel for", "Verdict: wrong_values. Write another.", "Verdict: passed. Write another."]
    return [*fixed, *choices, *words, *asked, "For", " take the", " of", ".\n\n```python\n", "```\n"] * 3


def bench_of(tokenizer: Any, judge: Any, scale: Scale, seed: int) -> Trial:
    from triton_agent.policy.train.evaluate.trial import Trial, TrialSettings, TrialTask

    tasks = [TrialTask(problem=problem, prompt_ids=prompt_ids(tokenizer, question(problem))) for problem in PROBLEMS]
    settings = TrialSettings(answers=scale.answers, tokens_at_most=200, batch_size=64, seed=10_000 + seed)
    return Trial(tasks, judge, tokenizer, settings)


def prompt_ids(tokenizer: Any, messages: Sequence[Message]) -> tuple[int, ...]:
    ids = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=True, return_dict=False)
    return tuple(ids)


def log(model: Any, bench: Trial, scale: Scale, seed: int) -> list[Record]:
    """Return two turns of every trajectory as records of the store."""
    import torch

    from triton_agent.policy.train.evaluate.sampling import sample

    torch.manual_seed(seed)
    runs = [(f"{problem}-{i}", problem) for problem in PROBLEMS for i in range(scale.trajectories)]
    talks = {run: question(problem) for run, problem in runs}
    records = []
    for turn in (0, 1):
        prompts = [prompt_ids(bench.tokenizer, talks[run]) for run, _ in runs]
        answers = sample(model, prompts, tokens_at_most=200, end_id=2, pad_id=0, batch_size=64, scored=True)
        for (run, problem), prompt, said in zip(runs, prompts, answers):
            record = remembered(bench, run, problem, turn, prompt, said)
            records.append(record)
            evaluation = record[1][0].evaluation
            verdict = str(evaluation.status) if evaluation else "unknown"
            talks[run] += [{"role": "assistant", "content": bench.text(said)}, reply(verdict)]
    return records


def shuffled(records: Sequence[Record], draw: random.Random) -> list[Record]:
    """Return the log with every verdict given to another answer of the same turn to the same problem."""
    pools: dict[tuple[str, int], list[tuple[Grading, ...]]] = {}
    for attempt, gradings in records:
        pools.setdefault((attempt.observation.problem.name, attempt.turn), []).append(gradings)
    for pool in pools.values():
        draw.shuffle(pool)
    found = []
    for attempt, _ in records:
        given = pools[attempt.observation.problem.name, attempt.turn].pop()
        found.append((attempt, tuple(dataclasses.replace(grading, attempt=attempt.key) for grading in given)))
    return found


def remembered(bench: Trial, run: str, problem: str, turn: int, prompt: tuple[int, ...], said: Any) -> Record:
    """Judge one turn and return it as a record."""
    from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
    from triton_agent.memory.records import (
        Attempt,
        Completion,
        Distribution,
        Grading,
        InstrumentFailure,
        SamplingRecord,
    )
    from triton_agent.policy.answer import read_answer

    now = datetime.datetime.now(datetime.UTC)
    view = ProblemView(digest=problem, name=problem, spec={}, source="", fingerprint="")
    read = read_answer(bench.text(said))
    attempt = Attempt(
        run=run,
        turn=turn,
        index=0,
        parent=f"{run}/{turn - 1}.0" if turn else None,
        observation=Observation(problem=view, rules=Rules(), turn=turn, seed=0, budget=BudgetLeft()),
        completion=Completion(
            text=bench.text(said),
            policy="tiny",
            prompt_ids=prompt,
            token_ids=said.token_ids,
            log_probabilities=said.log_probabilities,
            log_probabilities_of=Distribution.SAMPLED,
            sampling=SamplingRecord(temperature=1.0),
        ),
        plan=read.plan,
        source=read.source,
        created_at=now,
    )
    evaluation = bench.verdict(problem, read.source or "")
    failure = None if evaluation else InstrumentFailure(kind="InstrumentError", what="not measured")
    return attempt, (Grading(attempt=attempt.key, evaluation=evaluation, failure=failure, grader="1", graded_at=now),)


def likelier(before: Any, after: Any, samples: Sequence[TrainingSample], passed: bool) -> Interval:
    """Return the change of the log-likelihood of logged turns, in nats per turn, with its interval."""
    from triton_agent.policy.train.evaluate.figures import interval
    from triton_agent.policy.train.update.session import rescorer

    chosen = [s for s in samples if s.turn.reward.passed is passed and s.turn.reward.total is not None]
    old, new = (rescorer(model, batch_size=64)(chosen, 1.0) for model in (before, after))
    changes = [sum(b) - sum(a) for a, b in zip(old, new)]
    return interval([changes], statistics.fmean)


def mean(judged: Sequence[JudgedAnswer], score: Any) -> float:
    return statistics.fmean(value for value in map(score, judged) if value is not None)


# -- telling -----------------------------------------------------------------------------------------------------------


def text(interval: Interval) -> str:
    return f"{interval.median:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def row(learned: Learned) -> dict[str, object]:
    """Return the row for the CSV file."""
    from triton_agent.tools.versions import installed

    flat: dict[str, object] = {"seed": learned.seed}
    for name in ("good", "bad", "gain", "control", "over_rejection"):
        found = getattr(learned, name)
        flat |= {name: f"{found.median:.4f}", f"{name}_low": f"{found.low:.4f}", f"{name}_high": f"{found.high:.4f}"}
    for name in ("reward_before", "reward_after", "correct_before", "correct_after", "correct_rejection"):
        flat[name] = f"{getattr(learned, name):.4f}"
    versions = {name: installed(name) or "none" for name in ("transformers", "trl")}
    return {**flat, "wall_s": f"{learned.wall_s:.1f}", **versions}


HEADINGS = (
    "passed turns, nats",
    "failed turns, nats",
    "gain in reward",
    "verdicts shuffled",
    "over rejection sampling",
)


def line(learned: Learned) -> str:
    """Return the line of the table."""
    intervals = (learned.good, learned.bad, learned.gain, learned.control, learned.over_rejection)
    found = "  ".join(f"{text(interval):24s}" for interval in intervals)
    right = f"{learned.correct_before:.0%} -> {learned.correct_after:.0%} (rejection {learned.correct_rejection:.0%})"
    return f"{learned.seed:4d}  {found}  {right}  ({learned.wall_s:.0f} s)"


def options_of(description: str | None, first_seed: int) -> argparse.Namespace:
    """Read the command line of a benchmark of learning; exit with 2 where training is not installed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=first_seed, help="the first seed (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="less of everything, and no rows written")
    options = parser.parse_args()
    from triton_agent.policy.train.extra import require_training
    from triton_agent.tools.errors import UsageError

    try:
        require_training()
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    return options


def main() -> int:
    options = options_of(__doc__, FIRST_SEED)
    sys.path.insert(0, str(HERE.parent))
    from benchmarks.rows import RESULTS, append, provenance

    shared = provenance()
    print("seed  " + "  ".join(f"{heading:24s}" for heading in HEADINGS) + "  right answers")
    found = []
    with tempfile.TemporaryDirectory(prefix="learning-") as scratch, judges(Path(scratch)) as judge:
        rights = right_answers(judge)
        for seed in range(options.first, options.first + options.seeds):
            folder = Path(scratch) / str(seed)
            folder.mkdir()
            learned = learn(seed, QUICK if options.quick else FULL, judge, rights, folder)
            found.append(learned)
            print(line(learned), flush=True)
            if not options.quick:
                append(RESULTS / "learning.csv", shared, [row(learned)])
    return 0 if all(learned.holds for learned in found) else 1


if __name__ == "__main__":
    sys.exit(main())
