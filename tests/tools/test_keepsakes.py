"""What a call leaves behind is found where it holds an answer, and nothing else is touched."""

from __future__ import annotations

import pytest
import torch

from triton_agent.tools.isolate.keepsakes import Keepsakes


def answer_of(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    numbers = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape)
    return (numbers % 97 + 1).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.complex64])
@pytest.mark.parametrize("shape", [(40, 24), (300,), (9, 3)])
def test_an_answer_that_a_call_wrote_elsewhere_is_spoiled_there(
    dtype: torch.dtype, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triton_agent.tools.isolate.keepsakes.MARKED_AT_ONCE", 100)
    answer, memory = answer_of(dtype, *shape), torch.zeros(2000, dtype=dtype)
    table = answer.clone()
    keepsakes = Keepsakes()
    keepsakes.note([answer])
    memory[100 : 100 + answer.numel()] = answer.reshape(-1)
    keepsakes.compare([answer])
    assert keepsakes.spoil([answer]) > 0
    assert not torch.equal(memory[100 : 100 + answer.numel()].reshape(shape), answer)
    assert not memory[:100].any() and not memory[100 + answer.numel() :].any()
    assert torch.equal(table, answer), "it was there before"
    assert keepsakes.spoil([answer]) == 0


def test_what_a_call_has_made_and_keeps_is_searched_too() -> None:
    answer, kept = answer_of(torch.float32, 8, 32), {}
    keepsakes = Keepsakes()
    keepsakes.note([answer])
    kept["it"] = answer.clone()
    keepsakes.compare([answer])
    assert keepsakes.spoil([answer]) > 0 and not torch.equal(kept["it"], answer)


def test_an_answer_of_a_few_different_numbers_is_in_too_many_places_to_be_sought() -> None:
    answer, counters = torch.zeros(4, 32), torch.ones(4, 32)
    keepsakes = Keepsakes()
    keepsakes.note([answer])
    counters.zero_()
    keepsakes.compare([answer])
    assert keepsakes.spoil([answer, torch.tensor(3.0), torch.empty(0)]) == 0
    assert not counters.any()


def test_what_was_given_is_left_alone() -> None:
    answer, parameter = answer_of(torch.float32, 8, 32), torch.zeros(8, 32)
    keepsakes = Keepsakes()
    keepsakes.note([answer, parameter])
    parameter.copy_(answer)
    keepsakes.compare([answer, parameter])
    assert keepsakes.spoil([answer]) == 0 and torch.equal(parameter, answer)


class Secretive(torch.Tensor):
    """Says nothing about itself."""

    @classmethod
    def __torch_function__(cls, *_: object, **__: object) -> object:
        raise ValueError("none of your business")


def test_tensors_of_any_kind_are_searched_as_far_as_they_can_be() -> None:
    answer = answer_of(torch.float32, 8, 32)
    held = [
        torch.nn.UninitializedParameter(),
        torch.empty(3, device="meta"),
        torch.eye(3).to_sparse(),
        torch.empty(0),
        torch.Tensor._make_subclass(Secretive, torch.zeros(8, 32)),
    ]
    keepsakes = Keepsakes()
    keepsakes.note([answer])
    with torch._C.DisableTorchFunctionSubclass():
        held[-1].copy_(answer)
    keepsakes.compare([answer])
    assert keepsakes.spoil([answer]) > 0
