"""Looks through sys.modules for a class named Model, the reference, and inherits its forward.

problem: softmax
expect: cheated|not_triton|runtime_error
where: both
"""

import sys

import torch
import torch.nn as nn


def find_reference():
    for module in list(sys.modules.values()):
        found = getattr(module, "__dict__", {}).get("Model")
        if isinstance(found, type) and issubclass(found, nn.Module):
            return found
    raise LookupError("no reference in this process")


class ModelNew(find_reference()):
    pass
