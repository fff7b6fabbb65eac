"""Which values are stored, and which kernel computes each: the partition of a program.

Going backwards from what has to be there in the end, each kernel takes in everything its results need: views and
functions of single elements always, reductions where they run over the kernel's own rows, one product or scan. What it
cannot take in is stored by a kernel of its own, together with the single-element functions that follow it. A value
that is cheap may be computed by several kernels, an expensive one never is.
"""

from __future__ import annotations

from collections.abc import Iterable

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.ir.program import EXPENSIVE, VIEWS, Program
from triton_agent.policy.author.ir.sizes import product
from triton_agent.policy.author.plan.indexing import (
    AxisMustSplit,
    AxisTable,
)
from triton_agent.policy.author.plan.kernel_graph import MustStore
from triton_agent.policy.author.plan.kernel_plan import Attempt, Kernel, Stuck

_SPLITS_AT_MOST = 64
"""Times that an axis of one kernel may be cut in two."""
BRIEF = 1 << 25
"""Elements that are read in some tens of microseconds, of which a kernel's start and end take six."""
_MANY = 8
"""Kernels that are made one at once."""


class Partition:
    """Plans kernels until everything that is wanted is stored."""

    def __init__(
        self,
        program: Program,
        wanted: Iterable[str],
        *,
        apart: Iterable[str] = (),
        merge: bool = True,
        joined: bool = False,
        processors: int = 1,
    ) -> None:
        """`apart`: values that are stored on purpose, so that what makes them and what takes them stay two kernels."""
        self.program = program
        self.processors = processors
        self.joined = joined
        self.apart = frozenset(apart)
        self.wanted = frozenset(wanted) | self.apart
        self.stored = set(self.wanted)
        self.kernels: list[Kernel] = []
        self._order = {name: i for i, name in enumerate(program.values)}
        self._live = program.needed()
        self._users = {n: [u for u in users if u in self._live] for n, users in program.users().items()}
        self._below: dict[str, frozenset[str]] = {}
        self._tried: set[frozenset[str]] = set()
        """Groups of kernels that became one, or did not."""
        self._plan()
        if merge:
            self._merge()

    # -- the loop --------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        done: set[str] = set()
        while self.stored - done:
            root = max(self.stored - done, key=self._order.__getitem__)
            try:
                kernel = self._kernel([root])
            except MustStore as need:
                if need.value in self.stored:
                    raise Stuck(root, f"needs {need.value}, which is stored already") from need
                self.stored.add(need.value)
                continue
            except Stuck:
                raise
            except BeyondAuthor as reason:
                raise Stuck(root, str(reason)) from reason
            self.kernels.append(kernel)
            done |= {stored.value for stored in kernel.roots}

    def _merge(self) -> None:
        """Kernels over the same axes that read the same tensors become one."""
        merged = True
        while merged:
            merged = self._merge_many() or self._merge_pair()

    def _merge_pair(self) -> bool:
        for a in self.kernels:
            for b in self.kernels:
                if a is not b and self._belong_together(a, b) and self._merge_all([a, b]):
                    return True
        return False

    def _merge_many(self) -> bool:
        """At once where there are many: two at a time, every one of them would be planned again and again."""
        for a in self.kernels:
            group = [a]
            for b in self.kernels:
                if b is not a and self._belong_together(a, b) and not any(self._ordered(b, k) for k in group):
                    group.append(b)
            if len(group) >= _MANY and not self._tried_together(group) and self._merge_all(group):
                return True
        return False

    def _ordered(self, a: Kernel, b: Kernel) -> bool:
        return self._depends(a, b) or self._depends(b, a)

    def _tried_together(self, group: list[Kernel]) -> bool:
        key = frozenset(kernel.key for kernel in group)
        known = key in self._tried
        self._tried.add(key)
        return known

    def _belong_together(self, a: Kernel, b: Kernel) -> bool:
        width = self.program.width
        if "product" in (a.kind, b.kind) or self._depends(a, b) or any(root.adds for root in (*a.roots, *b.roots)):
            return False
        if self._depends(b, a):
            return self._follows_rows(a, b)
        if not set(a.loads) & set(b.loads):
            return self._are_brief_alike(a, b)
        elements = [product((axis.size for axis in (*k.kept, *k.reduced)), width) for k in (a, b)]
        return elements[0] == elements[1]

    def _follows_rows(self, rows: Kernel, after: Kernel) -> bool:
        """Whether `after` goes on with the rows or with one number for each, and with nothing else made of them."""
        made = {root.value for root in rows.roots}
        width = self.program.width
        size = product((axis.size for axis in after.kept), width)
        fits = size in (
            product((axis.size for axis in rows.kept), width),
            product((axis.size for axis in (*rows.kept, *rows.reduced)), width),
        )
        between = (name for name in after.loads if name not in made)
        return (
            rows.kind == "rows"
            and not made & self.apart
            and (after.kind == "points" or self._are_rows_alike(rows, after))
            and fits
            and not any(made & self._ancestors(name) for name in between)
        )

    def _are_rows_alike(self, a: Kernel, b: Kernel) -> bool:
        """Return whether both reduce rows of the same number and length, so many that none has to be cut into parts."""
        width = self.program.width
        counts = [product((axis.size for axis in kernel.kept), width) for kernel in (a, b)]
        lengths = [product((axis.size for axis in kernel.reduced), width) for kernel in (a, b)]
        alike = a.kind == b.kind == "rows" and counts[0] == counts[1] and lengths[0] == lengths[1]
        return alike and 2 * counts[0][0] > self.processors

    def _are_brief_alike(self, a: Kernel, b: Kernel) -> bool:
        """Whether both only reduce rows of the same number and length, and so quickly that a launch is a good part."""
        width, values = self.program.width, self.program.values
        sizes = [[product((axis.size for axis in axes), width) for axes in (k.kept, k.reduced)] for k in (a, b)]
        reduces = all(not root.index.axes() & set(k.reduced) for k in (a, b) for root in k.roots)
        most = max(sum(values[name].elements() for name in k.loads) for k in (a, b))
        return a.kind == b.kind == "rows" and sizes[0] == sizes[1] and reduces and most <= BRIEF

    def _merge_all(self, group: list[Kernel]) -> bool:
        """The first one's place is the new kernel's."""
        stored = [root.value for kernel in group for root in kernel.roots]
        roots = sorted(stored, key=self._elements, reverse=True)
        rest = [kernel for kernel in self.kernels if all(kernel is not one for one in group)]
        others = {name for kernel in rest for name in kernel.loads}
        dropped = {name for name in roots if name not in self.wanted and name not in others}
        roots = [name for name in roots if name not in dropped]
        self.stored -= dropped
        try:
            kernel = self._kernel(roots)
        except (MustStore, BeyondAuthor):
            self.stored |= dropped
            return False
        same = product((axis.size for axis in kernel.kept), self.program.width) in (
            product((axis.size for axis in k.kept), self.program.width) for k in group
        )
        if not same or {root.value for root in kernel.roots} != set(roots):
            self.stored |= dropped
            return False
        gone = {id(one) for one in group[1:]}
        self.kernels = [kernel if k is group[0] else k for k in self.kernels if id(k) not in gone]
        return True

    def _elements(self, name: str) -> int:
        return self.program.values[name].elements()

    def _depends(self, a: Kernel, b: Kernel) -> bool:
        """Return whether `a` needs anything that `b` stores, however far back."""
        made = {root.value for root in b.roots}
        return any(made & self._ancestors(name) for name in a.loads)

    def _ancestors(self, name: str) -> frozenset[str]:
        """The value itself and all it is made of."""
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

    # -- one kernel ------------------------------------------------------------------------------------------------

    def _kernel(self, roots: list[str]) -> Kernel:
        table = AxisTable(self.program.width)
        for _ in range(_SPLITS_AT_MOST):
            try:
                return Attempt(self, roots, table).kernel()
            except AxisMustSplit as request:
                table.split(request.axis, request.inner)
        raise Stuck(roots[0], "its axes do not come apart")

    def cone(self, roots: Iterable[str]) -> set[str]:
        """What a kernel with these roots computes."""
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
        """Return whether somebody outside of the cone needs this value, or what follows from it."""
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
        """The value to store where an expensive one has to be: after the single-element functions that follow it.

        The chain ends where the value is needed in two places, where it grows, and before the next expensive one; if
        asked for, also before it meets another one, and before a value that is stored anyway.
        """
        best, frontier = name, set(self._users[name])
        while frontier and best not in self.stored:
            user = min(frontier, key=self._order.__getitem__)
            value = self.program.values[user]
            if value.operation not in ("point", *VIEWS) or value.elements() > self._elements(name):
                return best
            if before_stored and (user in self.stored or self._meets_another(user, name)):
                break
            frontier.remove(user)
            if not frontier and value.elements() == self._elements(name):
                best = user
            if user in self.stored:
                return user if not frontier and user == best else best
            frontier |= set(self._users[user])
        return self._without_views(best, name)

    def _meets_another(self, user: str, name: str) -> bool:
        """Return whether something expensive that is not stored goes into `user` beside what `name` is made of."""
        others = self.cone([user]) - self._ancestors(name)
        return any(self.program.values[other].operation in EXPENSIVE for other in others)

    def _without_views(self, name: str, floor: str) -> str:
        """A view at the end of a chain is left to whoever reads it."""
        while name != floor and name not in self.stored and self.program.values[name].operation in VIEWS:
            name = self.program.values[name].inputs[0]
        return name

    def pending(self, name: str) -> bool:
        return name in self.stored and not any(name == root.value for k in self.kernels for root in k.roots)

    def ancestors(self, name: str) -> frozenset[str]:
        return self._ancestors(name)
