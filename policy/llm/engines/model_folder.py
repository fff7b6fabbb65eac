"""Inspects a model in a local folder: checks its files, and derives its version and context size.

Reads only file names and two small JSON files, and needs no library.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from triton_agent.tools.errors import UsageError

WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json")
"""File names of tokenizers; a folder with a tokenizer has at least one of them."""
CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
CONTEXT_UNKNOWN = 8192
"""Context size that is assumed if the folder states none; most current models have more."""
DTYPE_NAMES = ("dtype", "torch_dtype")
ENDLESS = 10**9
"""Larger limits count as no limit; tokenizers without a limit report huge numbers."""
PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ '### ' + message['role'].capitalize() + '\n' + message['content'] + '\n\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '### Assistant\n' }}{% endif %}"
)
"""Chat template for models without one: headings, then the text."""


def require_model(folder: Path, where: str) -> None:
    """Raise a UsageError that names the missing file if the folder is not a model."""
    if not folder.is_dir():
        raise UsageError("no such folder", where=where, remedy="a folder with config.json, weights and a tokenizer")
    if not ((folder / "config.json").is_file() or (folder / "adapter_config.json").is_file()):
        raise UsageError("no config.json there: not a model", where=where, remedy=f"{folder} has {_listing(folder)}")
    if not any(path for pattern in WEIGHTS for path in folder.glob(pattern)):
        raise UsageError("no weights there", where=where, remedy=f"{folder} has {_listing(folder)}")
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise UsageError(
            "the model there has no tokenizer", where=where, remedy="save its tokenizer into the same folder"
        )


def version_of(folder: Path) -> str:
    """Return a version that changes with any file of weights, derived from names, sizes and times because weights are
    too large to read.
    """
    digest = hashlib.sha256()
    for path in sorted({path for pattern in (*WEIGHTS, "*config.json") for path in folder.glob(pattern)}):
        facts = path.stat()
        digest.update(f"{path.name}/{facts.st_size}/{facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]


def base_of(folder: Path) -> str:
    """Return the model that the adapter in the folder belongs to; empty if the folder holds none."""
    return str(_json_of(folder / "adapter_config.json").get("base_model_name_or_path") or "")


def context_of(folder: Path) -> int:
    """Return the most tokens of question and answer together, according to the model's own files."""
    config = _json_of(folder / "config.json")
    parts = (config, config.get("text_config") or {})
    stated = [part[name] for part in parts for name in CONTEXT_NAMES if name in part]
    limit = _json_of(folder / "tokenizer_config.json").get("model_max_length")
    limits = [int(value) for value in (*stated, limit) if isinstance(value, (int, float)) and 0 < value < ENDLESS]
    return min(limits, default=CONTEXT_UNKNOWN)


def in_float32(folder: Path) -> bool:
    """Return True if the folder says that its weights are float32, as every training here writes them."""
    config = _json_of(folder / "config.json")
    parts = (config, config.get("text_config") or {})
    stated = [part[name] for part in parts for name in DTYPE_NAMES if part.get(name)]
    return stated[:1] == ["float32"] and "quantization_config" not in config


def _json_of(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(path)) from error
    return found if isinstance(found, dict) else {}


def _listing(folder: Path, most: int = 6) -> str:
    names = sorted(path.name for path in folder.iterdir())
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) + more) or "nothing in it"
