"""A method under torch.jit.ignore, as code that may be scripted has it, and windows summed along an axis of the block.

problem: average_pooled
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def window_mean_kernel(x_ptr, y_ptr, L, LO, K, STRIDE, BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr):
    row = tl.program_id(0)
    o = tl.program_id(1) * BLOCK_O + tl.arange(0, BLOCK_O)
    k = tl.arange(0, BLOCK_K)
    x = tl.load(
        x_ptr + row * L + o[:, None] * STRIDE + k[None, :], mask=(o[:, None] < LO) & (k[None, :] < K), other=0.0
    )
    tl.store(y_ptr + row * LO + o, tl.sum(x, axis=1) / K, mask=o < LO)


class ModelNew(nn.Module):
    def __init__(self, kernel_size: int, stride: int):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride

    @torch.jit.ignore
    def _launch(self, x: torch.Tensor, y: torch.Tensor) -> None:
        rows, L = x.shape
        LO = y.shape[-1]
        window_mean_kernel[(rows, triton.cdiv(LO, 32))](
            x, y, L, LO, self.kernel_size, self.stride, BLOCK_O=32, BLOCK_K=triton.next_power_of_2(self.kernel_size)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, C, L = x.shape
        y = torch.empty(B, C, (L - self.kernel_size) // self.stride + 1, dtype=x.dtype, device=x.device)
        self._launch(x.reshape(B * C, L).contiguous(), y)
        return y
