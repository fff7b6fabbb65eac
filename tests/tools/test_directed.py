"""Inputs aimed at the reference's operators, other layouts, and elements that are not compared."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from triton_agent.tools.answers.accuracy import judge
from triton_agent.tools.cases.directed import (
    DIRECTED,
    ENDS,
    FAINT,
    FLIPPED,
    HUGE,
    LIMITS,
    NOT_FINITE,
    NOTHING,
    NUMBERS,
    OFFSET,
    RELATED,
    TIES,
    Directed,
    directed,
)
from triton_agent.tools.cases.layouts import (
    BROADCAST,
    GAPS,
    INNER,
    LAST,
    LAYOUTS,
    MIXED,
    OUTER,
    SHARED,
    TRANSPOSED,
    WINDOWS,
    relaid,
    safe,
)
from triton_agent.tools.cases.named_numbers import Numbers
from triton_agent.tools.cases.plan import Plan, Trial
from triton_agent.tools.cases.state_cases import AFTER_OTHERS
from triton_agent.tools.cases.whole_numbers import EQUAL, FAR, REPEATED, SHIFTS, ZERO
from triton_agent.tools.checker.prepare import prepare_plan
from triton_agent.tools.graph.recorder import extract
from triton_agent.tools.graph.written_out import VARIANCE, operators_of
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import expect
from triton_agent.tools.truth.ties import with_free_places

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nROWS, COLUMNS = 24, 70\n"


class Does(nn.Module):
    """A module that calls one function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def asked(function: Any, *inputs: torch.Tensor) -> Directed:
    return directed(extract(Does(function), list(inputs)), list(inputs), {})


def changed(function: Any, case: str, *inputs: torch.Tensor) -> list[torch.Tensor]:
    copies = [tensor.clone() for tensor in inputs]
    asked(function, *inputs).change(case, copies, torch.Generator().manual_seed(3), 0)
    return copies


def main_trial(folder: Path, forward: str, inputs: str) -> Trial:
    text = f"{HEAD}class Model(nn.Module):\n    def forward(self, x, *more):\n        return {forward}\n"
    (folder / "problem.py").write_text(f"{text}def get_inputs():\n    return {inputs}\n")
    plan: Plan = prepare_plan(parse_problem(str(folder / "problem.py")), EvaluatorSettings(shapes="given"))
    return plan.trials[plan.main]


X = torch.randn(24, 70, generator=torch.Generator().manual_seed(1))
WHOLE = torch.randint(1, 90, (24, 70), generator=torch.Generator().manual_seed(2))


def centred(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(-1, keepdim=True)


@pytest.mark.parametrize(
    ("function", "counts"),
    [
        (lambda x: centred(x) / (centred(x) ** 2).mean(-1, keepdim=True).sqrt(), True),
        (lambda x: (centred(x) * centred(x)).sum(-1), True),
        (lambda x: centred(x).square().mean(), True),
        (lambda x: (x - x.mean(0)).pow(2).mean(0), True),
        (centred, False),
        (lambda x: ((x - x[:1].mean()) ** 2).mean(), False),
        (lambda x: ((x - 3) ** 2).mean(), False),
    ],
)
def test_a_variance_that_is_written_out_counts_as_one(function: Any, counts: bool) -> None:
    found = asked(function, X)
    assert (OFFSET in found.feeds) == counts
    assert (VARIANCE in operators_of(extract(Does(function), [X]))) == counts


def test_samples_hold_nothing_but_what_an_operator_leaves_out() -> None:
    table, tokens = torch.randn(90, 4), WHOLE.clone()
    bags = lambda x: nn.functional.embedding_bag(x, table, mode="mean", padding_idx=7)  # noqa: E731
    (filled,) = changed(bags, NOTHING, tokens)
    rows = (filled == 7).all(1)
    assert bool(rows.any()) and not bool(rows.all()) and torch.equal(filled[~rows], tokens[~rows])
    assert NOTHING not in asked(lambda x: nn.functional.embedding(x, table), tokens).feeds
    (step,) = changed(lambda x: (x == 5) * 2, NOTHING, torch.tensor(3))
    assert step == 5
    (masked,) = changed(lambda x: (x != 5).sum(1), NOTHING, tokens)
    assert bool((masked == 5).all(1).any())


def test_the_graph_says_what_is_asked() -> None:
    assert set(asked(torch.relu, X).feeds) == {NOT_FINITE}
    assert set(asked(lambda x: x.var(-1), X).feeds) == {NOT_FINITE, OFFSET, LIMITS}
    assert TIES in asked(lambda x: x.argmax(-1), X).feeds
    assert set(asked(lambda a: torch.div(a, 3, rounding_mode="floor"), WHOLE).feeds) == {
        NUMBERS,
        REPEATED,
        EQUAL,
        ZERO,
        FAR,
        *SHIFTS,
    }
    assert set(asked(lambda x: x @ x.T, X).feeds) == {NOT_FINITE}
    assert HUGE in asked(torch.relu, X.bfloat16()).feeds and HUGE not in asked(torch.sin, X.bfloat16()).feeds
    attention = asked(
        nn.functional.scaled_dot_product_attention, *(torch.randn(1, 2, 8, 8).bfloat16() for _ in range(3))
    )
    assert [feed.position for _, feed in attention.feeds[HUGE]] == [2], "scores of 1e5 are right up to a few units only"
    assert NOT_FINITE in asked(lambda x: nn.functional.mse_loss(x, 2 * x), X).feeds
    assert NOT_FINITE not in asked(lambda x: torch.relu(x @ x.T), X).feeds, "epilogues drop NaN by habit"
    assert NOT_FINITE not in asked(lambda x: torch.softmax(x @ x.T, -1) @ x, X).feeds, "masks leave parts out"
    assert NOT_FINITE not in asked(lambda x: x.to(torch.int32), X).feeds


def test_nan_and_infinities_are_planted_in_different_rows_and_columns() -> None:
    (x,) = inputs = [X.clone()]
    values = [float("nan"), float("inf"), -float("inf")]
    asked(torch.relu, X).plant(inputs, values, torch.Generator().manual_seed(0))
    where = (~torch.isfinite(x)).nonzero()
    assert len(where) == 3 == len(set(where[:, 0].tolist())) == len(set(where[:, 1].tolist()))


def test_half_of_a_row_and_all_of_another_are_nan_where_there_are_several() -> None:
    x = torch.randn(8, 6)
    asked(torch.relu, X).plant([x], [float("nan")], torch.Generator().manual_seed(0), twice=True)
    counts = sorted(x.isnan().sum(1).tolist())
    assert counts[-1] == 6 and 0 < counts[-2] < 6 and counts[0] == 0
    few = torch.randn(2, 6)
    asked(torch.relu, X).plant([few], [float("nan")], torch.Generator().manual_seed(0), twice=True)
    assert few.isnan().sum(1).max() < 6


@pytest.mark.parametrize(
    ("function", "huge"),
    [
        (lambda x: torch.softmax(x, -1), 1e15),
        (lambda x: torch.softmax(x / 3.0, -1), 1e3),
        (lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]).sum(-1), 1e3),
        (lambda x: (x * 3.0).sum(-1), 1e15),
    ],
)
def test_scores_are_as_huge_as_can_be_without_their_own_rounding_deciding(function: Any, huge: float) -> None:
    (x,) = changed(function, LIMITS, X)
    assert float(x.abs().max()) == pytest.approx(huge, rel=0.01)


