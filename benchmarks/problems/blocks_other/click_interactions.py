"""A dense projection and embedded categories, all pairwise products of them side by side: DLRM's interaction."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16384
DENSE = 16
FIELDS = 26
TABLE = 50000
WIDTH = 64


class Model(nn.Module):
    def __init__(self, dense: int, fields: int, table: int, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(dense, width)
        self.table = nn.Embedding(table, width)
        self.register_buffer("pairs", torch.tril_indices(fields + 1, fields + 1, offset=-1))

    def forward(self, dense: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        bottom = F.relu(self.project(dense))
        vectors = torch.cat([bottom[:, None], self.table(categories)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return torch.cat([bottom, products[:, self.pairs[0], self.pairs[1]]], dim=1)


def get_inputs():
    return [3 * torch.randn(ROWS, DENSE), torch.randint(0, TABLE, (ROWS, FIELDS))]


def get_init_inputs():
    return [DENSE, FIELDS, TABLE, WIDTH]
