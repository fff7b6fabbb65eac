"""The values that a partition stores, and questions about the values around them."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from triton_agent.policy.author.ir.program import EXPENSIVE, VIEWS, Program, Value


class Storage:
    """The stored values of one program. `partition.py` adds to them until every kernel has a plan."""

    def __init__(self, program: Program, wanted: Iterable[str]) -> None:
        self.program = program
        self.stored = set(wanted)
        self.made: set[str] = set()
        """Values that a planned kernel stores."""
        self.order = {name: i for i, name in enumerate(program.values)}
        live = program.needed()
        self._users = {name: [user for user in users if user in live] for name, users in program.users().items()}
        self._below: dict[str, frozenset[str]] = {}
        self._together: list[tuple[frozenset[str], frozenset[str]]] = []
        """For each planned kernel that stores several values: these values, and the values that it loads."""

    @functools.cached_property
    def in_groups(self) -> frozenset[str]:
        """Reductions that depend on each other within the same rows, such as the maximum and the sum of a softmax.

        If they were unrolled, each element of the later one would need the earlier one, which would have to be stored.
        A maximum whose argmax is computed in the same rows belongs to them, too, because an argmax is never unrolled.
        """
        found: set[str] = set()
        reductions = [value for value in self.program.values.values() if value.operation == "reduce"]
        places = {(value.inputs, value.detail) for value in reductions if value.function.startswith("arg")}
        for value in reductions:
            earlier = self._earlier_of_its_rows(value)
            if earlier or (value.inputs, value.detail) in places:
                found |= {value.name, *earlier}
        return frozenset(found)

    def _earlier_of_its_rows(self, value: Value) -> set[str]:
        """Return earlier reductions over the same rows; none if the rows are concatenated, where each piece is
        separate.
        """
        values, found, seen = self.program.values, set[str](), set[str]()
        waiting = [value.inputs[0]]
        while waiting:
            name = waiting.pop()
            other = values[name]
            if other.operation == "concat":
                return set()
            if name in seen:
                continue
            seen.add(name)
            if other.operation == "reduce" and other.elements() == value.elements():
                if values[other.inputs[0]].elements() == values[value.inputs[0]].elements():
                    found.add(name)
            elif other.operation in ("point", "reshape", "expand", "permute"):
                waiting += other.inputs
        return found

    def pending(self, name: str) -> bool:
        return name in self.stored and name not in self.made

    def ancestors(self, name: str) -> frozenset[str]:
        """Return the value and everything that it depends on."""
        if name not in self._below:
            found = {name}
            waiting = [name]
            while waiting:
                for item in self.program.values[waiting.pop()].inputs:
                    if item not in found:
                        found.add(item)
                        waiting.append(item)
            self._below[name] = frozenset(found)
        return self._below[name]

    def stored_together(self, roots: Iterable[str], loads: Iterable[str]) -> None:
        """Note that one kernel stores all these values, so that each waits for everything that the kernel loads."""
        self._together.append((frozenset(roots), frozenset(loads)))

    def waits_for(self, name: str) -> frozenset[str]:
        """Return the value and everything that is computed before it, as the kernels are planned so far."""
        return self.before([name], self._together)

    def before(self, names: Iterable[str], together: Iterable[tuple[frozenset[str], Iterable[str]]]) -> frozenset[str]:
        """Return these values and everything that is computed before them.

        `together` holds values that one kernel stores, so that each waits for everything that the kernel loads, and the
        values that it loads.
        """
        found, waiting = frozenset[str]().union(*map(self.ancestors, names)), list(together)
        while ready := [one for one in waiting if one[0] & found]:
            waiting = [one for one in waiting if not one[0] & found]
            found = found.union(*(self.ancestors(load) for _, loads in ready for load in loads))
        return found

    def cone(self, roots: Iterable[str]) -> set[str]:
        """Return the values that a kernel with these roots computes."""
        found: set[str] = set()
        waiting = list(roots)
        first = set(waiting)
        while waiting:
            name = waiting.pop()
            value = self.program.values[name]
            if name in found or value.operation in ("source", "torch") or (name in self.stored and name not in first):
                continue
            found.add(name)
            waiting.extend(value.inputs)
        return found

    def leaks(self, name: str, cone: set[str]) -> bool:
        """Return True if a value outside of the cone uses this value, or a value computed from it that is not
        stored.
        """
        waiting, seen = [name], set()
        while waiting:
            current = waiting.pop()
            if current in self.stored:
                continue
            for user in self._users[current]:
                if user not in cone:
                    return True
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
        return False

    def last_of_chain(self, name: str, *, before_stored: bool = False) -> str:
        """Return the value to store in place of an expensive one: the last of the point functions that follow it.

        The chain ends where a value has several users, where it grows, and before the next expensive value. With
        `before_stored` it also ends before it meets another expensive value, and before a value that is stored anyway.
        """
        best, frontier = name, set(self._users[name])
        while frontier and best not in self.stored:
            user = min(frontier, key=self.order.__getitem__)
            value = self.program.values[user]
            if value.operation not in ("point", *VIEWS) or value.elements() > self.program.values[name].elements():
                break
            if before_stored and (user in self.stored or self._meets_another(user, name)):
                break
            frontier.remove(user)
            if not frontier and value.elements() == self.program.values[name].elements():
                best = user
            if user in self.stored:
                return user if not frontier and user == best else best
            frontier |= set(self._users[user])
        return self._without_views(best, name)

    def _meets_another(self, user: str, name: str) -> bool:
        """Return True if `user` depends on another expensive value that is not stored and that `name` does not depend
        on.
        """
        others = self.cone([user]) - self.ancestors(name)
        return any(self.program.values[other].operation in EXPENSIVE for other in others)

    def _without_views(self, name: str, floor: str) -> str:
        """Return the value behind the views at the end of a chain; kernels that read it compute the views."""
        while name != floor and name not in self.stored and self.program.values[name].operation in VIEWS:
            name = self.program.values[name].inputs[0]
        return name
