"""Writes a module in memory as a problem: a file with a class that constructs it, and its example inputs beside it.

The file is self-contained. It holds the text of the module's classes, and one more class that puts the module together
part by part, since the arguments of the constructors are not known. Tensors are written exactly if they are small or
regular; otherwise similar values are drawn. The written module is called once and has to answer as the module does.
Attributes that cannot be written are left out and listed.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from triton_agent.runs.live import loading
from triton_agent.runs.live.sources import Sources, taken_in
from triton_agent.runs.live.values import Unwritable, alike, exactly, keywords, referred_to, text_of
from triton_agent.runs.ship.source.source_parts import Import, import_block
from triton_agent.tools.candidate.screen import screen
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.named_tuples import is_named, without_classes
from triton_agent.tools.problem.problem import AS_GIVEN
from triton_agent.tools.reference import calling
from triton_agent.tools.reference.input_tensors import map_tensors, own_copy, tensors_in
from triton_agent.tools.tape.outline import passed

INPUTS = "inputs.pt"
OF_EVERY_MODULE = frozenset(vars(nn.Module()))
"""Attributes that torch keeps in every module; `forward` and other methods set on an instance are not among them."""
OF_RECURRENT_ONES = frozenset({"_flat_weights", "_flat_weight_refs"})
"""Attributes that `_init_flat_weights` makes again."""
PUT = '''\
def _put(model, path, made):
    """A module, parameter or None in its place."""
    parent, _, name = path.rpartition(".")
    owner = model.get_submodule(parent)
    if made is None or isinstance(made, nn.Parameter):
        owner.register_parameter(name, made)
    else:
        owner.add_module(name, made)'''
HELPERS = {
    "_object": '''\
def _object(kind, /, **attributes):
    """An object with these attributes, without its constructor."""
    made = kind.__new__(kind)
    for name, value in attributes.items():
        object.__setattr__(made, name, value)
    return made''',
    "_part": '''\
def _part(model, path, kind, /, **attributes):
    """A module with these attributes in its place, without its constructor."""
    made = kind.__new__(kind)
    nn.Module.__init__(made)
    for name, value in attributes.items():
        setattr(made, name, value)
    _put(model, path, made)''',
    "_parameter": """\
def _parameter(model, path, values, trained=True):
    _put(model, path, nn.Parameter(values, requires_grad=trained))""",
    "_buffer": """\
def _buffer(model, path, values, persistent=True):
    parent, _, name = path.rpartition(".")
    model.get_submodule(parent).register_buffer(name, values, persistent=persistent)""",
}
"""Functions that the written file may need, by name."""
TAKEN = ("_put", *HELPERS)
ALWAYS = (
    Import(local="torch", module="torch", name=None, renames=False),
    Import(local="nn", module="torch", name="nn", renames=False),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A module as a problem on disk."""

    target: str
    """First argument of `parse_problem`, to be given with `inputs_file`."""
    inputs_file: str
    more_files: tuple[str, ...] = ()
    """Inputs of further calls, saved like `inputs_file`."""
    left_out: tuple[str, ...]
    """Paths of attributes that could not be written."""


def write(
    module: nn.Module,
    inputs: Sequence[Any],
    folder: Path,
    *,
    more: Sequence[Sequence[Any]] = (),
    to_ship: bool = True,
) -> Problem:
    """Write the module as a problem into `folder`; raise `UsageError` if it cannot be written.

    `more` holds further calls that the module has to serve. With `to_ship` the text also has to pass the screen for
    candidates, because it becomes part of a file that is judged as one.
    """
    require_plain(module)
    writer = _Writer(module, folder)
    path = folder / f"{_file_name(module)}.py"
    path.write_text(writer.text(), encoding="utf-8")
    if to_ship:
        _require_fit(path)
    files = []
    for number, arguments in enumerate((inputs, *more), start=1):
        files.append(folder / (INPUTS if number == 1 else f"inputs_{number}.pt"))
        kept = map_tensors(
            own_copy([without_classes(item) for item in arguments]), lambda tensor: tensor.detach().cpu()
        )
        names = [item.name for item in calling.parameters_of(type(module).forward)]
        # Saved by name if some arguments are keyword-only, so that people can read the file.
        torch.save(dict(zip(names, kept)) if calling.keyword_only(type(module).forward) else kept, files[-1])
        require_same_answers(module, arguments, path, writer.left_out)
    return Problem(
        target=f"{path}:{class_name(module)}",
        inputs_file=str(files[0]),
        more_files=tuple(map(str, files[1:])),
        left_out=tuple(writer.left_out),
    )


