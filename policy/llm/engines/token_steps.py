"""Computes the logits of one token after the other, for several conversations in one batch.

`GrowingSteps` serves every model. `FixedSteps` continues it for models with rotary positions and full attention: all
its tensors keep their place, so a GPU can replay a step as a CUDA graph. A small model spends most of a step on
launching its kernels one by one, which a replay does at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

Choose = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Returns a token for each row, and its log-probability, from the row's logits and a random number for it."""
LENGTHS = 256
"""Attention of fixed steps covers a multiple of this many positions; a graph serves one such length."""
LENGTH_DEPENDENT_ROTATIONS = ("dynamic", "longrope")
"""Kinds of rotary positions whose frequencies depend on the length, which is read on the CPU."""


class GrowingSteps:
    """Steps with one more position each, for all models and devices."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], tokens: int, chances: torch.Tensor) -> None:
        """Pad the prompts on the left. At most `tokens` steps are made; `chances` has a row of numbers for each."""
        width = max(map(len, prompts))
        device = model.device
        self.ids = torch.tensor([[0] * (width - len(ids)) + list(ids) for ids in prompts], device=device)
        self.present = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
        self.positions = (self.present.cumsum(-1) - 1).clamp(min=0)  # padding has no position
        self.model, self.tokens, self.chances = model, tokens, chances
        self.narrow = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
        self.cache: Any = None
        self.taken = 0

    def next(self, choose: Choose) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a token of each row and its log-probability."""
        if self.taken == 1:
            _preallocate(self.cache, self.tokens)
        seen = self.model(
            input_ids=self.ids,
            attention_mask=self.present,
            position_ids=self.positions,
            past_key_values=self.cache,
            use_cache=True,
            **self.narrow,
        )
        self.cache = seen.past_key_values
        chosen, likely = choose(seen.logits[:, -1], self.chances[self.taken])
        self.taken += 1
        self.ids = chosen.unsqueeze(1)
        self.present = torch.cat([self.present, torch.ones_like(self.ids)], dim=1)
        self.positions = self.positions[:, -1:] + 1
        return chosen, likely


class FixedSteps:
    """Steps whose tensors keep their shape and place, replayed as a CUDA graph if `graphs`."""

    def __init__(self, begun: GrowingSteps, *, graphs: bool) -> None:
        """Continue after the first step of `begun`, whose cache is taken over."""
        self._model, self._narrow, self._chances = begun.model, begun.narrow, begun.chances
        self._cache, self._graphs = begun.cache, graphs
        self._ids, self._positions = begun.ids.clone(), begun.positions.clone()
        self._likely = torch.zeros(len(begun.ids), dtype=torch.float32, device=begun.ids.device)
        self._filled = begun.present.shape[1] - 1
        """Positions whose keys are in the cache."""
        device = begun.ids.device
        self._place = torch.tensor([self._filled], device=device)
        self._step = torch.tensor([begun.taken], device=device)
        longest = _rounded_up(self._filled + begun.tokens)
        self._mask = _mask_of(begun.present, longest, self._model.dtype)
        self._layers = [_FixedLayer(layer, longest - self._filled, self._place) for layer in self._cache.layers]
        self._cache.layers[:] = self._layers
        self._length = 0
        self._graph: Any = None

    def next(self, choose: Choose) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a token of each row and its log-probability."""
        self._filled += 1
        if self._filled > self._length:
            self._length = _rounded_up(self._filled)
            for layer in self._layers:
                layer.show(self._length)
            self._graph = None
            self._take(choose)  # also prepares libraries, which a graph cannot do
        elif not self._graphs:
            self._take(choose)
        else:
            self._graph = self._graph or self._captured(choose)
            if self._graph is None:
                self._take(choose)
            else:
                self._graph.replay()
        return self._ids[:, 0].clone(), self._likely.clone()

    def _take(self, choose: Choose) -> None:
        self._mask.index_fill_(3, self._place, 0)
        seen = self._model(
            input_ids=self._ids,
            attention_mask=self._mask[..., : self._length],
            position_ids=self._positions,
            past_key_values=self._cache,
            use_cache=True,
            **self._narrow,
        )
        chosen, likely = choose(seen.logits[:, -1], self._chances.index_select(0, self._step)[0])
        self._ids.copy_(chosen.unsqueeze(1))
        self._likely.copy_(likely)
        for counter in (self._positions, self._place, self._step):
            counter.add_(1)

    def _captured(self, choose: Choose) -> Any:
        """Return the graph of a step, or None for a model that needs the CPU within a step."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._take(choose)
        except RuntimeError:
            torch.cuda.synchronize()
            self._graphs = False
            return None
        return graph


