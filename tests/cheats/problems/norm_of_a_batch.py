"""Batch norm of images by the statistics of the batch."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, g, b):
        return F.batch_norm(x, None, None, g, b, training=True, eps=1e-5)


def get_inputs():
    return [torch.randn(6, 4, 5, 5), torch.randn(4), torch.randn(4)]


def get_init_inputs():
    return []
