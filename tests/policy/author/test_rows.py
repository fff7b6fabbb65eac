"""Long rows are read in as few passes as possible, and few rows still occupy a GPU; the values stay right."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, full_size_brief, on_target, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.brief import Brief
from triton_agent.policy.author.choice import Choice, Tiles
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.plan import attempt, kernel_plan, partition
from triton_agent.policy.author.rules import reductions
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.processes.zygotes import Nursery

LONG = """
ROWS, COLUMNS = 5, 20000


class Model(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [3 * torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""

BODIES = {
    "norm": ("return F.layer_norm(x, x.shape[1:])", 2),
    "variance and mean": ("return x.var(1), x.mean(1)", 1),
    "softmax": ("return torch.softmax(x / 2.0, dim=1)", 2),
    "logarithm of a sum": ("return torch.logsumexp(x, 1), x.amin(1)", 1),
    "entropy": ("share = F.log_softmax(x, 1)\n        return -(share.exp() * share).sum(1)", 2),
}
"""The body of the forward, and the expected number of passes over the long row."""


@pytest.mark.parametrize("kind", BODIES)
def test_a_long_row_is_walked_through_as_seldom_as_can_be(kind: str, tmp_path: Path) -> None:
    body, walks = BODIES[kind]
    brief = brief_of(problem(tmp_path, LONG.format(body=body)))
    source = write(brief, first_choice(brief)).source
    assert source.count("for start in range") == walks, source


@pytest.mark.slow
@pytest.mark.parametrize("kind", BODIES)
def test_sums_in_one_walk_are_right(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, LONG.format(body=BODIES[kind][0]))


LONG_AS_GIVEN = """
BATCH, CHANNELS, HEIGHT, WIDTH = 4, 32, 128, 128


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.norm = nn.LayerNorm(shape)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [(CHANNELS, HEIGHT, WIDTH)]
"""


def test_a_row_that_is_long_as_given_only_is_walked_through(tmp_path: Path, nursery: Nursery) -> None:
    """The row fits into registers at the reduced sizes, and not at the full size, where a few programs are checked."""
    source = check_passes(tmp_path, nursery, LONG_AS_GIVEN).source
    assert source.count("for start in range") == 2, source


SMALL_HALVES = """
ROWS, COLUMNS = 6, 160


class Model(nn.Module):
    def forward(self, x):
        return F.rms_norm(x, x.shape[1:])


def get_inputs():
    return [(0.05 * torch.randn(ROWS, COLUMNS)).half()]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_the_default_epsilon_of_halves_is_that_of_float32(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, SMALL_HALVES)


ACROSS = """
BATCH, CHANNELS, SIZE = 2, 80, 9


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1), x.mean((2, 3)) + 1.0


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_rows_beside_each_other_are_kept_whole(tmp_path: Path, nursery: Nursery) -> None:
    """A softmax over channels reads its input once."""
    source = check_passes(tmp_path, nursery, ACROSS).source
    assert "for start" not in source


FEW_ACROSS = """
TOKENS, EXPERTS = 3000, 64


class Model(nn.Module):
    def forward(self, x):
        return x.mean(0)


def get_inputs():
    return [torch.randn(TOKENS, EXPERTS)]


def get_init_inputs():
    return []
"""


def test_a_sum_over_many_rows_has_many_programs(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, FEW_ACROSS))
    source = write(brief, first_choice(brief)).source
    assert "mean_parts_kernel[" in source


ALMOST_ENOUGH_ROWS = """
BATCH, LENGTH = 96, {length}


class Model(nn.Module):
    def forward(self, x):
        return x / x.square().sum(dim=1, keepdim=True).sqrt()


def get_inputs():
    return [torch.randn(BATCH, LENGTH)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("length, parts", [(1 << 15, False), (1 << 22, True)])
def test_rows_that_no_cache_holds_are_split_if_there_are_fewer_than_processors(
    length: int, parts: bool, tmp_path: Path
) -> None:
    brief = full_size_brief(problem(tmp_path, ALMOST_ENOUGH_ROWS.format(length=length)))
    source = write(brief, first_choice(brief)).source
    assert ("_parts_kernel[" in source) == parts, source


NORM_OF_CHANNELS = """
BATCH, HEIGHT, WIDTH = 2, 24, 26


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(48, elementwise_affine=False)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1))


