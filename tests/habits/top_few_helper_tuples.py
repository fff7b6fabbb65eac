"""Maxima are taken one by one; a helper returns tuples.

problem: top_few
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pick(value_a, index_a, value_b, index_b):
    a_is_nan, b_is_nan = value_a != value_a, value_b != value_b
    earlier = index_a < index_b
    first = (value_a > value_b) | ((value_a == value_b) & earlier)
    first = tl.where(a_is_nan | b_is_nan, a_is_nan & ((b_is_nan == 0) | earlier), first)
    return tl.where(first, value_a, value_b), tl.where(first, index_a, index_b)


@triton.jit
def best(x, at, axis: tl.constexpr):
    return tl.reduce((x, at), axis, pick)


@triton.jit
def top_kernel(x_ptr, v_ptr, i_ptr, N, K: tl.constexpr, KP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    k = tl.arange(0, KP)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=-float("inf"))
    at = tl.where(c < N, c, BLOCK)
    values = tl.full((KP,), -float("inf"), tl.float32)
    places = tl.zeros((KP,), tl.int32)
    for n in tl.static_range(K):
        value, place = best(x, at, 0)
        values = tl.where(k == n, value, values)
        places = tl.where(k == n, place, places)
        x = tl.where(c == place, -float("inf"), x)
        at = tl.where(c == place, BLOCK, at)
    e = tl.exp(values - tl.max(values, 0))
    tl.store(v_ptr + row * K + k, e / tl.sum(e, 0), mask=k < K)
    tl.store(i_ptr + row * K + k, places.to(tl.int64), mask=k < K)


class ModelNew(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, scores):
        scores = scores.contiguous()
        rows, N = scores.shape
        options = dict(dtype=scores.dtype, device=scores.device)
        values = torch.empty(rows, self.count, **options)
        indices = torch.empty(rows, self.count, **{**options, "dtype": torch.long})
        top_kernel[(rows,)](
            scores,
            values,
            indices,
            N,
            K=self.count,
            KP=triton.next_power_of_2(self.count),
            BLOCK=triton.next_power_of_2(N),
        )
        return values, indices
