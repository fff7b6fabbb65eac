"""Finding an interpreter with vLLM, and the errors if there is none or the engine does not start. Needs no vLLM."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from triton_agent.memory.records import Message
from triton_agent.policy.llm.engine import EngineError, ModelQuestion
from triton_agent.policy.llm.engines.interpreters import VARIABLE, find_interpreter
from triton_agent.policy.llm.engines.lookup import ModelLookup
from triton_agent.policy.llm.engines.vllm_engine import VllmEngine, VllmSettings
from triton_agent.policy.llm.engines.vllm_process import VllmProcess, condensed
from triton_agent.runs.cli.devices import Chosen
from triton_agent.runs.train.online import dtype_of_answers, open_engine
from triton_agent.tools.errors import UsageError

ASKED = ModelQuestion(messages=(Message(role="user", content="Write."),))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a folder that has the files of a model."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def pretender(tmp_path: Path) -> Path:
    """Return an interpreter in which vLLM is installed but fails to import."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    module = next((tmp_path / "venv" / "lib").glob("python3*/site-packages")) / "vllm"
    module.mkdir()
    (module / "__init__.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')\n")
    return tmp_path / "venv" / "bin" / "python"


def test_what_is_named_goes_before_the_environment_and_that_before_this_one(
    pretender: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "/nowhere/python")
    assert find_interpreter(str(pretender)) == str(pretender)
    monkeypatch.setenv(VARIABLE, str(pretender))
    assert find_interpreter(None) == str(pretender)


def test_an_interpreter_that_is_not_there_is_named_with_where_it_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no such interpreter") as caught:
        find_interpreter("/nowhere/python")
    assert caught.value.where == "--vllm-python /nowhere/python"
    monkeypatch.setenv(VARIABLE, "/nowhere/else")
    with pytest.raises(UsageError) as caught:
        find_interpreter(None)
    assert caught.value.where == f"{VARIABLE} /nowhere/else"


def test_an_interpreter_without_vllm_is_refused_with_what_to_install(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    with pytest.raises(UsageError, match="has no vLLM") as caught:
        find_interpreter(str(tmp_path / "bare" / "bin" / "python"))
    assert "pip install vllm" in caught.value.remedy


def test_a_file_that_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\nexit 3\n")
    path.chmod(0o755)
    with pytest.raises(UsageError, match="does not work as Python"):
        find_interpreter(str(path))


@pytest.mark.parametrize("model", ["", "/nowhere/model", "./nowhere", "a/b/c"])
def test_a_folder_that_is_not_there_is_refused_at_once(model: str, pretender: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        VllmEngine(model, VllmSettings(python=str(pretender)))


def test_an_adapter_that_is_none_is_refused_at_once(model: Path, pretender: Path, tmp_path: Path) -> None:
    for adapter, complaint in ((str(tmp_path), "no adapter_config.json"), ("/nowhere", "no such folder")):
        with pytest.raises(UsageError, match=complaint):
            VllmEngine(str(model), VllmSettings(python=str(pretender), adapter=adapter))


def test_an_engine_of_a_training_takes_adapters_that_come_later_and_one_that_is_there(
    model: Path, pretender: Path, tmp_path: Path
) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(model), "r": 100}))
    chosen = Chosen(device="cpu")
    engine = open_engine(str(model), "vllm", chosen, cpu=True, lora=100, vllm_python=str(pretender))
    assert engine._start()["adapter"] is None and engine._start()["engine"]["enable_lora"]
    assert engine._start()["engine"]["max_lora_rank"] == 128
    asyncio.run(engine.reload(adapter))
    assert engine._start()["adapter"] == str(adapter)
    trained = open_engine(str(adapter), "vllm", chosen, cpu=True, vllm_python=str(pretender))
    assert (trained._start()["engine"]["model"], trained._start()["adapter"]) == (str(model), str(adapter))
    whole = open_engine(str(model), "vllm", chosen, cpu=True, vllm_python=str(pretender))
    with pytest.raises(UsageError, match="without adapters"):
        asyncio.run(whole.reload(adapter))


