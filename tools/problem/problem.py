"""A problem: the module to make faster, with its file, class and inputs, as plain data that crosses processes.

The file is parsed but not imported, and torch is not needed. `tools/reference/reference.py` loads and runs the problem
in its own process.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.tools.errors import ProblemError, UsageError
from triton_agent.tools.problem import source as problem_source
from triton_agent.tools.problem.input_spec import (
    GivenInput,
    InputSet,
    InputSpec,
    made_in,
    main_first,
    parse_arguments,
    parse_inputs,
    require_consistent,
)
from triton_agent.tools.problem.size_range import Lengths, SizeRange, measured, named, parse_range, require_apart
from triton_agent.tools.problem.source import CONVENTION, SourceFile

__all__ = ["GivenInput", "InputSet", "InputSpec", "ProblemKind", "ProblemSpec", "parse_problem"]

_WRAP = "wrap {}: a class derived from nn.Module whose forward calls it"


class ProblemKind(enum.StrEnum):
    """How a problem states its computation and its inputs."""

    MODEL_FILE = "model_file"
    """A file with `Model`, `get_inputs()` and optionally `get_init_inputs()`; another class may replace `Model`."""
    USER_MODULE = "user_module"
    """A class of any file; options give its constructor arguments and its inputs."""
    VERIFIER = "verifier"
    """A file with `get_inputs()` and `verify(inputs, outputs) -> bool`, without a reference."""


AS_GIVEN = "AsGiven"
"""Ends the name of a class that constructs a module given in memory, beside that module's own class."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSpec:
    """One problem as the user named it."""

    path: str
    """Absolute."""
    kind: ProblemKind
    class_name: str | None = None
    """Class of the reference. None means `Model`; a verifier has no class."""
    init: tuple[Any, ...] = ()
    """Positional arguments of a user module's constructor: Python literals, and `Made` for calls of classes."""
    init_keywords: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inputs: tuple[GivenInput, ...] = ()
    inputs_file: str | None = None
    """Absolute path of saved inputs, in place of `inputs`."""
    sets: tuple[InputSet, ...] = ()
    """The calls that a kernel must serve, if several. `inputs` or `inputs_file` belong to the first, main one."""
    ranges: tuple[SizeRange, ...] = ()
    """Sizes that may change from call to call."""
    lengths: Lengths = ()
    """A length for each range, replacing those of the given inputs; empty for the inputs as given."""
    digest: str
    """Identity: a hash of the file's text, of the local modules it imports, and of all fields above except the path."""
    text: str = dataclasses.field(default="", repr=False, compare=False)
    """Text of the file from which the digest was made; empty in a specification read from a store."""

    def __post_init__(self) -> None:
        user = self.kind is ProblemKind.USER_MODULE
        if user and (self.class_name is None or bool(self.inputs) == (self.inputs_file is not None)):
            raise ValueError("a user module needs a class, and either inputs or a file of inputs")
        if not user and (self.init or self.init_keywords or self.inputs or self.inputs_file):
            raise ValueError("only a user module has its arguments and inputs given beside it")
        if self.kind is ProblemKind.VERIFIER and self.class_name is not None:
            raise ValueError("a verifier has no reference class")
        if self.lengths and len(self.lengths) != len(self.ranges):
            raise ValueError("a length for each range")
        if self.sets and not self.ranges:
            first = self.sets[0]
            if (first.inputs, first.inputs_file) != (self.inputs, self.inputs_file):
                raise ValueError("the inputs are not those of the first set")

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def name(self) -> str:
        """A short name for people: the class if one was given, else the file."""
        return (self.class_name or "").removesuffix(AS_GIVEN) or Path(self.path).stem

    @property
    def saved_files(self) -> tuple[str, ...]:
        """The files of saved inputs that the problem needs."""
        files = [*dict.fromkeys((self.inputs_file, *(item.inputs_file for item in self.sets)))]
        return tuple(path for path in files if path is not None)

    def source(self) -> SourceFile:
        """Return the problem's file as it was when the problem was parsed, even if it has been edited since."""
        path = Path(self.path)
        return problem_source.parsed(path, self.text) if self.text else problem_source.read(path)

    def at(self, one: InputSet) -> ProblemSpec:
        """Return the problem restricted to one of its sets of inputs."""
        digest = hashlib.sha256(json.dumps([self.digest, one.name]).encode()).hexdigest()
        if self.ranges:
            return dataclasses.replace(self, lengths=one.lengths, sets=(), digest=digest)
        return dataclasses.replace(self, inputs=one.inputs, inputs_file=one.inputs_file, sets=(), digest=digest)

    def measured_over_ranges(self, given: Lengths) -> ProblemSpec:
        """Return the problem with a set of inputs for each length to measure; `given` are its present lengths."""
        found = dict.fromkeys([given, *measured(self.ranges)])
        sets = tuple(InputSet(name=named(self.ranges, lengths), lengths=lengths) for lengths in found)
        return dataclasses.replace(self, sets=sets if len(sets) > 1 else ())

    def to_json(self, *, with_text: bool = False) -> dict[str, Any]:
        """Return plain data. Arguments are stored as Python text, since JSON would turn tuples into lists."""
        return {
            "path": self.path,
            "kind": self.kind.value,
            "class_name": self.class_name,
            "init": repr(self.init),
            "init_keywords": repr(dict(self.init_keywords)),
            "inputs": [str(item) for item in self.inputs],
            "inputs_file": self.inputs_file,
            **({"sets": [item.to_json() for item in self.sets]} if self.sets else {}),
            **({"ranges": [item.to_json() for item in self.ranges]} if self.ranges else {}),
            **({"lengths": list(self.lengths)} if self.lengths else {}),
            "digest": self.digest,
            **({"text": self.text} if with_text else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProblemSpec:
        return cls(
            path=data["path"],
            kind=ProblemKind(data["kind"]),
            class_name=data["class_name"],
            init=parse_arguments(data["init"])[0][0],
            init_keywords=parse_arguments(data["init_keywords"])[0][0],
            inputs=parse_inputs(data["inputs"]),
            inputs_file=data["inputs_file"],
            sets=tuple(map(InputSet.from_json, data.get("sets", ()))),
            ranges=tuple(map(SizeRange.from_json, data.get("ranges", ()))),
            lengths=tuple(data.get("lengths", ())),
            digest=data["digest"],
            text=data.get("text", ""),
        )


def parse_problem(
    target: str,
    *,
    init: str | None = None,
    inputs: Sequence[str] = (),
    inputs_file: str | None = None,
    sets: Sequence[InputSet] = (),
    dynamic: Sequence[str] = (),
) -> ProblemSpec:
    """Read the problem named by `path.py` or `path.py:ClassName`, with its options."""
    require_consistent(sets)
    sets = main_first(sets)
    if sets and (inputs or inputs_file is not None):
        raise UsageError(
            "--set gives whole calls, --input the arguments of one",
            where=target,
            remedy='write each call as its own set: --set "f32[8,16]; f32[16]"',
        )
    path, class_name = Path(target), None
    if ":" in target and not path.exists():
        file, _, class_name = target.rpartition(":")
        path = Path(file)
        if not class_name.isidentifier():
            remedy = "write path.py:ClassName, or path.py alone"
            raise UsageError(f"{class_name!r} is not a class name", where=target, remedy=remedy)
    source = problem_source.read(path)
    given_beside = init is not None or bool(inputs) or inputs_file is not None or bool(sets)
    gives_inputs = "get_inputs" in problem_source.bound_names(source.tree)
    if class_name is not None:
        _require_class(source, class_name)
    elif given_beside and not gives_inputs:
        class_name = problem_source.only_outermost_module(source.tree)
    if class_name is not None and (given_beside or not gives_inputs):
        fields = _user_module(source, class_name, init, inputs, inputs_file, sets)
    elif given_beside:
        raise UsageError(
            "--init, --input, --inputs and --set go with a named class",
            where=target,
            remedy=_class_remedy(source, target, has_inputs=bool(inputs or sets) or inputs_file is not None),
        )
    else:
        fields = _model_file(source, class_name)
    fields["path"] = str(path.resolve())
    if dynamic:
        fields["ranges"] = _ranges(target, dynamic, fields)
    return ProblemSpec(**fields, digest=_digest(source, fields), text=source.text)


def _ranges(target: str, dynamic: Sequence[str], fields: Mapping[str, Any]) -> tuple[SizeRange, ...]:
    if fields.get("sets"):
        raise UsageError(
            "--dynamic goes with one call, and several sets were given",
            where=target,
            remedy="give one call: it is measured at the ends and in the middle of the range by itself",
        )
    if fields["kind"] is ProblemKind.VERIFIER:
        raise UsageError("--dynamic needs a reference", where=target, remedy="this problem has a verifier only")
    leading = [item.shape[0] for given in fields.get("inputs", ()) for item in given.tensors if item.shape]
    batch = max(leading, key=leading.count, default=None)
    ranges = tuple(parse_range(text, batch=batch) for text in dynamic)
    require_apart(ranges)
    return ranges


def _require_class(source: SourceFile, class_name: str) -> None:
    names = problem_source.bound_names(source.tree)
    defined = problem_source.classes(source.tree)
    if class_name in defined or "*" in names:
        return
    if class_name in names:
        _require_no_function(source, class_name)
        return  # imported or assigned: only loading shows if it is a class
    close = difflib.get_close_matches(class_name, defined, n=3)
    known = close or list(problem_source.module_classes(source.tree))
    lead = "did you mean" if close else "the file has"
    remedy = f"{lead} {', '.join(known)}" if known else "the file defines no class derived from nn.Module"
    raise ProblemError(f"no class {class_name}", where=str(source.path), remedy=remedy)


def _require_no_function(source: SourceFile, name: str) -> None:
    node = problem_source.functions(source.tree).get(name)
    if node is not None:
        where = f"{source.path}:{node.lineno}"
        raise ProblemError(f"{name} is a function, not a class", where=where, remedy=_WRAP.format(name))


def _user_module(
    source: SourceFile,
    class_name: str,
    init: str | None,
    inputs: Sequence[str],
    inputs_file: str | None,
    sets: Sequence[InputSet],
) -> dict[str, Any]:
    target = f"{source.path}:{class_name}"
    if inputs and inputs_file is not None:
        raise UsageError("--input and --inputs were both given", where=target, remedy="keep one of them")
    if not inputs and inputs_file is None and not sets:
        raise UsageError(
            f"nothing says what {class_name} is called with",
            where=target,
            remedy='add one --input "f16[8,128,1024]" for each argument of forward, --input "pos=5" for one that is no '
            "tensor, or --inputs saved.pt",
        )
    for file in [inputs_file, *(item.inputs_file for item in sets)]:
        if file is not None and not Path(file).is_file():
            remedy = "name a file that torch.save wrote a list of input tensors to"
            raise UsageError("no such file of inputs", where=f"--inputs {file}", remedy=remedy)
    positional, keywords = parse_arguments(init or "")
    for name in made_in((positional, keywords)):
        _require_class(source, name)
    return {
        "kind": ProblemKind.USER_MODULE,
        "class_name": class_name,
        "init": positional,
        "init_keywords": keywords,
        "inputs": sets[0].inputs if sets else parse_inputs(inputs),
        "inputs_file": sets[0].inputs_file if sets else inputs_file and str(Path(inputs_file).resolve()),
        **({"sets": tuple(sets)} if len(sets) > 1 else {}),
    }


def _model_file(source: SourceFile, class_name: str | None) -> dict[str, Any]:
    names = problem_source.bound_names(source.tree)
    model, inputs = class_name or "Model", "get_inputs" in names
    if model in names and inputs:
        _require_no_function(source, model)
        return {"kind": ProblemKind.MODEL_FILE, "class_name": class_name}
    if inputs and "verify" in names:
        return {"kind": ProblemKind.VERIFIER}
    if "ModelNew" in names and model not in names:
        raise ProblemError(
            "this is a candidate (class ModelNew), not a problem",
            where=f"{source.path}:{names['ModelNew']}",
            remedy="name the file of the reference, with `class Model`",
        )
    if "*" in names:  # a star import may bring the missing names; only loading shows
        return {"kind": ProblemKind.MODEL_FILE, "class_name": class_name}
    if inputs and (only := problem_source.only_outermost_module(source.tree)):  # the reference has another name
        return {"kind": ProblemKind.MODEL_FILE, "class_name": only}
    missing = (
        "no get_inputs()" if model in names else "no class Model" if inputs else "no class Model and no get_inputs()"
    )
    line = names.get(model, names.get("get_inputs", 1))
    raise ProblemError(missing, where=f"{source.path}:{line}", remedy=_class_remedy(source, str(source.path)))


def _class_remedy(source: SourceFile, target: str, *, has_inputs: bool = False) -> str:
    found = problem_source.module_classes(source.tree)
    own = problem_source.functions(source.tree)
    if not found:
        plain = [name for name, node in own.items() if node.args.args and not name.startswith("get_")]
        return f"{_WRAP.format(plain[-1])}; {CONVENTION}" if plain else CONVENTION
    first = reversed(problem_source.outermost_modules(source.tree))
    names = list(dict.fromkeys([*first, *found]))[:4]
    shown = f"did you mean {', '.join(f'{target}:{name} (line {found[name]})' for name in names)}?"
    if has_inputs or "get_inputs" in own:
        return shown
    needed = problem_source.needed_arguments(source.tree, names[0])
    takes = f""", and --init with {", ".join(needed)}""" if needed else ""
    return f'{shown} A named class needs its inputs too: --input "f32[8,128,1024]"{takes}'


def _digest(source: SourceFile, fields: Mapping[str, Any]) -> str:
    """Return the problem's identity. It does not depend on the folder, so a copy of the file is the same problem."""
    plain = {
        key: str(value)
        for key, value in fields.items()
        if key not in ("path", "inputs", "inputs_file", "sets", "ranges")
    }
    plain["inputs"] = " ".join(map(str, fields.get("inputs", ())))
    saved = fields.get("inputs_file")
    plain["inputs_file"] = "" if saved is None else _hash_file(Path(saved))
    for number, item in enumerate(fields.get("sets", ())):
        content = _hash_file(Path(item.inputs_file)) if item.inputs_file else item.content
        plain[f"set {number}"] = f"{item.name} {item.weight!r} {content}"
    if fields.get("ranges"):
        plain["ranges"] = " ".join(map(str, fields["ranges"]))
    modules = {name: _hash_file(file) for name, file in problem_source.local_modules(source).items()}
    text = json.dumps([source.text, modules, plain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _hash_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