def test_numbers_and_inputs_without_elements_have_no_lines_to_change() -> None:
    """Parameters without rows have none to make inputs from either."""
    known = {"empty": torch.zeros(0, 70)}
    inputs = [X.clone(), torch.zeros(0, 70), torch.tensor(0.7)]
    found = directed(extract(Does(lambda x, more, heat: torch.cat([x, more]) / heat), inputs), inputs, known)
    for case in found.cases(DIRECTED):
        found.change(case, inputs, torch.Generator().manual_seed(3), 0)
    assert LIMITS in found.feeds and inputs[1].shape == (0, 70)


@pytest.mark.parametrize(("function", "tiny"), [(lambda x: x / x.std(-1, keepdim=True), 1e-15), (torch.exp, 1e-30)])
def test_a_tiny_row_has_a_deviation_in_float32_where_one_is_taken(function: Any, tiny: float) -> None:
    (x,) = changed(function, LIMITS, X)
    tiniest = x.abs().amax(-1)[x.abs().amax(-1) > 0].min()
    assert tiny / 10 < float(tiniest) < tiny * 10


def test_halves_are_planted_behind_a_known_scale() -> None:
    (x,) = changed(lambda x: torch.round(x * 4.0), TIES, X)
    doubled = x * 8.0
    assert 0.2 < float((doubled == doubled.round()).float().mean()) < 0.6
    assert bool(((doubled - doubled.round()).abs() < 1e-4).all())


def test_a_scale_taken_from_the_largest_becomes_one() -> None:
    (x,) = changed(lambda x: torch.round(x / (x.abs().amax(-1, keepdim=True) / 127)), TIES, X)
    assert bool((x.abs().amax(-1) == 127).all()) and torch.equal(2 * x, (2 * x).round())


def test_inputs_meet_the_numbers_that_they_are_compared_with() -> None:
    def pieces(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x == 0.25, 1.0, x) + (2 * x + 1 > 4).float() + nn.functional.hardshrink(x, 0.75)

    [x] = changed(pieces, TIES, X)
    for met in (0.25, 1.5, 0.75):
        assert 0.04 < (x == met).float().mean() < 0.13
    [numbers] = changed(lambda whole: (whole != 7).int() + (whole > 3.5), TIES, WHOLE)
    assert 0.2 < (numbers == 7).float().mean() < 0.3


def test_numbers_below_zero_and_beyond_32_bits_are_asked_of_arithmetic_only() -> None:
    (a,) = changed(lambda a: torch.div(a, 7, rounding_mode="floor"), NUMBERS, WHOLE)
    assert 0.2 < float((a < 0).float().mean()) < 0.5
    (b,) = changed(lambda b: b.sum(-1), NUMBERS, WHOLE)
    assert int(b.abs().max()) > 2**31
    table = torch.randn(90, 4)
    _, numbers = changed(lambda table, numbers: F_embedding(numbers, table), NUMBERS, table, WHOLE)
    assert int(numbers.min()) >= 1 and int(numbers.max()) < 90 and numbers.unique().numel() < WHOLE.numel()


def test_bits_of_large_numbers_are_flipped_unless_they_become_places() -> None:
    words = torch.randint(2**29, 2**31 - 1, (24, 70), generator=torch.Generator().manual_seed(4), dtype=torch.int32)
    (flipped,) = changed(lambda x: (x >> 5) ^ x, FLIPPED, words)
    assert 0.2 < float((flipped < 0).float().mean()) < 0.5
    assert bool(((flipped == words) | (flipped == ~words)).all())
    (mixed,) = changed(lambda x: (x >> 5) ^ x, FLIPPED, torch.where(WHOLE % 2 == 0, words.long(), WHOLE))
    assert torch.equal(mixed[WHOLE % 2 == 1], WHOLE[WHOLE % 2 == 1]) and bool((mixed < 0).any())
    assert FLIPPED not in asked(lambda x: (x >> 5) ^ x, WHOLE).feeds, "small numbers are counts, ids and places"
    assert FLIPPED not in asked(lambda table, x: table[x.long() % 90], torch.randn(90, 4), words).feeds
    assert FLIPPED not in asked(lambda x: x.diff(), words.sort(-1).values).feeds


def test_bits_stay_as_they_are_where_the_reference_is_not_defined_for_negative_numbers(tmp_path: Path) -> None:
    words = "[torch.randint(2**40, 2**41, (ROWS, COLUMNS))]"
    for forward, is_defined in (("x.float().abs().sqrt()", True), ("x.float().sqrt()", False)):
        trial = main_trial(tmp_path, forward, words)
        assert (FLIPPED in {case.distribution for case in trial.cases}) is is_defined


