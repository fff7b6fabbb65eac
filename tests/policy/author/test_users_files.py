"""Files as users write them: which parts the author copies, which it leaves out, and which it does not support."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_from, brief_of, problem

from triton_agent.policy.author.brief import BeyondAuthor
from triton_agent.policy.author.choice import Choice
from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.emit.constructor import ModelText
from triton_agent.policy.author.writer import write
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

INPUT = """
BATCH = 4
def get_inputs():
    return [torch.randn(BATCH, 8)]
"""


def first_file(spec: ProblemSpec) -> str:
    brief = brief_of(spec, allow_library=True)
    return write(brief, first_choice(brief)).source


def check_passes(spec: ProblemSpec, nursery: Nursery) -> None:
    settings = EvaluatorSettings(target=None, allow_library=True)
    with Evaluator(spec, settings, nursery=nursery) as evaluator:
        source = write(brief := brief_from(evaluator), first_choice(brief)).source
        verdict = evaluator.evaluate(source)
    assert verdict.status == "passed", f"{verdict.message}\n{source}"


GROUPS_AND_THEIR_MEAN = """
BATCH, SIZE = 2, 3
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)
    def forward(self, x):
        return self.norm(x).mean((2, 3))
def get_inputs():
    return [torch.randn(BATCH, 4, SIZE, SIZE)]
"""
WINDOWS_THAT_REACH_PAST_THE_END = """
LENGTH, WIDTH = 9, 8
class Model(nn.Module):
    def forward(self, x):
        return nn.functional.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)
def get_inputs():
    return [torch.randn(2, 3, LENGTH, WIDTH)]
"""
FOUND_IN_A_TUPLE = """
BATCH = 4
class Model(nn.Module):
    def forward(self, x, state, *more):
        h, c = state
        return torch.tanh(x + h) * c, more[0] * c.sigmoid()
def get_inputs():
    return [torch.randn(BATCH, 8), (torch.randn(BATCH, 8), torch.randn(BATCH, 8)), torch.randn(BATCH, 8)]
"""


LAYERS_CALLED_BY_A_FUNCTION = """
BATCH = 4
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.ModuleDict(dict(up=nn.Linear(8, 12), down=nn.Linear(12, 8)))
        m = self.mlp
        self.run = lambda x: m.down(torch.tanh(m.up(x)))
    def forward(self, x):
        return x + self.run(x)
def get_inputs():
    return [torch.randn(BATCH, 8)]
"""


POSITION_IN_A_CACHE = """
class Model(nn.Module):
    def forward(self, cache, new, position):
        return torch.cat([cache[:, :position], new], dim=1) * 2
def get_inputs():
    return [torch.randn(4, 512, 1024), torch.randn(4, 1, 1024), 300]
"""


ONE_STEP_OF_A_GRU = """
BATCH = 4
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(16, 16, batch_first=True)
    def forward(self, x, h):
        return self.gru(x, h)
def get_inputs():
    return [torch.randn(BATCH, 1, 16), torch.randn(1, BATCH, 16)]
"""


SPECTROGRAM = """
BATCH, LENGTH = 2, 160
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
    def forward(self, x):
        return torch.stft(x, 32, 8, window=self.window, return_complex=True).abs()
def get_inputs():
    return [torch.randn(BATCH, LENGTH)]
"""


PLACES_IN_PADDED_WINDOWS = """
BATCH = 4
class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool2d(x, 3, 2, padding=1, return_indices=True)
def get_inputs():
    return [torch.randn(BATCH, 4, 10, 12)]
"""


A_FUNCTION_WITHIN_A_HELPER = """
import math
BATCH, WIDTH, HEADS = 4, 12, 6
def slopes(heads):
    def of_a_power_of_two(n):
        return [2.0 ** -(8.0 * (i + 1) / n) for i in range(n)]
    whole = 2 ** math.floor(math.log2(heads))
    return of_a_power_of_two(whole) + of_a_power_of_two(2 * whole)[::2][: heads - whole]
class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("slopes", torch.tensor(slopes(heads)).view(heads, 1), persistent=False)
    def forward(self, x):
        y = self.linear(x)
        return (y.view(len(y), len(self.slopes), -1) * self.slopes).view_as(y)
def get_inputs():
    return [torch.randn(BATCH, WIDTH)]
def get_init_inputs():
    return [WIDTH, HEADS]
