"""The module defines __getattr__ and makes its class up when asked, a different one from the second time on.

problem: softmax
expect: no_answer|not_triton|cheated
where: both
"""

import torch
import torch.nn as nn


def __getattr__(name):
    if name == "ModelNew":
        return type("ModelNew", (nn.Module,), {"forward": lambda self, x: torch.softmax(x, dim=-1)})
    raise AttributeError(name)


if False:
    ModelNew = None
