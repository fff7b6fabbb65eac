"""The mean of a bag of nothing but padding is NaN instead of zero.

problem: bags_with_padding
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bag_kernel(words_ptr, table_ptr, out_ptr, length, width, padding, BLOCK: tl.constexpr):
    bag = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    count = 0.0
    for i in range(length):
        word = tl.load(words_ptr + bag * length + i)
        row = tl.load(table_ptr + word * width + at, mask=(at < width) & (word != padding), other=0.0)
        total += row
        count += tl.where(word == padding, 0.0, 1.0)
    tl.store(out_ptr + bag * width + at, total / count, mask=at < width)


class ModelNew(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.bag = nn.EmbeddingBag(words, width, mode="mean", padding_idx=words - 1)

    def forward(self, words):
        words = words.contiguous()
        bags, length = words.shape
        count, width = self.bag.weight.shape
        out = torch.empty(bags, width, device=words.device)
        bag_kernel[(bags,)](words, self.bag.weight, out, length, width, count - 1, BLOCK=triton.next_power_of_2(width))
        return out
