"""The norm runs under torch.utils.checkpoint, as in training code.

problem: layer_normed
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.checkpoint import checkpoint


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < N
    x = tl.load(x_ptr + row * N + c, mask=mask, other=0.0)
    mean = tl.sum(x, 0) / N
    centred = tl.where(mask, x - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / N + eps)
    w = tl.load(w_ptr + c, mask=mask)
    b = tl.load(b_ptr + c, mask=mask)
    tl.store(y_ptr + row * N + c, centred * scale * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.norm = nn.LayerNorm(features, eps=eps)

    def _norm(self, x):
        flat = x.reshape(-1, x.shape[-1]).contiguous()
        y = torch.empty_like(flat)
        N = flat.shape[1]
        norm_kernel[(flat.shape[0],)](
            flat, self.norm.weight, self.norm.bias, y, N, self.norm.eps, BLOCK=triton.next_power_of_2(N)
        )
        return y.view(x.shape)

    def forward(self, x):
        return checkpoint(self._norm, x, use_reentrant=False)
