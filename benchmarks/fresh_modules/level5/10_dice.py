import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits, target):
        p = logits.softmax(1)
        onehot = F.one_hot(target, logits.shape[1]).permute(0, 3, 1, 2).to(p.dtype)
        inter = (p * onehot).sum((0, 2, 3))
        union = p.sum((0, 2, 3)) + onehot.sum((0, 2, 3))
        return 1 - ((2 * inter + 1) / (union + 1)).mean()


def get_inputs():
    return [torch.randn(2, 5, 16, 16), torch.randint(0, 5, (2, 16, 16))]


def get_init_inputs():
    return []
