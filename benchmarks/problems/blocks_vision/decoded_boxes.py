"""Raw head outputs become boxes: sigmoid and grid for the centre, exp and anchor for the size, scores: YOLO."""

import torch
import torch.nn as nn

BATCH = 32
CLASSES = 80
HEIGHT = 80
WIDTH = 80


class Model(nn.Module):
    def __init__(self, stride: float) -> None:
        super().__init__()
        self.stride = stride
        self.anchors = nn.Parameter(torch.tensor([[10.0, 13.0], [33.0, 23.0], [59.0, 119.0]]))

    def forward(self, raw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        parts = raw.unflatten(1, (len(self.anchors), -1)).permute(0, 1, 3, 4, 2)
        height, width = raw.shape[2:]
        down, right = torch.arange(height, device=raw.device), torch.arange(width, device=raw.device)
        grid = torch.stack(torch.meshgrid(right, down, indexing="xy"), dim=-1)
        centre = (torch.sigmoid(parts[..., :2]) * 2 - 0.5 + grid) * self.stride
        size = torch.exp(parts[..., 2:4].clamp(max=4)) * self.anchors[:, None, None]
        chance = torch.sigmoid(parts[..., 5:]) * torch.sigmoid(parts[..., 4:5])
        return torch.cat([centre - size / 2, centre + size / 2], dim=-1), chance


def get_inputs():
    return [torch.randn(BATCH, 3 * (CLASSES + 5), HEIGHT, WIDTH)]


def get_init_inputs():
    return [8.0]
