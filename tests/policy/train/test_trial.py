"""Evaluation of a model under training: its answers are judged as an episode judges them."""

from __future__ import annotations

from typing import Any

import pytest

from triton_agent.policy.train.evaluate import trial
from triton_agent.policy.train.evaluate.sampling import SampledTokens
from triton_agent.policy.train.evaluate.trial import Trial, TrialSettings, TrialTask
from triton_agent.tools.results import Evaluation, Finding, Status


class _Tokenizer:
    """A tokenizer that decodes every answer to the same text."""

    eos_token_id = pad_token_id = 0

    def decode(self, ids: object, *, skip_special_tokens: bool) -> str:
        return "I would rather not."


@pytest.mark.parametrize("finished", [True, False])
def test_an_answer_without_a_file_is_no_answer_and_is_not_judged(
    finished: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = SampledTokens(token_ids=(1, 2), log_probabilities=(0.0, 0.0), finished=finished)
    monkeypatch.setattr(trial, "sample", lambda model, prompts, **options: [answer for _ in prompts])

    def judge(problem: str, source: str) -> Evaluation:
        raise AssertionError("nothing to judge")

    settings = TrialSettings(answers=1)
    model: Any = None
    (judged,) = Trial([TrialTask(problem="digest", prompt_ids=(1,))], judge, _Tokenizer(), settings).ask(model)
    assert judged.source == "" and judged.evaluation is not None
    assert (judged.evaluation.status, judged.evaluation.finding) == (Status.NO_ANSWER, Finding.NO_MODEL)
    assert judged.evaluation.problem == "digest"
    assert ("limit of tokens" in judged.evaluation.message) is not finished
