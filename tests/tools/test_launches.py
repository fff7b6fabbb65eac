"""What is told of the kernels that a candidate launched, where a stand-in for the driver loads and launches nothing.

Mostly in processes of their own: there is no way back from a stand-in driver, nor from the hooks around launches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from triton_agent.tools.isolate import watch
from triton_agent.tools.isolate.launches import Owners

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

@triton.jit
def copy(x_ptr, y_ptr, n):
    at = tl.program_id(0)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)
"""

SCRIPT = """
import json
import torch
from triton_agent.tools.emulate import aot
aot.install("cuda:90")
from triton_agent.tools.emulate.cuda_stand_in import CudaStandIn
from triton_agent.tools.isolate.launches import GpuLaunches
import kernel
from kernel import copy, double
launches = GpuLaunches(kernel.__file__)
with CudaStandIn("cuda:90"):
    x = torch.randn(1000)
    double[(4,)](x, torch.empty_like(x), 1000, BLOCK=256)
    copy[(1000,)](x, torch.empty_like(x), 1000)
print(json.dumps(launches.resources()))
"""


def test_every_loaded_kernel_tells_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
        "TRITON_CACHE_DIR": str(tmp_path / "cache"),
    }
    argv = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [(kernel["kernel"], kernel["constants"]) for kernel in told] == [("double", "BLOCK=256"), ("copy", "")]
    assert all(4 <= kernel["registers"] <= 255 and kernel["spill_bytes"] == 0 for kernel in told)
    assert all(kernel["target"] == "cuda:90" and kernel["num_warps"] == 4 for kernel in told)


GRAPHS = """
import json
import torch
from triton_agent.tools.emulate import aot
aot.install("cuda:90")

class Base:
    def capture_begin(self, pool=None):
        self.replays = 0
    def capture_end(self):
        pass
    def replay(self):
        self.replays += 1

class Graph(Base):
    def capture_begin(self, pool=None):
        super().capture_begin(pool)
    def replay(self):
        super().replay()

torch.cuda.CUDAGraph = Graph
from triton_agent.tools.emulate.cuda_stand_in import CudaStandIn
from triton_agent.tools.isolate.launches import GpuLaunches
launches = GpuLaunches("")
graph, x = Graph(), torch.randn(8, 8)
graph.capture_begin()
fresh = torch.empty(8)
y = x @ x
graph.capture_end()
torch.relu(x)
told = []
for replay in (lambda: None, graph.replay, lambda: super(Graph, graph).replay(), lambda: Base.replay(graph)):
    with CudaStandIn("cuda:90"):
        launches.begin(silenced=False)
    replay()
    told.append([sorted(seen) for seen in launches.captured_operators()])
print(json.dumps({"told": told, "replays": graph.replays}))
"""


def test_what_a_graph_captured_counts_whenever_it_is_replayed() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    argv = [sys.executable, "-c", GRAPHS]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    captured = [["aten.empty", "aten.mm"]]
    assert json.loads(done.stdout) == {"told": [[], captured, captured, captured], "replays": 3}


def defined_in(file: str, text: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(text, file, "exec"), space)
    return space["function"]


def test_whose_a_kernel_is_its_file_tells() -> None:
    owners = Owners("candidate.py")
    own, other = (defined_in(file, "def function(): pass") for file in ("candidate.py", "torch/kernels.py"))
    assert owners.is_own(own) and not owners.is_own(other)


def test_a_kernel_of_torch_counts_where_the_candidate_calls_it_and_not_where_an_operator_does() -> None:
    owners = Owners("candidate.py")
    calling = "def function(called): called()"
    candidate, operator = defined_in("candidate.py", calling), defined_in(str(watch.__file__), calling)
    candidate(lambda: operator(lambda: owners.note_other("of an operator")))
    assert not owners.others
    candidate(lambda: owners.note_other("of torch"))
    operator(lambda: candidate(lambda: owners.note_other("in an operator of the candidate's own")))
    assert list(owners.others) == ["of torch", "in an operator of the candidate's own"]
