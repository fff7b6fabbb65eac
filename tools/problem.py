"""A problem: what is to be made faster. Its file, its class and its inputs, as plain data that crosses processes.

Everything here is read off the text: the file is parsed, never imported, and torch is not needed. Whether the problem
loads and runs is found out by `tools/verify/reference.py`, in a process of its own.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_agent.tools import problem_source
from triton_agent.tools.errors import ProblemError, UsageError
from triton_agent.tools.input_spec import (
    InputSet,
    InputSpec,
    main_first,
    parse_arguments,
    parse_input,
    require_consistent,
)
from triton_agent.tools.problem_source import CONVENTION, SourceFile

__all__ = ["InputSet", "InputSpec", "ProblemKind", "ProblemSpec", "parse_problem"]


class ProblemKind(enum.StrEnum):
    """How a problem says what it computes and on what."""

    MODEL_FILE = "model_file"
    """`Model`, `get_inputs()` and (optional) `get_init_inputs()` in one file; another class may stand for `Model`."""
    USER_MODULE = "user_module"
    """A class of any file, its constructor's arguments and its inputs given beside it."""
    VERIFIER = "verifier"
    """`get_inputs()` and `verify(inputs, outputs) -> bool`; there is no reference."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSpec:
    """One problem, as it was asked for."""

    path: str
    """Absolute."""
    kind: ProblemKind
    class_name: str | None = None
    """The reference's class; None means `Model`, and for a verifier that there is none."""
    init: tuple[Any, ...] = ()
    """Positional arguments of a user module's constructor, Python literals."""
    init_keywords: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inputs: tuple[InputSpec, ...] = ()
    inputs_file: str | None = None
    """Absolute path of saved inputs, in place of `inputs`."""
    sets: tuple[InputSet, ...] = ()
    """Several calls that a kernel has to serve, the main one first, which `inputs` or `inputs_file` is, too; empty
    for one call."""
    digest: str
    """Identity: the text of the file and of the local modules that it imports, and all of the above but the folder."""

    def __post_init__(self) -> None:
        user = self.kind is ProblemKind.USER_MODULE
        if user and (self.class_name is None or bool(self.inputs) == (self.inputs_file is not None)):
            raise ValueError("a user module needs a class, and either inputs or a file of inputs")
        if not user and (self.init or self.init_keywords or self.inputs or self.inputs_file):
            raise ValueError("only a user module has its arguments and inputs given beside it")
        if self.kind is ProblemKind.VERIFIER and self.class_name is not None:
            raise ValueError("a verifier has no reference class")
        if self.sets:
            first = self.sets[0]
            if (first.inputs, first.inputs_file) != (self.inputs, self.inputs_file):
                raise ValueError("the first set is the one that stands for all")

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def name(self) -> str:
        """Short, for people: the class if one was named, else the file."""
        return self.class_name or Path(self.path).stem

    @property
    def saved_files(self) -> tuple[str, ...]:
        """Files of inputs that it takes to load the problem."""
        files = [item.inputs_file for item in self.sets] if self.sets else [self.inputs_file]
        return tuple(path for path in files if path is not None)

    def at(self, one: InputSet) -> ProblemSpec:
        """The same with one call."""
        digest = hashlib.sha256(json.dumps([self.digest, one.name]).encode()).hexdigest()
        return dataclasses.replace(self, inputs=one.inputs, inputs_file=one.inputs_file, sets=(), digest=digest)

    def to_json(self) -> dict[str, Any]:
        """Plain data. Arguments travel as Python text, since JSON would turn tuples into lists."""
        return {
            "path": self.path,
            "kind": self.kind.value,
            "class_name": self.class_name,
            "init": repr(self.init),
            "init_keywords": repr(dict(self.init_keywords)),
            "inputs": [str(item) for item in self.inputs],
            "inputs_file": self.inputs_file,
            **({"sets": [item.to_json() for item in self.sets]} if self.sets else {}),
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProblemSpec:
        return cls(
            path=data["path"],
            kind=ProblemKind(data["kind"]),
            class_name=data["class_name"],
            init=ast.literal_eval(data["init"]),
            init_keywords=ast.literal_eval(data["init_keywords"]),
            inputs=tuple(parse_input(text) for text in data["inputs"]),
            inputs_file=data["inputs_file"],
            sets=tuple(map(InputSet.from_json, data.get("sets", ()))),
            digest=data["digest"],
        )


def parse_problem(
    target: str,
    *,
    init: str | None = None,
    inputs: Sequence[str] = (),
    inputs_file: str | None = None,
    sets: Sequence[InputSet] = (),
) -> ProblemSpec:
    """The problem behind `path.py` or `path.py:ClassName` and the options that go with it."""
    require_consistent(sets)
    sets = main_first(sets)
    if sets and (inputs or inputs_file is not None):
        raise UsageError(
            "--set gives whole calls, --input the arguments of one",
            where=target,
            remedy='write each call as a set of its own: --set "f32[8,16]; f32[16]"',
        )
    path, class_name = _split_target(target)
    source = problem_source.read(path)
    if class_name is not None:
        _require_class(source, class_name)
    given_beside = init is not None or bool(inputs) or inputs_file is not None or bool(sets)
    if class_name is not None and (given_beside or "get_inputs" not in problem_source.bound_names(source.tree)):
        fields = _user_module(source, class_name, init, inputs, inputs_file, sets)
    elif given_beside:
        raise UsageError(
            "--init, --input, --inputs and --set go with a named class",
            where=target,
            remedy=_class_remedy(source, target),
        )
    else:
        fields = _model_file(source, class_name)
    fields["path"] = str(path.resolve())
    return ProblemSpec(**fields, digest=_digest(source, fields))


def _split_target(target: str) -> tuple[Path, str | None]:
    if Path(target).exists() or ":" not in target:
        return Path(target), None
    path, _, class_name = target.rpartition(":")
    if not class_name.isidentifier():
        raise UsageError(
            f"{class_name!r} is not a class name", where=target, remedy="write path.py:ClassName, or path.py alone"
        )
    return Path(path), class_name


def _require_class(source: SourceFile, class_name: str) -> None:
    names = problem_source.bound_names(source.tree)
    defined = problem_source.classes(source.tree)
    if class_name in defined or "*" in names:
        return
    if class_name in names:
        _require_no_function(source, class_name)
        return  # imported or assigned: only loading tells
    close = difflib.get_close_matches(class_name, defined, n=3)
    known = close or list(problem_source.module_classes(source.tree))
    lead = "did you mean" if close else "the file has"
    remedy = f"{lead} {', '.join(known)}" if known else "the file defines no class derived from nn.Module"
    raise ProblemError(f"no class {class_name}", where=str(source.path), remedy=remedy)


def _require_no_function(source: SourceFile, name: str) -> None:
    node = problem_source.functions(source.tree).get(name)
    if node is not None:
        raise ProblemError(
            f"{name} is a function, not a class", where=f"{source.path}:{node.lineno}", remedy=_WRAP.format(name)
        )


_WRAP = "wrap {}: a class derived from nn.Module whose forward calls it"


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
            remedy='add one --input "f16[8,128,1024]" for each argument of forward, or --inputs saved.pt',
        )
    positional, keywords = parse_arguments(init or "")
    fields: dict[str, Any] = {
        "kind": ProblemKind.USER_MODULE,
        "class_name": class_name,
        "init": positional,
        "init_keywords": keywords,
        "inputs": tuple(parse_input(text) for text in inputs),
        "inputs_file": None if inputs_file is None else _existing_file(inputs_file),
    }
    for item in sets:
        if item.inputs_file is not None:
            _existing_file(item.inputs_file)
    if sets:
        fields |= {"inputs": sets[0].inputs, "inputs_file": sets[0].inputs_file}
    return fields | ({"sets": tuple(sets)} if len(sets) > 1 else {})


