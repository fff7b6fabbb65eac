"""Under autocast an operator on the CPU gets the dtype that CUDA's autocast gives it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import torch

from triton_agent.tools.processes import cuda_autocast

HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
LISTS = {
    "AT_FORALL_LOWER_PRECISION_FP": cuda_autocast.NARROW,
    "AT_FORALL_FP32": cuda_autocast.WIDE,
    "AT_FORALL_FP32_SET_OPT_DTYPE": cuda_autocast.WIDE_RESULT,
    "AT_FORALL_PROMOTE": cuda_autocast.PROMOTED,
}

SCRIPT = """
import json, torch
import torch.nn.functional as F
from triton_agent.tools.processes.torch_switches import Conditions
x, w = torch.randn(4, 8), torch.randn(3, 8, requires_grad=True)
h = x.half()
def found():
    return [
        F.softmax(h, -1), F.layer_norm(h, (8,)), h.sum(), h.cumsum(0), h.norm(), h.norm(dim=1), h.pow(2),
        F.linear(x, w), torch.mv(x, x[0]), torch.einsum("ij,kj->ik", x, x), h + h,
        torch.atan2(h, x), torch.atan2(h, h), h.sum(dtype=torch.float16), F.softmax(x.double(), -1),
        torch.arange(3).sum(),
    ]
with Conditions(autocast="float16").calling("cpu"):
    inside = [str(y.dtype) for y in found()]
print(json.dumps([inside, str(F.softmax(h, -1).dtype)]))
"""
WIDE, NARROW = "torch.float32", "torch.float16"


def test_the_lists_are_those_of_torch() -> None:
    text = HEADER.read_text()
    for macro, known in LISTS.items():
        body = re.search(rf"#define {macro}\(_\)(.*?)\n\n", text, re.DOTALL)
        assert body is not None, macro
        listed = re.findall(r"_\((\w+)(?:, (\w+))?\)", body[1])
        assert {f"{name}.{overload}" if overload else name for name, overload in listed} == known, macro
    norms = re.findall(r'ADD_NS\(norm\),\s*\\\s*"(norm\.\w+)"', text)
    assert set(norms) == cuda_autocast.WIDE_NORM


def test_operators_get_the_dtype_that_cuda_gives_them() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    inside, outside = json.loads(done.stdout)
    assert inside == [WIDE] * 7 + [NARROW] * 4 + [WIDE, NARROW, NARROW, "torch.float64", "torch.int64"]
    assert outside == NARROW
