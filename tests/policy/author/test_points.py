"""Pointwise kernels: all layouts of the iteration space, in the memory order of the result."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, full_size_brief, problem
from tests.policy.author.test_author import check_passes, evaluated, plain

from triton_agent.policy.author.brief import Brief
from triton_agent.policy.author.choice import Choice, Tiles
from triton_agent.policy.author.decisions import Feedback, first_choice, neighbours
from triton_agent.policy.author.writer import drafts_of, write
from triton_agent.tools.processes.zygotes import Nursery

SHUFFLE = """
BATCH, COLOURS, SIZE = 2, 3, 20


class Model(nn.Module):
    def forward(self, x):
        return F.pixel_shuffle(x, 2) + 1.0


def get_inputs():
    return [torch.randn(BATCH, 4 * COLOURS, SIZE, SIZE)]


def get_init_inputs():
    return []
"""

SCALED = """
ROWS, WIDTH = 6, 200


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x, gate):
        return x * self.scale + gate[:, None]


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(ROWS)]


def get_init_inputs():
    return [WIDTH]
"""


ACTIVATIONS_OF = """
class Model(nn.Module):
    def forward(self, x):
        values = {values}
        soft, shrunk = F.softplus(F.elu(values)), F.softshrink(F.silu(values))
        return F.leaky_relu(F.selu(-values), 0.2), F.elu(F.elu(values)), soft, shrunk, F.mish(values), soft.log().sign()


def get_inputs():
    return [torch.randn(64, 48)]


def get_init_inputs():
    return []
"""


def _cut(brief: Brief, tiles: Tiles) -> Choice:
    (kernel,) = drafts_of(brief, Choice())[0].kernels
    return Choice().with_tiles(kernel.key, tiles)


def test_a_result_in_order_is_stored_in_order(tmp_path: Path) -> None:
    """Stores along the memory of the result are as wide as the hardware allows, however the inputs are indexed."""
    brief = brief_of(problem(tmp_path, SHUFFLE))
    source = write(brief, first_choice(brief)).source
    assert "tl.store(out_ptr + offset," in source, source


def test_a_single_row_is_a_number(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, SCALED))
    source = write(brief, _cut(brief, Tiles(rows=1, columns=64, warps=1))).source
    assert "row = tl.program_id(0) // blocks\n" in source and "BLOCK_ROWS" not in source
    assert "tl.load(gate_ptr + row)" in source, source


def test_forms_of_a_kernel_are_among_its_neighbours(tmp_path: Path) -> None:
    brief = dataclasses.replace(brief_of(problem(tmp_path, SCALED)), device="cuda")
    tried = [tiles for choice in neighbours(brief, Choice(), Feedback())[:6] for _, tiles in choice.tiles]
    assert any(tiles.flat for tiles in tried) and any(tiles.rows for tiles in tried)
    flat = next(tiles for tiles in tried if tiles.flat)
    assert any(
        not tiles.flat for choice in neighbours(brief, _cut(brief, flat), Feedback()) for _, tiles in choice.tiles
    )


@pytest.mark.slow
@pytest.mark.parametrize("tiles", [Tiles(rows=1, columns=64), Tiles(rows=4, columns=64), Tiles(columns=128, flat=True)])
def test_every_form_is_right(tiles: Tiles, tmp_path: Path, nursery: Nursery) -> None:
    spec = problem(tmp_path, SCALED)
    brief = brief_of(spec)
    answer = write(brief, _cut(brief, tiles))
    verdict = evaluated(spec, answer.source, nursery)
    assert verdict.status == "passed", f"{verdict.message}\n{answer.source}"


ODD = """
ROWS, CLASSES = 6, 1000


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(ROWS, CLASSES)]


def get_init_inputs():
    return []
"""


def test_a_length_that_is_no_multiple_of_16_is_told_to_the_compiler(tmp_path: Path) -> None:
    """Without a constant length, the compiler cannot load several elements at once."""
    brief = brief_of(problem(tmp_path, ODD))
    main = write(brief, first_choice(brief)).source
    (kernel,) = drafts_of(brief, Choice())[0].kernels
    (name,) = [name for name, size in kernel.arguments.sizes.items() if size == kernel.kernel.reduced[0].size]
    size = kernel.arguments.sizes[name][0]
    told = f"{name}: tl.constexpr" in main
    assert told == (size % 2 == 0 and size % 16 != 0)


POOLED = """
BATCH, CHANNELS, STEPS = 8, 64, 20000


