"""Position numbers are a buffer that is not persistent, as in BERT, and both tables are gathered by ids through a
kernel used twice.

problem: token_embedding
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather_kernel(ids_ptr, table_ptr, out_ptr, n, W, ACCUMULATE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n * W
    index = tl.load(ids_ptr + i // W, mask=mask, other=0)
    value = tl.load(table_ptr + index * W + i % W, mask=mask, other=0.0)
    if ACCUMULATE:
        value += tl.load(out_ptr + i, mask=mask, other=0.0)
    tl.store(out_ptr + i, value, mask=mask)


class ModelNew(nn.Module):
    position_ids: torch.Tensor

    def __init__(self, vocabulary: int, positions: int, width: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.register_buffer("position_ids", torch.arange(positions).expand((1, -1)), persistent=False)

    def forward(self, ids):
        B, L = ids.shape
        W = self.tokens.embedding_dim
        out = torch.empty(B, L, W, device=ids.device, dtype=self.tokens.weight.dtype)
        grid = (triton.cdiv(B * L * W, 256),)
        gather_kernel[grid](ids.contiguous(), self.tokens.weight, out, B * L, W, ACCUMULATE=False, BLOCK=256)
        places = self.position_ids[:, :L].expand(B, L).contiguous()
        gather_kernel[grid](places, self.positions.weight, out, B * L, W, ACCUMULATE=True, BLOCK=256)
        return out