def _require_fit(path: Path) -> None:
    objection = screen(f"{path.read_text(encoding='utf-8')}\n\nclass ModelNew:\n    pass\n")
    if objection is not None:
        raise UsageError(
            f"the module's text cannot be part of a file that needs torch and triton only: {objection.message}",
            where=str(path),
            remedy="keep what is not torch out of its forward, or optimize the parts that are",
        )


def class_name(module: nn.Module) -> str:
    """Name of the class in the written file that constructs this module."""
    return f"{type(module).__name__}{AS_GIVEN}"


def _file_name(module: nn.Module) -> str:
    """Return the class's name as a file name: `mlp`, `rms_norm`, `gpt2_block`."""
    name = type(module).__name__
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().strip("_")
    return words if words.isidentifier() else "module"


# -- arguments ---------------------------------------------------------------------------------------------------------


def in_order(module: nn.Module, example_inputs: Any, example_kwargs: Mapping[str, Any] | None) -> list[Any]:
    """Return the arguments of one call in the order of forward's parameters."""
    if isinstance(example_inputs, torch.Tensor):
        positional, named = [example_inputs], {}
    elif isinstance(example_inputs, Mapping):
        positional, named = [], dict(example_inputs)
    elif isinstance(example_inputs, (list, tuple)):
        positional, named = list(example_inputs), {}
    else:
        raise UsageError(
            f"example inputs are a {type(example_inputs).__name__}",
            remedy="a tensor, a tuple of forward's arguments, or a dict of them by name",
        )
    ordered = _by_position(module, positional, {**named, **(example_kwargs or {})})
    for value in ordered:
        _require_plain_value(value)
    if not any(True for _ in tensors_in(ordered)):
        raise UsageError("no tensor is among the example inputs", remedy="give the arguments of forward")
    return ordered


def _by_position(module: nn.Module, positional: list[Any], named: dict[str, Any]) -> list[Any]:
    try:
        return calling.in_order(type(module).forward, positional, named)
    except TypeError as error:
        raise UsageError(
            f"the example inputs do not fit forward: {error}",
            remedy="give its arguments in order, or by the names of its parameters",
        ) from None


def _require_plain_value(value: Any) -> None:
    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, nn.Parameter) or value.layout is not torch.strided or value.is_meta:
            raise UsageError(f"an example input is a {type(value).__name__} without plain memory")
    elif type(value) in (list, tuple) or is_named(value):
        for item in value:
            _require_plain_value(item)
    elif type(value) is dict:
        for item in value.values():
            _require_plain_value(item)
    elif value is not None and type(value) not in (bool, int, float, str):
        raise UsageError(
            f"an example input is a {type(value).__name__}",
            remedy="tensors, numbers, texts, and tuples, named tuples, lists or dicts of these can be kept",
        )


# -- what can be a problem ---------------------------------------------------------------------------------------------

WRAPPERS = {"OptimizedModule": "_orig_mod", "DistributedDataParallel": "module", "DataParallel": "module"}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def require_plain(module: nn.Module) -> None:
    """Raise `UsageError` for a module that kernels cannot replace."""
    if not isinstance(module, nn.Module):
        raise UsageError(f"{type(module).__name__} is not an nn.Module", remedy="give a module, not its class")
    inner = WRAPPERS.get(type(module).__name__)
    if inner is not None or isinstance(module, torch.jit.ScriptModule):
        raise UsageError(
            f"{type(module).__name__} is a wrapper around the module",
            remedy=f"give what is in it: module.{inner}" if inner else "give the module that was scripted",
        )
    if type(module).forward is nn.Module.forward:
        raise UsageError(f"{type(module).__name__} has no forward", remedy="give a module that can be called")
    if torch.get_default_dtype() is not torch.float32:
        raise UsageError(
            f"torch's default dtype is {torch.get_default_dtype()}",
            remedy="set it to float32, at which kernels are judged",
        )
    for path, part in module.named_modules():
        if path and any(getattr(part, name) for name in HOOKS):
            raise UsageError(
                f"{path} has hooks, which kernels that stand for it would not call",
                remedy="remove them, or optimize the modules around it one by one",
            )


