"""Object queries look at an image, positions added to queries and keys but not to values: DETR's decoder."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
QUERIES = 300
PIXELS = 1600
HEADS = 8
HEAD_WIDTH = 32


class Model(nn.Module):
    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        width = heads * head_width
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(
        self, x: torch.Tensor, x_position: torch.Tensor, image: torch.Tensor, image_position: torch.Tensor
    ) -> torch.Tensor:
        query = self.by_head(self.query(x + x_position))
        key = self.by_head(self.key(image + image_position))
        mixed = F.scaled_dot_product_attention(query, key, self.by_head(self.value(image)))
        return self.norm(x + self.out(mixed.transpose(1, 2).flatten(2)))

    def by_head(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def get_inputs():
    width = HEADS * HEAD_WIDTH
    sizes = [(BATCH, QUERIES), (QUERIES,), (BATCH, PIXELS), (PIXELS,)]
    return [torch.randn(*size, width) for size in sizes]


def get_init_inputs():
    return [HEADS, HEAD_WIDTH]
