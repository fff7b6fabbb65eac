"""The body of a function in a plan: its lines, and the variables that hold the buffers of a tape.

A buffer is held by one variable, its base; every other view of the buffer is read from the base by `as_strided`. Memory
from outside may begin anywhere in its storage, so offsets there are relative to the tensor that was given.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from triton_agent.runs.ship.facts import NotEmitted
from triton_agent.runs.ship.python_text import Group, Names, Text, call, prefixed, tuple_of
from triton_agent.runs.ship.tape_reading import is_contiguous, repeats
from triton_agent.tools.processes.tensors import DTYPES
from triton_agent.tools.tape.tape import Address, Launch, Step, Tape, View, arguments_of

LARGE_BYTES = 1 << 20
"""Temporaries of this size and above are deleted after their last use; the executor deletes all. Plans for a range of
sizes delete all temporaries, because their sizes are not known.
"""


@dataclasses.dataclass(slots=True)
class Base:
    """The variable that holds a buffer."""

    name: str
    view: View
    is_own: bool
    """True if the memory is made in the function, so that offsets count from the start of its storage."""


class Body:
    """A function while it is written."""

    def __init__(
        self, tape: Tape, views: Mapping[int, Sequence[View]], names: Names, steps: Sequence[Step], *, sized: bool
    ) -> None:
        self.names = names
        self.lines: list[Text] = []
        """Statements, without the indentation."""
        self.needs_device = False
        self.bases: dict[int, Base] = {}
        self.known: dict[View, str] = {}
        """Views that are held by a variable."""
        self.uses: Counter[View] = Counter()
        self._tape = tape
        self._large_bytes = 0 if sized else LARGE_BYTES
        self._views = views
        for step in steps:  # only one configuration of an autotuned launch is written
            first = dataclasses.replace(step, choices=step.choices[:1]) if isinstance(step, Launch) else step
            self.uses.update(arguments_of(first))

    def line(self, text: Text) -> None:
        self.lines.append(text)

    # -- variables -------------------------------------------------------------------------------------------------

    def enter(self, view: View, wanted: str) -> str:
        """Add a variable for memory from outside; return its name."""
        name = self.names.fresh(wanted)
        self.bases[view.buffer] = Base(name, view, is_own=False)
        self.known[view] = name
        return name

    def make(self, view: View, wanted: str, text: Text) -> str:
        """Add a variable with memory of its own, which holds the contents of its buffer from here on."""
        name = self.names.fresh(wanted)
        self.hold(view, name)
        self.line(prefixed(f"{name} = ", text))
        return name

    def hold(self, view: View, name: str) -> None:
        """Let an existing variable with memory of its own hold the contents of a buffer."""
        self.bases[view.buffer] = Base(name, view, is_own=True)
        self.known = {known: held for known, held in self.known.items() if known.buffer != view.buffer}
        self.known[view] = name

    def empty(self, view: View) -> Group:
        """Return the text that allocates a tensor."""
        self.needs_device = True
        memory = [f"dtype=torch.{view.dtype}", "device=device"]
        if not is_contiguous(view):
            return call("torch.empty_strided", [numbers(view.shape), numbers(view.strides), *memory])
        sizes = [*map(str, view.shape)] or ["()"]  # torch reads separate sizes faster than a tuple
        return call("torch.empty", [*sizes, *memory])

    def covering(self, number: int) -> View:
        """Return a view of the whole buffer, preferably one that is needed."""
        size_bytes = self._tape.buffers[number].size_bytes
        views = self._views.get(number, ())
        for view in views:
            whole = view.offset == 0 and view.end_bytes == size_bytes and not repeats(view.shape, view.strides)
            if whole and (view.elements or not size_bytes):
                return view
        dtype = next((view.dtype for view in views if size_bytes % DTYPES[view.dtype].itemsize == 0), "uint8")
        count = size_bytes // DTYPES[dtype].itemsize
        return View(buffer=number, dtype=dtype, shape=(count,), strides=(1,), offset=0)

    def delete(self, buffers: Iterable[int]) -> None:
        """Delete the variables of large buffers, and the variables that hold views of these."""
        gone = []
        for number in buffers:
            if self._tape.buffers[number].size_bytes >= self._large_bytes and number in self.bases:
                names = {name: None for view, name in self.known.items() if view.buffer == number}
                gone += list({self.bases[number].name: None, **names})
        if gone:
            self.line(f"del {', '.join(gone)}")

    # -- reading ---------------------------------------------------------------------------------------------------

    def address(self, address: Address) -> str:
        base = self.bases[address.buffer]
        beyond = address.offset - base.view.offset * DTYPES[base.view.dtype].itemsize
        return f"{base.name}.data_ptr()" + (f" + {beyond}" if beyond else "")

    def tensor(self, view: View) -> str:
        """Return the variable that holds this view, or the expression that reads it from its base."""
        if view in self.known:
            return self.known[view]
        text = self._derived(view)
        if self.uses[view] > 1:
            name = self.names.fresh(f"{self.bases[view.buffer].name}_view")
            self.line(f"{name} = {text}")
            self.known[view] = name
            return name
        return text

    def _derived(self, view: View) -> str:
        base = self.bases[view.buffer]
        text, held = base.name, base.view
        if held == view:
            return text
        if view.dtype != held.dtype:
            text, held = self._retyped(base, view.dtype)
        dense = is_contiguous(view) and is_contiguous(held)
        if dense and view.elements == held.elements and view.offset == held.offset:
            return text if view.shape == held.shape else f"{text}.view({', '.join(map(str, view.shape)) or '()'})"
        if (view.shape, view.strides, view.offset) == (held.shape, held.strides, held.offset):
            return text
        where = [numbers(view.shape), numbers(view.strides)]
        if view.offset != held.offset and base.is_own:
            where.append(str(view.offset))
        elif view.offset != held.offset:
            if text != base.name:
                raise NotEmitted("part of an argument is read as another dtype")
            where.append(f"{text}.storage_offset() + {view.offset - held.offset}")
        return f"{text}.as_strided({', '.join(where)})"

    def _retyped(self, base: Base, dtype: str) -> tuple[str, View]:
        """Return an expression that reads the base as another dtype, and the view that the expression gives."""
        held, size, wanted = base.view, DTYPES[base.view.dtype].itemsize, DTYPES[dtype].itemsize
        if size == wanted:
            return f"{base.name}.view(torch.{dtype})", dataclasses.replace(held, dtype=dtype)
        count = (held.end_bytes - held.offset * size) // size
        if not is_contiguous(held):
            text = f"{base.name}.as_strided(({count},), (1,))"
        else:
            text = f"{base.name}.view(-1)" if len(held.shape) != 1 else base.name
        offset = held.offset * size // wanted
        flat = View(buffer=held.buffer, dtype=dtype, shape=(count * size // wanted,), strides=(1,), offset=offset)
        return f"{text}.view(torch.{dtype})", flat


def numbers(values: Sequence[int]) -> str:
    """Return whole numbers as the text of a tuple."""
    return str(tuple_of([str(value) for value in values]))
