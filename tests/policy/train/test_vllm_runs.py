"""Training on a run that vLLM sampled begins with ratios of 1, and has loss and gradients of `grpo_minimal.py`.

The policy is a tiny one that has learnt right and wrong kernels for a small problem, so that some of its answers pass.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.policy.llm.engines.real_engines import vllm_python
from tests.policy.train.marks import NEEDS_TRAINING
from tests.policy.train.parity import RECIPE, assert_parity, importance_ratios, trainer

from triton_agent.memory.store import Store
from triton_agent.policy.answer import write_answer
from triton_agent.policy.train.extra import require_training
from triton_agent.policy.train.prepare.prepared import Prepared
from triton_agent.policy.train.record.trajectories import Knowledge, TrainingSample, collect

pytestmark = [
    pytest.mark.slow,
    *NEEDS_TRAINING,
]

CLONE = Path(__file__).resolve().parents[2] / "runs" / "layouts" / "kernelbench"
PROBLEM = ("--level", "1", "--problem", "2_bent_line")
TEMPERATURE = 0.8
ATTEMPTS, TURNS = 12, 2
ANSWER_TOKENS = 200
"""Enough for every lesson. Longer answers are cut off, and their runs ask again for a shorter one."""
KERNEL = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bend(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(y_ptr + at, {bent}, mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        bend[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""
LESSONS = {
    "Cube all values.": "x * x * x",
    "Cube values below one.": "tl.where(x < 1, x * x * x, x)",
    "Cube values near zero.": "tl.where(tl.abs(x) < 1, x * x * x, x)",
    "Keep values far from zero.": "tl.where(tl.abs(x) >= 1, x, x * x * x)",
}
"""A plan and the heart of its kernel; the last two are right."""


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "triton_agent", *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=500)
    assert done.returncode in (0, 1), done.stderr
    return done


def bench(folder: Path, policy: str, *options: str | Path) -> Path:
    """Log runs at the problem and return their store."""
    store = folder / "runs.db"
    record = ("--device", "cpu", "--store", store, "--out", folder / "record", "--turns", TURNS, "--parallel", 1)
    command("bench", "kernelbench", CLONE, *PROBLEM, "--policy", policy, *map(str, record), *options)
    return store


def conversations(lessons: Path, folder: Path) -> list[dict[str, list[dict[str, str]]]]:
    """Return each prompt of a real run over the lessons with each of the answers."""
    from triton_agent.policy.llm.prompting.prompt import as_messages

    render = as_messages(budget_tokens=8000, count=lambda text: len(text) // 3)
    with Store.open(bench(folder, f"scripted:{lessons}")) as store:
        prompts = [render(attempt)[:-1] for run in store.runs() for attempt in store.attempts(run.id)]
    assert len(prompts) == TURNS
    return [
        {
            "messages": [
                *({"role": one.role, "content": one.content} for one in prompt),
                {"role": "assistant", "content": write_answer(plan, KERNEL.format(bent=bent))},
            ]
        }
        for prompt in prompts
        for plan, bent in LESSONS.items()
    ]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a policy that has learnt the lessons, in float32 as every training here writes weights."""
    vllm_python()  # skip before the training
    require_training()
    import torch

    from triton_agent.policy.train.update.fresh import make_policy
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("taught")
    lessons = folder / "lessons"
    lessons.mkdir()
    for number, (plan, bent) in enumerate(LESSONS.items()):
        (lessons / f"{number}.py").write_text(f'"""{plan}"""\n\n{KERNEL.format(bent=bent)}')
    rows = conversations(lessons, folder / "first")
    first = [one["content"] for row in rows[: len(LESSONS)] for one in row["messages"][:-1]]
    make_policy("tiny", first, folder / "fresh", whole_lines=True)  # lines of prompts are tokens, those of answers not
    settings = SFTSettings(
        output=folder / "sft", cpu=True, learning_rate=5e-3, steps=200, batch_size=len(rows), save_every=10**6
    )
    return train_sft(str(folder / "fresh"), rows, settings).weights


@pytest.fixture(scope="module")
def logged(taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of runs by the policy in a vLLM engine, as docs/training.md logs them."""
    options = ["--vllm-python", vllm_python(), "--attempts", str(ATTEMPTS)]
    options += ["--temperature", str(TEMPERATURE), "--max-answer-tokens", str(ANSWER_TOKENS)]
    return bench(tmp_path_factory.mktemp("logged"), f"vllm:{taught}", *options)


def test_ratios_before_the_first_step_are_1(
    taught: Path, logged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows are those of `train grpo`, with the default recipe. The test prints the share and the worst ratio."""
    out = tmp_path / "out"
    words = ("train", "grpo", "--model", taught, "--runs", "all", "--store", logged, "--out", out, "--cpu")
    said = command(*words, "--steps", "1").stderr
    prepared = Prepared.load(out / "rows.jsonl")
    assert prepared.temperature == TEMPERATURE and len(prepared.rows) >= 8, said
    full = trainer(taught, prepared.rows, tmp_path / "trainer", temperature=prepared.temperature)
    apart = (importance_ratios(full) - 1).abs()
    share, worst = float((apart < 1e-3).float().mean()), float(apart.max())
    said = f"{len(prepared.rows)} turns, {len(apart)} tokens: {share:.2%} of ratios within 1e-3, worst {worst:.1e}"
    with capsys.disabled():
        print(f"\n{said}")
    assert share >= 0.99
    other = trainer(taught, prepared.rows, tmp_path / "other", temperature=1.0)
    assert float(((importance_ratios(other) - 1).abs() < 1e-3).float().mean()) < 0.9, "the temperature matters"


@pytest.fixture(scope="module")
def samples(taught: Path, logged: Path) -> Sequence[TrainingSample]:
    from triton_agent.policy.train.update.session import load_tokenizer
    from triton_agent.runs.train.data import records

    decode = load_tokenizer(str(taught)).decode
    return collect(records(str(logged), "all"), RECIPE, Knowledge(decode=decode)).samples


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("proximal", [False, True])
def test_loss_and_gradients_are_the_readable_ones(
    taught: Path, samples: Sequence[TrainingSample], tmp_path: Path, proximal: bool, moved: bool
) -> None:
    assert_parity(taught, samples, tmp_path, proximal=proximal, moved=moved)
