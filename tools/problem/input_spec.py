"""Inputs and arguments as a user writes them: `--input "f16[8,128]"`, `--init "512, bias=False"`, `--set "f32[1]@3"`.

Converts text to values and back, without torch, and evaluates only literals. An unsuitable constructor argument shows
when the module is constructed, and unsuitable inputs show when the reference is called.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence
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
"""torch's name for each short dtype word. Both are accepted, and the short word is stored."""

INTEGER_LIMITS = {"i64": 2**63 - 1, "i32": 2**31 - 1, "i16": 2**15 - 1, "i8": 127, "u8": 255}
"""The largest value of each integer dtype."""

MOST_SETS = 16
"""Each set costs a process for the reference, and every candidate is judged at each set."""

_INPUT_GRAMMAR = (
    'write dtype[size,size,...]: "f16[8,128,1024]", "f32[]" for a scalar, "i64[8]<50000" for integers 0 to 49999; or a '
    "plain value (5, True, None, \"'full'\"), or a list, tuple, dict or named tuple of these, as in "
    '"State(f32[8], f32[8])"; with a name in front of it to pass it '
    f'by keyword: "mask=bool[8,128]", "pos=5"; dtypes: {" ".join(DTYPES)}'
)
_SET_GRAMMAR = (
    'write all inputs of one call, separated by ";", and a weight after "@" if it is not 1: '
    '--set "f32[1,1024]" --set "long=f32[64,1024]; i64[64]<50 @3"; the name before "=" appears in reports; '
    f"dtypes: {' '.join(DTYPES)}"
)
_INPUT = re.compile(r"\s*([A-Za-z_][\w.]*)\s*\[([^\[\]]*)\]\s*(?:<\s*(\d[\d_]*)\s*)?")
_NAMED_INPUT = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", re.DOTALL)
_SIZES = re.compile(r"\s*\d+(\s*,\s*\d+)+\s*")
"""A shape without a dtype, a common first attempt."""
_SCALAR = re.compile(r"([A-Za-z_]\w*)\[\s*\]")
"""A tensor without dimensions, such as `f32[]`, which is not valid Python."""
_NAMED_SET = re.compile(r"\s*([A-Za-z_][\w.\- ]*?)\s*=(.*)", re.DOTALL)
_OTHER_NAMES = {"half": "f16", "float": "f32", "double": "f64", "long": "i64", "int": "i32", "short": "i16"}
_WORDS = {word: word for word in DTYPES} | {name: word for word, name in DTYPES.items()} | _OTHER_NAMES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One input tensor as described by the user."""

    dtype: str
    """A short word of `DTYPES`."""
    shape: tuple[int, ...]
    below: int | None = None
    """Integers are drawn from 0 up to but excluding this bound; with None the caller chooses the range."""

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


Nest = Any
"""An `InputSpec`, a plain value, or a list, tuple, dictionary or `Made` of these."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GivenInput:
    """One argument of a call."""

    value: Nest
    name: str = ""
    """The parameter to pass it to by keyword; empty for a positional argument."""

    def __str__(self) -> str:
        return f"{self.name}={_text_of(self.value)}" if self.name else _text_of(self.value)

    @property
    def tensors(self) -> tuple[InputSpec, ...]:
        """The tensors in the value."""
        found: list[InputSpec] = []
        mapped(self.value, lambda leaf: found.append(leaf) if isinstance(leaf, InputSpec) else None)
        return tuple(found)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A call of a class of the problem's file, as an argument of the constructor: `GPTConfig(n_embd=256)`."""

    class_name: str
    positional: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        given = [repr(value) for value in self.positional]
        return f"{self.class_name}({', '.join(given + [f'{name}={value!r}' for name, value in self.keywords.items()])})"


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to every leaf of a nested value; the arguments of a `Made` count as nested."""
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, change) for item in value)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, Made):
        positional, keywords = mapped((value.positional, dict(value.keywords)), change)
        return Made(class_name=value.class_name, positional=positional, keywords=keywords)
    return change(value)


def _text_of(value: Nest) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_text_of(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text_of, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text_of, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Made):
        named = (f"{name}={_text_of(item)}" for name, item in value.keywords.items())
        return f"{value.class_name}({', '.join([*map(_text_of, value.positional), *named])})"
    return str(value) if isinstance(value, InputSpec) else repr(value)


def parse_inputs(
    texts: Sequence[str], *, where: str = "--input", grammar: str = _INPUT_GRAMMAR
) -> tuple[GivenInput, ...]:
    """Parse all arguments of one call."""
    found = tuple(parse_input(text, where=where, grammar=grammar) for text in texts)
    names = [item.name for item in found]
    for place, name in enumerate(names):
        if name and name in names[:place]:
            raise UsageError(f"{name} is given twice", where=where, remedy="keep one of them")
        if not name and any(names[:place]):
            remedy = "give those without a name first, in the order of forward's parameters"
            raise UsageError(f"{found[place]} has no name and follows {found[place - 1]}", where=where, remedy=remedy)
    return found


def parse_input(text: str, *, where: str = "--input", grammar: str = _INPUT_GRAMMAR) -> GivenInput:
    """Parse the value of one `--input`. Errors name the option `where` the text was written."""
    named = _NAMED_INPUT.fullmatch(text)
    name, content = (named[1], named[2]) if named else ("", text)
    if keyword.iskeyword(name):
        raise UsageError(f"not a name of a parameter: {name!r}", where=where, remedy=grammar)
    if _INPUT.fullmatch(content):
        return GivenInput(value=_tensor(content, where, grammar), name=name)
    for readable in (content.strip(), _SCALAR.sub(r"\1[()]", content.strip())):
        try:
            tree = ast.parse(readable, mode="eval").body
            if not isinstance(tree, ast.Tuple) or readable.startswith("("):  # else several inputs in one text
                return GivenInput(value=_nest(tree, where, grammar), name=name)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    hint = f'did you mean "f32[{text.strip()}]"? ' if _SIZES.fullmatch(text) else ""
    raise UsageError(f"not an input: {text!r}", where=where, remedy=hint + grammar)


def _nest(node: ast.expr, where: str, grammar: str) -> Nest:
    """Return the value of the expression; raise `ValueError` if it is neither a tensor nor a plain value."""
    if isinstance(node, (ast.Subscript, ast.Compare)):
        return _tensor(ast.unparse(node).replace("[()]", "[]").replace("(", "").replace(")", ""), where, grammar)
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [_nest(item, where, grammar) for item in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    if isinstance(node, ast.Dict):
        keys = [ast.literal_eval(key) if key is not None else None for key in node.keys]
        if not all(isinstance(key, str) for key in keys):
            raise ValueError("a key that is no text")
        return dict(zip(keys, (_nest(item, where, grammar) for item in node.values)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and all(item.arg for item in node.keywords):
        positional = tuple(_nest(item, where, grammar) for item in node.args)
        keywords = {str(item.arg): _nest(item.value, where, grammar) for item in node.keywords}
        made = Made(class_name=node.func.id, positional=positional, keywords=keywords)
        if GivenInput(value=made).tensors:
            return made
    return _plain(node)


def _tensor(text: str, where: str, grammar: str) -> InputSpec:
    match = _INPUT.fullmatch(text)
    if match is None:
        raise ValueError(text)
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
    """Parse the value of `--init`: the arguments of a call, made of literals and calls of classes.

    A called class stays a name here (`Made`); the problem's file has to define a class of that name.
    """
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
    return _arguments(call)


def made_in(value: Any) -> list[str]:
    """Return the names of the classes that are called in constructor arguments."""
    if isinstance(value, Made):
        return [value.class_name, *made_in(value.positional), *made_in(list(value.keywords.values()))]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return [name for item in items for name in made_in(item)]


def _arguments(call: ast.Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    positional = tuple(map(_constructor_argument, call.args))
    keywords = {item.arg or "**": _constructor_argument(item.value) for item in call.keywords}
    if "**" in keywords:
        raise UsageError("'**' cannot be used here", where="--init", remedy="write each keyword: name=value")
    return positional, keywords


def _constructor_argument(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        positional, keywords = _arguments(node)
        return Made(class_name=node.func.id, positional=positional, keywords=keywords)
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [_constructor_argument(item) for item in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    try:
        if isinstance(node, ast.Dict) and None not in node.keys:
            keys = [ast.literal_eval(key) for key in node.keys if key is not None]
            return dict(zip(keys, map(_constructor_argument, node.values)))
        return _plain(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise UsageError(
            f"{ast.unparse(node)} is not a Python literal",
            where="--init",
            remedy="use numbers, strings, True, False, None, tuples, lists, dicts, and calls of classes of the file: "
            '--init "Config(width=256), 8"; for anything else write a file with Model, get_inputs() and '
            "get_init_inputs()",
        ) from None


def _plain(node: ast.expr) -> Any:
    """Return a literal's value; raise `ValueError` or a similar error for anything else."""
    value = ast.literal_eval(node)
    if ast.literal_eval(repr(value)) != value:  # the value is sent to another process as text
        raise ValueError("it changes when it is written as text and read again")
    return value


