"""An error in a kernel names and quotes the line in the candidate's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from triton_agent.tools.checker.session import Failed
from triton_agent.tools.emulate.faults import KernelError
from triton_agent.tools.executor.kernels import Kernels
from triton_agent.tools.processes.deaths import Ending, Sign
from triton_agent.tools.results import Finding

KERNELS: Any = None
"""Not needed to report an error."""


def test_a_line_of_the_module_is_that_of_the_candidate_and_quoted_from_there(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("import triton\n\n\n\ndef kernel():\n    wrong()\n    other()\n    another()\n")
    loaded = Kernels(functions={}, kernels=KERNELS, path=str(module), lines=((5, 7),))
    report = loaded.report(KernelError("no such thing", kernel="kernel", line=6))
    assert [(at.line, at.code) for at in report.lines] == [(8, "wrong()")]
    assert "line 8" in report.text


def test_a_failure_of_a_call_names_its_case() -> None:
    failed = Failed(Finding.RAISED, "line 3: oops").during("N=5 / as given")
    assert (failed.finding, failed.message) == (Finding.RAISED, "case N=5 / as given: line 3: oops")
    ending = Ending(sign=Sign.SILENT, doing="call", limit_s=20.0)
    late = Failed(Finding.TOO_SLOW, "call took longer than 20 s", ending=ending).during("N=5 / as given")
    assert late.message.startswith("the call at N=5 / as given took longer than 20 s\nlikely cause: a loop")
    assert late.ending is not None and late.ending.doing == "the call at N=5 / as given"
