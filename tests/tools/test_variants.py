"""Families: sizes found in the text, proven on the reference, and scaled down if they are too large."""

from __future__ import annotations

import ast
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem
from triton_agent.tools.reference import size_trials as trials
from triton_agent.tools.reference.allowance import TooLarge
from triton_agent.tools.reference.footprint import (
    FULL_SIZE,
    INTERPRETER,
    RUN_ON_GPU,
    Footprint,
    Limits,
    estimate,
    prove,
)
from triton_agent.tools.reference.input_tensors import tensors_in
from triton_agent.tools.reference.reference import load
from triton_agent.tools.reference.scaling import scaled_down, scaled_for_interpreter
from triton_agent.tools.reference.size_trials import reference_for
from triton_agent.tools.reference.sizes import AS_GIVEN, free_sizes, resize_spec
from triton_agent.tools.reference.variants import divisors_of, family

TINY = Limits(elements_at_most=1 << 14, flops_at_most=10**7, seconds_at_most=30)

NORM = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, features)
    def forward(self, x):
        return self.norm(x)
batch_size = 16
features = 2 ** 6
groups = 8
height = width = 512
def get_inputs():
    return [torch.rand(batch_size, features, height, width)]
def get_init_inputs():
    return [features, groups]
"""
MATMUL = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.rand(4096, 8192), torch.rand(8192, 2048)]
"""
LINEAR = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        assert width % heads == 0
        self.linear = nn.Linear(width, width)
        self.rates = [rate.item() for rate in torch.linspace(0, 1, 4)]
    def forward(self, x):
        return self.linear(x).relu() * self.rates[2]