def get_inputs():
    return [torch.randn(BATCH, 48, HEIGHT, WIDTH)]


def get_init_inputs():
    return []
"""


def test_several_passes_over_many_elements_are_unrolled_in_part(tmp_path: Path, nursery: Nursery) -> None:
    """Three passes of 64 elements, written out, took the compiler a minute."""
    source = check_passes(tmp_path, nursery, NORM_OF_CHANNELS).source
    assert "loop_unroll_factor=8" in source and "static_range" not in source, source


PLANES = """
BATCH, CHANNELS, SIZE = 64, 64, 56


class Model(nn.Module):
    def forward(self, x):
        mean = x.mean((2, 3))
        return mean, ((x - mean[:, :, None, None]) ** 2).mean((2, 3))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return []
"""


def test_rows_that_are_long_at_other_sizes_only_are_read_once_at_the_main_ones(tmp_path: Path) -> None:
    brief = on_target(full_size_brief(problem(tmp_path, PLANES), grown=True), "cuda:90")
    source = write(brief, first_choice(brief)).source
    assert "in range(" not in source and "if columns <= 16384 else 32" in source, source


FEW_LONG_ROWS = {
    "group norm": ("nn.GroupNorm(2, 4)", "self.norm(x)"),
    "batch norm in training": ("nn.BatchNorm3d(4)", "self.norm(x)"),
    "variance": ("nn.Identity()", "torch.var(x, (0, 2, 3, 4)), x.mean((0, 2, 3, 4))"),
}
"""The module and the result of the forward."""
IN_PARTS = """
BATCH, DEPTH, HEIGHT, WIDTH = {sizes}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = {norm}

    def forward(self, x):
        return {result}


def get_inputs():
    return [3 * torch.rand(BATCH, 4, DEPTH, HEIGHT, WIDTH) + 5]


def get_init_inputs():
    return []
"""


def test_statistics_of_a_few_long_rows_take_one_walk_in_many_programs(tmp_path: Path) -> None:
    norm, result = FEW_LONG_ROWS["group norm"]
    brief = full_size_brief(problem(tmp_path, IN_PARTS.format(sizes=(8, 64, 192, 192), norm=norm, result=result)))
    source = write(brief, first_choice(brief)).source
    assert source.count("@triton.jit") == 3 and source.count("for start in range") == 1, source
    assert "[(batch * 4 * depth,)](" in source or "[(4 * batch * depth,)](" in source, source


@pytest.mark.slow
@pytest.mark.parametrize("kind", FEW_LONG_ROWS)
def test_statistics_of_parts_make_those_of_a_row(
    kind: str, tmp_path: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in {"FEW_ROWS": 1 << 20, "ENOUGH_PARTS": 2, "LEAST_PART": 2, "WORTH_PARTS": 1}.items():
        monkeypatch.setattr(reductions, name, number)
    norm, result = FEW_LONG_ROWS[kind]
    made = check_passes(tmp_path, nursery, IN_PARTS.format(sizes=(3, 4, 5, 6), norm=norm, result=result))
    assert "within = " in made.source


def test_what_is_divided_by_is_a_constant_of_the_kernel(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, ACROSS))
    source = write(brief, first_choice(brief)).source
    divisors = set(re.findall(r"(?://|%) ([a-z]\w*)", source.split("class ModelNew")[0]))
    assert divisors and all(f"{name}: tl.constexpr" in source for name in divisors)


BOTH_WAYS = """
SIZE = 48


class Model(nn.Module):
    def forward(self, x):
        products = x @ x.t()
        return products.logsumexp(0) + products.logsumexp(1)


