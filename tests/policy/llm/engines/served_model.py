"""Makes small models with random weights for engines to serve, and recomputes their log-probabilities.

This is a script because its imports are often installed only in the interpreter of an engine: `python served_model.py
make FOLDER`, `adapter FOLDER MODEL`, `vary FOLDER MODEL`, `thinking FOLDER MODEL`, and `recompute` with JSON on stdin.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
CONTEXT = 8192
RANK = 4


def make(folder: Path) -> None:
    """Make a two-layer decoder with a tokenizer trained on this repository and a context that fits a real prompt."""
    sys.path.insert(0, str(ROOT / "src"))
    from triton_agent.policy.train.update import fresh

    size = fresh.Size(layers=2, width=64, heads=2, key_value_heads=1, vocabulary=2048, context=CONTEXT)
    fresh.SIZES["served"] = size
    texts = [path.read_text() for path in sorted((ROOT / "policy").rglob("*.py"))]
    fresh.make_policy("served", texts, folder)


def vary(folder: Path, model: Path) -> None:
    """Make a model of the same shape with other weights."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(model, folder)
    weights = {name: tensor.roll(1, 0) for name, tensor in load_file(model / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def thinking(folder: Path, model: Path) -> None:
    """Make a copy of the model with tokens for the begin and end of thinking; its chat template begins the thinking."""
    shutil.copytree(model, folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    # replaces the rarest tokens, because the model has no rows for additional ones
    for mark in ("<think>", "</think>"):
        rarest = max(vocabulary, key=vocabulary.get)
        number = vocabulary.pop(rarest)
        tokenizer["model"]["merges"].pop()
        about = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        tokenizer["added_tokens"].append({"id": number, "content": mark, "special": False, **about})
    path.write_text(json.dumps(tokenizer))
    template = "{% for message in messages %}{{ message['content'] + '\\n' }}{% endfor %}<think>"
    (folder / "chat_template.jinja").write_text(template)


def adapter(folder: Path, model: Path) -> None:
    """Make an adapter for the value projection of every layer, large enough to change the answers."""
    import torch
    from safetensors.torch import save_file

    config = json.loads((model / "config.json").read_text())
    width, out = config["hidden_size"], config["num_key_value_heads"] * config["head_dim"]
    drawn = torch.Generator().manual_seed(1)
    folder.mkdir()
    matrices = {}
    for layer in range(config["num_hidden_layers"]):
        name = f"base_model.model.model.layers.{layer}.self_attn.v_proj"
        matrices[f"{name}.lora_A.weight"] = torch.randn(RANK, width, generator=drawn)
        matrices[f"{name}.lora_B.weight"] = torch.randn(out, RANK, generator=drawn)
    save_file(matrices, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    about = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": RANK, "lora_dropout": 0.0}
    about |= {"target_modules": ["v_proj"], "bias": "none", "base_model_name_or_path": str(model)}
    (folder / "adapter_config.json").write_text(json.dumps(about))


def recompute(model: str, dtype: str, answers: list[dict[str, Any]], adapted: str | None) -> list[dict[str, Any]]:
    """Return text and log-probabilities of each answer, from one forward pass over prompt and answer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
    if adapted:
        _add(network, Path(adapted))
    found = []
    for answer in answers:
        prompt, tokens = answer["prompt_ids"], answer["token_ids"]
        with torch.no_grad():
            logits = network(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1].float()
        likely = (logits / (answer["temperature"] or 1.0)).log_softmax(-1)
        values = likely.gather(1, torch.tensor(tokens)[:, None])[:, 0]
        best = likely.topk(2, dim=-1).values
        found.append(
            {
                "text": tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False),
                "log_probabilities": values.tolist(),
                "leads": (best[:, 0] - best[:, 1]).tolist(),
            }
        )
    return found


def _add(network: Any, folder: Path) -> None:
    from safetensors.torch import load_file

    matrices = load_file(folder / "adapter_model.safetensors")
    for name, down in matrices.items():
        if name.endswith("lora_A.weight"):
            module = network.get_submodule(name.removeprefix("base_model.model.").removesuffix(".lora_A.weight"))
            module.weight.data += matrices[name.replace("lora_A", "lora_B")] @ down


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "recompute":
        asked = json.load(sys.stdin)
        json.dump(recompute(asked["model"], asked["dtype"], asked["answers"], asked.get("adapter")), sys.stdout)
    else:
        {"make": make, "vary": vary, "adapter": adapter, "thinking": thinking}[what](*map(Path, rest))


if __name__ == "__main__":
    main()
