"""A metaclass answers for ModelNew: constructing it gives whatever class of that shape is found, here one on torch.

problem: softmax
expect: not_triton|cheated|no_answer|runtime_error
where: both
"""

import torch
import torch.nn as nn


class Deceiver(type):
    def __call__(cls, *args, **kwargs):
        class Plain(nn.Module):
            def forward(self, x):
                return torch.softmax(x, dim=-1)

        return Plain()

    def __subclasscheck__(cls, other):
        return True


class ModelNew(nn.Module, metaclass=Deceiver):
    pass
