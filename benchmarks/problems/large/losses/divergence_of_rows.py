"""The divergence of a student from its teacher, both given as logits: a number for each row."""

import torch
import torch.nn as nn

ROWS = 16384
CLASSES = 49152


class Model(nn.Module):
    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        wanted = torch.log_softmax(teacher, dim=-1)
        found = torch.log_softmax(student, dim=-1)
        return (wanted.exp() * (wanted - found)).sum(dim=-1)


def get_inputs():
    return [2 * torch.randn(ROWS, CLASSES), 2 * torch.randn(ROWS, CLASSES)]


def get_init_inputs():
    return []
