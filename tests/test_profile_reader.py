"""The policy of `benchmarks/profile_reader.py` repairs what the rendered prompt names, and nothing else."""

from __future__ import annotations

import asyncio
import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import profile_reader

from tests.policy.llm.prompting import shown
from triton_agent.memory.observation import Role
from triton_agent.policy.answer import read_answer

WITHOUT = "import torch\nimport triton\nimport triton.language as tl\n\n\nclass ModelNew(torch.nn.Module):\n    pass"


def answer_to(defect: str, *notes: str) -> str:
    faulty = profile_reader.with_defect(WITHOUT, defect)
    diagnosis: Any = shown.diagnosis(notes=notes)
    seen = shown.observation(shown.passed("0.0", 0.9, Role.PARENT, source=faulty, diagnosis=diagnosis))
    (answer,) = asyncio.run(profile_reader.ProfileReader().propose(seen))
    return read_answer(answer.text).source or ""


@pytest.mark.parametrize("defect", profile_reader.DEFECTS)
def test_the_defect_that_the_prompt_names_is_removed(defect: str) -> None:
    told = f"bottleneck: {defect}, costs up to 0.03 ms of 0.08 ms: evidence"
    assert answer_to(defect, "memory-bound: the floor is near", told).strip() == WITHOUT


@pytest.mark.parametrize("notes", [(), ("bottleneck: bandwidth, costs up to 0.03 ms of 0.08 ms: evidence",)])
def test_without_the_right_profile_the_defect_stays(notes: tuple[str, ...]) -> None:
    assert profile_reader.defect_of(answer_to("parallelism", *notes)) == "parallelism"


def test_each_example_has_a_row_where_every_run_fails(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    script = Path(profile_reader.__file__)
    argv = [sys.executable, str(script), "--example", "softmax", "--example", "token_loss"]
    done = subprocess.run(
        [*argv, "--within", "0.01", "--out", str(out)], env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    rows = list(csv.DictReader(out.open(encoding="utf-8")))
    assert {(row["example"], row["improved"]) for row in rows} == {("softmax", "no"), ("token_loss", "no")}
    assert all("not done within" in row["said"] for row in rows)
