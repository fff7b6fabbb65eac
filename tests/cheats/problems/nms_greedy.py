"""Greedy suppression of boxes that are sorted by score."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, boxes):
        # boxes: batch, n, (x, y, w, h), best first
        x1, y1 = boxes[..., 0], boxes[..., 1]
        x2, y2 = x1 + boxes[..., 2], y1 + boxes[..., 3]
        area = boxes[..., 2] * boxes[..., 3]
        w = (torch.minimum(x2[:, :, None], x2[:, None]) - torch.maximum(x1[:, :, None], x1[:, None])).clamp(min=0)
        h = (torch.minimum(y2[:, :, None], y2[:, None]) - torch.maximum(y1[:, :, None], y1[:, None])).clamp(min=0)
        inter = w * h
        union = (area[:, :, None] + area[:, None] - inter).clamp(min=1e-6)
        over = inter / union > self.threshold
        B, N, _ = boxes.shape
        keep = torch.ones(B, N, dtype=torch.bool, device=boxes.device)
        later = torch.arange(N, device=boxes.device)
        for i in range(N):
            keep = keep & ~(keep[:, i, None] & over[:, i] & (later > i))
        return keep


BATCH = 2
BOXES = 12


def get_inputs():
    return [torch.rand(BATCH, BOXES, 4) + 0.1]


def get_init_inputs():
    return [0.4]
