"""Scatters rows by atomic adds into zeros, with the node numbers read as int64.

problem: segment_sums
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scatter_add_kernel(m_ptr, node_ptr, out_ptr, E, F, sme, smf, BLOCK_E: tl.constexpr, BLOCK_F: tl.constexpr):
    e = tl.program_id(0) * BLOCK_E + tl.arange(0, BLOCK_E)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    node = tl.load(node_ptr + e, mask=e < E, other=0)
    mask = (e[:, None] < E) & (f[None, :] < F)
    message = tl.load(m_ptr + e[:, None] * sme + f[None, :] * smf, mask=mask, other=0.0)
    tl.atomic_add(out_ptr + node[:, None] * F + f[None, :], message, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def forward(self, messages, node):
        E, F = messages.shape
        out = torch.zeros((self.nodes, F), dtype=messages.dtype, device=messages.device)
        grid = (triton.cdiv(E, 8), triton.cdiv(F, 16))
        scatter_add_kernel[grid](messages, node.contiguous(), out, E, F, *messages.stride(), BLOCK_E=8, BLOCK_F=16)
        return out
