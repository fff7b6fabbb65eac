"""Launches in shipped files go through Triton once on each GPU, and again if anything about the call is unusual."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton

from triton_agent.runs.ship.copied.launching import Launch, SizedLaunch

CPU = -1
"""The device of a tensor without a GPU."""


class Kernel:
    """Replaces a Triton kernel: counts launches that bind and examine the arguments, and launches that do not."""

    arg_names = ("x_ptr", "count", "BLOCK")

    def __init__(self) -> None:
        self.bound: list[Any] = []
        self.direct: list[Any] = []

    def __getitem__(self, grid: Any) -> Any:
        def launch(*args: Any, **constants: Any) -> Any:
            self.bound.append((grid, args, constants))
            return SimpleNamespace(run=self.run, function="function", packed_metadata="metadata")

        return launch

    def run(self, *args: Any) -> None:
        self.direct.append(args)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    active = SimpleNamespace(get_current_device=lambda: CPU, get_current_stream=lambda device: f"stream of {device}")
    monkeypatch.setattr(triton.runtime.driver, "_active", active)
    yield Kernel()


def test_later_launches_call_the_compiled_kernel(kernel: Kernel) -> None:
    launch, x = Launch(kernel, (7, 1, 1), BLOCK=64, num_warps=2), torch.ones(3)
    for count in (3, 3, 2):
        launch(x, count)
    assert kernel.bound == [((7, 1, 1), (x, 3), {"BLOCK": 64, "num_warps": 2})]
    fixed = (7, 1, 1, f"stream of {CPU}", "function", "metadata", None, None, None, x)
    assert kernel.direct == [(*fixed, 3, 64), (*fixed, 2, 64)]


def test_a_launch_of_other_sizes_goes_through_triton_once(kernel: Kernel) -> None:
    launch, x = SizedLaunch(kernel, BLOCK=64), torch.ones(3)
    for size in (3, 5, 3, 5):
        launch(size, (size, 1, 1), x, size)
    assert [grid for grid, *_ in kernel.bound] == [(3, 1, 1), (5, 1, 1)]
    assert [call[:3] for call in kernel.direct] == [(3, 1, 1), (5, 1, 1)]


def test_a_launch_without_tensors_asks_for_the_current_device(kernel: Kernel) -> None:
    launch = Launch(kernel, (1, 1, 1), BLOCK=64)
    for _ in range(2):
        launch("descriptor", 3)
    assert len(kernel.bound) == len(kernel.direct) == 1


def test_launches_on_another_gpu_are_compiled_for_it(kernel: Kernel) -> None:
    launch, x = Launch(kernel, (1, 1, 1), BLOCK=64), torch.ones(3)
    launch(x, 3)
    launch(torch.ones(3, device="meta").as_subclass(OnAnotherGpu), 3)
    assert len(kernel.bound) == 2 and not kernel.direct


class OnAnotherGpu(torch.Tensor):
    def get_device(self) -> int:
        return 1


def test_a_launch_hook_sees_every_launch(kernel: Kernel) -> None:
    launch, x, hook = Launch(kernel, (1, 1, 1), BLOCK=64), torch.ones(3), triton.knobs.runtime.launch_enter_hook
    launch(x, 3)
    hook.add(print)
    try:
        launch(x, 3)
    finally:
        hook.remove(print)
    launch(x, 3)
    assert len(kernel.bound) == 2 and len(kernel.direct) == 1