class _Writer:
    """Writes one module."""

    def __init__(self, module: nn.Module, folder: Path) -> None:
        self.module = module
        self.left_out: list[str] = []
        self.drawn: list[str] = []
        self.sources: Sources = taken_in(*_referred_to(module), folder, (class_name(module), *TAKEN))
        self._places: dict[int, str] = {}

    def text(self) -> str:
        """Return the whole file."""
        made = "\n".join(f"        {line}" for line in ["nn.Module.__init__(self)", *self._body()])
        future = ["from __future__ import annotations"] if self.sources.future else []
        imports = "\n\n".join([*future, import_block([*self.sources.imports, *ALWAYS])])
        helpers = [text for name, text in HELPERS.items() if f"{name}(" in made]
        parts = [
            f'"""{self._docstring()}"""\n\n{imports}',
            self.sources.text,
            *([PUT] if "_put(" in made or helpers else []),
            *helpers,
            f"class {class_name(self.module)}({self._name(type(self.module))}):\n    def __init__(self):\n{made}",
        ]
        return "\n\n\n".join(part for part in parts if part) + "\n"

    def _docstring(self) -> str:
        lines = [f"{type(self.module).__name__} as it was handed over in memory, for triton-agent to work on."]
        if self.drawn:
            lines += ["", f"Drawn anew with like values: {_in_short(self.drawn)}."]
        if self.left_out:
            lines += ["", f"Left out, since they cannot be written down: {_in_short(self.left_out)}."]
        return "\n".join(lines) + ("\n" if len(lines) > 1 else "")

    def _name(self, thing: Any) -> str:
        return self.sources.names[id(thing)]

    def _body(self) -> list[str]:
        lines = []
        for path, part in self.module.named_modules(remove_duplicate=False):
            lines += self._part(path, part)
        for path, part in self.module.named_modules():
            if isinstance(part, nn.RNNBase):
                lines.append(f"self.get_submodule({path!r})._init_flat_weights()")
        return lines

    def _part(self, path: str, part: nn.Module) -> list[str]:
        if id(part) in self._places:
            return [f"_put(self, {path!r}, self.get_submodule({self._places[id(part)]!r}))"]
        self._places[id(part)] = path
        attributes = self._attributes(path, part)
        if path:
            given = ", ".join(["self", repr(path), self._name(type(part)), *filter(None, [keywords(attributes)])])
            lines = [f"_part({given})"]
        else:
            lines = [f"setattr(self, {name!r}, {text})" for name, text in attributes.items()]
        dot = f"{path}." if path else ""
        for name, parameter in part._parameters.items():
            lines.append(self._parameter(f"{dot}{name}", parameter))
        for name, buffer in part._buffers.items():
            lines.append(self._buffer(f"{dot}{name}", buffer, name not in part._non_persistent_buffers_set))
        return lines + [f"_put(self, {dot + name!r}, None)" for name, child in part._modules.items() if child is None]

    def _attributes(self, path: str, part: nn.Module) -> dict[str, str]:
        skipped = OF_EVERY_MODULE | (OF_RECURRENT_ONES if isinstance(part, nn.RNNBase) else frozenset())
        found = {}
        for name, value in vars(part).items():
            if name in skipped:
                continue
            try:
                found[name] = text_of(value, self._name)
            except (Unwritable, KeyError, RecursionError):
                self.left_out.append(f"{path}.{name}" if path else name)
        return found

    def _parameter(self, path: str, parameter: nn.Parameter | None) -> str:
        if parameter is None:
            return f"_put(self, {path!r}, None)"
        if id(parameter) in self._places:
            return f"_put(self, {path!r}, self.get_parameter({self._places[id(parameter)]!r}))"
        self._places[id(parameter)] = path
        trained = "" if parameter.requires_grad else ", trained=False"
        return f"_parameter(self, {path!r}, {self._tensor(path, parameter, exact=False)}{trained})"

    def _buffer(self, path: str, buffer: torch.Tensor | None, persistent: bool) -> str:
        text = "None" if buffer is None else self._tensor(path, buffer, exact=True)
        return f"_buffer(self, {path!r}, {text}{'' if persistent else ', persistent=False'})"

    def _tensor(self, path: str, tensor: torch.Tensor, *, exact: bool) -> str:
        try:
            if exact:
                try:
                    return exactly(tensor)
                except Unwritable:
                    self.drawn.append(path)
            return alike(tensor)
        except Unwritable as reason:
            raise UsageError(
                f"{path} is a {reason}, for which no similar values can be drawn",
                remedy="make it contiguous or regular, or optimize the modules beside it",
            ) from None


