"""An operator that is left to torch: its arguments and its results."""

from __future__ import annotations

import dataclasses
from typing import Any

BY_TAPS, IN_PARTS = "weight_by_taps", "weight_in_parts"
"""A constant that the host derives from a parameter once: a convolution's weight with its input channels innermost."""


@dataclasses.dataclass(frozen=True, slots=True)
class TorchCall:
    """Arguments and results of an operator that is left to torch."""

    arguments: tuple[tuple[str, Any], ...]
    """Arguments by name; a reference is a position among the operands."""
    overload: str
    place: int
    """Index in the graph, so that two equal calls stay two."""
    named: frozenset[str] = frozenset()
    """Arguments without a default; they are passed even if their value is None."""
    listed: bool = False
    """True if it returns several tensors, or a list of them."""
    gaps: tuple[bool, ...] = ()
    """For each result, True if it is not contiguous."""
    on_device: bool = False
    """True if the device must be passed, because no operand determines it."""
    overwritten: tuple[int, ...] = ()
    """Indices of operands that it writes in place. Their new contents are the last results."""


def schema_of(operator: str, overload: str) -> Any:
    """Return torch's schema of an operator; None if the overload is not known."""
    import torch

    namespace, _, name = operator.partition(".")
    packet = getattr(getattr(torch.ops, namespace, None), name, None)
    found = getattr(packet, overload or "default", None) if packet is not None else None
    return None if found is None else found._schema
