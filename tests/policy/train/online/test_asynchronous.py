"""Asynchronous training: rows become TRL's samples, groups survive a kill, and a real server gets new weights."""

from __future__ import annotations

import array
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.policy.llm.engines.real_engines import vllm_python, vllm_server
from tests.policy.train.evaluations import failed, timing
from tests.policy.train.logged import attempt, grading
from tests.policy.train.marks import NEEDS_TRAINING
from tests.policy.train.online import toy
from tests.verdicts import passed

from triton_agent.memory.store import Store
from triton_agent.policy.answer import write_answer
from triton_agent.policy.episode import Graded
from triton_agent.policy.llm.author import LanguageAuthor
from triton_agent.policy.llm.engine import Sampling
from triton_agent.policy.train.extra import require_training
from triton_agent.policy.train.online.rollouts import OpenProblem
from triton_agent.policy.train.prepare.credit import Advantage, TokenRole
from triton_agent.policy.train.prepare.prepared import TrainingLimits, TrainingRow
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.record.spool import Numbers
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import Evaluation, Finding

pytestmark = NEEDS_TRAINING
STALENESS, STEPS = 2, 3


def row(plan: float, code: float) -> TrainingRow:
    """Return a row with two tokens of plan, one of feedback and two of code."""
    numbers = Numbers(
        prompt_ids=array.array("I", [7, 8]),
        token_ids=array.array("I", [1, 2, 3, 4, 5]),
        log_probabilities=array.array("f", [-0.5] * 5),
    )
    roles = bytes((TokenRole.PLAN,) * 2 + (TokenRole.FEEDBACK,) + (TokenRole.CODE,) * 2)
    return TrainingRow(
        key="run/0.0",
        numbers=numbers,
        roles=roles,
        advantage=Advantage(plan=plan, code=code),
        reward=1.0,
        parts={"correct": 1.0, "speed": None},
        hack=False,
        passed=True,
    )


def test_plan_and_code_of_a_row_have_their_own_advantages_in_samples_of_the_same_tokens() -> None:
    require_training()
    from triton_agent.policy.train.online.worker import samples_of

    code, plan = samples_of(row(plan=0.5, code=-1.0), group=3, version=9)
    assert (plan.advantage, code.advantage) == (0.5, -1.0)
    assert plan.completion_mask.tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert code.completion_mask.tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert plan.input_ids.tolist() == code.input_ids.tolist() == [7, 8, 1, 2, 3, 4, 5]
    assert plan.old_log_probs.tolist() == [0.0, 0.0] + [-0.5] * 5
    assert (plan.group_id, plan.model_version, plan.metrics) == (3, 9, {"reward": 1.0, "reward/correct": 1.0})
    (whole,) = samples_of(row(plan=2.0, code=2.0), group=3, version=9)
    assert whole.completion_mask.tolist() == [0, 0, 1, 1, 0, 1, 1]


def test_a_turn_without_tokens_counts_in_the_returns_of_the_turns_before(tiny: Path) -> None:
    """Two equal chains of two turns; the server did not return the tokens of the second turn of the first chain."""
    require_training()
    from triton_agent.policy.train.online.asynchronous import Preparing
    from triton_agent.policy.train.update.session import load_tokenizer

    graded = []
    for run in "abc":
        for turn, verdict in enumerate((failed(Finding.VALUES), passed(timing(2, 2, 2)))[: 1 if run == "c" else 2]):
            parent = f"{run}/{turn - 1}.0" if turn else None
            sampled = {} if (run, turn) == ("a", 1) else {"token_ids": (5, turn), "log_probabilities": (-0.5, -0.5)}
            made = attempt(run, turn, parent=parent, source=f"{run} = {turn}", **sampled)
            graded.append(Graded(attempt=made, grading=grading(made.key, verdict)))
    limits = TrainingLimits(temperature=1.0, tokens_at_most=100, seed=0)
    prepared = Preparing(RECIPES["kevin"], load_tokenizer(str(tiny)), limits)(graded)
    found = {row.key: row.advantage.code for row in prepared.rows}
    assert found["a/0.0"] == found["b/0.0"] > found["c/0.0"] and "a/1.0" not in found


