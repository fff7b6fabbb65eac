"""Host code run for its launches alone: nothing heavy happens, and shapes come out as they would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from triton_agent.tools.emulate.uncomputed import Uncomputed, made_up, outline
from triton_agent.tools.isolate.payloads import pack


class Computed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers what really is computed: operators over tensors that have values."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.device.type != "meta":
            self.names.add(func._schema.name)
        return result


CALLS: dict[str, tuple[str, Callable[[], torch.Tensor]]] = {
    "a product": ("aten::mm", lambda: torch.ones(3, 5) @ torch.ones(5, 7)),
    "a batch of products": ("aten::bmm", lambda: torch.bmm(torch.ones(2, 3, 5), torch.ones(2, 5, 7))),
    "a linear layer": ("aten::addmm", lambda: functional.linear(torch.ones(3, 5), torch.ones(7, 5), torch.ones(7))),
    "a convolution": ("aten::convolution", lambda: functional.conv2d(torch.ones(1, 2, 9, 9), torch.ones(4, 2, 3, 3))),
}


@pytest.mark.parametrize("what", CALLS)
def test_heavy_operators_give_the_right_shape_and_are_not_run(what: str) -> None:
    operator, call = CALLS[what]
    with Computed() as computed, Uncomputed():
        shaped = call()
    assert operator not in computed.names
    assert (shaped.shape, shaped.dtype, shaped.device) == (call().shape, call().dtype, call().device)
    with computed:
        call()
    assert operator in computed.names


def test_light_operators_and_views_are_what_they_were() -> None:
    with Uncomputed():
        assert torch.equal((torch.arange(6.0).view(2, 3).t() + 1).sum(0), torch.tensor([6.0, 15.0]))


def test_parameters_are_made_without_being_drawn() -> None:
    with Computed() as computed, Uncomputed():
        layer = torch.nn.Linear(4, 6)
    assert layer.weight.shape == (6, 4)
    assert not {"aten::uniform_", "aten::normal_"} & computed.names


def test_an_outline_travels_without_values_and_comes_back_with_memory() -> None:
    values = [torch.randn(64, 512).t(), {"index": torch.arange(3)}, 5]
    payload = pack(outline(values))
    assert payload.size_bytes < values[0].numel()
    made = made_up(payload.unpack())
    assert (made[0].shape, made[0].stride(), made[0].device.type) == ((512, 64), (1, 512), "cpu")
    assert made[1]["index"].tolist() == [0, 0, 0] and made[2] == 5
