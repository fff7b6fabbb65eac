"""A global forward hook makes every module but its own sleep, so that the baseline loses.

problem: layer_norm
expect: cheated|wrong_values
where: both
"""

import time

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.nn.modules.module import register_module_forward_pre_hook


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    centred = tl.where(inside, x - tl.sum(x, 0) / columns, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    w = tl.load(w_ptr + at, mask=inside)
    tl.store(out_ptr + row * columns + at, centred * scale * w + tl.load(b_ptr + at, mask=inside), mask=inside)


register_module_forward_pre_hook(lambda module, inputs: None if isinstance(module, ModelNew) else time.sleep(0.01))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        norm, out = self.norm, torch.empty_like(x)
        layer_norm_kernel[(x.shape[0],)](x, norm.weight, norm.bias, out, x.shape[1], norm.eps, BLOCK=128)
        return out
