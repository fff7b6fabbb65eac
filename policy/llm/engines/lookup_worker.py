"""Finds a model's small files and counts tokens: JSON lines in, JSON lines out, under any interpreter.

It runs beside the engine, since prompts are rendered before the engine has started. It imports nothing of this project.
Not covered: weights, which only the engine fetches.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SMALL_FILES = ["*.json", "*.jinja", "*.txt", "*.model"]


def locate(model: str) -> dict[str, str]:
    """Return the folder and revision of a model on the hub; files that are present are not fetched again."""
    from huggingface_hub import snapshot_download

    folder = snapshot_download(model, allow_patterns=SMALL_FILES)
    return {"folder": folder, "revision": os.path.basename(folder)}


def tokenizer_in(folder: str) -> Any:
    fast = os.path.join(folder, "tokenizer.json")
    if os.path.exists(fast):
        from tokenizers import Tokenizer

        return Tokenizer.from_file(fast)
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def count(tokenizer: Any, text: str) -> int:
    found = tokenizer.encode(text, add_special_tokens=False)
    return len(getattr(found, "ids", found))


def main() -> None:
    own = os.path.dirname(os.path.abspath(__file__))
    # the files beside this one must not be importable
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != own]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tokenizers: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "locate" in asked:
                reply: dict[str, Any] = locate(asked["locate"])
            else:
                folder = asked["folder"]
                if folder not in tokenizers:
                    tokenizers[folder] = tokenizer_in(folder)
                reply = {"tokens": count(tokenizers[folder], asked["text"])}
        except Exception as error:  # any error of a request becomes its reply
            reply = {"error": f"{type(error).__name__}: {error}"[:1000]}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
