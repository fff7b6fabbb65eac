"""`triton-agent verify`: a file changed by hand is detected, and a measurement is written into the file."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest
from tests import verdicts
from tests.runs import shipped_samples as samples

from triton_agent.runs.cli import exit_codes
from triton_agent.runs.ship import evidence
from triton_agent.runs.ship.artefact import has_cuda_graphs, ship
from triton_agent.runs.ship.facts import Gpu, ShippedFacts
from triton_agent.runs.ship.verify import Verified, first_difference, problem_of, read, stamped, verify
from triton_agent.tools.errors import UsageError
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.zygotes import Nursery

H200, A100 = Gpu(name="NVIDIA H200", capability=(9, 0)), Gpu(name='A "100"', capability=(8, 0), driver="580")


@pytest.fixture(scope="module")
def spec() -> ProblemSpec:
    return samples.problem("layer_norm_f16")


@pytest.fixture(scope="module")
def plans(spec: ProblemSpec, nursery: Nursery) -> str:
    return samples.plans(spec, samples.kernel("layer_norm_f16", "right_block.py"), nursery)


@pytest.fixture
def draft(spec: ProblemSpec, plans: str, tmp_path: Path) -> Path:
    path = tmp_path / "layer_norm_optimized.py"
    path.write_text(ship(spec, plans, samples.facts(spec), draft=True))
    return path


def verified(path: Path, spec: ProblemSpec | None) -> Verified:
    return verify(path, spec, device="cpu", card="", store=None, trust=True, say=lambda text: None)


@pytest.mark.slow
def test_a_draft_is_right_as_it_was_written_and_stays_as_it_is_without_a_gpu(draft: Path, spec: ProblemSpec) -> None:
    before = draft.read_text()
    found = verified(draft, spec)
    assert found.code == exit_codes.GOOD and not found.stamped, found.message
    assert draft.read_text() == before


def test_a_draft_with_cuda_graphs_is_written_again_with_them(spec: ProblemSpec, plans: str) -> None:
    text = ship(spec, plans, samples.facts(spec, cuda_graph=True), draft=True)
    again = ship(spec, plans, samples.facts(spec, cuda_graph=has_cuda_graphs(text)), draft=False)
    assert first_difference(text, again) == 0
    assert first_difference(text, ship(spec, plans, samples.facts(spec), draft=False)) > 0


@pytest.mark.slow
def test_a_file_whose_guard_was_changed_is_told_apart(draft: Path, spec: ProblemSpec) -> None:
    text = draft.read_text()
    draft.write_text(text.replace("or address % 16:", "or address % 1:"))
    assert draft.read_text() != text
    found = verified(draft, spec)
    assert found.code == exit_codes.NOT_PASSED and "is not what triton-agent" in found.message


@pytest.mark.slow
def test_a_file_whose_kernel_was_changed_does_not_pass(draft: Path, spec: ProblemSpec) -> None:
    text = draft.read_text()
    wrong = text.replace("tl.store(", "tl.store(0 + ", 1).replace("mean = ", "mean = 1.0 + ", 1)
    assert wrong != text
    draft.write_text(wrong)
    found = verified(draft, spec)
    assert found.code == exit_codes.NOT_PASSED and found.evaluation is not None


def test_a_constant_that_computes_something_counts_as_a_change(draft: Path) -> None:
    text = draft.read_text()
    assert first_difference(text, text) == 0
    literal, computed = (
        text.replace("MEASURED = {}", f"MEASURED = {value}") for value in ("{1: True}", "dict(a=True)")
    )
    assert first_difference(literal, text) == 0
    assert first_difference(computed, text) == text[: text.index("MEASURED = {}")].count("\n") + 1
    assert first_difference(f"{text}\nprint()\n", text) == text.count("\n") + 2


def test_each_gpu_has_a_row_of_its_own(spec: ProblemSpec, plans: str) -> None:
    facts = samples.facts(spec, gpu=H200)
    text = ship(spec, plans, facts, draft=False)
    versions = tuple(
        ".".join(getattr(facts.evaluation.environment, name).split(".")[:2]) for name in ("torch", "triton")
    )
    slower = stamped(text, dataclasses.replace(facts, gpu=A100), faster=False)
    assert measured(slower) == {("NVIDIA H200", (9, 0), *versions): True, ('A "100"', (8, 0), *versions): False}
    again = stamped(slower, dataclasses.replace(facts, gpu=A100), faster=True)
    assert [*measured(again).values()] == [True, True]
    assert first_difference(again, text) == 0


def measured(text: str) -> dict[object, bool]:
    table = next(
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MEASURED"
    )
    return dict(ast.literal_eval(table.value))


def test_the_header_of_a_file_measured_once_more_names_gpu_and_speed(spec: ProblemSpec) -> None:
    timing = verdicts.timing(1.5, spread=0.01, kind="device", original_ms=0.04)
    evaluation = dataclasses.replace(samples.accepted(spec), timings=(timing,))
    facts: ShippedFacts = samples.facts(spec, evaluation, gpu=A100)
    said = evidence.verified_again(facts, faster=True)
    for expected in ("Verified again 2026-01-31: faster", "device time: 1.50x", 'Device: A "100"', "driver 580"):
        assert expected in said
    assert "the reference, which runs there" in evidence.verified_again(facts, faster=False).replace("\n", " ")


def test_a_file_is_verified_against_the_problem_it_was_made_for(draft: Path, tmp_path: Path, spec: ProblemSpec) -> None:
    text, store = read(draft), f"sqlite:///{tmp_path / 'store.db'}"
    assert problem_of(text, draft, spec, None, tmp_path) is spec
    with pytest.raises(UsageError, match="made for another problem"):
        problem_of(text, draft, samples.problem("linear_relu_f32"), None, tmp_path)
    with pytest.raises(UsageError, match="not in the store"):
        problem_of(text, draft, None, store, tmp_path)
    plain = tmp_path / "plain.py"
    plain.write_text("x = 1\n")
    with pytest.raises(UsageError, match="not a file that optimize wrote"):
        read(plain)
