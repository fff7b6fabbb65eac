"""A whole model: an MLP-mixer, whose layers are made of many small operators.

`triton-agent optimize` takes it by parts:

    triton-agent optimize examples/mixer.py --parts
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, TOKENS, PATCH, WIDTH, HIDDEN, CLASSES = 16, 32, 48, 256, 512, 128
LAYERS = 3


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Stem(nn.Module):
    """Patches become tokens with a place."""

    def __init__(self, patch: int, tokens: int, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(patch, width)
        self.place = nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.norm = RMSNorm(width)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        return self.norm(F.gelu(self.project(patches)) + self.place)


class Layer(nn.Module):
    """Mixes the tokens of an image with each other, then the channels of each token."""

    def __init__(self, tokens: int, width: int, hidden: int) -> None:
        super().__init__()
        self.token_norm = RMSNorm(width)
        self.tokens = nn.Linear(tokens, tokens)
        self.channel_norm = RMSNorm(width)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + F.gelu(self.tokens(self.token_norm(x).transpose(1, 2))).transpose(1, 2)
        y = self.channel_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Head(nn.Module):
    """Log-probabilities of an image's classes, from the mean of its tokens."""

    def __init__(self, width: int, classes: int, cap: float) -> None:
        super().__init__()
        self.norm = RMSNorm(width)
        self.out = nn.Linear(width, classes)
        self.cap = cap

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.out(self.norm(x).mean(1))
        return F.log_softmax(self.cap * torch.tanh(logits / self.cap), -1)


class Model(nn.Module):
    def __init__(self, patch: int, tokens: int, width: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        self.stem = Stem(patch, tokens, width)
        self.layers = nn.ModuleList(Layer(tokens, width, hidden) for _ in range(layers))
        self.head = Head(width, classes, cap=30.0)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        x = self.stem(patches)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def get_inputs():
    return [torch.randn(BATCH, TOKENS, PATCH)]


def get_init_inputs():
    return [PATCH, TOKENS, WIDTH, HIDDEN, LAYERS, CLASSES]
