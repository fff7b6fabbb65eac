"""Zygotes of one card: every process forked from them sees that card and no other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.zygotes import Nursery, Zygote
from triton_agent.tools.sandbox import inheritance
from triton_agent.tools.settings import EvaluatorSettings

CARD = "GPU-a0000000-0000-0000-0000-000000000000"
SETTINGS = EvaluatorSettings(target=None, shapes="given", remedies=False, modes=("eval",))

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x + x

def get_inputs():
    return [torch.randn(8)]
"""


@pytest.fixture(scope="module")
def of_the_card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
        with Nursery(str(tmp_path_factory.mktemp("card") / "log"), CARD) as nursery:
            yield nursery


def visible_to(zygote: Zygote) -> list[str]:
    with open(f"/proc/{zygote.origin.pid}/environ") as text:
        return [item.partition("=")[2] for item in text.read().split("\0") if item.startswith("CUDA_VISIBLE_DEVICES=")]


def test_workers_see_the_card_alone(of_the_card: Nursery) -> None:
    """Workers are forked by the zygote of their mode, and keep only those of its variables that a candidate may see."""
    assert visible_to(of_the_card.mode("interpreter", "cuda:90")) == [CARD]
    kept = inheritance.scrubbed_environment("/nowhere", {"CUDA_VISIBLE_DEVICES": CARD, "OTHER": "1"})
    assert kept["CUDA_VISIBLE_DEVICES"] == CARD and "OTHER" not in kept


def test_the_checker_sees_the_card_alone(of_the_card: Nursery, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(
        PROBLEM.replace(
            "return [", 'import os\n    raise RuntimeError(os.environ["CUDA_VISIBLE_DEVICES"])\n    return ['
        )
    )
    with pytest.raises(ProblemError, match=CARD):
        Evaluator(parse_problem(str(tmp_path / "problem.py")), SETTINGS, nursery=of_the_card)


def test_zygotes_are_started_with_the_card_alone(of_the_card: Nursery) -> None:
    assert visible_to(of_the_card.base) == [CARD]


def test_an_evaluator_of_one_card_refuses_the_nursery_of_another(of_the_card: Nursery, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    other = dataclasses.replace(SETTINGS, device="cuda", card="GPU-another")
    with pytest.raises(ValueError, match=f"see {CARD}, and not GPU-another alone"):
        Evaluator(parse_problem(str(tmp_path / "problem.py")), other, nursery=of_the_card)


def test_a_card_without_cuda_is_refused() -> None:
    with pytest.raises(ValueError, match="a card is for cuda"):
        EvaluatorSettings(device="cpu", card=CARD)
