"""The tape records what a candidate's Python does: allocations, operators, launches, and the steps of the prologue."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import pytest
from tests.tools.tape.tracing_process import Traced, traced

from triton_agent.tools.kernels.kernel import value_from_json
from triton_agent.tools.tape.tape import (
    Address,
    Allocate,
    Constant,
    Constexpr,
    Descriptor,
    Launch,
    Operate,
    Place,
    View,
    encode,
)

pytestmark = pytest.mark.xdist_group("tracer")  # what is made once is made in one process

DOUBLE = """
@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)
"""
ONE = "[torch.zeros(4, 8)]"


def model(forward: str, init: str = "pass", parameters: str = "self, x", more: str = "") -> str:
    """Return a file with a ModelNew made of these texts, which are indented here."""

    def indented(text: str) -> str:
        return "\n".join(f"        {line}" for line in text.strip().split("\n"))

    return (
        f"{DOUBLE}\n{more}\n\nclass ModelNew(torch.nn.Module):\n    def __init__(self, *given):\n"
        f"        super().__init__()\n{indented(init)}\n\n    def forward({parameters}):\n{indented(forward)}\n"
    )


def request(forward: str, init: str = "pass", inputs: str = ONE, more: str = "", **others: Any) -> dict[str, Any]:
    given = {"parameters": others.pop("parameters")} if "parameters" in others else {}
    return {"source": model(forward, init, more=more, **given), "inputs": inputs, **others}


LAUNCH = "double[(1,)](x, y, x.numel(), BLOCK=32)"

REQUESTS: dict[str, dict[str, Any]] = {
    "allocation and launch": request(f"y = torch.empty_like(x)\n{LAUNCH}\nreturn y"),
    "view": request("return x.view(8, 4).t()[2:, 1:]"),
    "in place": request("y = torch.zeros_like(x)\ny += x\ny.mul_(3)\nreturn y"),
    "input in place": request("x.mul_(2)\nreturn x + 1"),
    "several outputs": request(
        "y = torch.relu(x)\nreturn {'both': (y, x), 'part': [y[0], None, 3, 0.5, 'a']}",
    ),
    "out argument": request("y = torch.empty_like(x)\ntorch.add(x, 1, out=y)\nreturn y"),
    "unused work": request("torch.exp(x)\nreturn x + 1"),
    "scalars": request(
        "return x * scale if flag else x",
        parameters="self, x, scale, flag",
        inputs="[torch.zeros(3), 2.5, True]",
    ),
    "noncontiguous input": request("return x + 1", inputs="[torch.zeros(4, 8, dtype=torch.float16).t()]"),
    "state": request(
        "y = x @ self.weight\nself.seen.add_(1)\nreturn y",
        "self.weight = torch.nn.Parameter(torch.randn(8, 2))\n"
        "self.register_buffer('seen', torch.zeros((), dtype=torch.int64))\n"
        "self.own = torch.nn.Parameter(torch.ones(2))",
        given=["weight", "seen"],
    ),
    "counter": request(
        "self.seen.add_(1)\nreturn x + 1",
        "self.register_buffer('seen', torch.tensor(0))\nself.seen.zero_()",
        given=["seen"],
    ),
    "counter read": request(
        "return x * self.seen.item()", "self.register_buffer('seen', torch.tensor(3))", given=["seen"]
    ),
    "rebound state": request(
        "self.running = 0.9 * self.running + 0.1 * x.mean(0)\nreturn x - self.running",
        "self.register_buffer('running', torch.zeros(8))",
        given=["running"],
    ),
    "packed at first use": request(
        "if self.packed is None:\n    self.packed = self.weight.t().contiguous()\n"
        "y = torch.empty_like(x)\ndouble[(1,)](self.packed, y, 32, BLOCK=32)\nreturn y",
        "self.weight = torch.nn.Parameter(torch.randn(8, 4))\nself.packed = None",
        given=["weight"],
    ),
    "constructor's argument": request(
        "return x + self.shift",
        "self.shift = given[0] * 2",
        arguments="(torch.ones(8),)",
    ),
    "locks": request(
        "y = torch.empty_like(x)\ncounted[(4,)](x, y, self.locks, BLOCK=8)\nreturn y",
        "self.locks = torch.zeros(4, dtype=torch.int32)",
        more="""
