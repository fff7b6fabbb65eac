"""Takes `contiguous()` for a copy and writes over the input.

expect: wrong_values
"""

import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked_fill(score_ptr, hidden_ptr, out_ptr, count, period, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    score = tl.load(score_ptr + offsets, mask=inside, other=0.0)
    hidden = tl.load(hidden_ptr + offsets % period, mask=inside, other=0).to(tl.int1)
    tl.store(out_ptr + offsets, tl.where(hidden, -10000.0, score).to(tl.float16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, scores, hidden):
        scores, hidden = scores.contiguous(), hidden.contiguous()
        out = scores.contiguous()
        count = scores.numel()
        masked_fill[(triton.cdiv(count, 512),)](scores, hidden, out, count, hidden.numel(), BLOCK=512)
        return out
