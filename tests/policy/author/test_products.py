"""Values between two products are stored as late and as small as possible."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, full_size_brief, problem
from tests.policy.author.test_author import check_passes, evaluated

from triton_agent.policy.author.choice import Choice, Tiles
from triton_agent.policy.author.decisions import Feedback, first_choice, neighbours
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.processes.zygotes import Nursery

JOINED = Choice(joined=True, chained=False)

FEW_ROWS = """
ROWS, WIDTH = 4, 96


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.project = nn.Linear(width, width, dtype=torch.bfloat16)

    def forward(self, x, residual):
        return residual + self.project(F.silu(x) * residual)


def get_inputs():
    return [torch.randn(ROWS, WIDTH).to(torch.bfloat16) for _ in range(2)]


def get_init_inputs():
    return [WIDTH]
"""

ADAPTER = """
ROWS, INPUTS, OUTPUTS, RANK = 24, 48, 40, 16


class Model(nn.Module):
    def __init__(self, inputs, outputs, rank):
        super().__init__()
        self.base = nn.Linear(inputs, outputs, dtype=torch.float16)
        self.down = nn.Linear(inputs, rank, bias=False, dtype=torch.float16)
        self.up = nn.Linear(rank, outputs, bias=False, dtype=torch.float16)

    def forward(self, x):
        return torch.relu(self.base(x) + 2.0 * self.up(self.down(x)))


def get_inputs():
    return [torch.randn(ROWS, INPUTS).half()]


def get_init_inputs():
    return [INPUTS, OUTPUTS, RANK]
"""

GATED = """
ROWS, WIDTH, HIDDEN = 24, 32, 40


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False, dtype=torch.float16)
        self.up = nn.Linear(width, hidden, bias=False, dtype=torch.float16)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(ROWS, WIDTH).half()]


def get_init_inputs():
    return [WIDTH, HIDDEN]
"""

APART = (
    GATED.replace("def forward(self, x)", "def forward(self, x, y)")
    .replace("self.up(x)", "self.up(y)")
    .replace("[torch.randn(ROWS, WIDTH).half()]", "[torch.randn(ROWS, WIDTH).half() for _ in range(2)]")
)
PACKED = """
ROWS, WIDTH, HIDDEN = 24, 32, 40


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.both = nn.Linear(width, 2 * hidden, dtype=torch.float16)

    def forward(self, x):
        gate, value = self.both(x).chunk(2, dim=-1)
        return F.silu(gate) * value


def get_inputs():
    return [torch.randn(ROWS, WIDTH).half()]


def get_init_inputs():
    return [WIDTH, HIDDEN]
"""


CHANNELS_LAST = """
SIZE, CHANNELS = 20, 24


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(torch.einsum("ikd,jkd->ijd", torch.sigmoid(x), x * 2.0))


def get_inputs():
    return [torch.randn(SIZE, SIZE, CHANNELS)]


def get_init_inputs():
    return [CHANNELS]