def test_a_resumed_training_begins_with_the_groups_that_its_checkpoint_has_not_seen(tmp_path: Path) -> None:
    require_training()
    from triton_agent.policy.train.online.worker import GROUPS, Groups

    groups = Groups(tmp_path, ())
    assert [groups.begin(lambda number: f"p{number}") for _ in range(4)] == [(n, f"p{n}") for n in range(4)]
    for number, rows in ((0, 5), (1, 5), (2, 0)):  # group 2 had nothing to learn from, group 3 never ended
        groups.end({"group": number, "problem": f"p{number}", "rows": rows, "passed": (1, 4)})
    with (tmp_path / GROUPS).open("a") as file:
        file.write('{"group": 4, "prob')  # the process was killed while it wrote
    resumed = Groups(tmp_path, trained=(0,))
    assert [resumed.begin(lambda number: "new") for _ in range(3)] == [(1, "p1"), (3, "p3"), (4, "new")]
    assert resumed.rates()["p0"].passed == 1
    assert json.loads((tmp_path / GROUPS).read_text().splitlines()[-1]) == {"group": 4, "problem": "new"}


def test_answers_from_before_a_resume_are_as_old_as_they_were() -> None:
    require_training()
    from triton_agent.policy.train.online.worker import Ages

    ages = Ages(first=9, checkpoint=5)  # versions 6 and 7 were published after the checkpoint, 8 is skipped
    assert [ages.now(f"training+{number}") for number in (3, 5, 7, 9, 10)] == [7, 9, 9, 9, 10]


def test_attention_without_a_gpu_shows_each_row_only_its_own_tokens(tiny: Path) -> None:
    """Samples that share a beginning are packed, and have the log-probabilities that they have alone."""
    import torch
    from transformers import AttentionInterface
    from trl.experimental.async_grpo.packing import TREE_ATTENTION, TreeRow, register_tree_attention

    from triton_agent.policy.train.online.asynchronous import attention_without_a_gpu
    from triton_agent.policy.train.update.session import load

    samples = [([5, 6, 7, 8, 9], 0.5), ([5, 6, 7, 11], -1.0), ([12, 13], 1.0)]
    packed = TreeRow()
    for ids, advantage in samples:
        mask = torch.tensor([0] + [1] * (len(ids) - 1))
        packed.add(
            {
                "input_ids": torch.tensor(ids),
                "completion_mask": mask,
                "old_log_probs": torch.zeros(len(ids)),
                "advantage": advantage,
                "group_id": 0,
            }
        )
    batch = packed.pack()
    model, _ = load(str(tiny), cpu=True)
    alone = []
    with torch.no_grad():
        for ids, _ in samples:
            scores = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
            alone += scores.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
        register_tree_attention()
        AttentionInterface.register(TREE_ATTENTION, attention_without_a_gpu)
        model.set_attn_implementation(TREE_ATTENTION)
        logits = model(
            input_ids=batch["input_ids"][None],
            position_ids=batch["position_ids"][None],
            **{name: batch[name] for name in ("tree_kv_index", "tree_cu_seqlens_q", "tree_cu_seqlens_k")},
        ).logits[0]
    targets = [token for ids, _ in samples for token in ids[1:]]
    together = logits[batch["token_index"]].log_softmax(-1).gather(1, torch.tensor(targets)[:, None])[:, 0]
    assert together.tolist() == pytest.approx(alone, abs=1e-4)


class NumberJudge:
    """A judge that passes files with an even number."""

    async def evaluate_async(self, source: str, on_stage: object = None) -> Evaluation:
        found = re.search(r"number = (\d+)", source)
        return passed() if found and int(found[1]) % 2 == 0 else failed(Finding.VALUES, launched=True)