def _in_short(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _referred_to(module: nn.Module) -> tuple[list[type], list[Any]]:
    """Return the classes of the module's parts, and the other classes and functions that their attributes refer to."""
    parts = {id(type(part)): type(part) for part in module.modules()}
    others: dict[int, Any] = {}
    for part in module.modules():
        for name, value in vars(part).items():
            if name not in OF_EVERY_MODULE:
                others |= {id(thing): thing for thing in referred_to(value) if _has_a_name(thing)}
    return list(parts.values()), [thing for key, thing in others.items() if key not in parts]


def _has_a_name(thing: Any) -> bool:
    """Return whether the source can be found by name; attributes that refer to things without a name are left out."""
    return "<" not in getattr(thing, "__qualname__", "<")


# -- proof -------------------------------------------------------------------------------------------------------------


def require_same_answers(module: nn.Module, inputs: Sequence[Any], path: Path, left_out: Sequence[str]) -> None:
    """Call a copy of the module and the written module on the same tensors; raise `UsageError` if they differ."""
    with loading.untouched():
        model = loading.made_of(getattr(loading.load(path), class_name(module)), module, ())
        expected = _answer(_copied(module, left_out), inputs)
        try:
            found = _answer(model, inputs)
        except Exception as error:
            missing = f"; left out were {_in_short(left_out)}" if left_out else ""
            raise UsageError(
                f"the module does not run outside of this process: {type(error).__name__}: {error}{missing}",
                where=str(path),
                remedy="store everything that forward needs as a number, a text, a parameter or a buffer of the module",
            ) from error
    if not _agree(expected, found):
        raise UsageError(
            "the module does not answer outside of this process as it does here",
            where=str(path),
            remedy="its answer may depend on its own attributes and arguments only",
        )


def _copied(module: nn.Module, left_out: Sequence[str]) -> nn.Module:
    """Copy the module, so that a call leaves no trace in it. Attributes that cannot be written, such as locks, are
    shared.
    """
    shared = [getattr(module.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in left_out]
    try:
        return copy.deepcopy(module, {id(value): value for value in shared})
    except (TypeError, RuntimeError) as error:
        raise UsageError(f"the module cannot be copied: {error}", remedy="copy.deepcopy(module) has to work") from error


def _answer(module: nn.Module, inputs: Sequence[Any]) -> Any:
    device = next((tensor.device for tensor in (*module.parameters(), *module.buffers())), None)
    given = map_tensors(own_copy(list(inputs)), lambda tensor: tensor if device is None else tensor.to(device))
    torch.manual_seed(0)
    with torch.no_grad():
        positional, named = passed(given, calling.keyword_only(type(module).forward))
        return module(*positional, **named)


def _agree(expected: Any, found: Any) -> bool:
    before, after = list(tensors_in(expected)), list(tensors_in(found))
    if len(before) != len(after):
        return False
    try:
        for old, new in zip(before, after):
            torch.testing.assert_close(new, old, equal_nan=True)
    except AssertionError:
        return False
    return True