def can_be_fixed(model: Any, cache: Any) -> bool:
    """Return whether the model can continue with `FixedSteps`."""
    config = model.config.get_text_config()
    rotation = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kind = rotation.get("rope_type", "default")
    layers = getattr(cache, "layers", [])
    plain = bool(layers) and all(type(layer) is DynamicLayer for layer in layers)
    rotary = bool(rotation) or hasattr(config, "rope_theta")
    fitting = getattr(config, "_attn_implementation", "") in ("sdpa", "eager")
    return plain and rotary and fitting and kind not in LENGTH_DEPENDENT_ROTATIONS


def _mask_of(present: torch.Tensor, longest: int, dtype: torch.dtype) -> torch.Tensor:
    """Return what is added to the logits of attention: 0 for the tokens of the prompts, the least number elsewhere."""
    rows, width = present.shape
    mask = torch.full((rows, 1, 1, longest), torch.finfo(dtype).min, dtype=dtype, device=present.device)
    mask[:, 0, 0, : width - 1].masked_fill_(present[:, :-1].bool(), 0)
    return mask


def _rounded_up(length: int) -> int:
    return -(-length // LENGTHS) * LENGTHS


class _PreallocatedLayer(DynamicLayer):  # type: ignore[misc]  # the library is not read for types
    """Keys and values of one layer, in memory allocated for all tokens that may be sampled.

    The library's own layer is copied into new, slightly larger memory for each token. PyTorch keeps the freed memory,
    and nothing later fits into it, so sampling on a GPU would take all memory.
    """

    def __init__(self, filled: DynamicLayer, tokens: int) -> None:
        super().__init__()
        self.dtype, self.device = filled.dtype, filled.device
        self._all_keys, self.keys = _preallocated(filled.keys, tokens)
        filled.keys = None
        self._all_values, self.values = _preallocated(filled.values, tokens)
        filled.values = None
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens; return the keys and values of all tokens."""
        before = self.keys.shape[-2]
        after = before + key_states.shape[-2]
        self.keys, self.values = self._all_keys[..., :after, :], self._all_values[..., :after, :]
        self.keys[..., before:, :] = key_states
        self.values[..., before:, :] = value_states
        return self.keys, self.values


class _FixedLayer(DynamicLayer):  # type: ignore[misc]  # the library is not read for types
    """Keys and values of one layer at fixed addresses. The position of the next token is read on the device."""

    def __init__(self, filled: DynamicLayer, tokens: int, place: torch.Tensor) -> None:
        super().__init__()
        self.dtype, self.device, self._place = filled.dtype, filled.device, place
        width = filled.keys.shape[-2]
        self._all_keys, _ = _preallocated(filled.keys, tokens)
        filled.keys = None
        self._all_values, _ = _preallocated(filled.values, tokens)
        filled.values = None
        for memory in (self._all_keys, self._all_values):
            memory[..., width:, :] = 0  # attention multiplies what is masked by 0, and NaN would stay
        self.is_initialized = True

    def show(self, length: int) -> None:
        """Let attention cover this many positions, the masked ones included."""
        self.keys, self.values = self._all_keys[..., :length, :], self._all_values[..., :length, :]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the keys and values of the next token; return those of all positions that are shown."""
        self.keys.index_copy_(-2, self._place, key_states)
        self.values.index_copy_(-2, self._place, value_states)
        return self.keys, self.values


def _preallocate(cache: Any, tokens: int) -> None:
    """Preallocate memory for this many tokens in layers that grow; keep layers of other kinds."""
    layers = getattr(cache, "layers", [])
    for index, layer in enumerate(layers):
        if type(layer) is DynamicLayer and layer.get_seq_length():
            layers[index] = _PreallocatedLayer(layer, tokens)


def _preallocated(filled: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return memory for `tokens` more positions, and the view of it that holds a copy of `filled`."""
    *outer, length, width = filled.shape
    memory = filled.new_empty(*outer, length + tokens, width)
    kept = memory[..., :length, :]
    kept.copy_(filled)
    return memory, kept
