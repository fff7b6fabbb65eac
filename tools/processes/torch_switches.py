"""Numeric switches of torch under which reference, baselines and candidate run.

A user who allows TF32, or calls the model under autocast, gets other values and other speeds, so everything that is
compared runs under the same switches. By default none is set. `reference/tensor_cores.py` emulates their effect on a
reference on machines without tensor cores.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

PRECISIONS = ("same", "tf32")
AUTOCASTS = ("float16", "bfloat16")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The user's choice of precision and autocast; plain data."""

    precision: str = "same"
    """`same`: torch's defaults; `tf32`: float32 products may run in TF32."""
    autocast: str = ""
    """The dtype of autocast around forward; empty for no autocast."""

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS or self.autocast not in ("", *AUTOCASTS):
            raise ValueError(f"no such conditions: {self}")

    def settle(self) -> None:
        """Set the switches for the whole process, before anything is measured."""
        if self.precision == "tf32":
            import torch  # not needed by a driver, which only passes conditions on

            torch.backends.cuda.matmul.allow_tf32 = True
            torch.backends.cudnn.allow_tf32 = True

    @contextlib.contextmanager
    def settled(self) -> Iterator[None]:
        """Set the switches for a block, for a baseline under other conditions than the rest of its process."""
        import torch

        switches: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
        before = [switch.allow_tf32 for switch in switches]
        self.settle()
        try:
            yield
        finally:
            for switch, value in zip(switches, before):
                switch.allow_tf32 = value

    def calling(self, device: str) -> contextlib.AbstractContextManager[Any]:
        """Return the context for one call of a module. A call on the CPU follows CUDA's autocast rules."""
        if not self.autocast:
            return contextlib.nullcontext()
        import torch

        from triton_agent.tools.processes import cuda_autocast

        if device == "cpu":
            cuda_autocast.install(computes=True)
        return torch.autocast(device, dtype=getattr(torch, self.autocast))


DEFAULT = Conditions()
"""torch's defaults."""
