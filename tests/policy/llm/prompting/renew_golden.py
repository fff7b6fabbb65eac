"""Writes the golden prompts and the digests of the current prompt version.

    python -m tests.policy.llm.prompting.renew_golden

Refuses if the templates or the rendered prompts of the version differ from its recorded digests, because then a new
version is needed (docs/prompts.md). `--same-version` overwrites the digests, for a version that nobody has used yet.
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
"""Budgets in characters, so that they do not depend on a tokenizer."""


def rendered() -> dict[str, str]:
    """Return the golden prompts by file name: every example, and the longest one again with a small budget."""
    made = {name: render(make(), budget_tokens=PLENTY, count=len) for name, make in EXAMPLES_SHOWN.items()}
    made["improve_short"] = render(improve(), budget_tokens=FEW, count=len)
    for device, prefix in (("cpu", "run"), ("cuda", "gpu")):
        for name, seen in record_runs.load(device).items():
            made[f"{prefix}_{name}"] = render(seen, budget_tokens=PLENTY, count=len)
    return {f"{name}.md": _text(prompt) for name, prompt in made.items()}


def _text(prompt: Prompt) -> str:
    return "".join(f"<!-- {message.role} -->\n\n{message.content}\n\n" for message in prompt.messages).rstrip() + "\n"


def version_record(files: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of a version: of its templates, and of the rendered prompts."""
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
