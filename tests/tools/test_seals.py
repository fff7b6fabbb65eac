"""What a candidate changes in what it shares a process with is seen, whatever it changes beside it."""

from __future__ import annotations

import builtins
import json

import pytest
import torch

from triton_agent.tools.isolate.seals import Seals


def test_what_is_left_alone_is_not_broken() -> None:
    assert Seals().broken() == ""


def test_a_function_that_was_replaced_is_named_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seals = Seals()
    monkeypatch.setattr(torch.cuda.Event, "elapsed_time", lambda self, other: 0.001)
    assert seals.broken() == "torch.cuda.Event.elapsed_time"
    monkeypatch.undo()
    assert seals.broken() == ""


def test_one_that_says_it_equals_the_old_one_is_another_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    class Equal:
        def __eq__(self, other: object) -> bool:
            return True

        def __call__(self) -> None:
            """As if."""

    seals = Seals()
    monkeypatch.setattr(json, "dumps", Equal())
    assert seals.broken() == "json.dumps"


def test_what_the_look_itself_is_made_of_cannot_be_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    seals = Seals()
    with monkeypatch.context() as patched:
        patched.setattr(builtins, "all", lambda items: True)
        patched.setattr(json, "dumps", str)
        found = seals.broken()
    assert found == "json.dumps"


def test_a_setting_that_was_switched_is_named() -> None:
    seals = Seals()
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = not before
        assert seals.broken() in ("matmul TF32", "float32 matmul precision")
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
