# ruff: noqa: E402, F811
import torch
import torch.nn.functional as F


def _gate(x):
    return torch.sigmoid(x)


def gated_linear_rows(input, weight, bias=None, gate=None):
    """A linear layer, times the sigmoid of a gate where there is one."""
    made = F.linear(input, weight, bias)
    return made if gate is None else made * _gate(gate)


##################################################################################################################################################

import torch


def test_gated_linear_rows(rows=10, width=16, device="cuda"):
    x = torch.randn(rows, width, device=device)
    weight = torch.randn(24, width, device=device)
    bias = torch.randn(24).cuda()
    gate = torch.zeros(rows, 24, device=device)
    for i in range(rows):
        gate[i] = i - 4.5
    results = {"plain": gated_linear_rows(x, weight)}
    results["all"] = gated_linear_rows(x, weight, bias=bias, gate=gate)
    assert results["all"].shape == (rows, 24)
    return results


test_results = test_gated_linear_rows()
print(test_results)