def get_inputs():
    return [torch.randn(SIZE, SIZE)]


def get_init_inputs():
    return []
"""


def test_rows_and_columns_of_a_square_are_reduced_apart(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, BOTH_WAYS))
    (draft,) = drafts_of(brief, dataclasses.replace(first_choice(brief), chained=False))
    assert [kernel.kernel.kind for kernel in draft.kernels].count("rows") == 2


@pytest.mark.slow
def test_rows_and_columns_of_a_square_are_right(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, BOTH_WAYS)


WRITTEN_OUT = """
ROWS, COLUMNS = 160, 24


class Model(nn.Module):
    def forward(self, x, y):
        found, state = [], x
        for _ in range(20):
            state = 0.9 * state + y
            found.append((state * x).sum(-1))
        return tuple(found)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""


def test_steps_written_out_become_one_kernel_without_planning_it_anew_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[int] = []

    class Counted(attempt.Attempt):
        def kernel(self) -> kernel_plan.Kernel:
            planned.append(len(self.roots))
            return super().kernel()

    monkeypatch.setattr(partition, "Attempt", Counted)
    brief = brief_of(problem(tmp_path, WRITTEN_OUT))
    (draft,) = drafts_of(brief, first_choice(brief))
    assert [len(kernel.kernel.roots) for kernel in draft.kernels] == [20]
    assert sum(planned) <= 3 * 20


ORDERED = """
ROWS, COLUMNS = 5, 21


class Model(nn.Module):
    def forward(self, x, places):
        return torch.gather(x, 1, places.sort(dim=1)[0]), places.sort(dim=0)[0] + 1


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randint(0, COLUMNS, (ROWS, COLUMNS))]


def get_init_inputs():
    return []
"""


def test_whole_numbers_are_put_in_order_by_an_own_kernel(tmp_path: Path, nursery: Nursery) -> None:
    source = check_passes(tmp_path, nursery, ORDERED).source
    assert source.count("tl.sort(") == 2 and "aten.sort" not in source, source


def test_what_is_read_once_does_not_stay_in_the_cache_of_who_stores_little(tmp_path: Path) -> None:
    """Evicting what other kernels wrote costs a write to memory; a kernel that stores little avoids it."""

    def source(body: str) -> str:
        return write(brief_of(problem(tmp_path, LONG.format(body=body))), Choice()).source

    assert 'eviction_policy="evict_first"' in source("return x.sum(1)")
    assert "eviction_policy" not in source("return torch.tanh(x)")
    twice = source("return torch.softmax(x * 0.5, dim=1)")
    assert twice.index("evict_last") < twice.index("evict_first"), twice


GROUPS = """
COUNT, CHANNELS, LENGTH = 3, 8, 64


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(2, channels)

    def forward(self, x):
        return F.silu(self.norm(x))


def get_inputs():
    return [torch.randn(COUNT, CHANNELS, LENGTH)]


def get_init_inputs():
    return [CHANNELS]
"""


def test_what_belongs_to_a_channel_is_read_once_for_its_stretch_of_a_row(tmp_path: Path, nursery: Nursery) -> None:
    def choice(brief: Brief) -> Choice:
        (draft,) = drafts_of(brief, Choice())
        (kernel,) = draft.kernels
        return Choice().with_tiles(kernel.key, Tiles(rows=1, columns=32, looped=True, warps=1))

    source = check_passes(tmp_path, nursery, GROUPS, choice).source
    before, _, within = source.partition("for stretch in range(")
    assert "weight_ptr + " not in before and "for start in" in within, source
    assert within.index("tl.load(weight_ptr") < within.index("for start in"), source


SHORT_ROWS = """
ROWS, COLUMNS = 40, 288


class Model(nn.Module):
    def forward(self, x, kept):
        return (F.logsigmoid(x) * kept).sum(1), kept.sum(1)


def get_inputs():
    return [3 * torch.randn(ROWS, COLUMNS), torch.rand(ROWS, COLUMNS) < 0.5]


def get_init_inputs():
    return []
"""