# -- several calls -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InputSet:
    """The inputs of one call, where a kernel must serve several."""

    name: str
    inputs: tuple[GivenInput, ...] = ()
    inputs_file: str | None = None
    """Absolute path of saved inputs, in place of `inputs`."""
    lengths: tuple[int, ...] = ()
    """Instead of `inputs` and `inputs_file`: lengths of the problem's ranges, for the inputs at these lengths."""
    weight: float = 1.0
    """How much the speed of this call counts, relative to the weights of the other sets."""

    def __post_init__(self) -> None:
        kinds = (self.inputs, self.inputs_file, self.lengths)
        if not self.name or sum(map(bool, kinds)) != 1:
            raise ValueError("a set needs a name, and either inputs, a file of inputs or lengths")
        if not 0 < self.weight < math.inf:
            raise ValueError(f"a weight must be above zero, not {self.weight}")

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
        return cls(**{**data, "inputs": parse_inputs(data["inputs"]), "lengths": tuple(data.get("lengths", ()))})


def parse_sets(texts: Sequence[str]) -> tuple[InputSet, ...]:
    found = tuple(map(parse_set, texts))
    require_consistent(found)
    return found


def require_consistent(sets: Sequence[InputSet]) -> None:
    """Refuse too many sets, sets with different numbers of arguments, and two sets with one name."""
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
    """Put the set with the highest weight first; among equal weights, the one with the largest inputs.

    Variants of the sizes are made from the first set, and authors are shown it.
    """

    def rank(item: InputSet) -> tuple[float, int]:
        return item.weight, sum(math.prod(one.shape) for given in item.inputs for one in given.tensors)

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
    inputs = parse_inputs(content.split(";"), where=where, grammar=_SET_GRAMMAR)
    return InputSet(name=name or "; ".join(map(str, inputs)), inputs=inputs, weight=weight)
