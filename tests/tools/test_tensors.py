"""A candidate's values are read without running its code."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import pytest
import torch

from triton_agent.tools.processes.protocol import SentTensor
from triton_agent.tools.processes.tensors import Foreign, describe, flatten, is_expanded, own_view, row


class Pair(NamedTuple):
    one: torch.Tensor
    other: torch.Tensor


@dataclasses.dataclass(slots=True)
class Slotted:
    one: torch.Tensor


@dataclasses.dataclass
class Plain:
    one: torch.Tensor


class Ran(AssertionError):
    """Raised if the candidate's code ran."""


def running(*_: Any) -> Any:
    raise Ran


class LateTuple(tuple[torch.Tensor, ...]):
    __iter__ = __getitem__ = __len__ = running


class LateList(list[torch.Tensor]):
    __iter__ = __getitem__ = __len__ = running


class LateDict(dict[str, torch.Tensor]):
    __iter__ = __getitem__ = items = keys = running


class LateKey(str):
    __str__ = __repr__ = running
    __slots__ = ()


class Computed:
    """A class with a field that is computed on access."""

    __get__ = running

    def __set__(self, instance: object, value: object) -> None:
        return


@dataclasses.dataclass
class Late:
    one: torch.Tensor


Late.one = Computed()  # type: ignore[assignment]


def flat(value: object) -> Any:
    return flatten(value, lambda tensor: tensor.numel())


def test_containers_with_names_are_read_as_what_they_hold() -> None:
    two, three = torch.zeros(2), torch.zeros(3)
    assert flat(Pair(two, three)) == flat((two, three)) == {"tuple": [{"tensor": 2}, {"tensor": 3}]}
    wanted = {"dict": [["one", {"tensor": 2}]]}
    held = [{"one": two}, collections.OrderedDict(one=two), Slotted(two), Plain(two)]
    assert [flat(value) for value in held] == [wanted] * 4


def test_no_code_of_a_container_runs_when_it_is_read() -> None:
    two = torch.zeros(2)
    assert flat(LateTuple([two])) == {"tuple": [{"tensor": 2}]}
    assert flat(LateList([two])) == {"list": [{"tensor": 2}]}
    assert flat(LateDict(one=two)) == flat({LateKey("one"): two}) == {"dict": [["one", {"tensor": 2}]]}


def test_a_field_that_is_made_up_and_a_key_that_is_no_text_are_nobodys_answer() -> None:
    with pytest.raises(Foreign):
        flat(Late(torch.zeros(2)))
    with pytest.raises(Foreign):
        flat({Ran: torch.zeros(2)})


def test_an_attribute_of_one_tensor_hides_no_method() -> None:
    tensor = torch.arange(6.0).view(2, 3)
    for name in ("detach", "stride", "contiguous", "reshape", "view", "numel", "resolve_conj", "resolve_neg"):
        setattr(tensor, name, running)
    assert describe(tensor) == SentTensor(dtype="float32", shape=(2, 3))
    assert row(tensor).view(torch.float32).tolist() == [0, 1, 2, 3, 4, 5]
    assert own_view(tensor).detach().data_ptr() == torch.Tensor.data_ptr(tensor)


@pytest.mark.parametrize(
    "tensor, expanded",
    [
        (torch.zeros(3, 1).expand(3, 4), True),
        (torch.zeros(3, 1).expand(3, 1), False),
        (torch.zeros(0, 1).expand(0, 4), False),
        (torch.zeros(3, 4).t(), False),
        (torch.zeros(()), False),
    ],
)
def test_elements_that_are_one_in_memory_are_noticed(tensor: torch.Tensor, expanded: bool) -> None:
    assert is_expanded(tensor.shape, tensor.stride()) == expanded


@pytest.mark.parametrize("stride", [0, 2])
def test_a_single_element_is_read_whatever_its_stride(stride: int) -> None:
    """A stepped input of one element, such as the time step of a batch of one, has a stride of two."""
    tensor = torch.tensor([7, 9, 11])[1:].as_strided((1,), (stride,))
    assert row(tensor).tolist() == [9, 0, 0, 0, 0, 0, 0, 0]
