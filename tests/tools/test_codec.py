"""Encoding and decoding keep messages unchanged; data that is not a message of the expected class is refused."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.verdicts import passed

from triton_agent.tools.errors import NotJudgeableHere, ProblemError
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.codec import decode, encode, from_plain, to_plain
from triton_agent.tools.processes.deaths import Ending, Sign
from triton_agent.tools.processes.protocol import Bug, CheckerSettings, Judged, Refused, WorkerState
from triton_agent.tools.processes.wire import ChannelGarbled
from triton_agent.tools.sandbox.sandbox import Confinement, Limits
from triton_agent.tools.settings import EvaluatorSettings


class Colour(enum.StrEnum):
    RED = "red"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    number: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    count: int = 3
    share: float = 0.5
    either: int | float = 7
    text: str = "x"
    flag: bool = True
    colour: Colour = Colour.RED
    inner: Inner | None = None
    several: tuple[Inner, ...] = ()
    pair: tuple[int, str] = (1, "a")
    by_name: dict[str, float] = dataclasses.field(default_factory=dict)
    by_number: dict[int, int] = dataclasses.field(default_factory=dict)
    open: Any = None

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("a negative count")


def crossed(message: Any) -> Any:
    """Return the message after encoding it as text and decoding it."""
    return from_plain(type(message), json.loads(json.dumps(to_plain(message), allow_nan=False)))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"share": math.inf},
        {"share": -math.inf, "either": 0.25},
        {"inner": Inner(number=1), "several": (Inner(number=2), Inner(number=3))},
        {"by_name": {"a": 1.5}, "by_number": {0: 1, 7: 2}},
        {"open": {"anything": [1, None, "x"]}, "text": "é\0\n"},
    ],
)
def test_a_message_arrives_as_it_was_sent(change: dict[str, Any]) -> None:
    message = Everything(**change)
    again = crossed(message)
    assert again == message
    assert [type(getattr(again, name)) for name in ("either", "colour", "share")] == [
        type(message.either),
        Colour,
        float,
    ]


def test_not_a_number_arrives_as_such() -> None:
    assert math.isnan(crossed(Everything(share=math.nan)).share)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", True),
        ("count", 1.0),
        ("count", "1"),
        ("count", None),
        ("count", -1),
        ("share", "1.0"),
        ("share", "infinity"),
        ("share", True),
        ("share", 10**400),
        ("either", "1"),
        ("text", 5),
        ("flag", 1),
        ("colour", "blue"),
        ("colour", ["red"]),
        ("inner", {}),
        ("inner", {"number": 1, "more": 2}),
        ("inner", []),
        ("several", [1]),
        ("several", {"number": 1}),
        ("pair", [1]),
        ("pair", [1, "a", 2]),
        ("by_name", {"a": "b"}),
        ("by_name", []),
        ("by_number", {"x": 1}),
    ],
)
def test_a_field_of_another_type_is_refused(field: str, value: Any) -> None:
    plain = to_plain(Everything()) | {field: value}
    with pytest.raises(ChannelGarbled, match="no Everything"):
        from_plain(Everything, plain)


def test_unknown_and_missing_fields_are_refused() -> None:
    plain = to_plain(Inner(number=1))
    with pytest.raises(ChannelGarbled, match="'more'"):
        from_plain(Inner, plain | {"more": 1})
    with pytest.raises(ChannelGarbled, match="'number'"):
        from_plain(Inner, {"is": "Inner"})


@pytest.mark.parametrize("name", ["Everything", "", None, 5, ["Inner"], {"is": "Inner"}])
def test_a_message_of_another_kind_is_refused(name: Any) -> None:
    with pytest.raises(ChannelGarbled, match="where Inner or Bug is expected"):
        from_plain(Inner | Bug, {"is": name, "number": 1})
    with pytest.raises(ChannelGarbled):
        from_plain(Inner | Bug, {})


def test_endless_nesting_is_refused() -> None:
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(ChannelGarbled):
        from_plain(Everything, to_plain(Everything()) | {"pair": nested})


def test_what_checker_and_driver_send_arrives_as_it_was_sent(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text("import torch\nclass Model(torch.nn.Module): ...\ndef get_inputs(): ...\n")
    spec = parse_problem(str(tmp_path / "problem.py"))
    limits = Limits(memory_bytes=1 << 40)
    cell = Confinement(scratch="/somewhere", read_only=("/a",), limits=limits)
    told = CheckerSettings(problem=spec, settings=EvaluatorSettings(max_memory_ratio=2), confinement=cell)
    again = decode(CheckerSettings, json.loads(json.dumps(encode(told))))
    assert again == told and again.problem.text == spec.text
    ending = Ending(sign=Sign.ENDED, doing="call")
    judged = Judged(job=1, workers=(WorkerState.WARM,), evaluation=passed(), ending=ending)
    assert crossed(judged) == judged


@pytest.mark.parametrize("error", [ProblemError("no Model", where="a.py:3", remedy="add one"), NotJudgeableHere("x")])
def test_an_error_of_ours_arrives_as_the_same_kind_of_error(error: ProblemError | NotJudgeableHere) -> None:
    again = crossed(Refused(error=error, job=4)).error
    assert type(again) is type(error) and str(again) == str(error)
