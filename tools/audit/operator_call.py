"""One call of a torch operator with its arguments by name, which a mutant changes and runs again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from triton_agent.tools.graph.operators import Kind, bare_name, functional_name, kind_of


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCall:
    """An operator in its functional form with all its arguments, defaults included."""

    operator: Any
    """An overload, for example `torch.ops.aten.relu.default`."""
    arguments: Mapping[str, Any]
    """Arguments in the order of the schema."""

    @property
    def name(self) -> str:
        return bare_name(str(self.operator))

    @property
    def kind(self) -> Kind:
        return kind_of(str(self.operator))

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The arguments that are tensors; tensors inside lists are left out."""
        return {name: value for name, value in self.arguments.items() if isinstance(value, torch.Tensor)}

    @property
    def first(self) -> torch.Tensor:
        return next(iter(self.tensors.values()))

    def get(self, name: str) -> Any:
        return self.arguments.get(name)

    def run(self, changed: Mapping[str, Any] | None = None, *, operator: Any = None) -> Any:
        """Run the call with some arguments changed, or run another operator on the same arguments."""
        operator = operator or self.operator
        values = [*{**self.arguments, **(changed or {})}.values()]
        pairs = list(zip(operator._schema.arguments, values))
        positional = [value for argument, value in pairs if not argument.kwarg_only]
        return operator(*positional, **{argument.name: value for argument, value in pairs if argument.kwarg_only})

    def takes(self, *types: str) -> Iterator[tuple[str, Any]]:
        """Yield name and value of each argument that has one of these types in the schema, optional or not."""
        for argument in self.operator._schema.arguments:
            if str(argument.type).removeprefix("Optional[").removesuffix("]") in types:
                yield argument.name, self.arguments[argument.name]

    def is_optional(self, name: str) -> bool:
        return any(a.name == name and str(a.type).startswith("Optional[") for a in self.operator._schema.arguments)

    def sibling(self, name: str) -> Any:
        """Return another operator with the same arguments, or None."""
        overload = getattr(getattr(torch.ops.aten, name, None), self.operator._overloadname, None)
        types = [[str(a.type) for a in found._schema.arguments] for found in (overload, self.operator) if found]
        return overload if overload is not None and types[0] == types[1] else None


def call_of(operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> OperatorCall | None:
    """Return the call in its functional form (`relu` for `relu_`).

    Return None if there is none: for `out=` variants, and for operators that exist in place only.
    """
    if any(argument.is_out for argument in operator._schema.arguments):
        return None
    functional = operator
    if writes_to_first(operator):
        packet = getattr(torch.ops.aten, functional_name(bare_name(str(operator))), None)
        functional = getattr(packet, operator._overloadname, None)
        if functional is None:
            return None
    schema = functional._schema.arguments
    given = {argument.name: value for argument, value in zip(schema, args)} | dict(kwargs)
    return OperatorCall(operator=functional, arguments={a.name: given.get(a.name, a.default_value) for a in schema})


def writes_to_first(operator: Any) -> bool:
    """Return True if the operator is the in-place form of another one, as `add_` is."""
    name = bare_name(str(operator))
    arguments = operator._schema.arguments
    written = arguments[0].alias_info if arguments else None
    return functional_name(name) != name and written is not None and bool(written.is_write)
