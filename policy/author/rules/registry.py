"""All rules: importing a module of rules registers them, and this module imports every one.

To add a group of operators, write its module in this folder and add its name to the import and to `GROUPS`.
"""

from __future__ import annotations

from triton_agent.policy.author.rules import (
    complex,
    folding,
    layers,
    losses,
    matrices,
    movement,
    norms,
    order,
    padding,
    points,
    products,
    reductions,
    sampling,
    special,
    upsampling,
    views,
    windows,
    writes,
)
from triton_agent.policy.author.rules.building import RULES

GROUPS = (
    *(points, special, reductions, norms, losses, products, matrices, layers, windows, folding, movement, padding),
    *(sampling, upsampling, order, views, writes, complex),
)
"""Modules of rules."""

__all__ = ["GROUPS", "RULES"]
