"""Rows for TRL have the form that its trainers expect; if TRL is installed, a trainer takes a step on them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tests.memory import samples
from tests.recorded_run import Recorded, recorded

from triton_agent.memory.exchange import jsonl
from triton_agent.memory.exchange.trl import JudgedAttempt, Shape, SkipCounts, Which, grpo_rows, sft_rows
from triton_agent.memory.groups import group_of
from triton_agent.memory.records import Attempt, Message
from triton_agent.tools.processes.zygotes import Nursery

NEEDED = ("trl", "datasets", "transformers", "tokenizers")


@pytest.fixture(scope="module")
def told(nursery: Nursery) -> Recorded:
    return recorded(nursery).timed(a3_0=1.5)


def judged(told: Recorded) -> list[JudgedAttempt]:
    verdicts = {grading.attempt: grading.evaluation for grading in told.gradings}
    return [JudgedAttempt(attempt=attempt, evaluation=verdicts[attempt.key]) for attempt in told.attempts]


def sft(items: list[JudgedAttempt], which: Which, shape: Shape = Shape.MESSAGES) -> list[dict[str, Any]]:
    return list(sft_rows(items, which, shape, SkipCounts()))


# -- examples to imitate -----------------------------------------------------------------------------------------------


def test_only_what_passed_is_an_example_and_the_rest_is_counted(told: Recorded) -> None:
    left_out = SkipCounts()
    rows = list(sft_rows(judged(told), Which.PASSED, Shape.MESSAGES, left_out))
    assert [row["attempt"] for row in rows] == [told.attempts[3].key]
    assert left_out.reasons == {"did not pass": 3}


def test_a_row_is_the_conversation_as_it_was_with_the_answer_last(told: Recorded) -> None:
    (row,) = sft(judged(told), Which.PASSED)
    said = told.attempts[3].completion
    assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant"]
    assert row["messages"][-1] == {"role": "assistant", "content": said.text}
    assert row["messages"][1]["content"] == said.messages[1].content


def test_prompt_and_completion_are_the_same_conversation_cut_before_the_answer(told: Recorded) -> None:
    (whole,) = sft(judged(told), Which.PASSED)
    (cut,) = sft(judged(told), Which.PASSED, Shape.PROMPT_COMPLETION)
    assert cut["prompt"] + cut["completion"] == whole["messages"]
    assert "messages" not in cut


def test_a_win_is_surely_faster_than_the_original(told: Recorded) -> None:
    slower = told.timed(a3_0=1.005)  # its interval reaches below 1
    assert len(sft(judged(told), Which.WINS)) == 1
    assert sft(judged(slower), Which.WINS) == []
    assert sft(judged(recorded_without_times(told)), Which.WINS) == []


def recorded_without_times(told: Recorded) -> Recorded:
    bare = (
        dataclasses.replace(one, evaluation=one.evaluation and dataclasses.replace(one.evaluation, timings=()))
        for one in told.gradings
    )
    return dataclasses.replace(told, gradings=tuple(bare))


def test_the_best_of_a_problem_is_the_one_that_is_surely_fastest(told: Recorded) -> None:
    faster = told.renamed("20260201-000000-aaaaaa").timed(a3_0=1.8)
    rows = sft([*judged(told), *judged(faster)], Which.BEST)
    assert [row["attempt"] for row in rows] == ["20260201-000000-aaaaaa/3.0"]


def test_an_author_without_messages_becomes_an_example_once_its_observation_can_be_shown(told: Recorded) -> None:
    silent = [
        dataclasses.replace(
            item,
            attempt=dataclasses.replace(
                item.attempt, completion=dataclasses.replace(item.attempt.completion, messages=())
            ),
        )
        for item in judged(told)
    ]
    left_out = SkipCounts()
    assert list(sft_rows(silent, Which.PASSED, Shape.MESSAGES, left_out)) == []
    assert left_out.reasons["its author was shown no messages"] == 1

    def conversation(attempt: Attempt) -> list[Message]:
        return [Message(role="user", content=str(attempt.observation.seed)), Message(role="assistant", content="done")]

    shown = next(sft_rows(silent, Which.PASSED, Shape.PROMPT_COMPLETION, SkipCounts(), conversation))
    assert shown["prompt"] == [{"role": "user", "content": "103"}]
    assert shown["completion"] == [{"role": "assistant", "content": "done"}]


# -- samples with what they earned -------------------------------------------------------------------------------------


def test_a_sample_keeps_its_tokens_log_probabilities_and_mask(told: Recorded) -> None:
    rows = list(grpo_rows(judged(told), SkipCounts()))
    said = told.attempts[1].completion
    row = rows[1]
    assert len(rows) == 4
    assert tuple(row["completion_ids"]) == said.token_ids
    assert tuple(row["logprobs"]) == said.log_probabilities
    assert tuple(map(bool, row["env_mask"])) == said.mask
    assert len({len(row[name]) for name in ("completion_ids", "logprobs", "env_mask")}) == 1
    verdict = judged(told)[1].evaluation
    assert verdict is not None
    assert (row["status"], row["finding"], row["passed"]) == ("wrong_values", verdict.finding, False)
    assert (rows[3]["passed"], rows[3]["speedup"]) == (True, 1.5)
    assert rows[3]["speedup_low"] < 1.5 < rows[3]["speedup_high"]


def test_what_was_never_measured_is_no_sample(told: Recorded) -> None:
    items = [dataclasses.replace(item, evaluation=None) for item in judged(told)[:2]]
    tokenless = dataclasses.replace(
        told.attempts[3].completion, token_ids=None, log_probabilities=None, mask=None, missing="the server is silent"
    )
    items.append(
        dataclasses.replace(judged(told)[3], attempt=dataclasses.replace(told.attempts[3], completion=tokenless))
    )
    left_out = SkipCounts()
    assert list(grpo_rows(items, left_out)) == []
    assert left_out.reasons == {"not measured": 2, "its tokens are not known": 1}


def test_a_row_says_how_its_tokens_were_drawn_and_which_group_they_belong_to(told: Recorded) -> None:
    item = next(item for item in judged(told) if item.evaluation is not None)
    sampled = samples.sampled()
    item = dataclasses.replace(item, attempt=dataclasses.replace(item.attempt, completion=sampled))
    (row,) = grpo_rows([item], SkipCounts())
    assert (row["temperature"], row["top_p"], row["seed"], row["min_p"]) == (0.8, 1.0, 2**61 + 1, None)
    reshaping = ("frequency_penalty", "presence_penalty", "repetition_penalty", "pattern")
    assert {name: row[name] for name in reshaping} == {name: getattr(sampled.sampling, name) for name in reshaping}, (
        "whoever trains on the row can tell if its distribution was changed"
    )
    assert (row["tokenizer"], row["question"], row["logprobs_of"]) == (sampled.tokenizer, sampled.group, "sampled")
    assert row["group"] == group_of(item.attempt, item.evaluation)


# -- TRL itself --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh model of the Qwen3 kind with a tokenizer of bytes, made here."""
    for name in NEEDED:
        pytest.importorskip(name, reason=f"{name} is not installed: pip install trl")
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    folder = tmp_path_factory.mktemp("tiny")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<pad>", "<eos>", "<turn>", *alphabet]
    plain = Tokenizer(models.BPE(vocab={name: at for at, name in enumerate(names)}, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>")
    tokenizer.chat_template = (
        "{% for m in messages %}<turn>{{ m.role }}\n{{ m.content }}<eos>{% endfor %}"
        "{% if add_generation_prompt %}<turn>assistant\n{% endif %}"
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    ends = {"pad_token_id": 0, "eos_token_id": 1}
    config = Qwen3Config(vocab_size=len(names), max_position_embeddings=8192, **sizes, **heads, **ends)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


ON_CPU = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": [], "save_strategy": "no"}


def moved(trainer: Any) -> bool:
    """Return whether a training step changed the weights, to finite values."""
    import torch

    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    after = dict(trainer.model.named_parameters())
    assert all(torch.isfinite(value).all() for value in after.values())
    return any(not torch.equal(before[name], after[name].detach()) for name in before)


@pytest.mark.slow
@pytest.mark.parametrize("shape", list(Shape))
def test_sft_trainer_takes_a_step_on_the_rows(told: Recorded, tiny: Path, tmp_path: Path, shape: Shape) -> None:
    from datasets import load_dataset
    from trl import SFTConfig, SFTTrainer

    rows = sft(judged(told), Which.PASSED, shape)
    jsonl.write_lines(rows * 2, tmp_path / "rows.jsonl")
    data = load_dataset("json", data_files=str(tmp_path / "rows.jsonl"), split="train", cache_dir=str(tmp_path))
    settings = SFTConfig(
        output_dir=str(tmp_path / "out"), max_steps=1, per_device_train_batch_size=2, max_length=4096, **ON_CPU
    )
    trainer = SFTTrainer(model=str(tiny), args=settings, train_dataset=data)
    assert moved(trainer)


@pytest.mark.slow
def test_grpo_trainer_takes_a_step_on_the_stored_samples(told: Recorded, tiny: Path, tmp_path: Path) -> None:
    """The rollout function returns the stored samples, so the trainer scores the sampled tokens."""
    from datasets import load_dataset
    from trl import GRPOConfig, GRPOTrainer

    verdicts = judged(told)
    pair = [
        dataclasses.replace(
            verdicts[at], attempt=dataclasses.replace(verdicts[at].attempt, turn=1, index=at, parent=None)
        )
        for at in (1, 3)
    ]
    same_question = pair[0].attempt.completion.messages
    pair = [
        dataclasses.replace(
            item,
            attempt=dataclasses.replace(
                item.attempt, completion=dataclasses.replace(item.attempt.completion, messages=same_question)
            ),
        )
        for item in pair
    ]
    jsonl.write_lines(grpo_rows(pair, SkipCounts()), tmp_path / "rows.jsonl")
    data = load_dataset("json", data_files=str(tmp_path / "rows.jsonl"), split="train", cache_dir=str(tmp_path))
    assert len(set(data["group"])) == 1
    stored = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    scored: list[list[int]] = []

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        names = ("prompt_ids", "completion_ids", "logprobs", "env_mask", "passed")
        return {name: [stored[at % 2][name] for at in range(len(prompts))] for name in names}

    def reward(prompts: Any, completions: Any, completion_ids: Any, passed: Any, **rest: Any) -> list[float]:
        scored.extend(completion_ids)
        return [float(one) for one in passed]

    settings = GRPOConfig(
        output_dir=str(tmp_path / "out"),
        max_steps=1,
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=64,
        learning_rate=1e-3,
        **ON_CPU,
    )
    questions = data.select([0]).select_columns(["prompt"])
    trainer = GRPOTrainer(
        model=str(tiny), reward_funcs=reward, args=settings, train_dataset=questions, rollout_func=rollout
    )
    assert moved(trainer)
    assert scored == [row["completion_ids"] for row in stored]
