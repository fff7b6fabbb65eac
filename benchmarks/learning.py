"""Does a policy learn from logged runs alone? A tiny one, from scratch, judged by the real evaluator throughout.

For each seed: a fresh policy is taught the form of an answer by examples whose choices are random, so that it writes
complete kernels and seldom the right one. It answers each problem many times over two turns; the answers are judged and
logged. Then GRPO trains on that log and nothing else, no new answer is sampled, and the policy is asked again. Told are
the likelihoods of logged turns that passed and that failed, before and after, and what newly sampled answers earn, with
the interval of the gain.

It shows that the machinery learns what it should. It does not show how well a large model would learn: the problems
are elementwise, and an answer is one of nine.

Exits with 1 where an interval does not exclude 0: then it was not shown.

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
    from triton_agent.policy.train.figures import Judged
    from triton_agent.policy.train.trajectories import Sample
    from triton_agent.policy.train.trial import Bench
    from triton_agent.tools.results import Interval

HERE = Path(__file__).resolve().parent
PROBLEMS = {"relu": "torch.relu(x)", "fall": "torch.clamp(-x, max=0.0)", "square": "x * x", "size": "x.abs()"}
"""By name, what each computes."""
OUTER = {"maximum": "tl.maximum({}, 0.0)", "minimum": "tl.minimum({}, 0.0)", "magnitude": "tl.abs({})"}
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
        y = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
        return y
"""
Message = dict[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of everything."""

    trajectories: int
    """A problem; each of two turns."""
    answers: int
    """A problem, newly sampled, before and after."""
    teaching_steps: int
    epochs: int


FULL = Scale(trajectories=64, answers=64, teaching_steps=240, epochs=6)
QUICK = Scale(trajectories=24, answers=24, teaching_steps=200, epochs=4)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What one seed gave."""

    seed: int
    good: Interval
    """Change of the log-likelihood of turns that passed, per turn."""
    bad: Interval
    reward_before: float
    reward_after: float
    gain: Interval
    correct_before: float
    correct_after: float
    wall_s: float

    @property
    def holds(self) -> bool:
        return self.good.low > 0 and self.bad.high < 0 and self.gain.low > 0


def answer(outer: str, inner: str) -> str:
    from triton_agent.policy.answer import write_answer

    expression = OUTER[outer].format(INNER[inner])
    return write_answer(f"Take the {outer} of {inner}.", KERNEL.format(expression=expression))


def question(problem: str) -> list[Message]:
    return [{"role": "user", "content": f"Write a Triton kernel for {problem}."}]


def reply(status: str) -> Message:
    return {"role": "user", "content": f"Verdict: {status}. Write another."}


def examples(draw: random.Random) -> Iterator[dict[str, list[Message]]]:
    """Conversations of one and two turns, all choices and verdicts at random: they teach the form alone."""
    for problem, outer, inner in itertools.product(PROBLEMS, OUTER, INNER):
        said = {"role": "assistant", "content": answer(outer, inner)}
        yield {"messages": [*question(problem), said]}
        for status in ("wrong_values", "passed"):
            first = {"role": "assistant", "content": answer(draw.choice([*OUTER]), draw.choice([*INNER]))}
            yield {"messages": [*question(problem), first, reply(status), said]}


@contextlib.contextmanager
def judges(folder: Path) -> Iterator[Any]:
    """A judge over all problems, each with its evaluator."""
    from triton_agent.tools.evaluator import Evaluator, EvaluatorSettings
    from triton_agent.tools.isolate.processes import Nursery
    from triton_agent.tools.problem import parse_problem

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


def learn(seed: int, scale: Scale, judge: Any, folder: Path) -> Learned:
    """One seed from a fresh policy to its figures."""
    from triton_agent.policy.train.figures import gain, scores
    from triton_agent.policy.train.grpo import GRPOSettings
    from triton_agent.policy.train.prepared import prepare
    from triton_agent.policy.train.recipes import RECIPES
    from triton_agent.policy.train.session import load, train_grpo
    from triton_agent.policy.train.trajectories import Knowledge, collect

    began = time.perf_counter()
    recipe = RECIPES["default"]
    taught = teach(seed, scale, folder)
    model, tokenizer = load(taught, cpu=True)
    bench = bench_of(tokenizer, judge, scale, seed)
    samples = collect(log(model.eval(), bench, scale, seed), recipe, Knowledge(decode=tokenizer.decode)).samples
    settings = GRPOSettings(
        output=folder / "grpo",
        cpu=True,
        proximal=True,
        learning_rate=2e-4,
        batch_size=32,
        epochs=scale.epochs,
        save_every=10**6,
        seed=seed,
    )
    outcome = train_grpo(taught, prepare(samples, recipe), recipe, settings)
    trained, _ = load(str(outcome.weights), cpu=True)
    good, bad = (likelier(model, trained.eval(), samples, passed) for passed in (True, False))
    before, after = bench.ask(model), bench.ask(trained)
    return Learned(
        seed=seed,
        good=good,
        bad=bad,
        reward_before=mean(before, scores(recipe)["reward"]),
        reward_after=mean(after, scores(recipe)["reward"]),
        gain=gain(before, after, scores(recipe)["reward"]),
        correct_before=mean(before, scores(recipe)["correct"]),
        correct_after=mean(after, scores(recipe)["correct"]),
        wall_s=time.perf_counter() - began,
    )


def teach(seed: int, scale: Scale, folder: Path) -> str:
    """A fresh policy that knows the form of an answer."""
    from triton_agent.policy.train.fresh import make_policy
    from triton_agent.policy.train.sft import SFTSettings, train_sft

    rows = list(examples(random.Random(seed)))
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
    """Texts for a tokenizer with a token for a line of the kernel that never differs, and tokens for each choice."""
    fixed = KERNEL.replace("{expression}", "\n").splitlines(keepends=True)
    choices = [piece for form in OUTER.values() for piece in form.split("{}")] + [*INNER.values()]
    words = [f" {word}" for word in (*OUTER, *INNER, *PROBLEMS)]
    asked = ["Write a Triton kernel for", "Verdict: wrong_values. Write another.", "Verdict: passed. Write another."]
    return [*fixed, *choices, *words, *asked, "Take the", " of", ".\n\n```python\n", "```\n"] * 3


def bench_of(tokenizer: Any, judge: Any, scale: Scale, seed: int) -> Bench:
    from triton_agent.policy.train.trial import Bench, Task, TrialSettings

    tasks = [Task(problem=problem, prompt_ids=prompt_ids(tokenizer, question(problem))) for problem in PROBLEMS]
    settings = TrialSettings(answers=scale.answers, tokens_at_most=200, batch_size=64, seed=10_000 + seed)
    return Bench(tasks, judge, tokenizer, settings)


def prompt_ids(tokenizer: Any, messages: Sequence[Message]) -> tuple[int, ...]:
    ids = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=True, return_dict=False)
    return tuple(ids)


