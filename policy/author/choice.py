"""All decisions behind one file, as a value: which values are stored, and the tiles of each kernel."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """How one kernel is cut up. Zero means: as the skeleton sees fit."""

    rows: int = 0
    """Rows, or the m of a product, that one program takes."""
    columns: int = 0
    """Columns, elements, or the n of a product, taken at once."""
    inner: int = 0
    """The k of a product taken at once."""
    looped: bool | None = None
    """True if a row is walked through in steps; None: only if it is long."""
    flat: bool = False
    """True if all elements are taken as one line, and their rows and columns found by division."""
    splits: int = 0
    """Parts into which the inner dimension or a long row is cut, for more programs than there are rows."""
    warps: int = 0
    stages: int = 0
    """Steps of a loop whose loads are under way at the same time, through shared memory."""
    unrolled: int = 0
    """Steps of a loop that the compiler writes out one after another, so that their loads come before what is done."""
    described: bool | None = None
    """True if a product's tiles are loaded by tensor descriptors, one after another by as many programs as run at once;
    None: where that is promising."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Decisions; two equal ones give the same text."""

    stored: tuple[str, ...] = ()
    """Values that are stored although a kernel could have kept them to itself."""
    merge: bool = True
    """True if kernels over the same axes become one."""
    joined: bool = False
    """True if products that meet are summed up by one kernel, and a few rows computed by the product that takes them.
    Less is moved and launched, and there is less room for tiles; that cost more than it saved where it was timed."""
    chained: bool = True
    """True if small products one after another become one kernel where that is estimated to be quicker."""
    online: bool = True
    """True if a softmax and the product that takes its shares become one kernel, which keeps the scores to itself."""
    tiles: tuple[tuple[str, Tiles], ...] = ()
    """By the first value that a kernel stores."""
    left_to_torch: tuple[int, ...] = ()
    """Operators, by their place in the graph, that no kernel is written for."""
    exact: bool = False
    """Products of float32 in full precision (`ieee`); else, where the target can, as three products of TF32. Also keeps
    the inside of an operator in float32 where it would be rounded for the matrix unit."""

    def tiles_of(self, key: str) -> Tiles:
        return dict(self.tiles).get(key, Tiles())

    def with_tiles(self, key: str, tiles: Tiles) -> Choice:
        others = tuple((name, other) for name, other in self.tiles if name != key)
        return dataclasses.replace(self, tiles=tuple(sorted((*others, (key, tiles)))))
