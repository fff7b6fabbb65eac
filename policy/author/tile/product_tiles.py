"""Candidate tiles for a matrix product or attention, ranked for its sizes by what is known of GPUs.

A tile is worth the rate at which the matrix unit computes it, times how evenly the tiles fill the processors. The
ranking is an estimate from sizes alone; the first few tiles have to be measured.
"""

from __future__ import annotations

import dataclasses
import math

from triton_agent.policy.author.choice import Tiles
from triton_agent.policy.author.ir.sizes import power_of_two
from triton_agent.policy.author.plan.tiling import SMALLEST

MOST = 10
"""Most tiles worth trying for one product."""

SHARED_BYTES = 232448 - 2048
"""Shared memory of a program on GPUs with warp groups, less the compiler's share for barriers."""
_FULL, _STEPS = 0.75, 4
"""Fewest tiles per processor, and fewest steps per tile, for which tensor descriptors are ranked first."""
_CROWDED = 0.85
FEWEST_STAGES = 2
"""Fewest pipeline stages. More stages than steps only take shared memory that other programs on the processor could
use.
"""
ALONE = 8
"""Least number of products for each processor with which a single warp suffices for a small one."""
_AREA_PER_STEP = 256
"""Number of a tile's elements that take as long to store as one step along the inner dimension takes to compute."""


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """A tile, and the fraction of the matrix unit's rate that it reaches if there are enough of such tiles."""

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int
    rate: float
    described: bool = False
    """True if tensor descriptors load it in a persistent kernel."""

    def rate_before(self, follow_up: int) -> float:
        """Return the rate with `follow_up` work per element, for which a large accumulator leaves too few registers."""
        crowded = not self.described and follow_up > 1 and self.rows * self.columns >= 128 * 32 * self.warps
        return self.rate * (_CROWDED if crowded else 1.0)

    def with_room(self, *, scattered: bool) -> Known:
        """Return a tile that leaves registers for addresses or for three TF32 products: more warps or a shorter
        step.
        """
        inner = min(self.inner, 64)
        large = self.rows * self.columns >= 128 * 64
        addressed = scattered and max(self.rows, self.columns) * inner >= 128 * 64
        return dataclasses.replace(self, warps=8 if large or addressed else self.warps, inner=inner)

    def within(self, limit_bytes: int, left_bytes: int, right_bytes: int) -> Known:
        """Return the tile with as many stages as shared memory has room for."""
        stage_bytes = (self.rows * left_bytes + self.columns * right_bytes) * self.inner
        return dataclasses.replace(self, stages=min(self.stages, limit_bytes // stage_bytes))

    def tiles(self, k: int, taps: int = 1) -> Tiles:
        inner = max(SMALLEST, min(self.inner, power_of_two(k)))
        steps = taps * math.ceil(k / inner)
        return Tiles(
            rows=self.rows,
            columns=self.columns,
            inner=inner,
            warps=self.warps,
            stages=min(self.stages, max(FEWEST_STAGES, steps + 1)),
            described=self.described,
        )


DESCRIBED = (
    Known(128, 256, 64, 8, 3, 1.34, described=True),
    Known(128, 256, 64, 8, 4, 1.32, described=True),
    Known(128, 128, 64, 8, 4, 1.19, described=True),
    Known(256, 128, 64, 8, 3, 1.20, described=True),
    Known(128, 128, 128, 8, 3, 1.18, described=True),
)
"""Half precision by tensor descriptors; rates relative to those of `HALF_WARPGROUPS`."""
HALF_WARPGROUPS = (
    Known(128, 256, 64, 8, 3, 1.00),
    Known(256, 128, 64, 8, 3, 0.99),
    Known(128, 256, 64, 8, 4, 0.98),
    Known(128, 128, 64, 4, 3, 0.92),
    Known(128, 128, 64, 8, 4, 0.90),
    Known(64, 256, 64, 4, 4, 0.85),
    Known(128, 64, 64, 4, 4, 0.75),
    Known(64, 128, 64, 4, 4, 0.75),
    Known(64, 64, 64, 4, 5, 0.50),
    Known(128, 32, 64, 4, 4, 0.45),
    Known(128, 16, 64, 4, 4, 0.25),
    Known(64, 32, 64, 4, 5, 0.28),
    Known(64, 16, 64, 4, 5, 0.15),
    Known(32, 128, 64, 4, 4, 0.35),
    Known(32, 64, 128, 4, 4, 0.26),
    Known(32, 32, 64, 4, 5, 0.15),
    Known(16, 128, 64, 4, 4, 0.20),
    Known(16, 64, 128, 4, 4, 0.21),
    Known(16, 32, 256, 4, 3, 0.20),
    Known(32, 16, 64, 4, 5, 0.09),
    Known(16, 16, 256, 4, 3, 0.06),
)
"""Half precision with warp groups, four warps sharing one product (compute capability 9.0 and up)."""
HALF_BY_TAPS = (
    Known(128, 128, 64, 8, 4, 1.00),
    Known(128, 256, 64, 8, 3, 0.99),
    Known(128, 256, 64, 8, 4, 0.98),
    Known(128, 128, 128, 8, 3, 0.97),
    Known(256, 128, 64, 8, 3, 0.95),
    Known(64, 256, 64, 4, 4, 0.92),
    Known(128, 128, 64, 4, 3, 0.91),
    *(known for known in HALF_WARPGROUPS if known.rows * known.columns <= 128 * 64),
)
"""Half precision convolutions, processed one kernel position (tap) at a time."""
HALF = (
    Known(128, 128, 64, 8, 3, 1.00),
    Known(128, 128, 32, 4, 4, 0.98),
    Known(128, 256, 32, 8, 3, 0.97),
    Known(256, 128, 32, 8, 3, 0.96),
    *(known for known in HALF_WARPGROUPS if known.rows * known.columns <= 128 * 64),
)
"""Half precision without warp groups."""
SINGLE = (
    Known(128, 64, 32, 4, 4, 1.00),
    Known(128, 128, 32, 8, 3, 1.00),
    Known(64, 128, 32, 4, 4, 0.95),
    Known(64, 64, 32, 4, 4, 0.80),
    Known(128, 128, 16, 8, 4, 0.95),
    Known(64, 64, 64, 8, 3, 0.75),
    Known(128, 32, 32, 4, 4, 0.70),
    Known(32, 128, 32, 4, 4, 0.65),
    Known(128, 16, 32, 4, 4, 0.40),
    Known(64, 32, 32, 4, 5, 0.50),
    Known(32, 64, 32, 4, 5, 0.50),
    Known(32, 32, 64, 4, 4, 0.30),
    Known(64, 16, 64, 4, 4, 0.25),
    Known(16, 128, 32, 4, 4, 0.35),
    Known(16, 64, 64, 4, 4, 0.25),
    Known(16, 32, 128, 4, 3, 0.15),
    Known(32, 16, 64, 4, 4, 0.15),
    Known(16, 16, 128, 4, 3, 0.08),
)
"""float32, in full precision or as three TF32 products."""
WITH_A_WEIGHT = (
    Known(64, 128, 32, 4, 3, 1.33, described=True),
    Known(128, 64, 32, 4, 3, 1.24, described=True),
    Known(128, 128, 32, 8, 3, 1.16, described=True),
    Known(128, 64, 64, 4, 2, 1.22, described=True),
    Known(64, 64, 32, 4, 5, 1.00, described=True),
)
"""float32 as three TF32 products with a weight in two parts, by tensor descriptors; rates relative to `SINGLE`, of
65,536 and 4,096 rows on an H200.
"""
MANY_SMALL = (Known(32, 32, 16, 1, 2, 0.80), Known(32, 32, 32, 1, 2, 0.73), Known(32, 32, 32, 2, 1, 0.69))
"""The same for a batch of small products with several programs of a single warp on each processor."""
TF32_WARPGROUPS = (
    Known(128, 256, 32, 8, 4, 1.00),
    Known(128, 256, 32, 8, 3, 0.98),
    Known(256, 128, 32, 8, 3, 0.99),
    Known(256, 128, 32, 8, 4, 0.91),
    Known(128, 128, 64, 8, 3, 0.89),
    Known(128, 128, 32, 4, 4, 0.82),
    Known(64, 128, 32, 4, 4, 0.77),
    Known(64, 128, 64, 4, 3, 0.76),
    Known(128, 64, 32, 4, 4, 0.74),
    Known(128, 64, 64, 4, 3, 0.73),
    Known(256, 64, 32, 8, 4, 0.73),
    Known(64, 64, 32, 4, 5, 0.60),
    Known(128, 32, 32, 4, 4, 0.48),
    Known(64, 32, 32, 4, 5, 0.42),
    Known(32, 32, 64, 4, 4, 0.33),
    Known(32, 64, 64, 4, 4, 0.30),
    Known(128, 16, 32, 4, 4, 0.30),
    Known(64, 16, 64, 4, 4, 0.25),
    Known(16, 64, 64, 4, 4, 0.15),
    Known(16, 16, 64, 4, 4, 0.10),
)
"""float32 as one TF32 product with warp groups, with both operands contiguous along the inner dimension.

This table and the next are measured on one H200: `benchmarks/results/convolutions.csv`.
"""
TF32_ACROSS = (
    Known(32, 64, 32, 4, 5, 1.00),
    Known(32, 64, 64, 4, 4, 0.93),
    Known(32, 128, 32, 4, 4, 0.92),
    Known(32, 32, 64, 4, 4, 0.75),
    Known(16, 64, 64, 4, 4, 0.66),
    Known(32, 16, 64, 4, 4, 0.53),
    Known(64, 64, 32, 4, 5, 0.50),
    Known(128, 64, 32, 4, 4, 0.46),
    Known(16, 16, 64, 4, 4, 0.25),
)
"""float32 as one TF32 product with an operand that is not contiguous along the inner dimension. Warp groups need such
an operand transposed, small tiles do not.
"""


def ranked(
    m: int,
    n: int,
    k: int,
    copies: int,
    *,
    half: bool,
    on_cuda: bool,
    warpgroups: bool,
    scattered: bool,
    processors: int,
    shared_limit_bytes: int,
    item_bytes: tuple[int, int],
    follow_up: int = 0,
    describable: bool = False,
    taps: int = 1,
    tf32: bool = False,
    across: bool = False,
    unaligned: bool = False,
) -> list[Tiles]:
    """Return tiles for `copies` products of m by k and k by n, the most promising first.

    `item_bytes` is the shared memory per element of the left and of the right operand. `follow_up` measures the loads
    and functions per element after the product. With `describable`, tensor descriptors can load the operands; they are
    used for products with a tile for every processor and a few steps per tile. `taps` is the number of passes along the
    inner dimension. With `tf32`, float32 is one TF32 product. With `across`, an operand is not contiguous along the
    inner dimension. With `unaligned`, one that is contiguous has rows that are no multiple of 16 bytes.
    """
    if half:
        table = HALF_WARPGROUPS if warpgroups and not scattered else HALF
        table = HALF_BY_TAPS if table is HALF_WARPGROUPS and taps > 1 else table
    else:
        table = SINGLE if copies < ALONE * processors else (*MANY_SMALL, *SINGLE)
        if tf32 and warpgroups and not scattered:
            table = TF32_ACROSS if across else TF32_WARPGROUPS
    if scattered:
        table = tuple(known for known in table if known.rows * known.columns <= 128 * 128)
    # float32 takes twice the registers, for which only the newest GPUs have room
    if scattered or not (half or warpgroups):
        table = tuple(known.with_room(scattered=scattered) for known in table)
    table = tuple(known.within(shared_limit_bytes, *item_bytes) for known in table)
    table = tuple(known for known in table if known.stages)
    if unaligned and not half and not tf32:  # stages would hold it across: each step would wait for its memory banks
        table = tuple(dataclasses.replace(known, stages=1) for known in table)
    if describable:
        table = (*(DESCRIBED if half else WITH_A_WEIGHT), *table)
    fitting = [known for known in table if _fits(known.rows, m) and _fits(known.columns, n)]
    fitting.sort(key=lambda known: _cost(known, m, n, k * taps, copies, processors) / known.rate_before(follow_up))
    described = [known for known in fitting if known.described and _keeps_busy(known, m, n, k, copies, processors)]
    fitting = [*described, *(known for known in fitting if not known.described)]
    found = [known.tiles(k, taps) for known in fitting[:MOST]]
    if not on_cuda:  # compilers for other targets count stages differently and take at most two
        found = [dataclasses.replace(tiles, stages=2) for tiles in found]
    return list(dict.fromkeys(found))


def _fits(tile: int, size: int) -> bool:
    """Return True if no smaller tile would cover the size."""
    return tile <= max(SMALLEST, power_of_two(size))


def _cost(known: Known, m: int, n: int, k: int, copies: int, processors: int) -> float:
    """Estimate the cost: rounds of tiles on all processors, times the steps of a tile plus a part for storing it.

    While a large tile is stored, its processor does nothing else, so products with a short inner dimension suit small
    tiles.
    """
    count = _count(known, m, n, copies)
    area = known.rows * known.columns
    return math.ceil(count / processors) * area * (k + area / _AREA_PER_STEP)


def _keeps_busy(known: Known, m: int, n: int, k: int, copies: int, processors: int) -> bool:
    return _count(known, m, n, copies) >= _FULL * processors and k >= _STEPS * known.inner


def _count(known: Known, m: int, n: int, copies: int) -> int:
    return math.ceil(m / known.rows) * math.ceil(n / known.columns) * copies


def shared_bytes(tiles: Tiles) -> int:
    """Return the shared memory of half-precision operands in all stages."""
    return 2 * (tiles.rows + tiles.columns) * tiles.inner * tiles.stages


# -- attention: queries per program, and keys per step ------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _AttentionTile:
    """A tile for attention heads of at most `widest` elements, and its throughput relative to the fastest tile on a
    full GPU.
    """

    widest: int
    queries: int
    keys: int
    warps: int
    stages: int
    rate: float
    described: bool = False
    """True if tensor descriptors load keys and values."""


_ATTENTION_DESCRIBED = (
    _AttentionTile(64, 64, 128, 4, 2, 1.03, described=True),
    _AttentionTile(64, 128, 64, 8, 3, 0.95, described=True),
    _AttentionTile(64, 128, 64, 4, 3, 0.93, described=True),
    _AttentionTile(128, 128, 128, 8, 3, 1.13, described=True),
    _AttentionTile(128, 128, 64, 8, 3, 1.05, described=True),
    _AttentionTile(128, 64, 64, 4, 3, 1.03, described=True),
)
"""Half precision by tensor descriptors; rates relative to those of `_ATTENTION_IN_HALF`."""
_ATTENTION_IN_HALF = (
    _AttentionTile(64, 128, 64, 8, 3, 1.00),
    _AttentionTile(64, 64, 64, 4, 3, 0.97),
    _AttentionTile(64, 128, 64, 4, 3, 0.94),
    _AttentionTile(64, 128, 32, 4, 4, 0.84),
    _AttentionTile(64, 64, 32, 4, 3, 0.88),
    _AttentionTile(64, 64, 16, 4, 3, 0.80),
    _AttentionTile(64, 128, 128, 8, 3, 0.79),
    _AttentionTile(64, 64, 128, 4, 2, 0.76),
    _AttentionTile(64, 32, 64, 4, 3, 0.40),
    _AttentionTile(64, 16, 64, 4, 3, 0.20),
    _AttentionTile(128, 128, 128, 8, 3, 1.00),
    _AttentionTile(128, 128, 64, 8, 3, 0.98),
    _AttentionTile(128, 64, 64, 4, 3, 0.91),
    _AttentionTile(128, 128, 128, 8, 2, 0.89),
    _AttentionTile(128, 128, 64, 4, 2, 0.88),
    _AttentionTile(128, 64, 128, 4, 2, 0.63),
    _AttentionTile(128, 32, 64, 4, 3, 0.40),
    _AttentionTile(128, 16, 64, 4, 3, 0.20),
    _AttentionTile(256, 128, 64, 8, 2, 1.00),
    _AttentionTile(256, 64, 64, 4, 2, 0.80),
    _AttentionTile(256, 64, 32, 4, 2, 0.70),
    _AttentionTile(256, 16, 32, 4, 2, 0.20),
)
"""Half precision. Rates of 64 and more queries in heads of 64 and 128 were measured on an H200, causal."""
_ATTENTION_IN_SINGLE = (
    _AttentionTile(64, 64, 32, 4, 2, 1.0),
    _AttentionTile(64, 64, 64, 8, 2, 0.95),
    _AttentionTile(64, 128, 32, 8, 2, 0.95),
    _AttentionTile(64, 32, 32, 4, 2, 0.6),
    _AttentionTile(64, 16, 32, 4, 2, 0.3),
    _AttentionTile(128, 64, 32, 8, 2, 1.0),
    _AttentionTile(128, 32, 32, 4, 2, 0.7),
    _AttentionTile(128, 16, 32, 4, 2, 0.3),
    _AttentionTile(256, 32, 32, 8, 2, 1.0),
    _AttentionTile(256, 32, 16, 4, 2, 0.8),
    _AttentionTile(256, 16, 16, 4, 2, 0.5),
)
_ATTENTION_INTERPRETED = (_AttentionTile(256, 128, 128, 4, 2, 1.0),)


def ranked_for_attention(
    queries: int,
    keys: int,
    widths: tuple[int, int],
    copies: int,
    *,
    half: bool,
    on_cuda: bool,
    warpgroups: bool,
    interpreted: bool,
    processors: int,
    shared_limit_bytes: int,
    describable: bool = False,
    plain: bool = False,
) -> list[Tiles]:
    """Return tiles for `copies` times `queries` queries, the most promising first. `widths` are those of a key and of a
    value. With `describable`, tensor descriptors can load both. `plain`: the scores depend on queries, keys and their
    positions only.
    """
    wide = [max(SMALLEST, power_of_two(width)) for width in widths]
    table: tuple[_AttentionTile, ...] = (
        _ATTENTION_INTERPRETED if interpreted else _ATTENTION_IN_HALF if half else _ATTENTION_IN_SINGLE
    )
    widest = min(known.widest for known in table if known.widest >= max(wide))
    table = (*(_ATTENTION_DESCRIBED if describable else ()), *table)
    table = tuple(known for known in table if known.widest == widest)
    item_bytes = 2 if half else 4
    # Warp groups take the shares of the values from registers.
    shares = 0 if half and warpgroups and plain else 1
    found: dict[Tiles, float] = {}
    for known in table:
        rows = min(known.queries, max(SMALLEST, power_of_two(queries)))
        inner = min(known.keys, max(SMALLEST, power_of_two(keys)))
        # Shared memory holds the queries and the shares, and keys and values for each stage.
        room = shared_limit_bytes - rows * (wide[0] + shares * inner) * item_bytes
        stages = min(known.stages, room // (inner * sum(wide) * item_bytes))
        if stages < 1 and not interpreted:
            continue
        stages = max(1, stages) if on_cuda else min(max(1, stages), 2)
        programs = math.ceil(queries / rows) * copies
        tiles = Tiles(rows=rows, inner=inner, warps=known.warps, stages=stages, described=known.described)
        wasted = math.ceil(keys / inner) * inner / keys
        cost = math.ceil(programs / processors) * rows * wasted / known.rate
        found[tiles] = max(cost, found.get(tiles, 0.0))  # the slower one, if it has lost stages
    smallest = Tiles(rows=SMALLEST, inner=SMALLEST, warps=4, stages=1)
    return sorted(found, key=found.__getitem__) or [smallest]
