"""Means of bags of rows that offsets give, without padding.

problem: bag_mean
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def embedding_bag_kernel(w_ptr, ids_ptr, off_ptr, out_ptr, n_ids, n_bags, D, PAD: tl.constexpr, BLOCK_D: tl.constexpr):
    bag = tl.program_id(0)
    d = tl.arange(0, BLOCK_D)
    dm = d < D
    begin = tl.load(off_ptr + bag)
    end = tl.load(off_ptr + bag + 1, mask=bag + 1 < n_bags, other=n_ids)
    acc = tl.zeros((BLOCK_D,), dtype=tl.float32)
    count = 0
    for i in range(begin, end):
        idx = tl.load(ids_ptr + i)
        if idx != PAD:
            acc += tl.load(w_ptr + idx * D + d, mask=dm, other=0.0)
            count += 1
    mean = acc / tl.maximum(count, 1)
    tl.store(out_ptr + bag * D + d, mean, mask=dm)


class ModelNew(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.bag = nn.EmbeddingBag(n, d, mode="mean", padding_idx=0)

    def forward(self, ids, offsets):
        ids, offsets = ids.contiguous(), offsets.contiguous()
        w = self.bag.weight
        n, D = offsets.shape[0], w.shape[1]
        out = torch.empty(n, D, dtype=w.dtype, device=w.device)
        embedding_bag_kernel[(n,)](w, ids, offsets, out, ids.shape[0], n, D, 0, triton.next_power_of_2(D))
        return out
