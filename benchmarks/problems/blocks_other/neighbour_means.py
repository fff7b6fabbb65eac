"""A node's own features and the mean of a sample of its neighbours', each projected, ReLU: GraphSAGE."""

import torch
import torch.nn as nn
import torch.nn.functional as F

NODES = 30000
NEIGHBOURS = 12
INPUTS = 256
OUTPUTS = 256


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.own = nn.Linear(inputs, outputs)
        self.others = nn.Linear(inputs, outputs, bias=False)
        self.to(torch.bfloat16)

    def forward(self, nodes: torch.Tensor, neighbours: torch.Tensor) -> torch.Tensor:
        mean = nodes[neighbours].mean(dim=1)
        return F.relu(self.own(nodes) + self.others(mean))


def get_inputs():
    return [torch.randn(NODES, INPUTS).to(torch.bfloat16), torch.randint(0, NODES, (NODES, NEIGHBOURS))]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
