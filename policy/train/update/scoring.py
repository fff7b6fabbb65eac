"""Scores tokens under a model: log-probabilities and entropies, without holding the logits of all tokens.

TRL's fused head projects a part of the vocabulary at a time. The trainers use it by themselves; this module is for
models that are not trained: rescoring, choosing a checkpoint, and answers that an evaluation samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor
from trl.trainer.utils import add_fused_lm_head

IGNORED = -100
"""Label of a token that is not scored."""


def padded(
    values: Sequence[Sequence[Any]], filler: Any, kind: torch.dtype, device: Any, *, left: bool = False
) -> Tensor:
    """Return sequences of different lengths as the rows of one tensor."""
    width = max(map(len, values))
    rows = [[*[filler] * (width - len(v)), *v] if left else [*v, *[filler] * (width - len(v))] for v in values]
    return torch.tensor(rows, dtype=kind, device=device)


@torch.no_grad()
def scores_of(model: Any, ids: Tensor, present: Tensor, width: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Return log-probability and entropy of the last `width` columns of tokens, in float32; 0 for padding."""
    plain = model.get_base_model() if isinstance(model, PeftModel) else model
    before = plain.__dict__.get("forward")  # a trainer's model already has such a head, for another temperature
    labels = ids.masked_fill(present == 0, IGNORED)
    labels[:, :-width] = IGNORED
    try:
        add_fused_lm_head(plain, temperature=temperature, outputs=("log_probs", "entropy"))
        found = model(input_ids=ids, attention_mask=present, labels=labels, fused_lm_head=True)
    finally:
        if before is None:
            del plain.forward
        else:
            plain.forward = before
    return found.log_probs[:, -width:].float(), found.entropy[:, -width:].float()
