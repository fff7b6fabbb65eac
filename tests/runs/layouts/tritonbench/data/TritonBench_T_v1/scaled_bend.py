# ruff: noqa: E402, F811
import torch
import torch.nn.functional as F


def scaled_bend(input, other, *, factor=1.0, bend="softplus", out=None):
    """Adds other times a factor to input, and bends the sum."""
    total = input + factor * other
    return F.softplus(total) if bend == "softplus" else torch.tanh(total)


##################################################################################################################################################

import torch

torch.manual_seed(11)


def test_scaled_bend():
    results = {}

    # Test case 1: as it comes
    first = torch.randn(12, 20, device="cuda")
    second = torch.randn(12, 20, device="cuda")
    results["test_case_1"] = scaled_bend(first, second)

    # Test case 2: with a factor and another bend, a row for all
    first = torch.randn(12, 20, device="cuda")
    row = torch.randn(20, device="cuda")
    factor = -0.5
    results["test_case_2"] = scaled_bend(first, row, factor=factor, bend="tanh")

    # Test case 3: a number in place of a tensor
    results["test_case_3"] = scaled_bend(first, 2.0)

    return results


test_results = test_scaled_bend()
