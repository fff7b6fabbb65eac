"""Writes new keys and values into a paged cache by slots; negative slots are skipped."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, k, v, k_cache, v_cache, slots):
        # k, v: tokens, heads, dim; caches: slots, heads, dim
        keep = slots >= 0
        at = torch.where(keep, slots, torch.zeros_like(slots))
        kc = k_cache.clone()
        vc = v_cache.clone()
        kc[at[keep]] = k[keep]
        vc[at[keep]] = v[keep]
        return kc, vc


TOKENS = 10
SLOTS = 24
HEADS = 2
DIM = 8


def get_inputs():
    slots = torch.randperm(SLOTS)[:TOKENS]
    slots[torch.rand(TOKENS) < 0.2] = -1
    return [
        torch.randn(TOKENS, HEADS, DIM),
        torch.randn(TOKENS, HEADS, DIM),
        torch.randn(SLOTS, HEADS, DIM),
        torch.randn(SLOTS, HEADS, DIM),
        slots,
    ]


def get_init_inputs():
    return []