"""


@pytest.mark.parametrize(
    "text",
    [
        *(GROUPS_AND_THEIR_MEAN, WINDOWS_THAT_REACH_PAST_THE_END, FOUND_IN_A_TUPLE),
        *(LAYERS_CALLED_BY_A_FUNCTION, POSITION_IN_A_CACHE, ONE_STEP_OF_A_GRU, SPECTROGRAM),
        *(PLACES_IN_PADDED_WINDOWS, A_FUNCTION_WITHIN_A_HELPER),
    ],
)
def test_the_first_file_passes(text: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(problem(tmp_path, text), nursery)


def header_of(text: str, name: str = "Model") -> tuple[list[str], str]:
    _, helpers, head, lines = ModelText(f"import torch\nimport torch.nn as nn\n{text}", name).header()
    return helpers, "\n".join([head, *lines])


def test_a_hook_on_the_model_does_not_work_twice() -> None:
    """The recorded call already contains the effect of the hook."""
    text = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0
        self.register_forward_pre_hook(lambda module, given: (given[0] * 2,))
    def forward(self, x):
        return x
"""
    _, made = header_of(text)
    assert "self.scale = 2.0" in made and "hook" not in made


def test_what_a_base_class_constructor_calls_is_taken_along() -> None:
    text = """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.build()
    def build(self):
        raise NotImplementedError
class Model(Base):
    def build(self):
        self.linear = nn.Linear(8, 8)
    def forward(self, x):
        return self.linear(x)
"""
    _, made = header_of(text)
    assert "self.linear = nn.Linear(8, 8)" in made


def test_another_name_for_the_class_will_do() -> None:
    text = "class Net(nn.Module):\n    def forward(self, x):\n        return x\nModel = Net\n"
    assert ModelText(text, "Model").model.name == "Net"


def test_parameters_have_the_dtype_that_the_file_makes_torchs_default() -> None:
    text = """
torch.set_default_dtype(torch.float64)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8))
"""
    _, made = header_of(text)
    assert made.rstrip().endswith("self.to(torch.float64)")


@pytest.mark.parametrize("statement", ["self.order = type(self).__mro__", "self.act = torch.hub.get_dir()"])
def test_a_constructor_that_no_candidate_may_have_is_left_behind(statement: str, tmp_path: Path) -> None:
    """A number kept by that constructor is then written as a literal."""
    text = f"""
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {statement}
        self.scale = 3.5
        self.weight = nn.Parameter(torch.ones(8))
    def forward(self, x):
        return x * self.weight * self.scale
{INPUT}"""
    source = first_file(problem(tmp_path, text))
    assert "__mro__" not in source and "hub" not in source and "self.scale" not in source and "3.5" in source


@pytest.mark.parametrize(
    "body", ["torch.relu(x) if x.mean() > 0 else torch.tanh(x)", "x * float(x.max())", "x * max(x[0].tolist())"]
)
def test_nothing_is_written_for_a_call_that_looks_at_values(body: str, tmp_path: Path) -> None:
    text = f"class Model(nn.Module):\n    def forward(self, x):\n        return {body}\n{INPUT}"
    with pytest.raises(BeyondAuthor, match="reads values of tensors"):
        first_file(problem(tmp_path, text))


def test_what_torch_returns_lies_row_by_row_where_a_kernel_reads_it(tmp_path: Path) -> None:
    """The memory order of an LSTM's result depends on the sizes and on the library that computes it."""
    text = """
BATCH = 3
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 8, batch_first=True, proj_size=4)
    def forward(self, x):
        return torch.relu(self.lstm(x)[0]) + 1
def get_inputs():
    return [torch.randn(BATCH, 5, 6)]
"""
    source = first_file(problem(tmp_path, text))
    assert re.search(r"(\w+) = lstm\[0\]\.contiguous\(\)", source)


def test_a_tensor_that_is_only_written_has_a_name(tmp_path: Path) -> None:
    text = f"""
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.zeros(4, 8)
    def forward(self, x):
        self.last.copy_(x)
        return torch.relu(x)
{INPUT}"""
    brief = brief_of(problem(tmp_path, text.replace("BATCH = 4", "WIDTH = 4").replace("BATCH", "WIDTH")))
    assert "self.last" in write(brief, Choice()).source


def test_a_file_without_a_kernel_is_not_written(tmp_path: Path) -> None:
    """Such a file would be refused, so the author reports why it writes no kernel."""
    text = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 8, proj_size=4)
    def forward(self, x):
        return self.lstm(x)[0]
def get_inputs():
    return [torch.randn(5, 3, 6)]
"""
    with pytest.raises(BeyondAuthor, match=r"nothing of it becomes a kernel; .*lstm stays an operator of torch"):
        first_file(problem(tmp_path, text))


TRANSPOSED = """
BATCH, SIZE = 2, 5
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 3), padding=(1, 0), output_padding=(1, 0), groups=2)
    def forward(self, x):
        return {}
def get_inputs():
    return [torch.randn(BATCH, 4, SIZE, 4)]
"""
UNEVEN_POOLS = """
BATCH, SIZE = 2, 11
class Model(nn.Module):
    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x, (4, 3)), nn.functional.adaptive_max_pool1d(x[0], 5)
def get_inputs():
    return [torch.randn(BATCH, 3, SIZE, 7)]
