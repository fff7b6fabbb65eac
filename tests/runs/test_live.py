"""A module in memory becomes a self-contained problem; tensors, modes and hooks are copied onto the result."""

from __future__ import annotations

import copy
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.runs import live_samples as samples
from torch import nn
from torch.nn.utils import parametrize

from triton_agent.runs.live import loading, problem
from triton_agent.runs.ship.source.original import take_out
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference.reference import load

ROW = torch.linspace(-1, 1, 24).reshape(3, 8)
MODULES: dict[str, tuple[Callable[[], nn.Module], object]] = {
    "a class with a configuration": (lambda: samples.Block(samples.Config()), ROW),
    "another configuration": (lambda: samples.Block(samples.Config(order=samples.Order.AFTER)), ROW),
    "tied parameters and parts": (samples.Tied, ROW),
    "plain attributes": (samples.Held, ROW),
    "nested arguments": (samples.Pair, (ROW, (ROW, [ROW]))),
    "torch's own parts": (lambda: nn.Sequential(nn.Linear(8, 4), nn.GELU(), nn.Dropout(0.1)).eval(), ROW),
    "a recurrent one": (lambda: nn.LSTM(8, 4, num_layers=2, batch_first=True), ROW[None]),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (ROW[None],) * 3),
    "random numbers and statistics": (samples.Counting, ROW),
    "half precision": (lambda: nn.Linear(8, 4).to(torch.bfloat16), ROW.bfloat16()),
    "channels last": (samples.channels_last, torch.ones(2, 4, 6, 6).contiguous(memory_format=torch.channels_last)),
    "a list of blocks": (lambda: nn.Sequential(*(samples.Block(samples.Config()) for _ in range(2))), ROW),
}


def written(module: nn.Module, inputs: object, folder: Path) -> problem.Problem:
    return problem.write(module, problem.in_order(module, inputs, None), folder)


@pytest.mark.parametrize("name", MODULES)
def test_the_problem_loads_by_itself_and_has_the_modules_form(name: str, tmp_path: Path) -> None:
    make, inputs = MODULES[name]
    module = make()
    made = written(module, inputs, tmp_path)
    spec = parse_problem(made.target, inputs_file=made.inputs_file)
    reference = load(spec)
    model = reference.make_model(0)
    forms = [
        {key: (value.shape, value.dtype, value.stride()) for key, value in part.state_dict(keep_vars=True).items()}
        for part in (module, model)
    ]
    assert forms[0] == forms[1]
    assert [key for key, _ in module.named_buffers()] == [key for key, _ in model.named_buffers()]
    reference.call(model, reference.make_inputs(0))
    assert take_out(spec, {}).text, "it can be taken into a shipped file"


@pytest.mark.parametrize("name", MODULES)
def test_neither_the_module_nor_the_process_is_touched(name: str, tmp_path: Path) -> None:
    make, inputs = MODULES[name]
    module = make()
    before, kept = copy.deepcopy(module.state_dict()), {key: id(value) for key, value in module.state_dict().items()}
    calls, training = getattr(module, "calls", None), module.training
    with torch.random.fork_rng(), torch.inference_mode():
        state = torch.random.get_rng_state()
        with loading.untouched():
            written(module, inputs, tmp_path)
        assert torch.equal(torch.random.get_rng_state(), state)
        assert torch.is_inference_mode_enabled()
    assert (getattr(module, "calls", None), module.training) == (calls, training)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert kept.keys() == module.state_dict().keys()


@pytest.mark.parametrize(
    ("name", "file"), [("MLP", "mlp"), ("RMSNorm", "rms_norm"), ("GPT2Block", "gpt2_block"), ("Block", "block")]
)
def test_the_file_is_named_as_people_name_files(name: str, file: str, tmp_path: Path) -> None:
    module = type(name, (nn.Linear,), {"__module__": nn.Linear.__module__})(2, 2)
    assert problem._file_name(module) == file


