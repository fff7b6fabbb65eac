"""Finds the reference among the subclasses of nn.Module, without importing anything but torch.

problem: linear
expect: not_triton|cheated|runtime_error
where: both
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __new__(cls, *args, **kwargs):
        for kind in nn.Module.__subclasses__():
            if kind.__name__ == "Model":
                return kind(*args, **kwargs)
        raise LookupError("no reference in this process")
