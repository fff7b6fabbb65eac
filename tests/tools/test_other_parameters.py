"""A variant with one version of its parameters gets a call with others, for kernels that ask about these alone."""

from __future__ import annotations

from pathlib import Path

import torch

from triton_agent.tools.cases.plan import Trial
from triton_agent.tools.cases.trials import make_trial
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference.reference import load
from triton_agent.tools.settings import EvaluatorSettings


def trial_of(folder: Path, layer: str, forward: str, *, main: bool = False) -> Trial:
    path = folder / "problem.py"
    path.write_text(
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        {layer}\n"
        f"    def forward(self, x): return {forward}\ndef get_inputs(): return [torch.randn(8, 5)]\n"
    )
    settings = EvaluatorSettings(target=None, device="cpu", modes=("eval",))
    return make_trial(load(parse_problem(str(path))), "small", settings, [], main=main)[0]


def test_a_table_that_never_changes_in_a_variant_changes_in_a_further_call(tmp_path: Path) -> None:
    trial = trial_of(
        tmp_path, 'self.register_buffer("k", torch.arange(-2, 3).float())', "x * self.k / (self.k**2).sum()"
    )
    ((case, state),) = trial.with_other_parameters()
    before, after = trial.states[0].unpack()["k"], state.unpack()["k"]
    assert not torch.equal(before, after)
    (x,) = case.expectation.packed_inputs.unpack()
    assert torch.allclose(case.expectation.outputs[0].yard.original, x * after / (after**2).sum())
    assert trial.with_other_parameters() == ((case, state),), "it is made once"


def test_there_is_none_without_parameters_nor_for_the_main_variant(tmp_path: Path) -> None:
    assert trial_of(tmp_path, "pass", "x + 1").with_other_parameters() == ()
    assert trial_of(tmp_path, "self.layer = nn.Linear(5, 3)", "self.layer(x)", main=True).with_other_parameters() == ()
