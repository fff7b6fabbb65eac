"""Messages of edges added up at their nodes."""

import torch
import torch.nn as nn

NODES = 8
EDGES = 30
FEATURES = 20


class Model(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def forward(self, messages, node):
        out = torch.zeros(self.nodes, messages.shape[1], dtype=messages.dtype, device=messages.device)
        return out.index_add(0, node, messages)


def get_inputs():
    return [torch.randn(EDGES, FEATURES), torch.randint(0, NODES, (EDGES,))]


def get_init_inputs():
    return [NODES]