"""


def test_products_counted_by_the_innermost_dimension_lie_one_behind_another(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, CHANNELS_LAST))
    (draft,) = drafts_of(brief, first_choice(brief))
    (product,) = (kernel.kernel for kernel in draft.kernels if kernel.kernel.kind == "product")
    one = (1,) * draft.program.width
    loads = [node.index for node in product.nodes if node.kind == "load" and node.index is not None]
    assert len(loads) == 2
    for index in [*loads, product.roots[0].index]:
        assert all(index.coefficient(axis) != one for axis in product.batch)


@pytest.mark.slow
def test_products_that_lie_otherwise_in_memory_are_right(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, CHANNELS_LAST)


@pytest.mark.parametrize("text", [ADAPTER, APART])
def test_a_product_that_meets_another_is_stored_in_the_dtype_of_its_operator(text: str, tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, text))
    (draft,) = drafts_of(brief, first_choice(brief))
    stored = {draft.program.stored_dtype(root.value) for kernel in draft.kernels for root in kernel.kernel.roots}
    assert stored == {"float16"}


def test_what_follows_a_product_until_the_next_one_is_done_with_it(tmp_path: Path) -> None:
    assert names(tmp_path, APART) == ["matmul_silu_kernel", "matmul_mul_kernel"]


@pytest.mark.parametrize(
    ("text", "name"), [(GATED, "matmul_silu_mul_kernel"), (PACKED, "linear_silu_mul_kernel")], ids=["apart", "packed"]
)
def test_products_of_the_same_rows_that_meet_are_one_kernel(text: str, name: str, tmp_path: Path) -> None:
    """The kernel loads each tile of the shared rows once and writes neither product to memory."""
    brief = brief_of(problem(tmp_path, text))
    (draft,) = drafts_of(brief, JOINED)
    (kernel,) = draft.kernels
    assert kernel.name == name and len(kernel.kernel.roots) == 1
    source = write(brief, JOINED).source
    (line,) = re.findall(r"accumulator = tl\.dot\((\w+), \w+, accumulator\)", source)
    assert re.findall(r"accumulator2 = tl\.dot\((\w+), \w+, accumulator2\)", source) == [line]
    assert source.count(f" {line} = tl.load(") == 1


@pytest.mark.parametrize("text", [PACKED, ADAPTER, FEW_ROWS], ids=["packed", "adapter", "few rows"])
def test_products_that_meet_are_apart_at_first_and_together_in_the_next_idea(text: str, tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, text))
    apart = Choice(chained=False)
    chained, joined, *_ = neighbours(brief, apart, Feedback())
    assert chained == Choice() and joined == JOINED
    (before,), (after,) = drafts_of(brief, apart), drafts_of(brief, JOINED)
    assert len(after.kernels) == len(before.kernels) - 1
    assert dataclasses.replace(JOINED, joined=False) in neighbours(brief, JOINED, Feedback(status="passed"))


def test_where_no_products_meet_there_is_no_such_idea(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, APART))
    assert not any(choice.joined for choice in neighbours(brief, first_choice(brief), Feedback()))


def test_products_in_float32_stay_apart(tmp_path: Path) -> None:
    """A float32 product is three TF32 products, which need the registers of a second accumulator."""
    assert len(names(tmp_path, GATED.replace(", dtype=torch.float16", "").replace(".half()", ""))) == 2


def test_a_detour_by_few_columns_goes_into_the_sums_of_the_layer(tmp_path: Path) -> None:
    """The result is the only value of its size that is written to memory."""
    brief = brief_of(problem(tmp_path, ADAPTER))
    (draft,) = drafts_of(brief, JOINED)
    result = draft.program.values[draft.program.outputs[0]].elements()
    stored = [draft.program.values[r.value].elements() for kernel in draft.kernels for r in kernel.kernel.roots]
    assert [elements for elements in stored if elements >= result] == [result]
    assert "* 2.0).to(tl.float16), weight, accumulator)" in write(brief, JOINED).source


@pytest.mark.parametrize(
    "change", ["* self.base(x)", "+ torch.relu(self.base(x))", "- self.base(x)", "+ doubled(self.base(x))"]
)
def test_a_detour_that_is_not_simply_added_stays_apart(change: str, tmp_path: Path) -> None:
    text = ADAPTER.replace("self.base(x) + 2.0 * self.up(self.down(x))", f"2.0 * self.up(self.down(x)) {change}")
    text = text.replace("\n\nclass Model", "\n\ndef doubled(x):\n    return x + x\n\n\nclass Model", 1)
    assert len(names(tmp_path, text)) == 3


def names(folder: Path, text: str, choice: Choice = JOINED) -> list[str]:
    (draft,) = drafts_of(brief_of(problem(folder, text)), choice)
    return [kernel.name for kernel in draft.kernels]


def test_products_that_meet_are_right(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, PACKED, JOINED)


@pytest.mark.slow
@pytest.mark.parametrize("choice", [JOINED, Choice()], ids=["joined", "apart"])
@pytest.mark.parametrize("text", [ADAPTER, GATED, APART], ids=["adapter", "gated", "apart"])
def test_two_products_that_meet_are_right(text: str, choice: Choice, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, text, choice)


@pytest.mark.slow
def test_products_of_the_same_rows_in_parts_are_right(tmp_path: Path, nursery: Nursery) -> None:
    spec = problem(tmp_path, PACKED)
    brief = brief_of(spec)
    choice = JOINED
    (draft,) = drafts_of(brief, choice)
    source = write(
        brief, choice.with_tiles(draft.kernels[0].key, Tiles(splits=2, rows=16, columns=16, inner=16))
    ).source
    assert "parts2_ptr" in source
    verdict = evaluated(spec, source, nursery)
    assert verdict.status == "passed", f"{verdict.message}\n{source}"


def test_several_products_try_the_next_idea_together(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, APART))
    choice = Choice(chained=False)
    (draft,) = drafts_of(brief, choice)
    chained, first, *_ = neighbours(brief, choice, Feedback())
    assert chained == Choice()
    assert {key for key, _ in first.tiles} == {kernel.key for kernel in draft.kernels}
    assert write(brief, first).source != write(brief, choice).source


def test_a_few_rows_are_computed_where_they_are_multiplied(tmp_path: Path, nursery: Nursery) -> None:
    """With few rows, reading the weight takes all the time, so one launch less is faster. Many rows are still stored
    first.
    """
    assert len(names(tmp_path, FEW_ROWS)) == 1
    assert len(names(tmp_path, FEW_ROWS.replace("ROWS, WIDTH = 4", "ROWS, WIDTH = 40"))) == 2
    assert len(names(tmp_path, FEW_ROWS.replace("F.silu(x)", "F.softmax(x, 1)"))) == 2
    check_passes(tmp_path, nursery, FEW_ROWS, JOINED)


CODES = """
VECTORS, CODES, WIDTH = 4096, 1024, 128


