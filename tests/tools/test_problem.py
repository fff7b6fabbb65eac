"""A problem is read from its text without running it: its kind, and the faults in it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from triton_agent.tools.errors import ProblemError, UsageError
from triton_agent.tools.problem.input_spec import GivenInput, InputSpec, parse_arguments, parse_input
from triton_agent.tools.problem.problem import ProblemKind, ProblemSpec, parse_problem

MODEL = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return x
def get_inputs():
    return [torch.rand(4)]
"""
USER = """
from torch import nn
raise RuntimeError("reading must not run this")
class Block(nn.Module):
    def forward(self, x): return x
class Fancy(Block):
    pass
def helper(): pass
"""


def write(folder: Path, text: str, name: str = "problem.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def refusal(target: str, **options: object) -> str:
    with pytest.raises(UsageError) as caught:
        parse_problem(target, **options)  # type: ignore[arg-type]
    assert caught.value.remedy, "an error without a remedy"
    return str(caught.value)


def test_model_file_is_recognised(tmp_path: Path) -> None:
    spec = parse_problem(write(tmp_path, MODEL))
    assert spec.kind is ProblemKind.MODEL_FILE
    assert spec.class_name is None
    assert spec.name == "problem"
    assert Path(spec.path).is_absolute()


def test_another_class_may_stand_for_model_when_the_file_gives_inputs(tmp_path: Path) -> None:
    spec = parse_problem(write(tmp_path, MODEL.replace("class Model", "class Sine")) + ":Sine")
    assert (spec.kind, spec.class_name) == (ProblemKind.MODEL_FILE, "Sine")


def test_user_module_carries_arguments_and_inputs(tmp_path: Path) -> None:
    target = write(tmp_path, USER) + ":Block"
    spec = parse_problem(target, init="512, bias=False", inputs=["f16[8,128]", "i64[8]<50"])
    assert spec.kind is ProblemKind.USER_MODULE
    assert (spec.init, spec.init_keywords) == ((512,), {"bias": False})
    assert spec.inputs == (
        GivenInput(value=InputSpec(dtype="f16", shape=(8, 128))),
        GivenInput(value=InputSpec(dtype="i64", shape=(8,), below=50)),
    )
    assert spec.name == "Block"


def test_verifier_has_no_reference(tmp_path: Path) -> None:
    text = "def get_inputs(): return []\ndef verify(inputs, outputs): return True\n"
    assert parse_problem(write(tmp_path, text)).kind is ProblemKind.VERIFIER


@pytest.mark.parametrize("init", ["", "1, (2, 3), [4], {'a': None}, x=-1.5, y='z'"])
def test_spec_survives_json_and_pickle(tmp_path: Path, init: str) -> None:
    spec = parse_problem(write(tmp_path, USER) + ":Block", init=init, inputs=["bf16[2,3]", "bool[]"])
    assert ProblemSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(spec) == hash(pickle.loads(pickle.dumps(spec)))


def test_reading_a_problem_needs_no_torch() -> None:
    code = "import sys, triton_agent.tools.problem.problem; assert not {'torch', 'numpy', 'triton'} & set(sys.modules)"
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_digest_follows_the_content_and_not_the_folder(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
        write(folder, "import second\nSIZE = 3\n", "first.py")
        write(folder, "SIZE = 4\n", "second.py")
        write(folder, "from first import SIZE\n" + MODEL)
    digests = [parse_problem(str(folder / "problem.py")).digest for folder in folders]
    assert digests[0] == digests[1]
    write(folders[1], "SIZE = 5\n", "second.py")  # imported by way of another module
    assert parse_problem(str(folders[1] / "problem.py")).digest != digests[1]
    write(folders[0], "SIZE = 9\n", "unrelated.py")
    assert parse_problem(str(folders[0] / "problem.py")).digest == digests[0]


def test_digest_follows_relative_imports_inside_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "net" / "blocks"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        write(folder, "", "__init__.py")
    write(package.parent, "A = 1\n", "sizes.py")
    target = write(package, "from ..sizes import A\n" + MODEL)
    before = parse_problem(target).digest
    monkeypatch.chdir(package)
    assert parse_problem("problem.py").digest == before
    write(package.parent, "A = 2\n", "sizes.py")
    assert parse_problem(target).digest != before


def test_digest_follows_options_and_saved_inputs(tmp_path: Path) -> None:
    target, saved = write(tmp_path, USER) + ":Block", tmp_path / "saved.pt"
    saved.write_bytes(b"one")
    digests = {parse_problem(target, inputs=["f32[2]"]).digest, parse_problem(target, inputs=["f32[3]"]).digest}
    digests.add(parse_problem(target, init="1", inputs=["f32[2]"]).digest)
    digests.add(parse_problem(target, inputs_file=str(saved)).digest)
    saved.write_bytes(b"two")
    digests.add(parse_problem(target, inputs_file=str(saved)).digest)
    assert len(digests) == 5


def test_a_file_edited_after_it_was_read_is_still_the_problem_that_was_read(tmp_path: Path) -> None:
    target = write(tmp_path, MODEL)
    spec = parse_problem(target)
    write(tmp_path, MODEL.replace("return x", "return x + 1"))
    assert spec.source().text == MODEL
    elsewhere = ProblemSpec.from_json(json.loads(json.dumps(spec.to_json(with_text=True))))
    assert elsewhere == spec and elsewhere.source().text == MODEL
    stored = ProblemSpec.from_json(spec.to_json())
    assert stored == spec and stored.source().text != MODEL


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    plain = parse_problem(write(tmp_path, MODEL))
    (tmp_path / "problem.py").write_text(MODEL, encoding="utf-8-sig")
    marked = parse_problem(str(tmp_path / "problem.py"))
    assert marked == plain and marked.source().text == MODEL


def test_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, MODEL)
    assert "did you mean problem.py?" in refusal(str(tmp_path / "probelm.py"))


def test_folder_other_suffix_and_empty_file_are_refused(tmp_path: Path) -> None:
    write(tmp_path, MODEL)
    assert "it holds problem.py" in refusal(str(tmp_path))
    assert "not a .py file" in refusal(write(tmp_path, MODEL, "problem.txt"))
    assert "empty" in refusal(write(tmp_path, "\n\n", "empty.py"))


def test_syntax_error_and_encoding_name_the_line(tmp_path: Path) -> None:
    assert ":3: syntax error" in refusal(write(tmp_path, "x = 1\n\ndef f(:\n"))
    path = tmp_path / "latin.py"
    path.write_bytes("x = 1\ny = 'é'\n".encode("latin-1"))
    assert f"{path}:2: is not UTF-8" in refusal(str(path))


def test_file_without_model_lists_its_modules(tmp_path: Path) -> None:
    text = refusal(write(tmp_path, USER))
    assert "no class Model and no get_inputs()" in text
    assert ":Block (line 4)" in text and ":Fancy (line 6)" in text


def test_a_class_that_needs_arguments_is_offered_with_their_names(tmp_path: Path) -> None:
    takes = USER.replace(
        "class Block(nn.Module):", "class Block(nn.Module):\n    def __init__(self, width, *, bias, p=0.1): ..."
    )
    assert takes != USER and "--init with width, bias" in refusal(write(tmp_path, takes))


def test_file_with_half_of_the_convention_says_which_half(tmp_path: Path) -> None:
    assert "no get_inputs()" in refusal(write(tmp_path, "class Model: pass\n"))
    assert "no class Model" in refusal(write(tmp_path, "def get_inputs(): pass\n"))


def test_candidate_is_not_taken_for_a_problem(tmp_path: Path) -> None:
    text = refusal(write(tmp_path, MODEL.replace("class Model", "class ModelNew")))
    assert "candidate" in text and ":3:" in text


def test_unknown_class_offers_close_ones(tmp_path: Path) -> None:
    target = write(tmp_path, USER)
    assert "did you mean Block" in refusal(target + ":Blok", inputs=["f32[1]"])
    assert "helper is a function" in refusal(target + ":helper", inputs=["f32[1]"])
    assert "not a class name" in refusal(target + ":")


def test_the_one_module_that_no_other_uses_stands_for_model(tmp_path: Path) -> None:
    own = MODEL.replace("class Model", "class Act").replace("def get", "class Net(nn.Module):\n    act = Act\ndef get")
    spec = parse_problem(write(tmp_path, own))
    assert (spec.kind, spec.class_name) == (ProblemKind.MODEL_FILE, "Net")
    two = own.replace("def get", "class Other(nn.Module):\n    act = Act\ndef get")
    told = refusal(write(tmp_path, two))
    assert told.index(":Other (line 8)") < told.index(":Net") < told.index(":Act")
    assert "--input" not in told, "the file gives its inputs"


def test_functions_in_place_of_a_model_are_named(tmp_path: Path) -> None:
    inputs = "def get_inputs(): return []\n"
    assert "wrap norm: a class derived" in refusal(write(tmp_path, f"def norm(x, w): return x * w\n{inputs}"))
    assert "Model is a function" in refusal(write(tmp_path, f"def Model(x): return x\n{inputs}"))


def test_the_two_forms_do_not_mix(tmp_path: Path) -> None:
    assert "go with a named class" in refusal(write(tmp_path, MODEL), inputs=["f32[1]"])
    two = f"{USER}\n\nclass Other(nn.Module):\n    def forward(self, x):\n        return x\n"
    told = refusal(write(tmp_path, two), inputs=["f32[1]"])
    assert "go with a named class" in told and ":Block (line" in told and "needs its inputs" not in told
    target, saved = write(tmp_path, USER) + ":Block", write(tmp_path, "", "saved.pt")
    assert "both given" in refusal(target, inputs=["f32[1]"], inputs_file=saved)
    assert "--input" in refusal(target)
    assert "no such file" in refusal(target, inputs_file=str(tmp_path / "none.pt"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("f16[8,128,1024]", "f16[8,128,1024]"),
        ("float16[8]", "f16[8]"),
        ("torch.bfloat16[ 8 , 4, ]", "bf16[8,4]"),
        ("f32[]", "f32[]"),
        ("i64[8]<50_000", "i64[8]<50000"),
        ("u8[2] < 256", "u8[2]<256"),
        ("f8e4m3[0,3]", "f8e4m3[0,3]"),
        ("5", "5"),
        ("None", "None"),
        ("'full, 1[]'", "'full, 1[]'"),
        (" pos = -5", "pos=-5"),
        ("mask=bool[2,3]", "mask=bool[2,3]"),
        ("state=(f32[2], f32[])", "state=(f32[2], f32[])"),
        ("[{'k': i64[2,3]<50, 'n': 1.5}, (None,)]", "[{'k': i64[2,3]<50, 'n': 1.5}, (None,)]"),
    ],
)
def test_input_grammar(text: str, shown: str) -> None:
    assert str(parse_input(text)) == shown
    assert parse_input(shown) == parse_input(text)


def test_a_shape_alone_is_answered_with_the_nearest_input() -> None:
    with pytest.raises(UsageError, match=r'did you mean "f32\[8,64\]"'):
        parse_input("8,64")


@pytest.mark.parametrize(
    "text",
    [
        "5 + x",
        "open('x')",
        "a.b",
        "[f32[2], g()]",
        "{1: f32[2]}",
        "def=1",
        "x==1",
        "",
        "f32",
        "f32[-1]",
        "f32[a]",
        "f31[2]",
        "f32[2]<4",
        "i8[2]<500",
        "i64[2]<0",
        "f32[1,,2]",
    ],
)
def test_malformed_input_shows_the_grammar(text: str) -> None:
    with pytest.raises(UsageError, match=r"write dtype\[size,size"):
        parse_input(text)


def test_unknown_dtype_offers_a_close_one() -> None:
    with pytest.raises(UsageError, match="did you mean bfloat16"):
        parse_input("bfloat15[2]")


def test_keyword_arguments_come_last_and_once(tmp_path: Path) -> None:
    target = write(tmp_path, USER) + ":Block"
    assert "follows" in refusal(target, inputs=["x=f32[2]", "f32[2]"])
    assert "x is given twice" in refusal(target, inputs=["x=f32[2]", "x=5"])


def test_constructor_takes_objects_of_the_files_own_classes(tmp_path: Path) -> None:
    target = write(tmp_path, USER + "class Config:\n    pass\n") + ":Block"
    text = "Config(width=8, parts=[Config()]), {'a': Config(1)}, other=Config()"
    spec = parse_problem(target, init=text, inputs=["f32[2]"])
    assert repr(spec.init[0]) == "Config(width=8, parts=[Config()])"
    assert ProblemSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert "no class Confg" in refusal(target, init="Confg()", inputs=["f32[2]"])
    assert "no class float" in refusal(target, init="float('nan')", inputs=["f32[2]"])
    assert "helper is a function" in refusal(target, init="helper()", inputs=["f32[2]"])


@pytest.mark.parametrize(
    "text",
    [
        "torch.load('x')",
        "Config(open('x').y)",
        "Config()()",
        "[f() for f in y]",
        "nn.ReLU()",
        "1) + f(2",
        "*x",
        "**{}",
        "1,,2",
        "x:=1",
    ],
)
def test_constructor_arguments_are_literals_only(text: str) -> None:
    with pytest.raises(UsageError):
        parse_arguments(text)


def test_errors_cross_processes(tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_problem(write(tmp_path, "def f(:"))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
