"""What repeats in an operator graph is folded; everything else is shown as it is."""

from __future__ import annotations

import re

from triton_agent.policy.llm.prompting.folding import folded


def unrolled(steps: int) -> str:
    lines = ["x0: float32[128, 256]", "n0 = aten.relu(x0) -> float32[128, 256]"]
    for step in range(steps):
        lines.append(f"n{2 * step + 1} = aten.select(n0, dim=0, index={step}) -> float32[256]  # view of n0")
        lines.append(f"n{2 * step + 2} = aten.add(n{2 * step + 1}, n{2 * step}) -> float32[256]")
    return "\n".join([*lines, f"return n{2 * steps}"])


def test_the_steps_of_a_loop_are_shown_twice_and_at_its_end() -> None:
    shown = folded(unrolled(100)).split("\n")
    whole = unrolled(100).split("\n")
    assert shown[:6] == whole[:6] and shown[-3:] == whole[-3:]
    assert shown[6:-3] == ["[... the last 2 lines are repeated 97 times with other numbers ...]"]


def test_a_few_repetitions_are_shown_whole() -> None:
    assert folded(unrolled(6)) == unrolled(6)


def test_operators_that_differ_are_never_folded() -> None:
    names = ("relu", "exp", "tanh", "sin", "cos", "abs", "neg")
    text = "\n".join(f"n{i} = aten.{names[i * i % 7]}{'' if i % 11 else '_'}(n{i - 1})" for i in range(60))
    kept = [line for line in folded(text).split("\n") if line.startswith("n")]
    left_out = sum(
        int(size or 1) * int(times)
        for size, times in re.findall(r"last (\d+)? ?lines? (?:is|are) repeated (\d+)", folded(text))
    )
    assert len(kept) + left_out == 60
    assert set(kept) <= set(text.split("\n"))


def test_a_list_of_all_steps_loses_its_middle() -> None:
    line = "n9 = aten.stack(tensors=[" + ", ".join(f"n{i}" for i in range(500)) + "]) -> float32[500]"
    (shown,) = folded(line).split("\n")
    assert len(shown) < 400 and shown.startswith(line[:100]) and shown.endswith(line[-100:])
