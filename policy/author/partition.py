"""Which values are stored, and which kernel computes each: the partition of a program.

Going backwards from what has to be there in the end, each kernel takes in everything its results need: views and
functions of single elements always, reductions where they run over the kernel's own rows, one product or scan. What it
cannot take in is stored by a kernel of its own, together with the single-element functions that follow it. A value
that is cheap may be computed by several kernels, an expensive one never is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.indexing import (
    Axis,
    AxisMustSplit,
    AxisTable,
    Index,
    Indices,
    fixed,
    flat,
    is_count_up,
    linear,
    of,
    plain_axes,
    regrouped,
)
from triton_agent.policy.author.program import EXPENSIVE, VIEWS, Program, Value, register_dtype
from triton_agent.policy.author.sizes import Shape, Size, constant, contiguous_strides, product
from triton_agent.policy.author.weaving import Guard, Node, Weaver


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A value that a kernel stores."""

    value: str
    node: int
    index: Index
    """Where its elements go."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel: what it stores, from what, over which axes."""

    kind: str
    """`points`, `rows` (with reductions or scans along the reduced axes) or `product`."""
    roots: tuple[Root, ...]
    nodes: tuple[Node, ...]
    kept: tuple[Axis, ...]
    reduced: tuple[Axis, ...] = ()
    batch: tuple[Axis, ...] = ()
    rows: tuple[Axis, ...] = ()
    columns: tuple[Axis, ...] = ()
    """Of a product: the axes of its leading dimensions, of m and of n; the reduced ones are those of k."""
    covers: frozenset[str] = frozenset()
    """Values that are computed in it."""

    @property
    def key(self) -> str:
        return self.roots[0].value

    @property
    def loads(self) -> tuple[str, ...]:
        """Tensors it reads, in the order they are met."""
        used = self.live()
        return tuple(
            dict.fromkeys(node.tensor for i, node in enumerate(self.nodes) if node.kind == "load" and i in used)
        )

    def live(self) -> set[int]:
        """Nodes that a root depends on."""
        waiting = [root.node for root in self.roots]
        found: set[int] = set()
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting.extend(self.nodes[node].inputs)
        return found