class Problems(toy.Problems):
    async def open(self, names: Sequence[str]) -> Mapping[str, OpenProblem]:
        found = await super().open(names)
        return {name: OpenProblem(view=one.view, judge=NumberJudge()) for name, one in found.items()}


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a policy that writes files with a number, about half of which are even."""
    require_training()
    import torch

    from triton_agent.policy.train.update.fresh import make_policy
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("taught")
    texts = [write_answer(f"Take {number}.", f"class ModelNew:\n    number = {number}\n") for number in range(8)]
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"write {name} {turn}"},
                {"role": "assistant", "content": text},
            ]
        }
        for name in toy.NAMES
        for turn in (0, 1)
        for text in texts
    ]
    make_policy("tiny", texts * 20, folder / "fresh", across_words=True)
    settings = SFTSettings(
        output=folder / "sft", cpu=True, learning_rate=5e-3, steps=120, batch_size=8, save_every=10**6
    )
    return train_sft(str(folder / "fresh"), rows, settings).weights


def train(model: Path, folder: Path, url: str, steps: int, *, resume: bool = False) -> Any:
    from triton_agent.policy.train.online.asynchronous import train_asynchronously
    from triton_agent.policy.train.online.session import OnlineSettings
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import Adapter

    author: Callable[[Any], LanguageAuthor] = lambda engine: LanguageAuthor(  # noqa: E731
        engine, Sampling(temperature=1.0, max_tokens=96), render=toy.render
    )
    with Store.open(folder / "runs.db") as store:
        return train_asynchronously(
            str(model),
            Problems(),
            url,
            author,
            store,
            RECIPES["default"],
            GRPOSettings(output=folder / "out", cpu=True, learning_rate=2e-3, batch_size=4),
            OnlineSettings(updates=steps, problems=2, answers=4, turns=2, save_every=1, tokens_at_most=96),
            staleness=STALENESS,
            adapter=Adapter(rank=4, alpha=8),
            resume=resume,
        )


@pytest.mark.slow
def test_a_server_gets_the_weights_of_each_step_and_its_answers_are_trained_on(
    taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vllm_python()
    for name in ("VLLM_SERVER_DEV_MODE", "VLLM_ALLOW_RUNTIME_LORA_UPDATING"):
        monkeypatch.setenv(name, "1")
    options = ("--enable-lora", "--max-lora-rank", "8", "--max-loras", str(STALENESS + 2), "--max-model-len", "512")
    with vllm_server(taught, tmp_path / "log", *options) as url:
        result = train(taught, tmp_path, url, STEPS)
        assert result.steps == STEPS
        assert result.history[0]["ratio"] == pytest.approx(1.0, abs=0.01), "the server's probabilities are ours"
        assert all(line["staleness"] <= STALENESS for line in result.history)
        transfers = (tmp_path / "log").read_text().count('"POST /v1/load_lora_adapter HTTP/1.1" 200')
        assert transfers == 1 + STEPS, "the first weights, and those after each step"
        listed = [card["id"] for card in httpx.get(f"{url}/models").json()["data"]]
        assert f"trl-policy-v{1 + STEPS}" in listed

        before = toy.records(tmp_path)
        assert len({attempt.completion.policy_version for attempt, _ in before.values()}) >= 2
        assert all(attempt.completion.log_probabilities for attempt, _ in before.values())
        resumed = train(taught, tmp_path, url, STEPS + 2, resume=True)
        assert resumed.steps == STEPS + 2
        assert [line["update"] for line in resumed.history] == list(range(STEPS + 2))
        assert resumed.history[STEPS]["ratio"] == pytest.approx(1.0, abs=0.05), (
            "the server has the checkpoint's weights"
        )
    found = toy.records(tmp_path)
    assert all(found[key][0] == attempt for key, (attempt, _) in before.items()), "nothing stored is drawn again"
    assert all(len(gradings) <= 1 for _, gradings in found.values()), "each is judged once"


def test_a_server_that_does_not_answer_is_named(tiny: Path, tmp_path: Path, free_port: int) -> None:
    with pytest.raises(UsageError, match="no server of vLLM answers"):
        train(tiny, tmp_path, f"http://127.0.0.1:{free_port}", 1)
    assert not (tmp_path / "out").exists()
