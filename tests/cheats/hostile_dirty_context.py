"""Does an illegal access on purpose and catches the error, to leave a broken CUDA context to whoever comes next.

problem: relu
expect: runtime_error|cheated
where: gpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def wild_kernel(out_ptr):
    tl.store(out_ptr + (1 << 42), 1.0)


class ModelNew(nn.Module):
    def forward(self, x):
        try:
            wild_kernel[(1,)](x)
            torch.cuda.synchronize()
        except Exception:
            pass
        return torch.relu(x)