def test_an_engine_computes_in_the_dtype_of_the_weights_unless_told_otherwise(model: Path, pretender: Path) -> None:
    def asked(**chosen: Any) -> str:
        dtype: str = VllmEngine(str(model), VllmSettings(python=str(pretender), **chosen))._start()["engine"]["dtype"]
        return dtype

    assert asked() == "auto", "the folder does not say"
    (model / "config.json").write_text(json.dumps({"dtype": "float32"}))
    assert asked() == "float32", "vLLM itself would take bfloat16"
    assert asked(dtype="bfloat16") == "bfloat16"


def test_an_engine_of_a_training_computes_as_the_training_does(model: Path, pretender: Path) -> None:
    (model / "config.json").write_text(json.dumps({"dtype": "bfloat16"}))
    for bf16, expected in ((False, "float32"), (True, "bfloat16")):
        dtype = dtype_of_answers("vllm", bf16=bf16)
        engine = open_engine(
            str(model), "vllm", Chosen(device="cpu"), cpu=True, dtype=dtype, vllm_python=str(pretender)
        )
        assert engine._start()["engine"]["dtype"] == expected


def test_an_engine_that_does_not_start_says_why_and_leaves_nothing(model: Path, pretender: Path) -> None:
    engine = VllmEngine(str(model), VllmSettings(python=str(pretender)))
    for _ in range(2):  # the second question starts another engine
        with pytest.raises(EngineError, match="does not start") as caught:
            asyncio.run(engine.answer([ASKED]))
        assert "libcudart.so.13" in caught.value.remedy
    asyncio.run(engine.close())
    asyncio.run(engine.close())


def test_an_engine_that_hangs_is_given_up_and_ended(model: Path, tmp_path: Path) -> None:
    python = tmp_path / "sleepy"
    python.write_text('#!/bin/sh\ncase "$*" in *-c*) exit 0;; esac\nsleep 600 &\nexec sleep 600\n')
    python.chmod(0o755)
    engine = VllmEngine(str(model), VllmSettings(python=str(python), start_within_s=0.5))
    with pytest.raises(EngineError, match=r"did not start within 0\.5 s"):
        asyncio.run(engine.answer([ASKED]))
    asyncio.run(engine.close())


def test_what_a_process_started_ends_with_it(tmp_path: Path) -> None:
    note = tmp_path / "child"
    python = tmp_path / "parent"
    python.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {note}\nwait\n")
    python.chmod(0o755)
    process = VllmProcess(str(python), {}, dict(os.environ))
    while not note.exists() or not note.read_text().strip():
        time.sleep(0.01)
    child = int(note.read_text())
    process.end(0.1)
    assert not process.alive
    with pytest.raises(EngineError):
        process.ready.result(timeout=5)
    for _ in range(500):
        if not _runs(child):
            break
        time.sleep(0.01)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_tokenizer_that_does_not_load_is_named_wherever_tokens_are_counted(tmp_path: Path) -> None:
    """Tokens may be counted in this process or in a child process, and either may lack the library."""
    (tmp_path / "tokenizer.json").write_text("{}")
    lookup = ModelLookup(str(tmp_path), sys.executable, {"PATH": os.environ["PATH"]})
    with pytest.raises(EngineError, match="its tokenizer does not work"):
        lookup.count("words")
    lookup.close()
    lookup.close()


LOG = """
(MainProcess pid=1) INFO 11-21 09:18:51 [vllm.py:1605] Initializing
(EngineCore pid=2) ERROR 11-21 09:18:52 [core.py:9] Traceback (most recent call last):
(EngineCore pid=2) ERROR 11-21 09:18:52 [core.py:9]   File "x.py", line 1, in <module>
(EngineCore pid=2) ERROR 11-21 09:18:52 [core.py:9] ValueError: Head size 16 is not supported.
RuntimeError: Engine core initialization failed. See root cause above.
""".strip().splitlines()


def test_the_cause_is_found_among_what_an_engine_says() -> None:
    assert condensed(LOG) == "ValueError: Head size 16 is not supported."


def test_without_a_cause_the_last_lines_are_shown_without_their_prefixes() -> None:
    assert condensed(LOG[:1]) == "Initializing"
    assert len(condensed([f"line {n}" for n in range(100)]).splitlines()) == 4
    assert condensed([]) == ""
