"""Turns an unrolled loop over steps back into a loop: a `fold`, whose body computes a state from the one before.

A model that goes through a sequence in Python reaches the author as hundreds of operators, the same few for each step,
and a stack of what the steps gave. If all steps are alike, what does not depend on the state is computed for all steps
at once, with a leading dimension for them, and one kernel goes through the steps and keeps the state in registers. The
values of single steps are no longer needed then.

Covered are loops with one state, whose next value is made of functions of single elements. Other loops stay unrolled.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from triton_agent.policy.author.ir.program import VIEWS, Number, Operand, Value
from triton_agent.policy.author.ir.sizes import Size, constant, is_constant, minus
from triton_agent.policy.author.rules.building import Builder


class _Unlike(Exception):
    """Raised if the steps differ in more than what is taken from the same place of each."""


def folded(builder: Builder, pieces: Sequence[str]) -> list[str] | None:
    """Return values whose concatenation along a new first dimension stacks the pieces; None if no loop made them."""
    order = {name: place for place, name in enumerate(builder.program.values)}
    places = [order[_behind_views(builder, name)] for name in pieces]
    backwards = places == sorted(places, reverse=True)
    if len(set(places)) < len(places) or not (backwards or places == sorted(places)):
        return None
    steps = list(reversed(pieces)) if backwards else list(pieces)
    for first in (0, 1):
        try:
            whole = _Loop(builder, steps[first:], steps[:first], backwards=backwards).whole()
        except _Unlike:
            continue
        rest = [builder.unsqueeze(steps[0], 0)] if first else []
        return [whole, *rest] if backwards else [*rest, whole]
    return None


def _behind_views(builder: Builder, name: str) -> str:
    while builder.get(name).operation in VIEWS:
        name = builder.get(name).inputs[0]
    return name


class _Loop:
    """The steps of a loop, compared one by one, and lifted to values with a dimension of steps."""

    def __init__(self, builder: Builder, steps: Sequence[str], before: Sequence[str], *, backwards: bool) -> None:
        self.builder, self.backwards = builder, backwards
        self.values = builder.program.values
        self.steps = list(steps)
        self.count = constant(len(steps), builder.width)
        known: set[str] = set()
        for name in before:
            self._cone(name, known)
        self.own: list[set[str]] = []
        """Values that are new in each step."""
        for name in steps:
            found: set[str] = set()
            self._cone(name, found, known)
            known |= found
            self.own.append(found)
        self.starts: dict[str, list[Size]] = {}
        """For each slice of the last step: where the slices of the steps before it begin, last step first."""
        self.state, self.before_last, self.first = self._state()
        self.moving = self._moving()
        """Values of the last step that depend on the state before it."""
        self.lifted: dict[str, str] = {}

    def _cone(self, name: str, found: set[str], stop: Sequence[str] | set[str] = ()) -> None:
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one not in found and one not in stop:
                found.add(one)
                waiting.extend(self.values[one].inputs)

    # -- all steps are alike ---------------------------------------------------------------------------------------

    def _state(self) -> tuple[str, str, str]:
        """Return the state after the last step, the one before it, and the one before the first step."""
        alike = {name: [name] for name in self.own[-1]}
        """For each value of the last step: the same value in the steps before it, last step first."""
        carried: list[tuple[str, str]] = []
        for step in range(len(self.steps) - 1, 0, -1):
            pairs: dict[str, str] = {}
            states: set[tuple[str, str]] = set()
            self._match(self.steps[step], self.steps[step - 1], step, pairs, states)
            if len(states) != 1:
                raise _Unlike
            carried.append(states.pop())
            for chain in alike.values():
                if len(chain) == len(self.steps) - step:
                    chain.append(pairs.get(chain[-1], ""))
        for (_, earlier), (later, _) in itertools.pairwise(carried):
            if earlier != later:
                raise _Unlike
        before_last, first = carried[0][0], carried[-1][1]
        states_before = [later for later, _ in carried]
        state = next((name for name, chain in alike.items() if chain[1:] == states_before), None)
        if state is None or not _are_of_one_form(self.values[state], self.values[first]):
            raise _Unlike
        for name, chain in alike.items():
            if self.values[name].operation == "slice":
                self.starts[name] = [self.values[one].detail[1] for one in chain if one]
        return state, before_last, first

    def _moving(self) -> set[str]:
        found = {self.before_last}
        for name in self.values:
            if name in self.own[-1] and found.intersection(self.values[name].inputs):
                found.add(name)
        return found

    def _match(self, a: str, b: str, step: int, pairs: dict[str, str], states: set[tuple[str, str]]) -> None:
        """Compare the values of a step with those of the step before it."""
        waiting = [(a, b)]
        while waiting:
            a, b = waiting.pop()
            if a == b or pairs.get(a) == b:
                continue
            if a not in self.own[step]:
                if a not in self.own[step - 1]:
                    raise _Unlike
                states.add((a, b))
                continue
            one, other = self.values[a], self.values[b]
            if a in pairs or b not in self.own[step - 1] or not _are_alike(one, other):
                raise _Unlike
            pairs[a] = b
            waiting += zip(one.inputs, other.inputs)

    # -- for all steps at once -------------------------------------------------------------------------------------

    def whole(self) -> str:
        """Return the pieces of all steps, in the order of the pieces."""
        builder, state = self.builder, self.values[self.state]
        shape = (self.count, *state.shape)
        carry = builder.emit("carry", shape=shape, dtype=state.dtype, function=self.state, hint=state.hint)
        made = self._lift(self.state, {self.before_last: carry})
        function = "fold_back" if self.backwards else "fold"
        whole = builder.emit(
            "scan", made, self.first, shape=shape, dtype=state.dtype, function=function, detail=0, hint=state.hint
        )
        builder.program.results.add(whole)
        self.lifted[self.state] = whole
        end = constant(0, builder.width) if self.backwards else minus(self.count, builder.one())
        last = builder.slice(whole, 0, end, builder.one())
        found = self._lift(self.steps[-1], self.lifted)
        builder.replace(self.state, builder.reshape(last, state.shape))
        return found

    def _lift(self, name: str, known: dict[str, str]) -> str:
        """Return a value of the last step for all steps."""
        if name in known:
            return known[name]
        if name in self.lifted:
            return self.lifted[name]
        if name not in self.own[-1]:
            if name == self.before_last:
                raise _Unlike  # what a step gives depends on more than the state after it
            return name
        value = self.values[name]
        within = name in self.moving and known is not self.lifted
        if within and value.operation != "point":
            raise _Unlike
        made = self._slices(value) if value.operation == "slice" else self._of_all(value, known)
        (known if within else self.lifted)[name] = made
        if name in self.builder.program.results:
            self.builder.program.results.add(made)
        return made

    def _slices(self, value: Value) -> str:
        """Return the slices of all steps: elements of one tensor at equal distances, one for each step."""
        dim, _, step = value.detail
        source, builder = value.inputs[0], self.builder
        starts = self.starts[value.name]
        starts = starts if self.backwards else starts[::-1]
        apart = [minus(b, a) for a, b in itertools.pairwise(starts)]
        if source in self.own[-1] or step != 1 or not is_constant(value.shape[dim], 1) or len(set(apart)) != 1:
            raise _Unlike
        if len(starts) != len(self.steps) or not (is_constant(apart[0], 1) or is_constant(apart[0], -1)):
            raise _Unlike
        made = builder.slice(source, dim, starts[0], self.count, apart[0][0])
        rank = len(value.shape)
        made = builder.permute(made, (dim, *(i for i in range(rank) if i != dim)))
        return builder.reshape(made, (self.count, *value.shape))

    def _of_all(self, value: Value, known: dict[str, str]) -> str:
        """Return an operation on values of all steps."""
        builder, shape = self.builder, (self.count, *value.shape)
        operands = tuple(self._operand(operand, value, known) for operand in value.operands)
        detail = value.detail
        if value.operation == "permute":
            detail = (0, *(dim + 1 for dim in value.detail))
        elif value.operation == "reduce":
            detail = tuple(dim + 1 for dim in value.detail)
        elif value.operation not in ("point", "reshape", "expand"):
            raise _Unlike
        return builder.emit(
            value.operation,
            *operands,
            shape=shape,
            dtype=value.dtype,
            function=value.function,
            detail=detail,
            hint=value.hint,
        )

    def _operand(self, operand: Operand, value: Value, known: dict[str, str]) -> Operand:
        """Return an operand for all steps; one that is broadcast keeps its dimensions apart from that of the steps."""
        if isinstance(operand, Number):
            return operand
        made, shape = self._lift(operand, known), self.values[operand].shape
        if made == operand:
            return made
        missing = len(value.shape) - len(shape) if value.operation in ("point", "expand") else 0
        ones = (self.builder.one(),) * missing
        return self.builder.reshape(made, (self.count, *ones, *shape))


def _are_of_one_form(a: Value, b: Value) -> bool:
    return (a.shape, a.dtype) == (b.shape, b.dtype)


def _are_alike(a: Value, b: Value) -> bool:
    same = (a.operation, a.function, a.shape, a.dtype) == (b.operation, b.function, b.shape, b.dtype)
    if not same or len(a.operands) != len(b.operands):
        return False
    if any(isinstance(x, Number) or isinstance(y, Number) for x, y in zip(a.operands, b.operands) if x != y):
        return False
    if a.operation == "slice":
        return bool(a.detail[0] == b.detail[0] and a.detail[2] == b.detail[2])
    return bool(a.detail == b.detail)