@triton.jit
def counted(x_ptr, y_ptr, locks_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.atomic_add(locks_ptr + row, 1)
    at = row * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at))
    tl.atomic_xchg(locks_ptr + row, 0)
""",
    ),
    "graph": request(
        "if self.graph is None:\n    self.x, self.y = torch.empty_like(x), torch.empty_like(x)\n"
        "    self.graph = torch.cuda.CUDAGraph()\n    with torch.cuda.graph(self.graph):\n"
        "        double[(1,)](self.x, self.y, 32, BLOCK=32)\n"
        "self.x.copy_(x)\nself.graph.replay()\nreturn self.y.clone()",
        "self.graph = None",
    ),
    "streams": request(
        "side = torch.cuda.Stream()\nside.wait_stream(torch.cuda.current_stream())\ny = torch.empty_like(x)\n"
        f"with torch.cuda.stream(side):\n    {LAUNCH}\ny.record_stream(side)\n"
        "torch.cuda.current_stream().wait_stream(side)\nreturn y + 1",
    ),
    "autotune": request(
        "y = torch.empty_like(x)\n"
        "tuned[lambda meta: (triton.cdiv(x.numel(), meta['BLOCK']),)](x, y, x.numel())\nreturn y",
        more="""
@triton.autotune([triton.Config({"BLOCK": 16}, num_warps=2), triton.Config({"BLOCK": 32}, num_warps=4)], key=["n"])
@triton.jit
def tuned(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)
""",
    ),
    "addresses": request(
        "y = torch.empty_like(x)\nwhere = torch.tensor([x.data_ptr(), x[1].data_ptr(), y.data_ptr()], "
        "dtype=torch.int64, device=x.device)\npointed[(1,)](where)\nreturn y",
        more="""
@triton.jit
def pointed(where_ptr):
    x_ptr = tl.load(where_ptr + 1).to(tl.pointer_type(tl.float32))
    y_ptr = tl.load(where_ptr + 2).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, 8)
    tl.store(y_ptr + at, tl.load(x_ptr + at))
""",
    ),
    "address as argument": request(
        "y = torch.empty_like(x)\ndouble[(1,)](x[2].data_ptr(), y, 8, BLOCK=8)\nreturn y",
    ),
    "descriptor": request(
        "y = torch.empty_like(x)\nfrom triton.tools.tensor_descriptor import TensorDescriptor\n"
        "copied[(1,)](TensorDescriptor.from_tensor(x, [4, 8]), y)\nreturn y",
        more="""
@triton.jit
def copied(x_desc, y_ptr):
    at = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(y_ptr + at, x_desc.load([0, 0]))
