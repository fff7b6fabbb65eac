"""The kernels on a tape: source text of each function, its parameters, and the values of the globals it uses.

The functions come from an untrusted process. Decoding checks only types and bounds; `language.check` decides whether a
text may be run. A function's identity is the hash of its content, so a helper of several kernels is stored once, sets
from several traces can be merged, and a function cannot refer to itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, get_args

from triton_agent.tools.processes.tensors import Malformed

MAX_FUNCTIONS: Final = 256
MAX_SOURCE: Final = 100_000
"""Maximum number of characters of one function."""
MAX_TOTAL_SOURCE: Final = 1_000_000
MAX_ENTRIES: Final = 1024
"""Maximum number of parameters or globals of a function, and of items of a tuple. CUDA allows 4 KiB of parameters: 512
pointers."""
MAX_STRING: Final = 10_000
MAX_VALUE_DEPTH: Final = 8
MAX_LINE: Final = 10_000_000
INTEGER_BOUND: Final = 2**64
ADDRESS_AS_NUMBER: Final = "an address cannot be used as a number: it says nothing about the inputs"
"""Message for a kernel that makes a number of an address."""

Kind = Literal["jit", "constexpr"]
"""Decorated with `@triton.jit` or with `@triton.constexpr_function`."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_DTYPE = re.compile(r"(\*k?)*[a-z][a-z0-9]*")


class NotKernelLanguage(Exception):
    """A kernel function uses something that is not Triton's language.

    This is a failure of the candidate, so it is not in the tree of `tools/errors.py`.
    """

    def __init__(self, kernel: str, line: int, reason: str) -> None:
        super().__init__(kernel, line, reason)
        self.kernel = kernel
        self.line = line
        """Line of the candidate's file."""
        self.reason = reason

    def __str__(self) -> str:
        return f"kernel {self.kernel}, line {self.line}: {self.reason}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DType:
    """A Triton type by its name in `tl.dtype` (`fp32`), with a `*` (`*k` if constant) before it for each pointer."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constexpr:
    """A value wrapped in `tl.constexpr`."""

    value: Value


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FunctionReference:
    """A captured function, by identity."""

    identity: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LanguageName:
    """A module, function or class of Triton's language, by dotted path (`triton.language.exp`)."""

    path: str


