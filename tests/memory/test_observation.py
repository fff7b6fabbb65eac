"""The problem as an author is shown it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from unittest.mock import Mock

from triton_agent.memory.observation import ProblemView, Role, Tried
from triton_agent.memory.sql.encoding import from_text, to_text
from triton_agent.tools.kernel_profile import Bottleneck, KernelTime, Profile, Roofline
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.race.ceilings import Rates

PROBLEM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x): return x

def get_inputs(): return [torch.rand(2)]
"""


def test_a_byte_order_mark_is_no_part_of_the_source(tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM, encoding="utf-8-sig")
    view = ProblemView.of(parse_problem(str(path)), Mock(gpu="", scaled="", notes=()))
    assert ast.parse(view.source).body


def test_a_profile_with_its_bottlenecks_comes_back_from_the_store_and_older_ones_are_read() -> None:
    launches = Bottleneck(name="launches", lost_ms=0.2, words="9 launches a call")
    own = KernelTime(kernel="k", launches=1, device_ms=1.0, share=1.0, own=True, argument_bytes=64, programs=8)
    profile = Profile(device_ms=1.0, own_share=1.0, kernels=(own,), bottlenecks=(launches,))
    assert from_text(Profile, to_text(profile)) == profile

    older = json.loads(to_text(profile))
    del older["bottlenecks"], older["kernels"][0]["argument_bytes"], older["kernels"][0]["programs"]
    older["counters"] = {}
    read = from_text(Profile, json.dumps(older))
    assert read.bottlenecks == () and read.kernels[0].argument_bytes is None and read.kernels[0].device_ms == 1.0

    roofline = from_text(Roofline, '{"floor_ms": 0.5, "bound": "memory", "flops_per_byte": 2.0}')
    assert roofline.copy_bytes_per_s == 0.0 and roofline.flops_per_s == {}


def test_rates_and_baselines_come_back_from_the_store() -> None:
    view = ProblemView(
        digest="p",
        name="n",
        spec={},
        source="",
        fingerprint="",
        rates=Rates(copy_bytes_per_s=4e12, flops_per_s={"bf16": 7e14}),
        torch="2.11.0",
        triton="3.6.0",
    )
    assert from_text(ProblemView, to_text(view)) == view
    tried = Tried(attempt="r/0.0", turn=0, role=Role.TRIED, status=None, baselines_ms={"eager": 1.5, "compile": 1.25})
    assert from_text(Tried, to_text(tried)) == tried
