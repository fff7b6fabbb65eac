"""Problems are composed at random, and only those worth solving are accepted."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from triton_agent.policy.train.data.blueprint import Blueprint, Size, Value
from triton_agent.policy.train.data.candidates import (
    HELD_OUT,
    TRAIN,
    Accepted,
    DataSettings,
    Row,
    candidate,
    is_held_out,
    seen_compositions,
)
from triton_agent.policy.train.data.compose import DIFFICULTIES, compose
from triton_agent.policy.train.data.outline import Known, outlines_of
from triton_agent.policy.train.data.pointwise import ACTIVATIONS, Move
from triton_agent.policy.train.data.probe import Refused, probe
from triton_agent.policy.train.data.rows import REDUCTIONS, bias, layer_norm, weight
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.reference.reference import load
from triton_agent.tools.reference.scaling import scaled_down

SETTINGS = DataSettings(count=60, seed=1, difficulties=tuple(DIFFICULTIES), held_out=0.2)
ACTIVATION = {move.word: move for move in ACTIVATIONS}
REDUCTION = dict(zip(("sum", "mean"), REDUCTIONS))


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    accepted = Accepted(SETTINGS)
    number = 0
    while not accepted.full:
        try:
            accepted.offer(candidate(SETTINGS, number, Known(())))
        except Refused as refused:
            accepted.offer(str(refused))
        number += 1
    return accepted.rows


def blueprint_of(*moves: Move, dtype: str = "float32", scale: str = "") -> Blueprint:
    """Compose a problem that applies these steps to rows."""
    import random

    sizes = {"ROWS": Size(given=512, small=7), "WIDTH": Size(given=64, small=64)}
    blueprint = Blueprint(random.Random(0), sizes, dtype)
    x: Value | None = blueprint.special_input(("x",), f"{scale}torch.randn(ROWS, WIDTH)", ("ROWS", "WIDTH"))
    for move in moves:
        assert x is not None
        x = move(blueprint, x)
    assert x is not None
    blueprint.outputs = [x.name]
    return blueprint


def test_an_accepted_problem_runs_as_the_evaluator_runs_it(rows: list[Row], tmp_path) -> None:
    for row in rows[::10]:
        path = tmp_path / f"{row['name']}.py"
        path.write_text(row["source"])
        spec = parse_problem(str(path))
        scaled = scaled_down(spec, 0)
        assert scaled is not None, row["name"]
        reference = load(spec, scaled.variant.constants, batch=scaled.variant.batch)
        with torch.no_grad():
            outputs = reference.call(reference.make_model(0), reference.make_inputs(0))
        assert len([outputs] if isinstance(outputs, torch.Tensor) else outputs) == len(row["output_shapes"])


def test_shapes_hold_at_the_given_sizes(rows: list[Row]) -> None:
    for row in rows[::6]:
        namespace: dict = {}
        with torch.device("meta"):
            exec(row["source"], namespace)
            inputs = namespace["get_inputs"]()
        assert [list(tensor.shape) for tensor in inputs] == row["input_shapes"]


def test_no_graph_occurs_twice(rows: list[Row]) -> None:
    assert len({row["fingerprint"] for row in rows}) == len(rows) == SETTINGS.count


def test_problems_read_like_files_that_people_write(rows: list[Row]) -> None:
    for row in rows:
        assert max(map(len, row["source"].splitlines())) <= 120
        tree = ast.parse(row["source"])
        assert ast.get_docstring(tree)
        assigned = [node.targets[0] for node in ast.walk(tree) if isinstance(node, ast.Assign)]
        names = [target.id for target in assigned if isinstance(target, ast.Name) and target.id.islower()]
        assert all(len(name) > 2 for name in names)
        assert len(names) == len(set(names)), "every step has a name of its own"


def test_difficulties_differ_in_steps_and_kinds(rows: list[Row]) -> None:
    steps = {name: [len(row["steps"]) for row in rows if row["difficulty"] == name] for name in DIFFICULTIES}
    assert max(steps["tiny"]) <= 3
    assert max(steps["easy"]) <= 4 <= min(steps["medium"])
    assert min(steps["hard"]) >= 6
    tiny = [row for row in rows if row["difficulty"] == "tiny"]
    assert {row["dtype"] for row in tiny} == {"float32"}
    assert max(len(row["source"].splitlines()) for row in tiny) <= 40
    assert not any("heavy" in row["kinds"] for row in tiny)


def test_equal_seeds_give_equal_problems_and_others_give_others() -> None:
    texts = [compose(seed, "hard", 3).text() for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "scale", "why"),
    [
        ((bias, ACTIVATION["cube"], ACTIVATION["cube"]), "30 * ", "explode"),
        ((ACTIVATION["hardtanh"],), "1e-3 * ", "a step does not matter"),
        ((ACTIVATION["relu"], ACTIVATION["tanh"]), "-10 + 0.1 * ", "one value"),
        ((weight, bias, ACTIVATION["sigmoid"]), "1e-6 * ", "an input does not matter"),
    ],
    ids=["explodes", "does nothing", "is zero", "drowns its input"],
)
def test_a_degenerate_problem_is_refused(moves: Sequence[Move], scale: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        probe(blueprint_of(*moves, scale=scale))


def test_a_problem_that_its_own_input_nearly_solves_is_refused() -> None:
    with pytest.raises(Refused, match=r"a step does not matter"):
        probe(blueprint_of(ACTIVATION["tanh"], scale="1e-2 * "))


def test_a_parameter_that_a_norm_cancels_is_refused() -> None:
    def constant_shift(blueprint: Blueprint, x: Value) -> Value:
        name = blueprint.member(("level",), "nn.Parameter(torch.randn(1))")
        return blueprint.step("level", "adds a level", [x], ("raised",), f"{x.name} + {name}")

    with pytest.raises(Refused, match="a parameter does not matter"):
        probe(blueprint_of(ACTIVATION["gelu"], constant_shift, layer_norm))


def test_an_output_that_is_nothing_but_rounding_is_refused() -> None:
    def plain_norm(blueprint: Blueprint, x: Value) -> Value:
        text = f"F.layer_norm({x.name}, {x.name}.shape[-1:])"
        return blueprint.step("layer_norm", "applies a layer norm", [x], ("normal",), text)

    with pytest.raises(Refused, match="rounding"):
        probe(blueprint_of(ACTIVATION["gelu"], plain_norm, REDUCTION["sum"]))


def test_a_sound_problem_is_told_with_its_operators() -> None:
    found = probe(blueprint_of(bias, ACTIVATION["gelu"], REDUCTION["sum"]))
    assert found.operators == {"add": 1, "gelu": 1, "sum": 1}
    assert found.kinds == {"arithmetic": 2, "reduction": 1}
    assert (found.shapes, found.output_shapes, found.parameters) == (((512, 64),), ((512,),), 64)


# -- the split ---------------------------------------------------------------------------------------------------------


def test_held_out_compositions_are_unseen(rows: list[Row]) -> None:
    assert Counter(row["split"] for row in rows) == {TRAIN: 48, HELD_OUT: 12}
    assert seen_compositions(rows) == []
    trained = {pair for row in rows if row["split"] == TRAIN for pair in row["pairs"]}
    assert all(set(row["pairs"]) - trained for row in rows if row["split"] == HELD_OUT)
    assert not any(is_held_out(pair, SETTINGS) for pair in trained)


def test_a_composition_that_was_trained_on_is_noticed(rows: list[Row]) -> None:
    trained = next(row for row in rows if row["split"] == TRAIN)
    assert seen_compositions([*rows, {**trained, "split": HELD_OUT, "name": "leak"}]) == ["leak"]


# -- kept apart from given files ---------------------------------------------------------------------------------------

GIVEN = '''
"""Another docstring."""
from torch import nn
import torch

class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.act = nn.GELU()
        self.b = nn.Parameter(torch.zeros(size))

    def forward(self, inputs):
        """Say something."""
        h = inputs + self.b  # a comment
        h = self.act(h)
        return torch.sum(h, dim=-1)

raise SystemExit("files of users are never run")
'''


def test_a_problem_like_a_given_one_is_known_under_other_names_and_spellings() -> None:
    known = Known([("given.py", outline) for outline in outlines_of(GIVEN)])
    assert known.like(outlines_of(blueprint_of(bias, ACTIVATION["gelu"], REDUCTION["sum"]).text())) == "given.py"
    assert not known.like(outlines_of(blueprint_of(bias, ACTIVATION["silu"], REDUCTION["mean"]).text()))


def test_names_and_sizes_do_not_change_the_text_that_is_compared() -> None:
    renamed = GIVEN.replace("inputs", "values").replace("h ", "state ").replace("(h", "(state")
    assert outlines_of(renamed)[0].text == outlines_of(GIVEN)[0].text
    assert outlines_of(GIVEN.replace("GELU", "SiLU"))[0].text != outlines_of(GIVEN)[0].text


@pytest.mark.parametrize("text", ["", "no python (", "x = 1", "class A:\n    pass", "\0"])
def test_files_without_a_module_have_no_outline(text: str) -> None:
    assert outlines_of(text) == []


def test_sequences_of_layers_are_followed() -> None:
    text = GIVEN.replace("nn.GELU()", "nn.Sequential(nn.Linear(4, 4), nn.ReLU())")
    (found,) = outlines_of(text)
    assert {"add>linear", "linear>relu", "relu>sum"} <= set(found.operators)
