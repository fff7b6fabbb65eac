"""Records observations from real runs: judges files of every outcome and stores what their author would be shown.

    python -m tests.policy.llm.prompting.record_runs                  # in the interpreter, a few minutes
    python -m tests.policy.llm.prompting.record_runs --device cuda    # the stories of a GPU, a minute or two

`renew_golden.py` renders the observations in `golden/runs_cpu.json` and `golden/runs_cuda.json` as the golden prompts.
Verdicts, messages and figures come from the judge. Only identifiers and paths are replaced, so that they are equal on
every machine. If the stories of one problem cannot be recorded, those of the other problems still are.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.policy.llm.prompting import run_files as files

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules, Task
from triton_agent.memory.records import Completion
from triton_agent.memory.sql import encoding
from triton_agent.policy.answer import write_answer
from triton_agent.policy.episode import Graded, observe, step
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.settings import EvaluatorSettings, Profiling

GOLDEN = Path(__file__).parent / "golden"
RUN = "20260131-154500-3fa9c1"
LIMIT_S = 60.0
"""Time limit of a verdict, short enough to wait for the file that never ends."""
PROBLEMS = {
    "softmax": files.EXAMPLES / "softmax.py",
    "linear_gelu": files.EXAMPLES / "linear_gelu.py",
    "generalised_advantages": files.REPOSITORY / "benchmarks/problems/scans/generalised_advantages.py",
}
COMPILED = ("softmax", "linear_gelu")
"""Problems that are also timed against torch.compile, which takes a minute for the loop of 128 steps."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A short run: one answer per turn, and the task of the next answer."""

    problem: str
    answers: tuple[tuple[str, str], ...]
    """Plan and file of each answer. Without a file, the plan is the whole answer."""
    parent: int | None = None
    """Turn of the parent attempt."""
    partner: int | None = None
    task: Task = Task.ANY


ROW = ("Keep a whole row in one block and read it once.", files.WHOLE)
TWICE = ("Keep a running maximum and sum, and read each row twice.", files.ONLINE)
THRICE = ("One kernel each for maxima, sums and the division.", files.THREE_KERNELS)
FOUR = ("Four rows in each program and a single warp, which needs no barriers.", files.FOUR_ROWS)
BLOCKED = ("Cut the row in blocks that are a power of two.", files.NOT_POWER_OF_TWO)
LOOP = ("One program for 1,024 rows walks back over the steps and keeps the advantage.", files.ADVANTAGES)
LAUNCHES = ("One launch for each step, from the last to the first.", files.ONE_LAUNCH_EACH)
DIFF = (files.A_DIFF, "")
TANH = ("Multiply in my kernel with the tanh form of GELU.", files.APPROXIMATE)
APART = ("Multiply in my kernel and let torch apply GELU.", files.HALF_FUSED)
TF32 = ("Multiply with TF32, GELU in the same kernel.", files.TF32)
FUSED = ("Full float32 products, GELU fused.", files.FUSED)
ENDLESS = ("Read each row in blocks until it ends.", files.ENDLESS)
TOO_LONG = ("Take every place in the row as a start.", files.TOO_LONG)
OUTSIDE = (ROW[0], files.OUT_OF_PLACE)


def repair(problem: str, *answers: tuple[str, str]) -> Story:
    """Return a story whose last answer is to be repaired."""
    return Story(problem=problem, answers=answers, parent=len(answers) - 1, task=Task.REPAIR)


def improve(problem: str, *answers: tuple[str, str], parent: int | None = None) -> Story:
    """Return a story whose last answer, or the answer of turn `parent`, is to be improved."""
    chosen = len(answers) - 1 if parent is None else parent
    return Story(problem=problem, answers=answers, parent=chosen, task=Task.IMPROVE)


