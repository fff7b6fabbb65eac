"""Own kernels for gather, scatter, shuffles and other indexed reads and writes."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, full_size_brief, problem
from tests.policy.author.test_author import check_passes, plain

from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import describe_limits, drafts_of, write
from triton_agent.tools.processes.zygotes import Nursery

SHUFFLED = """
BATCH, CHANNELS, SIZE = 2, 3, 6


class Model(nn.Module):
    def forward(self, x):
        large = F.pixel_shuffle(x, 2)
        return large + 1.0, F.pixel_unshuffle(large, 3) * 2.0, F.channel_shuffle(x, 3) - 1.0


def get_inputs():
    return [torch.randn(BATCH, 4 * CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return []
"""

PAIRS = """
ROWS, FIELDS, WIDTH = 10, 5, 8


class Model(nn.Module):
    def __init__(self, fields):
        super().__init__()
        self.register_buffer("pairs", torch.tril_indices(fields, fields, offset=-1))

    def forward(self, x):
        products = x @ x.transpose(1, 2)
        first, second = self.pairs[0], self.pairs[1]
        return products[:, first, second], x[first, :, second - 2], products.diagonal(0, 1, 2)


def get_inputs():
    return [torch.randn(ROWS, FIELDS, WIDTH)]


def get_init_inputs():
    return [FIELDS]
"""

BAGS = """
TABLE, WIDTH, BAGS, WORDS = 50, 12, 9, 4


class Model(nn.Module):
    def __init__(self, table, width):
        super().__init__()
        self.bags = nn.EmbeddingBag(table, width, mode="sum")
        self.means = nn.EmbeddingBag(table, width, mode="mean")

    def forward(self, words, weights):
        return self.bags(words, per_sample_weights=weights) + self.means(words)


def get_inputs():
    return [torch.randint(0, 20, (BAGS, WORDS)), torch.randn(BAGS, WORDS)]


def get_init_inputs():
    return [TABLE, WIDTH]
"""

BEST = plain("return x.topk(3, dim=-1).values, x.topk(1, largest=False)[0]")
MARGIN = plain(
    "best = (x + 1.0).topk(2, dim=-1)\n        return best.values[:, 0] - best.values[:, 1], best.indices[:, 0]"
)
CHOSEN = plain(
    "best = x.argmax(-1, keepdim=True)\n        return torch.zeros_like(x).scatter(-1, best, 1.0), "
    "x.scatter(-1, torch.cat([best, best // 2], 1), x[:, :2] + 3.0)"
)

ROLLED = """
BATCH, HEIGHT, WIDTH, CHANNELS = 2, 6, 9, 8


class Model(nn.Module):
    def __init__(self, side):
        super().__init__()
        self.side = side

    def forward(self, x):
        turned = torch.roll(x, (-(self.side // 2), self.side // 2), dims=(1, 2)) * 2.0
        return turned, torch.roll(x, 1, dims=-1) + x


def get_inputs():
    return [torch.randn(BATCH, HEIGHT, WIDTH, CHANNELS)]


def get_init_inputs():
    return [5]
"""

FRAMES = """
ROWS, LENGTH, WINDOW = 4, 90, 20


class Model(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = nn.Parameter(torch.hann_window(window))

    def forward(self, x):
        frames = (x[:, 1:] - 0.9 * x[:, :-1]).unfold(1, self.window.shape[0], 8)
        return torch.log((frames * self.window).square().sum(-1) + 1e-3)


def get_inputs():
    return [torch.randn(ROWS, LENGTH)]


def get_init_inputs():
    return [WINDOW]
"""

WARPED = """
BATCH, CHANNELS, HEIGHT, WIDTH = 2, 3, 6, 7


class Model(nn.Module):
    def forward(self, image, places):
        smooth = F.grid_sample(image, places, align_corners=True)
        held = F.grid_sample(image, 0.9 * places, padding_mode="border", align_corners=False)
        return smooth, held


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH), torch.randn(BATCH, 5, 8, 2)]


def get_init_inputs():
    return []
"""

EVEN = """
BATCH, HEIGHT, WIDTH = 3, 9, 12


class Model(nn.Module):
    def forward(self, x):
        _, height, width = x.shape
        down = torch.linspace(-1, 1, height, device=x.device)
        right = torch.linspace(0.5, 3, width, device=x.device)
        return x * down[:, None], x + right


def get_inputs():
    return [torch.randn(BATCH, HEIGHT, WIDTH)]


def get_init_inputs():
    return []
"""

PLACED = """
ROWS = 6


class Model(nn.Module):
    def forward(self, x):
        scales = torch.logspace(0, 1, x.shape[1], dtype=x.dtype, device=x.device)
        return x * scales + torch.eye(x.shape[1], device=x.device)[0] + torch.full_like(scales, 2.0)


def get_inputs():
    return [torch.randn(ROWS, 5)]


def get_init_inputs():
    return []
"""

STRETCHED = """
ROWS, WIDTH = 12, 20


class Model(nn.Module):
    def forward(self, x, y):
        both = torch.stack([x, x.sin()], dim=-1)
        return both + y, (both * y).amax(1), (y - both.mean(1, keepdim=True)).transpose(0, 2)


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH, 2)]


def get_init_inputs():
    return []
"""
"""At one of its sizes the last dimension of y is 1, and both operands broadcast over it."""

SHIFTED = """
BATCH, LENGTH, WIDTH, SHIFT = 2, 8, 12, 3


class Model(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.shift = shift

    def forward(self, x):
        there = torch.roll(x, -self.shift, 1) * 2.0
        return there, torch.roll(x, (self.shift, self.shift), (1, 2)) + x


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [SHIFT]
"""
"""At one of its sizes the shift is larger than the length."""

UNEVEN_BAGS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.EmbeddingBag(40, 12, mode="mean")

    def forward(self, words, offsets):
        return torch.tanh(self.bags(words, offsets)) * 2.0


def get_inputs():
    return [torch.randint(0, 40, (50,)), torch.arange(0, 48, 3)]


def get_init_inputs():
    return []
"""
"""torch's own operator reads words and offsets as if they were contiguous."""

PADDED = """
class Model(nn.Module):
    def forward(self, x, skip):
        x = x.repeat_interleave(2, dim=2)
        more = skip.shape[2] - x.shape[2]
        return F.pad(x, [more // 2, more - more // 2]) + skip


def get_inputs():
    return [torch.rand(2, 8, 7), torch.rand(2, 8, 15)]


def get_init_inputs():
    return []
"""
"""At some of its sizes the padding is negative."""

KINDS = {
    "warped": WARPED,
    "stretched": STRETCHED,
    "even": EVEN,
    "rolled": ROLLED,
    "shifted": SHIFTED,
    "padded": PADDED,
    "frames": FRAMES,
    "shuffled": SHUFFLED,
    "pairs": PAIRS,
    "bags": BAGS,
    "best": BEST,
    "chosen": CHOSEN,
}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_to_torch(kind: str, tmp_path: Path) -> None:
    assert describe_limits(brief_of(problem(tmp_path, KINDS[kind]))) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_looked_up_is_right(kind: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, KINDS[kind])


def test_shifts_halved_differences_and_bags_left_to_torch_are_right(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, SHIFTED)
    check_passes(tmp_path, nursery, PADDED)
    check_passes(tmp_path, nursery, UNEVEN_BAGS, allow_library=True)


def test_what_torch_makes_out_of_numbers_lies_where_the_inputs_do(tmp_path: Path) -> None:
    """A constant on the CPU would pass in the interpreter and fail in a kernel on a GPU."""
    answer = write(brief_of(problem(tmp_path, PLACED)), Choice(left_to_torch=tuple(range(9))))
    calls = [node for node in ast.walk(ast.parse(answer.source)) if isinstance(node, ast.Call)]
    told = {ast.unparse(call.func): {k.arg: ast.unparse(k.value) for k in call.keywords} for call in calls}
    logspace, eye, like = (told[f"torch.ops.aten.{name}.default"] for name in ("logspace", "eye", "full_like"))
    assert logspace["device"] == eye["device"] == "x.device"
    assert "device" not in like


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_margin_of_the_best_is_one_kernel(device: str, tmp_path: Path) -> None:
    brief = dataclasses.replace(brief_of(problem(tmp_path, MARGIN)), device=device)
    (draft,) = drafts_of(brief, first_choice(brief))
    assert len(draft.kernels) == 1 and not draft.limits


NOISED = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("levels", torch.linspace(0.0, 1.0, 100))

    def forward(self, image, noise, steps):
        level = self.levels[steps].view(-1, 1, 1, 1)
        return level * noise + (1 - level) * image


def get_inputs():
    return [torch.randn(4, 3, 16, 16), torch.randn(4, 3, 16, 16), torch.randint(0, 100, (4,))]


def get_init_inputs():
    return []
"""


def test_a_number_that_holds_for_a_whole_image_is_looked_up_where_it_is_used(tmp_path: Path, nursery: Nursery) -> None:
    brief = full_size_brief(problem(tmp_path, NOISED))
    (draft,) = drafts_of(brief, first_choice(brief))
    assert len(draft.kernels) == 1
    check_passes(tmp_path, nursery, NOISED)


EDGES = """
NODES, EDGES, WIDTH = 12, 40, 10


class Model(nn.Module):
    def forward(self, nodes, weights, sources, targets):
        messages = nodes[sources] * weights[:, None]
        around = torch.zeros_like(nodes).index_add(0, targets, messages) + nodes
        strengths = torch.zeros(nodes.shape[0], device=nodes.device).index_add(0, targets, weights)
        return around, strengths, nodes.index_add(0, targets, messages, alpha=0.5)


def get_inputs():
    ends = torch.randint(0, NODES, (2, EDGES))
    return [torch.randn(NODES, WIDTH), torch.randn(EDGES), ends[0], ends[1]]


def get_init_inputs():
    return []
"""

BINS = """
ROWS, MANY, BINS = 4, 30, 7


class Model(nn.Module):
    def forward(self, x, places):
        total = torch.zeros(x.shape[0], BINS, device=x.device).scatter_add(1, places, x * 2.0)
        return torch.relu(total)


def get_inputs():
    return [torch.randn(ROWS, MANY), torch.randint(0, BINS, (ROWS, MANY))]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("text", [EDGES, BINS], ids=["edges", "bins"])
def test_what_is_added_up_at_places_is_right(text: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, text)


def test_what_is_added_up_at_places_is_an_own_kernel(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, EDGES))
    source = write(brief, first_choice(brief)).source
    assert "tl.atomic_add(" in source and "aten.index_add" not in source


ONE_PLACE = """
class Model(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x).index_add(1, torch.zeros_like(x[0], dtype=torch.int64), x)


def get_inputs():
    return [torch.randn(6, 20)]


def get_init_inputs():
    return []
"""


def test_one_place_for_many_is_left_to_torch(tmp_path: Path) -> None:
    """An own kernel would add to the place only once."""
    brief = brief_of(problem(tmp_path, ONE_PLACE))
    assert "aten.index_add" in " ".join(describe_limits(brief))


SHIFTED_PLACES = """
class Model(nn.Module):
    def forward(self, image, moved):
        x = torch.linspace(-1.0, 1.0, {width}, device=moved.device) + moved
        y = torch.linspace(-1.0, 1.0, 48, device=moved.device)[:, None] - moved
        return F.grid_sample(image, torch.stack([x, y], -1), align_corners=True) + 1.0


def get_inputs():
    return [torch.randn(4, 8, 64, 64), 0.1 * torch.rand(4, 48, {width})]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("width", [160, 240])
def test_places_in_an_image_are_computed_once_for_several_channels(tmp_path: Path, width: int) -> None:
    brief = full_size_brief(problem(tmp_path, SHIFTED_PLACES.format(width=width)))
    source = write(brief, first_choice(brief)).source
    before, _, loop = source.partition("for step in tl.static_range(8):")
    assert "tl.floor" in before and "tl.floor" not in loop  # blocks go along lines, so no lane is idle at their ends