def log(model: Any, bench: Bench, scale: Scale, seed: int) -> list[tuple[Attempt, tuple[Grading, ...]]]:
    """Two turns of every trajectory, as the store would hold them."""
    import torch

    from triton_agent.policy.train.sampling import sample

    torch.manual_seed(seed)
    runs = [(f"{problem}-{i}", problem) for problem in PROBLEMS for i in range(scale.trajectories)]
    talks = {run: question(problem) for run, problem in runs}
    records = []
    for turn in (0, 1):
        prompts = [prompt_ids(bench.tokenizer, talks[run]) for run, _ in runs]
        answers = sample(model, prompts, tokens_at_most=200, end_id=2, pad_id=0, batch_size=64)
        for (run, problem), prompt, said in zip(runs, prompts, answers):
            record = remembered(bench, run, problem, turn, prompt, said)
            records.append(record)
            evaluation = record[1][0].evaluation
            verdict = str(evaluation.status) if evaluation else "unknown"
            talks[run] += [{"role": "assistant", "content": bench.text(said)}, reply(verdict)]
    return records


def remembered(
    bench: Bench, run: str, problem: str, turn: int, prompt: tuple[int, ...], said: Any
) -> tuple[Attempt, tuple[Grading, ...]]:
    """One turn as a record, judged."""
    from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules
    from triton_agent.memory.records import Attempt, Completion, Grading, InstrumentFailure
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
        ),
        plan=read.plan,
        source=read.source,
        created_at=now,
    )
    evaluation = bench.verdict(problem, read.source or "")
    failure = None if evaluation else InstrumentFailure(kind="InstrumentError", what="not measured")
    return attempt, (Grading(attempt=attempt.key, evaluation=evaluation, failure=failure, grader="1", graded_at=now),)


def likelier(before: Any, after: Any, samples: Sequence[Sample], passed: bool) -> Interval:
    """How much the log-likelihood of logged turns changed, in nats a turn, with its interval."""
    from triton_agent.policy.train.figures import interval
    from triton_agent.policy.train.session import rescorer

    chosen = [s for s in samples if s.turn.reward.passed is passed and s.turn.reward.total is not None]
    old, new = (rescorer(model, batch_size=64)(chosen) for model in (before, after))
    changes = [sum(b) - sum(a) for a, b in zip(old, new)]
    return interval([changes], statistics.fmean)


def mean(judged: Sequence[Judged], score: Any) -> float:
    return statistics.fmean(value for value in map(score, judged) if value is not None)


# -- telling -----------------------------------------------------------------------------------------------------------


def text(interval: Interval) -> str:
    return f"{interval.median:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def row(learned: Learned) -> dict[str, object]:
    """For the CSV file."""
    flat: dict[str, object] = {"seed": learned.seed}
    for name in ("good", "bad", "gain"):
        found = getattr(learned, name)
        flat |= {name: f"{found.median:.4f}", f"{name}_low": f"{found.low:.4f}", f"{name}_high": f"{found.high:.4f}"}
    for name in ("reward_before", "reward_after", "correct_before", "correct_after"):
        flat[name] = f"{getattr(learned, name):.4f}"
    return {**flat, "wall_s": f"{learned.wall_s:.1f}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="less of everything, and no rows written")
    options = parser.parse_args()
    from triton_agent.policy.train.extra import require_training

    require_training()
    sys.path.insert(0, str(HERE.parent))
    from benchmarks.rows import RESULTS, append, provenance

    shared = provenance()
    print(
        "seed  nats: passed turns           failed turns             reward          gain                     correct"
    )
    found = []
    with tempfile.TemporaryDirectory(prefix="learning-") as scratch, judges(Path(scratch)) as judge:
        for seed in range(options.seeds):
            folder = Path(scratch) / str(seed)
            folder.mkdir()
            learned = learn(seed, QUICK if options.quick else FULL, judge, folder)
            found.append(learned)
            print(
                f"{seed:4d}  {text(learned.good):24s} {text(learned.bad):24s} "
                f"{learned.reward_before:.3f} -> {learned.reward_after:.3f}  {text(learned.gain):24s} "
                f"{learned.correct_before:.0%} -> {learned.correct_after:.0%}  ({learned.wall_s:.0f} s)",
                flush=True,
            )
    if not options.quick:
        append(RESULTS / "learning.csv", shared, [row(learned) for learned in found])
    return 0 if all(learned.holds for learned in found) else 1


if __name__ == "__main__":
    sys.exit(main())
