"""The request of `triton-agent optimize`: read from the command line, checked, stored with the run, and read back."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triton_agent.agent.settings import LoopSettings
from triton_agent.memory.observation import Rules
from triton_agent.runs.cli.devices import choose
from triton_agent.runs.cli.model_options import ModelOptions
from triton_agent.runs.cli.policies import DEFAULT, asks_models, require_known
from triton_agent.tools.compile.targets import parse_target
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.input_spec import InputSet
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.settings import EvaluatorSettings

COMPARED_WITH = ("compile",)
"""Baselines of a measured speed-up, beside the eager reference."""
UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
DRAFT_PATIENCE = 0
"""Further turns of the built-in author after a kernel passed, where nothing is timed. Later turns vary tiles and warps,
which only a clock can tell apart.
"""
BUILTIN_PATIENCE = 2
"""Turns without a better kernel after which a run of the built-in author ends; on a GPU a turn looks at 24 variants."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeRequest(ModelOptions):
    """Everything that decides how a run proceeds; where results are shown and written is not part of it."""

    problem: str
    init: str | None = None
    inputs: tuple[str, ...] = ()
    inputs_file: str | None = None
    sets: tuple[InputSet, ...] = ()
    dynamic: tuple[str, ...] = ()
    """Ranges of sizes that the file has to serve."""
    policy: str = DEFAULT
    device: str = "cpu"
    cards: str = ""
    """The visible GPUs that share the evaluations, as named after the colon of `--device`; empty for the first."""
    target: str = "cuda:90"
    own_kernels: bool = False
    cuda_graph: bool = False
    """True if the shipped file replays its calls as CUDA graphs."""
    turns: int = 12
    parallel: int = 4
    seconds: float | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    seed: int = 0
    timeout_s: float = 120.0
    shapes: str = "family"
    parts: bool = False
    """True if the model is optimized by its submodules."""
    part_of: str = ""
    """Id of the whole model's run, if this run optimizes one of its parts."""
    trust: bool = True
    """False if the problem file's code runs in the sandbox as well."""

    def model_options(self) -> ModelOptions:
        """Return the options for language models; raise UsageError for a cost limit without a price."""
        if self.max_cost is not None and self.price is None and asks_models(self.policy):
            raise UsageError(f"--max-cost {self.max_cost} without a price", remedy="--price IN,OUT per million tokens")
        return self

    def spec(self) -> ProblemSpec:
        """Parse the problem; raise UsageError for combinations that --parts does not support."""
        if self.parts and len(self.sets) > 1:
            raise UsageError(
                "--parts needs a single call of the model, not several sets of inputs",
                remedy="leave out --parts, or keep the set that matters most",
            )
        if self.parts and not self.trust:
            raise UsageError(
                "--parts runs the problem's code outside the sandbox, to look at its submodules",
                remedy="leave out --parts or --no-trust",
            )
        if self.parts and self.dynamic:
            raise UsageError("--parts needs fixed sizes, not a range of sizes", remedy="leave out one")
        return parse_problem(
            self.problem,
            init=self.init,
            inputs=self.inputs,
            inputs_file=self.inputs_file,
            sets=self.sets,
            dynamic=self.dynamic,
        )

    def loop(self) -> LoopSettings:
        """Return the settings of the search."""
        for name, value in (("--turns", self.turns), ("--parallel", self.parallel)):
            if value < 1:
                raise UsageError(f"{name} {value}", remedy="at least 1")
        for name, limit in (("--max-tokens", self.max_tokens), ("--max-cost", self.max_cost)):
            if limit is not None and limit <= 0:
                raise UsageError(f"{name} {limit}", remedy="a positive number, or leave it out for no limit")
        settings = LoopSettings(
            rules=Rules(allow_library=not self.own_kernels, target=self.target),
            turns=self.turns,
            parallel=self.parallel,
            at_once=len(os.sched_getaffinity(0)) if self.device == "cpu" else None,
            seconds=self.seconds,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
            seed=self.seed,
        )
        if self.policy != DEFAULT:
            return settings
        return dataclasses.replace(settings, patience=DRAFT_PATIENCE if self.device == "cpu" else BUILTIN_PATIENCE)

    def judging(self, card: str = "") -> EvaluatorSettings:
        """Return the settings of the evaluator, on the GPU of that UUID."""
        return EvaluatorSettings(
            device=self.device,
            card=card,
            target=self.target,
            allow_library=not self.own_kernels,
            shapes=self.shapes,
            baselines=COMPARED_WITH if self.device == "cuda" else (),
            trust=self.trust,
        ).within(self.timeout_s)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {
            "inputs": list(self.inputs),
            "dynamic": list(self.dynamic),
            "sets": [item.to_json() for item in self.sets],
            "problem": str(_absolute(self.problem)),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> OptimizeRequest:
        known = {field.name for field in dataclasses.fields(cls)}
        calls = {
            "inputs": tuple(data.get("inputs", ())),
            "dynamic": tuple(data.get("dynamic", ())),
            "sets": tuple(map(InputSet.from_json, data.get("sets", ()))),
        }
        return cls(**{key: value for key, value in data.items() if key in known} | calls)


def _absolute(target: str) -> str:
    """Make the path absolute, so that the run can be resumed from another folder."""
    path, colon, class_name = target.rpartition(":") if not Path(target).exists() else (target, "", "")
    return f"{Path(path or target).resolve()}{colon}{class_name}"


def parse_seconds(text: str | None) -> float | None:
    """Parse a time such as `90`, `90s`, `10m` or `1.5h` into seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if not found or float(found[1]) <= 0:
        raise UsageError(f"--budget {text}", remedy="a time such as 90s, 10m or 1h")
    return float(found[1]) * UNITS_S[found[2]]


def requested(given: Mapping[str, Any]) -> OptimizeRequest:
    """Read the options of the command; raise UsageError for what is wrong without importing torch."""
    if not given["problem"]:
        raise UsageError("nothing to optimize", remedy="name a file, or an earlier run with --resume RUN")
    fields = {key: value for key, value in given.items() if key != "budget"}
    parse_target(given["target"])
    chosen = choose(given["device"])
    where = {"device": chosen.device, "cards": chosen.cards}
    request = OptimizeRequest(**fields | where | {"seconds": parse_seconds(given["budget"])})
    require_known(request.policy)
    request.spec()
    request.loop()
    return request
