"""Cross entropy; no label is one to be ignored."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
CLASSES = 40


class Model(nn.Module):
    def forward(self, x, y):
        return F.cross_entropy(x, y)


def get_inputs():
    return [torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,))]


def get_init_inputs():
    return []
