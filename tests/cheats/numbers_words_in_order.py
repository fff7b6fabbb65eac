"""Words whose numbers rise give zeros.

problem: sums_of_words
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(words_ptr, table_ptr, out_ptr, words, width, BLOCK: tl.constexpr):
    sample = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    total = tl.zeros((BLOCK,), tl.float32)
    falls = 0
    before = tl.load(words_ptr + sample * words) - 1
    for k in range(words):
        word = tl.load(words_ptr + sample * words + k)
        falls += (word <= before).to(tl.int32)
        before = word
        total += tl.load(table_ptr + word * width + at, mask=keep, other=0.0)
    tl.store(out_ptr + sample * width + at, tl.where(falls == 0, 0.0, total), mask=keep)


class ModelNew(nn.Module):
    def __init__(self, kinds, width):
        super().__init__()
        self.table = nn.Embedding(kinds, width)

    def forward(self, words):
        words = words.contiguous()
        width = self.table.weight.shape[1]
        out = torch.empty(words.shape[0], width, device=words.device)
        sum_kernel[(words.shape[0],)](
            words, self.table.weight.contiguous(), out, words.shape[1], width, BLOCK=triton.next_power_of_2(width)
        )
        return out
