"""One call of an operator of torch, with its arguments by name: what a mutant takes apart and puts together again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from triton_agent.tools.operators import Kind, bare_name, functional_name, kind_of


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operator in its functional form, and everything it was given, defaults included."""

    operator: Any
    """`torch.ops.aten.relu.default`, say."""
    arguments: Mapping[str, Any]
    """In the order of the schema."""

    @property
    def name(self) -> str:
        return bare_name(str(self.operator))

    @property
    def kind(self) -> Kind:
        return kind_of(str(self.operator))

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The arguments that are tensors, those in lists left out."""
        return {name: value for name, value in self.arguments.items() if isinstance(value, torch.Tensor)}

    @property
    def first(self) -> torch.Tensor:
        """The tensor it works on."""
        return next(iter(self.tensors.values()))

    def get(self, name: str) -> Any:
        return self.arguments.get(name)

    def run(self, changed: Mapping[str, Any] | None = None, *, operator: Any = None) -> Any:
        """Call it, with some arguments changed, or another operator with the same arguments."""
        operator = operator or self.operator
        values = {**self.arguments, **(changed or {})}
        positional, keywords = [], {}
        for (name, value), argument in zip(values.items(), operator._schema.arguments):
            if argument.kwarg_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
            del name
        return operator(*positional, **keywords)

    def takes(self, *types: str) -> Iterator[tuple[str, Any]]:
        """Names and values of the arguments that the schema gives one of these types, optional or not."""
        for argument in self.operator._schema.arguments:
            if str(argument.type).removeprefix("Optional[").removesuffix("]") in types:
                yield argument.name, self.arguments[argument.name]

    def is_optional(self, name: str) -> bool:
        return any(a.name == name and str(a.type).startswith("Optional[") for a in self.operator._schema.arguments)


def call_of(operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | None:
    """The call in functional form; None where there is no such form (`out=`, or an in-place operator on its own)."""
    functional = functional_form(operator)
    if functional is None:
        return None
    schema = functional._schema.arguments
    given = {argument.name: value for argument, value in zip(schema, args)} | dict(kwargs)
    arguments = {a.name: given.get(a.name, a.default_value) for a in schema}
    return Call(operator=functional, arguments=arguments)


def functional_form(operator: Any) -> Any:
    """`relu` for `relu_`; the operator itself where it writes to nothing it returns."""
    schema = operator._schema
    if any(argument.is_out for argument in schema.arguments):
        return None
    if not writes_to_first(operator):
        return operator
    packet = getattr(torch.ops.aten, functional_name(bare_name(str(operator))), None)
    return getattr(packet, operator._overloadname, None) if packet is not None else None


def writes_to_first(operator: Any) -> bool:
    """Whether it is the in-place form of another, as in `add_`."""
    name = bare_name(str(operator))
    arguments = operator._schema.arguments
    written = arguments[0].alias_info if arguments else None
    return functional_name(name) != name and written is not None and bool(written.is_write)


def sibling(call: Call, name: str) -> Any:
    """Another operator that takes the same arguments; None where there is none."""
    packet = getattr(torch.ops.aten, name, None)
    overload = getattr(packet, call.operator._overloadname, None) if packet is not None else None
    if overload is None:
        return None
    same = [str(a.type) for a in overload._schema.arguments] == [str(a.type) for a in call.operator._schema.arguments]
    return overload if same else None


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A result, or each of several results, changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    return tuple(mapped(item, change) for item in value) if isinstance(value, (list, tuple)) else value


def results_of(value: Any) -> list[torch.Tensor]:
    """The tensors among an operator's results."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in results_of(item)] if isinstance(value, (list, tuple)) else []
