"""`--device`: the cards that it selects, their order, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stand_in_cards import put_cards

from triton_agent.runs.cli.devices import choose, choose_one, chosen_before
from triton_agent.tools.errors import UsageError
from triton_agent.tools.machine import hardware

H200, A100 = "NVIDIA H200", "NVIDIA A100"


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    return put_cards(tmp_path, monkeypatch, H200, H200, H200)


def test_the_first_visible_card_needs_no_name(three: tuple[str, ...]) -> None:
    for wanted in ("cuda", "auto"):
        chosen = choose(wanted)
        assert (chosen.device, chosen.cards, chosen.uuids) == ("cuda", "", ("",))
        assert [gpu.uuid for gpu in chosen.gpus] == [three[0]]


def test_numbers_and_all_name_cards_by_uuid(three: tuple[str, ...]) -> None:
    assert choose("cuda:1").uuids == (three[1],)
    assert choose("cuda:2,0").uuids == (three[2], three[0])
    assert choose("cuda:all").uuids == three
    assert chosen_before("cuda", "2").uuids == (three[2],)


def test_numbers_count_what_is_visible(three: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    assert choose("cuda:0").uuids == (three[2],)
    assert choose("cuda:all").uuids == (three[2], three[1])
    assert choose("cuda").gpus[0].uuid == three[2]
    with pytest.raises(UsageError, match="2 GPUs are visible"):
        choose("cuda:2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", three[1])
    assert choose("cuda:all").uuids == (three[1],)


def test_a_card_that_is_hidden_is_not_there(three: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert choose("auto").device == "cpu"
    assert hardware.visible_gpus() == () and len(hardware.gpus()) == 3
    with pytest.raises(UsageError, match="no GPU was found"):
        choose("cuda:all")


def test_cards_of_different_models_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_cards(tmp_path, monkeypatch, H200, A100, H200)
    with pytest.raises(UsageError, match=r"different models: NVIDIA H200 \(132 .*NVIDIA A100 \(108 "):
        choose("cuda:all")
    assert len(choose("cuda:0,2").uuids) == 2
    assert choose("cuda:1").gpus[0].name == A100


def test_the_name_in_records_is_of_the_visible_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton_agent.runs.bench.places import here
    from triton_agent.runs.optimize.run import machine_here

    put_cards(tmp_path, monkeypatch, A100, H200)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert machine_here(0, choose("cuda")).gpu == here(choose("auto")).gpu == H200
    assert machine_here(0, choose("cpu")).gpu == here(choose("cpu")).gpu == ""


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("cuda:3", "3 GPUs are visible, from 0"),
        ("cuda:0,0", "names a card twice"),
        ("cuda:", "--device cuda:"),
        ("cuda:0,", "--device cuda:0,"),
        ("cuda:-1", "--device cuda:-1"),
        ("cuda:two", "--device cuda:two"),
        ("cpu:0", "--device cpu:0"),
        ("auto:1", "--device auto:1"),
        ("gpu", "--device gpu"),
    ],
)
def test_what_names_no_card_is_refused(three: tuple[str, ...], wanted: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        choose(wanted)


def test_where_one_card_has_to_do_several_are_refused(three: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="names 2 cards: because"):
        choose_one("cuda:0,1", "because")
    assert choose_one("cuda:1", "because").uuids == (three[1],)
    assert choose_one("cuda", "because").uuids == ("",)
