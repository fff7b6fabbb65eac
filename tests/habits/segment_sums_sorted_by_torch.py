"""Edges are put in order by torch, offsets found by searchsorted; each program sums one node.

problem: segment_sums
expect: passed
where: both
mode: allow-library
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, order_ptr, offsets_ptr, y_ptr, F, BLOCK: tl.constexpr):
    node = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    begin = tl.load(offsets_ptr + node)
    end = tl.load(offsets_ptr + node + 1)
    acc = tl.zeros((BLOCK,), tl.float32)
    k = begin
    while k < end:
        edge = tl.load(order_ptr + k)
        acc += tl.load(x_ptr + edge * F + c, mask=c < F, other=0.0)
        k += 1
    tl.store(y_ptr + node * F + c, acc, mask=c < F)


class ModelNew(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def forward(self, messages, node):
        ordered, order = torch.sort(node, stable=True)
        bounds = torch.arange(self.nodes + 1, device=node.device, dtype=node.dtype)
        offsets = torch.searchsorted(ordered, bounds)
        F = messages.shape[1]
        y = torch.empty(self.nodes, F, dtype=messages.dtype, device=messages.device)
        sum_kernel[(self.nodes,)](messages.contiguous(), order, offsets, y, F, BLOCK=triton.next_power_of_2(F))
        return y
