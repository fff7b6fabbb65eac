import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim=32, hidden=64, experts=4):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, dim, hidden) * 0.1)
        self.down = nn.Parameter(torch.randn(experts, hidden, dim) * 0.1)

    def forward(self, x):
        logits = self.gate(x)
        top, index = logits.topk(2, dim=-1)
        weights = torch.zeros_like(logits).scatter(-1, index, top.softmax(-1))
        h = F.gelu(torch.einsum("nd,edh->enh", x, self.up))
        y = torch.einsum("enh,ehd->end", h, self.down)
        return torch.einsum("end,ne->nd", y, weights)


def get_inputs():
    return [torch.randn(64, 32)]


def get_init_inputs():
    return []