Value = bool | int | float | str | DType | Constexpr | FunctionReference | LanguageName | tuple[Any, ...] | None
"""A global, a default or a constexpr argument; tuples contain values."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a function. Annotation and default are read from here, not from the text."""

    name: str
    annotation: str = ""
    """As Triton normalises it: `constexpr`, `const`, a type (`i32`, `*fp16`), or empty."""
    has_default: bool = False
    default: Value = None
    specialized: bool = True
    """False if named in `do_not_specialize`."""
    aligned: bool = True
    """False if named in `do_not_specialize_on_alignment`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JitFunction:
    """A function decorated by `@triton.jit`, or by `@triton.constexpr_function`."""

    name: str
    source: str
    """The text from `def` on, without indentation and decorators."""
    parameters: tuple[Parameter, ...]
    globals: tuple[tuple[str, Value], ...]
    """Names that the body uses but does not define; `helpers.scale` for an attribute of a module."""
    noinline: bool = False
    first_line: int = 1
    """Line of the `def` in the candidate's file."""
    kind: Kind = "jit"

    @property
    def identity(self) -> str:
        """Hash of all fields."""
        text = json.dumps(function_to_json(self), sort_keys=True)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]

    def references(self) -> tuple[str, ...]:
        values = [value for _, value in self.globals] + [parameter.default for parameter in self.parameters]
        return tuple(identity for value in values for identity in function_references(value))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelSet:
    """Functions by identity, together with all functions they refer to."""

    functions: Mapping[str, JitFunction] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.functions) > MAX_FUNCTIONS:
            raise Malformed(f"{len(self.functions)} kernel functions; at most {MAX_FUNCTIONS} are allowed")
        if sum(len(function.source) for function in self.functions.values()) > MAX_TOTAL_SOURCE:
            raise Malformed(f"kernel functions of more than {MAX_TOTAL_SOURCE} characters in total")
        for identity, function in self.functions.items():
            if function.identity != identity:
                raise Malformed(f"kernel function {function.name} is filed under a wrong identity")
            for reference in function.references():
                if reference not in self.functions:
                    raise Malformed(f"kernel function {function.name} refers to a function that is not on the tape")

    @classmethod
    def of(cls, functions: Iterable[JitFunction]) -> KernelSet:
        return cls(functions={function.identity: function for function in functions})

    def merged(self, other: KernelSet) -> KernelSet:
        return KernelSet(functions={**self.functions, **other.functions})

    def ordered(self) -> list[tuple[str, JitFunction]]:
        """Return identities and functions so that each follows the functions it refers to.

        An identity is a hash over the identities referred to, so there are no cycles.
        """
        order: dict[str, JitFunction] = {}

        def place(identity: str) -> None:
            if identity not in order:
                for reference in self.functions[identity].references():
                    place(reference)
                order[identity] = self.functions[identity]

        for identity in self.functions:
            place(identity)
        return list(order.items())

    def to_json(self) -> dict[str, Any]:
        return {"functions": [function_to_json(function) for function in self.functions.values()]}

    @classmethod
    def from_json(cls, data: Any) -> KernelSet:
        """Decode; raise `Malformed` for data that `to_json` does not write."""
        fields = _fields(data, {"functions"}, "a kernel set")
        listed = _list(fields["functions"], MAX_FUNCTIONS, "functions")
        return cls.of(function_from_json(item) for item in listed)


def function_to_json(function: JitFunction) -> dict[str, Any]:
    return {
        "name": function.name,
        "source": function.source,
        "parameters": [
            {
                "name": parameter.name,
                "annotation": parameter.annotation,
                "default": [value_to_json(parameter.default)] if parameter.has_default else [],
                "specialized": parameter.specialized,
                "aligned": parameter.aligned,
            }
            for parameter in function.parameters
        ],
        "globals": [[name, value_to_json(value)] for name, value in function.globals],
        "noinline": function.noinline,
        "first_line": function.first_line,
        "kind": function.kind,
    }


def function_from_json(data: Any) -> JitFunction:
    keys = {"name", "source", "parameters", "globals", "noinline", "first_line", "kind"}
    fields = _fields(data, keys, "a kernel function")
    found: list[tuple[str, Value]] = []
    for pair in _list(fields["globals"], MAX_ENTRIES, "globals"):
        if type(pair) is not list or len(pair) != 2:
            raise Malformed("a global is a name and a value")
        found.append((dotted_name(_text(pair[0], MAX_STRING, "a global's name")), value_from_json(pair[1])))
    if len({name for name, _ in found}) != len(found):
        raise Malformed("a global is given twice")
    line = fields["first_line"]
    if type(line) is not int or not 1 <= line <= MAX_LINE:
        raise Malformed(f"not a line number: {line!r}")
    kind = fields["kind"]
    if type(kind) is not str or kind not in get_args(Kind):
        raise Malformed(f"not a kind of kernel function: {kind!r:.80}")
    parameters = tuple(map(_parameter_from_json, _list(fields["parameters"], MAX_ENTRIES, "parameters")))
    if len({parameter.name for parameter in parameters}) != len(parameters):
        raise Malformed("a parameter is given twice")
    return JitFunction(
        name=plain_name(_text(fields["name"], MAX_STRING, "a function's name")),
        source=_text(fields["source"], MAX_SOURCE, "a function's source"),
        parameters=parameters,
        globals=tuple(found),
        noinline=_flag(fields["noinline"]),
        first_line=line,
        kind=kind,  # type: ignore[arg-type]
    )


