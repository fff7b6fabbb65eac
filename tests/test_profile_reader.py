"""The policy of `benchmarks/profile_reader.py` repairs what the rendered prompt names, and nothing else."""

from __future__ import annotations

import asyncio
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