STORIES: dict[str, dict[str, Story]] = {
    "cpu": {
        "compile_block": repair("softmax", (ROW[0], files.NOT_POWER_OF_TWO)),
        "compile_name": repair("softmax", (ROW[0], files.UNKNOWN_FUNCTION)),
        "wrong_at_some_sizes": repair("softmax", TWICE, (ROW[0], files.UNMASKED)),
        "less_accurate": repair("softmax", TWICE, ("Keep the exponentials in bfloat16.", files.HALF)),
        "timeout": repair("softmax", ENDLESS),
        "outside": repair("softmax", OUTSIDE),
        "wrong_shape": repair("softmax", (ROW[0], files.WRONG_SHAPE)),
        "cheated": improve(
            "softmax",
            TWICE,
            ("Keep the answer for the next call.", files.REMEMBERED),
            ("Let torch compute it beside a kernel.", files.IDLE),
            ("Use torch.softmax.", files.TORCH),
            parent=0,
        ),
        "slow_by_traffic": improve("softmax", THRICE),
        "combine": Story(problem="softmax", answers=(THRICE, TWICE, ROW), parent=2, partner=1, task=Task.COMBINE),
        "restart": Story(problem="softmax", answers=(THRICE, BLOCKED, TWICE, ("", "")), task=Task.RESTART),
        "left_to_torch": improve("linear_gelu", TANH, APART),
        "product": improve("linear_gelu", TF32, FUSED),
        "wrong_everywhere": repair(
            "generalised_advantages", ("Take the flag of the step after, with one load.", files.LATER_FLAG)
        ),
        "writes_input": repair(
            "generalised_advantages", ("Write over the rewards to save memory.", files.WRITES_INPUT)
        ),
        "host_error": repair("generalised_advantages", (LOOP[0], files.WRONG_NAME)),
        "no_kernel": repair("generalised_advantages", ("Vectorise the surprises, loop in torch.", files.LEFT_IN_TORCH)),
        "out_of_memory": repair(
            "generalised_advantages", ("A table of weights for all pairs of steps.", files.TABLE_OF_PAIRS)
        ),
        "no_file": Story(problem="generalised_advantages", answers=(LOOP, DIFF), parent=0, task=Task.IMPROVE),
        "many_launches": improve("generalised_advantages", LAUNCHES),
    },
    "cuda": {
        "traffic": improve("softmax", THRICE),
        "two_passes": improve("softmax", TWICE),
        "spills": improve("softmax", FOUR),
        "near_the_floor": improve("softmax", THRICE, BLOCKED, ROW),
        "compiler_failed": repair("softmax", ROW, ENDLESS),
        "too_long": repair("softmax", TOO_LONG),
        "illegal_access": repair("softmax", OUTSIDE),
        "combine": Story(problem="softmax", answers=(THRICE, TWICE, ROW), parent=2, partner=1, task=Task.COMBINE),
        "restart": Story(problem="softmax", answers=(THRICE, BLOCKED, TWICE, ("", "")), task=Task.RESTART),
        "left_to_torch": improve("linear_gelu", TF32, APART),
        "compute": improve("linear_gelu", APART, FUSED),
        "launches": improve("generalised_advantages", LAUNCHES),
        "few_programs": improve("generalised_advantages", LAUNCHES, LOOP),
        "smaller_blocks": improve(
            "generalised_advantages",
            LAUNCHES,
            LOOP,
            ("Blocks of 64 rows give every multiprocessor work.", files.SMALLER_BLOCKS),
        ),
    },
}


def recorded(device: str) -> Iterator[tuple[str, Observation]]:
    """Judge the files of all stories of a device; yield the observation at the end of each."""
    stories = STORIES[device]
    for problem in dict.fromkeys(story.problem for story in stories.values()):
        try:
            yield from _recorded(problem, device)
        except InstrumentError:
            traceback.print_exc()


