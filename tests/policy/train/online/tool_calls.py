"""A trainer of TRL whose tiny model submits given files by tool calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONTEXT = 20_000


def trainer_that_submits(file: Callable[[int], str], shown: list[str]) -> Any:
    """Return TRL's trainer with other answers: a call with `file(1)`, in every second episode another with `file(2)`.

    Prompts that contain a verdict are added to `shown`.
    """
    from trl import GRPOTrainer

    def submitting(number: int) -> str:
        arguments = {"plan": f"Take {number}.", "file": file(number)}
        return f"<tool_call>\n{json.dumps({'name': 'submit', 'arguments': arguments})}\n</tool_call>"

    class Speaking(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids, *arguments, **keywords):  # type: ignore[no-untyped-def]
            texts = [self.processing_class.decode(ids) for ids in prompt_ids]
            shown.extend(text for text in texts if "# The attempt to" in text)
            calls = [text.count("<tool_response>") for text in texts]
            said = [submitting(calls + 1) if calls < 1 + place % 2 else "Done." for place, calls in enumerate(calls)]
            self.generation_config.max_new_tokens = 1  # what the model says is replaced
            _, logprobs, *rest = super()._generate_single_turn(prompt_ids, *arguments, **keywords)
            ids = [self.processing_class(text + self.processing_class.eos_token)["input_ids"] for text in said]
            return ids, None if logprobs is None else [[-1.0] * len(one) for one in ids], *rest

    return Speaking


def model_that_calls_tools(folder: Path) -> tuple[Any, Any]:
    """Return a fresh tiny policy and its tokenizer, with a chat template that knows tools."""
    from trl.chat_template_utils import qwen3_chat_template

    from triton_agent.policy.train.update.fresh import make_policy
    from triton_agent.policy.train.update.session import load

    make_policy("tiny", ["<tool_call>\nimport triton\n</tool_call>" * 20], folder)
    model, tokenizer = load(str(folder), cpu=True)
    model.config.max_position_embeddings = CONTEXT  # TRL drops verdicts beyond it; a character is a token here
    tokenizer.chat_template = qwen3_chat_template
    return model, tokenizer


def settings(folder: Path, **changes: int) -> Any:
    """Return settings for three steps of TRL's trainer on a CPU."""
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=str(folder / "out"),
        max_steps=3,
        per_device_train_batch_size=2,
        num_generations=2,
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        learning_rate=1e-3,
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
        **changes,
    )