"""


def problem(folder: Path, text: str, class_name: str = "", **options: object) -> ProblemSpec:
    path = folder / "problem.py"
    path.write_text(text)
    return parse_problem(f"{path}:{class_name}" if class_name else str(path), **options)  # type: ignore[arg-type]


def sizes_of(text: str) -> dict[str, int]:
    head = "from torch import nn, rand\n"
    tree = ast.parse(head + text)
    spec = ProblemSpec(path="/x.py", kind="model_file", digest="")  # type: ignore[arg-type]
    return free_sizes(spec, tree)


def test_sizes_that_the_inputs_depend_on_are_free() -> None:
    text = (
        "A, B = 3, 2**4\nC: int = 5 * 2\nD = A * 7\nS = (20, 30)\nUNUSED = 9\nFLAG = True\n"
        "def make(): return rand(D, C)\ndef get_inputs(): return [make(), rand(B, *S)]\n"
    )
    assert sizes_of(text) == {"A": 3, "B": 16, "C": 10, "S[0]": 20, "S[1]": 30}


def test_a_repeated_width_is_one_size(tmp_path: Path) -> None:
    """A deep network as benchmarks write it: its layers become narrow together, and their number stays."""
    text = (
        "from torch import nn, rand\nWIDTHS = [1024] * 3\nclass Model(nn.Module):\n"
        "    def __init__(self, widths):\n        super().__init__()\n"
        "        pairs = zip([64, *widths], [*widths, 64])\n"
        "        self.layers = nn.Sequential(*[nn.Linear(a, b) for a, b in pairs])\n"
        "    def forward(self, x): return self.layers(x)\n"
        "def get_inputs(): return [rand(8, 64)]\ndef get_init_inputs(): return [WIDTHS]\n"
    )
    spec = problem(tmp_path, text)
    assert free_sizes(spec, ast.parse(text))["WIDTHS[0]"] == 1024
    model = load(spec, {"WIDTHS[0]": 32}).make_model(0)
    assert [layer.out_features for layer in model.layers] == [32, 32, 32, 64]


def test_sizes_that_a_class_reads_are_not_free() -> None:
    text = (
        "batch = 10\nwidth = 20\nclass Model(nn.Module):\n"
        "    def __init__(self, width): self.state = rand(batch, width)\n"
        "def get_inputs(): return [rand(batch, width)]\n"
    )
    assert sizes_of(text) == {"width": 20}, "a parameter that is named like the constant does not read it"


def test_sizes_bound_twice_are_not_free() -> None:
    text = "A = 3\nif A:\n    A = 4\nB = 5\nB += 1\nC = 6\ndef f():\n    global C\n    C = 1\n"
    assert sizes_of(text + "def get_inputs(): return [rand(A, B, C)]\n") == {}


def test_written_sizes_are_free_by_value() -> None:
    text = "def get_inputs(): return [rand(16, 512)]\ndef get_init_inputs(): return [512, 4, 64]\n"
    assert sizes_of(text) == {"inputs 16": 16, "sizes 64": 64, "sizes 512": 512, "inputs 512": 512}


def test_a_number_beyond_the_bytes_of_any_gpu_is_no_size() -> None:
    text = "T = 1_700_000_000_000_000_000\nN = 300\n"
    assert sizes_of(f"{text}def get_inputs(): return [randint(T, 5 * T, (N,)), rand(9), rand(10**15)]\n") == {
        "N": 300,
        "inputs 5": 5,
        "inputs 9": 9,
        "inputs 10": 10,
        "inputs 15": 15,
    }
    assert "inputs 9000000000000000" not in sizes_of(
        "def get_inputs(): return [randint(9_000_000_000_000_000, (4,))]\n"
    )


def test_divisors_of_a_large_number_are_found_at_once() -> None:
    assert divisors_of(36) == [2, 3, 4, 6, 9, 12, 18] and divisors_of(7) == []
    assert len(divisors_of(1 << 38)) == 37


def test_offsets_end_at_the_size_of_what_they_divide(tmp_path: Path) -> None:
    """A kernel may read the rows between two offsets without asking if there are as many."""
    text = (
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n"
        "    def forward(self, values, offsets):\n"
        "        places = (offsets[:-1, None] + torch.arange(16)).clamp(max=len(values) - 1)\n"
        "        return values[places]\n"
        "def get_inputs():\n"
        "    cuts = torch.randint(0, 61, (5,)).sort().values\n"
        "    return [torch.randn(60, 8), torch.cat([torch.zeros(1).long(), cuts, torch.tensor([60])])]\n"
    )
    spec = problem(tmp_path, text)
    variants = family(spec, seed=0)
    assert len(variants) > 2
    for variant in variants:
        for seed in range(20, 24):
            values, offsets = load(spec, variant.constants, batch=variant.batch).make_inputs(seed)
            assert bool((offsets.diff() >= 0).all()) and int(offsets[-1]) == len(values), variant.name


def test_huge_arithmetic_does_not_hold_up_the_reader() -> None:
    assert sizes_of("A = 9**9**9\nB = 1 << 10**9\ndef get_inputs(): return [rand(A, B)]\n") == {}


def test_user_sizes_change_together_wherever_they_are_written(tmp_path: Path) -> None:
    spec = problem(tmp_path, LINEAR, "Block", init="(64, [8]), x=64", inputs=["f32[8,64]", "i64[8]<64"])
    resized = resize_spec(spec, {"sizes 64": 48, "inputs 8": 5})
    assert resized.init == ((48, [8]),) and resized.init_keywords == {"x": 48}
    assert [str(item) for item in resized.inputs] == ["f32[5,48]", "i64[5]<48"]


SOFTMAX = """
import torch

WIDTH = 200


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(15, WIDTH)]


def get_init_inputs():
    return []
"""


def test_family_is_proven_and_its_shapes_differ(tmp_path: Path) -> None:
    spec = problem(tmp_path, NORM.replace("512", "24"))
    found = family(spec, 0, limits=Limits(elements_at_most=1 << 21, flops_at_most=10**9, seconds_at_most=30))
    assert found[0] == AS_GIVEN and 3 <= len(found) <= 8
    shapes = set()
    for variant in found:
        reference = reference_for(spec, variant)
        inputs = reference.make_inputs(1)
        with torch.no_grad():
            assert reference.call(reference.make_model(0), inputs).isfinite().all()
        shapes.add(inputs[0].shape)
    assert len(shapes) == len(found)
    assert any(shape[0] % 2 and shape[2] % 2 and shape[0] > 1 for shape in shapes), "no odd sizes"
    assert any(shape[0] == 1 for shape in shapes), "no batch of one"
    assert any(shape[1] != 64 for shape in shapes), "no other feature size, though 48 goes by 8 groups"


@pytest.mark.parametrize(("given", "wanted"), [(200, 128), (256, None)])
def test_sizes_that_are_no_powers_of_two_become_such(given: int, wanted: int | None, tmp_path: Path) -> None:
    spec = problem(tmp_path, SOFTMAX.replace("200", str(given)))
    widths = [dict(variant.constants).get("WIDTH", given) for variant in family(spec, 0)]
    assert [width for width in widths if width != given and width & (width - 1) == 0] == [wanted] * (wanted is not None)


def test_family_changes_only_what_a_candidate_is_told(tmp_path: Path) -> None:
    text = NORM.replace("512", "24").replace("self.norm(x)", "self.norm(x).view(batch_size, -1)")
    for variant in family(problem(tmp_path, text), 0)[1:]:
        assert "batch_size" not in variant.constants


def test_variants_that_the_original_cannot_take_are_dropped(tmp_path: Path) -> None:
    text = NORM.replace("512", "24").replace(
        "        return self", "        assert x.shape[0] == 16\n        return self"
    )
    for variant in family(problem(tmp_path, text), 0):
        assert "batch_size" not in variant.constants


LOOP = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        state = torch.zeros_like(x[0])
        for now in x:
            state = torch.tanh(now + state)
        return state
steps, batch, width = 6, 8, 16
def get_inputs():
    return [torch.randn(steps, batch, width)]
"""


