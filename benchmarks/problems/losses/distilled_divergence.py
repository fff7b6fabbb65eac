"""Divergence of a student's token distribution from a teacher's at a temperature: distillation of language models."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 1024
CLASSES = 32000
TEMPERATURE = 2.5


class Model(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        ours = F.log_softmax(student.float() / self.temperature, dim=-1)
        theirs = F.log_softmax(teacher.float() / self.temperature, dim=-1)
        return (theirs.exp() * (theirs - ours)).sum(dim=-1) * self.temperature**2


def get_inputs():
    teacher = 3 * torch.randn(TOKENS, CLASSES)
    return [(teacher + torch.randn(TOKENS, CLASSES)).half(), teacher.half()]


def get_init_inputs():
    return [TEMPERATURE]
