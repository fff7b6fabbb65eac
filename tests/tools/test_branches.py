"""Which branches the kernels of a call take, read from their text and from the arguments of their launches."""

from __future__ import annotations

from typing import Any

import pytest

from triton_agent.tools.kernels.kernel import FunctionReference, JitFunction, KernelSet, Parameter, value_to_json
from triton_agent.tools.tape.branches import branches_of
from triton_agent.tools.tape.tape import Choice, Constexpr, Launch, Tape


def branches(body: str, helper: str = "return x", **given: Any) -> frozenset[tuple[str, ...]]:
    """Return the branches of a call that launches one kernel with these arguments."""
    inner = JitFunction(
        name="helper",
        source=f"def helper(x, ROUNDS, LEAST=1):\n    {helper}\n",
        parameters=(
            Parameter(name="x"),
            Parameter(name="ROUNDS"),
            Parameter(name="LEAST", has_default=True, default=1),
        ),
        globals=(),
    )
    kernel = JitFunction(
        name="kernel",
        source=f"def kernel({', '.join(given)}):\n" + "".join(f"    {line}\n" for line in body.splitlines()),
        parameters=tuple(Parameter(name=name) for name in given),
        globals=(("helper", FunctionReference(identity=inner.identity)), ("LIMIT", 64)),
    )
    arguments = tuple(
        (name, Constexpr(value=value_to_json(value)) if name.isupper() else value) for name, value in given.items()
    )
    choice = Choice(kernel=kernel.identity, grid=(1, 1, 1), arguments=arguments, options=())
    tape = Tape(
        buffers=(),
        inputs=(),
        arguments=(),
        state=(),
        prologue=(),
        steps=(Launch(choices=(choice,), line=1),),
        tree=None,
        outputs=(),
    )
    return branches_of(tape, KernelSet(functions={it.identity: it for it in (kernel, inner)}))


@pytest.mark.parametrize(
    "condition",
    [
        "N % 2 == 0",
        "EVEN",
        "not EVEN",
        "n > LIMIT",
        "16 < n <= LIMIT",
        "bias is not None",
        "tl.cdiv(n, 64) > 1 and not EVEN",
        "n in (7, 64)",
        "total > LIMIT + 1",
    ],
)
def test_another_outcome_of_a_condition_is_another_branch(condition: str) -> None:
    body = f"total = n + 1\nif {condition}:\n    y = 1\nelse:\n    y = 2"
    one = branches(body, N=64, n=64, EVEN=True, bias=None)
    other = branches(body, N=65, n=65, EVEN=False, bias=3)
    assert one != other and len(one) == len(other)


@pytest.mark.parametrize(
    "condition", ["x > 0", "n > start", "tl.load(x) > n", "unknown(n)", "n > LIMIT or x > 0", "n < 1000"]
)
def test_conditions_that_are_not_known_or_hold_in_both_calls_are_no_branches(condition: str) -> None:
    body = f"x = tl.load(p)\nfor start in range(3):\n    if {condition}:\n        y = 1"
    assert branches(body, n=32, p=0) == branches(body, n=48, p=0)


def test_a_branch_that_is_not_taken_is_not_looked_into() -> None:
    body = "if n > 1000:\n    y = 1 if n % 2 else 2"
    assert branches(body, n=64) == branches(body, n=65)
    assert branches(body, n=1064) != branches(body, n=1065)


def test_functions_get_what_their_caller_passes() -> None:
    helper = "return x if ROUNDS > 2 and LEAST > 0 else -x"
    one, other = (branches("y = helper(n, ROUNDS=R + 1)", helper, n=1, R=rounds) for rounds in (1, 2))
    assert one != other
    assert {part[0] for part in one} == {"kernel", "helper"}


@pytest.mark.parametrize("loop", ["range(0, n, 64)", "tl.range(tl.cdiv(n, 64))", "tl.range(0, n, BLOCK, num_stages=2)"])
def test_a_loop_of_several_rounds_is_another_branch_than_one_of_a_single_round(loop: str) -> None:
    body = f"for start in {loop}:\n    y = start"
    one, two, three = (branches(body, n=n, BLOCK=64) for n in (64, 65, 170))
    assert one < two and two == three
    assert len(branches("for start in range(tl.load(p)):\n    y = start", p=0)) == 1
