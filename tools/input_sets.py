"""Several calls that a kernel has to serve, with weights: `--set "f32[1,1024]" --set "long=f32[64,1024]@3"`.

Text to values. A set is what one call is made with, described or saved in a file; its weight says how much its speed
counts in the figure over all of them. Whether the original takes a set is found out when it runs on it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.tools.errors import UsageError
from triton_agent.tools.input_spec import DTYPES, InputSpec, parse_input

MOST_SETS = 16
"""Each has the original running in a process of its own, and every candidate is judged at each."""
GRAMMAR = (
    'write the inputs of one call, several separated by ";", and a weight behind "@" where it is not 1: '
    '--set "f32[1,1024]" --set "long=f32[64,1024]; i64[64]<50 @3"; a name before "=" is for the reader; '
    f"dtypes: {' '.join(DTYPES)}"
)
_NAMED = re.compile(r"\s*([A-Za-z_][\w.\- ]*?)\s*=(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InputSet:
    """What one call is made with."""

    name: str
    inputs: tuple[InputSpec, ...] = ()
    inputs_file: str | None = None
    """Absolute path of saved inputs, in place of `inputs`."""
    weight: float = 1.0
    """How much its speed counts, beside the others' weights."""

    def __post_init__(self) -> None:
        if not self.name or bool(self.inputs) == (self.inputs_file is not None):
            raise ValueError("a set has a name, and either inputs or a file of inputs")
        if not 0 < self.weight < math.inf:
            raise ValueError(f"a weight is above zero, not {self.weight}")

    def __str__(self) -> str:
        return self.name if self.weight == 1 else f"{self.name} (weight {self.weight:g})"

    @property
    def content(self) -> str:
        """The inputs as text; of a file, its name."""
        return Path(self.inputs_file).name if self.inputs_file else "; ".join(map(str, self.inputs))

    @property
    def elements(self) -> int:
        """Of all tensors that are described."""
        return sum(math.prod(item.shape) for item in self.inputs)

    def to_json(self) -> dict[str, Any]:
        inputs = [str(item) for item in self.inputs]
        return {"name": self.name, "inputs": inputs, "inputs_file": self.inputs_file, "weight": self.weight}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> InputSet:
        return cls(**{**data, "inputs": tuple(parse_input(text) for text in data["inputs"])})


def parse_sets(texts: Sequence[str]) -> tuple[InputSet, ...]:
    """The values of all `--set` and repeated `--inputs`, which have to go together."""
    found = tuple(map(parse_set, texts))
    require_consistent(found)
    return found


def require_consistent(sets: Sequence[InputSet]) -> None:
    """Refuse sets that cannot be those of one module, or could not be told apart."""
    if len(sets) > MOST_SETS:
        raise UsageError(f"{len(sets)} sets of inputs", remedy=f"at most {MOST_SETS}: those that matter most")
    described = [item for item in sets if item.inputs]
    for item in described:
        if len(item.inputs) != len(described[0].inputs):
            first = described[0]
            raise UsageError(
                f"sets of {len(first.inputs)} and of {len(item.inputs)} arguments: {first.content}, and {item.content}",
                where="--set",
                remedy='every set has all arguments of one call, separated by ";": --set "f32[8,16]; f32[16]"',
            )
    names = [item.name for item in sets]
    for item in sets:
        if names.count(item.name) > 1:
            raise UsageError(
                f"two sets are called {item.name}",
                where="--set",
                remedy='give one of them another name: "other=f32[8,16]", or leave it out and raise the weight',
            )


def main_first(sets: Sequence[InputSet]) -> tuple[InputSet, ...]:
    """The heaviest, of equals the largest, before the others: sizes are varied around it, and authors are shown it."""
    main = max(sets, key=lambda item: (item.weight, item.elements), default=None)
    return tuple(sorted(sets, key=lambda item: item is not main))


def parse_set(text: str) -> InputSet:
    """`[NAME=]INPUTS[@WEIGHT]`, where INPUTS are described, or a file's path."""
    where = f"--set {text!r}"
    if Path(text).is_file():  # whatever its name looks like
        return InputSet(name=Path(text).stem, inputs_file=str(Path(text).resolve()))
    content, at, weight_text = text.rpartition("@")
    weight = _weight(weight_text, where) if at else 1.0
    named = _NAMED.fullmatch(content if at else text)
    name, content = (named[1], named[2].strip()) if named else ("", (content if at else text).strip())
    if not content:
        raise UsageError("a set without inputs", where=where, remedy=GRAMMAR)
    if Path(content).is_file():
        file = Path(content).resolve()
        return InputSet(name=name or file.stem, inputs_file=str(file), weight=weight)
    if "[" not in content:
        remedy = f"name a file that torch.save wrote a list of inputs to, or {GRAMMAR}"
        raise UsageError(f"no such file of inputs, and no inputs: {content!r}", where=where, remedy=remedy)
    inputs = tuple(_input(part, where) for part in content.split(";"))
    return InputSet(name=name or "; ".join(map(str, inputs)), inputs=inputs, weight=weight)


def _weight(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"not a weight: {text!r}", where=where, remedy=GRAMMAR) from None
    if not 0 < value < math.inf:
        remedy = 'a number above zero; a set that does not count is left out: "f32[64,1024]@3"'
        raise UsageError(f"weight {text.strip()}", where=where, remedy=remedy)
    return value


def _input(text: str, where: str) -> InputSpec:
    try:
        return parse_input(text)
    except UsageError as error:
        raise UsageError(error.what, where=where, remedy=GRAMMAR) from None
