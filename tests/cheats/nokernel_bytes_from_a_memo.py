"""copy.deepcopy leaves the memory of what it copied in its memo, as a storage that hands out bytes. Python computes with
them, and a kernel copies.

problem: relu
expect: not_triton|cheated|timeout|runtime_error
where: both
"""

import copy

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


class ModelNew(nn.Module):
    def forward(self, x):
        memo = {}
        copy.deepcopy(x.contiguous(), memo)
        storage = list(memo["torch"].values())[0]
        data = storage.tolist()
        for i in range(0, len(data), 4):
            if data[i + 3] >= 128:
                data[i : i + 4] = [0] * 4
        made = torch.tensor(data, dtype=torch.uint8, device=x.device).view(torch.float32).view(x.shape)
        return triton_copy(made)
