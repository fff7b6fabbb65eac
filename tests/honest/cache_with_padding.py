"""Keys and values written to their slots of a cache, with an early return for padding.

problem: cache_write
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def reshape_and_cache_kernel(k_ptr, v_ptr, kc_ptr, vc_ptr, slot_ptr, row: tl.constexpr, BLOCK: tl.constexpr):
    token_idx = tl.program_id(0)
    slot_idx = tl.load(slot_ptr + token_idx).to(tl.int64)
    if slot_idx < 0:
        # padding token, ignored
        return
    at = tl.arange(0, BLOCK)
    m = at < row
    tl.store(kc_ptr + slot_idx * row + at, tl.load(k_ptr + token_idx * row + at, mask=m), mask=m)
    tl.store(vc_ptr + slot_idx * row + at, tl.load(v_ptr + token_idx * row + at, mask=m), mask=m)


@triton.jit
def copy_kernel(src_ptr, dst_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst_ptr + i, tl.load(src_ptr + i, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, k, v, k_cache, v_cache, slots):
        k, v, k_cache, v_cache, slots = (t.contiguous() for t in (k, v, k_cache, v_cache, slots))
        T, H, D = k.shape
        kc = torch.empty_like(k_cache)
        vc = torch.empty_like(v_cache)
        n = kc.numel()
        copy_kernel[(triton.cdiv(n, 256),)](k_cache, kc, n, BLOCK=256)
        copy_kernel[(triton.cdiv(n, 256),)](v_cache, vc, n, BLOCK=256)
        reshape_and_cache_kernel[(T,)](k, v, kc, vc, slots, H * D, triton.next_power_of_2(H * D))
        return kc, vc
