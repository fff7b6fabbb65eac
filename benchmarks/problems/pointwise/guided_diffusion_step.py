"""A guided step of a diffusion sampler: two predictions are mixed, and the latent turned by two angles per sample."""

import torch
import torch.nn as nn

BATCH = 48
CHANNELS = 4
HEIGHT = 160
WIDTH = 160
GUIDANCE = 5.5


class Model(nn.Module):
    def __init__(self, guidance: float) -> None:
        super().__init__()
        self.guidance = guidance

    def forward(
        self, latent: torch.Tensor, free: torch.Tensor, prompted: torch.Tensor, now: torch.Tensor, then: torch.Tensor
    ) -> torch.Tensor:
        now, then = now[:, None, None, None], then[:, None, None, None]
        velocity = free + self.guidance * (prompted - free)
        clean = torch.cos(now) * latent - torch.sin(now) * velocity
        noise = torch.sin(now) * latent + torch.cos(now) * velocity
        return torch.cos(then) * clean.clamp(-3.0, 3.0) + torch.sin(then) * noise


def get_inputs():
    images = [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) for _ in range(3)]
    now = torch.rand(BATCH) * 1.5
    return [*images, now, now * 0.9]


def get_init_inputs():
    return [GUIDANCE]
