"""Invalid model folders are refused before loading, with a message that names what is missing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from triton_agent.policy.llm.engines.model_folder import (
    CONTEXT_UNKNOWN,
    context_of,
    in_float32,
    require_model,
    version_of,
)
from triton_agent.tools.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all files of a model; the large ones are placeholders."""
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 4096}))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return tmp_path


def test_a_whole_model_is_taken(folder: Path) -> None:
    require_model(folder, "here")


@pytest.mark.parametrize(
    ("missing", "complaint"),
    [("config.json", "not a model"), ("tokenizer.json", "has no tokenizer"), ("model.safetensors", "no weights")],
)
def test_what_is_missing_is_named(folder: Path, missing: str, complaint: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(UsageError, match=complaint) as caught:
        require_model(folder, "--policy hf:it")
    assert caught.value.where == "--policy hf:it" and caught.value.remedy


def test_a_folder_that_is_not_there_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        require_model(tmp_path / "nowhere", "here")


def test_a_version_lasts_as_long_as_the_weights(folder: Path) -> None:
    before = version_of(folder)
    (folder / "README.md").write_text("words")
    assert version_of(folder) == before
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert version_of(folder) != before


def test_the_context_is_the_least_that_any_file_states(folder: Path) -> None:
    assert context_of(folder) == 4096
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 2048}))
    assert context_of(folder) == 2048
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 1e30}))
    assert context_of(folder) == 4096
    (folder / "config.json").write_text(json.dumps({"text_config": {"max_position_embeddings": 512}}))
    assert context_of(folder) == 512
    (folder / "config.json").write_text("{}")
    assert context_of(folder) == CONTEXT_UNKNOWN


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"dtype": "float32"}, True),
        ({"torch_dtype": "float32"}, True),
        ({"text_config": {"dtype": "float32"}}, True),
        ({"dtype": "bfloat16", "text_config": {"dtype": "float32"}}, False),
        ({"dtype": "float32", "quantization_config": {}}, False),
        ({"dtype": None}, False),
        ({}, False),
    ],
)
def test_weights_are_float32_if_the_folder_says_so(folder: Path, config: dict[str, object], expected: bool) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    assert in_float32(folder) is expected


def test_a_broken_file_is_named(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read") as caught:
        context_of(folder)
    assert caught.value.where.endswith("config.json")
