"""The page about policies: its example works as a policy, and everything it names exists."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.agent.tables import Table, new_run, passed, script

from triton_agent.agent.ledger import Ledger
from triton_agent.agent.loop import Loop
from triton_agent.agent.settings import LoopSettings, StopReason
from triton_agent.memory.observation import Rules
from triton_agent.memory.store import Store
from triton_agent.policy.protocol import Policy
from triton_agent.runs.cli.policies import _KINDS, _MODELS, make_policies
from triton_agent.tools.errors import UsageError

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policies.md").read_text()


@pytest.fixture
def example(tmp_path: Path) -> str:
    """Save the example as the page says; return its `--policy` value."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "retile.py").write_text(code)
    return f"own:{tmp_path / 'retile.py'}:Retile"


def tiled(size: int) -> str:
    return f"class ModelNew:\n    BLOCK_ROWS = {size}\n"


def test_the_example_takes_part_in_a_run_and_improves_on_it(example: str, tmp_path: Path) -> None:
    (policy,) = make_policies(example)
    assert isinstance(policy, Policy)
    sizes = [2**power for power in range(12)]
    table = Table({tiled(size): passed(tiled(size), 1 + size / 100) for size in sizes})
    with Store.open(tmp_path / "runs.db") as store:
        settings = LoopSettings(rules=Rules(), turns=4, parallel=2, seed=1)
        loop = Loop(Ledger.begin(store, new_run()), [script([tiled(32)]), policy], [table], settings)

        async def drain() -> None:
            async for _ in loop.events():
                pass

        asyncio.run(drain())
        end = store.end(loop.ledger.run.id)
        best = store.attempt(end.best)
    assert end.stop_reason == StopReason.TURNS
    assert best.completion.policy == "retile" and best.source.strip() in [tiled(size).strip() for size in sizes[6:]]
    assert best.plan.startswith("BLOCK_ROWS = ")


def test_the_page_names_every_kind_of_policy() -> None:
    named = set(re.findall(r"^\| `(\w+)[`:]", PAGE, re.MULTILINE))
    assert named == {*_KINDS, *_MODELS}


@pytest.mark.parametrize(
    ("file", "name", "said"),
    [
        ("class A: pass\n", "own:{}:A", "it lacks name, version, propose"),
        ("class A: pass\n", "own:{}:B", "no class B"),
        ("class A:\n", "own:{}:A", "cannot be loaded: IndentationError"),
        ("raise OSError('no disk')\n", "own:{}:A", "cannot be loaded: OSError: no disk"),
        ("", "own:{}", "names no class"),
        ("", "own:missing.py:A", "no such file"),
    ],
)
def test_what_is_no_policy_is_refused_with_the_reason(tmp_path: Path, file: str, name: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(file)
    with pytest.raises(UsageError, match=re.escape(said)):
        make_policies(name.format(tmp_path / "mine.py"))
