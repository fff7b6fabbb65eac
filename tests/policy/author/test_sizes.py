"""Sizes are identified by their values over the shape family, and written as expressions in named sizes."""

from __future__ import annotations

import pytest

from triton_agent.policy.author.ir.sizes import SizeNames, number_expression


@pytest.fixture
def names() -> SizeNames:
    made = SizeNames(3)
    made.add("batch", (4, 5, 1))
    made.add("length", (16, 33, 70))
    made.add("width", (512, 512, 512))
    return made


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ((4, 5, 1), "batch"),
        ((64, 165, 70), "batch * length"),
        ((2, 2, 2), "2"),
        ((512, 512, 512), "width"),
        ((24, 24, 24), "24"),
        ((8, 10, 2), "2 * batch"),
        ((19, 36, 73), "length + 3"),
        ((20, 38, 71), "batch + length"),
        ((36, 70, 144), "2 * length + 4"),
        ((480, 750, 30), "30 * batch * batch"),
        ((5120, 25 * 33 * 4 * 5, 1400), "20 * batch * batch * length"),
        ((65536, 25 * 33**3, 70**3), "batch * batch * length * length * length"),
    ],
)
def test_a_size_is_written_as_what_it_is_at_all_sizes(names: SizeNames, size: tuple[int, ...], text: str) -> None:
    made = names.expression(size)
    assert made == text
    for i, value in enumerate(size):
        assert eval(made, {name: values[i] for name, values in names.names.items()}) == value


@pytest.mark.parametrize(
    "size", [(16 * 16 + 16 + 1, 33 * 33 + 33 + 1, 70 * 70 + 70 + 1), (64 + 8 - 5, 165 + 10 - 5, 70 + 2 - 5)]
)
def test_a_sum_of_products_is_found_where_nothing_shorter_is(names: SizeNames, size: tuple[int, ...]) -> None:
    made = names.expression(size)
    assert not names.guessed
    assert tuple(eval(made, {name: at[i] for name, at in names.names.items()}) for i in range(3)) == size


def test_a_size_without_an_expression_is_told(names: SizeNames) -> None:
    assert names.expression((97, 1031, 20)) == "97"
    assert names.guessed == [(97, 1031, 20)]


def test_a_scale_is_found_by_its_function(names: SizeNames) -> None:
    assert number_expression([16**-0.5, 33**-0.5, 70**-0.5], names) == "1.0 / math.sqrt(length)"
    assert number_expression([0.1 / 15, 0.1 / 32, 0.1 / 69], names) == "0.1 / (length - 1)"
    assert number_expression([0.123, 4.56, 7.89], names) is None