def test_the_problem_has_the_name_of_the_module_s_class(tmp_path: Path) -> None:
    written = problem.write(nn.Linear(4, 4).eval(), [torch.randn(2, 4)], tmp_path)
    assert parse_problem(written.target, inputs_file=written.inputs_file).name == "Linear"


def test_the_same_module_gives_the_same_problem(tmp_path: Path) -> None:
    module = samples.Block(samples.Config())
    digests = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made = written(module, ROW, tmp_path / name)
        digests.append(parse_problem(made.target, inputs_file=made.inputs_file).digest)
    assert digests[0] == digests[1]


def test_a_project_of_several_files_stands_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    (project / "nets").mkdir(parents=True)
    (project / "nets" / "__init__.py").write_text("")
    (project / "nets" / "sizes.py").write_text("WIDTH = 8\n")
    part = "import torch\nfrom torch import nn\nfrom .sizes import WIDTH\nclass Part(nn.Module):\n"
    (project / "nets" / "part.py").write_text(part + "    def forward(self, x):\n        return x * WIDTH\n")
    net = "from torch import nn\nfrom nets.part import Part\nWIDTH = 3\nclass Net(nn.Module):\n"
    net += "    def __init__(self, *parts):\n        super().__init__()\n        self.parts = nn.ModuleList(parts)\n"
    net += "    def forward(self, x):\n        return sum(part(x) for part in self.parts) + WIDTH\n"
    (project / "nets" / "net.py").write_text(net)
    monkeypatch.syspath_prepend(str(project))
    from nets.net import Net  # type: ignore[import-not-found]
    from nets.part import Part  # type: ignore[import-not-found]

    made = written(Net(Part(), Part()), ROW, tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "nets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(project)])
    reference = load(parse_problem(made.target, inputs_file=made.inputs_file))
    (x,) = reference.make_inputs(0)
    torch.testing.assert_close(reference.call(reference.make_model(0), [x]), 16 * x + 3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (samples.made_in_a_function, "defined inside a function"),
        (lambda: parametrize.register_parametrization(nn.Linear(8, 8), "weight", nn.ReLU()), "made at run time"),
        (lambda: nn.DataParallel(nn.Linear(8, 8)), "module.module"),
        (lambda: nn.ModuleList([nn.Linear(8, 8)]), "no forward"),
        (lambda: torch.compile(nn.Linear(8, 8)), "module._orig_mod"),
        (samples.Locked, "left out were lock"),
        (lambda: nn.Linear, "give a module"),
        (samples.Dated, "torch, triton and math, not `time`"),
    ],
)
def test_what_cannot_be_written_down_is_refused_with_a_reason(make: Callable, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        problem.write(make(), [ROW], tmp_path)
    assert said in str(refused.value)


def test_what_only_a_constructor_needs_is_left_behind(tmp_path: Path) -> None:
    made = written(samples.Held(), ROW, tmp_path)
    text = Path(made.target.rpartition(":")[0]).read_text()
    assert "threading" not in text and "class Held(nn.Module)" in text


def test_a_part_with_hooks_is_refused(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(8, 8))
    module[0].register_forward_hook(lambda *_: None)
    with pytest.raises(UsageError, match="0 has hooks"):
        written(module, ROW, tmp_path)


def test_a_module_whose_answers_hang_on_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples.Moody, "mood", 2.0)
    with pytest.raises(UsageError, match="does not answer outside of this process"):
        written(samples.Moody(), ROW, tmp_path)


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ((ROW, (ROW, [ROW])), None),
        ({"x": ROW, "pair": (ROW, [ROW])}, None),
        ((ROW,), {"pair": (ROW, [ROW]), "bias": None}),
        ([ROW, (ROW, [ROW]), 1.0], {"bias": ROW}),
    ],
)
def test_arguments_are_put_in_order_and_keep_their_nesting(inputs: object, named: dict | None) -> None:
    ordered = problem.in_order(samples.Pair(), inputs, named)
    assert ordered[0] is ROW
    assert type(ordered[1]) is tuple and type(ordered[1][1]) is list
    assert samples.Pair()(*ordered)[0].shape == ROW.shape


