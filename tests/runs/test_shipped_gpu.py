"""A shipped file on the GPU of its measurement: every use runs the kernels where it may, compiled graphs too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("a shipped file runs its kernels on a CUDA GPU", allow_module_level=True)

from tests.runs import shipped_samples as samples
from tests.runs.test_shipping_use import BEFORE_THE_CHANGE, FOLDER, SCRIPT, USES

from triton_agent.runs.ship.artefact import ship
from triton_agent.runs.ship.facts import Gpu
from triton_agent.runs.ship.verify import verify
from triton_agent.tools.processes.zygotes import Nursery

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

PROBLEM = samples.KERNELS / FOLDER / "problem.py"


def _shipped(folder: Path, nursery: Nursery, **more: Any) -> Path:
    spec, source = samples.problem(FOLDER), samples.kernel(FOLDER, "right_block.py")
    card = torch.cuda.get_device_properties(0)
    gpu = Gpu(name=card.name, capability=(card.major, card.minor))
    facts = samples.facts(spec, samples.judged(spec, source, nursery), gpu=gpu, **more)
    path = folder / "layer_norm_optimized.py"
    path.write_text(ship(spec, samples.plans(spec, source, nursery), facts, draft=False))
    return path


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Path:
    """A file that states a measurement on this GPU with these versions."""
    return _shipped(tmp_path_factory.mktemp("shipped"), nursery)


def used(shipped: Path, mode: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(shipped), str(PROBLEM), mode, "cuda"],
        env={**os.environ, "TRITON_INTERPRET": "0", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def report(shipped: Path) -> dict[str, Any]:
    return used(shipped, "measured")


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> dict[str, Any]:
    return used(_shipped(tmp_path_factory.mktemp("graphs"), nursery, cuda_graph=True), "replayed")


@pytest.mark.parametrize("name", USES)
def test_every_use_of_a_file_with_cuda_graphs(replayed: dict[str, Any], name: str) -> None:
    seen, may = replayed[name], "verified" in USES[name]
    assert "raised" not in seen, seen
    assert seen["close"] if may and name not in BEFORE_THE_CHANGE else seen["same"], seen
    assert (seen["replays"] > 0) == (may and not name.startswith("torch.compile"))


@pytest.mark.parametrize("name", USES)
def test_every_use_on_the_measured_gpu(report: dict[str, Any], name: str) -> None:
    seen, may = report[name], "verified" in USES[name]
    assert "raised" not in seen, seen
    assert (seen["kernel_calls"] > 0) == may
    assert seen["close"] if may and name not in BEFORE_THE_CHANGE else seen["same"], seen


def test_a_draft_is_measured_and_stamped(tmp_path: Path, nursery: Nursery) -> None:
    spec, source = samples.problem(FOLDER), samples.kernel(FOLDER, "right_block.py")
    path = tmp_path / "layer_norm_optimized.py"
    path.write_text(ship(spec, samples.plans(spec, source, nursery), samples.facts(spec), draft=True))
    found = verify(path, spec, device="cuda", card="", store=None, trust=True, say=lambda text: None)
    assert found.stamped, found.message
    card = torch.cuda.get_device_properties(0)
    assert f'("{card.name}", ({card.major}, {card.minor}), ' in path.read_text()