def test_short_rows_that_are_needed_once_leave_few_lanes_idle(tmp_path: Path, nursery: Nursery) -> None:
    """Loaded whole, a row of 288 elements would take 512 lanes."""
    source = check_passes(tmp_path, nursery, SHORT_ROWS).source
    assert "for start in range(" in source and "next_power_of_2" not in source, source
    assert "tl.int32)" in source and "log_one_plus" in source, source


BAGS = """
BAGS, WORDS, WIDTH = 12, 5, 24


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bags = nn.EmbeddingBag(30, width, mode="sum")

    def forward(self, words, weights):
        return self.bags(words, per_sample_weights=weights)


def get_inputs():
    return [torch.randint(0, 30, (BAGS, WORDS)), torch.randn(BAGS, WORDS)]


def get_init_inputs():
    return [WIDTH]
"""


def test_lines_of_a_table_are_added_one_after_another(tmp_path: Path, nursery: Nursery) -> None:
    """Neighbouring lanes read neighbouring elements of one table row; the row's index is a scalar for all of them."""
    source = check_passes(tmp_path, nursery, BAGS).source
    assert "for column in range(columns):" in source and "BLOCK_COLUMNS" not in source, source


AFFINE = """
ROWS, COLUMNS, LINES = 40, 600, 30


class Model(nn.Module):
    def __init__(self, lines, columns):
        super().__init__()
        self.table = nn.Embedding(lines, columns)
        self.norm = nn.LayerNorm(columns)

    def forward(self, places, x):
        return self.norm(self.table(places) + x)


def get_inputs():
    return [torch.randint(0, LINES, (ROWS,)), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [LINES, COLUMNS]
"""


def test_all_that_can_be_is_loaded_before_the_first_reduction(tmp_path: Path) -> None:
    """A reduction is a barrier for all warps, so the kernel would wait for every load after it separately."""
    brief = brief_of(problem(tmp_path, AFFINE))
    source = write(brief, first_choice(brief)).source
    before, _, after = source.partition("tl.sum(")
    assert before.count("tl.load(") == 5 and "tl.load(" not in after
    loads = re.findall(r"tl\.load\((\w+)_ptr", before)
    assert loads[0] == "places" and loads[-1] == "weight", "what tells where the others are comes first"


def test_what_a_reduction_finds_is_looked_up_behind_it(tmp_path: Path, nursery: Nursery) -> None:
    text = AFFINE.replace("self.norm(self.table(places) + x)", "self.table(x[:, :30].argmax(1)) + places[:, None]")
    source = check_passes(tmp_path, nursery, text).source
    assert source.index("argmax") < source.index("tl.load(weight_ptr")


def test_a_large_tile_keeps_its_registers(tmp_path: Path) -> None:
    """With 32 elements per thread, values used after the reduction are loaded after it."""
    brief = dataclasses.replace(brief_of(problem(tmp_path, AFFINE)), device="cuda")
    (draft,) = drafts_of(brief, first_choice(brief))
    tiles = Tiles(rows=4, looped=False, warps=4)
    source = write(brief, first_choice(brief).with_tiles(draft.kernels[0].key, tiles)).source
    assert "tl.load(" in source.rpartition("tl.sum(")[2]


SEVERAL = """
ROWS, COLUMNS = 64, 96


class Model(nn.Module):
    def forward(self, x, y):
        rows = x.abs().sum(1) + y.square().sum(1)
        return rows, x.sum(0)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""


def test_what_a_later_kernel_reads_again_stays_in_the_cache(tmp_path: Path) -> None:
    brief = full_size_brief(problem(tmp_path, SEVERAL))
    (draft,) = drafts_of(brief, first_choice(brief))
    loads = [re.findall(r"tl\.load\(x_ptr.*\)", "\n".join(kernel.lines)) for kernel in draft.kernels]
    (first,), (last,) = (found for found in loads if found)
    assert "evict_first" not in first and "evict_first" in last


PAIRED = """
ROWS, COLUMNS = 64, 96


