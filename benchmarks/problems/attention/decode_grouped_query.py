"""One new token per sequence attends to a long cache filled to different lengths: serving language models."""

import torch
import torch.nn as nn

BATCH = 8
GROUPS = 8
SHARING = 4
CACHE = 4096
HEAD_WIDTH = 128


class Model(nn.Module):
    def forward(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, filled: torch.Tensor
    ) -> torch.Tensor:
        scores = torch.einsum("bgsd,bgtd->bgst", query, keys).float() * query.shape[-1] ** -0.5
        unused = torch.arange(keys.shape[2], device=keys.device) >= filled[:, None]
        shares = torch.softmax(scores.masked_fill(unused[:, None, None, :], float("-inf")), dim=-1)
        return torch.einsum("bgst,bgtd->bgsd", shares.to(values.dtype), values)


def get_inputs():
    query = 2 * torch.randn(BATCH, GROUPS, SHARING, HEAD_WIDTH)
    keys, values = (torch.randn(BATCH, GROUPS, CACHE, HEAD_WIDTH).to(torch.bfloat16) for _ in range(2))
    return [query.to(torch.bfloat16), keys, values, torch.randint(1, CACHE + 1, (BATCH,))]


def get_init_inputs():
    return []