def test_what_a_device_makes_of_a_call_does_not_count_as_another_program(tmp_path: Path) -> None:
    """A single row is contiguous in both orders, so nothing is copied there; it still counts as the same program."""
    turned = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.transpose(0, 1).contiguous() * 2
batch, width = 6, 32
def get_inputs():
    return [torch.randn(batch, width)]
"""
    names = [variant.name for variant in family(problem(tmp_path, turned), 1, limits=INTERPRETER)]
    assert "batch=1" in names, names


def test_sizes_at_which_other_functions_are_called_come_last(tmp_path: Path) -> None:
    looped = family(problem(tmp_path, LOOP), 1, limits=INTERPRETER)
    assert len(looped) > 2 and all("steps" not in variant.constants for variant in looped)
    only_steps = LOOP.replace("steps, batch, width = 6, 8, 16", "steps = 6").replace(
        "(steps, batch, width)", "(steps, 8, 16)"
    )
    fixed = only_steps.replace("torch.zeros_like(x[0])", "torch.zeros(8, 16) + torch.eye(8, 16)")
    fewer = family(problem(tmp_path, fixed), 1, limits=INTERPRETER)
    assert any("steps" in variant.constants for variant in fewer)


def test_another_number_of_recurrent_layers_is_another_program(tmp_path: Path) -> None:
    text = """