class Model(nn.Module):
    def forward(self, x, y, weight):
        return x @ weight, (y @ weight).T


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS, 1)]


def get_init_inputs():
    return []
"""


def test_brief_reductions_of_as_many_rows_share_a_launch(tmp_path: Path, nursery: Nursery) -> None:
    """Starting and ending a kernel takes microseconds, and neither reduction needs the other's result."""
    brief = check_passes(tmp_path, nursery, PAIRED).brief
    (draft,) = drafts_of(brief, first_choice(brief))
    (kernel,) = draft.kernels
    assert len(kernel.kernel.roots) == 2


WARPS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, {columns}, dtype={dtype})

    def forward(self, x, y, ids):
        {body}


def get_inputs():
    x, y = torch.randn(2, 8192, {columns}).to({dtype})
    return [x, y, torch.randint(0, 1000, (8192,))]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("body", "columns", "dtype", "rows", "warps"),
    [
        ("return F.rms_norm(x, x.shape[1:])", 4000, "torch.bfloat16", 1, 4),
        ("return F.rms_norm(x, x.shape[1:])", 4000, "torch.float32", 1, 8),
        ("return F.rms_norm(x + y, x.shape[1:])", 4000, "torch.bfloat16", 1, 8),
        ("return F.layer_norm(self.table(ids), x.shape[1:])", 768, "torch.bfloat16", 1, 1),
        ("return F.layer_norm(x, x.shape[1:])", 768, "torch.bfloat16", 2, 4),
    ],
)
def test_fewer_warps_where_a_thread_asks_for_little(
    tmp_path: Path, body: str, columns: int, dtype: str, rows: int, warps: int
) -> None:
    brief = full_size_brief(problem(tmp_path, WARPS.format(body=body, columns=columns, dtype=dtype)))
    ((kernel,),) = (draft.kernels for draft in drafts_of(brief, first_choice(brief)))
    assert (kernel.tiles.rows, kernel.tiles.warps) == (rows, warps)


TOKENS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.place = nn.Embedding(200, 48), nn.Embedding(64, 48)
        self.norm = nn.LayerNorm(48)

    def forward(self, ids):
        return self.norm(self.word(ids) + self.place(torch.arange(ids.shape[1]))[None])


def get_inputs():
    return [torch.randint(0, 200, (4, 32))]


def get_init_inputs():
    return []
"""
CHANNEL_SHARES = """
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return []
"""


def test_rows_of_a_table_that_many_read_are_taken_whole_and_few_rows_spread_over_the_gpu(tmp_path: Path) -> None:
    brief = full_size_brief(problem(tmp_path, TOKENS))
    plan = write(brief, first_choice(brief)).plan
    assert "one row a program, a whole row at once, one warp" in plan, plan


@pytest.mark.parametrize(("shape", "rows"), [("2, 4, 32, 32", 32), ("64, 4, 64, 64", 1024)])
def test_as_many_rows_a_program_as_leave_work_for_all_processors(shape: str, rows: int, tmp_path: Path) -> None:
    brief = full_size_brief(problem(tmp_path, CHANNEL_SHARES.format(shape=shape)))
    assert f"; {rows} rows a program" in write(brief, first_choice(brief)).plan


@pytest.mark.parametrize(("shape", "elements"), [("64, 100", 128), ("4096, 4096", 1024)])
def test_as_many_elements_a_program_as_leave_work_for_all_processors(shape: str, elements: int, tmp_path: Path) -> None:
    text = CHANNEL_SHARES.format(shape=shape).replace("torch.softmax(x, dim=1)", "torch.relu(x) * 2.0")
    brief = full_size_brief(problem(tmp_path, text))
    assert f"; {elements} elements a program" in write(brief, first_choice(brief)).plan
