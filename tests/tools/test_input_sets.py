"""Several weighted sets of inputs: what may be written, what is refused with which message, and what they become."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.input_spec import MOST_SETS, InputSet, parse_input, parse_set, parse_sets
from triton_agent.tools.problem.problem import ProblemSpec, parse_problem

BLOCK = "from torch import nn\nclass Block(nn.Module):\n    def forward(self, x, *more): return x\n"


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "block.py").write_text(BLOCK)
    return f"{tmp_path / 'block.py'}:Block"


@pytest.mark.parametrize(
    ("text", "name", "weight"),
    [
        ("f32[1,1024]", "f32[1,1024]", 1.0),
        ("float32[64, 1024]@3", "f32[64,1024]", 3.0),
        ("f32[64,1024]; i64[64]<50 @ 0.5", "f32[64,1024]; i64[64]<50", 0.5),
        ("long prompt = f16[8,4096] @2", "long prompt", 2.0),
        ("decode=f16[8,1]", "decode", 1.0),
    ],
)
def test_a_set_is_written_as_one_would_guess(text: str, name: str, weight: float) -> None:
    found = parse_set(text)
    assert (found.name, found.weight) == (name, weight)


def test_a_file_of_real_inputs_is_a_set_with_whatever_name_it_has(tmp_path: Path) -> None:
    for name in ("morning.pt", "odd@3.pt", "a=b[2].pt"):
        (tmp_path / name).write_bytes(b"")
        assert parse_set(str(tmp_path / name)).inputs_file == str(tmp_path / name)
    found = parse_set(f"peak={tmp_path / 'morning.pt'}@2")
    assert (found.name, found.weight, found.content) == ("peak", 2.0, "morning.pt")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f32[1,1024]@0", "weight 0"),
        ("f32[1,1024]@-2", "weight -2"),
        ("f32[1,1024]@nan", "weight nan"),
        ("f32[1,1024]@inf", "weight inf"),
        ("f32[1,1024]@", "not a weight: ''"),
        ("f32[1,1024]@often", "not a weight: 'often'"),
        ("f32[1,1024", "not an input"),
        ("f32[1,1024], f32[2]", "not an input"),
        ("f31[8]", "unknown dtype"),
        ("f32[8];", "not an input"),
        ("", "a set without inputs"),
        ("name=", "a set without inputs"),
        ("missing.pt@2", "no such file of inputs"),
    ],
)
def test_what_is_no_set_is_refused_with_the_way_to_write_one(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_set(text)
    assert said in caught.value.what
    assert repr(text) in caught.value.where and "@3" in caught.value.remedy


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("f32[8]", "f32[8]; f32[8]"), "sets of 1 and of 2 arguments"),
        (("f32[8]", "f32[8]@2"), "two sets are called f32[8]"),
        (tuple(f"f32[{size}]" for size in range(1, MOST_SETS + 2)), f"{MOST_SETS + 1} sets"),
    ],
)
def test_sets_that_do_not_go_together_are_refused(texts: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_sets(texts)
    assert said in caught.value.what and caught.value.remedy


def test_sets_and_the_arguments_of_one_call_exclude_each_other(target: str) -> None:
    with pytest.raises(UsageError, match="--set gives whole calls"):
        parse_problem(target, inputs=["f32[8]"], sets=parse_sets(["f32[8]", "f32[9]"]))


def test_sets_go_to_the_only_module_of_a_file(target: str) -> None:
    assert parse_problem(target.removesuffix(":Block"), sets=parse_sets(["f32[8]", "f32[9]"])).class_name == "Block"


def test_the_heaviest_set_is_the_main_one_and_of_equals_the_largest(target: str) -> None:
    def names(*texts: str) -> list[str]:
        return [item.name for item in parse_problem(target, sets=parse_sets(texts)).sets]

    assert names("f32[1]", "f32[64]", "f32[8]") == ["f32[64]", "f32[1]", "f32[8]"]
    assert names("f32[1]@2", "f32[64]") == ["f32[1]", "f32[64]"]


def test_a_single_set_is_the_same_problem_as_its_inputs(target: str) -> None:
    assert parse_problem(target, sets=parse_sets(["f32[8]@5"])) == parse_problem(target, inputs=["f32[8]"])


def test_sets_and_weights_are_part_of_what_a_problem_is(target: str) -> None:
    def digest(*texts: str) -> str:
        return parse_problem(target, sets=parse_sets(texts)).digest

    digests = [digest("f32[8]", "f32[9]"), digest("f32[8]", "f32[9]@2"), digest("f32[8]", "f32[10]"), digest("f32[8]")]
    assert len(set(digests)) == len(digests)
    assert digest("f32[8]", "f32[9]") == digests[0]


def test_a_problem_with_sets_crosses_processes_whole(target: str, tmp_path: Path) -> None:
    (tmp_path / "saved.pt").write_bytes(b"as it was")
    spec = parse_problem(target, sets=parse_sets(["f32[8]@2", f"real={tmp_path / 'saved.pt'}"]))
    assert ProblemSpec.from_json(spec.to_json()) == spec
    assert spec.saved_files == (str(tmp_path / "saved.pt"),)
    again = parse_problem(target, sets=[InputSet.from_json(item) for item in spec.to_json()["sets"]])
    assert again == spec


def test_a_problem_can_be_had_at_one_of_its_sets(target: str) -> None:
    spec = parse_problem(target, sets=parse_sets(["f32[8]", "f32[9]", "f32[7]"]))
    found = [spec.at(one) for one in spec.sets]
    assert [one.inputs for one in found] == [(parse_input(text),) for text in ("f32[9]", "f32[8]", "f32[7]")]
    assert not any(one.sets for one in found)
    assert len({spec.digest, *(one.digest for one in found)}) == 4