@pytest.mark.parametrize(
    ("module", "inputs", "said"),
    [
        (samples.KeywordOnly(), {"x": ROW}, "missing a required argument: 'factor'"),
        (samples.Pair(), {"x": ROW, "other": ROW}, "do not fit forward"),
        (samples.Pair(), 3, "are a int"),
        (samples.Pair(), (1, 2), "no tensor"),
        (samples.Pair(), (ROW, object()), "is a object"),
        (samples.Pair(), (ROW.to_sparse(), ROW), "without plain memory"),
    ],
)
def test_arguments_that_cannot_be_kept_are_refused(module: nn.Module, inputs: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        problem.in_order(module, inputs, None)


# -- scripts and notebooks ---------------------------------------------------------------------------------------------

DEFINITION = """
import torch
from torch import nn

FACTOR = 3

class Shout(nn.Module):
    def forward(self, x):
        return x * FACTOR
"""
WRITE = """
from pathlib import Path
from triton_agent.runs.live import problem

print(problem.write(Shout(), [torch.ones(2, 8)], Path(FOLDER)).target)
"""


def _run(code: str, tmp_path: Path, *, as_file: bool) -> subprocess.CompletedProcess[str]:
    code = code.replace("FOLDER", repr(str(tmp_path)))
    if not as_file:
        return subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, timeout=100)
    (tmp_path / "script.py").write_text(code)
    return subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=100)


def test_a_class_of_the_script_that_is_running_is_taken_from_its_file(tmp_path: Path) -> None:
    done = _run(DEFINITION + WRITE, tmp_path, as_file=True)
    assert done.returncode == 0, done.stderr
    assert "FACTOR = 3" in (tmp_path / "shout.py").read_text()


def test_a_class_of_a_notebook_is_taken_from_its_cells(tmp_path: Path) -> None:
    """A notebook keeps the text of its cells in `In`; a cell with a shell command is skipped."""
    cells = [DEFINITION, "!ls", "FACTOR = 4"]
    code = f"In = {cells!r}\nfor cell in (In[0], In[2]):\n    exec(cell)\n"
    done = _run(code + WRITE, tmp_path, as_file=False)
    assert done.returncode == 0, done.stderr
    assert "FACTOR = 4" in (tmp_path / "shout.py").read_text()


def test_a_class_that_exec_made_is_refused_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = types.ModuleType("typed")
    monkeypatch.setitem(sys.modules, "typed", typed)
    exec(DEFINITION, vars(typed))
    with pytest.raises(UsageError, match="put it into a file and import it from there"):
        written(typed.Shout(), ROW, tmp_path)


# -- back in memory ----------------------------------------------------------------------------------------------------


def again(module: nn.Module, inputs: object, folder: Path) -> nn.Module:
    made = written(module, inputs, folder)
    kind = getattr(loading.load(Path(made.target.rpartition(":")[0])), problem.class_name(module))
    return loading.made_of(kind, module, made.left_out)


def test_tensors_are_copies_and_what_was_tied_is_tied(tmp_path: Path) -> None:
    module = samples.Tied()
    module.second.bias.requires_grad_(False)
    made = again(module, ROW, tmp_path)
    assert made.first.weight is made.second.weight and made.again is made.second
    assert made.first.weight is not module.first.weight
    assert torch.equal(made.second.bias, module.second.bias) and not made.second.bias.requires_grad
    with torch.no_grad():
        made.first.weight.zero_()
    assert bool(module.first.weight.any())


def test_modes_hooks_and_what_was_left_out_are_taken_over(tmp_path: Path) -> None:
    module = nn.Sequential(samples.Held(), nn.Dropout(0.5))
    module[1].eval()
    heard = []
    module.register_forward_hook(lambda *_: heard.append(1))
    made = again(module, ROW, tmp_path)
    assert (made.training, made[1].training) == (True, False)
    assert made[0].lock is module[0].lock
    assert torch.equal(made[0].table, module[0].table) and made[0].table is not module[0].table
    heard.clear()
    torch.testing.assert_close(made(ROW), module(ROW))
    assert len(heard) == 2
