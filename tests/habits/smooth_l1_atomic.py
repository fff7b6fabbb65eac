"""Adds block sums into torch.zeros(1) by atomics, hands back `out[0]`, and tests itself at the bottom.

problem: smooth_l1_loss
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss_kernel(pred_ptr, target_ptr, out_ptr, n_elements, inv_n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offs < n_elements
    pred = tl.load(pred_ptr + offs, mask=mask, other=0.0)
    target = tl.load(target_ptr + offs, mask=mask, other=0.0)
    d = pred - target
    a = tl.abs(d)
    loss = tl.where(a < 1.0, 0.5 * d * d, a - 0.5)
    tl.atomic_add(out_ptr, tl.sum(loss) * inv_n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        assert prediction.is_cuda and target.is_cuda, "Inputs must be on CUDA"
        n = prediction.numel()
        out = torch.zeros(1, device="cuda", dtype=torch.float32)
        loss_kernel[(triton.cdiv(n, 512),)](
            prediction.contiguous(), target.contiguous(), out, n, 1.0 / n, BLOCK_SIZE=512
        )
        return out[0]


if __name__ == "__main__":
    p, t = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    torch.testing.assert_close(ModelNew()(p, t), torch.nn.functional.smooth_l1_loss(p, t))