def F_embedding(numbers: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return nn.functional.embedding(numbers, table)


def test_whole_numbers_are_equal_within_an_input_and_between_inputs() -> None:
    other = torch.randint(1, 90, (24, 70), generator=torch.Generator().manual_seed(5))
    one, two = changed(torch.add, REPEATED, WHOLE, other)
    assert (one == two).float().mean() > 0.05 and bool((one == 0).all(-1).any()) and bool((one >= 0).all())
    assert bool(((one == one[:, :1]).all(-1) & (one != 0).all(-1)).any()), "a row of one number other than zero"
    one, two = changed(torch.add, EQUAL, WHOLE, other)
    assert one.unique().tolist() == two.unique().tolist() and int(one[0, 0]) in range(1, 90)
    flags, numbers = changed(lambda flags, numbers: flags * numbers, EQUAL, WHOLE > 40, WHOLE)
    assert bool(flags.all()) and len(numbers.unique()) == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_pairs_of_places_stay_in_the_range_of_each(axis: int) -> None:
    generator = torch.Generator().manual_seed(6)
    pairs = torch.stack([torch.randint(0, 30, (90,), generator=generator), torch.arange(90).flip(0)], axis)
    for case in (REPEATED, EQUAL):
        [given] = changed(lambda pairs: pairs * 2, case, pairs)
        assert int(given.select(axis, 0).max()) < 30 and not torch.equal(given, pairs)


def test_each_input_alone_is_zero() -> None:
    cases = asked(lambda flags, numbers: flags * numbers, WHOLE > 40, WHOLE).cases([ZERO])
    assert len(cases) == 2
    for k, case in enumerate(cases):
        given = changed(lambda flags, numbers: flags * numbers, case, WHOLE > 40, WHOLE)
        assert [bool(it.any()) for it in given] == [k != 0, k != 1]


def test_a_large_number_is_added_where_it_becomes_no_place_and_no_bound() -> None:
    def is_asked(function: Any, *inputs: torch.Tensor) -> bool:
        return FAR in asked(function, *inputs).feeds

    table, labels = torch.randn(200, 4), WHOLE[0].clone()
    one, two = changed(lambda a, b: torch.exp((a - b).float()), FAR, WHOLE, WHOLE - 1)
    assert torch.equal(one - two, WHOLE - (WHOLE - 1)) and int(one.min()) > 2**31
    assert is_asked(lambda a: (a // 7 % 100).float(), WHOLE)
    assert is_asked(lambda a, b: a[1:] < b[1:], WHOLE, WHOLE + 1)
    assert is_asked(lambda a, b, table, it: (a - b).sum() * table[it], WHOLE, WHOLE + 1, table, labels)
    assert is_asked(lambda a, b: table[0, (a.T - b.T) % 4], WHOLE, WHOLE + 1)
    assert not is_asked(lambda a, b: torch.arange(300)[a + a - b], WHOLE, WHOLE.flip(0)), "one of them is left"
    assert not is_asked(lambda table, labels: table[labels], table, labels)
    assert not is_asked(lambda table, labels: table[labels + 1], table, labels)
    assert not is_asked(lambda x, lengths: torch.arange(70) < lengths[:, None], X, WHOLE[:, 0])
    assert not is_asked(lambda lengths: lengths.clamp(max=50), WHOLE)
    assert not is_asked(lambda counts: torch.bincount(counts.flatten()), WHOLE)


def test_nan_is_asked_of_each_input_that_passes_it_on() -> None:
    def fed(function: Any, *inputs: torch.Tensor) -> set[int]:
        return {feed.position for _, feed in asked(function, *inputs).feeds.get(NOT_FINITE, ())}

    places, table = WHOLE[:, 0].clone(), torch.randn(90, 70)
    assert fed(lambda x, table, places: torch.relu(x) + table[places], X, table, places) == {0, 1}
    assert fed(lambda x, table, places: table[places] * x, X, table, places) == {0}, "picked elements may be masked out"
    assert fed(lambda x, y: torch.relu(x) + y.to(torch.int32), X, X + 1) == {0}
    assert fed(lambda x, y: torch.relu(x) + (x @ x.T)[0, 0] + y, X, X + 1) == {1}
    assert fed(lambda x, y: torch.relu(x).sum() + torch.arange(70)[y.argmax(-1)], X, X + 1) == {0}


def test_small_rows_are_left_out_only_where_digits_of_them_are_lost() -> None:
    unit = lambda x: x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)  # noqa: E731
    x, gate = changed(lambda x, gate: unit(x) * torch.sigmoid(gate), FAINT, X, X + 1)
    assert not torch.equal(x, X) and torch.equal(gate, X + 1)
    [x] = changed(lambda x: torch.tanh(unit(x)), FAINT, X)
    assert torch.equal(x, X)
    turned = torch.complex(X, X + 1)
    [x] = changed(lambda x: x / x.abs(), FAINT, turned)
    assert 0 < float(x.abs().min()) < 1e-3 * float(turned.abs().min())


def test_numbers_of_a_closed_range_reach_its_ends() -> None:
    for low, high in ((0.0, 1.0), (-1.0, 1.0)):
        [x] = changed(torch.exp, ENDS, torch.rand(24, 70) * (high - low) + low)
        assert float(x.min()) == low and float(x.max()) == high and 0.1 < float((x == high).float().mean()) < 0.25
        assert bool((x == high).all(-1).any()) and bool((x == low).all(-1).any())
    assert ENDS not in asked(torch.exp, X).feeds
    [x] = changed(lambda x: x / x.std(-1, keepdim=True), ENDS, torch.rand(24, 70))
    assert not bool((x == 1).all(-1).any()), "what is left of equal numbers is rounding error"


def test_sizes_places_and_offsets_are_neither_equal_nor_zero() -> None:
    def written(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return x.index_copy(0, places, x)

    def equal_in(function: Any, *inputs: torch.Tensor) -> set[str]:
        return set(asked(function, *inputs).feeds) & {REPEATED, EQUAL, ZERO}

    x, places = torch.randn(9, 4), torch.randperm(9)
    assert not equal_in(written, x, places)
    assert equal_in(lambda x, places: x[places], x, places) == {REPEATED, EQUAL, ZERO}
    assert equal_in(lambda x, places: x[places], x, places.clamp(min=1)) == {REPEATED, EQUAL}, "counted from one"
    assert equal_in(lambda a: torch.div(90, a, rounding_mode="floor"), WHOLE) == {REPEATED, EQUAL}
    assert not equal_in(lambda x, it: x.repeat_interleave(it, dim=0, output_size=10), x, torch.tensor([1] * 8 + [2]))
    assert not equal_in(lambda offsets: offsets * 2, torch.tensor([0, 3, 3, 9]))


def test_extrema_of_integers_get_rows_near_both_limits_of_their_dtype() -> None:
    for dtype in (torch.int8, torch.int32, torch.int64):
        (x,) = changed(lambda x: x.amax(-1), NUMBERS, WHOLE.to(dtype))
        ends = torch.iinfo(dtype)
        assert int((x.amax(-1) < ends.min + 101).sum()) == int((x.amin(-1) > ends.max - 101).sum()) == 1


@pytest.mark.filterwarnings("ignore:The reduce argument")
def test_places_are_repeated_where_elements_of_one_place_are_combined() -> None:
    places, values = torch.randperm(24), torch.randn(24)
    for function in (
        lambda at, x: torch.zeros(24).index_put((at,), x, accumulate=True),
        lambda at, x: torch.zeros(24).scatter_reduce(0, at, x, "amax"),
        lambda at, x: torch.zeros(24).scatter(0, at, x, reduce="add"),
    ):
        assert len(changed(function, NUMBERS, places, values)[0].unique()) < 24
    assert NUMBERS not in asked(lambda at, x: torch.zeros(24).index_put((at,), x), places, values).feeds


def test_a_mask_of_whole_numbers_holds_others_than_one_if_it_is_only_asked_if_they_are_set() -> None:
    mask = torch.randint(0, 2, (24, 70), generator=torch.Generator().manual_seed(4))
    (_, kept) = changed(lambda x, m: torch.where(m.bool(), x.sin(), 0.0), NUMBERS, X, mask)
    assert {-1, 0, 1, 2} == set(kept.unique().tolist())
    (_, used) = changed(lambda x, m: torch.where(m.bool(), x.sin(), 0.0) * m, NUMBERS, X, mask)
    assert torch.equal(used, mask), "a factor is more than a question"


def test_many_rows_of_flags_are_full_and_many_are_empty() -> None:
    flags = torch.rand(1000, 64, generator=torch.Generator().manual_seed(4)) > 0.5
    (_, some) = changed(lambda x, m: torch.where(m, x, 0.0), NUMBERS, torch.randn(1000, 64), flags)
    assert int(some.all(-1).sum()) == int((~some).all(-1).sum()) == 200


def test_rows_of_the_sizes_of_epsilons_are_asked_where_something_is_divided() -> None:
    (x,) = changed(lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-8), FAINT, X)
    assert 6 <= int((x.abs().amax(-1) < 1e-2).sum()) <= 8
    (images,) = changed(lambda x: nn.functional.normalize(x, dim=1), FAINT, torch.randn(6, 8, 5, 7))
    assert bool((images.norm(dim=1) < 1e-3).any())
    assert FAINT not in asked(lambda x: torch.tanh(x).sum(-1), X).feeds


def test_nan_lies_where_the_reference_leaves_it_out() -> None:
    flags = torch.rand(24, 70, generator=torch.Generator().manual_seed(4)) > 0.02
    x, flags = X.clone(), flags.clone()
    asked(lambda x, m: torch.where(m, x, 0.0), x, flags).plant(
        inputs := [x, flags], [float("nan")], torch.Generator().manual_seed(3)
    )
    assert bool(inputs[0][~flags].isnan().any()) and bool(inputs[0][flags].isnan().any())
    square = torch.randn(16, 16)
    asked(torch.tril, square).plant([square], [float("nan")], torch.Generator().manual_seed(3))
    assert bool(square[0, -1].isnan())


def test_a_row_holds_infinities_only_where_an_extremum_is_sought(tmp_path: Path) -> None:
    for forward, wanted in (("x.amax(-1)", True), ("x - x.amax(-1, keepdim=True)", False)):
        trial = main_trial(tmp_path, forward, "[torch.randn(ROWS, COLUMNS)]")
        (case,) = (case for case in trial.cases if case.distribution == NOT_FINITE)
        (x,) = case.expectation.packed_inputs.unpack()
        assert bool(((x == -torch.inf).float().mean(-1) > 0.9).any()) is wanted


def test_ignored_labels_are_asked_of_a_cross_entropy() -> None:
    labels = torch.randint(0, 70, (24,))
    _, y = changed(lambda x, y: nn.functional.cross_entropy(x, y, ignore_index=-7), NUMBERS, X, labels)
    assert bool((y == -7).any()) and bool((y != -7).any())


def test_rows_of_narrow_integers_lie_at_both_limits_unless_they_are_places() -> None:
    x, y = (torch.randint(-8, 8, size, dtype=torch.int8) for size in ((24, 64), (64, 16)))
    for made in changed(lambda x, y: x.int() @ y.int(), NUMBERS, x, y):
        at_limits = {number: int((made == number).all(-1).sum()) for number in (-128, 127)}
        assert all(at_limits.values()) and sum(at_limits.values()) < len(made) / 2
    assert NUMBERS not in asked(lambda x, y: x + y, torch.randn(24, 64), torch.randn(24, 64)).feeds
    table, codes = torch.randn(16), torch.randint(0, 16, (24, 64), dtype=torch.uint8)
    _, drawn = changed(lambda table, codes: table[codes.long()], NUMBERS, table, codes)
    assert not any(bool((drawn == number).all(-1).any()) for number in (0, 255))


def test_places_that_are_written_to_stay_different() -> None:
    def put(values: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(16, 4).index_copy(0, slots.clamp(min=0), values)
        return made * (slots >= 0).any()

    found = asked(put, torch.randn(6, 4), torch.tensor([3, 1, 7, 5, 9, 2]))
    assert all(feed.position == 0 for feeds in found.feeds.values() for _, feed in feeds)


def test_offsets_of_bags_stay_in_order() -> None:
    table, offsets = torch.randn(40, 4), torch.tensor([0, 3, 9, 9, 14])

    def bags(ids: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding_bag(ids, table, offsets, mode="mean", padding_idx=0)

    ids = torch.randint(0, 40, (20,))
    for case in asked(bags, ids, offsets).feeds:
        _, drawn = changed(bags, case, ids, offsets)
        assert bool((drawn.diff() >= 0).all()), case


def test_offsets_become_uneven_between_the_same_ends() -> None:
    offsets = torch.arange(0, 97, 12)
    _, drawn = changed(lambda x, o: x.cumsum(0)[o], NUMBERS, torch.randn(97), offsets)
    assert drawn.shape == offsets.shape


def test_far_from_zero_the_spread_stays() -> None:
    (x,) = changed(lambda x: nn.functional.layer_norm(x, (70,)), OFFSET, X)
    assert float(x.mean()) > 500 and abs(float(x.std()) - float(X.std())) < 0.01


def test_rows_at_their_limits_leave_most_rows_alone() -> None:
    (x,) = changed(lambda x: torch.softmax(x, -1), LIMITS, X)
    assert int((x != X).any(-1).sum()) == 4 and bool((x == 0).all(-1).any())


def test_layouts_keep_shape_and_values() -> None:
    a, b = X.clone(), X.clone()
    for name in (TRANSPOSED, GAPS):
        got = relaid(name, [a, b])
        assert got is not None
        assert all(torch.equal(new, X) and not new.is_contiguous() for new in got)
    shared = relaid(SHARED, [a, b])
    assert shared is not None and shared[0] is shared[1]
    alone = relaid(SHARED, [a])
    assert alone is not None and alone[0].stride(0) == 0 and alone[0].shape == X.shape
    assert relaid(SHARED, [a, a]) is None, "they share memory already"


def test_each_input_lies_in_each_way_and_any_two_differ_somewhere() -> None:
    ways = set()
    for seed in range(8):
        given = [torch.randn(4, 6) for _ in range(5)]
        laid = [relaid(name, given, seed) for name in (TRANSPOSED, GAPS, MIXED)]
        strides = list(zip(*([it.stride() for it in inputs] for inputs in laid if inputs)))
        assert all(set(own[:2]) == {(1, 4), (12, 1)} for own in strides)
        assert len(set(strides)) == len(given), "no two lie alike in all three cases"
        ways.add(tuple(own[0] for own in strides))
    assert len(ways) > 1, "which input is transposed is drawn"
    assert relaid(MIXED, [X, X.clone()]) is None


def test_inputs_that_share_memory_get_directed_values(tmp_path: Path) -> None:
    trial = main_trial(tmp_path, "torch.softmax(x, -1) - more[0]", "2 * [torch.randn(ROWS, COLUMNS)]")
    cases = {case.distribution: case for case in trial.cases}
    one, two = cases[LIMITS].expectation.packed_inputs.unpack()
    assert cases.keys() >= {NOT_FINITE, OFFSET, LIMITS} and not torch.equal(one, two)


def test_images_lie_channels_last_and_sequences_step_by_step() -> None:
    images, steps, rows = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4), torch.randn(2, 3)
    inner, outer = relaid(INNER, [images, steps, rows]), relaid(OUTER, [images, steps, rows])
    assert inner is not None and outer is not None
    assert all(torch.equal(got, given) for it in (inner, outer) for got, given in zip(it, (images, steps, rows)))
    assert inner[0].is_contiguous(memory_format=torch.channels_last) and not inner[0].is_contiguous()
    assert inner[1].transpose(1, 2).is_contiguous() and outer[1].transpose(0, 1).is_contiguous()
    assert outer[0].transpose(1, 2).is_contiguous() and inner[2] is rows
    assert relaid(INNER, [rows]) is None


def test_the_last_two_of_four_dimensions_are_exchanged_as_in_transposed_keys() -> None:
    keys, rows = torch.randn(2, 3, 4, 5), torch.randn(3, 4, 5)
    laid = relaid(LAST, [keys, rows])
    assert laid is not None and torch.equal(laid[0], keys) and laid[1] is rows
    assert laid[0].transpose(2, 3).is_contiguous() and relaid(LAST, [rows]) is None
    gate, single = relaid(BROADCAST, [rows, rows + 1]), relaid(BROADCAST, [rows])
    assert gate is not None and [it.stride(-1) for it in gate] == [0, 0] and single is None


def test_rows_overlap_like_the_windows_of_a_signal() -> None:
    windows = relaid(WINDOWS, [torch.randn(2, 3, 8)])
    assert windows is not None and windows[0].stride() == (12, 4, 1)
    assert torch.equal(windows[0][0, 0, 4:], windows[0][0, 1, :4])


def test_cases_are_few_and_keep_their_layouts(tmp_path: Path) -> None:
    trial = main_trial(tmp_path, "torch.softmax(x, -1)", "[torch.randn(ROWS, COLUMNS)]")
    names = [case.distribution for case in trial.cases]
    assert [name for name in names if name in (NOT_FINITE, TIES, NUMBERS, OFFSET, LIMITS)] == [
        NOT_FINITE,
        OFFSET,
        LIMITS,
    ]
    laid = {case.distribution: case for case in trial.cases if case.distribution in LAYOUTS}
    assert laid[TRANSPOSED].expectation.packed_inputs.unpack()[0].stride() == (1, 24)
    assert laid[GAPS].expectation.packed_inputs.unpack()[0].stride() == (140, 1)


def test_fused_attention_is_spared_layouts_on_a_gpu_only(tmp_path: Path) -> None:
    trial = main_trial(tmp_path, "nn.functional.scaled_dot_product_attention(x, x, x)", "[torch.randn(2, 2, 8, 16)]")
    assert {INNER, WINDOWS} <= {case.distribution for case in trial.cases}, "without a GPU all are asked for"
    assert set(LAYOUTS) - set(safe(LAYOUTS)) == {INNER, LAST, WINDOWS, BROADCAST}


def test_what_only_moves_elements_is_not_asked_for_layouts(tmp_path: Path) -> None:
    trial = main_trial(tmp_path, "x.transpose(0, 1).contiguous()", "[torch.randn(ROWS, COLUMNS)]")
    assert not {case.distribution for case in trial.cases} & set(LAYOUTS)


@pytest.mark.parametrize(("forward", "turned"), [("x * self.scale", True), ("x * self.scale.log()", False)])
def test_parameters_of_one_sign_get_the_other_where_the_reference_stays_finite(
    tmp_path: Path, forward: str, turned: bool
) -> None:
    (tmp_path / "problem.py").write_text(
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.scale = nn.Parameter(torch.tensor(2.0))\n        self.weight = nn.Parameter(1 + torch.rand(6))\n"
        "        self.register_buffer('table', torch.ones(6))\n"
        f"    def forward(self, x):\n        return {forward} + (self.weight * self.table).sum()\n"
        "def get_inputs():\n    return [torch.randn(ROWS, COLUMNS)]\n"
    )
    plan = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(shapes="given"))
    every = [state.unpack() for state in plan.trials[plan.main].states]
    states = every[:-6]  # fresh, positive and grown ones, NaN and two of opposed signs follow
    assert [bool(state["scale"] < 0) for state in states] == [False, False, *(turned for _ in states[2:])]
    assert all(bool((state["weight"] < 0).any()) == turned for state in states[2:])
    assert all(bool((state["table"] < 0).any()) for state in states[2:])


def test_a_reference_that_overflows_gets_moderate_outliers(tmp_path: Path) -> None:
    for forward, expected in (("x.abs().exp()", "moderate extremes"), ("x.tanh()", "extremes")):
        trial = main_trial(tmp_path, forward, "[torch.randn(ROWS, COLUMNS)]")
        assert [case.distribution for case in trial.cases if "extremes" in case.distribution] == [expected]


def test_a_reference_that_gives_infinities_by_design_keeps_its_cases(tmp_path: Path) -> None:
    """Logits of -inf: their number changes with the draw."""
    forward = "(30 * torch.tanh(x / 30)).masked_fill(x < x.mean(-1, keepdim=True), -float('inf'))"
    trial = main_trial(tmp_path, forward, "[torch.randn(ROWS, COLUMNS)]")
    names = {case.distribution for case in trial.cases}
    assert {"x3", "x0.01", "extremes", "shuffled", "few values", "rounded to fewer bits", TRANSPOSED} <= names


def test_neither_nan_nor_infinities_of_another_sign_are_taken_for_design(tmp_path: Path) -> None:
    for forward in (
        "torch.where(x < 0, -1 / (x * 0).abs(), x.abs().exp())",
        "torch.where(x < 0, x.log(), 60 - x.exp())",
    ):
        trial = main_trial(tmp_path, forward, "[torch.randn(ROWS, COLUMNS)]")
        names = {case.distribution for case in trial.cases}
        assert "extremes" not in names, "the exponential overflows"


@pytest.mark.parametrize("forward", ["(x.t() * 2).contiguous()", "x.t().contiguous() * 2"])
def test_in_which_order_an_output_lies_counts_if_the_reference_moves_elements(tmp_path: Path, forward: str) -> None:
    moved = main_trial(tmp_path, forward, "[torch.randn(ROWS, COLUMNS)]")
    assert all(case.put_in_order == {0} or case.distribution in LAYOUTS for case in moved.cases)
    computed = main_trial(tmp_path, "x.t() * 2", "[torch.randn(ROWS, COLUMNS)]")
    assert not any(case.put_in_order for case in computed.cases)


def test_an_answer_that_has_to_be_nan_is_judged(tmp_path: Path) -> None:
    trial = main_trial(tmp_path, "x.mean()", "[torch.randn(ROWS, COLUMNS)]")
    assert NOT_FINITE in {case.distribution for case in trial.cases}


def test_the_dimensions_of_a_cube_lie_in_reverse_and_stepped_inputs_begin_inside_their_memory() -> None:
    (cube,) = relaid(TRANSPOSED, [torch.randn(4, 5, 6)]) or []
    assert cube.stride() == (1, 4, 20)
    (stepped,) = relaid(GAPS, [torch.randn(5)]) or []
    assert stepped.stride() == (2,) and stepped.storage_offset() == 1
    (padded,) = relaid(GAPS, [torch.randn(4, 5)]) or []
    assert padded.stride() == (10, 1) and padded.storage_offset() == 5


def test_nan_is_asked_for_where_it_makes_nan_of_the_whole_answer(tmp_path: Path) -> None:
    trial = main_trial(tmp_path, "torch.relu(x - x.mean())", "[torch.randn(ROWS, COLUMNS)]")
    (case,) = (case for case in trial.cases if case.distribution == NOT_FINITE)
    assert bool(case.expectation.outputs[0].yard.truth.isnan().all())


def test_whether_nan_is_asked_for_hangs_on_no_draw_where_most_positions_are_free(tmp_path: Path) -> None:
    trial = main_trial(tmp_path, "torch.max(x, dim=-1)", "[torch.randint(0, 7, (ROWS, COLUMNS)).float()]")
    (case,) = (case for case in trial.cases if case.distribution == NOT_FINITE)
    values, _ = case.expectation.outputs
    assert bool(values.yard.truth.isnan().any())


def test_infinities_of_which_the_reference_makes_nan_are_not_planted(tmp_path: Path) -> None:
    trial = main_trial(tmp_path, "x - torch.relu(x)", "[torch.randn(ROWS, COLUMNS)]")
    (case,) = (case for case in trial.cases if case.distribution == NOT_FINITE)
    (x,) = case.expectation.packed_inputs.unpack()
    assert bool(torch.isnan(x).any()) and not bool((x == float("inf")).any()) and bool((x == -float("inf")).any())


def test_a_sum_with_an_infinity_may_be_nan_but_not_finite(tmp_path: Path) -> None:
    trial = main_trial(tmp_path, "x.sum(-1)", "[torch.randn(ROWS, COLUMNS)]")
    (case,) = (case for case in trial.cases if case.distribution == NOT_FINITE)
    (output,) = case.expectation.outputs
    right = output.yard.truth.float()
    infinite = right.isinf()
    assert int(infinite.sum()) == 2 and int(right.isnan().sum()) == 3
    assert judge(right, output.yard).ok
    assert judge(right.masked_fill(infinite, float("nan")), output.yard).ok
    assert not judge(right.masked_fill(infinite, 0.5), output.yard).ok
    assert not judge(right.masked_fill(right == right[~infinite & ~right.isnan()][0], float("nan")), output.yard).ok


def test_what_replaces_nan_gets_some() -> None:
    assert NOT_FINITE in asked(torch.nan_to_num, X).feeds


def test_signs_are_asked_of_negative_zero(tmp_path: Path) -> None:
    trial = main_trial(tmp_path, "torch.signbit(x)", "[torch.randn(ROWS, COLUMNS)]")
    inputs = [x for case in trial.cases for x in case.expectation.packed_inputs.unpack()]
    assert any(bool(((x == 0) & x.signbit()).any()) for x in inputs)


def test_parameters_hold_nan_and_learnt_scalars_grow(tmp_path: Path) -> None:
    text = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(COLUMNS))
        self.scale = nn.Parameter(torch.tensor(10.0))
        self.each = nn.Parameter(torch.full((ROWS, 1), 0.5))
    def forward(self, x):
        return torch.softmax(self.scale * self.each * torch.tanh(x * self.weight), -1)
def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""
    (tmp_path / "problem.py").write_text(HEAD + text)
    plan = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(shapes="given"))
    trial = plan.trials[plan.main]
    named = {case.name.rpartition(" / ")[2]: trial.states[case.version].unpack() for case in trial.cases}
    assert int(named["NaN in parameters"]["weight"].isnan().sum()) == 1
    assert abs(float(named["scalar parameters times 30"]["scale"])) > 100
    assert float(named["scalar parameters times 30"]["each"].abs().min()) > 5


