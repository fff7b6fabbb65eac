"""Settings of a benchmark: policy, number of samples, rules. Kept with its record, so that it can be continued."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from triton_agent.agent.settings import LoopSettings
from triton_agent.memory.observation import Rules
from triton_agent.runs.bench.outcomes import BASELINES
from triton_agent.runs.bench.rows import Mode
from triton_agent.tools.errors import UsageError
from triton_agent.tools.processes.torch_switches import PRECISIONS
from triton_agent.tools.race.baseline_names import COMPILE_LIMIT_S
from triton_agent.tools.settings import EvaluatorSettings

VERIFIED, ORIGINAL = "verified", "original"
PROTOCOLS = (VERIFIED, ORIGINAL)
ELSEWHERE = ("kernels", "clone", "base_url", "api_key_env", "vllm_python", "cards", "at_once", "compile_limit_s")
"""Settings that may differ between parts of one benchmark: the place of a folder or a server, the free cards, the
problems that share one, and the time limit of torch.compile. Each kernel is timed with its card to itself.
"""
UNSAID = {"precision": "same"}
"""Values for records that are older than a setting."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """Settings of a benchmark, except its problems."""

    policy: str
    """The policy as in `--policy`, or `kernels:NAME`."""
    policy_version: str
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Options for language models that were given: fields of `ModelOptions`."""
    kernels: str = ""
    """Absolute path of the folder with kernels of others; empty if a policy writes."""
    clone: str = ""
    """Absolute path of the public benchmark's folder; empty for the project's own suite."""
    mode: Mode = Mode.OWN_KERNELS
    precision: str = "same"
    """`tf32`: float32 products may run in TF32, in the reference and its baselines as in the kernels."""
    samples: int = 1
    """Independent attempts at each problem; for kernels of others the number of files."""
    turns: int = 12
    parallel: int = 4
    budget_s: float | None = None
    """Time limit of one sample."""
    device: str = "cpu"
    cards: str = ""
    """The visible GPUs to use, as named after the colon of `--device`; empty for the first."""
    at_once: int = 1
    """Problems at a time on each GPU: while one is read or compiled, another is timed."""
    target: str = "cuda:90"
    seed: int = 0
    timeout_s: float = 120.0
    compile_limit_s: float = COMPILE_LIMIT_S
    """Time limit for torch.compile on one reference; if that takes longer, the baseline is missing."""
    trust: bool = True
    protocol: str = VERIFIED
    """`original`: report the public benchmark's own check beside the verdicts."""

    def __post_init__(self) -> None:
        for name, value in (
            ("--attempts", self.samples),
            ("--turns", self.turns),
            ("--parallel", self.parallel),
            ("--at-once", self.at_once),
        ):
            if value < 1:
                raise UsageError(f"{name} {value}", remedy="at least 1")
        if self.protocol not in PROTOCOLS:
            raise UsageError(f"--protocol {self.protocol}", remedy=" or ".join(PROTOCOLS))
        if self.precision not in PRECISIONS:
            raise UsageError(f"--precision {self.precision}", remedy=" or ".join(PRECISIONS))
        for name, seconds in (("--timeout", self.timeout_s), ("--compile-limit", self.compile_limit_s)):
            if not 0 < seconds < float("inf"):
                raise UsageError(f"{name} {seconds:g}", remedy="a positive number of seconds")

    @property
    def rules(self) -> Rules:
        return Rules(allow_library=self.mode is Mode.ALLOW_LIBRARY, precision=self.precision, target=self.target)

    def loop(self, index: int) -> LoopSettings:
        """Return the search settings of one sample; each sample has its own seed."""
        return LoopSettings(
            rules=self.rules,
            turns=self.turns,
            parallel=self.parallel,
            seconds=self.budget_s,
            seed=self.seed + index,
        )

    def judging(self, card: str = "") -> EvaluatorSettings:
        """Return the evaluator's settings, on the GPU with that UUID."""
        return EvaluatorSettings(
            device=self.device,
            card=card,
            target=self.target,
            allow_library=self.mode is Mode.ALLOW_LIBRARY,
            precision=self.precision,
            baselines=BASELINES if self.device == "cuda" else (),
            baseline_limit_s=self.compile_limit_s,
            trust=self.trust,
        ).within(self.timeout_s)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"mode": self.mode.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BenchSettings:
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known} | {"mode": Mode(data["mode"])})


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Describe why two sets of settings are not of the same benchmark; empty if they are."""
    there, now = ({**UNSAID, **settings, **settings.get("model", {})} for settings in (one, other))
    names = [name for name in {**there, **now} if name not in ("model", *ELSEWHERE)]
    return [
        f"{name} {there.get(name)} there, {now.get(name)} now" for name in names if there.get(name) != now.get(name)
    ]
