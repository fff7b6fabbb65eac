"""An inconsistent tape counts against the candidate; an error in the checks does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.tools.tape.tapes import Writing

from triton_agent.tools.checker import tracing
from triton_agent.tools.checker.session import Failed
from triton_agent.tools.checker.tracing import TracedForm, admitted
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.results import Finding
from triton_agent.tools.tape.outline import outline
from triton_agent.tools.tape.tape import encode


def form_and_tape() -> tuple[TracedForm, dict[str, Any]]:
    x = torch.zeros(4)
    writing = Writing()
    tape = writing.tape(writing.operate("aten.add.Tensor", writing.input(x), 1))
    return TracedForm(call=outline([x]), constructor=outline(((), {})), shapes={}, train=False), encode(tape)


def test_a_tape_that_contradicts_itself_is_the_candidates_fault() -> None:
    form, tape = form_and_tape()
    admitted(tape, {"functions": []}, form)
    tape["outputs"][0]["offset"] = 1
    with pytest.raises(Failed) as caught:
        admitted(tape, {"functions": []}, form)
    assert caught.value.finding is Finding.TAMPERED


def test_an_error_of_the_checks_is_an_instruments_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise TypeError("a check that nobody tried on such a tape")

    form, tape = form_and_tape()
    monkeypatch.setattr(tracing, "admit", broken)
    with pytest.raises(InstrumentError, match="bug of ours"):
        admitted(tape, {"functions": []}, form)
