"""Inputs and parameters that no kernel can be tuned to, and that are still valid for the reference."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from torch import nn

from triton_agent.tools.cases.distributions import AS_GIVEN, DISTRIBUTIONS, draw, randomise
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference.reference import Reference, load

CHANGING = [name for name in DISTRIBUTIONS if name != AS_GIVEN]
SPARING = ("shuffled", "samples of zeros", *DISTRIBUTIONS[10:])
"""Distributions that may leave a small tensor unchanged."""


def reference(folder: Path, inputs: str) -> Reference:
    path = folder / "problem.py"
    body = inputs.replace("\n", "\n    ")
    path.write_text(
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def forward(self, *xs): return xs\n"
        f"def get_inputs():\n    {body}\n"
    )
    return load(parse_problem(str(path)))


def test_order_starts_as_given() -> None:
    assert DISTRIBUTIONS[:6] == ("as given", "x3", "x0.01", "one sign", "extremes", "moderate extremes")
    assert DISTRIBUTIONS[6:10] == ("shuffled", "samples of zeros", "all positive", "few values")
    assert DISTRIBUTIONS[10:12] == ("rows of many kinds", "rows of many kinds, none of them loud")
    assert DISTRIBUTIONS[12:14] == ("rounded to fewer bits", "flags flipped")
    assert DISTRIBUTIONS[14:16] == (
        "positions and lengths changed, one of them to zero",
        "positions and lengths changed",
    )
    assert all("first input" in name for name in DISTRIBUTIONS[16:])


def test_rows_of_many_kinds_are_sorted_periodic_smooth_sparse_and_more(tmp_path: Path) -> None:
    problem = reference(tmp_path, "return [torch.randn(130, 64), torch.rand(130, 64), torch.randn(3, 4)]")
    given, (x, shares, narrow) = problem.make_inputs(0), draw(problem, "rows of many kinds", 0)
    kinds = {
        "sorted": (x.diff(dim=-1) >= 0).all(1),
        "periodic": (x[:, 8:] == x[:, :-8]).all(1),
        "without negative numbers": (x >= 0).all(1),
        "half of it zero": ((x == 0).float().mean(1) - 0.5).abs() < 0.2,
        "alternating": (x[:, 1:].sign() == -x[:, :-1].sign()).all(1),
        "smooth": x.diff(dim=-1).abs().amax(1) < 0.6 * x.abs().amax(1),
        "loud": x.std(1) > 20,
        "away": x.mean(1).abs() > 2,
    }
    assert all(int(rows.sum()) >= 8 for rows in kinds.values())
    assert int((x[1:] == x[:-1]).all(1).sum()) >= 5, "some repeat the row before"
    assert bool((shares >= 0).all()) and not torch.equal(shares, given[1]) and torch.equal(narrow, given[2])


def test_samples_are_rounded_to_the_narrower_dtypes_as_far_as_these_reach(tmp_path: Path) -> None:
    problem = reference(
        tmp_path, "return [torch.randn(40, 30), torch.randn(40, 30).double(), torch.tensor([1e9, 1e-9])]"
    )
    given = problem.make_inputs(0)
    single, double, far = draw(problem, "rounded to fewer bits", 0)

    def held(x: torch.Tensor, dtype: torch.dtype) -> int:
        return int((x.to(dtype).to(x.dtype) == x).all(1).sum())

    assert 10 < held(single, torch.bfloat16) < 30 and held(single, torch.float16) == 40, "it has more bits"
    counts = [0, *(held(double, dtype) for dtype in (torch.bfloat16, torch.float16, torch.float32))]
    assert all(more - fewer > 4 for fewer, more in itertools.pairwise(counts)) and counts[-1] == 40
    assert torch.allclose(single, given[0], rtol=2**-8) and torch.allclose(far, given[2], rtol=2**-8)


def test_one_sample_is_zero_and_others_in_part_and_nothing_else_changes(tmp_path: Path) -> None:
    problem = reference(tmp_path, "return [torch.randn(1, 6, 7), torch.randn(5), torch.randn(())]")
    for given, drawn in zip(problem.make_inputs(0), draw(problem, "samples of zeros", 0)):
        changed = (given != drawn).reshape(-1, *given.shape[-2:]) if given.dim() == 3 else given != drawn
        assert int((drawn == 0).sum()) == int(changed.sum()) == {3: 7 + 3 + 4 + 6, 1: 2, 0: 0}[given.dim()]
        assert int((drawn.signbit() & (drawn == 0)).sum()) == {3: 3 + 4, 1: 1, 0: 0}[given.dim()]


def test_flags_are_flipped_and_numbers_are_not(tmp_path: Path) -> None:
    problem = reference(tmp_path, "return [torch.ones(20, 30, dtype=torch.bool), torch.randn(4), torch.arange(9)]")
    given, drawn = problem.make_inputs(0), draw(problem, "flags flipped", 0)
    assert 0.1 < (~drawn[0]).float().mean() < 0.5
    assert torch.equal(given[1], drawn[1]) and torch.equal(given[2], drawn[2])


def test_positions_change_places_and_full_lengths_get_smaller(tmp_path: Path) -> None:
    problem = reference(
        tmp_path,
        "return [torch.arange(40), torch.arange(3, 12).expand(4, 9), torch.full((30,), 9, dtype=torch.int32),"
        " torch.randint(0, 9, (50,)), torch.tensor([0, 4, 8]), torch.randn(4)]",
    )
    given, drawn = problem.make_inputs(0), draw(problem, "positions and lengths changed", 0)
    for positions, moved in zip(given[:2], drawn[:2]):
        assert torch.equal(moved.sort(-1).values, positions) and not torch.equal(moved, positions)
    assert 1 <= int(drawn[2].min()) < int(drawn[2].max()) <= 9
    assert all(torch.equal(old, new) for old, new in zip(given[3:], drawn[3:]))
    drawn = draw(problem, "positions and lengths changed, one of them to zero", 0)
    assert int((drawn[2] == 0).sum()) == 1 and int(drawn[2].max()) <= 9
    assert torch.equal(drawn[0].sort().values, given[0])


def test_a_start_of_zero_and_a_single_flag_change_for_certain(tmp_path: Path) -> None:
    problem = reference(tmp_path, "return [torch.tensor(0), torch.zeros(6, dtype=torch.int32), torch.tensor(True)]")
    for seed in range(8):
        start, kinds, _ = draw(problem, "positions and lengths changed", seed)
        assert int(start) == 1 and set(kinds.tolist()) <= {0, 1}
        start, kinds, _ = draw(problem, "positions and lengths changed, one of them to zero", seed)
        assert 2 <= int(start) <= 5 and 2 <= int(kinds.min()) <= int(kinds.max()) <= 5
        assert not draw(problem, "flags flipped", seed)[2]


def test_outliers_lie_at_all_magnitudes_beyond_the_samples(tmp_path: Path) -> None:
    problem = reference(tmp_path, "return [torch.randn(400, 300)]")
    sizes = draw(problem, "extremes", 1)[0].abs()
    counts = [int(((sizes >= low) & (sizes < high)).sum()) for low, high in ((6, 20), (20, 60), (60, 110))]
    assert all(count >= 2 for count in counts) and sum(counts) <= 12


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_seed_decides_everything(tmp_path: Path, name: str) -> None:
    problem = reference(tmp_path, "return [torch.randn(5, 7), torch.randint(0, 99, (40,))]")
    one, two, other = draw(problem, name, 4), draw(problem, name, 4), draw(problem, name, 5)
    assert all(torch.equal(a, b) for a, b in zip(one, two))
    assert not any(torch.equal(a, b) for a, b in zip(one, other))
    assert torch.equal(one[1], problem.make_inputs(4)[1]), "integers are only drawn by the seed"


def test_scales_and_sign_are_what_they_say(tmp_path: Path) -> None:
    problem = reference(tmp_path, "return [torch.randn(5, 7)]")
    (given,) = problem.make_inputs(0)
    assert torch.equal(draw(problem, AS_GIVEN, 0)[0], given)
    assert torch.equal(draw(problem, "x3", 0)[0], given * 3)
    assert torch.equal(draw(problem, "x0.01", 0)[0], given * 0.01)
    assert torch.equal(draw(problem, "one sign", 0)[0], -given.abs())


def test_what_has_one_sign_gets_the_other(tmp_path: Path) -> None:
    problem = reference(tmp_path, "return [torch.rand(9), -torch.rand(9), torch.complex(torch.rand(9), torch.rand(9))]")
    for given, drawn in zip(problem.make_inputs(0), draw(problem, "one sign", 0)):
        assert torch.equal(drawn, -given)


def test_shuffling_keeps_the_values_and_loses_their_order(tmp_path: Path) -> None:
    problem = reference(tmp_path, "return [torch.tril(torch.rand(16, 16))]")
    (given,), (shuffled,) = problem.make_inputs(0), draw(problem, "shuffled", 0)
    assert torch.equal(given.reshape(-1).sort().values, shuffled.reshape(-1).sort().values)
    assert not torch.equal(shuffled, shuffled.tril())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "float8_e4m3fn"])
def test_extremes_are_few_large_and_finite(tmp_path: Path, dtype: str) -> None:
    problem = reference(tmp_path, f"return [torch.randn(40, 30).to(torch.{dtype})]")
    given, planted = problem.make_inputs(0)[0].double(), draw(problem, "extremes", 0)[0].double()
    changed = (given.abs() != planted.abs()).nonzero()
    assert 4 <= len(changed) <= 12
    assert planted.isfinite().all() and (planted[-1] <= 0).all() and (planted[:-1] > 0).any()
    assert planted.abs().max() >= (20 if "float8" in dtype else 90) * given.std()
    assert changed[0].tolist() == [0, 0] and changed[-1].tolist() == [39, 29]


def test_no_two_extremes_are_equally_large(tmp_path: Path) -> None:
    """No sort defines which of two equal elements comes first."""
    problem = reference(tmp_path, "return [torch.randn(40, 30)]")
    for seed in range(20):
        given, planted = problem.make_inputs(seed)[0], draw(problem, "extremes", seed)[0]
        extremes = planted[given.abs() != planted.abs()]
        assert len(extremes.unique()) == len(extremes.abs().unique()) == len(extremes)


def test_extremes_keep_the_sign_that_the_data_has(tmp_path: Path) -> None:
    problem = reference(tmp_path, "return [torch.rand(64) + 1, -torch.rand(64)]")
    positive, negative = draw(problem, "extremes", 1)
    assert positive.min() > 0 and negative.max() <= 0


@pytest.mark.parametrize("name", CHANGING)
def test_layout_flags_and_sharing_are_kept(tmp_path: Path, name: str) -> None:
    problem = reference(
        tmp_path,
        "x = torch.randn(6, 4)\nq, k = torch.randn(5, 8).chunk(2, -1)\n"
        "return [x.t(), x, x, torch.randn(4, 1).expand(4, 9), q, k, torch.randn(3, requires_grad=True),"
        " torch.randn(8)[::2], torch.ones(2, 0), torch.randn(()), torch.randn(9).as_strided((3, 4), (1, 2))]",
    )
    given, drawn = problem.make_inputs(2), draw(problem, name, 2)
    for old, new in zip(given, drawn):
        assert (new.shape, new.stride(), new.dtype) == (old.shape, old.stride(), old.dtype)
        assert new.requires_grad == old.requires_grad and new.is_leaf
    assert drawn[1] is drawn[2] and torch.equal(drawn[0], drawn[1].t())
    assert torch.equal(drawn[3], drawn[3][:, :1].expand(4, 9))
    for index in (0, 3, 4, 5, 6, 7, 10):
        assert name in SPARING or not torch.equal(given[index], drawn[index])
    if name == "x3":
        assert all(torch.equal(new, old * 3) for old, new in zip(given, drawn)), "shared memory is scaled once"


@pytest.mark.parametrize("name", CHANGING)
def test_odd_inputs_are_taken(tmp_path: Path, name: str) -> None:
    drawing = (
        "return [torch.tensor([0.0, -torch.inf, torch.nan]), torch.zeros(4), torch.ones(3, dtype=torch.complex64),"
        " 5, True, [torch.ones(2)], torch.full((3,), -torch.inf)]"
    )
    drawn = draw(reference(tmp_path, drawing), name, 0)
    assert drawn[3:5] == [5, True] and isinstance(drawn[5], list)
    assert drawn[2].dtype is torch.complex64


def test_a_scaled_small_float_does_not_overflow(tmp_path: Path) -> None:
    drawn = draw(reference(tmp_path, "return [torch.full((4,), 400.0).to(torch.float8_e4m3fn)]"), "x3", 0)
    assert drawn[0].float().isfinite().all()


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.tied = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.again = nn.LayerNorm(6)
        self.again.weight = self.norm.weight
        self.batch = nn.BatchNorm1d(6)
        self.scale = nn.Parameter(torch.full((6,), -1e-4, dtype=torch.bfloat16))
        self.steps = nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False)
        self.register_buffer("mask", torch.ones(4))
        self.lazy = nn.LazyLinear(3)
        nn.init.zeros_(self.tied.bias)


def test_no_identity_default_survives_and_random_parameters_do() -> None:
    torch.manual_seed(0)
    model = Layers()
    before = {name: value.clone() for name, value in model.state_dict().items() if not name.startswith("lazy")}
    changed = randomise(model, 1)
    after = model.state_dict()
    expected = {"norm.weight", "norm.bias", "again.bias", "batch.weight", "batch.bias", "scale", "tied.bias"}
    assert set(changed) == expected | {"batch.running_mean", "batch.running_var"}
    for name, value in before.items():
        assert torch.equal(value, after[name]) == (name not in {*changed, "again.weight"}), name
    assert all(len(after[name].unique()) > 1 for name in changed)


def test_randomised_parameters_stay_in_their_domain() -> None:
    model = Layers()
    randomise(model, 2)
    assert model.again.weight is model.norm.weight
    assert model.norm.weight.min() >= 0.5 and model.norm.weight.max() <= 1.5
    assert model.norm.bias.abs().max() <= 0.75 and model.norm.bias.ne(0).all()
    assert model.scale.max() < 0 and model.scale.abs().max() <= 0.75, "a scale as good as zero begins where zeros do"
    assert model.batch.running_var is not None and model.batch.running_var.min() >= 0.5
    assert model.norm.weight.requires_grad and model.norm.weight.is_leaf


def test_randomising_follows_its_seed_and_leaves_global_state_alone() -> None:
    state = torch.get_rng_state()
    models = [nn.LayerNorm(8) for _ in range(3)]
    for model, seed in zip(models, (5, 5, 6)):
        randomise(model, seed)
    assert torch.equal(models[0].weight, models[1].weight)
    assert not torch.equal(models[0].weight, models[2].weight)
    assert torch.equal(state, torch.get_rng_state())


def test_rows_of_few_values_and_rows_of_one_sign_are_drawn(tmp_path: Path) -> None:
    problem = reference(tmp_path, "return [torch.randn(12, 40)]")
    (few,) = draw(problem, "few values", 0)
    assert torch.equal(few, few.round()) and few.unique().numel() < 12
    assert any(row.abs().unique().numel() == 1 and row.unique().numel() == 2 for row in few)
    (positive,) = draw(problem, "all positive", 0)
    assert bool((positive >= 0).all()) and any(bool(row.min() > row.max() - row.min()) for row in positive)
