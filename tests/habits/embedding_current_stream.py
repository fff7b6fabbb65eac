"""A block of tokens per program; looks at the current stream and guards the device, as extension code does.

problem: token_embedding
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather_add_kernel(ids, sib, sil, table, position_table, out, n, L, W, BT: tl.constexpr, BW: tl.constexpr):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    w = tl.program_id(1) * BW + tl.arange(0, BW)
    ok = t < n
    index = tl.load(ids + (t // L) * sib + (t % L) * sil, mask=ok, other=0).to(tl.int64)
    mask = ok[:, None] & (w[None, :] < W)
    x = tl.load(table + index[:, None] * W + w[None, :], mask=mask, other=0.0)
    x += tl.load(position_table + (t % L)[:, None] * W + w[None, :], mask=mask, other=0.0)
    tl.store(out + t[:, None] * W + w[None, :], x, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, positions, width):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)

    def forward(self, ids):
        table = self.tokens.weight
        B, L = ids.shape
        W = table.shape[1]
        with torch.cuda.device(ids.device):
            stream = torch.cuda.current_stream(ids.device)
            assert stream is not None
            out = table.new_empty((B, L, W))
            grid = (triton.cdiv(B * L, 8), triton.cdiv(W, 32))
            gather_add_kernel[grid](
                ids, ids.stride(0), ids.stride(1), table, self.positions.weight, out, B * L, L, W, BT=8, BW=32
            )
        return out
