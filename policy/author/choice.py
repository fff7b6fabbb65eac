"""All decisions behind one file as a value: which values are stored, and the tiles of each kernel."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Tile sizes of one kernel. Zero leaves a number to the kernel's skeleton."""

    rows: int = 0
    """Rows per program; the m of a product."""
    columns: int = 0
    """Columns or elements per tile; the n of a product."""
    inner: int = 0
    """Length of a step along k in a product."""
    looped: bool | None = None
    """True if a row is processed in steps; None: only if the row is long."""
    flat: bool = False
    """True if all elements are numbered in one dimension and their rows and columns are found by division."""
    splits: int = 0
    """Parts into which the inner dimension or a long row is cut, to have more programs than rows."""
    warps: int = 0
    stages: int = 0
    """Pipeline stages of a loop: steps whose loads are in flight at the same time, through shared memory."""
    unrolled: int = 0
    """Steps of a loop that the compiler unrolls, so that their loads come before their computation."""
    lines: int = 0
    """Lines of a window's results that one program computes."""
    described: bool | None = None
    """True if tiles of a product (in a persistent kernel, with as many programs as run at once) or tiles of attention's
    keys and values are loaded by tensor descriptors; None: where that is estimated to be faster.
    """


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The decisions behind one file. Equal choices give the same text."""

    stored: tuple[str, ...] = ()
    """Values that are written to memory although one kernel could keep them in registers."""
    merge: bool = True
    """True if kernels over the same axes are fused."""
    joined: bool = False
    """True if one kernel computes all products of a sum, and a product recomputes a small product of few rows that it
    reads. This needs fewer launches and less memory traffic but leaves fewer tile sizes to choose from. Where this was
    measured, it cost more than it saved.
    """
    chained: bool = True
    """True if small consecutive products become one kernel where that is estimated to be faster."""
    online: bool = True
    """True if a softmax and the product with its result become one kernel, which never stores the scores."""
    tiles: tuple[tuple[str, Tiles], ...] = ()
    """Tiles by the first value that a kernel stores."""
    left_to_torch: tuple[int, ...] = ()
    """Operators, by their index in the graph, that are left to torch."""
    exact: bool = False
    """True if float32 products use full precision (`ieee`). Otherwise a target with TF32 computes them as three TF32
    products. Also keeps intermediate values of an operator in float32 where they would be rounded for the matrix unit,
    and takes no cheaper functions for results of half precision.
    """

    def tiles_of(self, key: str) -> Tiles:
        return dict(self.tiles).get(key, Tiles())

    def with_tiles(self, key: str, tiles: Tiles) -> Choice:
        others = tuple((name, other) for name, other in self.tiles if name != key)
        return dataclasses.replace(self, tiles=tuple(sorted((*others, (key, tiles)))))
