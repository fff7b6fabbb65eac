"""No key and no password reaches the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.memory import samples

from triton_agent.memory.records import Event
from triton_agent.memory.redaction import REDACTED, is_telling, redact
from triton_agent.memory.store import Store

SECRETS = {
    "openai": "sk-abcdefghijklmnopqrstuvwx",
    "hugging face": "hf_abcdefghijklmnopqrstuvwx",
    "github": "ghp_abcdefghijklmnopqrstuvwxyz0123",
    "aws": "AKIAABCDEFGHIJKLMNOP",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize(
    "name", ["api_key", "OPENAI_API_KEY", "apiKey", "HF_TOKEN", "client-secret", "password", "key", "aws_secret_name"]
)
def test_telling_names_are_known(name: str) -> None:
    assert is_telling(name)


@pytest.mark.parametrize(
    "name", ["tokenizer", "max_new", "eos_token", "monkey", "key_file", "api_key_env", "keyboard", "turns", "", "_"]
)
def test_harmless_names_are_left_alone(name: str) -> None:
    assert not is_telling(name)


def test_settings_lose_their_secrets_and_nothing_else() -> None:
    settings = {
        "policy": "openai:gpt",
        "max_tokens": 4096,
        "token": None,
        "api_key": "anything at all",
        "headers": [{"Authorization": "Basic eHl6"}, "Bearer abcdefghijklm"],
        "base_url": "https://me:hunter2@host:8000/v1?api_key=abc&x=1",
        "best_key": "20260131-120000-3fa9c1/2.1",
        "nested": {"deep": {"db_password": "p", "names": ["a", 1, 2.5, True]}},
    }
    assert redact(settings, environment={}) == {
        "policy": "openai:gpt",
        "max_tokens": 4096,
        "token": None,
        "api_key": REDACTED,
        "headers": [{"Authorization": REDACTED}, f"Bearer {REDACTED}"],
        "base_url": f"https://me:{REDACTED}@host:8000/v1?api_key={REDACTED}&x=1",
        "best_key": "20260131-120000-3fa9c1/2.1",
        "nested": {"deep": {"db_password": REDACTED, "names": ["a", 1, 2.5, True]}},
    }


@pytest.mark.parametrize("kind", SECRETS)
def test_keys_are_known_by_their_form_wherever_they_stand(kind: str) -> None:
    found = redact({"command": f"run --with {SECRETS[kind]} now"}, environment={})
    assert found == {"command": f"run --with {REDACTED} now"}


def test_values_of_the_environment_are_known_wherever_they_stand() -> None:
    environment = {"MY_API_KEY": "correct horse battery", "PWD": "/home/me", "SHORT_TOKEN": "on"}
    settings = {"note": "it is correct horse battery, on /home/me"}
    assert redact(settings, environment=environment) == {"note": f"it is {REDACTED}, on /home/me"}


def test_the_file_of_a_store_holds_no_secret_in_any_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "environmental-secret-1")
    data = {"api_key": "named-secret-2", "url": "http://u:url-secret-3@h/", "text": "environmental-secret-1"}
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.add_run(samples.run(settings=data))
        store.add_event(Event(run=samples.run().id, kind="x", at=samples.NOON, data=data))
        store.end_run(samples.end(summary=data))
        said = repr((store.run(samples.run().id).settings, store.events(samples.run().id), store.end(samples.run().id)))
    assert said.count(REDACTED) == 9
    for secret in ("environmental-secret-1", "named-secret-2", "url-secret-3"):
        assert secret not in said
        assert all(secret.encode() not in file.read_bytes() for file in tmp_path.iterdir())
