"""How many pixels each class has."""

import torch
import torch.nn as nn

PIXELS = 200_000
CLASSES = 16


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes

    def forward(self, labels):
        return (labels[None, :] == torch.arange(self.classes, device=labels.device)[:, None]).sum(1)


def get_inputs():
    return [torch.randint(0, CLASSES, (PIXELS,))]


def get_init_inputs():
    return [CLASSES]