def test_complex_inputs_hold_nan_and_named_numbers(tmp_path: Path) -> None:
    text = """class Model(nn.Module):
    def forward(self, x):
        return x * x
def get_inputs():
    return [torch.randn(ROWS, COLUMNS, dtype=torch.complex64)]
"""
    (tmp_path / "problem.py").write_text(HEAD + text)
    plan = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(shapes="given"))
    trial = plan.trials[plan.main]
    (planted,) = (case for case in trial.cases if case.distribution == NOT_FINITE)
    (x,) = planted.expectation.packed_inputs.unpack()
    assert int(x.real.isnan().sum()) > 0 and torch.equal(x.real.isnan(), x.imag.isnan())
    assert trial.holding is not None
    numbers = Numbers(in_text=frozenset({0.7654321}))
    held = [case.expectation.packed_inputs.unpack()[0] for case, _ in trial.holding(numbers, False)]
    number = torch.tensor(0.7654321)
    assert any(bool((part == number).any()) for x in held for part in (x.real, x.imag))


def test_numbers_lie_half_way_between_steps_of_a_grid_that_divides_exactly() -> None:
    def halves(step: float) -> float:
        (x,) = changed(lambda x: torch.fake_quantize_per_tensor_affine(x, step, 0, -128, 127), TIES, X)
        return float(((x / step).remainder(1) == 0.5).float().mean())

    assert halves(1 / 32) > 0.1 and halves(0.1) < 0.05


