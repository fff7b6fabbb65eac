"""What each submodule of a model costs in one call, and how it is made and called: found in a process of its own.

    take(spec, device="cpu") -> Survey

The problem's file runs there with the user's rights, as it does in the checker; no candidate does. On a GPU device
time is measured; without one it is estimated from the bytes and operations of what torch was asked to run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from triton_agent.runs.cli.own_process import ask
from triton_agent.tools.problem.problem import ProblemSpec

TIMEOUT_S = 600.0
"""The reference runs a few times, on a CPU perhaps."""
PROCESS = "triton_agent.runs.parts.survey_process"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Submodule:
    """One module of a model, as one call of the model used it."""

    path: str
    class_name: str
    file: str
    """Where its class is defined, in the user's project; empty for others."""
    calls: int
    operators: int
    """That do work, as torch dispatches them."""
    cost_ms: float
    """Of all its calls: device time, or an estimate of it."""
    moved_bytes: int
    """What its operators read and write, each for itself."""
    floor_bytes: int
    """What it takes, holds and gives, once."""
    alike: str = ""
    """Equal for modules of one class that do the same on tensors of the same form."""
    init: str = ""
    """What `get_init_inputs` of it returns, `[64, 128]` or `[[64], {'bias': False}]`."""
    inputs: tuple[str, ...] = ()
    """A Python expression for each argument, which draws the like of it."""
    cases: tuple[str, ...] = ()
    """What the kernels in its place go by, for each argument: `(torch.float32, (0, 1, 2))`, `(bool, True)`."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Names of forward's parameters as far as they are given, with their defaults as text."""
    why_not: str = ""
    """Why it cannot be a problem of its own; empty where it can."""


LISTS = ("inputs", "cases")
"""Fields that JSON turns into lists."""


def submodule_from_json(data: Mapping[str, Any]) -> Submodule:
    parameters = tuple((name, default) for name, default in data["parameters"])
    return Submodule(**{**data, **{name: tuple(data[name]) for name in LISTS}, "parameters": parameters})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A model's submodules, in the order of `named_modules`, the root first."""

    measured: bool
    """True if costs are device time; else they are estimates."""
    submodules: tuple[Submodule, ...]

    @property
    def root(self) -> Submodule:
        return self.submodules[0]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Survey:
        return cls(measured=data["measured"], submodules=tuple(map(submodule_from_json, data["submodules"])))


def take(spec: ProblemSpec, *, device: str, card: str = "") -> Survey:
    """On the `card` named, by UUID, or the first. Raises `ProblemError` where the reference does not run."""
    purpose = "a survey of its submodules"
    return Survey.from_json(ask(PROCESS, spec, device, purpose=purpose, limit_s=TIMEOUT_S, card=card))
