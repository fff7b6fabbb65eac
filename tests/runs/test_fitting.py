"""Numbers that differ from size to size become expressions of the sizes, or are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from triton_agent.runs.ship.python_text import Group
from triton_agent.runs.ship.ranges.fitting import Fitter, Unfitted, masked, merged

ONE = [(n,) for n in (1, 2, 3, 7, 8, 9, 15, 16, 17, 40, 63, 64, 65, 100, 128, 200, 255, 256)]
TWO = [(a, b) for a in (1, 5, 16, 17, 33) for b in (2, 7, 64, 65, 129)]


def fitted(meaning: Callable[..., float], points: list[tuple[int, ...]], **options: object) -> str:
    names = ["n", "m"][: len(points[0])]
    fitter = Fitter(points, names, **options)  # type: ignore[arg-type]
    fitter.learn([[str(p[0] * 96) for p in points]])
    return fitter([str(meaning(*p)) for p in points])


@pytest.mark.parametrize(
    ("meaning", "text"),
    [
        (lambda n: 96 * n, "n * 96"),
        (lambda n: n * n + 3, "n * n + 3"),
        (lambda n: 5 * n - 2, "n * 5 - 2"),
        (lambda n: -(-n // 16), "(n + 15) // 16"),
        (lambda n: -(-n // 64) * 12, "(n + 63) // 64 * 12"),
        (lambda n: -(-96 * n // 1024), "(n * 96 + 1023) // 1024"),
        (lambda n: n // 4, "n // 4"),
        (lambda n: -(-n // 32) * n, "(n + 31) // 32 * n"),
        (lambda n: min(-(-n // 4), 20), "min((n + 3) // 4, 20)"),
        (lambda n: 1 << (n - 1).bit_length(), "(1 << (n - 1).bit_length())"),
        (lambda n: 1.0 / n, "1.0 / (n)"),
    ],
)
def test_expressions_of_one_size_are_found(meaning: Callable[[int], float], text: str) -> None:
    assert fitted(meaning, ONE) == text


@pytest.mark.parametrize(
    "meaning",
    [
        lambda n, m: 12 * n * m,
        lambda n, m: n * m + 7 * n,
        lambda n, m: -(-n // 16) * 3,
        lambda n, m: -(-n // 16) * -(-m // 64),
    ],
)
def test_expressions_of_two_sizes_are_right_elsewhere(meaning: Callable[[int, int], int]) -> None:
    text = fitted(meaning, TWO)
    assert all(eval(text, {"n": n, "m": m}) == meaning(n, m) for n in range(1, 70, 3) for m in range(1, 200, 7))


def test_a_number_outside_of_the_grammar_is_refused() -> None:
    with pytest.raises(Unfitted, match="no expression"):
        fitted(lambda n: n ^ 5, ONE)


def test_a_fit_that_is_wrong_at_a_point_kept_out_is_refused() -> None:
    """A polynomial fits the other points, but not the one that is held out."""
    with pytest.raises(Unfitted):
        fitted(lambda n: 3 * n + (n == 65), ONE, held_out=[(65,)])


def test_a_divisor_that_the_points_leave_open_is_not_guessed() -> None:
    with pytest.raises(Unfitted):
        fitted(lambda n: -(-n // 37), [(n,) for n in (1, 2, 30, 80, 90, 230, 240)])


def test_texts_become_one() -> None:
    texts = [Group("call(", ["relu_2", f"({n}, 64)", f"float16[{n * 96}]"], ")") for (n,) in ONE]
    found = merged(texts, Fitter(ONE, ["n"]))
    assert str(found) == "call(relu_2, (n, 64), float16[n * 96])"


def test_texts_that_differ_in_words_are_refused() -> None:
    with pytest.raises(Unfitted, match="differs in more than numbers"):
        merged(["x.view(3)", "x.as_strided(4)"], Fitter([(3,), (4,)], ["n"]))


def test_numbers_in_names_and_strings_are_no_numbers() -> None:
    assert masked('state["layers.0.weight"], x_2, float16, "0", 17, 1e-05') == (
        'state["layers.0.weight"], x_2, float16, "0", #, #'
    )
