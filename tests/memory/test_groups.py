"""A group holds attempts that may be compared; any difference that makes results incomparable starts another."""

from __future__ import annotations

import dataclasses

import pytest
from tests.memory import samples
from tests.verdicts import environment, passed

from triton_agent.memory.groups import group_of
from triton_agent.memory.observation import Rules
from triton_agent.memory.records import Attempt

OURS = samples.attempt(completion=samples.sampled())


def group(attempt: Attempt = OURS, device: str = "NVIDIA H200", grader: str = "8") -> str:
    return group_of(attempt, passed(environment=environment(device, grader=grader)))


def said(**changes: object) -> Attempt:
    return dataclasses.replace(OURS, completion=dataclasses.replace(OURS.completion, **changes))  # type: ignore[arg-type]


def seen(**changes: object) -> Attempt:
    return dataclasses.replace(OURS, observation=dataclasses.replace(OURS.observation, **changes))  # type: ignore[arg-type]


def test_other_runs_turns_and_versions_of_the_policy_are_of_one_group() -> None:
    others = [dataclasses.replace(OURS, run="another", turn=3, parent="x/2.0"), said(policy_version="2")]
    assert {group(other) for other in others} == {group()}


@pytest.mark.parametrize(
    "other",
    [
        said(prompt_version="p2"),
        said(tokenizer="another"),
        said(policy="vllm:another"),
        seen(problem=samples.problem("another")),
        seen(rules=Rules(precision="tf32")),
        seen(rules=Rules(allow_library=True)),
    ],
)
def test_what_may_not_be_compared_is_of_another_group(other: Attempt) -> None:
    assert group(other) != group()


def test_verdicts_of_another_grader_or_gpu_are_of_another_group() -> None:
    assert len({group(), group(grader="9"), group(device="NVIDIA A100")}) == 3


def test_an_answer_without_a_file_is_compared_on_the_device_of_its_run() -> None:
    on_gpu = seen(problem=dataclasses.replace(OURS.observation.problem, device="NVIDIA H200"))
    assert group(on_gpu, device="") == group(on_gpu)
