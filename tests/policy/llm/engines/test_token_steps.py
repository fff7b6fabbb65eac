from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.policy.llm.engines.test_transformers_engine import require_transformers

PROMPTS = ((5, 9, 3), (7,), (4, 4, 8, 2, 6, 1))
TOKENS = 21


@pytest.fixture(scope="module")
def model(served_model: Path) -> Any:
    require_transformers()
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(served_model, local_files_only=True).eval()


def taken(model: Any, prompts: Sequence[Sequence[int]], *, fixed: bool, graphs: bool = False, **settings: Any) -> Any:
    """Return the tokens of all steps, and their log-probabilities."""
    import torch

    from triton_agent.policy.llm.engines.drawing import DrawRequest, Sampler, random_numbers
    from triton_agent.policy.llm.engines.token_steps import FixedSteps, GrowingSteps, can_be_fixed

    plain = {"temperature": 1.0, "top_p": 1.0, **settings}
    rows = [
        DrawRequest(prompt_ids=tuple(ids), tokens_at_most=TOKENS, seed=seed, **plain)
        for seed, ids in enumerate(prompts)
    ]
    with torch.inference_mode():
        sampler = Sampler(rows, model.device)
        steps: Any = GrowingSteps(model, prompts, TOKENS, random_numbers(rows, TOKENS, model.device))
        found = [steps.next(sampler.next_tokens)]
        if fixed:
            assert can_be_fixed(model, steps.cache)
            steps = FixedSteps(steps, graphs=graphs)
        found += [steps.next(sampler.next_tokens) for _ in range(TOKENS - 1)]
    tokens, likely = (torch.stack(list(parts)).cpu() for parts in zip(*found))
    return tokens, likely


@pytest.mark.parametrize("settings", [{}, {"top_p": 0.7, "top_k": 20}, {"repetition_penalty": 1.3, "min_p": 0.01}])
@pytest.mark.parametrize("lengths", [4, 256])
def test_fixed_steps_choose_the_tokens_of_growing_steps(
    model: Any, settings: dict[str, float], lengths: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from triton_agent.policy.llm.engines import token_steps

    monkeypatch.setattr(token_steps, "LENGTHS", lengths)
    tokens, likely = taken(model, PROMPTS, fixed=True, **settings)
    expected_tokens, expected_likely = taken(model, PROMPTS, fixed=False, **settings)
    assert torch.equal(tokens, expected_tokens) and len(set(tokens.flatten().tolist())) > 10
    torch.testing.assert_close(likely, expected_likely, atol=1e-4, rtol=0)


def test_models_with_windows_or_without_rotary_positions_keep_growing_steps(model: Any) -> None:
    from transformers import DynamicCache, GPT2Config, Qwen3Config

    from triton_agent.policy.llm.engines.token_steps import can_be_fixed

    class Of:
        def __init__(self, config: Any) -> None:
            self.config = config

    def cache_of(config: Any) -> Any:
        import torch

        cache = DynamicCache(config=config)
        for layer in range(2):
            cache.update(torch.zeros(1, 1, 1, 64), torch.zeros(1, 1, 1, 64), layer)
        return cache

    windows = Qwen3Config(
        num_hidden_layers=2,
        layer_types=["full_attention", "sliding_attention"],
        use_sliding_window=True,
        sliding_window=8,
    )
    assert can_be_fixed(model, cache_of(model.config))
    assert not can_be_fixed(Of(windows), cache_of(windows))
    assert not can_be_fixed(Of(GPT2Config(n_layer=2)), cache_of(GPT2Config(n_layer=2)))


def test_replayed_steps_choose_the_tokens_of_growing_steps(model: Any) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    on_gpu = model.to("cuda")
    try:
        tokens, likely = taken(on_gpu, PROMPTS, fixed=True, graphs=True)
        expected_tokens, expected_likely = taken(on_gpu, PROMPTS, fixed=False)
    finally:
        model.to("cpu")
    assert torch.equal(tokens, expected_tokens)
    torch.testing.assert_close(likely, expected_likely, atol=1e-4, rtol=0)