def test_places_lie_half_way_between_pixels_if_the_nearest_one_is_taken() -> None:
    image, grid = torch.randn(2, 3, 12, 15), 2 * torch.rand(2, 10, 10, 2) - 1

    def sampled(mode: str, *, align: bool = False) -> Any:
        return lambda image, grid: nn.functional.grid_sample(image, grid, mode=mode, align_corners=align)

    _, places = changed(sampled("nearest"), TIES, image, grid)
    for coordinate, size in enumerate((15, 12)):
        pixels = ((places[..., coordinate].double() + 1) * size - 1) / 2
        assert float((pixels % 1 == 0.5).double().mean()) > 0.25
    assert TIES not in asked(sampled("bilinear"), image, grid).feeds


def test_rows_of_one_input_are_made_from_those_of_another() -> None:
    other = torch.randn(X.shape, generator=torch.Generator().manual_seed(2))
    x, y = changed(lambda x, y: x + 2 * y, RELATED, X, other)
    assert {(row == way).all().item() for row, way in zip(y, x)} == {True, False}
    for made in (-x, x / 2, x + 1, x.sort(-1).values):
        assert bool((y == made).all(1).any())
    assert bool((x > 0).all(1).any()) and not bool((x > 0).all(1).all())
    (_, flags) = changed(lambda x, y: x + 2 * y, RELATED, X, torch.rand(X.shape))
    assert bool(((flags >= 0) & (flags <= 1)).all())
    assert RELATED not in asked(lambda x, y: x + 2 * y, X, X[:1]).feeds


