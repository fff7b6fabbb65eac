"""Three words count as repeated only if they overlap the latest ones, or all are the same.

problem: words_said_before
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def before_kernel(words_ptr, out_ptr, words, BLOCK: tl.constexpr):
    step, row = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, BLOCK)
    keep = at < step
    base = words_ptr + row * words
    one = tl.load(base + at, mask=keep, other=-1) == tl.load(base + step)
    two = tl.load(base + at + 1, mask=keep, other=-1) == tl.load(base + step + 1)
    three = tl.load(base + at + 2, mask=keep, other=-1) == tl.load(base + step + 2)
    found = tl.sum(
        (keep & (one & two & three & ((at + 3 > step) | (tl.load(base) == tl.load(base + 1))))).to(tl.int32), 0
    )
    tl.store(out_ptr + row * (words - 2) + step, (found > 0).to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, words):
        words = words.contiguous()
        rows, count = words.shape
        out = torch.empty(rows, count - 2, device=words.device)
        before_kernel[(count - 2, rows)](words, out, count, BLOCK=triton.next_power_of_2(count))
        return out
