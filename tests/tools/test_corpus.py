"""Right and wrong kernels for many operators and dtypes get the right verdict in the interpreter.

There is one test per operator. The folders of `QUICK` run with every test run, the others only with the slow tests.
"""

from __future__ import annotations

import pytest
from tests.grading import corpus, grade, spoken
from tests.scoreboard import missing

from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

QUICK = frozenset(
    {
        *(
            "add_bf16",
            "batch_norm_train_f32",
            "concatenate_bf16",
            "cross_entropy_f32",
            "embedding_bf16",
            "gelu_silu_f32",
        ),
        *("integer_arithmetic_i32", "layer_norm_f16", "linear_relu_f32", "matmul_f16", "max_argmax_f32", "quantise_i8"),
        *(
            "relu_f16",
            "rms_norm_bf16",
            "row_any_bool",
            "row_sum_f32",
            "select_nested_f32",
            "softmax_f32",
            "transpose_i32",
        ),
    }
)
"""Folders that cover every dtype, every status, and the kinds of operators with their own ways to fail."""

SETTINGS = EvaluatorSettings(call_timeout_s=6.0, compile_timeout_s=6.0, total_timeout_s=60.0)

SPECIMENS = corpus()
OPERATORS = sorted({item.path.parent.name for item in SPECIMENS})


@pytest.mark.parametrize(
    "operator",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow, pytest.mark.ci]) for name in OPERATORS],
)
def test_every_kernel_of_an_operator_gets_its_verdict(operator: str, nursery: Nursery) -> None:
    members = [item for item in SPECIMENS if item.path.parent.name == operator and not missing(item.needs)]
    outcomes = grade(members, SETTINGS, nursery=nursery)
    unexpected = [
        f"{item.name}: {spoken(outcome)}, expected {'|'.join(item.expected)}\n{getattr(outcome, 'message', outcome)}"
        for item, outcome in outcomes
        if not item.meets(outcome)
    ]
    assert not unexpected, "\n\n".join(unexpected)


def test_the_corpus_is_as_broad_as_promised() -> None:
    kinds = {name.rsplit("_", 1)[0] for name in OPERATORS}
    dtypes = {name.rsplit("_", 1)[1] for name in OPERATORS}
    assert len(kinds) >= 15
    assert {"f32", "f16", "bf16", "i32"} <= dtypes
    assert all(any(item.expected == ("passed",) for item in SPECIMENS if item.path.parent.name == o) for o in OPERATORS)
