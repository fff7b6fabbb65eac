"""Parts of the guard (`machinery.py`) for files of models that have no parameters, buffers and submodules.

The text from the line that `MARKER` names replaces parts of the same names. Such a model needs no lists of what a call
depends on, only its own attributes.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from triton_agent.runs.ship.copied.machinery import HOOKS_ON_ALL, _attributes, _is_as_noted, _noted

# -- which calls run the kernels ---------------------------------------------------------------------------------------


def _made_of(model: nn.Module) -> dict[str, Any]:
    """Return the attributes of the model."""
    return {name: _noted(value) for name, value in _attributes(model).items()}


class Watch:
    """Tells whether a model, which has no parameters, buffers and submodules, is as it was made."""

    device = None

    def __init__(self, model: nn.Module, verified: bool) -> None:
        self.made: Any = _made_of(model) if verified else None
        self.seen: Any = None

    def __getstate__(self) -> Any:
        return {"made": self.made, "seen": None}  # a copy of the model is examined itself

    def state_of(self, model: Any) -> Any:
        """Return parameters and buffers by name, which are none; None if the reference has to run."""
        own = vars(model)
        if own != self.seen:
            made = _made_of(model)
            self.seen = {**own, **made} if made == self.made else None
        parts = own["_parameters"] or own["_buffers"] or own["_modules"] or any(HOOKS_ON_ALL)
        return None if parts or self.seen is None else {}


def _traced_state(model: Any) -> Any:
    """Return parameters and buffers by name, in code that torch.compile follows; None if the reference has to run."""
    for name, value in model._watch.made.items():
        if not _is_as_noted(getattr(model, name), value):
            return None
    return None if len(model._parameters) or len(model._buffers) or len(model._modules) else {}
