"""The mean is taken by programs that wait for a turn counter, the last of which adds up.

problem: smooth_l1_loss
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss_kernel(p_ptr, t_ptr, parts_ptr, turn_ptr, y_ptr, n, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(p_ptr + i, mask=i < n, other=0.0) - tl.load(t_ptr + i, mask=i < n, other=0.0)
    a = tl.abs(d)
    part = tl.sum(tl.where(a < 1.0, 0.5 * d * d, a - 0.5), axis=0)
    tl.store(parts_ptr + pid, part)
    tl.debug_barrier()
    done = tl.atomic_add(turn_ptr, 1, sem="acq_rel", scope="gpu")
    if done == tl.num_programs(0) - 1:
        k = tl.arange(0, PARTS)
        parts = tl.load(parts_ptr + k, mask=k < tl.num_programs(0), other=0.0, volatile=True)
        tl.store(y_ptr, tl.sum(parts, axis=0) / n)
        tl.atomic_xchg(turn_ptr, 0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = None

    def forward(self, prediction, target):
        n = prediction.numel()
        programs = triton.cdiv(n, 512)
        if self.turn is None or self.turn.device != prediction.device:
            self.turn = torch.zeros(1, dtype=torch.int32, device=prediction.device)
        parts = torch.empty(programs, device=prediction.device)
        y = torch.empty((), device=prediction.device, dtype=prediction.dtype)
        loss_kernel[(programs,)](
            prediction.contiguous(), target.contiguous(), parts, self.turn, y, n, BLOCK=512,
            PARTS=triton.next_power_of_2(programs),
        )  # fmt: skip
        return y
