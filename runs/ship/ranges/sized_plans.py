"""Makes one plan for all lengths of a bracket from the plans of some of them.

Plans of one bracket differ in numbers only; these become expressions of the free sizes (`fitting.py`). Judging the file
that contains the expressions shows whether they are right at other lengths.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from triton_agent.runs.ship.module_forms import Kernels, Module, as_called, checks_of, given_names
from triton_agent.runs.ship.plan import Plan, argument_paths
from triton_agent.runs.ship.python_text import Text, tuple_of
from triton_agent.runs.ship.ranges.brackets import Bracket
from triton_agent.runs.ship.ranges.fitting import NUMBER, Fitter, Unfitted, masked, merged
from triton_agent.tools.problem.size_range import Lengths, SizeRange
from triton_agent.tools.processes.protocol import TapedModule
from triton_agent.tools.tape.outline import Outline, TensorAt


@dataclasses.dataclass(slots=True, kw_only=True)
class SizedForm:
    """One form of call of the module at all lengths of a bracket."""

    train: bool
    call: Outline
    """The call at one of the lengths."""
    arguments: list[str]
    """Names of the arguments of the call, as the checks use them."""
    parameters: tuple[str, ...]
    """Names of forward's parameters."""
    checks: list[str]
    tensors: str
    sizes: list[Text]
    """Statements that read the sizes from the plan's parameters."""
    plan: Plan
    name: str = ""
    """Name of the plan's function."""

    @property
    def fixed(self) -> str:
        """Return the text that has to be equal at all lengths."""
        return str([*map(str, self.plan.prologue), self.plan.constants, self.plan.parameters, self.tensors])

    @property
    def numbered(self) -> str:
        """Return the texts that may differ in numbers."""
        return "\n".join([*self.checks, *map(str, (*self.plan.body, self.plan.strides, self.plan.results))])


def sized_forms(bracket: Bracket, ranges: Sequence[SizeRange], kernels: Kernels) -> list[SizedForm]:
    """Return the forms of call of a bracket, eval mode first; raise `Unfitted` where its plans have no common text."""
    at = {lengths: forms_at(module, kernels) for lengths, module in bracket.modules.items()}
    modes = next(iter(at.values())).keys()
    if any(forms.keys() != modes for forms in at.values()):
        raise Unfitted("some sizes have a call in train mode and others do not")
    return [
        _sized({lengths: forms[train] for lengths, forms in at.items()}, bracket, ranges, kernels) for train in modes
    ]


def forms_at(taped: TapedModule, kernels: Kernels) -> dict[bool, SizedForm]:
    """Return the forms of call at one length, by mode, as a plan for that length would have them."""
    module = as_called(Module.read(taped), kernels.written)
    sized = kernels.variables[0] if len(kernels.variables) == 1 else str(tuple_of(kernels.variables))
    found: dict[bool, SizedForm] = {}
    for form in module.forms:
        given = given_names([form.call], module)
        tensors = str(tuple_of([path for path, _ in argument_paths(form.call, given)]))
        checks = [
            text for path, value in zip(given, form.call.values) for text in checks_of(path, value, form.call.tensors)
        ]
        alike = not found or form.tape == module.forms[0].tape
        plan = kernels.plan(form, module, sized=sized, mode="" if alike else "train")
        found[form.train] = SizedForm(
            train=form.train,
            call=form.call,
            arguments=given,
            parameters=module.parameters,
            checks=checks,
            tensors=tensors,
            sizes=[],
            plan=plan,
        )
    return found


def structure_of(forms: Mapping[bool, SizedForm]) -> str:
    """Return the text of the plans without the numbers that an expression may replace."""
    return "\n".join(f"{train}: {one.fixed}\n{masked(one.numbered)}" for train, one in sorted(forms.items()))


def _sized(
    at: Mapping[Lengths, SizedForm], bracket: Bracket, ranges: Sequence[SizeRange], kernels: Kernels
) -> SizedForm:
    forms = [*at.values()]
    first = forms[0]
    if len({form.fixed for form in forms}) > 1 or len({masked(form.numbered) for form in forms}) > 1:
        raise Unfitted("its steps differ from size to size")
    fitter = Fitter(
        [*at],
        kernels.variables,
        held_out=bracket.held_out,
        constants=[
            int(text)
            for made, *_ in kernels.launches
            for text in NUMBER.findall(made)
            if text.isdigit() and int(text) > 1
        ],
        complete=bracket.complete,
    )
    fitter.learn([*zip(*(NUMBER.findall(form.numbered) for form in forms))])
    body = [merged(row, fitter) for row in zip(*(form.plan.body for form in forms))]
    checks = [str(merged(row, fitter)) for row in zip(*(form.checks for form in forms))]
    sizes: list[Text] = []
    for number, (one, variable) in enumerate(zip(ranges, kernels.variables)):
        argument, dimension = _place(one, {lengths[number]: form for lengths, form in at.items()})
        value, path = first.call.values[argument], first.arguments[argument]
        sizes.append(f"{variable} = {first.plan.parameters[value.index]}.shape[{dimension}]")
        here = next(at for at, text in enumerate(checks) if text.startswith(f"{path}.shape == "))
        rank = f"{path}.dim() == {len(first.call.tensors[value.index].shape)}"
        read = f"{bracket.low[number]} <= ({variable} := {path}.shape[{dimension}]) <= {bracket.high[number]}"
        checks[here:here] = [*([rank] if rank not in checks else []), read]
    plan = dataclasses.replace(
        first.plan,
        body=(*sizes, *body),
        strides=merged([form.plan.strides for form in forms], fitter),
        results=merged([form.plan.results for form in forms], fitter),
    )
    return dataclasses.replace(first, checks=_reads_first(checks), sizes=sizes, plan=plan)


def _reads_first(checks: Sequence[str]) -> list[str]:
    """Move conditions that read a size, and those they depend on, before the conditions that use it."""
    reads = ("isinstance(", ":= ", ".dim() == ")
    return sorted(checks, key=lambda text: not any(word in text for word in reads))


def _place(one: SizeRange, at: Mapping[int, SizedForm]) -> tuple[int, int]:
    """Return the number of the argument and the dimension that a size is read from."""
    form = next(iter(at.values()))
    if one.places:
        name, dimension = one.places[0]
        return form.parameters.index(name), dimension
    for number, value in enumerate(form.call.values):
        if isinstance(value, TensorAt) and all(
            other.call.tensors[value.index].shape[:1] == (length,) for length, other in at.items()
        ):
            return number, 0
    raise Unfitted("no argument of its own has the batch as its leading dimension")
