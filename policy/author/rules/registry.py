"""All rules. Importing a module of rules registers them, and this module imports every one, in any order.

To add a group of operators, write its module in this folder and add it to the import and to `GROUPS` (CONTRIBUTING.md,
"Adding an operator to the built-in author").
"""

from __future__ import annotations

from triton_agent.policy.author.rules import (
    attention,
    complex,
    folding,
    losses,
    matrices,
    movement,
    norms,
    order,
    padding,
    points,
    products,
    recurrent,
    reductions,
    sampling,
    special,
    upsampling,
    views,
    windows,
    writes,
)
from triton_agent.policy.author.rules.building import COMPLEX_RULES, RULES, Builder, Call, Rule
from triton_agent.policy.author.rules.complex_pairs import COMPLEX
from triton_agent.tools.graph.graph import Reference

GROUPS = (
    *(points, special, reductions, norms, losses, products, matrices, attention, recurrent, windows, folding),
    *(movement, padding, sampling, upsampling, order, views, writes, complex),
)
"""Modules of rules."""


def rule_for(builder: Builder, call: Call) -> Rule | None:
    """Return the rule for a call: the complex one if there is one and the call takes or makes complex numbers."""
    operator = call.aligned.operator
    if operator in COMPLEX_RULES:
        taken = call.aligned.arguments.get("self")
        takes_complex = isinstance(taken, Reference) and builder.get(call.tensor("self")).dtype == COMPLEX
        if takes_complex or call.dtype == COMPLEX:
            return COMPLEX_RULES[operator]
    return RULES.get(operator)


__all__ = ["GROUPS", "rule_for"]
