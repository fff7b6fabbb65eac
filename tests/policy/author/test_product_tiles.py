"""The ranking of tiles follows what a product's sizes ask for."""

from __future__ import annotations

import functools

import pytest

from triton_agent.policy.author.tile import product_tiles
from triton_agent.policy.author.tile.product_tiles import MOST, SHARED_BYTES, shared_bytes
from triton_agent.tools.compile.targets import TARGETS

ranked = functools.partial(product_tiles.ranked, shared_limit_bytes=227 * 1024, item_bytes=(2, 2))
on_h200 = functools.partial(ranked, half=True, on_cuda=True, warpgroups=True, scattered=False, processors=132)


def test_a_large_product_gets_the_largest_tile() -> None:
    best = on_h200(8192, 8192, 8192, 1)[0]
    assert {best.rows, best.columns} == {128, 256} and best.warps == 8


def test_a_large_product_is_described_where_it_can_be() -> None:
    assert [tiles.described for tiles in on_h200(8192, 4096, 1024, 1, describable=True)[:5]] == [True] * 5
    assert not any(tiles.described for tiles in on_h200(8192, 4096, 1024, 1))


@pytest.mark.parametrize(("m", "n", "k"), [(64, 4096, 4096), (512, 512, 4096), (8192, 4096, 16)])
def test_few_tiles_or_few_steps_are_not_described(m: int, n: int, k: int) -> None:
    assert not any(tiles.described for tiles in on_h200(m, n, k, 1, describable=True))


def test_a_small_product_gets_tiles_for_every_processor() -> None:
    best = on_h200(1024, 1024, 1024, 1)[0]
    assert (1024 // best.rows) * (1024 // best.columns) >= 128


@pytest.mark.parametrize(("m", "n"), [(4, 4096), (4096, 16), (1, 1), (77, 320)])
def test_no_tile_is_twice_as_large_as_the_product(m: int, n: int) -> None:
    found = on_h200(m, n, 512, 1)
    assert found and all(tiles.rows < 2 * max(m, 16) and tiles.columns < 2 * max(n, 16) for tiles in found)


def test_the_inner_step_is_no_longer_than_the_inner_dimension() -> None:
    assert all(tiles.inner <= 32 for tiles in on_h200(4096, 4096, 20, 1))


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("on_cuda", [True, False])
def test_every_idea_is_another(half: bool, on_cuda: bool) -> None:
    found = ranked(4096, 4096, 4096, 1, half=half, on_cuda=on_cuda, warpgroups=on_cuda, scattered=False, processors=132)
    assert 4 <= len(found) == len(set(found)) <= MOST
    assert on_cuda or {tiles.stages for tiles in found} == {2}


@pytest.mark.parametrize(("warpgroups", "limit"), [(True, SHARED_BYTES), (False, 101376)])
def test_operands_fit_into_shared_memory(warpgroups: bool, limit: int) -> None:
    for m in (16, 64, 512, 4096):
        found = ranked(
            m,
            4096,
            4096,
            1,
            half=True,
            on_cuda=True,
            warpgroups=warpgroups,
            scattered=False,
            processors=132,
            describable=warpgroups,
        )
        assert max(map(shared_bytes, found)) <= limit


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("item_bytes", [(2, 2), (4, 2), (6, 4)])
def test_operands_wait_in_as_much_shared_memory_as_the_target_has(target: str, item_bytes: tuple[int, int]) -> None:
    """A half-precision operand that is computed from float32 values takes as much memory as float32."""
    gpu = TARGETS[target]
    on_cuda = gpu.backend == "cuda"
    found = ranked(
        4096,
        4096,
        4096,
        1,
        half=True,
        on_cuda=on_cuda,
        warpgroups=gpu.arch == 90,
        scattered=False,
        processors=gpu.multiprocessors,
        shared_limit_bytes=gpu.shared_limit_bytes,
        item_bytes=item_bytes,
    )
    left, right = item_bytes
    for tiles in found:
        buffers = tiles.stages if on_cuda else tiles.stages - 1
        assert (tiles.rows * left + tiles.columns * right) * tiles.inner * buffers <= gpu.shared_limit_bytes


def test_float32_gets_more_warps_where_registers_are_few() -> None:
    """Float32 products as three TF32 products spilled with four warps on compute capability 8.0."""
    for tiles in ranked(
        2048, 2304, 1536, 1, half=False, on_cuda=True, warpgroups=False, scattered=False, processors=108
    ):
        assert tiles.warps == 8 or tiles.rows * tiles.columns < 128 * 64


def test_no_more_stages_than_steps_can_fill() -> None:
    assert {tiles.stages for tiles in on_h200(224, 192, 64, 768) if tiles.inner == 64} == {2}
    assert max(tiles.stages for tiles in on_h200(8192, 4096, 1024, 1)) > 2
