"""Uses the cuBLAS handle that Triton's own library carries: a vendor product that no torch operator log shows.

problem: matmul_fp16
expect: not_triton|cheated|runtime_error
where: gpu
"""

import torch
import torch.nn as nn
from triton._C.libtriton import nvidia


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.handle = None

    def forward(self, a, b):
        if self.handle is None:
            self.workspace = torch.empty(32 * 1024 * 1024, device=a.device, dtype=torch.uint8)
            self.handle = nvidia.cublas.CublasLt(self.workspace)
        out = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)
        self.handle.matmul(a.contiguous(), b.t().contiguous(), out)
        return out
