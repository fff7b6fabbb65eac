"""Partitions a program into kernels: which values are stored, and which kernel computes each.

Working backwards from the outputs, each kernel fuses everything that its results need: views and point functions
always, reductions if they run over the kernel's own rows, and one product or scan. A value that cannot be fused is
stored by a kernel of its own, together with the point functions that follow it. Several kernels may compute a cheap
value; an expensive one is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.drafting import Drafting
from triton_agent.policy.author.ir.sizes import product
from triton_agent.policy.author.plan.attempt import LONG_ROW, Attempt
from triton_agent.policy.author.plan.chains import Chains
from triton_agent.policy.author.plan.indexing import AxisMustSplit, AxisTable
from triton_agent.policy.author.plan.kernel_graph import MustStore
from triton_agent.policy.author.plan.kernel_plan import Kernel, Stuck
from triton_agent.policy.author.plan.storage import Storage
from triton_agent.policy.author.plan.tiling import ROWS_ACROSS, is_across

_SPLITS_AT_MOST = 64
"""Most times that axes of one kernel are split."""
BRIEF = 1 << 25
"""Most elements of kernels that are fused although they share no loads. Reading so many takes some tens of
microseconds, of which the start and end of a kernel take six.
"""
SHORT_ROW = 1024
"""Longest row, in elements, that one program reads at once even if there are few rows."""
LITTLE = 1 << 13
"""Most elements that a single program reads in less time than it takes to start another kernel."""
_MANY = 8
"""Fewest kernels that are fused in one step."""


class Partition:
    """Plans kernels until every wanted value is stored."""

    def __init__(
        self,
        drafting: Drafting,
        wanted: Iterable[str],
        *,
        apart: Iterable[str] = (),
    ) -> None:
        """`apart` are values that are stored by choice, so that the kernel that makes them and the kernels that use
        them are not fused.
        """
        self.drafting, self.program = drafting, drafting.program
        self.apart = frozenset(apart)
        self.wanted = frozenset(wanted) | self.apart
        self.storage = Storage(self.program, self.wanted)
        self.kernels: list[Kernel] = []
        self._tried: set[frozenset[str]] = set()
        """Groups of kernels that were tried in one step."""
        self._failed: set[tuple[frozenset[str], frozenset[str]]] = set()
        """Groups that could not be fused, with what they would store; most are met again after other fusions."""
        self._plan()
        if drafting.choice.merge:
            self._merge()
        if drafting.choice.chained:
            self.kernels = Chains(drafting, self.storage, self.wanted, self.apart).joined(self.kernels)

    # -- the loop --------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        storage = self.storage
        while storage.stored - storage.made:
            root = max(storage.stored - storage.made, key=storage.order.__getitem__)
            try:
                kernel = self._kernel([root])
            except MustStore as need:
                if need.value in storage.stored:
                    raise Stuck(root, f"needs {need.value}, which is stored already") from need
                storage.stored.add(need.value)
                continue
            except Stuck:
                raise
            except BeyondAuthor as reason:
                raise Stuck(root, str(reason)) from reason
            self.kernels.append(kernel)
            made = {root.value for root in kernel.roots}
            storage.made |= made
            if len(made) > 1:
                storage.stored_together(made, kernel.loads)

    def _merge(self) -> None:
        """Fuse kernels over the same axes that read the same tensors."""
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
        """Fuse many kernels in one step. Fusing two at a time would plan every one of them again and again."""
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
        if a.multiplies or b.multiplies or self._depends(a, b) or any(root.adds for root in (*a.roots, *b.roots)):
            return False
        if self._depends(b, a):
            return self._follows_rows(a, b)
        if not set(a.loads) & set(b.loads):
            return self._are_brief_alike(a, b)
        elements = [product((axis.size for axis in (*k.kept, *k.reduced)), width) for k in (a, b)]
        return elements[0] == elements[1]

    def _follows_rows(self, rows: Kernel, after: Kernel) -> bool:
        """Return True if `after` continues with rows of `rows`, or with one number per row, and can be fused with
        it.
        """
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
            and not any(made & self.storage.ancestors(name) for name in between)
        )

    def _are_rows_alike(self, a: Kernel, b: Kernel) -> bool:
        """Return True if both reduce rows of the same number and length, and neither needs its rows split."""
        width = self.program.width
        counts = [product((axis.size for axis in kernel.kept), width) for kernel in (a, b)]
        lengths = [product((axis.size for axis in kernel.reduced), width) for kernel in (a, b)]
        alike = a.kind == b.kind == "rows" and counts[0] == counts[1] and lengths[0] == lengths[1]
        many = 2 * counts[0][0] > self.drafting.brief.hardware.processors
        return alike and (many or lengths[0][0] <= SHORT_ROW)

    def _are_brief_alike(self, a: Kernel, b: Kernel) -> bool:
        """Return True if both kernels only reduce rows of the same number and length, and launches are a large part of
        their time.
        """
        width, values = self.program.width, self.program.values
        sizes = [[product((axis.size for axis in axes), width) for axes in (k.kept, k.reduced)] for k in (a, b)]
        reduces = all(not root.index.axes() & set(k.reduced) for k in (a, b) for root in k.roots)
        most = max(sum(values[name].elements() for name in k.loads) for k in (a, b))
        return a.kind == b.kind == "rows" and sizes[0] == sizes[1] and reduces and most <= BRIEF

    def _merge_all(self, group: list[Kernel]) -> bool:
        """Fuse a group of kernels; return False if that fails. The new kernel takes the place of the group's first."""
        stored = [root.value for kernel in group for root in kernel.roots]
        roots = sorted(stored, key=lambda name: self.program.values[name].elements(), reverse=True)
        rest = [kernel for kernel in self.kernels if all(kernel is not one for one in group)]
        others = {name for kernel in rest for name in kernel.loads}
        dropped = {name for name in roots if name not in self.wanted and name not in others}
        roots = [name for name in roots if name not in dropped]
        attempt = frozenset(kernel.key for kernel in group), frozenset(roots)
        if attempt in self._failed:
            return False
        self.storage.stored -= dropped
        kernel = self._merged(group, roots) or self._merged_into_rows(group, roots)
        if kernel is None:
            self._failed.add(attempt)
            self.storage.stored |= dropped
            return False
        gone = {id(one) for one in group[1:]}
        self.kernels = [kernel if k is group[0] else k for k in self.kernels if id(k) not in gone]
        return True

    def _merged(self, group: list[Kernel], roots: list[str]) -> Kernel | None:
        try:
            kernel = self._kernel(roots)
        except (MustStore, BeyondAuthor):
            return None
        kept = [product((axis.size for axis in k.kept), self.program.width) for k in (kernel, *group)]
        return kernel if kept[0] in kept[1:] and {root.value for root in kernel.roots} == set(roots) else None

    def _merged_into_rows(self, group: list[Kernel], roots: list[str]) -> Kernel | None:
        """Fuse a reduction of rows with the point functions of the elements that it reads."""
        if sorted(kernel.kind for kernel in group) != ["points", "rows"]:
            return None
        rows = next(kernel for kernel in group if kernel.kind == "rows")
        own = {root.value for root in rows.roots}
        if not self._are_many_short_rows(rows):
            return None
        kernel = self._merged(group, sorted(roots, key=lambda name: name not in own))
        read = [sum(k.nodes[node].kind == "load" for node in k.live()) for k in (*group, kernel) if k is not None]
        return kernel if kernel is not None and read[-1] < sum(read[:-1]) else None

    def _are_many_short_rows(self, kernel: Kernel) -> bool:
        """Return True if every processor has a program without splitting rows, or if there is little to compute."""
        width = self.program.width
        count, length = (product((axis.size for axis in axes), width)[0] for axes in (kernel.kept, kernel.reduced))
        programs = count // ROWS_ACROSS if is_across(kernel) else count
        many = 2 * programs > self.drafting.brief.hardware.processors and length <= LONG_ROW
        return many or count * length <= LITTLE

    def _depends(self, a: Kernel, b: Kernel) -> bool:
        """Return True if `a` needs a value that `b` stores, directly or through other kernels."""
        made = {root.value for root in b.roots}
        others = (kernel for kernel in self.kernels if len(kernel.roots) > 1 and kernel is not a and kernel is not b)
        together = ((frozenset(root.value for root in kernel.roots), kernel.loads) for kernel in others)
        return bool(made & self.storage.before(a.loads, together))

    # -- one kernel ------------------------------------------------------------------------------------------------

    def _kernel(self, roots: list[str]) -> Kernel:
        table = AxisTable(self.program.width)
        for _ in range(_SPLITS_AT_MOST):
            try:
                return Attempt(self.drafting, self.storage, roots, table).kernel()
            except AxisMustSplit as request:
                table.split(request.axis, request.inner)
        raise Stuck(roots[0], "its axes had to be split too often")
