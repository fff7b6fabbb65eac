"""How candidates are judged: the one class of settings, from the command line to the checker.

Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Self

from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.baseline_names import BASELINE_NAMES, COMPILE_LIMIT_S

CALL_TIMEOUT_S = 20.0
"""One call in the interpreter takes a second or two; longer than this is a loop without an end."""
COMPILE_TIMEOUT_S = 60.0


class Profiling(enum.StrEnum):
    NONE = "none"
    """None, as for `evaluate` without `--profile`."""
    LEADERS = "leaders"
    """Those that are among the fastest so far, which a search builds on."""
    ALL = "all"
    """All, as rewards need it that compare answers by their share of own kernels."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSettings:
    """How candidates are judged. The defaults are what training and benchmarks use."""

    device: str = "cpu"
    """`cpu`: the interpreter; `cuda`: run and time on one GPU."""
    card: str = ""
    """UUID of that GPU; empty for the first visible one."""
    target: str | None = "cuda:90"
    """Compile ahead of time for this target; None leaves that stage out."""
    allow_library: bool = False
    modes: tuple[str, ...] = ("eval", "train")
    screen: bool = True
    remedies: bool = True
    shapes: str = "family"
    """`family`: variants of the problem's sizes too; `given`: only the sizes as given (or scaled down)."""
    lengths: tuple[tuple[int, ...], ...] = ()
    """Lengths of the problem's ranges to judge at; none for a choice of the checker's own."""
    precision: str = "same"
    """`same`: as torch does it by default; `tf32`: original, baselines and candidate may multiply float32 in TF32."""
    autocast: str = ""
    """`float16` or `bfloat16`: forward is called under autocast, the reference's and the candidate's."""
    baselines: tuple[str, ...] = ()
    """Names of further baselines (`race/baseline_names.py`), for timing on a GPU."""
    baseline_limit_s: float = COMPILE_LIMIT_S
    """For torch's compiler on the reference."""
    max_memory_ratio: float | None = None
    """How many times the reference's device memory a call may take; None for any."""
    timed: bool = True
    """On a GPU: whether right candidates are timed; off where only right and wrong matter."""
    profile: Profiling = Profiling.LEADERS
    """On a GPU: which of the candidates that passed are profiled."""
    call_timeout_s: float = CALL_TIMEOUT_S
    compile_timeout_s: float = COMPILE_TIMEOUT_S
    total_timeout_s: float = 120.0
    memory_bytes: int = 4 << 30
    """What one candidate may use on the host."""
    trust: bool = True
    """Off for a problem file from elsewhere: its code then runs confined, too."""
    confine: bool = True
    """Off only where the machine's owner runs kernels of their own; the verdict says so."""
    require_sandbox: bool = False
    """Refuse to go on where an essential layer of the sandbox is missing."""

    def within(self, total_s: float) -> Self:
        """Return settings with this limit for a whole verdict; no stage may take longer either."""
        call_s, compile_s = min(CALL_TIMEOUT_S, total_s), min(COMPILE_TIMEOUT_S, total_s)
        return dataclasses.replace(self, call_timeout_s=call_s, compile_timeout_s=compile_s, total_timeout_s=total_s)

    @property
    def conditions(self) -> Conditions:
        """Under which the reference, its baselines and the candidate run."""
        return Conditions(precision=self.precision, autocast=self.autocast)

    def __post_init__(self) -> None:
        _ = self.conditions  # refuses what is none
        if self.card and self.device != "cuda":
            raise ValueError(f"a card is for cuda, not for {self.device}")
        if unknown := set(self.baselines) - set(BASELINE_NAMES):
            raise ValueError(f"no baselines: {sorted(unknown)}; there are {', '.join(BASELINE_NAMES)}")
        if self.max_memory_ratio is not None and not self.max_memory_ratio > 0:
            raise ValueError(f"a ratio of memory is above zero, not {self.max_memory_ratio}")
