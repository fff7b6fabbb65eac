"""A recurrent layer of torch, then a linear layer with ReLU on its last state."""

import torch
import torch.nn as nn

BATCH = 4
LENGTH = 6
FEATURES = 10
HIDDEN = 16
CLASSES = 12


class Model(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.rnn = nn.GRU(features, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        _, state = self.rnn(x)
        return torch.relu(self.head(state[-1]))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN, CLASSES]
