"""Records what authors are shown in real runs: files of every outcome are judged, and their observations are kept.

    python -m tests.policy.llm.prompting.record_runs                    # in the interpreter, a minute or two
    python -m tests.policy.llm.prompting.record_runs --device cuda --to OBSERVATIONS.json

`renew_golden.py` renders the observations kept in `golden/runs.json` as prompts, which tests compare with. Verdicts,
messages and figures are those of the judge; only identifiers and paths are made equal on every machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_agent.memory.observation import BudgetLeft, Observation, ProblemView, Rules, Task
from triton_agent.memory.records import Completion
from triton_agent.memory.sql import encoding
from triton_agent.policy.answer import write_answer
from triton_agent.policy.episode import Graded, observe, step
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.settings import EvaluatorSettings

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[3] / "examples"
RECORDED = HERE / "golden" / "runs.json"
RUN = "20260131-154500-3fa9c1"
BOUGHT_S = 20.0
"""Time limit of a verdict: enough for these sizes, and short for the one without an end."""

ONLINE = (EXAMPLES / "softmax_online.py").read_text(encoding="utf-8")
HALF = (EXAMPLES / "softmax_half.py").read_text(encoding="utf-8")
TORCH = (EXAMPLES / "softmax_torch.py").read_text(encoding="utf-8")
WHOLE = HALF.replace(".to(tl.bfloat16)", "").replace(HALF[: HALF.index("import torch")], "")
NOT_POWER_OF_TWO = WHOLE.replace("BLOCK=triton.next_power_of_2(columns)", "BLOCK=columns")
UNKNOWN_FUNCTION = WHOLE.replace("tl.exp(", "tl.math.fast_expf(")
UNMASKED = WHOLE.replace(', other=-float("inf")', ", other=0.0")
ENDLESS = ONLINE.replace("for start in range(0, columns, BLOCK):", "start = 0\n    while start >= 0:", 1)
OUT_OF_PLACE = WHOLE.replace("tl.program_id(0).to(tl.int64) * columns", "(tl.program_id(0).to(tl.int64) + 1) * columns")
WRONG_SHAPE = WHOLE.replace("return y\n", "return y.view(-1)\n")
REMEMBERED = WHOLE.replace(
    "        x = x.contiguous()\n",
    "        if getattr(self, 'kept', None) is not None:\n            return self.kept\n        x = x.contiguous()\n",
).replace("        return y\n", "        self.kept = y\n        return y\n")
IDLE = WHOLE.replace("        return y\n", "        return torch.softmax(x, dim=-1)\n")
THREE_KERNELS = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_tops(x_ptr, top_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(top_ptr + row, tl.max(x, axis=0))


@triton.jit
def row_totals(x_ptr, top_ptr, total_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(total_ptr + row, tl.sum(tl.exp(x - tl.load(top_ptr + row)), axis=0))


@triton.jit
def divided(x_ptr, top_ptr, total_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    power = tl.exp(x - tl.load(top_ptr + row))
    tl.store(y_ptr + row * columns + at, power / tl.load(total_ptr + row), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        columns = x.shape[-1]
        rows = x.numel() // columns
        y = torch.empty_like(x)
        top, total = x.new_empty(rows), x.new_empty(rows)
        block = triton.next_power_of_2(columns)
        row_tops[(rows,)](x, top, columns, BLOCK=block)
        row_totals[(rows,)](x, top, total, columns, BLOCK=block)
        divided[(rows,)](x, top, total, y, columns, BLOCK=block)
        return y
"""
BARE_PRODUCT = """import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def linear_gelu(x_ptr, weight_ptr, bias_ptr, y_ptr, rows, width, depth,
                M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = (tl.program_id(0) * M + tl.arange(0, M)).to(tl.int64)
    n = (tl.program_id(1) * N + tl.arange(0, N)).to(tl.int64)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, depth, K):
        k = start + tl.arange(0, K)
        x = tl.load(x_ptr + m[:, None] * depth + k[None, :],
                    mask=(m[:, None] < rows) & (k[None, :] < depth), other=0.0)
        weight = tl.load(weight_ptr + n[None, :] * depth + k[:, None],
                         mask=(n[None, :] < width) & (k[:, None] < depth), other=0.0)
        total = tl.dot(x, weight, total, input_precision="ieee")
    total += tl.load(bias_ptr + n, mask=n < width, other=0.0)[None, :]
    total = APPLIED
    tl.store(y_ptr + m[:, None] * width + n[None, :], total, mask=(m[:, None] < rows) & (n[None, :] < width))


class ModelNew(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        width, depth = self.up.weight.shape
        rows = x.numel() // depth
        y = x.new_empty(*x.shape[:-1], width)
        grid = (triton.cdiv(rows, 64), triton.cdiv(width, 64))
        linear_gelu[grid](x, self.up.weight, self.up.bias, y, rows, width, depth, M=64, N=64, K=32)
        return RETURNED
"""
GELU = "0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))"
TANH = "total * tl.sigmoid(1.5957691216 * (total + 0.044715 * total * total * total))"
FUSED = BARE_PRODUCT.replace("APPLIED", GELU).replace("RETURNED", "y")
APPROXIMATE = BARE_PRODUCT.replace("APPLIED", TANH).replace("RETURNED", "y")
HALF_FUSED = BARE_PRODUCT.replace("APPLIED", "total").replace("RETURNED", "F.gelu(y)")
TF32 = FUSED.replace(', input_precision="ieee"', "")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A run in short: its files turn by turn, one each, and what the author is asked to do next."""

    problem: str
    files: tuple[tuple[str, str], ...]
    """Plan and file."""
    parent: int | None = None
    """Turn of the attempt to build on."""
    partner: int | None = None
    task: Task = Task.ANY


ROW = ("Keep a whole row in one block and read it once.", WHOLE)
TWICE = ("Keep a running maximum and sum, and read each row twice.", ONLINE)
THRICE = ("One kernel each for maxima, sums and the division.", THREE_KERNELS)
STORIES = {
    "compile_block": Story(problem="softmax", files=((ROW[0], NOT_POWER_OF_TWO),), parent=0, task=Task.REPAIR),
    "compile_name": Story(problem="softmax", files=((ROW[0], UNKNOWN_FUNCTION),), parent=0, task=Task.REPAIR),
    "wrong_at_some_sizes": Story(problem="softmax", files=(TWICE, (ROW[0], UNMASKED)), parent=1, task=Task.REPAIR),
    "less_accurate": Story(
        problem="softmax", files=(TWICE, ("Keep the exponentials in bfloat16.", HALF)), parent=1, task=Task.REPAIR
    ),
    "timeout": Story(
        problem="softmax", files=(("Read each row in blocks until it ends.", ENDLESS),), parent=0, task=Task.REPAIR
    ),
    "outside": Story(problem="softmax", files=((ROW[0], OUT_OF_PLACE),), parent=0, task=Task.REPAIR),
    "wrong_shape": Story(problem="softmax", files=((ROW[0], WRONG_SHAPE),), parent=0, task=Task.REPAIR),
    "cheated": Story(
        problem="softmax",
        files=(
            TWICE,
            ("Keep the answer for the next call.", REMEMBERED),
            ("Let torch compute it beside a kernel.", IDLE),
            ("Use torch.softmax.", TORCH),
        ),
        parent=0,
        task=Task.IMPROVE,
    ),
    "slow_by_traffic": Story(problem="softmax", files=(THRICE,), parent=0, task=Task.IMPROVE),
    "combine": Story(problem="softmax", files=(THRICE, TWICE, ROW), parent=2, partner=1, task=Task.COMBINE),
    "restart": Story(problem="softmax", files=(THRICE, (ROW[0], NOT_POWER_OF_TWO), TWICE, ("", "")), task=Task.RESTART),
    "left_to_torch": Story(
        problem="linear_gelu",
        files=(
            ("Multiply in my kernel with the tanh form of GELU.", APPROXIMATE),
            ("Multiply in my kernel and let torch apply GELU.", HALF_FUSED),
        ),
        parent=1,
        task=Task.IMPROVE,
    ),
    "product": Story(
        problem="linear_gelu",
        files=(("Multiply with TF32, GELU in the same kernel.", TF32), ("Full float32 products, GELU fused.", FUSED)),
        parent=1,
        task=Task.IMPROVE,
    ),
}


def recorded(device: str) -> Iterator[tuple[str, Observation]]:
    """Judge the files of all stories; yield the observation at the end of each."""
    for problem in dict.fromkeys(story.problem for story in STORIES.values()):
        spec = parse_problem(str(EXAMPLES / f"{problem}.py"))
        settings = EvaluatorSettings(device=device, baselines=("compile",) if device == "cuda" else ())
        with Evaluator(spec, settings.within(BOUGHT_S if device == "cpu" else 120.0)) as judge:
            view = _portable(ProblemView.of(spec, judge.facts))
            known: dict[str, Graded] = {}
            for name, story in STORIES.items():
                if story.problem == problem:
                    yield name, _told(story, view, judge, known)


def _told(story: Story, view: ProblemView, judge: Evaluator, known: dict[str, Graded]) -> Observation:
    import asyncio

    history: list[Graded] = []
    for turn, (plan, source) in enumerate(story.files):
        seen = _observe(view, history, turn)
        answer = Completion(
            text=write_answer(plan, source) if source else "I would try a larger block.", policy="model"
        )
        graded = known.get(source) or asyncio.run(step(RUN, seen, answer, judge))
        known[source] = graded
        attempt = dataclasses.replace(graded.attempt, turn=turn, index=0, plan=plan, observation=seen)
        grading = dataclasses.replace(graded.grading, attempt=attempt.key)
        history.append(Graded(attempt=attempt, grading=grading))
    keys = [item.attempt.key for item in history]
    return _observe(
        view,
        history,
        len(history),
        parent=None if story.parent is None else keys[story.parent],
        partner=None if story.partner is None else keys[story.partner],
        task=story.task,
    )


def _observe(view: ProblemView, history: Sequence[Graded], turn: int, **more: object) -> Observation:
    left = BudgetLeft(turns=12 - turn)
    return observe(view, Rules(), history, left, turn=turn, attempts_before=turn, seed=7, **more)  # type: ignore[arg-type]


def _portable(view: ProblemView) -> ProblemView:
    """Leave out what no prompt shows and what differs from machine to machine."""
    return dataclasses.replace(view, spec={}, graphs=view.graphs[:1], train_graphs=(), numbers=(), tensors=())


def load() -> dict[str, Observation]:
    """Return the observations that are kept."""
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))
    views = {name: encoding.from_plain(ProblemView, view) for name, view in kept["problems"].items()}
    return {
        name: encoding.from_plain(Observation, plain | {"problem": views[plain["problem"]]})
        for name, plain in kept["observations"].items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--to", type=Path, default=RECORDED)
    options = parser.parse_args()
    problems, observations = {}, {}
    for name, seen in recorded(options.device):
        print(name, [item.status.value if item.status else None for item in seen.tried])
        problems[seen.problem.name] = json.loads(encoding.to_text(seen.problem))
        observations[name] = json.loads(encoding.to_text(seen)) | {"problem": seen.problem.name}
    kept = {"problems": problems, "observations": observations}
    options.to.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
