"""Scores computed in chunks equal those of the full logits; models used for inference keep their precision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.policy.train.marks import NEEDS_TRAINING

pytestmark = NEEDS_TRAINING

ANSWER = 7


def ragged_rows() -> tuple[Any, Any]:
    """Return two rows of tokens, the second with padding before its prompt and after its answer."""
    import torch

    ids = torch.arange(2 * 20).reshape(2, 20) % 37 + 3
    present = torch.ones_like(ids)
    present[1, :4] = 0
    present[1, -2:] = 0
    return ids, present


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.8])
def test_scores_are_those_of_the_whole_logits(tiny: Path, temperature: float, wrapped: bool) -> None:
    import torch
    from peft import get_peft_model

    from triton_agent.policy.train.update.scoring import scores_of
    from triton_agent.policy.train.update.session import Adapter, load_frozen, peft_config

    model = load_frozen(str(tiny), cpu=True)
    if wrapped:
        model = get_peft_model(model, peft_config(Adapter(rank=2), model)).eval()
    ids, present = ragged_rows()
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=present).logits[:, -ANSWER - 1 : -1] / temperature
    whole = logits.log_softmax(-1)
    there = present[:, -ANSWER:]
    likely, entropy = scores_of(model, ids, present, ANSWER, temperature)
    expected = whole.gather(-1, ids[:, -ANSWER:, None])[..., 0]
    torch.testing.assert_close(likely, expected * there, atol=1e-5, rtol=0)
    torch.testing.assert_close(entropy, -(whole.exp() * whole).sum(-1) * there, atol=1e-5, rtol=0)


def test_scoring_leaves_the_head_of_a_trainer_as_it_was(tiny: Path) -> None:
    import torch
    from trl.trainer.utils import add_fused_lm_head

    from triton_agent.policy.train.update.scoring import scores_of
    from triton_agent.policy.train.update.session import load_frozen

    model = load_frozen(str(tiny), cpu=True)
    assert "forward" not in vars(model)
    ids, present = ragged_rows()
    plain = scores_of(model, ids, present, ANSWER, 0.5)[0]
    assert "forward" not in vars(model)
    add_fused_lm_head(model, temperature=2.0)
    own = model.forward
    assert torch.equal(scores_of(model, ids, present, ANSWER, 0.5)[0], plain)
    assert model.forward == own


def test_an_evaluations_answers_are_sampled_without_logits_and_scored_on_request(tiny: Path) -> None:
    import torch

    from triton_agent.policy.train.evaluate.sampling import sample
    from triton_agent.policy.train.update.session import load_frozen

    model = load_frozen(str(tiny), cpu=True)
    prompts = [[5, 6, 7, 8], [9, 10]]
    found = []
    for scored in (False, True):
        torch.manual_seed(0)
        found.append(sample(model, prompts, tokens_at_most=6, end_id=2, pad_id=0, temperature=0.8, scored=scored))
    bare, scored_answers = found
    assert [one.token_ids for one in bare] == [one.token_ids for one in scored_answers]
    assert all(one.log_probabilities == () for one in bare)
    for prompt, one in zip(prompts, scored_answers):
        ids = torch.tensor([[*prompt, *one.token_ids]])
        with torch.no_grad():
            whole = (model(input_ids=ids).logits[0, len(prompt) - 1 : -1] / 0.8).log_softmax(-1)
        expected = whole.gather(-1, ids[0, len(prompt) :, None])[:, 0].tolist()
        assert one.log_probabilities == pytest.approx(expected, abs=1e-5)


def test_a_checkpoint_is_measured_by_the_entropy_of_its_own_answers_and_its_loss_on_the_given_ones(tiny: Path) -> None:
    """In one batch or several, and equal to what the whole logits say of answers sampled with the same seed."""
    import torch

    from triton_agent.policy.train.evaluate.sampling import sample
    from triton_agent.policy.train.update.session import load_frozen, load_tokenizer
    from triton_agent.policy.train.update.start import measure

    pairs = [([5, 6, 7], [8, 9, 10, 11]), ([5], [12, 13]), ([9, 9, 9, 9], [6])]
    model, tokenizer = load_frozen(str(tiny), cpu=True), load_tokenizer(str(tiny))

    def whole(prompt: Sequence[int], answer: Sequence[int]) -> torch.Tensor:
        with torch.no_grad():
            return model(input_ids=torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)

    losses = torch.cat([-whole(p, a).gather(-1, torch.tensor(a)[:, None])[:, 0] for p, a in pairs])
    for batch_size in (1, 3):
        torch.manual_seed(0)
        own = sample(
            model,
            [prompt for prompt, _ in pairs],
            tokens_at_most=6,
            end_id=tokenizer.eos_token_id,
            pad_id=0,
            batch_size=batch_size,
        )
        said = [whole(prompt, one.token_ids) for (prompt, _), one in zip(pairs, own)]
        entropies = torch.cat([-(one.exp() * one).sum(-1) for one in said])
        found = measure(tiny, pairs, cpu=True, batch_size=batch_size, own_tokens=6)
        assert found.entropy == pytest.approx(float(entropies.mean()), abs=1e-5)
        assert found.loss == pytest.approx(float(losses.mean()), abs=1e-5)
    given = torch.cat([-(one.exp() * one).sum(-1) for one in (whole(p, a) for p, a in pairs)])
    assert abs(found.entropy - float(given.mean())) > 1e-5, "the entropy at the given answers is another figure"


def test_a_model_that_is_only_asked_keeps_the_precision_of_its_files(tiny: Path, tmp_path: Path) -> None:
    import torch

    from triton_agent.policy.train.update.session import load, load_frozen, load_tokenizer

    model, _ = load(str(tiny), bf16=True, cpu=True)
    model.save_pretrained(tmp_path / "half")
    load_tokenizer(str(tiny)).save_pretrained(tmp_path / "half")
    assert load_frozen(str(tmp_path / "half"), cpu=True).dtype is torch.bfloat16
    assert load_frozen(str(tiny), cpu=True).dtype is torch.float32
    assert load(str(tmp_path / "half"), cpu=True)[0].dtype is torch.float32, "small steps vanish in fewer bits"
