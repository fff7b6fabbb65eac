"""Each edge takes its source's features, weights them, and adds them to its target's: graph convolutions."""

import torch
import torch.nn as nn

NODES = 40000
EDGES = 400000
WIDTH = 64


class Model(nn.Module):
    def forward(
        self, nodes: torch.Tensor, weights: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        messages = nodes[sources] * weights[:, None]
        return torch.zeros_like(nodes).index_add(0, targets, messages) + nodes


def get_inputs():
    ends = torch.randint(0, NODES, (2, EDGES))
    return [torch.randn(NODES, WIDTH), torch.randn(EDGES), ends[0], ends[1]]


def get_init_inputs():
    return []
