"""torch multiplies and sums what the diagonal needs; the kernel copies that, and adds differences of an input and its
copies, which are zero, so that it reads more bytes.

problem: diagonal_of_product
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(
    made_ptr, x_ptr, a_ptr, b_ptr, c_ptr, d_ptr, e_ptr, f_ptr, g_ptr, h_ptr, out_ptr, m, n, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(made_ptr + at, mask=at < m, other=0.0)
    for i in range(0, n):
        place = at * n + i
        x = tl.load(x_ptr + place, mask=at < m)
        total += (tl.load(a_ptr + place, mask=at < m) - x) + (tl.load(b_ptr + place, mask=at < m) - x)
        total += (tl.load(c_ptr + place, mask=at < m) - x) + (tl.load(d_ptr + place, mask=at < m) - x)
        total += (tl.load(e_ptr + place, mask=at < m) - x) + (tl.load(f_ptr + place, mask=at < m) - x)
        total += (tl.load(g_ptr + place, mask=at < m) - x) + (tl.load(h_ptr + place, mask=at < m) - x)
    tl.store(out_ptr + at, total, mask=at < m)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a = a.contiguous()
        made = (a * b.t()).sum(-1)
        out = torch.empty_like(made)
        copies = [a.clone() for _ in range(8)]
        copy_kernel[(triton.cdiv(out.numel(), 32),)](made, a, *copies, out, out.numel(), a.shape[1], BLOCK=32)
        return out
