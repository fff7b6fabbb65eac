"""The operator graph: right edges whatever Python does, equal for equal structure, and recording leaves no trace."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from triton_agent.tools.errors import ProblemError
from triton_agent.tools.graph.fingerprint import fingerprint, signature
from triton_agent.tools.graph.graph import Node, OperatorGraph, Reference, kind_of
from triton_agent.tools.graph.recorder import extract


class Call(nn.Module):
    """A module that calls a function. Tensors and modules given by keyword become its buffers and submodules."""

    def __init__(self, function: Callable[..., Any], **members: Any) -> None:
        super().__init__()
        self.function = function
        for name, member in members.items():
            if isinstance(member, torch.Tensor) and not isinstance(member, nn.Parameter):
                self.register_buffer(name, member)
            else:
                setattr(self, name, member)

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        return self.function(self, *inputs, **keywords)


def matrix(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def operators(graph: OperatorGraph) -> list[str]:
    return [node.operator.removeprefix("aten.") for node in graph.nodes]


# --- A graph says what the model computed: run again from the graph alone, it gives the model's outputs. ---


def replay(graph: OperatorGraph, sources: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    values = {name: tensor.clone() for name, tensor in sources.items()}
    for node in graph.nodes:
        result = run_node(node, values)
        made = list(result) if isinstance(result, list | tuple) else [result]
        values |= {node.output_name(k): tensor for k, tensor in enumerate(made)}
    return [values[name] for name in graph.outputs]


def run_node(node: Node, values: dict[str, torch.Tensor]) -> Any:
    arguments = [resolved(name, value, values) for name, value in zip(node.argument_names, node.arguments)]
    keywords = {name: resolved(name, value, values) for name, value in node.keywords.items()}
    packet = getattr(torch.ops.aten, node.operator.removeprefix("aten."))
    if node.overload:
        return getattr(packet, node.overload)(*arguments, **keywords)
    return packet(**dict(zip(node.argument_names, arguments)), **keywords)


def resolved(name: str, argument: Any, values: dict[str, torch.Tensor]) -> Any:
    if isinstance(argument, Reference):
        return values[argument.name]
    if isinstance(argument, tuple):
        return [resolved("", item, values) for item in argument]
    return getattr(torch, argument) if name in ("dtype", "memory_format") and argument else argument


def write_through_a_view(_: Any, x: torch.Tensor) -> Any:
    y = x * 1
    rows = y.t()
    rows[1] += 5
    y.view(-1)[3:9].mul_(2)
    return y, rows, y.sum(0)


def fill_an_output_piecewise(_: Any, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, 6)
    out[:, :3] = x[:, :3]
    out[:, 3:] = x[:, 5:] * 2
    return out


def unroll_a_recurrence(module: Any, x: torch.Tensor) -> torch.Tensor:
    state = torch.zeros(8)
    for row in x:
        state = torch.tanh(module.cell(row) + state)
    return state


WIRING = {
    "linear": (nn.Linear(8, 3), [matrix(4, 8)]),
    "linear on a batch": (nn.Linear(8, 3), [matrix(2, 4, 8)]),
    "convolution": (nn.Conv2d(3, 4, 3, padding=1), [matrix(2, 3, 5, 5)]),
    "in-place activation": (nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True)), [matrix(4, 8)]),
    "layer norm and softmax": (nn.Sequential(nn.LayerNorm(8), nn.Softmax(-1)), [matrix(4, 8)]),
    "write through a view": (Call(write_through_a_view), [matrix(4, 8)]),
    "output filled piece by piece": (Call(fill_an_output_piecewise), [matrix(4, 8)]),
    "metadata changed in place": (Call(lambda _, x: x.clone().t_() @ x), [matrix(4, 8)]),
    "result given by out=": (Call(lambda _, x: torch.add(x, 1, out=torch.empty_like(x)) * 2), [matrix(4, 8)]),
    "alias read after its base was overwritten": (
        Call(lambda _, x: (lambda y: (y.t(), y.add_(1))[0])(x * 2)),
        [matrix(4, 8)],
    ),
    "slices of one tensor": (Call(lambda _, x: x[:, :4] * torch.sigmoid(x[:, 4:])), [matrix(4, 8)]),
    "unrolled loop": (Call(unroll_a_recurrence, cell=nn.Linear(8, 8)), [matrix(5, 8)]),
    "a part, then all parts": (Call(lambda _, x: x[0] * 2 + torch.stack(x.unbind())[3] * x[1]), [matrix(4, 8)]),
    "attention": (Call(lambda _, q, k: F.scaled_dot_product_attention(q, k, k)), [matrix(2, 2, 4, 8)] * 2),
    "detached and copied": (Call(lambda _, x: x.detach().to(torch.float64).contiguous() + 1), [matrix(4, 8)]),
}


@pytest.mark.parametrize("case", WIRING)
def test_replaying_the_graph_gives_the_outputs_of_the_model(case: str) -> None:
    model, inputs = WIRING[case]
    graph = extract(model, inputs)
    sources = {f"x{k}": tensor for k, tensor in enumerate(inputs)}
    sources |= {f"p:{name}": parameter.detach() for name, parameter in model.named_parameters()}
    expected = model(*[tensor.clone() for tensor in inputs])
    expected = expected if isinstance(expected, tuple) else (expected,)
    for replayed, wanted in zip(replay(graph, sources), expected, strict=True):
        torch.testing.assert_close(replayed, wanted.detach())


# --- What goes in and out. ---


def test_linear_reads_as_a_person_would_write_it() -> None:
    assert extract(nn.Linear(8, 3), [matrix(4, 8)]).dump().splitlines() == [
        "x0: float32[4, 8]",
        "p:weight: float32[3, 8]",
        "p:bias: float32[3]",
        "n0 = aten.t(p:weight) -> float32[8, 3] strides [1, 8]  # view of p:weight",
        "n1 = aten.addmm(p:bias, x0, n0) -> float32[4, 3]",
        "return n1",
    ]


def test_nested_inputs_and_outputs_keep_their_order_and_nesting() -> None:
    model = Call(lambda _, pair, scale, table, flag: {"sum": pair[0] + pair[1], "rest": (table["k"] * scale, flag)})
    graph = extract(model, [(matrix(4), matrix(4)), 3, {"k": matrix(2)}, True])
    assert list(graph.inputs) == ["x0", "x1", "x2"]
    assert graph.output_structure == "{'sum': *, 'rest': (*, True)}"
    assert graph.nodes[1].argument("other") == 3


def test_keyword_inputs_come_after_positional_ones() -> None:
    graph = extract(Call(lambda _, x, *, w=None: x * w), [matrix(4)], kwargs={"w": matrix(1)})
    assert {name: meta.shape for name, meta in graph.inputs.items()} == {"x0": (4,), "x1": (1,)}


def test_an_input_handed_back_unchanged_is_no_node() -> None:
    graph = extract(Call(lambda _, x, y: (x, y.detach())), [matrix(4), matrix(3)])
    assert graph.outputs == ("x0", "x1")
    assert graph.nodes == ()


def test_one_tensor_passed_twice_is_one_value() -> None:
    x = matrix(4)
    graph = extract(Call(lambda _, x, y: x + y), [x, x])
    assert list(graph.nodes[0].references()) == ["x0", "x0"]
    assert graph.shared == {"x1": "x0"}


def test_tied_parameters_are_one_value() -> None:
    first, second = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
    second.weight = first.weight
    graph = extract(nn.Sequential(first, second), [matrix(4, 8)])
    assert list(graph.parameters) == ["p:0.weight"]
    takers = [node.operator for node in graph.nodes if "n0" in node.references()]
    assert takers == ["aten.mm", "aten.mm"]


def test_a_constant_says_where_a_module_holds_it_or_what_is_in_it() -> None:
    elsewhere = matrix(100)

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask, self.tables = matrix(3), [{"sine": matrix(1, 3)}]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights = torch.tensor([0.5, float("inf"), -2.0])
            return (x * self.mask + self.tables[0]["sine"] * weights)[:, [2, 0]] + elsewhere.sum()

    graph = extract(nn.Sequential(Holder()), [matrix(2, 3)])
    assert graph.held == {"c0": "0.mask", "c1": "0.tables[0]['sine']"}
    assert graph.contents == {"c2": (0.5, float("inf"), -2.0), "c3": (2, 0)}
    assert set(graph.constants) == {"c0", "c1", "c2", "c3", "c4"}
    assert not graph.data_dependent
    assert OperatorGraph.from_json(json.loads(json.dumps(graph.to_json()))) == graph


def test_tensors_from_elsewhere_are_constants_and_single_elements_are_numbers() -> None:
    table = matrix(8)
    graph = extract(Call(lambda _, x: x + table + torch.tensor(2.5)), [matrix(4, 8)])
    assert {name: meta.shape for name, meta in graph.constants.items()} == {"c0": (8,)}
    assert graph.nodes[-1].argument("other") == 2.5


def test_integer_boolean_and_empty_tensors_are_values_like_any_other() -> None:
    graph = extract(
        Call(lambda _, x, m: x.masked_fill(m, 0).sum(0)), [torch.ones(0, 3, dtype=torch.int64), matrix(3) > 0]
    )
    assert [meta.dtype for meta in graph.inputs.values()] == ["int64", "bool"]
    assert graph.nodes[-1].outputs[0].shape == (3,)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_are_refused_with_a_way_out() -> None:
    with pytest.raises(ProblemError, match="padded"):
        extract(Call(lambda _, x: torch.nested.nested_tensor([x[0], x[1]]).to_padded_tensor(0)), [matrix(4, 8)])


def test_autocast_shows_as_casts() -> None:
    def narrowed(module: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return module.inner(x)

    graph = extract(Call(narrowed, inner=nn.Linear(8, 3)), [matrix(4, 8)])
    assert operators(graph).count("_to_copy") == 3
    assert graph.values()[graph.outputs[0]].dtype == "bfloat16"


@pytest.mark.parametrize(
    "look",
    [
        lambda _, x: x * 2 if x.sum() > 0 else x * 3,
        lambda _, x: x * x.max().item(),
        lambda _, x: x * x.tolist()[0],
        lambda _, x: x[x > 0],
        lambda _, x: x.nonzero(),
    ],
)
def test_a_look_at_values_marks_the_graph(look: Callable[..., Any]) -> None:
    assert extract(Call(look), [matrix(4)]).data_dependent


def test_control_flow_on_shapes_and_indexing_by_numbers_look_at_no_values() -> None:
    model = Call(lambda _, x, i: x[i] * torch.tensor(3).item() if x.shape[0] > 2 else x)
    assert not extract(model, [matrix(4), torch.tensor([1, 2])]).data_dependent


# --- Names are the same on every device, and whole operators stay whole. ---


@pytest.mark.parametrize(
    ("model", "inputs", "operator"),
    [
        (nn.LSTM(8, 5), [matrix(3, 2, 8)], "lstm"),
        (nn.GRU(8, 5, num_layers=2, bidirectional=True), [matrix(3, 2, 8)], "gru"),
        (nn.RNN(8, 5), [matrix(3, 2, 8)], "rnn_tanh"),
        (nn.GRUCell(8, 5), [matrix(2, 8)], "gru_cell"),
        (nn.LSTMCell(8, 5), [matrix(2, 8)], "lstm_cell"),
        (nn.RMSNorm(8), [matrix(2, 8)], "rms_norm"),
        (nn.Dropout(0.5), [matrix(2, 8)], "dropout"),
        (nn.BatchNorm1d(8).eval(), [matrix(2, 8)], "batch_norm"),
        (nn.InstanceNorm1d(8), [matrix(2, 8, 4)], "batch_norm"),
        (nn.MultiheadAttention(8, 2).eval(), [matrix(3, 2, 8)] * 3, "softmax"),
        (Call(lambda _, x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)), [matrix(1, 2, 4, 8)], "attention"),
    ],
)
def test_an_operator_that_devices_run_differently_is_one_node(
    model: nn.Module, inputs: list[Any], operator: str
) -> None:
    assert sum(name.endswith(operator) for name in operators(extract(model, inputs))) == 1


def test_packed_sequences_reach_the_recurrence_whole() -> None:
    packed = nn.utils.rnn.pack_sequence([matrix(3, 8), matrix(2, 8)])
    graph = extract(nn.GRU(8, 5), [packed])
    recurrence = next(node for node in graph.nodes if node.operator == "aten.gru")
    assert recurrence.argument("batch_sizes") is not None
    assert recurrence.argument("num_layers") == 1


def test_attention_has_the_same_arguments_through_every_door() -> None:
    inside = extract(nn.MultiheadAttention(8, 2).eval(), [matrix(3, 2, 8)] * 3, kwargs={"need_weights": False})
    direct = extract(Call(lambda _, x: F.scaled_dot_product_attention(x, x, x)), [matrix(1, 2, 4, 8)])
    first, second = (
        next(node for node in graph.nodes if node.operator == "aten.scaled_dot_product_attention")
        for graph in (inside, direct)
    )
    assert first.argument_names == second.argument_names
    assert first.arguments[3:] == second.arguments[3:] == (None, 0.0, False, None, False)


ATEN = torch.ops.aten
HEADS, PLACES, IMAGE = [matrix(1, 2, 4, 8) for _ in range(3)], matrix(1, 3, 3, 2), matrix(1, 2, 4, 4)
STATISTICS = matrix(2), matrix(2), torch.zeros(2), torch.ones(2)
ON_GPUS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any], list[torch.Tensor]]] = {
    "cudnn_grid_sampler": (
        lambda x, grid: ATEN.grid_sampler_2d(x, grid, 0, 0, True),
        lambda _, x, grid: ATEN.cudnn_grid_sampler(x, grid),
        lambda _, x, grid: F.grid_sample(x, grid, align_corners=True),
        [IMAGE, PLACES],
    ),
    "cudnn_batch_norm": (
        lambda *given: (*ATEN.native_batch_norm(*given), torch.empty(0)),
        lambda _, *given: ATEN.cudnn_batch_norm(*given, False, 0.1, 1e-5)[0],
        lambda _, x, weight, bias, mean, var: F.batch_norm(x, mean, var, weight, bias),
        [IMAGE, *STATISTICS],
    ),
    "miopen_batch_norm": (
        ATEN.native_batch_norm,
        lambda _, *given: ATEN.miopen_batch_norm(*given, False, 0.1, 1e-5)[0],
        lambda _, x, weight, bias, mean, var: F.batch_norm(x, mean, var, weight, bias),
        [IMAGE, *STATISTICS],
    ),
    "_scaled_dot_product_efficient_attention": (
        lambda q, k, v, *_, **__: (F.scaled_dot_product_attention(q, k, v), *(torch.empty(0) for _ in range(3))),
        lambda _, q, k, v: ATEN._scaled_dot_product_efficient_attention(q, k, v, None, False)[0],
        lambda _, q, k, v: F.scaled_dot_product_attention(q, k, v),
        HEADS,
    ),
}
"""For operators that only GPUs use: the patch that imitates a GPU, the call, the same call on a CPU, and its inputs."""


@pytest.mark.parametrize("operator", ON_GPUS)
def test_what_only_gpus_dispatch_is_written_down_as_on_a_cpu(operator: str) -> None:
    stand_in, on_gpu, on_cpu, inputs = ON_GPUS[operator]
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl(operator, stand_in, "CPU")
        seen = extract(Call(on_gpu), inputs)
    expected = extract(Call(on_cpu), inputs)
    assert fingerprint(seen) == fingerprint(expected)
    assert [node.arguments for node in seen.nodes] == [node.arguments for node in expected.nodes]


# --- What is written in place. ---


def test_batch_norm_in_training_updates_its_statistics() -> None:
    graph = extract(nn.BatchNorm1d(8), [matrix(4, 8)])
    norm = next(node for node in graph.nodes if node.operator == "aten.batch_norm")
    assert norm.writes == ("b:running_mean", "b:running_var")
    assert set(graph.updates) == {"b:running_mean", "b:running_var", "b:num_batches_tracked"}
    assert graph.updates["b:running_var"] == norm.output_name(2)


def test_an_input_overwritten_in_place_is_an_update() -> None:
    graph = extract(Call(lambda _, x: x.add_(1)), [matrix(4)])
    assert graph.nodes[0].operator == "aten.add"
    assert graph.nodes[0].writes == ("x0",)
    assert graph.updates == {"x0": "n0"}
    assert graph.outputs == ("n0",)


def test_a_cache_written_at_one_place_is_read_whole_afterwards() -> None:
    def step(module: Any, row: torch.Tensor, position: int) -> torch.Tensor:
        module.cache[position] = row
        return module.cache.sum(0)

    graph = extract(Call(step, cache=torch.zeros(6, 5)), [matrix(5), 2])
    assert operators(graph) == ["select", "copy", "as_strided_scatter", "sum"]
    assert list(graph.nodes[-1].references()) == [graph.updates["b:cache"]]


# --- No trace is left. ---


def test_the_caller_finds_model_inputs_and_random_states_as_they_were() -> None:
    def restless(module: Any, x: torch.Tensor) -> torch.Tensor:
        module.calls.append(len(module.calls))
        module.norm.weight.data.mul_(2)
        module.seen.add_(1)
        random.random()
        return F.dropout(module.norm(x.mul_(3)))

    model = Call(restless, norm=nn.BatchNorm1d(8), seen=torch.zeros(2, 2), calls=[])
    x = matrix(4, 16)[:, ::2]
    before, x_before = {name: tensor.clone() for name, tensor in model.state_dict().items()}, x.clone()
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    extract(model, [x])
    assert torch.equal(x, x_before)
    assert model.calls == [] and model.training
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), torch_state) and random.getstate() == python_state


def test_data_assigned_and_shapes_changed_in_place_are_put_back() -> None:
    def reassign(module: Any, x: torch.Tensor) -> torch.Tensor:
        module.weight.data = module.weight.data * 2
        return x.t_() @ module.weight

    model, x = Call(reassign, weight=nn.Parameter(torch.ones(4, 3))), matrix(4, 8)
    extract(model, [x])
    assert torch.equal(model.weight, torch.ones(4, 3))
    assert x.shape == (4, 8)


def test_a_model_that_cannot_be_copied_is_put_back_by_hand() -> None:
    def counted(module: Any, x: torch.Tensor) -> torch.Tensor:
        module.calls = module.calls + 1
        return x + module.calls

    model = Call(counted, calls=0, lock=threading.Lock())
    assert extract(model, [matrix(4)]).nodes[0].argument("other") == 1
    assert model.calls == 0


def test_a_model_that_raises_leaves_no_trace_either() -> None:
    def fails(_: Any, x: torch.Tensor) -> None:
        x.zero_()
        raise LookupError("as any model might")

    x = torch.ones(4)
    with pytest.raises(LookupError):
        extract(Call(fails), [x])
    assert torch.equal(x, torch.ones(4))


# --- When two graphs are the same. ---


def perceptron(width: int, activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 2 * width), activation, nn.Linear(2 * width, width))


def test_sizes_do_not_change_the_fingerprint_but_the_signature() -> None:
    small, large = (
        extract(perceptron(8, nn.ReLU()), [matrix(2, 3, 8)]),
        extract(perceptron(16, nn.ReLU()), [matrix(4, 5, 16)]),
    )
    assert fingerprint(small) == fingerprint(large)
    assert signature(small) != signature(large)


def test_names_of_parameters_and_the_order_of_independent_nodes_do_not_change_the_fingerprint() -> None:
    def one_way(module: Any, x: torch.Tensor) -> torch.Tensor:
        left = module.a(x)
        return left + module.b(x).tanh()

    def other_way(module: Any, x: torch.Tensor) -> torch.Tensor:
        right = module.first(x).tanh()
        return module.second(x) + right

    first = Call(one_way, a=nn.Linear(8, 8), b=nn.Linear(8, 8))
    second = Call(other_way, first=nn.Linear(8, 8), second=nn.Linear(8, 8))
    assert signature(extract(first, [matrix(4, 8)])) == signature(extract(second, [matrix(4, 8)]))


def test_in_place_or_not_is_the_same_structure() -> None:
    graphs = [extract(perceptron(8, nn.ReLU(inplace=flag)), [matrix(4, 8)]) for flag in (True, False)]
    assert fingerprint(graphs[0]) == fingerprint(graphs[1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda _, x, y: x - y, lambda _, x, y: y - x),
        (lambda _, x, y: x * 2, lambda _, x, y: x * 3),
        (lambda _, x, y: x.sum(0), lambda _, x, y: x.sum(1)),
        (lambda _, x, y: (x + y, x), lambda _, x, y: (x, x + y)),
        (lambda _, x, y: x @ x + y, lambda _, x, y: x @ y + y),
        (lambda _, x, y: x.double() + y, lambda _, x, y: x.float() + y),
        (lambda _, x, y: x[1:], lambda _, x, y: x[:1]),
        (lambda _, x, y: [x + y], lambda _, x, y: x + y),
        (lambda _, x, y: x + y, lambda _, x, y: x.add_(y)),
    ],
)
def test_other_wiring_constants_dtypes_or_effects_change_the_fingerprint(
    one: Callable[..., Any], other: Callable[..., Any]
) -> None:
    inputs = [matrix(8, 8), matrix(8, 8)]
    assert fingerprint(extract(Call(one), inputs)) != fingerprint(extract(Call(other), inputs))


def test_two_weights_used_once_differ_from_one_weight_used_twice() -> None:
    two = Call(lambda m, x: m.a(x) + m.b(x), a=nn.Linear(8, 8), b=nn.Linear(8, 8))
    one = Call(lambda m, x: m.a(x) + m.a(x), a=nn.Linear(8, 8))
    assert fingerprint(extract(two, [matrix(4, 8)])) != fingerprint(extract(one, [matrix(4, 8)]))


def test_json_carries_everything() -> None:
    model = Call(lambda m, x: (m.norm(x) * 2j, x.clamp(max=float("inf")), x.add_(1)), norm=nn.BatchNorm1d(8))
    graph = extract(model, [matrix(4, 8)])
    again = OperatorGraph.from_json(json.loads(json.dumps(graph.to_json(), allow_nan=False)))
    assert again == graph
    assert signature(again) == signature(graph)


def test_a_long_unrolled_loop_is_no_problem() -> None:
    def steps(_: Any, x: torch.Tensor) -> torch.Tensor:
        for _step in range(1500):
            x = x + 1
        return x

    graph = extract(Call(steps), [matrix(2)])
    assert len(graph.nodes) == 1500
    assert fingerprint(graph)


# --- Kinds of operators. ---

KINDS = {
    "heavy": "mm addmm bmm convolution scaled_dot_product_attention _flash_attention_forward lstm _cudnn_rnn _fft_r2c "
    "linalg_cholesky_ex _linalg_svd linalg_solve_triangular convolution_backward",
    "arithmetic": "add mul relu gelu sigmoid where pow sort topk eq __and__ masked_fill _foreach_add_",
    "reduction": "sum mean amax _softmax native_layer_norm cumsum max_pool2d_with_indices any argmax var_mean "
    "nll_loss_forward",
    "movement": "copy_ clone cat stack constant_pad_nd _to_copy flip fill_ zero_ slice_scatter tril",
    "view": "view t transpose permute expand slice select unsqueeze squeeze as_strided detach alias unbind "
    "_unsafe_view split diagonal unfold t_ lift_fresh",
    "allocation": "empty empty_like zeros full new_zeros arange scalar_tensor eye",
    "random": "rand randn bernoulli_ normal_ uniform_ native_dropout randperm multinomial",
    "index": "index embedding gather scatter_add_ index_select index_put_ nonzero _embedding_bag masked_select",
    "metadata": "_local_scalar_dense sym_size is_same_size item",
}


@pytest.mark.parametrize("kind", KINDS)
def test_operators_have_the_kind_one_would_say(kind: str) -> None:
    assert {name: kind_of(f"aten.{name}") for name in KINDS[kind].split()} == dict.fromkeys(KINDS[kind].split(), kind)


@pytest.mark.parametrize("spelling", ["aten.mm", "aten.mm.default", "aten::mm", "aten::mm.default", "aten.mm.dtype"])
def test_an_operator_may_be_spelt_as_torch_spells_it(spelling: str) -> None:
    assert kind_of(spelling) == "heavy"


@pytest.mark.parametrize(
    ("operator", "kind"),
    [("mylib.spin.default", "arithmetic"), ("aten.not_there", "arithmetic"), ("mkldnn._linear_pointwise", "heavy")],
)
def test_what_nobody_knows_counts_as_arithmetic_unless_its_name_gives_it_away(operator: str, kind: str) -> None:
    assert kind_of(operator) == kind


SUMS = {"coalesce"}
"""Operators that return their argument only if there is nothing to add up."""


def test_what_only_hands_out_aliases_is_a_view_or_a_copy_where_it_must() -> None:
    """Compare the tables with torch's schemas for all operators."""
    names = {name[6:].partition(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    for name in sorted(names):
        packet = getattr(torch.ops.aten, name)
        returned = [getattr(packet, overload)._schema.returns for overload in packet.overloads()]
        if all(each and all(one.alias_info and not one.alias_info.is_write for one in each) for each in returned):
            assert kind_of(f"aten.{name}") in (("reduction",) if name in SUMS else ("view", "movement")), name
