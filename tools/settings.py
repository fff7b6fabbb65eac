"""Settings of judging: the one class that carries them from the command line to the checker.

Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Self

from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.baseline_names import BASELINE_NAMES, COMPILE_LIMIT_S

CALL_TIMEOUT_S = 20.0
"""Time limit of one call. A call in the interpreter takes a second or two; a longer one is an endless loop."""
COMPILE_TIMEOUT_S = 60.0


class Profiling(enum.StrEnum):
    NONE = "none"
    """Profile no candidate, as for `evaluate` without `--profile`."""
    LEADERS = "leaders"
    """Profile candidates that are among the fastest so far, which a search builds on."""
    ALL = "all"
    """Profile every candidate, for rewards that depend on the share of own kernels."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSettings:
    """How candidates are judged. Training and benchmarks use the defaults."""

    device: str = "cpu"
    """`cpu`: the interpreter; `cuda`: run and time on one GPU."""
    card: str = ""
    """UUID of the GPU; empty for the first visible one."""
    target: str | None = "cuda:90"
    """Compile ahead of time for this target; None skips that stage."""
    allow_library: bool = False
    modes: tuple[str, ...] = ("eval", "train")
    screen: bool = True
    remedies: bool = True
    shapes: str = "family"
    """`family`: check variants of the problem's sizes too; `given`: check only the given (or scaled-down) sizes."""
    layouts: bool = True
    """Call the reference with inputs in other memory layouts. Off for a reference that does not survive them."""
    lengths: tuple[tuple[int, ...], ...] = ()
    """Lengths of the problem's ranges to judge at; if empty, the checker chooses them."""
    precision: str = "same"
    """`same`: torch's defaults; `tf32`: reference, baselines and candidate may multiply float32 in TF32."""
    autocast: str = ""
    """`float16` or `bfloat16`: call the reference and the candidate under autocast with this dtype."""
    baselines: tuple[str, ...] = ()
    """Names of additional baselines (`race/baseline_names.py`) to time on a GPU."""
    baseline_limit_s: float = COMPILE_LIMIT_S
    """Time limit for compiling the reference with torch's compiler."""
    max_memory_ratio: float | None = None
    """Maximum device memory a call may take, as a multiple of the reference's; None for no limit."""
    timed: bool = True
    """On a GPU: time the correct candidates. Set to False if only correctness matters."""
    profile: Profiling = Profiling.LEADERS
    """On a GPU: which passed candidates are profiled."""
    call_timeout_s: float = CALL_TIMEOUT_S
    compile_timeout_s: float = COMPILE_TIMEOUT_S
    total_timeout_s: float = 120.0
    waits_for_memory: bool = True
    """On a GPU: wait until the card has enough memory free. Set to False beside an evaluator that holds memory already:
    who holds some must not wait for more."""
    memory_bytes: int = 4 << 30
    """Host memory that one candidate may use."""
    trust: bool = True
    """Set to False for a problem file from elsewhere: its code then runs confined as well."""
    confine: bool = True
    """Set to False only to run one's own kernels without the sandbox; the verdict then says so."""
    require_sandbox: bool = False
    """Refuse to run if an essential layer of the sandbox is missing."""

    def within(self, total_s: float) -> Self:
        """Return settings with this time limit for a whole verdict, which also limits each stage."""
        call_s, compile_s = min(CALL_TIMEOUT_S, total_s), min(COMPILE_TIMEOUT_S, total_s)
        return dataclasses.replace(self, call_timeout_s=call_s, compile_timeout_s=compile_s, total_timeout_s=total_s)

    @property
    def conditions(self) -> Conditions:
        """Precision and autocast under which the reference, its baselines and the candidate run."""
        return Conditions(precision=self.precision, autocast=self.autocast)

    def __post_init__(self) -> None:
        _ = self.conditions  # raises ValueError for an unknown precision or autocast dtype
        if self.card and self.device != "cuda":
            raise ValueError(f"a card is for cuda, not for {self.device}")
        if unknown := set(self.baselines) - set(BASELINE_NAMES):
            raise ValueError(f"no baselines: {sorted(unknown)}; there are {', '.join(BASELINE_NAMES)}")
        if self.max_memory_ratio is not None and not self.max_memory_ratio > 0:
            raise ValueError(f"the ratio of memory must be above zero, not {self.max_memory_ratio}")