class MustStore(Exception):
    """This value has to be stored before the kernel that is being planned can be."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value


class Stuck(BeyondAuthor):
    """No kernel was found for this value."""

    def __init__(self, value: str, why: str) -> None:
        super().__init__(f"{value}: {why}")
        self.value = value
        self.why = why


_SPLITS_AT_MOST = 64
_DIMENSION, _REDUCED, _INNER = "d", "r", "k"


class Partition:
    """Plans kernels until everything that is wanted is stored."""

    def __init__(self, program: Program, wanted: Iterable[str], *, merge: bool = True) -> None:
        self.program = program
        self.stored = set(wanted)
        self.kernels: list[Kernel] = []
        self._order = {name: i for i, name in enumerate(program.values)}
        self._live = program.needed()
        self._users = {n: [u for u in users if u in self._live] for n, users in program.users().items()}
        self._below: dict[str, frozenset[str]] = {}
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
            self.kernels.append(kernel)
            done |= {stored.value for stored in kernel.roots}

    def _merge(self) -> None:
        """Kernels over the same axes that read the same tensors become one."""
        merged = True
        while merged:
            merged = False
            for a in self.kernels:
                for b in self.kernels:
                    if a is not b and self._belong_together(a, b) and self._merge_two(a, b):
                        merged = True
                        break
                if merged:
                    break

    def _belong_together(self, a: Kernel, b: Kernel) -> bool:
        width = self.program.width
        if (
            "product" in (a.kind, b.kind)
            or not set(a.loads) & set(b.loads)
            or self._depends(a, b)
            or self._depends(b, a)
        ):
            return False
        elements = [product((axis.size for axis in (*k.kept, *k.reduced)), width) for k in (a, b)]
        return elements[0] == elements[1]

    def _merge_two(self, a: Kernel, b: Kernel) -> bool:
        roots = sorted((root.value for root in (*a.roots, *b.roots)), key=self._elements, reverse=True)
        try:
            kernel = self._kernel(roots)
        except (MustStore, BeyondAuthor):
            return False
        same = product((axis.size for axis in kernel.kept), self.program.width) in (
            product((axis.size for axis in k.kept), self.program.width) for k in (a, b)
        )
        if not same or {root.value for root in kernel.roots} != set(roots):
            return False
        self.kernels = [kernel if k is a else k for k in self.kernels if k is not b]
        return True

    def _elements(self, name: str) -> int:
        return self.program.values[name].elements()

    def _depends(self, a: Kernel, b: Kernel) -> bool:
        """Whether `a` needs anything that `b` stores, however far back."""
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
                return _Attempt(self, roots, table).kernel()
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
        """Whether somebody outside of the cone needs this value, or what follows from it."""
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

    def last_of_chain(self, name: str) -> str:
        """The value to store where an expensive one has to be: after the single-element functions that follow it.

        The chain ends where the value is needed in two places, where it grows, and before the next expensive one.
        """
        best, frontier = name, set(self._users[name])
        while frontier and best not in self.stored:
            user = min(frontier, key=self._order.__getitem__)
            value = self.program.values[user]
            if value.operation not in ("point", *VIEWS) or value.elements() > self._elements(name):
                return best
            frontier.remove(user)
            if not frontier and value.elements() == self._elements(name):
                best = user
            if user in self.stored:
                return user if not frontier and user == best else best
            frontier |= set(self._users[user])
        return self._without_views(best, name)

    def _without_views(self, name: str, floor: str) -> str:
        """A view at the end of a chain is left to whoever reads it."""
        while name != floor and name not in self.stored and self.program.values[name].operation in VIEWS:
            name = self.program.values[name].inputs[0]
        return name

    def pending(self, name: str) -> bool:
        return name in self.stored and not any(name == root.value for k in self.kernels for root in k.roots)

    def ancestors(self, name: str) -> frozenset[str]:
        return self._ancestors(name)


class _Attempt:
    """One try at a kernel with these roots; it may find that an axis has to be split or a value stored first."""

    def __init__(self, partition: Partition, roots: list[str], table: AxisTable) -> None:
        self.partition = partition
        self.program = partition.program
        self.width = self.program.width
        self.roots = roots
        self.table = table
        self.cone = partition.cone(roots)
        self.first = self.program.values[roots[0]]
        self.at: Indices = tuple(table.index(f"{_DIMENSION}{i}", size) for i, size in enumerate(self.first.shape))
        self.kept: list[Axis] = []
        self.along = fixed(constant(0, self.width))
        """Position along the reduced axes."""
        self.length: Size = constant(1, self.width)

    def kernel(self) -> Kernel:
        anchors = self._anchors()
        if not anchors:
            self.kept = self.table.axes(_DIMENSION)
            return self._finish("points", self._nothing_expensive)
        anchor = max((value for value, _ in anchors), key=lambda value: self.partition._order[value.name])
        places = {at for value, at in anchors if value.name == anchor.name}
        if len(places) > 1:
            raise self._store(anchor)
        plan: dict[str, Callable[[Value, Indices], Kernel]] = {
            "reduce": self._rows,
            "scan": self._scan,
            "dot": self._product,
        }
        if anchor.operation not in plan:
            raise Stuck(anchor.name, f"no kernel for {anchor.operation}")
        return plan[anchor.operation](anchor, places.pop())

    def _anchors(self) -> list[tuple[Value, Indices]]:
        """Expensive values that the first root meets first on the way back."""
        found: list[tuple[Value, Indices]] = []

        def note(weaver: Weaver, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
            if guards:
                raise self._store(value)
            found.append((value, at))
            return weaver.add(Node(kind="number", dtype=register_dtype(value.dtype), hint=value.name))

        Weaver(self.program, self.partition.stored, note).weave(self.first.name, self.at, own=True)
        return found

    def _store(self, value: Value) -> MustStore:
        """What to store so that this expensive value is there."""
        name = self.partition.last_of_chain(value.name)
        return MustStore(value.name if name in self.roots or name in self.partition.stored else name)

    def _nothing_expensive(self, weaver: Weaver, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        raise self._store(value)

    # -- rows ------------------------------------------------------------------------------------------------------

    def _rows(self, anchor: Value, at: Indices) -> Kernel:
        kept = plain_axes(flat(at, anchor.shape, self.width))
        if kept is None:
            raise self._store(anchor)
        own = self.table.axes(_DIMENSION)
        rest = [axis for axis in own if axis not in kept]
        sizes = self._reduced_sizes(anchor)
        self.length = product(sizes, self.width)
        if rest and product((axis.size for axis in rest), self.width) != self.length:
            raise self._store(anchor)
        if rest:
            self.along = self._count_up(rest)
        else:
            parts = [self.table.index(f"{_REDUCED}{i}", size) for i, size in enumerate(sizes)]
            self.along = flat(parts, sizes, self.width)
        self.kept = [axis for axis in own if axis in kept]
        return self._finish("rows", self._in_row)

    def _scan(self, anchor: Value, at: Indices) -> Kernel:
        dim = anchor.detail
        along = is_count_up(at[dim])
        others = tuple(index for i, index in enumerate(at) if i != dim)
        shape = tuple(size for i, size in enumerate(anchor.shape) if i != dim)
        kept = plain_axes(flat(others, shape, self.width))
        own = self.table.axes(_DIMENSION)
        if along is None or kept is None or set(own) != {*along, *kept}:
            raise self._store(anchor)
        self.length, self.along = anchor.shape[dim], at[dim]
        self.kept = [axis for axis in own if axis in kept]
        return self._finish("rows", self._in_row)

    def _in_row(self, weaver: Weaver, value: Value, at: Indices, guards: tuple[Guard, ...]) -> int:
        """A reduction or scan that runs along the kernel's own rows is taken in."""
        source = value.inputs[0]
        if guards or value.operation not in ("reduce", "scan") or self.partition.leaks(value.name, self.cone):
            raise self._store(value)
        if value.operation == "scan":
            others = tuple(index for i, index in enumerate(at) if i != value.detail)
            shape = tuple(size for i, size in enumerate(value.shape) if i != value.detail)
            if at[value.detail] != self.along or not self._is_kept(flat(others, shape, self.width)):
                raise self._store(value)
            inner = weaver.weave(source, at)
        else:
            sizes = self._reduced_sizes(value)
            if product(sizes, self.width) != self.length or not self._is_kept(flat(at, value.shape, self.width)):
                raise self._store(value)
            inner = weaver.weave(source, self._with_reduced(value, at, sizes))
        return weaver.add(
            Node(
                kind=value.operation,
                function=value.function,
                arguments=(inner,),
                index=self.along if value.function.startswith("arg") else None,
                dtype=register_dtype(value.dtype),
                hint=value.hint,
            )
        )

    def _is_kept(self, index: Index) -> bool:
        axes = plain_axes(index)
        return axes is not None and set(axes) == set(self.kept)

    def _with_reduced(self, value: Value, at: Indices, sizes: Shape) -> Indices:
        along = iter(regrouped((self.along,), (self.length,), sizes, self.width))
        kept = iter(at)
        rank = len(self.program.values[value.inputs[0]].shape)
        return tuple(next(along) if dim in value.detail else next(kept) for dim in range(rank))

    def _reduced_sizes(self, value: Value) -> Shape:
        shape = self.program.values[value.inputs[0]].shape
        return tuple(shape[dim] for dim in value.detail)

    def _count_up(self, axes: list[Axis]) -> Index:
        strides = contiguous_strides(tuple(axis.size for axis in axes), self.width)
        return linear([of(axis) for axis in axes], strides, self.width)

    # -- products --------------------------------------------------------------------------------------------------

    def _product(self, anchor: Value, at: Indices) -> Kernel:
        batch = plain_axes(flat(at[:-2], anchor.shape[:-2], self.width))
        rows, columns = plain_axes(at[-2]), plain_axes(at[-1])
        own = self.table.axes(_DIMENSION)
        if (
            batch is None
            or rows is None
            or columns is None
            or sorted(own, key=str) != sorted([*batch, *rows, *columns], key=str)
        ):
            raise self._store(anchor)
        if self.partition.leaks(anchor.name, self.cone):
            raise self._store(anchor)
        for name in anchor.inputs:
            self._require_plain(name)
        inner = self.table.index(_INNER, self.program.values[anchor.inputs[0]].shape[-1])
        self.kept = own

        def take_in(weaver: Weaver, value: Value, place: Indices, guards: tuple[Guard, ...]) -> int:
            if value.name != anchor.name or guards:
                raise self._store(value)
            left = weaver.weave(value.inputs[0], (*place[:-1], inner))
            right = weaver.weave(value.inputs[1], (*place[:-2], inner, place[-1]))
            return weaver.add(
                Node(kind="dot", function=value.dtype, arguments=(left, right), dtype="float32", hint="total")
            )

        kernel = self._finish("product", take_in)
        return dataclasses.replace(kernel, batch=tuple(batch), rows=tuple(rows), columns=tuple(columns))

    def _require_plain(self, name: str) -> None:
        """An operand of a product is read again for every tile: what it takes to compute it is better done once."""
        value = self.program.values[name]
        while value.operation in (*VIEWS, "window", "pad") or (value.operation == "point" and value.function == "cast"):
            if value.name in self.partition.stored:
                return
            value = self.program.values[value.inputs[0]]
        if value.operation not in ("source", "torch") and value.name not in self.partition.stored:
            raise MustStore(value.name)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _finish(self, kind: str, expensive: Callable[[Weaver, Value, Indices, tuple[Guard, ...]], int]) -> Kernel:
        stored = self.partition.stored - set(self.roots)
        weaver = Weaver(self.program, stored, expensive)
        roots = [self._root(weaver, name) for name in self.roots]
        for name in self._could_take_over(weaver):
            wider = Weaver(self.program, stored - {name}, expensive)
            cone, self.cone = self.cone, self.partition.cone([*self.roots, name])
            try:
                tried = [*(self._root(wider, root.value) for root in roots), self._root(wider, name)]
            except (MustStore, BeyondAuthor):
                self.cone = cone
                continue
            weaver, roots, stored = wider, tried, stored - {name}
            self.roots = [*self.roots, name]
        reduced = [axis for axis in self.table.axes(_DIMENSION, _REDUCED, _INNER) if axis not in self.kept]
        return Kernel(
            kind=kind,
            roots=tuple(roots),
            nodes=tuple(weaver.nodes),
            kept=tuple(self.kept),
            reduced=tuple(reduced),
            covers=frozenset(weaver.met),
        )

    def _root(self, weaver: Weaver, name: str) -> Root:
        value = self.program.values[name]
        at = self._place(value)
        node = weaver.weave(name, at, own=True)
        return Root(value=name, node=node, index=flat(at, value.shape, self.width))

    def _place(self, value: Value) -> Indices:
        """Where a further root's elements are computed: all axes, or the kept ones."""
        if value.shape == self.first.shape:
            return self.at
        elements = product(value.shape, self.width)
        if elements == product(self.first.shape, self.width):
            return regrouped(self.at, self.first.shape, value.shape, self.width)
        if elements == product((axis.size for axis in self.kept), self.width):
            return regrouped((self._count_up(self.kept),), (elements,), value.shape, self.width)
        raise BeyondAuthor("roots of different sizes")

    def _could_take_over(self, weaver: Weaver) -> list[str]:
        """Values that it would read back element by element, and could as well compute and store itself."""
        places: dict[str, list[Index]] = {}
        for node in weaver.nodes:
            if node.kind == "load" and node.index is not None:
                places.setdefault(node.tensor, []).append(node.index)
        whole = self.at and flat(self.at, self.first.shape, self.width)
        found = []
        for name, indices in places.items():
            if name not in self.partition.stored or not self.partition.pending(name) or indices != [whole]:
                continue
            others = (other for other in places if other != name)
            if not any(name in self.partition.ancestors(other) for other in others):
                found.append(name)
        return sorted(found, key=self.partition._order.__getitem__, reverse=True)


def is_expensive(value: Value) -> bool:
    return value.operation in EXPENSIVE
