"""A shipped file gives the reference's results however it is used, and its kernels run only where they may."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runs import shipped_samples as samples

from triton_agent.runs.ship.artefact import ship
from triton_agent.runs.ship.facts import Gpu
from triton_agent.tools.processes.zygotes import Nursery

SCRIPT = Path(__file__).with_name("shipped_usages.py")
FOLDER = "layer_norm_f16"
VERIFIED = frozenset({"always", "verified"})

USES: dict[str, frozenset[str]] = {
    "plain call": VERIFIED,
    "two calls": VERIFIED,
    "arguments by name": VERIFIED,
    "inference mode": VERIFIED,
    "gradients to parameters": frozenset(),
    "gradients to inputs": frozenset(),
    "autocast": frozenset(),
    "vmap": frozenset(),
    "functional call under vmap": frozenset(),
    "torch.func.grad": frozenset(),
    "other shape": frozenset(),
    "not contiguous": frozenset(),
    "no elements": frozenset(),
    "other dtype": frozenset(),
    "tensor subclass": frozenset(),
    "parameters as inputs": frozenset(),
    "meta tensors": frozenset(),
    "deterministic algorithms": VERIFIED,
    "eval mode": VERIFIED,
    "memory that is not aligned": frozenset(),
    "captured in a CUDA graph": VERIFIED,
    "on a side stream": VERIFIED,
    "torch.compile": VERIFIED,
    "torch.compile, new weights": VERIFIED,
    "torch.compile, gradients": frozenset(),
    "torch.compile, inductor": VERIFIED,
    "torch.compile, not aligned": VERIFIED,
    "torch.compile, hook on a part": frozenset(),
    "torch.compile, other shapes": frozenset(),
    "torch.export": frozenset(),
    "torch.export, any size": frozenset(),
    "torch.compile, sizes marked as dynamic": frozenset(),
    "torch.compile, hook on all modules": frozenset(),
    "make_fx": frozenset(),
    "torch.func.functionalize": frozenset(),
    "operators counted": frozenset(),
    "another default dtype": frozenset(),
    "torch.jit.trace": frozenset(),
    "torch.fx": frozenset(),
    "deepcopy": VERIFIED,
    "pickle": VERIFIED,
    "torch.save": VERIFIED,
    "load_state_dict": VERIFIED,
    "load_state_dict, assigned": VERIFIED,
    "weights written in place": VERIFIED,
    "optimizer step": VERIFIED,
    "to another dtype and back": VERIFIED,
    "memory of a parameter turned": VERIFIED,
    "memory of a parameter read otherwise": VERIFIED,
    "replaced parameter": VERIFIED,
    "forward hook on the model": VERIFIED,
    "backward hook on the model": frozenset(),
    "forward hook on a part": frozenset(),
    "hook on a part, removed": VERIFIED,
    "hook on all modules": frozenset(),
    "hook on a part after a call": VERIFIED,
    "part in another mode after a call": VERIFIED,
    "parameter added to a part": VERIFIED,
    "shallow copy": VERIFIED,
    "attribute of a part changed": VERIFIED,
    "forward of a part replaced": frozenset(),
    "part replaced": VERIFIED,
    "part in another mode": frozenset(),
    "parametrized part": frozenset(),
    "subclass of the model": frozenset(),
    "DistributedDataParallel": VERIFIED,
}
"""Every use, and in which settings of the switch its calls may run the kernels. Where they may not, the answer is the
reference's to the last bit."""
BEFORE_THE_CHANGE = frozenset(
    {
        *("attribute of a part changed", "part replaced", "hook on a part after a call", "parameter added to a part"),
        *("part in another mode after a call", "memory of a parameter turned"),
    }
)
"""Uses whose first call may run the kernels, while the later call that is compared may not."""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Path:
    spec, source = samples.problem(FOLDER), samples.kernel(FOLDER, "right_block.py")
    facts = samples.facts(spec, samples.judged(spec, source, nursery), gpu=Gpu(name="NVIDIA H200", capability=(9, 0)))
    path = tmp_path_factory.mktemp("shipped") / "layer_norm_optimized.py"
    path.write_text(ship(spec, samples.plans(spec, source, nursery), facts, draft=False))
    return path


SETTINGS = ["always", "never", "verified", *(["always cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(scope="module", params=SETTINGS)
def used(request: pytest.FixtureRequest, shipped: Path) -> tuple[str, dict[str, Any]]:
    problem = samples.KERNELS / FOLDER / "problem.py"
    mode, _, device = request.param.partition(" ")
    surroundings = {**os.environ, "TRITON_INTERPRET": "0" if device else "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(shipped), str(problem), mode, device or "cpu"],
        env=surroundings,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return mode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", USES)
def test_every_use_gives_what_the_original_gives(used: tuple[str, dict[str, Any]], name: str) -> None:
    mode, report = used
    seen = report[name]
    assert "raised" not in seen, seen
    may = mode in USES[name]
    assert (seen["kernel_calls"] > 0) == may
    assert seen["close"] if may and name not in BEFORE_THE_CHANGE else seen["same"], seen


@pytest.mark.slow
def test_the_table_has_every_use(used: tuple[str, dict[str, Any]]) -> None:
    assert used[1].keys() == USES.keys()