def test_rows_are_made_from_those_of_a_parameter() -> None:
    centre = torch.randn(X.shape[-1], generator=torch.Generator().manual_seed(2))
    found = directed(extract(Does(lambda x: x * 2), [X]), [X], {"centre": centre, "of another size": torch.ones(3)})
    rows = [X.clone()]
    found.change(RELATED, rows, torch.Generator().manual_seed(3), 0)
    equal = (rows[0] == centre).all(1)
    assert bool(equal.any()) and not bool(equal.all())


def test_a_state_is_carried_over_calls_as_far_as_the_reference_accepts_louder_ones(tmp_path: Path) -> None:
    text = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("peak", torch.zeros(()))
    def forward(self, x):
        if not torch.compiler.is_compiling() and float(x.abs().max()) > 20:
            raise ValueError("too loud")
        self.peak.copy_(torch.maximum(self.peak, x.abs().max()))
        return x / self.peak
def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]
"""
    (tmp_path / "problem.py").write_text(HEAD + text)
    plan = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(shapes="given"))
    names = [case.name for case in plan.trials[plan.main].cases if case.distribution == AFTER_OTHERS]
    assert any("inputs times 0.01" in name for name in names) and not any("times 30" in name for name in names)


def test_a_state_is_carried_over_calls(tmp_path: Path) -> None:
    text = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
    def forward(self, x):
        if self.training:
            self.calls += 1
        return x * self.calls
def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""
    (tmp_path / "problem.py").write_text(HEAD + text)
    plan = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(shapes="given"))
    cases = [case for case in plan.trials[plan.main].cases if case.distribution == AFTER_OTHERS]
    assert [float(case.expectation.state_before["calls"]) for case in cases] == [2, 2, 2, 2, 1_000, 100_000]
    assert all(case.stale is None for case in cases)


def test_counters_reach_the_numbers_that_the_reference_names(tmp_path: Path) -> None:
    text = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("kept", torch.zeros(COLUMNS))
    def forward(self, x):
        self.calls += 1
        self.kept.copy_(torch.where(self.calls % 7 == 0, x[0], self.kept))
        return x - self.kept
def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""
    (tmp_path / "problem.py").write_text(HEAD + text)
    plan = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(shapes="given"))
    cases = [case for case in plan.trials[plan.main].cases if case.distribution == AFTER_OTHERS]
    (seventh,) = (case for case in cases if int(case.expectation.state_before["calls"]) == 6)
    assert "buffer kept" in {output.name for output in seventh.expectation.state_after}


def test_counters_pass_an_end_within_a_call_and_those_that_count_down_reach_zero(tmp_path: Path) -> None:
    text = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cursor", torch.zeros((), dtype=torch.int64))
        self.register_buffer("left", torch.full((), 50))
        self.register_buffer("is_begun", torch.tensor(False))
        self.register_buffer("kept", torch.zeros(100, COLUMNS))
    def forward(self, x):
        self.kept[(self.cursor + torch.arange(ROWS)) % 100] = x
        self.cursor.copy_((self.cursor + ROWS) % 100)
        self.left -= 1
        self.is_begun.fill_(True)
        return x - self.kept[0] * torch.where(self.left > 0, 1.0, 0.0)
def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""
    (tmp_path / "problem.py").write_text(HEAD + text)
    plan = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(shapes="given"))
    states = [
        case.expectation.state_before for case in plan.trials[plan.main].cases if case.distribution == AFTER_OTHERS
    ]
    assert {76, 88} <= {int(state["cursor"]) for state in states}
    assert 1 in {int(state["left"]) for state in states}


def test_one_version_changes_one_parameter_alone(tmp_path: Path) -> None:
    text = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(COLUMNS)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""
    (tmp_path / "problem.py").write_text(HEAD + text)
    plan = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(shapes="given"))
    states = [packed.unpack() for packed in plan.trials[plan.main].states]
    for before, after in itertools.pairwise(states[2:-5]):  # fresh and positive parameters, NaN, opposed signs follow
        assert sum(not torch.equal(before[name], after[name]) for name in before) == 1
    assert {case.version for case in plan.trials[plan.main].cases} == set(range(len(states)))


# -- elements that no answer can be held to ----------------------------------------------------------------------------


def quantise(x: torch.Tensor) -> torch.Tensor:
    hidden = nn.functional.silu(x)
    return torch.round(hidden / (hidden.abs().amax(-1, keepdim=True) / 127)).to(torch.int8)


def otherwise(x: torch.Tensor) -> torch.Tensor:
    """The same function with another order of roundings."""
    hidden = x * (1 / (1 + torch.exp2(-x * 1.4426950408889634)))
    return torch.round(hidden * (127 / hidden.abs().amax(-1, keepdim=True))).to(torch.int8)


def test_buffers_without_a_value_of_their_own_get_one(tmp_path: Path) -> None:
    text = f"""{HEAD}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keep", torch.ones(COLUMNS, dtype=torch.bool))
        self.register_buffer("offset", torch.zeros(COLUMNS, dtype=torch.int32))
        self.register_buffer("number", torch.tensor(3))

    def forward(self, x):
        return torch.where(self.keep, x - self.offset, 0.0) * self.number

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""
    (tmp_path / "problem.py").write_text(text)
    plan = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(shapes="given"))
    states = [state.unpack() for state in plan.trials[plan.main].states]
    last = states[-1]
    assert not bool(last["keep"].all()) and bool(last["keep"].any())
    assert sorted(last["offset"].unique().tolist()) == [0, 1] and int(last["number"]) == 3