def _parameter_from_json(data: Any) -> Parameter:
    fields = _fields(data, {"name", "annotation", "default", "specialized", "aligned"}, "a parameter")
    default = _list(fields["default"], 1, "a default")
    return Parameter(
        name=plain_name(_text(fields["name"], MAX_STRING, "a parameter's name")),
        annotation=_text(fields["annotation"], MAX_STRING, "an annotation"),
        has_default=bool(default),
        default=value_from_json(default[0]) if default else None,
        specialized=_flag(fields["specialized"]),
        aligned=_flag(fields["aligned"]),
    )


def value_to_json(value: Value) -> dict[str, Any]:
    match value:
        case DType():
            return {"dtype": value.name}
        case Constexpr():
            return {"constexpr": value_to_json(value.value)}
        case FunctionReference():
            return {"function": value.identity}
        case LanguageName():
            return {"language": value.path}
        case float():
            return {"float": repr(value)}
        case tuple():
            return {"tuple": [value_to_json(item) for item in value]}
    return {"value": value}


def value_from_json(data: Any, depth: int = 0) -> Value:
    if type(data) is not dict or len(data) != 1 or depth > MAX_VALUE_DEPTH:
        raise Malformed("not a kernel value")
    (tag, content), *_ = data.items()
    match tag:
        case "value" if content is None or type(content) is bool:
            return content
        case "value" if type(content) is int and abs(content) < INTEGER_BOUND:
            return content
        case "value" if type(content) is str:
            return _text(content, MAX_STRING, "a string")
        case "float":
            try:
                return float(_text(content, 32, "a float"))
            except ValueError as error:
                raise Malformed(f"not a float: {content!r}") from error
        case "tuple":
            return tuple(value_from_json(item, depth + 1) for item in _list(content, MAX_ENTRIES, "a tuple"))
        case "dtype" if _DTYPE.fullmatch(_text(content, 32, "a type")):
            return DType(name=content)
        case "constexpr":
            return Constexpr(value=value_from_json(content, depth + 1))
        case "function" if _IDENTITY.fullmatch(_text(content, 32, "an identity")):
            return FunctionReference(identity=content)
        case "language":
            return LanguageName(path=dotted_name(_text(content, MAX_STRING, "a path")))
    raise Malformed(f"not a kernel value: {tag!r:.80}")


def plain_name(name: str) -> str:
    """Return `name` if it can name a function, parameter, global or variable; it may not begin with two underscores."""
    if not _IDENTIFIER.fullmatch(name) or name.startswith("__") or keyword.iskeyword(name):
        raise Malformed(f"not a name that a kernel may use: {name!r:.80}")
    return name


def dotted_name(name: str) -> str:
    for part in name.split("."):
        plain_name(part)
    return name


def pointee(name: str) -> tuple[str, list[bool]]:
    """Return the element type of a `DType`'s name and, outermost pointer first, whether each pointer is constant."""
    pointers = []
    while name.startswith("*"):
        pointers.append(name.startswith("*k"))
        name = name[1:].removeprefix("k")
    return name, pointers


def function_references(value: Value) -> list[str]:
    match value:
        case FunctionReference():
            return [value.identity]
        case Constexpr():
            return function_references(value.value)
        case tuple():
            return [identity for item in value for identity in function_references(item)]
    return []


def _fields(data: Any, keys: set[str], what: str) -> dict[str, Any]:
    if type(data) is not dict or data.keys() != keys:
        raise Malformed(f"{what} has the keys {', '.join(sorted(keys))}")
    return data


def _list(data: Any, most: int, what: str) -> list[Any]:
    if type(data) is not list or len(data) > most:
        raise Malformed(f"{what}: not a list of at most {most}")
    return data


def _text(data: Any, most: int, what: str) -> str:
    if type(data) is not str or len(data) > most:
        raise Malformed(f"{what}: not a text of at most {most} characters")
    return data


def _flag(data: Any) -> bool:
    if type(data) is not bool:
        raise Malformed(f"not true or false: {data!r:.80}")
    return data
