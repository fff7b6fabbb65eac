"""The screen refuses forbidden code in a kernel file early, and accepts honest code in any style."""

from __future__ import annotations

import concurrent.futures

import pytest

from triton_agent.tools.candidate.screen import screen
from triton_agent.tools.results import Finding

MODEL = "\nclass ModelNew: pass\n"


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("", Finding.NO_MODEL),
        ("x = 1", Finding.NO_MODEL),
        ("def f(:" + MODEL, Finding.SYNTAX),
        ("x = '\0'" + MODEL, Finding.SYNTAX),
        ("import os\nos.getcwd()" + MODEL, Finding.FORBIDDEN_ACCESS),
        ("import numpy as np\nnp.zeros(3)" + MODEL, Finding.FORBIDDEN_ACCESS),
        ("from torch.utils.cpp_extension import load_inline" + MODEL, Finding.FORBIDDEN_ACCESS),
        ("import torch\ntorch._C._jit()" + MODEL, Finding.FORBIDDEN_ACCESS),
        ("import torch as t\nt._dynamo.x" + MODEL, Finding.FORBIDDEN_ACCESS),
        ("exec('1')" + MODEL, Finding.FORBIDDEN_ACCESS),
        ("f.__globals__" + MODEL, Finding.FORBIDDEN_ACCESS),
        ("from . import x" + MODEL, Finding.FORBIDDEN_ACCESS),
        ("#" * 600_000 + MODEL, Finding.NO_MODEL),
    ],
)
def test_what_has_no_place_is_refused_with_its_line(source: str, finding: Finding) -> None:
    objection = screen(source)
    assert objection is not None
    assert objection.finding is finding


@pytest.mark.parametrize(
    "source",
    [
        "import math, functools, dataclasses\nimport torch.nn.functional as F" + MODEL,
        "def f(input): return input" + MODEL,
        "def compile(x): return x\ncompile(1)" + MODEL,
        "text = 'import os; torch.matmul'" + MODEL,
        "ModelNew = make()",
        "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice" + MODEL,
    ],
)
def test_honest_text_passes(source: str) -> None:
    assert screen(source) is None


def test_without_strictness_only_what_cannot_run_is_refused() -> None:
    assert screen("import os\nos.getcwd()" + MODEL, strict=False) is None
    assert screen("x = (" + MODEL, strict=False) is not None


def test_nesting_beyond_the_parser_and_many_threads_do_no_harm() -> None:
    deep = "x = " + "(" * 5000 + ")" * 5000 + MODEL
    sources = [deep, "import os\nos.getcwd()" + MODEL, "x = [" + "[1]," * 2000 + "]" + MODEL] * 20
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        objections = list(pool.map(screen, sources))
    assert [o.finding if o else None for o in objections[:3]] == [Finding.SYNTAX, Finding.FORBIDDEN_ACCESS, None]


def test_a_missing_class_is_said_with_those_that_are_there() -> None:
    objection = screen("import torch\nclass Softmax(torch.nn.Module):\n    pass\n")
    assert objection is not None and objection.message.endswith("at its top level; it has Softmax")
