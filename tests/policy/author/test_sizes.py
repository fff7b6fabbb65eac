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


def test_dimensions_are_found_behind_the_strides_made_of_them() -> None:
    """`height * width + width + 1` is found although many strides were named before the dimensions."""
    dimensions = {"height": (16, 17, 12, 32), "width": (16, 17, 11, 64), "depth": (16, 17, 11, 32)}
    names = SizeNames(4)
    strides = [(factor, other) for factor in (2, 3, 5, 7) for other in ("height", "width", "depth")]
    for i, (factor, other) in enumerate(strides):
        names.add(f"stride{i}", tuple(factor * a * b for a, b in zip(dimensions["width"], dimensions[other])))
    for name, size in dimensions.items():
        names.add(name, size)
    size = tuple(h * w + w + 1 for h, w in zip(dimensions["height"], dimensions["width"]))
    made = names.expression(size)
    assert not names.guessed
    assert tuple(eval(made, {name: at[i] for name, at in names.names.items()}) for i in range(4)) == size


def test_a_group_of_channels_in_a_volume_is_a_part_of_a_product() -> None:
    names = SizeNames(4)
    dimensions = {
        "channels": (32, 24, 32, 128),
        "depth": (4, 257, 5, 4),
        "height": (8, 1, 8, 12),
        "width": (4, 2, 6, 4),
    }
    for name, size in dimensions.items():
        names.add(name, size)
    size = tuple(c * d * h * w // 8 for c, d, h, w in zip(*dimensions.values()))
    assert names.expression(size) == "channels * depth * height * width // 8"
    assert not names.guessed


def test_numbers_of_the_module_count_windows() -> None:
    """Patches of 16 or 13 leave a rest of the image; windows of 7 divide a resolution."""
    names = SizeNames(4)
    names.add("height", (112, 113, 112, 224))
    names.attributes |= {"self.patch": (16, 16, 13, 16), "self.resolution[0]": (14, 14, 7, 56)}
    assert names.expression((7, 7, 8, 14)) == "height // self.patch"
    assert names.expression((98, 98, 49, 392)) == "7 * self.resolution[0]"


def test_a_size_without_an_expression_is_told(names: SizeNames) -> None:
    assert names.expression((97, 1031, 20)) == "97"
    assert names.guessed == [(97, 1031, 20)]


def test_a_scale_is_found_by_its_function(names: SizeNames) -> None:
    assert number_expression([16**-0.5, 33**-0.5, 70**-0.5], names) == "1.0 / math.sqrt(length)"
    assert number_expression([0.1 / 15, 0.1 / 32, 0.1 / 69], names) == "0.1 / (length - 1)"
    assert number_expression([0.123, 4.56, 7.89], names) is None
