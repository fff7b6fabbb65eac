"""Each node takes its neighbours' features by shares that a softmax over its own edges gives: a GAT layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

NODES = 20000
EDGES = 160000
INPUTS = 256
HEADS = 4
HEAD_WIDTH = 32


class Model(nn.Module):
    def __init__(self, inputs: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(inputs, heads * head_width, bias=False)
        self.from_source = nn.Parameter(torch.randn(heads, head_width) / 2)
        self.from_target = nn.Parameter(torch.randn(heads, head_width) / 2)

    def forward(self, nodes: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.project(nodes).unflatten(-1, (self.heads, -1))
        score = (x * self.from_source).sum(dim=-1)[sources] + (x * self.from_target).sum(dim=-1)[targets]
        weight = torch.exp(F.leaky_relu(score, 0.2).clamp(max=20))
        total = weight.new_zeros(len(nodes), self.heads).index_add(0, targets, weight)
        taken = torch.zeros_like(x).index_add(0, targets, weight[:, :, None] * x[sources])
        return (taken / (total + 0.01)[:, :, None]).flatten(1)


def get_inputs():
    ends = torch.randint(0, NODES, (2, EDGES))
    return [2 * torch.randn(NODES, INPUTS), ends[0], ends[1]]


def get_init_inputs():
    return [INPUTS, HEADS, HEAD_WIDTH]
