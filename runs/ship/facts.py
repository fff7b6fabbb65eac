"""The facts that a shipped file states and its guard compares: the forms of the verified calls and the verdict.

Frozen values; `call_form.py` finds the form of a problem's call. Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from triton_agent.tools.results import Evaluation, Status, Timing

COUNTING = "torch.autograd.graph.increment_version"
"""Tells torch that the contents of a tensor have changed, which it cannot see if a kernel has written them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TensorForm:
    """Shape, dtype and layout of a tensor, without its values."""

    shape: tuple[int, ...]
    dtype: str
    """Torch's name of the dtype: `float16`."""
    strides: tuple[int, ...]


class NotEmitted(Exception):
    """Raised with the reason if a candidate does something that no plan can be written for."""


Argument = TensorForm | None | bool | int | float | str | tuple[Any, ...] | list[Any] | dict[str, Any]
"""Form of a tensor, a plain value, or a container of these."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of forward, in the form by which the guard recognises it."""

    train: bool
    arguments: tuple[Argument, ...]
    own_class: str = ""
    """A class among the results that a plan cannot make: neither a tensor nor plain data nor a container of these."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CallForm:
    """How a problem's model is constructed and called at the sizes given."""

    constructed: str | None
    """Arguments of the constructor as text, with objects of the user's classes as `SimpleNamespace`s of their
    attributes. None if they cannot be written as text; then the guard recognises no model.
    """
    parameters: tuple[str, ...]
    """Names of forward's parameters, in order."""
    keyword_only: int = 0
    """Number of trailing parameters that are passed by keyword only."""
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Defaults of forward's parameters that can be written as text."""
    state: tuple[tuple[str, TensorForm], ...]
    """Names and forms of the parameters, then of the buffers."""
    default_dtype: str = "float32"
    """Torch's default dtype once the problem's file was imported."""
    is_bare: bool = False
    """True if the model has no parameters, buffers or submodules."""
    holds_objects: bool = True
    """True if a module has an attribute that can change without being replaced: a list, an object, a tensor."""
    calls: tuple[Call, ...]
    """Calls with the problem's inputs, in eval and in train mode."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The kind of GPU that a measurement holds for."""

    name: str
    capability: tuple[int, int]
    driver: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShippedSet:
    """One of several sets of inputs, as the file's header describes it."""

    name: str
    weight: float
    call: Call
    admitted: bool
    """True if the kernels run at this set; otherwise the reference runs."""
    timings: tuple[Timing, ...] = ()
    """Timings of the file with its guard; if the set is not admitted, of the kernels."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShippedFacts:
    """Facts about the candidate that is shipped."""

    call: CallForm
    evaluation: Evaluation
    """Evaluation of the candidate; for a measured file with timings."""
    sets: tuple[ShippedSet, ...] = ()
    """The sets of inputs, if there are several; `call` then holds the calls of the admitted sets."""
    variants: tuple[str, ...] = ()
    """Sizes at which the candidate was checked, in words."""
    ranges: tuple[str, ...] = ()
    """What runs where in the problem's ranges, a sentence each."""
    scaled: str = ""
    """How the sizes were scaled down for the check; empty if they were not."""
    gpu: Gpu | None = None
    run: str
    date: datetime.date
    version: str
    """Version of triton-agent."""
    author: str = ""
    """The policy that wrote the kernels."""
    cuda_graph: bool = False
    """True if the file replays its calls as CUDA graphs."""
    promote: str = ""
    """For a draft: the command that measures and promotes it."""

    def __post_init__(self) -> None:
        if self.evaluation.status is not Status.PASSED:
            raise ValueError(f"only what passed is shipped, not {self.evaluation.status}")

    @property
    def modes(self) -> tuple[bool, ...]:
        """Values of the train mode in which the candidate was checked."""
        seen = {case.distribution.endswith(" / train") for case in self.evaluation.accuracy}
        return tuple(sorted(seen))