""",
    ),
    "item": request("return x * x.sum().item()"),
    "condition": request("if x[0, 0] > 0:\n    return x\nreturn -x"),
    "nonzero": request("return x[x > 0]"),
    "own constant": request("scale = torch.tensor(3.0)\nreturn x * scale.item()"),
    "retained input": request(
        "y = x + 1 if self.last is None else self.last\nself.last = x * 2\nreturn y + x", "self.last = None"
    ),
    "cached answer": request("if self.y is None:\n    self.y = x + 1\nreturn self.y", "self.y = None"),
    "thread": request(
        "import threading\nmade = []\nthread = threading.Thread(target=lambda: made.append(x * 2))\n"
        "thread.start()\nthread.join()\nreturn x + made[0]",
    ),
    "thread with gradients": request(
        "import threading\nmade = []\nthread = threading.Thread(target=lambda: made.append(self.w * 2))\n"
        "thread.start()\nthread.join()\nreturn x + made[0]",
        "self.w = torch.nn.Parameter(torch.ones(8))",
    ),
    "launch in a thread": request(
        "from concurrent.futures import ThreadPoolExecutor\ny = torch.empty_like(x)\n"
        "with ThreadPoolExecutor(2) as pool:\n"
        "    list(pool.map(lambda _: double[(1,)](x, y, 32, BLOCK=32), range(2)))\nreturn y",
    ),
    "values from a thread": request(
        "import threading\nmade = []\nthread = threading.Thread(target=lambda: made.append(torch.ones(4, 8)))\n"
        "thread.start()\nthread.join()\nreturn x + made[0]",
    ),
    "quantised": request("return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).int_repr()"),
    "sparse": request("return x + torch.eye(4, 8).to_sparse()"),
    "conjugated": request("return x.conj()", inputs="[torch.zeros(4, dtype=torch.complex64)]"),
    "large constant": request("return x + torch.tensor([1.0] * 300000)[:8]"),
    "other memory": request("y = torch.empty(0)\ny.set_(x)\nreturn y"),
    "gpu time": request(
        "a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))\nreturn x * a.elapsed_time(b)"
    ),
    "raises in forward": request("raise ValueError('no such size')"),
    "strided beyond its storage": request("return x.as_strided((4, 8), (9, 1))"),
    "raises in constructor": request("return x", "raise KeyError('hidden')"),
    "exits": request("import sys\nsys.exit(0)"),
    "more memory than there is": request("return torch.empty(1 << 45)"),
    "foreign": request("return object()"),
    "no model": {"source": "ModelNew = 3\n", "inputs": ONE},
    "not Triton's language": request(
        "y = torch.empty_like(x)\nbad[(1,)](x, y)\nreturn y",
        more="import os\n@triton.jit\ndef bad(x_ptr, y_ptr):\n    os.system('true')\n",
    ),
    "too many parameters": request(
        "y = torch.empty_like(x)\nmany[(1,)](*[y] * 1200)\nreturn y",
        more="@triton.jit\ndef many(" + ", ".join(f"p{n}" for n in range(1200)) + "):\n    tl.store(p0, 0.0)\n",
    ),
    "library operator": request(
        "return torch.ops.mine.twice(x)",
        more="""
@torch.library.custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    double[(1,)](x, y, x.numel(), BLOCK=32)
    return y

@twice.register_fake
def _(x):
    return torch.empty_like(x)
""",
    ),
    "device questions": request(
        "assert x.is_cuda and x.device.type == 'cuda' and torch.cuda.is_available()\n"
        "count = torch.cuda.get_device_properties(x.device).multi_processor_count\n"
        "assert torch.cuda.get_device_capability() == (9, 0)\n"
        "y = torch.empty(4, 8, device='cuda', dtype=x.dtype)\ndouble[(count,)](x, y, x.numel(), BLOCK=32)\nreturn y",
    ),
    "to the device": request("return x.to('cuda') + torch.ones(8).cuda()"),
    "empty grid": request("y = torch.zeros_like(x)\ndouble[(0,)](x, y, 0, BLOCK=32)\nreturn y"),
    "grid too large": request("double[(1, 70000)](x, x, 0, BLOCK=32)\nreturn x"),
    "dropout": request("return torch.nn.functional.dropout(x, 0.5, training=self.training)", train=True),
    "autograd function": request(
        "return Twice.apply(x)",
        more="""
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        y = torch.empty_like(x)
        double[(1,)](x, y, x.numel(), BLOCK=32)
        return y