"""


@pytest.mark.parametrize("text", [TRANSPOSED.format("self.up(x)"), UNEVEN_POOLS])
def test_own_kernels_alone_pass(text: str, tmp_path: Path, nursery: Nursery) -> None:
    brief = brief_of(problem(tmp_path, text), allow_library=False)
    answer = write(brief, first_choice(brief))
    assert "torch.ops" not in answer.source
    with Evaluator(problem(tmp_path, text), EvaluatorSettings(target=None), nursery=nursery) as evaluator:
        verdict = evaluator.evaluate(answer.source)
    assert verdict.status == "passed", f"{verdict.message}\n{answer.source}"


def test_torch_does_what_it_does_better_beside_a_kernel_and_not_alone(tmp_path: Path) -> None:
    """An own transposed convolution multiplies mostly zeros, so torch computes it, unless no own kernel would be
    left.
    """
    assert "torch.ops.aten.convolution" in first_file(problem(tmp_path, TRANSPOSED.format("self.up(x).tanh()")))
    assert "torch.ops" not in first_file(problem(tmp_path, TRANSPOSED.format("self.up(x)")))


BESIDE_THE_CLASS = """
import math
SIZE = 40
EDGES = torch.tensor([[math.sin(i * j) for i in range(SIZE)] for j in range(8)])
class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x @ EDGES)
BATCH = 4
def get_inputs():
    return [torch.randn(BATCH, 8)]
"""


def test_a_tensor_at_the_top_of_the_file_is_taken_along(tmp_path: Path, nursery: Nursery) -> None:
    check_passes(problem(tmp_path, BESIDE_THE_CLASS), nursery)


def test_a_tensor_drawn_when_the_file_is_imported_cannot_be_had_elsewhere(tmp_path: Path) -> None:
    text = re.sub("EDGES = .*", "EDGES = torch.rand(8, 40)", BESIDE_THE_CLASS)
    with pytest.raises(BeyondAuthor, match="EDGES is random at import"):
        first_file(problem(tmp_path, text))


REFUSERS = """
from torch.distributions import Normal, kl_divergence
BATCH = 4
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(8, 6), nn.Linear(3, 8)
        self.register_buffer("codes", torch.randn(5, 8))
    def forward(self, x):
        mean, spread = self.encode(x).chunk(2, -1)
        found = Normal(mean, torch.exp(0.5 * spread))
        apart = kl_divergence(found, Normal(torch.zeros_like(mean), torch.ones_like(mean))).sum(-1)
        made = Normal(self.decode(found.loc), 1.0).log_prob(x).sum(-1)
        nearest = F.one_hot(torch.cdist(x, self.codes).argmin(1), self.codes.shape[0]).float()
        return apart - made, nearest.mean(0), F.gaussian_nll_loss(self.decode(mean), x, torch.ones_like(x))
def get_inputs():
    return [torch.randn(BATCH, 8)]
"""


def test_what_looks_at_values_only_to_refuse_them_is_no_obstacle(tmp_path: Path, nursery: Nursery) -> None:
    """The checks are those of distributions, of a negative log-likelihood, and of one-hot classes of a known number."""
    check_passes(problem(tmp_path, REFUSERS), nursery)


def test_classes_of_an_unknown_number_are_an_obstacle(tmp_path: Path) -> None:
    text = REFUSERS.replace(", self.codes.shape[0])", ")")
    with pytest.raises(BeyondAuthor, match="reads values of tensors"):
        first_file(problem(tmp_path, text))


VIEWS_OF_ONE_SAMPLE = """
BATCH, VIEWS, WIDTH = 6, 2, 10
class Model(nn.Module):
    def forward(self, x):
        every = torch.cat(torch.unbind(x, 1), 0)
        alike = F.normalize(every, dim=-1) @ F.normalize(every, dim=-1).T
        return torch.logsumexp(alike / 0.1, 1).view(x.shape[1], x.shape[0]).mean(), torch.cat(x.unbind(0), -1)
def get_inputs():
    return [torch.randn(BATCH, VIEWS, WIDTH)]
"""


def test_what_is_taken_apart_and_joined_again_is_right_for_any_number_of_pieces(
    tmp_path: Path, nursery: Nursery
) -> None:
    check_passes(problem(tmp_path, VIEWS_OF_ONE_SAMPLE), nursery)


def test_a_result_with_as_many_elements_as_values_say_is_named(tmp_path: Path) -> None:
    """Every file with torch's `nonzero` would be refused: a tape holds no size that depends on values."""
    text = """
BATCH = 4
class Model(nn.Module):
    def forward(self, x):
        rows, _ = torch.where(x > 0)
        return torch.zeros_like(x).index_add(0, rows, torch.tanh(x[rows]))
def get_inputs():
    return [torch.randn(BATCH, 8)]
"""
    brief = brief_of(problem(tmp_path, text), allow_library=True)
    with pytest.raises(BeyondAuthor, match="nonzero depends on values"):
        write(brief, first_choice(brief))