class Model(nn.Module):
    def forward(self, x, codes):
        squares = x.square().sum(dim=1, keepdim=True) + codes.square().sum(dim=1)
        return (squares - 2 * x @ codes.T).min(dim=1).values


def get_inputs():
    return [torch.randn(VECTORS, WIDTH), torch.randn(CODES, WIDTH)]


def get_init_inputs():
    return []
"""


def test_the_product_has_its_turn_before_small_kernels_beside_it(tmp_path: Path) -> None:
    """Before anything is timed, the kernel with the most work is tried first."""
    brief = full_size_brief(problem(tmp_path, CODES))
    choice = first_choice(brief)
    kernels = [kernel for draft in drafts_of(brief, choice) for kernel in draft.kernels]
    (product,) = (kernel for kernel in kernels if kernel.kernel.kind == "product")
    assert kernels[0] is not product
    first = next(other for other in neighbours(brief, choice, Feedback()) if not other.left_to_torch)
    assert [key for key, _ in first.tiles] == [product.key]


SINGLE_ELEMENT = """
ROWS, WIDTH = 6, 10


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.narrow, self.wide = nn.Linear(width, 1 + width), nn.Linear(1, width)

    def forward(self, x):
        step, rest = self.narrow(x).split([1, x.shape[1]], dim=-1)
        return F.softplus(self.wide(step)) * rest


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
"""


def test_a_product_over_a_single_element_is_no_sum(tmp_path: Path, nursery: Nursery) -> None:
    """The matrix unit reduces over at least 16 elements, so such a product is a plain multiplication."""
    check_passes(tmp_path, nursery, SINGLE_ELEMENT)


DECAYED = """
BATCH, LENGTH, HEADS, WIDTH, STATES = 1, 8, 2, 4, 3


class Model(nn.Module):
    def forward(self, x, decay, b, c):
        total = decay.permute(0, 2, 1).cumsum(-1)
        apart = total[..., :, None] - total[..., None, :]
        seen = torch.tril(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool))
        weights = torch.exp(apart.masked_fill(~seen, -torch.inf))
        return torch.einsum("blhn,bshn,bhls,bshp->blhp", c, b, weights, x)


def get_inputs():
    states = torch.randn(BATCH, LENGTH, HEADS, STATES), torch.randn(BATCH, LENGTH, HEADS, STATES)
    return [torch.randn(BATCH, LENGTH, HEADS, WIDTH), -torch.rand(BATCH, LENGTH, HEADS), *states]
"""


def test_an_order_of_dimensions_is_no_size(tmp_path: Path, nursery: Nursery) -> None:
    """If a dimension of size 1 is summed over, torch orders the other dimensions differently."""
    check_passes(tmp_path, nursery, DECAYED)


DEQUANTISED = """
ROWS, WIDTH, OUTPUTS = 12, 48, 40


class Model(nn.Module):
    def __init__(self, width, outputs):
        super().__init__()
        self.register_buffer("quantised", torch.randint(-128, 128, (outputs, width), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(outputs, 1) * 0.01)

    def forward(self, x):
        weight = self.quantised.float() * self.scale
        return F.linear(x, weight.to(x.dtype))


def get_inputs():
    return [torch.randn(ROWS, WIDTH).half()]


def get_init_inputs():
    return [WIDTH, OUTPUTS]
"""


@pytest.mark.parametrize(
    ("told", "kept"), [("return F.linear", "dtype=x.dtype"), ("return weight.sum(1), F.linear", "dtype=torch.float32")]
)
def test_what_is_narrowed_for_all_who_take_it_is_stored_narrow(
    told: str, kept: str, tmp_path: Path, nursery: Nursery
) -> None:
    """The example is a dequantised weight. If another operator reads it in float32, it is stored in float32."""
    text = DEQUANTISED.replace("return F.linear", told)
    source = check_passes(tmp_path, nursery, text, Choice(chained=False)).source
    (stored,) = re.findall(r"scaled = torch\.empty\(.*(dtype=\S+),", source)
    assert stored == kept
