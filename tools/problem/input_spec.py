"""Inputs and arguments as a person writes them: `--input "f16[8,128]"`, `--init "512, bias=False"`, `--set "f32[1]@3"`.

Converts text to values and back, without torch. Whether an argument suits the module is found out when the module is
made, and whether the reference takes a set of inputs when it runs.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.tools.errors import UsageError

DTYPES: dict[str, str] = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
    "c64": "complex64",
    "c128": "complex128",
}
"""The short word of each dtype and torch's name for it. Both are accepted; the short one is kept."""

INTEGER_LIMITS = {"i64": 2**63 - 1, "i32": 2**31 - 1, "i16": 2**15 - 1, "i8": 127, "u8": 255}
"""The largest value of each integer dtype."""

MOST_SETS = 16
"""For each set the reference runs in its own process, and every candidate is judged at each set."""

_INPUT_GRAMMAR = (
    'write dtype[size,size,...]: "f16[8,128,1024]", "f32[]" for a scalar, "i64[8]<50000" for integers 0 to 49999; '
    f"dtypes: {' '.join(DTYPES)}"
)
_SET_GRAMMAR = (
    'write all inputs of one call, separated by ";", and a weight after "@" if it is not 1: '
    '--set "f32[1,1024]" --set "long=f32[64,1024]; i64[64]<50 @3"; the name before "=" appears in reports; '
    f"dtypes: {' '.join(DTYPES)}"
)
_INPUT = re.compile(r"\s*([A-Za-z_][\w.]*)\s*\[([^\[\]]*)\]\s*(?:<\s*(\d[\d_]*)\s*)?")
_NAMED_SET = re.compile(r"\s*([A-Za-z_][\w.\- ]*?)\s*=(.*)", re.DOTALL)
_OTHER_NAMES = {"half": "f16", "float": "f32", "double": "f64", "long": "i64", "int": "i32", "short": "i16"}
_WORDS = {word: word for word in DTYPES} | {name: word for word, name in DTYPES.items()} | _OTHER_NAMES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One input tensor as a person describes it."""

    dtype: str
    """The short word, as in `DTYPES`."""
    shape: tuple[int, ...]
    below: int | None = None
    """Integers are drawn from 0 up to, and without, this; with None the caller chooses the range."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"not a dtype word: {self.dtype}")
        if any(size < 0 for size in self.shape):
            raise ValueError(f"a size cannot be negative: {self.shape}")
        if self.below is not None and not 1 <= self.below <= INTEGER_LIMITS.get(self.dtype, 0) + 1:
            raise ValueError(f"{self.dtype} cannot hold the integers below {self.below}")

    def __str__(self) -> str:
        limit = "" if self.below is None else f"<{self.below}"
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{limit}"


def parse_input(text: str, *, where: str = "--input", grammar: str = _INPUT_GRAMMAR) -> InputSpec:
    """Parse the value of one `--input`. Errors name the option `where` the text was written."""
    match = _INPUT.fullmatch(text)
    if match is None:
        raise UsageError(f"not an input: {text!r}", where=where, remedy=grammar)
    name = match[1].removeprefix("torch.").lower()
    if name not in _WORDS:
        close = difflib.get_close_matches(name, _WORDS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"unknown dtype {name!r} in {text!r}", where=where, remedy=hint + grammar)
    sizes = [size.strip() for size in match[2].split(",")] if match[2].strip() else []
    if sizes and sizes[-1] == "":
        sizes.pop()  # "f32[8,]", as Python writes a tuple of one
    if not all(re.fullmatch(r"\d[\d_]*", size) for size in sizes):
        raise UsageError(f"sizes must be whole numbers: {text!r}", where=where, remedy=grammar)
    below = None if match[3] is None else int(match[3])
    try:
        return InputSpec(dtype=_WORDS[name], shape=tuple(map(int, sizes)), below=below)
    except ValueError as error:
        raise UsageError(f"{error}: {text!r}", where=where, remedy=grammar) from None


