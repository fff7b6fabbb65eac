"""Writes the prompts that tests compare with, and which words they are made of.

    python -m tests.policy.llm.prompting.renew_golden

Refuses where the words of a version, or what becomes of them, differ from what that version stood for: then a new
version is due (docs/prompts.md). `--same-version` writes them all the same; for a version that nobody has used yet.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.policy.llm.prompting import record_runs
from tests.policy.llm.prompting.shown import EXAMPLES_SHOWN, improve

from triton_agent.policy.llm.prompting.prompt import Prompt, prompt_version, render
from triton_agent.policy.llm.prompting.wording import FOLDER

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = GOLDEN / "versions.json"
PLENTY, FEW = 100_000, 6_000
"""Counted in characters here, since a tokenizer may change."""


def rendered() -> dict[str, str]:
    """By the name of the file: every example, and the longest one with few tokens."""
    made = {name: render(make(), budget_tokens=PLENTY, count=len) for name, make in EXAMPLES_SHOWN.items()}
    made["improve_short"] = render(improve(), budget_tokens=FEW, count=len)
    for device, prefix in (("cpu", "run"), ("cuda", "gpu")):
        for name, seen in record_runs.load(device).items():
            made[f"{prefix}_{name}"] = render(seen, budget_tokens=PLENTY, count=len)
    return {f"{name}.md": _text(prompt) for name, prompt in made.items()}


def _text(prompt: Prompt) -> str:
    return "".join(f"<!-- {message.role} -->\n\n{message.content}\n\n" for message in prompt.messages).rstrip() + "\n"


def version_record(files: Mapping[str, str]) -> dict[str, str]:
    """What a version stands for: its words, and what becomes of them."""
    digest = hashlib.sha256("\0".join(f"{name}\0{files[name]}" for name in sorted(files)).encode())
    return {"words": prompt_version(), "prompts": digest.hexdigest()[:16]}


def main() -> None:
    files = rendered()
    known = json.loads(VERSIONS.read_text()) if VERSIONS.exists() else {}
    if known.get(FOLDER, version_record(files)) != version_record(files) and "--same-version" not in sys.argv[1:]:
        sys.exit(f"version {FOLDER} stood for other prompts; make a new one (docs/prompts.md), or add --same-version")
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.glob("*.md"):
        path.unlink()
    for name, text in files.items():
        (GOLDEN / name).write_text(text, encoding="utf-8")
    VERSIONS.write_text(json.dumps(known | {FOLDER: version_record(files)}, indent=1) + "\n")
    print(f"{len(files)} prompts of version {prompt_version()} in {GOLDEN}")


if __name__ == "__main__":
    main()
