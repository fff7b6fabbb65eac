"""Creates a new small policy: a current decoder architecture, and a tokenizer trained on given texts.

Its weights are random; it learns only the format and the kernels that it is shown. It is no substitute for a pretrained
model, but lets one run, test and understand every step of training on any machine.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from triton_agent.tools.errors import UsageError

END_OF_TEXT, TURN_BEGINS, TURN_ENDS = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML. The assistant's text is marked, so that fine-tuning can restrict the loss to it."""
LEAST_VOCABULARY = 512
"""Smallest vocabulary; half of it is single bytes."""
COMMON_LINE = 0.005
LINE_TEXTS_AT_LEAST = 4
"""Fewest texts that must contain a line for it to become a token, even if there are few texts."""
HEAD_SIZE = 64
"""Size of an attention head; serving engines refuse smaller ones."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a new policy."""

    layers: int
    width: int
    heads: int
    key_value_heads: int
    vocabulary: int
    context: int


SIZES = {
    "mini": Size(layers=4, width=128, heads=2, key_value_heads=1, vocabulary=2048, context=4096),
    "tiny": Size(layers=2, width=64, heads=2, key_value_heads=1, vocabulary=1024, context=2048),
    "small": Size(layers=8, width=512, heads=8, key_value_heads=4, vocabulary=8192, context=8192),
}
"""`tiny` trains in seconds on two cores, for tests. `mini` learns the format of short kernels there in a quarter of an
hour. `small` writes code-like text after an hour on a GPU.
"""


def require_possible(size: str, folder: Path, vocabulary: int | None) -> None:
    """Raise a UsageError if such a policy cannot be made there. Needs no library."""
    if size not in SIZES:
        raise UsageError(f"no size {size!r}", remedy=f"one of {', '.join(SIZES)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty", remedy="name a new folder: a policy is never written over another")
    if vocabulary is not None and vocabulary < LEAST_VOCABULARY:
        raise UsageError(f"a vocabulary of {vocabulary} tokens", remedy=f"at least {LEAST_VOCABULARY}")


def make_policy(
    size: str,
    texts: Iterable[str],
    folder: Path,
    *,
    seed: int = 0,
    across_words: bool = False,
    whole_lines: bool = False,
    vocabulary: int | None = None,
) -> int:
    """Write model and tokenizer into a folder in the common format; return the number of parameters.

    `vocabulary` overrides the size's number of tokens; the lines of `whole_lines` are added to it.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    require_possible(size, folder, vocabulary)
    chosen = SIZES[size]
    if vocabulary is not None:
        chosen = dataclasses.replace(chosen, vocabulary=vocabulary)
    tokenizer = make_tokenizer(texts, chosen, across_words=across_words, whole_lines=whole_lines)
    config = Qwen3Config(
        vocab_size=_rounded_up(len(tokenizer)),
        hidden_size=chosen.width,
        intermediate_size=chosen.width * 3,
        num_hidden_layers=chosen.layers,
        num_attention_heads=chosen.heads,
        num_key_value_heads=chosen.key_value_heads,
        head_dim=HEAD_SIZE,
        max_position_embeddings=chosen.context,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def make_tokenizer(texts: Iterable[str], size: Size, *, across_words: bool = False, whole_lines: bool = False) -> Any:
    """Train a byte-level BPE tokenizer, which can encode any text and takes few tokens for text like the given.

    With `across_words` a token may span words and lines; with few similar texts, whole passages become one token. With
    `whole_lines` every line that many of the texts contain is one token, and all other text is split into words.
    Prompts and files that repeat each other become short, and the parts that differ are split in one way everywhere.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    texts = list(texts)
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not across_words)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size.vocabulary,
        special_tokens=[END_OF_TEXT, TURN_BEGINS, TURN_ENDS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(_required(texts), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=TURN_ENDS,
        pad_token=END_OF_TEXT,
        padding_side="left",
        model_max_length=size.context,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    if whole_lines:
        tokenizer.add_tokens([AddedToken(line, normalized=False) for line in common_lines(texts)])
    return tokenizer


def common_lines(texts: Sequence[str]) -> list[str]:
    """Return the lines, with their ends, that a `COMMON_LINE` share of the texts contain, the most frequent first."""
    counts = Counter(line for text in texts for line in set(text.splitlines(keepends=True)))
    least = max(LINE_TEXTS_AT_LEAST, COMMON_LINE * len(texts))
    return [line for line, count in counts.most_common() if count >= least and len(line.strip()) > 1]


def _required(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts; raise UsageError if there are none."""
    found = False
    for text in texts:
        found = True
        yield text
    if not found:
        raise UsageError("there is no text to train a tokenizer on", remedy="name files or folders with --data")


def _rounded_up(count: int, step: int = 64) -> int:
    """Round up to a multiple of `step`, since matrices of such sizes are faster."""
    return count + -count % step