def _existing_file(path: str) -> str:
    if not Path(path).is_file():
        remedy = "give the file that torch.save wrote a list of input tensors to"
        raise UsageError("no such file of inputs", where=f"--inputs {path}", remedy=remedy)
    return str(Path(path).resolve())


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
            remedy="give the original file, the one with `class Model`",
        )
    if "*" in names:  # it may bring what is missing; loading tells
        return {"kind": ProblemKind.MODEL_FILE, "class_name": class_name}
    outermost = problem_source.outermost_modules(source.tree)
    if inputs and len(outermost) == 1:  # by another name, but no doubt which
        return {"kind": ProblemKind.MODEL_FILE, "class_name": outermost[0]}
    missing = (
        "no get_inputs()" if model in names else "no class Model" if inputs else "no class Model and no get_inputs()"
    )
    line = names.get(model, names.get("get_inputs", 1))
    raise ProblemError(missing, where=f"{source.path}:{line}", remedy=_class_remedy(source, str(source.path)))


def _class_remedy(source: SourceFile, target: str) -> str:
    found = problem_source.module_classes(source.tree)
    own = problem_source.functions(source.tree)
    if not found:
        plain = [name for name, node in own.items() if node.args.args and not name.startswith("get_")]
        return f"{_WRAP.format(plain[-1])}; {CONVENTION}" if plain else CONVENTION
    first = [name for name in reversed(problem_source.outermost_modules(source.tree)) if name in found]
    names = list(dict.fromkeys([*first, *found]))[:4]
    shown = f"did you mean {', '.join(f'{target}:{name} (line {found[name]})' for name in names)}?"
    return shown if "get_inputs" in own else f'{shown} A named class needs its inputs too: --input "f16[8,128,1024]"'


def _digest(source: SourceFile, fields: Mapping[str, Any]) -> str:
    """Where the file lies does not matter: the same problem in another folder is the same problem."""
    plain = {key: str(value) for key, value in fields.items() if key not in ("path", "inputs", "inputs_file", "sets")}
    plain["inputs"] = " ".join(map(str, fields.get("inputs", ())))
    saved = fields.get("inputs_file")
    plain["inputs_file"] = "" if saved is None else _hash_file(Path(saved))
    for number, item in enumerate(fields.get("sets", ())):
        content = _hash_file(Path(item.inputs_file)) if item.inputs_file else item.content
        plain[f"set {number}"] = f"{item.name} {item.weight!r} {content}"
    modules = {name: _hash_file(file) for name, file in problem_source.local_modules(source).items()}
    text = json.dumps([source.text, modules, plain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _hash_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