def parse_arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Parse the value of `--init`: Python literals, written as between the parentheses of a call."""
    try:
        call: ast.expr | None = ast.parse(f"arguments({text}\n)", mode="eval").body
    except (SyntaxError, ValueError):
        call = None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        raise UsageError(
            f"not an argument list: {text!r}",
            where="--init",
            remedy='write it as in a call: --init "512, 8, bias=False"',
        )
    positional = tuple(_literal(argument) for argument in call.args)
    keywords = {keyword.arg or "**": _literal(keyword.value) for keyword in call.keywords}
    if "**" in keywords:
        raise UsageError("'**' cannot be used here", where="--init", remedy="write each keyword: name=value")
    return positional, keywords


def _literal(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
        if ast.literal_eval(repr(value)) == value:  # it is sent to another process as text
            return value
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    raise UsageError(
        f"{ast.unparse(node)} is not a Python literal",
        where="--init",
        remedy="use numbers, strings, True, False, None, tuples, lists, dicts; "
        "for anything else write a file with Model, get_inputs() and get_init_inputs()",
    )


# -- several calls -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InputSet:
    """The inputs of one of several calls that a kernel must serve."""

    name: str
    inputs: tuple[InputSpec, ...] = ()
    inputs_file: str | None = None
    """Absolute path of saved inputs, in place of `inputs`."""
    lengths: tuple[int, ...] = ()
    """In place of both: the problem's inputs at these lengths of its ranges."""
    weight: float = 1.0
    """How much the speed of this call counts, relative to the weights of the others."""

    def __post_init__(self) -> None:
        kinds = (self.inputs, self.inputs_file, self.lengths)
        if not self.name or sum(map(bool, kinds)) != 1:
            raise ValueError("a set has a name, and inputs, a file of inputs or lengths")
        if not 0 < self.weight < math.inf:
            raise ValueError(f"a weight is above zero, not {self.weight}")

    def __str__(self) -> str:
        return self.name if self.weight == 1 else f"{self.name} (weight {self.weight:g})"

    @property
    def content(self) -> str:
        """The inputs as text, or the name of the file."""
        if self.lengths:
            return self.name
        return Path(self.inputs_file).name if self.inputs_file else "; ".join(map(str, self.inputs))

    def to_json(self) -> dict[str, Any]:
        inputs = [str(item) for item in self.inputs]
        plain = {"name": self.name, "inputs": inputs, "inputs_file": self.inputs_file, "weight": self.weight}
        return plain | ({"lengths": list(self.lengths)} if self.lengths else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> InputSet:
        inputs = tuple(parse_input(text) for text in data["inputs"])
        return cls(**{**data, "inputs": inputs, "lengths": tuple(data.get("lengths", ()))})


def parse_sets(texts: Sequence[str]) -> tuple[InputSet, ...]:
    found = tuple(map(parse_set, texts))
    require_consistent(found)
    return found


def require_consistent(sets: Sequence[InputSet]) -> None:
    """Refuse too many sets, sets with different numbers of arguments, and two sets of one name."""
    if len(sets) > MOST_SETS:
        raise UsageError(f"{len(sets)} sets of inputs", remedy=f"give at most {MOST_SETS}: those that matter most")
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
    """Put the set with the highest weight first, and of equal ones the largest.

    Sizes are varied around the first set, and authors are shown it.
    """

    def rank(item: InputSet) -> tuple[float, int]:
        return item.weight, sum(math.prod(one.shape) for one in item.inputs)

    main = max(sets, key=rank, default=None)
    return tuple(sorted(sets, key=lambda item: item is not main))


def parse_set(text: str) -> InputSet:
    """Parse `[NAME=]INPUTS[@WEIGHT]`, where INPUTS are descriptions or the path of a file."""
    where = f"--set {text!r}"
    if Path(text).is_file():  # even if its name contains "@" or "="
        return InputSet(name=Path(text).stem, inputs_file=str(Path(text).resolve()))
    content, at, weight_text = text.rpartition("@")
    weight = 1.0
    if at:
        try:
            weight = float(weight_text)
        except ValueError:
            raise UsageError(f"not a weight: {weight_text!r}", where=where, remedy=_SET_GRAMMAR) from None
        if not 0 < weight < math.inf:
            remedy = 'write a number above zero, or leave the set out: "f32[64,1024]@3"'
            raise UsageError(f"weight {weight_text.strip()}", where=where, remedy=remedy)
    named = _NAMED_SET.fullmatch(content if at else text)
    name, content = (named[1], named[2].strip()) if named else ("", (content if at else text).strip())
    if not content:
        raise UsageError("a set without inputs", where=where, remedy=_SET_GRAMMAR)
    if Path(content).is_file():
        file = Path(content).resolve()
        return InputSet(name=name or file.stem, inputs_file=str(file), weight=weight)
    if "[" not in content:
        remedy = f"name a file that torch.save wrote a list of inputs to, or {_SET_GRAMMAR}"
        raise UsageError(f"no such file of inputs, and no inputs: {content!r}", where=where, remedy=remedy)
    inputs = tuple(parse_input(part, where=where, grammar=_SET_GRAMMAR) for part in content.split(";"))
    return InputSet(name=name or "; ".join(map(str, inputs)), inputs=inputs, weight=weight)