import torch
steps, batch, width, layers = 6, 4, 12, 3
class Model(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.gru = torch.nn.GRU(width, 8, layers)
    def forward(self, x):
        return self.gru(x)[0]
def get_inputs():
    return [torch.randn(steps, batch, width)]
def get_init_inputs():
    return [layers]
"""
    found = family(problem(tmp_path, text), 1, limits=INTERPRETER)
    assert len(found) > 2 and all("layers" not in variant.constants for variant in found)


def test_variants_with_other_finiteness_are_dropped(tmp_path: Path) -> None:
    text = MATMUL.replace("4096, 8192", "6, 8").replace("8192, 2048", "8, 4").replace("a @ b", "a @ b / (len(a) - 1)")
    assert all(
        load(s, v.constants).make_inputs(0)[0].shape[0] > 1 for s in [problem(tmp_path, text)] for v in family(s, 0)
    )


def test_a_loop_over_time_at_a_batch_of_one_keeps_its_length(tmp_path: Path) -> None:
    text = MATMUL.replace("4096, 8192", "1, 6").replace("8192, 2048", "1, 6")
    text = text.replace("a @ b", "torch.stack([a[:, t] * b[:, t] for t in range(a.shape[1])], 1)")
    text = text[: text.index("def get_inputs")] + (
        "def get_inputs():\n    return [torch.rand(1, 6), torch.rand(1, 6)]\ndef get_init_inputs():\n    return []\n"
    )
    assert [variant.name for variant in family(problem(tmp_path, text), 0)] == ["as given", "leading=3", "leading=2"]


def test_variants_in_which_something_is_empty_are_dropped(tmp_path: Path) -> None:
    """With more rows in `b` than in `a`, as at some sizes that are tried, a part of `a` would have no rows."""
    text = MATMUL.replace("4096, 8192", "6, 8").replace("8192, 2048", "2, 8")
    text = text.replace("a @ b", "a[: len(b) * (len(a) // len(b))].view(len(b), -1, 8).sum(1) * b")
    found = [load(s, v.constants).make_inputs(0) for s in [problem(tmp_path, text)] for v in family(s, 0)]
    assert len(found) > 2 and all(len(a) >= len(b) for a, b in found)


def test_inputs_from_a_file_vary_in_their_leading_dimension(tmp_path: Path) -> None:
    torch.save([torch.rand(6, 8), torch.rand(6, 1)], tmp_path / "saved.pt")
    text = "from torch import nn\nclass Add(nn.Module):\n    def forward(self, x, y): return x + y\n"
    found = family(problem(tmp_path, text, "Add", inputs_file=str(tmp_path / "saved.pt")), 0)
    assert [variant.name for variant in found] == ["as given", "leading=7", "leading=1", "leading=3"]


def test_family_is_the_same_every_time(tmp_path: Path) -> None:
    spec = problem(tmp_path, NORM)
    assert family(spec, 3, limits=TINY) == family(spec, 3, limits=TINY)


def test_a_problem_that_fits_is_left_as_it_is(tmp_path: Path) -> None:
    scaled = scaled_down(problem(tmp_path, MATMUL.replace("4096, 8192", "6, 8").replace("8192, 2048", "8, 4")), 0)
    assert scaled is not None and scaled.variant == AS_GIVEN and scaled.sentence == ""


@pytest.mark.parametrize("text", [NORM, MATMUL])
def test_a_large_problem_is_scaled_down_without_running_it(tmp_path: Path, text: str) -> None:
    started = time.monotonic()
    spec = problem(tmp_path, text)
    scaled = scaled_down(spec, 0)
    assert scaled is not None and scaled.sentence.startswith("scaled down: ")
    reference = reference_for(spec, scaled.variant)
    assert prove(reference, 0, limits=INTERPRETER).load(INTERPRETER) <= 1
    assert time.monotonic() - started < 20
    if text is NORM:
        assert reference.init_arguments()[0][1] == 8, "groups are not a size"


def test_sizes_that_belong_together_shrink_together(tmp_path: Path) -> None:
    spec = problem(tmp_path, LINEAR, "Block", init="4096, 4", inputs=["f32[8,2048,4096]"])
    scaled = scaled_down(spec, 0)
    assert scaled is not None
    width = scaled.variant.constants["sizes 4096"]
    assert width % 4 == 0 and "4096 -> " in scaled.sentence


def test_an_index_range_shrinks_with_its_table(tmp_path: Path) -> None:
    text = LINEAR.split("class")[0] + (
        "class Table(nn.Module):\n    def __init__(self, rows, width):\n        super().__init__()\n"
        "        self.table = nn.Embedding(rows, width)\n    def forward(self, i): return self.table(i)\n"
    )
    spec = problem(tmp_path, text, "Table", init="50000, 768", inputs=["i64[64,1024]<50000"])
    scaled = scaled_down(spec, 0)
    assert scaled is not None and scaled.variant.constants["sizes 50000"] < 50000


def test_what_only_the_leading_dimension_can_shrink(tmp_path: Path) -> None:
    torch.save([torch.rand(4096, 512)], tmp_path / "saved.pt")
    text = "from torch import nn\nclass Twice(nn.Module):\n    def forward(self, x): return x * 2\n"
    scaled = scaled_down(problem(tmp_path, text, "Twice", inputs_file=str(tmp_path / "saved.pt")), 0)
    assert scaled is not None and scaled.variant.batch is not None and scaled.variant.batch < 4096
    assert "leading dimension 4096 -> " in scaled.sentence


@pytest.mark.parametrize("rows", [64, 4096])
def test_a_reference_that_fails_at_the_sizes_given_is_not_mended_by_smaller_ones(tmp_path: Path, rows: int) -> None:
    """Halved inputs would fit a layer that the given ones do not fit, so the given sizes are run if a CPU can do it."""
    text = LINEAR.split("class")[0] + (
        "class Head(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
        "        self.out = nn.Linear(width, 8)\n    def forward(self, x): return self.out(x)\n"
    )
    spec = problem(tmp_path, text, "Head", init="128", inputs=[f"f32[{rows},256]"])
    with pytest.raises(ProblemError, match="cannot be multiplied"):
        scaled_down(spec, 0, limits=FULL_SIZE)


def test_no_way_down_is_said_so(tmp_path: Path) -> None:
    fixed = MATMUL.replace("return a @ b", "assert a.shape == (4096, 8192); return a @ b")
    spec = problem(tmp_path, fixed)
    assert scaled_down(spec, 0) is None
    assert family(spec, 0) == [AS_GIVEN]


def test_size_is_found_without_memory(tmp_path: Path) -> None:
    text = MATMUL.replace("4096, 8192", "1 << 20, 1 << 20").replace("8192, 2048", "1 << 20, 1 << 10")
    found = estimate(load(problem(tmp_path, text)), 0)
    assert found.flops == 2 * 2**50 and found.largest == 2**30 and found.elements == 2**40 + 2**31
    assert found.finite is None


def test_a_run_beyond_its_limits_is_stopped_before_it_takes_memory(tmp_path: Path) -> None:
    with pytest.raises(TooLarge):
        prove(load(problem(tmp_path, MATMUL.replace("4096", "1 << 40"))), 0, limits=TINY)


@pytest.mark.parametrize("result", ["x @ x.t()", "torch.cdist(x, x)", "x + x.reshape(1, -1)", "x.reshape(-1).diag()"])
def test_a_result_that_is_too_large_is_refused_before_its_memory_is_taken(result: str, tmp_path: Path) -> None:
    text = (
        MATMUL[: MATMUL.index("class Model")]
        + f"""
class Model(nn.Module):
    def forward(self, x):
        return {result}

def get_inputs():
    return [torch.rand(1 << 14, 1)]

def get_init_inputs():
    return []
"""
    )
    with _Largest() as seen, pytest.raises(TooLarge):
        prove(load(problem(tmp_path, text)), 0, limits=INTERPRETER)
    assert seen.elements == 1 << 14


class _Largest(TorchDispatchMode):
    """Records the largest result of the operators that really run within the block."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.elements = max([self.elements, *(tensor.numel() for tensor in tensors_in(result))])
        return result


def test_a_branch_on_values_is_run_for_real(tmp_path: Path) -> None:
    text = NORM.replace("        return self.norm(x)", "        return self.norm(x) if x.sum() > 0 else x")
    scaled = scaled_down(problem(tmp_path, text), 0)
    assert scaled is not None and scaled.variant != AS_GIVEN


def test_a_search_runs_the_original_once_at_each_size(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    text = MATMUL.replace("return a @ b", f"open({str(log)!r}, 'a').write(f'{{a.shape}} {{b.shape}};'); return a @ b")
    text = text.replace("4096, 8192", "96, 160").replace("8192, 2048", "160, 80")
    limits = Limits(elements_at_most=1 << 14, flops_at_most=10**9, seconds_at_most=30)
    found = family(problem(tmp_path, text), 0, limits=limits)
    runs = log.read_text().strip(";").split(";")
    assert len(found) > 2
    assert sorted(runs) == sorted(set(runs))


@pytest.mark.parametrize(("quick_s", "faked"), [(60.0, False), (0.0, True)])
def test_on_a_gpu_large_sizes_are_run_where_that_is_quick_and_the_family_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_s: float, faked: bool
) -> None:
    spec = problem(tmp_path, NORM.replace("512", "32"))
    expected = family(spec, 0, limits=TINY)
    asked: list[Limits] = []

    def run(*args: Any, device: str, **keywords: Any) -> Footprint:
        assert device == "cuda"
        asked.append(keywords["limits"])
        return prove(*args, **keywords)

    def estimated(*args: Any, **keywords: Any) -> Footprint:
        assert faked, "sized by fake tensors, whose import takes seconds"
        return estimate(*args, **keywords)

    monkeypatch.setattr(trials, "prove", run)
    monkeypatch.setattr(trials, "estimate", estimated)
    monkeypatch.setattr(trials, "QUICK_S", quick_s)
    assert family(spec, 0, limits=TINY, device="cuda") == expected
    assert (asked.count(RUN_ON_GPU) == 1) == faked and asked.count(RUN_ON_GPU) >= 1


SHUFFLED = """
import torch
from torch import nn
batch, channels, groups, size = 5, 60, 3, 27
class Model(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.groups = groups
        self.scale = nn.Parameter(torch.ones(channels, 1, 1))
    def forward(self, x):
        b, c, h, w = x.shape
        return (x * self.scale).view(b, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(b, c, h, w)
def get_inputs():
    return [torch.randn(batch, channels, size, size)]
def get_init_inputs():
    return [channels, groups]
"""
IN_GROUPS = """
import torch
from torch import nn
batch, channels, groups, size = 32, 320, 32, 64
class Model(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(batch, channels, size, size)]
def get_init_inputs():
    return [channels, groups]
"""
WINDOWS = """
import torch
from torch import nn
rows, length, window = 4, 84, 7
class Model(nn.Module):
    def forward(self, x):
        return x.view(x.shape[0], x.shape[1] // 7, 7).amax(-1)
def get_inputs():
    return [torch.randn(rows, length)]
"""


CHUNKS = """
import torch
from torch import nn
batch, length, width, chunk = 16, 128, 64, 64
class Model(nn.Module):
    def __init__(self, length, width, chunk):
        super().__init__()
        self.chunk = chunk
        self.scale = nn.Parameter(torch.ones(length, width))
    def forward(self, x):
        b, l, w = x.shape
        return (x * self.scale).reshape(b, l // self.chunk, self.chunk, w).cumsum(2)
def get_inputs():
    return [torch.randn(batch, length, width)]
def get_init_inputs():
    return [length, width, chunk]
"""
FIRST_LABELS_IGNORED = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(512, 32000, bias=False)
    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())
