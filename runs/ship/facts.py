"""What a shipped file states and guards: the form of the verified call, the verdict, and where both were reached.

Frozen values, filled by whoever ships; `call_form.py` finds the form of a problem's call. Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from triton_agent.tools.results import Evaluation, Status, Timing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TensorForm:
    """All of a tensor but its values."""

    shape: tuple[int, ...]
    dtype: str
    """Torch's name for it: `float16`."""
    strides: tuple[int, ...]


class NotEmitted(Exception):
    """No plan can be written for what a candidate does; the message says why."""


Argument = TensorForm | None | bool | int | float | str | tuple[Any, ...] | list[Any] | dict[str, Any]
"""A tensor's form, a plain value, or a nest of these."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of forward, as the guard knows it again."""

    train: bool
    arguments: tuple[Argument, ...]
    own_class: str = ""
    """A class among the results that a plan cannot make: neither a tensor nor plain data or a nest of these."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CallForm:
    """How a problem's model is made and called at the sizes as given."""

    constructed: str | None
    """The constructor's arguments as text, objects of the user's classes as `SimpleNamespace`s of what they hold; None
    where they cannot be written down, so that the guard knows no model again."""
    parameters: tuple[str, ...]
    """Names of forward's parameters, in order."""
    keyword_only: int = 0
    """How many of them, the last ones, are passed by keyword only."""
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Defaults of forward's parameters, where they can be written down."""
    state: tuple[tuple[str, TensorForm], ...]
    """Parameters, then buffers, as named."""
    calls: tuple[Call, ...]
    """The problem's inputs, in eval and in train mode."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The kind of GPU that the measurement holds for."""

    name: str
    capability: tuple[int, int]
    driver: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShippedSet:
    """One of several sets of inputs, as a file's header tells of it."""

    name: str
    weight: float
    call: Call
    admitted: bool
    """True if the kernels run there; else the reference does."""
    timings: tuple[Timing, ...] = ()
    """Of the file as it is used; where the kernels stay out, of the kernels."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShippedFacts:
    """What is known of the candidate that is shipped."""

    call: CallForm
    evaluation: Evaluation
    """Of the candidate; for a measured file, with timings."""
    sets: tuple[ShippedSet, ...] = ()
    """Where there are several sets of inputs; `call` then has the calls of those that run the kernels."""
    variants: tuple[str, ...] = ()
    """Sizes it was checked at, in words."""
    ranges: tuple[str, ...] = ()
    """What holds where in the problem's ranges, a sentence each."""
    scaled: str = ""
    """How the sizes were scaled down for the check; empty when they were not."""
    gpu: Gpu | None = None
    run: str
    date: datetime.date
    version: str
    """Of triton-agent."""
    author: str = ""
    """The policy that wrote the kernels."""
    promote: str = ""
    """For a draft: the command that measures and promotes it."""

    def __post_init__(self) -> None:
        if self.evaluation.status is not Status.PASSED:
            raise ValueError(f"only what passed is shipped, not {self.evaluation.status}")

    @property
    def modes(self) -> tuple[bool, ...]:
        """Train modes in which it was checked."""
        seen = {case.distribution.endswith(" / train") for case in self.evaluation.accuracy}
        return tuple(sorted(seen))
