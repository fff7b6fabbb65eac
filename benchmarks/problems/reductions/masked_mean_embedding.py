"""Mean of the tokens within each length, summed in float32: sentence embeddings."""

import torch
import torch.nn as nn

BATCH = 96
STEPS = 512
WIDTH = 768


class Model(nn.Module):
    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        total = (tokens * inside[:, :, None]).sum(dim=1, dtype=torch.float32)
        return (total / lengths[:, None]).to(tokens.dtype)


def get_inputs():
    tokens = torch.randn(BATCH, STEPS, WIDTH) + torch.randn(BATCH, 1, WIDTH)
    return [tokens.to(torch.bfloat16), torch.randint(1, STEPS + 1, (BATCH,))]


def get_init_inputs():
    return []