""",
    ),
    "autocast": request("return x @ x.t()", conditions={"autocast": "bfloat16"}),
    "own autocast": request(
        "with torch.autocast('cuda', dtype=torch.float16):\n    y = x @ x.t()\n"
        "    with torch.autocast('cuda', enabled=False):\n        z = x @ x.t()\nreturn y, z, x @ x.t()",
    ),
    "autocast of wide operators": request(
        "with torch.autocast('cuda', dtype=torch.float16):\n"
        "    return torch.softmax(x, -1), x.sum(), torch.nn.functional.layer_norm(x, (8,)), x @ x.t()",
        inputs="[torch.zeros(4, 8, dtype=torch.float16)]",
    ),
    "recurrent layer": request("return self.layer(x)[0]", "self.layer = torch.nn.LSTM(8, 4, bidirectional=True)"),
    "compiled and scripted": request(
        "return self.layer(helper(x))",
        "self.layer = torch.compile(torch.nn.Linear(8, 3))",
        more="@torch.jit.script\ndef helper(x):\n    return x * 2\n",
    ),
    "accelerator": request(
        "assert torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == 'cuda'\n"
        "generator = torch.Generator(x.device).manual_seed(3)\nassert generator.device.type == 'cuda'\n"
        "return x + torch.rand(8, generator=generator, device=x.device)",
    ),
    "pre-hook": request(
        "y = torch.empty_like(x)\nsummed[(1,)](x, y)\nreturn y",
        more="""
def clear(arguments):
    arguments["y_ptr"].zero_()