@pytest.mark.parametrize("seed", range(6))
def test_no_honest_kernel_is_refused_for_a_rounding_that_nobody_can_decide(seed: int) -> None:
    x = torch.randn(256, 512, generator=torch.Generator().manual_seed(seed))
    yard = expect(Does(quantise), [x]).outputs[0].yard
    assert judge(otherwise(x), yard).ok and yard.judged_share > 0.99
    one_off = otherwise(x)
    one_off[7, 9] += 3
    assert not judge(one_off, yard).ok


def test_halves_of_a_step_are_decided_only_if_the_step_divides_exactly() -> None:
    def passes(step: float) -> bool:
        x = torch.randn(8, 32, generator=torch.Generator().manual_seed(5))
        x[3, ::4] = torch.arange(1, 17, 2) / 2 * step  # few of them, so that any of two values is accepted there
        yard = expect(Does(lambda x: torch.fake_quantize_per_tensor_affine(x, step, 2, -128, 127)), [x]).outputs[0].yard
        away = (torch.floor(x.double() / step + 2.5).clamp(-128, 127) - 2) * step
        assert not judge((away + step * (x > 1)).float(), yard).ok
        return judge(away.float(), yard).ok

    assert passes(0.1) and not passes(0.125)


def test_steps_of_channels_kept_by_the_module_have_a_truth_in_float64() -> None:
    class Quantised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("step", torch.tensor([0.1, 0.07]))
            self.register_buffer("zero", torch.tensor([1, -2], dtype=torch.int32))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fake_quantize_per_channel_affine(x, self.step, self.zero, 1, -128, 127)

    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(6))
    x[3] = torch.tensor([0.05, 0.035])
    expectation = expect(Quantised(), [x])
    either = expectation.outputs[0].yard.original.clone()
    assert expectation.lifted and judge(either, expectation.outputs[0].yard).ok
    either[3] = torch.tensor([0.1, 0.07]) - either[3]  # the other side of the half
    assert judge(either, expectation.outputs[0].yard).ok
    either[4, 0] += 0.1
    assert not judge(either, expectation.outputs[0].yard).ok


