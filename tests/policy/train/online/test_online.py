"""Online training learns from its own rollouts, stores each of them, and resumes exactly after a kill."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.policy.train.marks import NEEDS_TRAINING
from tests.policy.train.online import toy

from triton_agent.memory.records import Attempt, Grading
from triton_agent.memory.store import Store
from triton_agent.policy.train.extra import require_training
from triton_agent.policy.train.online.rollouts import OpenProblem
from triton_agent.tools.errors import UsageError
from triton_agent.tools.ranking import standing

pytestmark = [*NEEDS_TRAINING, pytest.mark.xdist_group("online")]  # what is made once is made in one process
EPISODES = toy.UPDATES * toy.PROBLEMS * toy.ANSWERS


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a freshly initialised policy."""
    require_training()
    from triton_agent.policy.train.update.fresh import make_policy

    folder = tmp_path_factory.mktemp("policy") / "tiny"
    make_policy("tiny", ["import triton\nimport triton.language as tl\n" * 20], folder)
    return folder


@pytest.fixture(scope="session")
def trained(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an uninterrupted training."""
    folder = tmp_path_factory.mktemp("undisturbed")
    toy.train(tiny, folder)
    return folder


def require_whole(found: Mapping[str, tuple[Attempt, list[Grading]]]) -> None:
    """Require that each episode has all its turns: it ends at the first right kernel, as nothing is timed."""
    firsts = {attempt.run: gradings[0] for attempt, gradings in found.values() if not attempt.turn}
    assert len(firsts) == EPISODES
    right = {run for run, grading in firsts.items() if standing(grading.evaluation).passed}
    assert right and {attempt.run for attempt, _ in found.values() if attempt.turn} == firsts.keys() - right
    assert len(found) == 2 * EPISODES - len(right), "none is lost, none doubled"


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out" / "updates.jsonl").read_text().splitlines()]


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "out" / "final" / "model.safetensors")


def test_every_rollout_is_stored_with_its_version_its_sampling_and_its_log_probabilities(trained: Path) -> None:
    found = toy.records(trained)
    require_whole(found)
    for attempt, gradings in found.values():
        said = attempt.completion
        assert len(gradings) == 1 and gradings[0].evaluation
        assert said.token_ids and said.log_probabilities and said.sampling.seed is not None
        assert said.policy_version.endswith(f"+{int(attempt.run.split('-')[-3])}"), "the update is the version"
    with Store.open(trained / "runs.db") as store:
        reasons = {store.end(attempt.run).stop_reason for attempt, _ in found.values()}  # type: ignore[union-attr]
    assert reasons == {"turns", "right"}


def test_an_update_tells_which_parts_of_the_reward_no_answer_could_earn(trained: Path) -> None:
    """Nothing is timed and no plan is scored here, and the second turns never begin from a kernel that passed."""
    for line in lines(trained):
        assert set(line["unpaid"]) == {"speed", "gain", "share", "milestone", "reasoning"}


def test_the_second_turn_is_shown_the_first_ones_verdict(trained: Path) -> None:
    found = toy.records(trained)
    for attempt, _ in found.values():
        if attempt.turn:
            shown, earlier = attempt.observation.parent, found[f"{attempt.run}/0.0"]
            assert shown and shown.attempt == earlier[0].key
            assert shown.status is earlier[1][0].evaluation.status  # type: ignore[union-attr]


def test_a_line_for_each_update_says_what_it_gave_and_where_the_time_went(trained: Path) -> None:
    found = lines(trained)
    assert [line["update"] for line in found] == list(range(toy.UPDATES))
    for line in found:
        assert line["attempts"] == sum(line["statuses"].values())
        assert line["episodes"] == toy.PROBLEMS * toy.ANSWERS
        assert line["attempts"] == line["episodes"] * (toy.TURNS - line["correct"][0]), "right ones have no second turn"
        assert line["steps"] and line["rows"] and line["verdicts"] <= line["attempts"]
        assert all(isinstance(line[name], float) for name in ("reward", "entropy", "ratio", "loss"))
        spent = dict(line["seconds"])
        overlapped, whole = spent.pop("overlapped"), spent.pop("all")
        assert sum(spent.values()) == pytest.approx(whole) and 0 <= overlapped <= spent["generation"]


def test_problems_of_the_next_update_are_opened_while_the_one_before_is_under_way(tiny: Path, tmp_path: Path) -> None:
    class Watched(toy.Problems):
        def __init__(self) -> None:
            super().__init__()
            self.open_now: set[str] = set()
            self.fresh: list[set[str]] = []

        async def open(self, names: Sequence[str]) -> Mapping[str, OpenProblem]:
            self.fresh.append(set(names) - self.open_now)
            self.open_now |= set(names)
            return await super().open(names)

    problems = Watched()
    toy.train(tiny, tmp_path, problems=problems, save_every=toy.UPDATES)
    used = [set(line["problems"]) for line in lines(tmp_path)]
    waited_for, meanwhile = problems.fresh[::2], problems.fresh[1::2]
    assert waited_for[0] == used[0] and not any(waited_for[1:]), "only the first update waits for its problems"
    assert set.union(used[0], *meanwhile) == set.union(*used)


@pytest.mark.parametrize(
    ("rows", "slices", "sizes"), [(13, 1, [6, 7]), (13, 2, [6, 8]), (8, 2, [8]), (3, 4, [4]), (17, 1, [5, 6, 6])]
)
def test_rows_of_an_update_are_spread_evenly_over_its_steps(rows: int, slices: int, sizes: list[int]) -> None:
    require_training()
    from triton_agent.policy.train.online.session import _batches

    names: Any = [str(number) for number in range(rows)]
    batches = _batches(names, 8, 1, None, slices=slices, seed=0, update=0)
    assert [len(batch) for batch in batches] == sizes
    assert {row for batch in batches for row in batch} == set(names)
    assert sum(sizes) < rows + slices, "hardly any is repeated"


def test_weights_of_a_resumed_training_are_bit_by_bit_those_of_an_undisturbed_one(
    tiny: Path, trained: Path, tmp_path: Path
) -> None:
    """Only the last checkpoint is removed, as after a kill between the last rollouts and the end."""
    import torch

    from triton_agent.policy.train.update.checkpoints import whole_checkpoints
    from triton_agent.policy.train.update.session import load_tokenizer

    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(whole_checkpoints(tmp_path / "out")[-1])
    shutil.rmtree(tmp_path / "out" / "final")
    engine = toy.PickingEngine(load_tokenizer(str(tiny)))
    toy.train(tiny, tmp_path, resume=True, engine=engine)
    assert engine.asked == 0, "all rollouts are in the store"
    before, after = weights(trained), weights(tmp_path)
    assert all(torch.equal(before[name], after[name]) for name in before)
    same = ("update", "problems", "reward", "correct", "rows", "loss", "entropy")
    assert [[line[name] for name in same] for line in lines(tmp_path)] == [
        [line[name] for name in same] for line in lines(trained)
    ]


def killed(tiny: Path, folder: Path, moment: str) -> None:
    """Train in a process that kills itself at the moment, and resume in a second process."""
    command = [sys.executable, "-m", "tests.policy.train.online.toy", str(tiny), str(folder)]
    ended = subprocess.run([*command, "--kill", moment], capture_output=True, text=True, timeout=240)
    assert ended.returncode == -9, ended.stderr[-2000:]
    before = toy.records(folder)
    subprocess.run([*command, "--resume"], check=True, capture_output=True, timeout=240)
    found = toy.records(folder)
    require_whole(found)
    assert all(len(gradings) == 1 for _, gradings in found.values()), "each is judged once"
    assert all(found[key][0] == attempt for key, (attempt, _) in before.items()), "nothing stored is drawn again"
    assert [line["update"] for line in lines(folder)] == list(range(toy.UPDATES))
    with Store.open(folder / "runs.db") as store:
        assert all(store.end(attempt.run) for attempt, _ in found.values())


def test_a_training_killed_between_an_answer_and_its_verdict_loses_and_doubles_no_rollout(
    tiny: Path, tmp_path: Path
) -> None:
    killed(tiny, tmp_path, "answer:11")  # answers that arrive together are stored at once: three at a time here


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", ["answer:1", "verdict:4", "published:3", "step:5", "line:2", "checkpoint:1", "mark:1", "mark:2"]
)
def test_a_training_killed_at_any_moment_loses_and_doubles_no_rollout(tiny: Path, tmp_path: Path, moment: str) -> None:
    killed(tiny, tmp_path, moment)


def test_a_training_goes_on_only_with_the_settings_it_was_begun_with(tiny: Path, trained: Path) -> None:
    with pytest.raises(UsageError, match="online_answers 4"):
        toy.train(tiny, trained, resume=True, answers=5)
    with pytest.raises(UsageError, match="holds a training already"):
        toy.train(tiny, trained)


def test_each_step_has_the_tokens_that_were_asked_for(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton_agent.policy.train.update.grpo import LoggedTrainer

    seen: list[int] = []
    score = LoggedTrainer._generate_and_score_completions

    def noted(trainer: Any, inputs: Any) -> Any:
        batch = score(trainer, inputs)
        seen.append(int((batch["completion_mask"] * batch["tool_mask"]).sum()))
        return batch

    monkeypatch.setattr(LoggedTrainer, "_generate_and_score_completions", noted)
    toy.train(tiny, tmp_path, updates=1, optimiser={"batch_tokens": 50, "accumulation": 2, "proximal": True})
    (line,) = lines(tmp_path)
    assert seen == [100] * line["steps"] and line["steps"] > 1
    assert abs(line["ratio"] - 1) > 0.1, "to the policy that sampled, even if the loss is clipped around another"