@triton.autotune([triton.Config({"N": 32}, pre_hook=clear), triton.Config({"N": 32}, num_warps=8)], key=[])
@triton.jit
def summed(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_add(y_ptr + at, tl.load(x_ptr + at))
""",
    ),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Traced]:
    return traced(REQUESTS)


def test_a_launch_writes_into_memory_that_the_call_allocates(found: dict[str, Traced]) -> None:
    made = found["allocation and launch"]
    assert made.outline() == ["Allocate", "double"] and made.prologue() == []
    allocate, launch = made.tape.steps
    assert isinstance(allocate, Allocate) and isinstance(launch, Launch)
    assert made.tape.buffers[allocate.buffer].place is Place.FRESH
    (choice,) = launch.choices
    arguments = dict(choice.arguments)
    assert arguments["x_ptr"] == made.tape.inputs[0] and arguments["y_ptr"] == made.tape.outputs[0]
    assert arguments["n"] == 32 and choice.grid == (1, 1, 1)
    assert isinstance(arguments["BLOCK"], Constexpr) and value_from_json(arguments["BLOCK"].value) == 32
    assert launch.line == 1 + REQUESTS["allocation and launch"]["source"].split("\n").index(f"        {LAUNCH}") + 4


def test_a_view_is_no_step(found: dict[str, Traced]) -> None:
    tape = found["view"].tape
    assert tape.steps == ()
    assert tape.outputs == (dataclasses.replace(tape.inputs[0], shape=(2, 7), strides=(1, 4), offset=6),)


def test_an_operator_in_place_returns_the_memory_it_wrote(found: dict[str, Traced]) -> None:
    made = found["in place"]
    assert made.outline() == ["aten.zeros_like.default", "aten.add_.Tensor", "aten.mul_.Tensor"]
    assert {step.results[0] for step in made.tape.steps if isinstance(step, Operate)} == set(made.tape.outputs)


def test_a_change_of_an_input_is_kept_though_no_output_needs_it(found: dict[str, Traced]) -> None:
    assert found["input in place"].outline() == ["aten.mul_.Tensor", "aten.add.Tensor"]


def test_outputs_keep_their_nesting_and_their_plain_values(found: dict[str, Traced]) -> None:
    tape = found["several outputs"].tape
    assert len(tape.outputs) == 3 and tape.outputs[1] == tape.inputs[0]
    assert tape.outputs[2].buffer == tape.outputs[0].buffer and tape.outputs[2].shape == (8,)
    (both, part) = tape.tree["dict"]
    assert both == ["both", {"tuple": [{"tensor": 0}, {"tensor": 1}]}]
    assert part[1]["list"][1:] == [{"value": None}, {"value": 3}, {"float": "0.5"}, {"value": "a"}]


def test_what_is_written_through_out_is_a_result(found: dict[str, Traced]) -> None:
    made = found["out argument"]
    assert made.outline() == ["Allocate", "aten.add.out"]


def test_work_that_nothing_depends_on_is_left_out(found: dict[str, Traced]) -> None:
    assert found["unused work"].outline() == ["aten.add.Tensor"]


def test_plain_arguments_of_a_call_are_written_into_the_tape(found: dict[str, Traced]) -> None:
    (step,) = found["scalars"].tape.steps
    assert isinstance(step, Operate) and step.operator == "aten.mul.Tensor" and step.args[1] == 2.5


def test_inputs_lie_as_they_were_given(found: dict[str, Traced]) -> None:
    (view,) = found["noncontiguous input"].tape.inputs
    assert (view.dtype, view.shape, view.strides, view.offset) == ("float16", (8, 4), (1, 8), 0)


def test_parameters_of_the_reference_come_from_outside_and_own_ones_from_the_prologue(found: dict[str, Traced]) -> None:
    made = found["state"]
    assert {name for name, _ in made.tape.state} == {"weight", "seen"}
    assert {made.tape.buffers[view.buffer].place for _, view in made.tape.state} == {Place.STATE}
    assert made.prologue() == [] and "aten.add_.Tensor" in made.outline()


def test_a_counter_of_the_reference_is_counted_once_in_a_call(found: dict[str, Traced]) -> None:
    made = found["counter"]
    assert made.prologue() == [] and made.outline() == ["aten.add_.Tensor", "aten.add.Tensor"]
    (step, _) = made.tape.steps
    assert isinstance(step, Operate) and step.results == (dict(made.tape.state)["seen"],)


def test_what_the_constructor_wrote_into_state_is_not_known_in_a_call(found: dict[str, Traced]) -> None:
    assert found["counter read"].ending == "reads_values"


def test_a_buffer_that_is_bound_anew_is_named(found: dict[str, Traced]) -> None:
    tape = found["rebound state"].tape
    ((name, view),) = tape.rebound
    assert name == "running" and tape.buffers[view.buffer].place is Place.FRESH and view.shape == (8,)
    assert dict(tape.state)["running"] != view


def test_weights_packed_at_first_use_are_packed_in_the_prologue(found: dict[str, Traced]) -> None:
    made = found["packed at first use"]
    assert made.prologue() == ["aten.clone.default"] and made.outline() == ["Allocate", "double"]
    (step,) = made.tape.prologue
    assert isinstance(step, Operate) and isinstance(step.args[0], View)
    assert made.tape.buffers[step.args[0].buffer].place is Place.STATE


def test_what_is_made_of_a_constructors_argument_is_prepared_once(found: dict[str, Traced]) -> None:
    made = found["constructor's argument"]
    assert made.prologue() == ["aten.mul.Tensor"] and made.outline() == ["aten.add.Tensor"]
    assert made.tape.buffers[made.tape.arguments[0].buffer].place is Place.ARGUMENT


def test_locks_are_as_the_constructor_left_them_in_every_call(found: dict[str, Traced]) -> None:
    made = found["locks"]
    assert made.prologue() == [] and made.outline() == ["aten.zeros.default", "Allocate", "counted"]


def test_a_captured_graph_becomes_the_steps_that_it_captured(found: dict[str, Traced]) -> None:
    made = found["graph"]
    assert [name for name in made.outline() if name != "Allocate"] == [
        "aten.copy_.default",
        "double",
        "aten.clone.default",
    ]
    assert all(name == "Allocate" for name in made.prologue())


def test_work_on_several_streams_is_in_the_order_of_python(found: dict[str, Traced]) -> None:
    assert found["streams"].outline() == ["Allocate", "double", "aten.add.Tensor"]


def test_every_configuration_of_an_autotuner_is_a_choice(found: dict[str, Traced]) -> None:
    (launch,) = found["autotune"].tape.launches()
    assert [choice.grid for choice in launch.choices] == [(2, 1, 1), (1, 1, 1)]
    assert [dict(choice.options)["num_warps"] for choice in launch.choices] == [2, 4]
    blocks = [dict(choice.arguments)["BLOCK"] for choice in launch.choices]
    assert [value_from_json(block.value) for block in blocks if isinstance(block, Constexpr)] == [16, 32]


def test_hooks_of_an_autotuner_are_steps_too(found: dict[str, Traced]) -> None:
    made = found["pre-hook"]
    assert "aten.zero_.default" in made.outline() and made.outline()[-1] == "summed"
    (launch,) = made.tape.launches()
    assert len(launch.choices) == 2


def test_addresses_written_into_a_tensor_are_filled_in_at_every_replay(found: dict[str, Traced]) -> None:
    tape = found["addresses"].tape
    (constant,) = (step for step in tape.steps if isinstance(step, Constant))
    x, y = tape.inputs[0].buffer, tape.outputs[0].buffer
    assert constant.relocations == (
        (0, Address(buffer=x, offset=0)),
        (8, Address(buffer=x, offset=32)),
        (16, Address(buffer=y, offset=0)),
    )
    assert len(constant.data) == 24


def test_an_address_as_an_argument_names_a_place_in_a_buffer(found: dict[str, Traced]) -> None:
    made = found["address as argument"]
    (launch,) = made.tape.launches()
    assert dict(launch.choices[0].arguments)["x_ptr"] == Address(buffer=made.tape.inputs[0].buffer, offset=64)


def test_a_host_side_descriptor_describes_a_view(found: dict[str, Traced]) -> None:
    made = found["descriptor"]
    (launch,) = made.tape.launches()
    described = dict(launch.choices[0].arguments)["x_desc"]
    assert isinstance(described, Descriptor)
    assert described.view == made.tape.inputs[0] and described.block_shape == (4, 8)


@pytest.mark.parametrize("name", ["item", "condition", "nonzero"])
def test_host_code_that_reads_a_tensor_has_no_tape(found: dict[str, Traced], name: str) -> None:
    assert found[name].ending == "reads_values" and found[name].raised["phase"] == "forward"
    assert found[name].raised["lines"], "nobody is told where"


def test_a_number_that_python_wrote_down_may_be_asked_for(found: dict[str, Traced]) -> None:
    (step,) = found["own constant"].tape.steps
    assert isinstance(step, Operate) and step.args[1] == 3.0


@pytest.mark.parametrize("name", ["retained input", "cached answer"])
def test_a_call_that_reads_what_an_earlier_one_computed_has_no_tape(found: dict[str, Traced], name: str) -> None:
    assert found[name].ending == "retained"


@pytest.mark.parametrize("name", ["sparse", "quantised", "conjugated", "large constant", "other memory", "gpu time"])
def test_what_cannot_be_put_on_a_tape_is_refused_and_says_why(found: dict[str, Traced], name: str) -> None:
    assert found[name].ending == "not_on_tape" and found[name].raised["text"]


@pytest.mark.parametrize(
    ("name", "phase", "kind"),
    [
        ("raises in forward", "forward", "ValueError"),
        ("strided beyond its storage", "forward", "RuntimeError"),
        ("raises in constructor", "construct", "KeyError"),
        ("exits", "forward", "SystemExit"),
        ("more memory than there is", "forward", "OutOfMemoryError"),
    ],
)
def test_what_the_candidate_raises_is_reported_with_its_phase(
    found: dict[str, Traced], name: str, phase: str, kind: str
) -> None:
    raised = found[name].raised
    assert (raised["phase"], raised["ending"]) == (phase, "") and raised["kinds"][0] == kind


def test_what_no_reference_returns_is_foreign(found: dict[str, Traced]) -> None:
    assert found["foreign"].ending == "foreign"


def test_a_file_without_a_module_class_has_no_model(found: dict[str, Traced]) -> None:
    assert found["no model"].reply == {"is": "Loaded", "has_model": False}


def test_a_kernel_outside_tritons_language_is_told_as_one(found: dict[str, Traced]) -> None:
    assert found["not Triton's language"].ending == "kernel"
    assert found["too many parameters"].ending == "kernel" and "1024" in found["too many parameters"].raised["text"]


@pytest.mark.parametrize("name", ["library operator", "autograd function", "device questions"])
def test_what_an_operator_of_the_candidates_own_does_is_on_the_tape(found: dict[str, Traced], name: str) -> None:
    assert found[name].outline() == ["Allocate", "double"]


def test_host_code_is_told_of_the_card(found: dict[str, Traced]) -> None:
    (launch,) = found["device questions"].tape.launches()
    assert launch.choices[0].grid == (132, 1, 1)


def test_moving_to_the_device_moves_nothing(found: dict[str, Traced]) -> None:
    assert found["to the device"].outline() == ["aten.ones.default", "aten.add.Tensor"]


def test_a_launch_without_programs_is_none(found: dict[str, Traced]) -> None:
    assert found["empty grid"].outline() == ["aten.zeros_like.default"]


def test_a_grid_that_a_gpu_refuses_is_refused(found: dict[str, Traced]) -> None:
    raised = found["grid too large"].raised
    assert raised["kinds"][0] == "ValueError" and "70000" in raised["text"]


def test_random_operators_are_part_of_the_call(found: dict[str, Traced]) -> None:
    made = found["dropout"]
    assert made.prologue() == [] and any("bernoulli" in name or "dropout" in name for name in made.outline())


def test_under_autocast_products_are_narrow_on_the_tape(found: dict[str, Traced]) -> None:
    assert found["autocast"].tape.outputs[0].dtype == "bfloat16"


def test_autocast_that_the_candidate_switches_itself_holds_where_it_says(found: dict[str, Traced]) -> None:
    assert [view.dtype for view in found["own autocast"].tape.outputs] == ["float16", "float32", "float32"]


def test_autocast_widens_what_cuda_widens(found: dict[str, Traced]) -> None:
    dtypes = [view.dtype for view in found["autocast of wide operators"].tape.outputs]
    assert dtypes == ["float32", "float32", "float32", "float16"]


def test_a_recurrent_layer_is_recorded_without_operators_of_the_cpu(found: dict[str, Traced]) -> None:
    assert not any("mkldnn" in name for name in found["recurrent layer"].outline())


def test_compiled_and_scripted_parts_are_recorded_as_they_are_called(found: dict[str, Traced]) -> None:
    assert found["compiled and scripted"].outline() == ["aten.mul.Tensor", "aten.addmm.default"]


def test_a_generator_of_the_gpu_is_not_on_the_tape(found: dict[str, Traced]) -> None:
    assert found["accelerator"].outline() == ["aten.rand.generator", "aten.add.Tensor"]


def test_a_tape_survives_json_and_mentions_every_buffer_once(found: dict[str, Traced]) -> None:
    for name, made in found.items():
        if "tape" in made.reply:
            assert encode(made.tape) == made.reply["tape"], name
            assert made.kernels.functions.keys() == set(made.tape.kernels()), name


@pytest.mark.parametrize("name", ["thread", "thread with gradients", "launch in a thread"])
def test_work_on_tensors_in_another_thread_is_refused_by_name(found: dict[str, Traced], name: str) -> None:
    assert found[name].ending == "not_on_tape" and "thread" in found[name].raised["text"]


def test_values_that_a_thread_made_without_the_inputs_are_a_constant(found: dict[str, Traced]) -> None:
    made = found["values from a thread"]
    assert made.outline() == ["Constant", "aten.add.Tensor"]
    assert made.tape.steps[0].data == struct.pack("32f", *[1.0] * 32)  # type: ignore[union-attr]


def test_no_address_of_the_tracer_is_on_a_tape(found: dict[str, Traced]) -> None:
    (constant,) = (step for step in found["addresses"].tape.steps if isinstance(step, Constant))
    words = struct.unpack("3q", constant.data)
    assert words[0] != 0  # what stands there is the tracer's number, replaced at every replay
    assert len(constant.relocations) == len(words)
