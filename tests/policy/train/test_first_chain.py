"""The first chain of docs/training.md, typed as it stands there by someone with an empty folder and no GPU."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.policy.train.marks import needs_training

ROOT = Path(__file__).resolve().parents[3]


def commands() -> list[list[str]]:
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    section = page.partition("## A first chain on a CPU")[2].partition("\n## ")[0]
    lines = section.split("```")[1].replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line]


def test_the_page_leads_from_data_to_an_evaluation() -> None:
    words = [" ".join(command[:2]) for command in commands()]
    assert words == ["data make", "policy init", "train sft", "train eval", "train grpo", "train eval"]


@needs_training
@pytest.mark.slow
def test_the_chain_of_the_page_works_as_it_stands(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_AGENT_")}
    folders = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment = kept | folders | {"PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""}
    for command in commands():
        argv = [sys.executable, "-m", "triton_agent", *command]
        ran = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3600)
        assert ran.returncode == 0, f"{command}: {ran.stdout[-2000:]}\n{ran.stderr[-2000:]}"
        if command[:2] == ["train", "grpo"]:
            assert "turns to train on" in ran.stderr
    assert (tmp_path / "grpo" / "final" / "model.safetensors").exists()
    assert "sft/final" in ran.stdout and "grpo/final" in ran.stdout, "the table compares both"
