"""The cards of a run: chosen as requested, looked up again when the run is resumed, and never of another model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent.tables import Table, kernel, new_run, passed, script
from tests.agent.test_loop import go, settings
from tests.stand_in_cards import put_cards

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.memory.store import Store
from triton_agent.runs.optimize.command import _with_changes
from triton_agent.runs.optimize.request import OptimizeRequest
from triton_agent.runs.optimize.run import _require_one_model
from triton_agent.tools.errors import UsageError


def test_a_run_is_not_taken_up_on_another_model(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs.db") as store:
        ledger = Ledger.begin(store, new_run())
        _require_one_model(ledger, "NVIDIA H200")
        go(Loop(ledger, [script([kernel(1)])], [Table({kernel(1): passed(kernel(1), 1.5)})], settings()))
        with pytest.raises(UsageError, match="was measured on a table, and this is NVIDIA H200"):
            _require_one_model(ledger, "NVIDIA H200")
        _require_one_model(ledger, "a table")


def test_a_run_is_taken_up_on_its_cards_unless_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_cards(tmp_path, monkeypatch, "NVIDIA H200", "NVIDIA H200")
    before = OptimizeRequest(problem="model.py", device="cuda", cards="all")
    kept = OptimizeRequest.from_json(before.to_json())
    assert (kept.device, kept.cards) == ("cuda", "all")
    assert _with_changes(kept, {"device": "auto"}).cards == "all"
    assert _with_changes(kept, {"device": "cuda:1"}).cards == "1"
    assert _with_changes(OptimizeRequest(problem="model.py"), {"device": "cuda:1"}).device == "cpu"
    with pytest.raises(UsageError, match="2 GPUs are visible"):
        _with_changes(kept, {"device": "cuda:2"})


def test_what_earlier_versions_stored_is_read() -> None:
    plain = OptimizeRequest(problem="model.py", device="cuda").to_json()
    del plain["cards"]
    assert OptimizeRequest.from_json(plain).cards == ""