def _recorded(problem: str, device: str) -> Iterator[tuple[str, Observation]]:
    spec = parse_problem(str(PROBLEMS[problem]))
    baselines = ("compile",) if device == "cuda" and problem in COMPILED else ()
    rules = Rules(allow_library=device == "cuda")  # on a GPU as `optimize` does by default, else as `bench` does
    settings = EvaluatorSettings(
        device=device, baselines=baselines, profile=Profiling.ALL, allow_library=rules.allow_library
    )
    with Evaluator(spec, settings.within(LIMIT_S)) as judge:
        view = _portable(ProblemView.of(spec, judge.facts))
        known: dict[str, Graded] = {}
        for name, story in STORIES[device].items():
            if story.problem == problem:
                yield name, _told(story, view, rules, judge, known)


def _told(story: Story, view: ProblemView, rules: Rules, judge: Evaluator, known: dict[str, Graded]) -> Observation:
    history: list[Graded] = []
    for turn, (plan, source) in enumerate(story.answers):
        seen = _observe(view, rules, history, turn)
        text = write_answer(plan, source) if source else plan or "I would try a larger block."
        answer = Completion(text=text, policy="model")
        graded = known.get(source) or asyncio.run(step(RUN, seen, answer, judge))
        known[source] = graded
        attempt = dataclasses.replace(graded.attempt, turn=turn, index=0, plan=plan, observation=seen)
        grading = dataclasses.replace(graded.grading, attempt=attempt.key)
        history.append(Graded(attempt=attempt, grading=grading))
    keys = [item.attempt.key for item in history]
    return _observe(
        view,
        rules,
        history,
        len(history),
        parent=None if story.parent is None else keys[story.parent],
        partner=None if story.partner is None else keys[story.partner],
        task=story.task,
    )


def _observe(view: ProblemView, rules: Rules, history: Sequence[Graded], turn: int, **more: object) -> Observation:
    left = BudgetLeft(turns=12 - turn)
    return observe(view, rules, history, left, turn=turn, attempts_before=turn, seed=7, **more)  # type: ignore[arg-type]


def _portable(view: ProblemView) -> ProblemView:
    """Drop the fields that no prompt shows and those that differ between machines."""
    return dataclasses.replace(view, spec={}, graphs=view.graphs[:1], train_graphs=(), numbers=(), tensors=())


def path_of(device: str) -> Path:
    """Return the file with the recorded observations of a device."""
    return GOLDEN / f"runs_{device}.json"


def load(device: str) -> dict[str, Observation]:
    """Return the recorded observations of a device; empty if there are none."""
    if not path_of(device).exists():
        return {}
    kept = json.loads(path_of(device).read_text(encoding="utf-8"))
    views = {name: encoding.from_plain(ProblemView, view) for name, view in kept["problems"].items()}
    return {
        name: encoding.from_plain(Observation, plain | {"problem": views[plain["problem"]]})
        for name, plain in kept["observations"].items()
    }


def _lines(kept: dict[str, dict[str, object]]) -> str:
    """Return JSON with a line for each problem and each observation."""
    parts = []
    for name, values in kept.items():
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
        parts.append(f"{json.dumps(name)}: {{\n{lines}\n}}")
    return "{" + ",\n".join(parts) + "}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=tuple(STORIES), default="cpu")
    parser.add_argument("--to", type=Path, help="default: where the tests look")
    options = parser.parse_args()
    problems, observations = {}, {}
    for name, seen in recorded(options.device):
        print(name, [item.status.value if item.status else None for item in seen.tried], flush=True)
        problems[seen.problem.name] = json.loads(encoding.to_text(seen.problem))
        observations[name] = json.loads(encoding.to_text(seen)) | {"problem": seen.problem.name}
        to = options.to or path_of(options.device)
        to.write_text(_lines({"problems": problems, "observations": observations}), encoding="utf-8")
    if missing := sorted(set(STORIES[options.device]) - set(observations)):
        raise SystemExit(f"not recorded: {', '.join(missing)}")


if __name__ == "__main__":
    main()
