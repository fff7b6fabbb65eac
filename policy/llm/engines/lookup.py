"""Finds a model's small files and counts tokens before its engine has started.

Tokens are counted in this process if the tokenizers library is installed. Otherwise a small process under the engine's
interpreter counts them; that process also fetches files of models on the hub.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triton_agent.policy.llm.engine import EngineError
from triton_agent.policy.llm.engines.model_folder import version_of
from triton_agent.tools.errors import UsageError

WORKER = Path(__file__).with_name("lookup_worker.py")


class ModelLookup:
    """Looks up one model, by name or folder. Its process is started only when it is needed."""

    def __init__(self, model: str, python: str, environment: Mapping[str, str]) -> None:
        self._model, self._python, self._environment = model, python, dict(environment)
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._located: tuple[Path, str] | None = None
        self._here: Any = None

    def folder(self) -> Path:
        """Return the model's local folder; for a model on the hub, the folder with its small files."""
        return self._find()[0]

    def version(self) -> str:
        """Return the version of the weights, derived from the folder's files or from the hub's revision."""
        return self._find()[1]

    def count(self, text: str) -> int:
        """Count the tokens of a text, without special tokens."""
        folder = self.folder()
        fast = folder / "tokenizer.json"
        if self._here is None and fast.is_file() and importlib.util.find_spec("tokenizers"):
            from tokenizers import Tokenizer

            try:
                self._here = Tokenizer.from_file(str(fast))
            except Exception as error:  # the library raises plain Exception
                raise EngineError(f"its tokenizer does not work: {error}", where=str(folder)) from error
        if self._here is not None:
            return len(self._here.encode(text, add_special_tokens=False).ids)
        reply = self._ask({"folder": str(folder), "text": text})
        if "error" in reply:
            raise EngineError(f"its tokenizer does not work: {reply['error']}", where=str(folder))
        return int(reply["tokens"])

    def close(self) -> None:
        """End the process if it runs."""
        with self._lock:
            process, self._process = self._process, None
        if process and process.stdin and process.stdout:
            process.stdin.close()
            process.kill()
            process.wait()
            process.stdout.close()

    def _find(self) -> tuple[Path, str]:
        if self._located is None:
            path = Path(self._model).expanduser()
            if path.is_dir():
                self._located = path, version_of(path)
            else:
                reply = self._ask({"locate": self._model})
                if "error" in reply:
                    raise UsageError(
                        f"no such folder, and the hub does not give such a model: {reply['error']}",
                        where=f"vllm:{self._model}",
                        remedy="name a folder, or a model of the hub that this machine can reach",
                    )
                self._located = Path(reply["folder"]), reply["revision"][:12]
        return self._located

    def _ask(self, asked: Mapping[str, str]) -> dict[str, Any]:
        with self._lock:
            process = self._process = self._process or self._start()
            assert process.stdin and process.stdout
            try:
                process.stdin.write(json.dumps(asked) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = ""
        if not line:
            raise EngineError("the process that counts tokens ended", where=self._python)
        found: dict[str, Any] = json.loads(line)
        return found

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self._python, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self._environment,
        )
