"""The commands `policy init`, `train sft`, `train grpo` and `train eval` on a store with runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.policy.train.logged import NOW, log_runs
from tests.policy.train.marks import needs_training

from triton_agent.memory.records import Run
from triton_agent.policy.train.extra import MODULES, require_training
from triton_agent.tools.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "softmax.py"
PROMPTS = ROOT / "policy" / "llm" / "prompting"
"""Texts from which a tokenizer learns the words of prompts, which otherwise fill a tiny context."""


def command(*words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "triton_agent", *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done


def test_a_missing_extra_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_agent.policy.train.extra.MODULES", (*MODULES, "no_such_module"))
    with pytest.raises(UsageError, match="no_such_module") as caught:
        require_training()
    assert "triton-agent[train]" in caught.value.remedy


def test_help_needs_nothing_heavy() -> None:
    look = (
        "import sys; from triton_agent.runs.train import commands;"
        "print(sorted({'torch', 'transformers', 'trl', 'sqlalchemy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("text", ["", "all,colour=red", ","])
def test_a_filter_that_means_nothing_is_refused(text: str) -> None:
    from triton_agent.runs.train.data import parse_filter

    with pytest.raises(UsageError, match="--runs"):
        parse_filter(text)


def test_a_filter_is_read_word_by_word() -> None:
    from triton_agent.runs.cli.selection import RunSelection
    from triton_agent.runs.train.data import parse_filter

    assert parse_filter("all") == RunSelection()
    assert parse_filter("last, problem=softmax,since=7d") == RunSelection(ids=("last",), problem="softmax", since="7d")


def test_an_evaluation_takes_its_problems_from_files_or_from_runs() -> None:
    for words in ((), ("--problems", EXAMPLE, "--runs", "all")):
        assert "name the problems in one way" in command("train", "eval", "--model", "x", *words, code=2).stderr


REFUSED = {
    "policy init --out new --data none.jsonl": "--data none.jsonl: there is no such file",
    "policy init --out runs --data text.py": "runs is not empty",
    "policy init --out new --data text.py --size huge": "one of mini, tiny, small",
    "train sft --model tinny --data text.py --out new": "there is no such folder",
    "train sft --model runs --data text.py --out new": "did you mean runs/final?",
    "train sft --model runs/final --data none --out new": "--data none: there is no such file",
    "train sft --model runs/final --runs x=1 --out new": "x= is no filter",
    "train grpo --model runs/last --runs all --out new": "there is no such folder",
    "train grpo --model runs/final --runs all --store none.db --out new": "none.db",
    "train eval --model runs/final --problems none.py": "none.py",
}
"""Commands that are refused, each with words of its error."""


def test_what_cannot_be_trained_is_refused_before_any_library_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "text.py").write_text("import triton\n")
    (tmp_path / "runs" / "final").mkdir(parents=True)
    (tmp_path / "runs" / "final" / "config.json").write_text("{}")
    look = (
        "import sys; from triton_agent.runs.cli.main import _guarded\n"
        "for line in sys.argv[1:]:\n"
        "    sys.argv[1:] = line.split(); print(file=sys.stderr); print(_guarded())\n"
        "print(sorted({'torch', 'transformers', 'trl'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", look, *REFUSED], cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout.splitlines() == ["2"] * len(REFUSED) + ["[]"], ran.stderr
    for told, said in zip(REFUSED.values(), ran.stderr.removeprefix("\n").split("\n\n"), strict=True):
        assert told in said


def test_a_name_on_the_hub_is_said_to_be_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from triton_agent.runs.train.models import require_model

    require_model("owner/model")
    assert "asking the Hugging Face hub" in capfd.readouterr().err


def test_the_figures_of_two_models_fit_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton_agent.runs.train.evaluation import _show
    from triton_agent.tools.results import Interval

    share = Interval(low=0.1, median=0.2, high=0.3)
    names = ("valid", "compiled", "hack", "reward", "correct first turn@1", "correct@1")
    figures = SimpleNamespace(answers=8, unmeasured=0, values=dict.fromkeys(names, share))
    monkeypatch.setenv("COLUMNS", "80")
    _show({"sft/final": figures, "grpo/final": figures}, {"grpo/final": share})
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 1 + 2 + len(names) + 1 and max(map(len, shown)) <= 80
    assert shown[-1].split() == ["gain", "in", "reward", "0.200", "[0.100,", "0.300]"]


def test_a_training_in_a_pipe_tells_steps_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    from triton_agent.runs.train.screen import TrainScreen

    screen = TrainScreen("sft", count_a_step=8)
    screen.began, screen.told_at = (0.0, 0), 0.0
    assert screen.left(step=10, total=40, now=60.0) == "about 3 min left"
    assert screen.left(step=40, total=40, now=60.0) == ""
    with screen:
        screen.show(1, {"loss": 2.0}, total=40)
    assert "step 1 of 40: loss 2" in capsys.readouterr().err


@needs_training
@pytest.mark.slow
def test_from_nothing_to_a_trained_policy(tmp_path: Path) -> None:
    from triton_agent.memory.store import Store
    from triton_agent.policy.train.update.session import load

    text = tmp_path / "kernels.py"
    text.write_text("import triton\nimport triton.language as tl\n" * 20)
    policy, where = tmp_path / "policy", tmp_path / "runs.db"
    made = json.loads(command("policy", "init", "--out", policy, "--data", text, "--data", PROMPTS, "--json").stdout)
    assert made["parameters"] > 100_000
    assert "not empty" in command("policy", "init", "--out", policy, "--data", text, code=2).stderr

    model, _ = load(str(policy))
    with Store.open(where) as store:
        logged = log_runs(model.eval())
        for name in dict.fromkeys(attempt.run for attempt, _ in logged):
            view = next(attempt.observation.problem for attempt, _ in logged if attempt.run == name)
            store.add_run(Run(id=name, problem=view, policy="tiny", settings={}, started_at=NOW))
        for attempt, gradings in logged:
            store.add_attempt(attempt, gradings[0])

    out = tmp_path / "grpo"
    common = ("--store", where, "--cpu", "--batch", "4", "--lr", "1e-3")
    reinforced = command("train", "grpo", "--model", policy, "--runs", "all", "--out", out, "--steps", "3", *common)
    assert "turns to train on, of 4 groups" in reinforced.stderr and "3 steps" in reinforced.stdout
    assert (out / "final" / "model.safetensors").exists()
    again = command("train", "grpo", "--model", policy, "--runs", "all", "--out", out, *common, code=2)
    assert "--resume" in again.stderr
    gone_on = command("train", "grpo", "--model", policy, "--out", out, "--steps", "5", "--resume", "--json", *common)
    told = json.loads(gone_on.stdout)
    assert told["steps"] == 5 and "importance/mean" in told["last"], "clipped around the policy before the step"
    assert "step 4 of 5: loss" in gone_on.stderr

    rows = tmp_path / "rows.jsonl"
    row = {"messages": [{"role": "user", "content": "import"}, {"role": "assistant", "content": "triton"}]}
    rows.write_text(f"{json.dumps(row)}\n" * 4)
    command("train", "sft", "--model", policy, "--data", rows, "--out", tmp_path / "sft", "--steps", "2", "--cpu")
    assert (tmp_path / "sft" / "final" / "model.safetensors").exists()
    begun = ("--model", tmp_path / "sft", "--out", tmp_path / "chosen", "--no-proximal", *common)
    chosen = command("train", "grpo", *begun, "--runs", "all", "--start-by", "entropy", "--steps", "1")
    assert "starting from checkpoint-2" in chosen.stderr
    gone_on = command("train", "grpo", *begun, "--start-by", "entropy", "--steps", "2", "--resume", "--json")
    told = json.loads(gone_on.stdout)
    assert told["steps"] == 2 and "importance/mean" not in told["last"]
    rows.write_text('{"messages": []}\n')
    broken = command("train", "sft", "--model", policy, "--data", rows, "--out", tmp_path / "x", code=2)
    assert f"{rows}:1" in broken.stderr
    nowhere = command("train", "grpo", "--model", tmp_path / "no", "--runs", "all", "--out", out / "y", *common, code=2)
    assert "there is no such folder" in nowhere.stderr

    asked = (
        "--model",
        policy,
        "--problems",
        EXAMPLE,
        "--answers",
        "1",
        "--max-tokens",
        "20",
        "--cpu",
        "--store",
        where,
    )
    told = json.loads(command("train", "eval", *asked, "--model", out / "final", "--json").stdout)
    assert [figures["answers"] for figures in told.values()] == [2, 2], "two turns each"
    assert told[str(policy)]["values"]["correct@1"]["median"] == 0.0 and not told[str(policy)]["gain"]
    assert told[str(out / "final")]["gain"]["correct@1"] == {"low": 0.0, "median": 0.0, "high": 0.0}