class Model(nn.Module):
    def forward(self, x):
        return F.max_pool1d(x, {taps}, stride={step})


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, STEPS)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("taps, step, columns", [(8, 1, 256), (4, 2, 256), (2, 1, 1024)])
def test_programs_of_a_stencil_have_few_elements(taps: int, step: int, columns: int, tmp_path: Path) -> None:
    brief = full_size_brief(problem(tmp_path, POOLED.format(taps=taps, step=step)))
    source = write(brief, Choice()).source
    assert f"BLOCK_COLUMNS={columns}" in source, source


WINDOWS = """
BATCH, CHANNELS, SIZE = 8, 16, 480


class Model(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 6)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return []
"""


def test_windows_apart_have_a_thread_each(tmp_path: Path) -> None:
    brief = full_size_brief(problem(tmp_path, WINDOWS))
    source = write(brief, Choice()).source
    assert "BLOCK_ROWS=128" in source and "num_warps" not in source, source


COLOURS = """
COUNT, HEIGHT, WIDTH = 2, 6, 10


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([90.0, 120.0, 150.0]))

    def forward(self, image):
        return ((image.float() - self.mean) * 0.5).permute(0, 3, 1, 2).contiguous().half()


def get_inputs():
    return [torch.randint(0, 256, (COUNT, HEIGHT, WIDTH, 3), dtype=torch.uint8)]


def get_init_inputs():
    return []
"""


def test_colours_next_to_each_other_are_read_by_one_program(tmp_path: Path, nursery: Nursery) -> None:
    """Three programs would each read the same cache lines and use a third of their bytes."""
    source = check_passes(tmp_path, nursery, COLOURS).source
    assert "for lane in tl.static_range(3):" in source, source


def test_rests_and_whole_quotients_are_right_at_multiples_of_the_divisor(tmp_path: Path, nursery: Nursery) -> None:
    """Halves are among the inputs: 3.5 / 0.7 rounds to 5, and in float32 it is a little more than that."""
    rests, quotients = "torch.remainder(x, 0.7), x % -1.5", "x // -0.7, torch.div(x, 0.3, rounding_mode='floor')"
    check_passes(tmp_path, nursery, plain(f"return {rests}, {quotients}"))


@pytest.mark.parametrize(
    ("function", "dtype"), [("F.gelu(x)", "float16"), ("F.gelu(x)", "bfloat16"), ("torch.tanh(x)", "float16")]
)
def test_short_functions_of_half_precision_are_right(
    function: str, dtype: str, tmp_path: Path, nursery: Nursery
) -> None:
    source = check_passes(tmp_path, nursery, plain(f"return {function}", f", dtype=torch.{dtype}")).source
    assert "short_" in source


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        ("F.mish(x)", "float16"),
        ("F.mish(x)", "float64"),
        ("F.softplus(x)", "float32"),
        ("F.softplus(x)", "float64"),
        ("F.softplus(x, beta=2.0, threshold=3.0)", "float16"),
        ("F.hardswish(x)", "float32"),
    ],
)
def test_activations_that_bend_at_zero_are_right(function: str, dtype: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, plain(f"return {function}", f", dtype=torch.{dtype}"))


@pytest.mark.parametrize("values", ["x", "x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()"])
def test_an_activation_of_another_may_ask_what_is_always_so(values: str, tmp_path: Path, nursery: Nursery) -> None:
    """SELU is positive where its argument is, and SiLU never below -0.28."""
    check_passes(tmp_path, nursery, ACTIVATIONS_OF.format(values=values))


def test_after_wrong_values_the_library_takes_the_place_of_short_functions(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, plain("return F.gelu(x)", ", dtype=torch.float16")))
    choice = first_choice(brief)
    assert "short_gelu" in write(brief, choice).source
    (repaired, *_) = neighbours(brief, choice, Feedback(status="wrong_values", message="too large"))
    assert "tl.erf" in write(brief, repaired).source
