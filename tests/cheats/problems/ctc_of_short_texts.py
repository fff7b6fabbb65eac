"""CTC loss of short sequences: forward algorithm in log space"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logp, targets, in_len, tg_len):
        return F.ctc_loss(logp, targets, in_len, tg_len, blank=0, reduction="none", zero_infinity=False)


T, B, C, S = 12, 3, 6, 4


def get_inputs():
    return [
        torch.randn(T, B, C).log_softmax(2),
        torch.randint(1, C, (B, S)),
        torch.randint(9, T + 1, (B,)),
        torch.randint(1, S + 1, (B,)),
    ]


def get_init_inputs():
    return []
