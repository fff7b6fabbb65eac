"""What a person writes on the command line about a module: `--input "f16[8,128]"` and `--init "512, bias=False"`.

Text to values and back. It knows neither torch nor files; that an argument suits the module is found out when the
module is made.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import re
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

GRAMMAR = (
    'write dtype[size,size,...]: "f16[8,128,1024]", "f32[]" for a scalar, "i64[8]<50000" for integers 0 to 49999; '
    f"dtypes: {' '.join(DTYPES)}"
)

_INPUT = re.compile(r"\s*([A-Za-z_][\w.]*)\s*\[([^\[\]]*)\]\s*(?:<\s*(\d[\d_]*)\s*)?")
_OTHER_NAMES = {"half": "f16", "float": "f32", "double": "f64", "long": "i64", "int": "i32", "short": "i16"}
_WORDS = {word: word for word in DTYPES} | {name: word for word, name in DTYPES.items()} | _OTHER_NAMES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One input tensor as a person describes it."""

    dtype: str
    """The short word, as in `DTYPES`."""
    shape: tuple[int, ...]
    below: int | None = None
    """Integers are drawn from 0 up to, not including, this; None leaves the range to whoever draws."""

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


def parse_input(text: str) -> InputSpec:
    """The value of one `--input`."""
    match = _INPUT.fullmatch(text)
    if match is None:
        raise UsageError(f"not an input: {text!r}", where="--input", remedy=GRAMMAR)
    dtype = _dtype_word(match[1], text)
    sizes = [size.strip() for size in match[2].split(",")] if match[2].strip() else []
    if sizes and sizes[-1] == "":
        sizes.pop()  # "f32[8,]", as Python writes a tuple of one
    if not all(re.fullmatch(r"\d[\d_]*", size) for size in sizes):
        raise UsageError(f"sizes must be whole numbers: {text!r}", where="--input", remedy=GRAMMAR)
    below = None if match[3] is None else int(match[3])
    try:
        return InputSpec(dtype=dtype, shape=tuple(map(int, sizes)), below=below)
    except ValueError as error:
        raise UsageError(f"{error}: {text!r}", where="--input", remedy=GRAMMAR) from None


def _dtype_word(name: str, text: str) -> str:
    name = name.removeprefix("torch.").lower()
    if name in _WORDS:
        return _WORDS[name]
    close = difflib.get_close_matches(name, _WORDS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise UsageError(f"unknown dtype {name!r} in {text!r}", where="--input", remedy=hint + GRAMMAR)


def parse_arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The value of `--init`: Python literals as one writes them between the parentheses of a call."""
    call = _as_call(text)
    if call is None:
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


def _as_call(text: str) -> ast.Call | None:
    try:
        tree = ast.parse(f"arguments({text}\n)", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return tree
    return None


def _literal(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
        if ast.literal_eval(repr(value)) == value:  # it has to cross to another process as text
            return value
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    raise UsageError(
        f"{ast.unparse(node)} is not a Python literal",
        where="--init",
        remedy="use numbers, strings, True, False, None, tuples, lists, dicts; "
        "for anything else write a file with Model, get_inputs() and get_init_inputs()",
    )
