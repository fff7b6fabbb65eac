"""Tables are made with torch operators in the constructor and kept as buffers; one kernel turns queries and keys.

problem: rotary_positions
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rope_kernel(q_ptr, k_ptr, cos_ptr, sin_ptr, qo_ptr, ko_ptr, L, D, HALF: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    position = pid % L
    i = tl.arange(0, BLOCK)
    mask = i < HALF
    cos1 = tl.load(cos_ptr + position * D + i, mask=mask)
    sin1 = tl.load(sin_ptr + position * D + i, mask=mask)
    cos2 = tl.load(cos_ptr + position * D + HALF + i, mask=mask)
    sin2 = tl.load(sin_ptr + position * D + HALF + i, mask=mask)
    q1 = tl.load(q_ptr + pid * D + i, mask=mask)
    q2 = tl.load(q_ptr + pid * D + HALF + i, mask=mask)
    tl.store(qo_ptr + pid * D + i, q1 * cos1 - q2 * sin1, mask=mask)
    tl.store(qo_ptr + pid * D + HALF + i, q2 * cos2 + q1 * sin2, mask=mask)
    k1 = tl.load(k_ptr + pid * D + i, mask=mask)
    k2 = tl.load(k_ptr + pid * D + HALF + i, mask=mask)
    tl.store(ko_ptr + pid * D + i, k1 * cos1 - k2 * sin1, mask=mask)
    tl.store(ko_ptr + pid * D + HALF + i, k2 * cos2 + k1 * sin2, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim, max_length):
        super().__init__()
        inv_freq = 1.0 / (10000.0 ** (torch.arange(0, dim, 2).float() / dim))
        freqs = torch.einsum("i,j->ij", torch.arange(max_length).float(), inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        self.register_buffer("cos", emb.cos())
        self.register_buffer("sin", emb.sin())

    def forward(self, q, k):
        q, k = q.contiguous(), k.contiguous()
        B, H, L, D = q.shape
        q_out, k_out = torch.empty_like(q), torch.empty_like(k)
        rope_kernel[(B * H * L,)](
            q, k, self.cos, self.sin, q_out, k_out, L, D, HALF=D // 2, BLOCK=triton.next_power_of_2(D // 2), num_warps=1
        )
        return q_out, k_out
