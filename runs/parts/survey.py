"""Measures the cost of each submodule in one call of a model, and records how it is made and called.

    take(spec, device="cpu") -> ModelSurvey

The problem's file runs there with the user's rights, as in the checker; no candidate does. On a GPU device time is
measured; without one it is estimated from bytes and operations of torch's operators.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from triton_agent.runs.cli.own_process import ask
from triton_agent.tools.problem.problem import ProblemSpec

TIMEOUT_S = 600.0
"""Time limit; the reference runs a few times, perhaps on a CPU."""
PROCESS = "triton_agent.runs.parts.survey_process"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Submodule:
    """One module of a model and its use in one call of the model."""

    path: str
    class_name: str
    file: str
    """File that defines its class in the user's project; empty for others."""
    calls: int
    operators: int
    """Operators that do work, as torch dispatches them."""
    cost_ms: float
    """Device time of all its calls, or an estimate."""
    moved_bytes: int
    """Bytes that its operators read and write, each counted by itself."""
    floor_bytes: int
    """Bytes of its inputs, parameters and outputs, each once."""
    alike: str = ""
    """Equal for modules of one class that do the same on tensors of equal form."""
    init: str = ""
    """Result of its `get_init_inputs`: `[64, 128]` or `[[64], {'bias': False}]`."""
    inputs: tuple[str, ...] = ()
    """A Python expression for each argument, which draws a similar one."""
    cases: tuple[str, ...] = ()
    """What its kernels are chosen by, for each argument: `(torch.float32, (0, 1, 2))`, `(bool, True)`."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Names of the given parameters of forward, with their defaults as text."""
    why_not: str = ""
    """Why it cannot be a problem of its own; empty if it can."""


LISTS = ("inputs", "cases")
"""Tuples that JSON turns into lists."""


def submodule_from_json(data: Mapping[str, Any]) -> Submodule:
    parameters = tuple((name, default) for name, default in data["parameters"])
    return Submodule(**{**data, **{name: tuple(data[name]) for name in LISTS}, "parameters": parameters})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelSurvey:
    """A model's submodules in the order of `named_modules`, the root first."""

    measured: bool
    """True if costs are measured device time, False if they are estimates."""
    submodules: tuple[Submodule, ...]

    @property
    def root(self) -> Submodule:
        return self.submodules[0]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ModelSurvey:
        return cls(measured=data["measured"], submodules=tuple(map(submodule_from_json, data["submodules"])))


def take(spec: ProblemSpec, *, device: str, card: str = "") -> ModelSurvey:
    """Survey a model on the `card` with this UUID, or on the first card.

    Raise `ProblemError` if the reference fails.
    """
    purpose = "a survey of its submodules"
    return ModelSurvey.from_json(ask(PROCESS, spec, device, purpose=purpose, limit_s=TIMEOUT_S, card=card))
