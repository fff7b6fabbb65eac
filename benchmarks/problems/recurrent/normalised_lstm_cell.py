"""One step of a long short-term memory with layer norms on its gates and its state: speech recognition on devices."""

import torch
import torch.nn as nn

ROWS = 4096
INPUTS = 640
WIDTH = 1024


class Model(nn.Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(inputs, 4 * width, bias=False)
        self.from_hidden = nn.Linear(width, 4 * width, bias=False)
        self.gates_norm = nn.LayerNorm(4 * width)
        self.state_norm = nn.LayerNorm(width)
        self.half()

    def forward(self, x: torch.Tensor, hidden: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gates = self.gates_norm(self.from_input(x) + self.from_hidden(hidden))
        entry, forget, candidate, exit = gates.chunk(4, dim=-1)
        state = torch.sigmoid(forget + 1) * state + torch.sigmoid(entry) * torch.tanh(candidate)
        return torch.sigmoid(exit) * torch.tanh(self.state_norm(state)), state


def get_inputs():
    return [torch.randn(ROWS, INPUTS).half(), *(torch.randn(ROWS, WIDTH).half() for _ in range(2))]


def get_init_inputs():
    return [INPUTS, WIDTH]
