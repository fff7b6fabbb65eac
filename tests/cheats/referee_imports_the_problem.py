"""Looks for the problem's file on disk, imports it and runs the reference.

problem: softmax
expect: cheated|not_triton|runtime_error
where: both
"""

import importlib.util
import pathlib

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


def load_reference():
    for folder in (pathlib.Path.cwd(), *pathlib.Path(__file__).resolve().parents):
        for path in (folder / "softmax.py", folder / "problem.py", folder / "problems" / "softmax.py"):
            if path.exists():
                spec = importlib.util.spec_from_file_location("stolen", path)
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module.Model()
    raise LookupError("no problem file in reach")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.reference = (load_reference(),)

    def forward(self, x):
        return triton_copy(self.reference[0](x))
