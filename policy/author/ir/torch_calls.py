"""An operator that stays one of torch: how it is called, and how its results are had."""

from __future__ import annotations

import dataclasses
from typing import Any

BY_TAPS = "weight_by_taps"
"""A value that the host makes of a parameter once: a convolution's weight with the channels that it reads innermost."""


@dataclasses.dataclass(frozen=True, slots=True)
class TorchCall:
    """How an operator that stays one of torch is called, and how its results are had."""

    arguments: tuple[tuple[str, Any], ...]
    """By name, references as places among the operands."""
    overload: str
    place: int
    """In the graph, so that two calls alike stay two."""
    named: frozenset[str] = frozenset()
    """Arguments without a default, which are passed even where there is nothing to pass."""
    listed: bool = False
    """True if it returns several tensors, or a list of them."""
    gaps: tuple[bool, ...] = ()
    """Of each result, whether it does not lie row by row."""
    on_device: bool = False
    """True if it has to be told where the result shall be: there are no operands to go by."""
    overwritten: tuple[int, ...] = ()
    """Places among the operands whose memory it writes; their new contents are the last results."""


def schema_of(operator: str, overload: str) -> Any:
    """How torch declares an operator; None where several forms of it share one name here."""
    import torch

    namespace, _, name = operator.partition(".")
    packet = getattr(getattr(torch.ops, namespace, None), name, None)
    found = getattr(packet, overload or "default", None) if packet is not None else None
    return None if found is None else found._schema