def test_halves_that_nothing_was_rounded_before_are_decided() -> None:
    x = torch.arange(-40, 40, dtype=torch.float32) / 2
    yard = expect(Does(torch.round), [x]).outputs[0].yard
    assert judge(torch.round(x), yard).ok and not judge(torch.floor(x + 0.5), yard).ok
    fake = expect(Does(lambda x: torch.round(x) * 0.25), [x]).outputs[0].yard
    assert judge(torch.round(x) * 0.25, fake).ok and not judge(torch.floor(x + 0.5) * 0.25, fake).ok


def test_of_equal_elements_put_in_order_any_will_do_and_values_must_be_right() -> None:
    x = torch.randn(20, 12, generator=torch.Generator().manual_seed(4))
    x[3, 4] = x[3, 8] = 9.0
    model = Does(lambda x: tuple(torch.topk(x, 2)))
    values, places = with_free_places(model, expect(model, [x])).outputs
    swapped = places.yard.truth.clone()
    swapped[3] = swapped[3].flip(0)
    assert judge(swapped, places.yard).ok and judge(values.yard.original, values.yard).ok
    swapped[5] = swapped[5].flip(0)
    assert not judge(swapped, places.yard).ok


def test_positions_that_tie_in_every_draw_may_be_any(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        return torch.softmax(x, -1).topk(2, -1)\n"
        "def get_inputs():\n    return [1e4 * torch.randn(6, 8)]\n"
    )
    plan = prepare_plan(parse_problem(str(tmp_path / "problem.py")), EvaluatorSettings(shapes="given", remedies=False))
    given = plan.trials[plan.main].cases[0].expectation
    (x,), (_, places) = given.packed_inputs.unpack(), given.outputs
    other = places.yard.truth.clone()
    other[:, 1] = torch.softmax(x, -1).argsort(-1)[:, 0]  # zero, like all but the largest
    assert judge(other, places.yard).ok
    other[:, 0] = other[:, 1]
    assert not judge(other, places.yard).ok


def test_the_first_of_equal_largest_elements_is_promised() -> None:
    x = torch.zeros(4, 9)
    yard = expect(Does(lambda x: x.argmax(-1)), [x]).outputs[0].yard
    assert judge(torch.zeros(4, dtype=torch.int64), yard).ok
    assert not judge(torch.full((4,), 8), yard).ok
