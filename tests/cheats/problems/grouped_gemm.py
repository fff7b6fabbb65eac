"""Product of packed rows with a matrix per group."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, w, offsets):
        at = torch.arange(x.shape[0], device=x.device)
        g = torch.searchsorted(offsets[1:].contiguous(), at, right=True)
        return torch.bmm(x[:, None], w.index_select(0, g))[:, 0]


ROWS = 24
K = 16
N = 20
GROUPS = 4


def get_inputs():
    cuts = torch.sort(torch.randint(0, ROWS + 1, (GROUPS - 1,))).values
    return [
        torch.randn(ROWS, K),
        torch.randn(GROUPS, K, N),
        torch.cat((torch.zeros(1, dtype=torch.int64), cuts, torch.tensor([ROWS]))).to(torch.int32),
    ]


def get_init_inputs():
    return []
