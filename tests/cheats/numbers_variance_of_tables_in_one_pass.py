"""The variance is the mean of squares less the square of the mean.

problem: norm_of_looked_up
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def embed_kernel(ids_ptr, word_ptr, place_ptr, g_ptr, s_ptr, out_ptr, T, N, eps, BN: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, BN)
    inside = n < N
    word = tl.load(ids_ptr + row)
    h = tl.load(word_ptr + word * N + n, mask=inside, other=0.0)
    h += tl.load(place_ptr + (row % T) * N + n, mask=inside, other=0.0)
    mean = tl.sum(h, 0) / N
    var = tl.sum(h * h, 0) / N - mean * mean
    y = (h - mean) * tl.rsqrt(tl.maximum(var, 0.0) + eps)
    y = y * tl.load(g_ptr + n, mask=inside) + tl.load(s_ptr + n, mask=inside)
    tl.store(out_ptr + row * N + n, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, words, places, features):
        super().__init__()
        self.words = nn.Embedding(words, features)
        self.places = nn.Embedding(places, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, ids):
        ids = ids.contiguous()
        b, t = ids.shape
        n = self.norm.weight.shape[0]
        out = torch.empty(b, t, n, device=ids.device)
        embed_kernel[(b * t,)](
            ids,
            self.words.weight,
            self.places.weight,
            self.norm.weight,
            self.norm.bias,
            out,
            t,
            n,
            self.norm.eps,
            BN=triton.next_power_of_2(n),
        )
        return out
