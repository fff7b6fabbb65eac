"""A program per token; ids and positions are gathered in one kernel, rows in blocks.

problem: token_embedding
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(ids_ptr, tok_ptr, pos_ptr, out_ptr, L, W, BLOCK_W: tl.constexpr):
    token = tl.program_id(0)
    position = token % L
    token_id = tl.load(ids_ptr + token)
    for start in range(0, W, BLOCK_W):
        w = start + tl.arange(0, BLOCK_W)
        mask = w < W
        e = tl.load(tok_ptr + token_id * W + w, mask=mask)
        p = tl.load(pos_ptr + position * W + w, mask=mask)
        tl.store(out_ptr + token * W + w, e + p, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, positions, width):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)

    def forward(self, ids):
        batch, length = ids.shape
        width = self.tokens.embedding_dim
        out = torch.empty(batch, length, width, dtype=self.tokens.weight.dtype, device=ids.device)
        embedding_kernel[(ids.numel(),)](
            ids.contiguous().view(-1), self.tokens.weight, self.positions.weight, out, length, width, BLOCK_W=32
        )
        return out
