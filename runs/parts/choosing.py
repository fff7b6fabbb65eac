"""Chooses the submodules of a model that become problems of their own: the largest that one proposal can cover.

Functions of a survey, without side effects. Parts do not overlap; modules that are alike are one part.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from triton_agent.runs.parts.survey import ModelSurvey, Submodule, submodule_from_json
from triton_agent.tools.graph.operators import kind_of

OPERATORS_AT_MOST = 40
"""Most operators in a part; a layer of a transformer has about 30."""
WORTH_PARTS = 100
"""Number of operators from which `--parts` is suggested, since a file for the whole grows with each layer's calls."""
IDLE = frozenset({"view", "allocation", "metadata"})
"""Kinds of operators that do no computation."""
LEAST_SHARE = 0.02
"""Least share of the model's time for which a part is worth optimizing."""
PARTS_AT_MOST = 6


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """One part: all places in a model with the same module."""

    name: str
    """Python identifier made from the name of the class: `layer`, `layer_2`."""
    paths: tuple[str, ...]
    share: float
    """Share of the model's time."""
    module: Submodule
    """The module at the first place."""
    moved_bytes: int
    """Bytes moved by the reference's operators in all places."""
    floor_bytes: int
    inner: tuple[PartPlan, ...] = ()
    """Smaller parts within it, tried if this one fails."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PartPlan:
        inner = tuple(map(cls.from_json, data["inner"]))
        module = submodule_from_json(data["module"])
        return cls(**{**data, "paths": tuple(data["paths"]), "module": module, "inner": inner})


def choose(survey: ModelSurvey) -> tuple[PartPlan, ...]:
    """Choose parts, the most expensive first; none if no submodule is suitable."""
    return _plans(survey.submodules[1:], survey.root.cost_ms or 1.0, _Names())


def _plans(modules: Sequence[Submodule], whole_ms: float, names: _Names) -> tuple[PartPlan, ...]:
    groups: dict[str, list[Submodule]] = {}
    for module in _widest(modules):
        groups.setdefault(module.alike, []).append(module)
    ranked = sorted(groups.values(), key=lambda group: -sum(item.cost_ms for item in group))
    shares = [(group, sum(item.cost_ms for item in group) / whole_ms) for group in ranked]
    plans = [
        PartPlan(
            name=names.of(group[0].class_name),
            paths=tuple(item.path for item in group),
            share=share,
            module=group[0],
            moved_bytes=sum(item.moved_bytes for item in group),
            floor_bytes=sum(item.floor_bytes for item in group),
        )
        for group, share in shares[:PARTS_AT_MOST]
        if share >= LEAST_SHARE
    ]
    within = [[item for item in modules if _lies_in(item, plan.paths)] for plan in plans]
    return tuple(
        dataclasses.replace(plan, inner=_plans(inside, whole_ms, names)) for plan, inside in zip(plans, within)
    )


def _widest(modules: Sequence[Submodule]) -> list[Submodule]:
    """Return the largest suitable modules from the root down, and none within them."""
    taken: list[Submodule] = []
    for module in modules:
        inside = _lies_in(module, [other.path for other in taken])
        if not inside and not module.why_not and 2 <= module.operators <= OPERATORS_AT_MOST:
            taken.append(module)
    return taken


def _lies_in(module: Submodule, paths: Sequence[str]) -> bool:
    return any(module.path.startswith(f"{path}.") for path in paths)


def suggestion(graphs: Sequence[Mapping[str, Any]]) -> str:
    """Return a hint to use `--parts`; empty if one proposal can cover the model."""
    operators = sum(kind_of(node["operator"]) not in IDLE for node in graphs[0]["nodes"]) if graphs else 0
    if operators < WORTH_PARTS:
        return ""
    return f"it runs {operators} operators: with --parts its submodules are optimized one by one, then put together"


class _Names:
    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def of(self, class_name: str) -> str:
        base = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
        self._used[base] = self._used.get(base, 0) + 1
        return base if self._used[base] == 1 else f"{base}_{self._used[base]}"


def refusals(survey: ModelSurvey) -> list[str]:
    """Explain why the most expensive submodules are not parts; submodules inside others are not counted again."""
    said: dict[str, float] = {}
    for module in survey.submodules[1:]:
        if module.why_not and module.operators > 1 and "not called" not in module.why_not:
            line = f"{module.class_name}: {module.why_not}"
            said[line] = said.get(line, 0.0) + module.cost_ms
    return sorted(said, key=lambda line: -said[line])[:4]