def get_inputs():
    labels = torch.randint(0, 32000, (2, 128))
    labels[:, :9] = -100
    return [torch.randn(2, 128, 512), labels]
"""


STEPS = """
import torch
from torch import nn
batch, length, width = 10, 128, 64
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(width, width, 2, batch_first=True, bidirectional=True)
    def forward(self, x):
        return self.lstm(x)[0]
def get_inputs():
    return [torch.randn(batch, length, width)]
def get_init_inputs():
    return [width]
"""


def test_a_sequence_that_is_gone_through_step_by_step_becomes_short(tmp_path: Path) -> None:
    spec = problem(tmp_path, STEPS)
    scaled = scaled_down(spec, 0)
    assert scaled is not None
    found = prove(reference_for(spec, scaled.variant), 0, limits=INTERPRETER)
    assert found.operators <= INTERPRETER.operators_at_most
    assert scaled.variant.constants["length"] > 8, "several steps are left"


def test_two_chunks_become_three_and_not_one_where_other_sizes_can_shrink(tmp_path: Path) -> None:
    """torch runs other operators for a dimension of one, so nothing would tell how many chunks there are."""
    spec = problem(tmp_path, CHUNKS)
    scaled = scaled_down(spec, 0)
    assert scaled is not None
    found = family(spec, 0, limits=INTERPRETER, base=scaled.variant)
    constants = [load(spec, variant.constants, batch=variant.batch).constants for variant in found]
    chunks = {sizes.get("length", 128) / sizes.get("chunk", 64) for sizes in constants}
    assert len(chunks) > 1 and min(chunks) > 1


def test_a_loss_is_not_scaled_down_until_no_element_is_left(tmp_path: Path) -> None:
    found, limits = scaled_for_interpreter(problem(tmp_path, FIRST_LABELS_IGNORED), 0)
    assert found is not None and found.sentence
    footprint = prove(reference_for(problem(tmp_path, FIRST_LABELS_IGNORED), found.variant), 0, limits=limits)
    assert footprint.finite == (True,)


@pytest.mark.parametrize(
    ("text", "key", "of"), [(SHUFFLED, "channels", 3), (IN_GROUPS, "channels", 8), (WINDOWS, "length", 7)]
)
def test_a_size_that_has_to_be_a_multiple_of_something_is_another_multiple_as_well(
    tmp_path: Path, text: str, key: str, of: int
) -> None:
    spec = problem(tmp_path, text)
    scaled = scaled_down(spec, 0)
    assert scaled is not None
    found = family(spec, 0, limits=INTERPRETER, base=scaled.variant)
    sizes = {load(spec, variant.constants, batch=variant.batch).constants.get(key) for variant in found}
    assert len(sizes) > 1 and all(size is None or size % of == 0 for size in sizes)
