"""Runs the whole chain of learning to write Triton from random weights, by the commands of the product.

    data       problems with verified kernels, and held-out problems whose compositions occur in none of them
    split      some of the former are for reinforcement learning alone: all those with certain pairs of steps, so that
               their compositions are as new to the fine-tuned policy as held-out ones
    policy     a fresh decoder with a tokenizer trained on the data
    sft        fine-tuning on the data; the weights with the lowest validation loss
    logged     GRPO on logged runs of the fine-tuned policy alone
    rejection  fine-tuning on those of its logged answers that passed
    online     GRPO on answers that the policy gives meanwhile; each update is judged by real verdicts
    on a GPU   right answers once more, where they are timed, if the verdicts of the other stages come from CPUs
    ablations  online training with one setting changed

Online training and the logged runs have equally many episodes. Every policy is evaluated on the held-out problems. Rows
go to `results/learn.csv`, and `docs/make_learning.py` writes `docs/learning.md` from them.

This module holds settings and order. A command that has finished is not repeated, and one that was interrupted
continues: its result is in `OUT/STAGE.json`. Not covered: problems of the suite, and other settings in
the same folder, which are refused.

    python -m benchmarks.learn --scale smoke
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.rows import RESULTS, append, provenance  # noqa: E402

CSV = RESULTS / "learn.csv"
PROMPT = ("--prompt-tokens", "1500")
"""Every stage uses the prompts of the data."""
TIMED = " on a GPU"
"""End of the names of stages and policies whose right answers are judged on a GPU again."""
GREEDY = " greedy"
"""End of the names of stages and policies that give the likeliest answer in place of a sample."""
PARTS = ("sft", "logs", "online", "ablations", "end")
"""Parts of the chain after fine-tuning; `sft` is its evaluation. The middle three need nothing of each other."""
CURVE_POINTS = 40
"""Points of a curve that are kept in the rows."""
FLAT = "default,without=speed,without=gain,without=milestone,without=share,without=novelty,without=reasoning"
ABLATIONS: Mapping[str, Mapping[str, str]] = {
    "single turn": {"--turns": "1"},
    "baseline of GRPO": {"--recipe": "default,baseline=grpo"},
    "flat reward": {"--recipe": FLAT},
    "no rule reward": {"--recipe": "default,without=rule"},
}
"""Options of online training that an ablation changes. A single turn is compensated by as many more rollouts."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """All settings of the chain."""

    problems: int
    held_out: float
    faults: int
    size: str
    vocabulary: int
    sft_steps: int
    sft_batch: int
    sft_rate: float
    validate_every: int
    answer_tokens: int
    temperature: float
    """Temperature of all samples, also of those that are trained on."""
    turns: int
    samples: int
    """Episodes of a held-out problem."""
    evaluated: int
    """Held-out problems."""
    rl_problems: int
    updates: int
    per_update: int
    rollouts: int
    rl_rate: float
    rl_batch: int = 8
    rl_warmup: int = 0
    """Steps over which the learning rate of reinforcement learning rises."""
    ablations: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    """Options of every command that trains."""
    judging: tuple[str, ...] = ()
    """Options of commands that reach verdicts on answers."""
    solving: tuple[str, ...] = ()
    """Options of `data make`."""
    timed: bool = False
    """Judge right answers to held-out problems on a GPU again at the end, if `judging` uses other devices."""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    from_logs: bool = True
    """Train on logged runs as well."""

    def __post_init__(self) -> None:
        if self.logged * self.rl_problems != self.updates * self.per_update * self.rollouts:
            raise ValueError("logged and online episodes are not equally many")

    @property
    def logged(self) -> int:
        """Logged episodes of a problem."""
        return self.updates * self.per_update * self.rollouts // self.rl_problems


SCALES = {
    "smoke": Scale(
        problems=120,
        held_out=0.2,
        faults=2,
        size="mini",
        vocabulary=1536,
        sft_steps=400,
        sft_batch=8,
        sft_rate=2e-3,
        validate_every=100,
        answer_tokens=300,
        temperature=0.4,
        turns=2,
        samples=4,
        evaluated=24,
        rl_problems=8,
        updates=4,
        per_update=4,
        rollouts=4,
        rl_rate=1e-4,
        device=("--cpu",),
        solving=("--target", "none"),
        environment={"OMP_NUM_THREADS": "1"},  # a tiny model is slower with more, and verdicts need the other cores
    ),
    "short": Scale(
        problems=8000,
        held_out=0.06,
        faults=2,
        size="small",
        vocabulary=4096,
        sft_steps=850,
        sft_batch=64,
        sft_rate=6e-4,
        validate_every=150,
        answer_tokens=448,
        temperature=1.0,
        turns=2,
        samples=4,
        evaluated=96,
        rl_problems=256,
        updates=48,
        per_update=16,
        rollouts=8,
        rl_rate=5e-5,  # without a warmup, 56 steps at 4e-5 took 13 points of right answers to new compositions
        rl_batch=256,  # one step an update
        rl_warmup=12,
        ablations=("flat reward",),
        device=("--bf16",),
        judging=("--device", "cpu"),
        solving=("--device", "cpu", "--target", "none", "--judged", "0.06"),
        environment={"OMP_NUM_THREADS": "1"},  # as in `smoke`
        timed=True,
    ),
    "gpu": Scale(
        problems=6000,
        held_out=0.1,
        faults=1,
        size="small",
        vocabulary=4096,
        sft_steps=3000,
        sft_batch=32,
        sft_rate=6e-4,
        validate_every=250,
        answer_tokens=1024,
        temperature=1.0,
        turns=2,
        samples=4,
        evaluated=500,
        rl_problems=320,
        updates=40,
        per_update=8,
        rollouts=8,
        rl_rate=1e-5,
        rl_batch=48,
        ablations=tuple(ABLATIONS),
        device=("--bf16",),
    ),
}
"""`smoke` takes about an hour on two cores. `short` is for a GPU beside many cores: the policy is trained and drawn
from on the GPU, and its answers are judged in the interpreter on the cores, as its data are; only right answers to
held-out problems are judged on the GPU at the end. It needs thousands of problems: a policy from nothing that saw 1,200
of them wrote no right kernel for others. `gpu` is meant for half an hour a stage: at four verdicts a second, no stage
has more.
"""


class Chain:
    """Runs commands once each, and keeps their results."""

    def __init__(self, scale: Scale, out: Path, seed: int) -> None:
        self.scale, self.out, self.seed = scale, out, seed
        self.data, self.own = out / "data", out / f"seed-{seed}"
        self.own.mkdir(parents=True, exist_ok=True)

    # -- commands ----------------------------------------------------------------------------------------------------

    def command(self, stage: str, *words: str | Path, record: Path | None = None) -> Any:
        """Run `triton-agent WORDS --json` unless it has been done; return its result."""
        path = record or self.own / f"{stage.replace(' ', '_')}.json"
        argv = [*map(str, words), "--json"]
        if path.exists():
            done = json.loads(path.read_text())
            if done["argv"] != [word for word in argv if word != "--resume"]:
                raise SystemExit(f"{path} was made by other settings; name another folder with --out")
            return done["result"]
        print(f"== {stage}: triton-agent {' '.join(argv)[:200]}", file=sys.stderr, flush=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "triton_agent", *argv]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **self.scale.environment})
        if ran.returncode:
            print(ran.stdout, file=sys.stderr, flush=True)  # the error, as JSON
            raise SystemExit(f"{stage} ended with exit code {ran.returncode}; the same command continues it")
        done = {"argv": [word for word in argv if word != "--resume"], "result": json.loads(ran.stdout)}
        done["seconds"] = None if "--resume" in argv else time.monotonic() - began
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(done, indent=1))
        partial.replace(path)
        return done["result"]

    def training(self, stage: str, kind: str, model: Path, out: Path, begun: str, *words: str | Path) -> Path:
        """Train, or continue if the file that a begun training has is there; return the weights."""
        resume = ["--resume"] if any(out.glob(begun)) else []
        if not resume and not self._done(stage):
            shutil.rmtree(out, ignore_errors=True)
        shared = ("--model", model, "--out", out, "--seed", str(self.seed), *self.scale.device)
        self.command(stage, "train", kind, *shared, *words, *resume)
        return out / "final"

    def _done(self, stage: str) -> bool:
        return (self.own / f"{stage.replace(' ', '_')}.json").exists()

    # -- stages ------------------------------------------------------------------------------------------------------

    def make_data(self) -> None:
        chosen = self.scale
        resume = ["--resume"] if (self.data / "dataset.json").exists() else []
        words = ["--count", str(chosen.problems), "--held-out", str(chosen.held_out), "--difficulty", "tiny"]
        words += ["--against", str(ROOT / "benchmarks" / "problems"), "--solve", "--faults", str(chosen.faults)]
        record, words = self.out / "data.json", [*words, *chosen.solving]
        self.command("data", "data", "make", self.data, *words, *PROMPT, *resume, record=record)

    def run(self, parts: Sequence[str] = PARTS) -> dict[str, Path]:
        """Run these parts, or find that they have run; return the weights by the policy's name."""
        found, problems = self.begin()
        if "sft" in parts:
            self.evaluate("sft", found)
        if "logs" in parts and self.scale.from_logs:
            self.learn_from_logs(problems, found)
        if "online" in parts:
            found["online"] = self.online("online", problems, {})
            self.evaluate("online", found)
            self.evaluate("online", found, end=GREEDY)
        for name in self.scale.ablations if "ablations" in parts else ():
            found[name] = self.online(name, problems, ABLATIONS[name])
            self.evaluate(name, found)
        if "end" in parts:
            self.compare_at_the_end()
        return found

    def begin(self) -> tuple[dict[str, Path], Path]:
        """Make data and the fine-tuned policy; return its weights and the problems for reinforcement learning."""
        chosen = self.scale
        self.make_data()
        problems, conversations = self.split()
        if not self._done("policy"):
            shutil.rmtree(self.own / "policy", ignore_errors=True)
        fresh = ("--size", chosen.size, "--vocabulary", str(chosen.vocabulary), "--whole-lines")
        self.command("policy", "policy", "init", "--out", self.own / "policy", "--data", conversations, *fresh)
        told = ("--data", conversations, "--steps", str(chosen.sft_steps), "--batch", str(chosen.sft_batch))
        told += ("--lr", str(chosen.sft_rate), "--held-out", "0.05", "--save-every", str(chosen.validate_every))
        told += ("--learn-prompts",)
        found = {"sft": self.training("sft", "sft", self.own / "policy", self.own / "sft", "checkpoint-*/whole", *told)}
        return found, problems

    def compare_at_the_end(self) -> None:
        """Compare online training with rejection sampling, and time right answers."""
        found = {name: self.own / name / "final" for name in ("sft", "online", "rejection", "logged")}
        found = {name: weights for name, weights in found.items() if weights.exists()}
        if "rejection" in found:
            self.evaluate("online", found, over="rejection")
        for name in found if self.scale.timed else ():
            if name != "sft":
                self.evaluate(name, found, end=TIMED)

    def learn_from_logs(self, problems: Path, found: dict[str, Path]) -> None:
        """Let the fine-tuned policy answer, and train on these answers only."""
        chosen, sft = self.scale, found["sft"]
        logged = ("--runs", "all", "--store", str(self.own / "logged.db"))
        asked = ("--problems", problems, "--turns", str(chosen.turns), "--answers", str(chosen.logged))
        asked += chosen.judging
        learnt = self.ask("log", {"sft": sft}, self.own / "logged.db", asked)[str(sft)]["values"]
        rate = ("--lr", str(chosen.rl_rate), "--batch", str(chosen.rl_batch), "--epochs", "3")
        found["logged"] = self.training("logged", "grpo", sft, self.own / "logged", "rows.jsonl", *logged, *rate)
        self.evaluate("logged", found)
        if learnt["correct@1"]["median"] > 0:  # otherwise there is nothing to select
            rejection = self.own / "rejection"
            again = (*logged, "--lr", str(chosen.sft_rate / 10), "--epochs", "3", "--batch", str(chosen.sft_batch))
            found["rejection"] = self.training("rejection", "sft", sft, rejection, "checkpoint-*/whole", *again)
            self.evaluate("rejection", found)

    def online(self, stage: str, problems: Path, changes: Mapping[str, str]) -> Path:
        chosen, name, sft = self.scale, stage.replace(" ", "_"), self.own / "sft" / "final"
        options = {"--turns": str(chosen.turns), "--lr": str(chosen.rl_rate), "--batch": str(chosen.rl_batch)}
        options |= {"--warmup": str(chosen.rl_warmup)} if chosen.rl_warmup else {}
        options |= changes
        options["--answers"] = str(chosen.rollouts * chosen.turns // int(options["--turns"]))
        options |= {"--updates": str(chosen.updates), "--per-update": str(chosen.per_update)}
        options |= {"--temperature": str(chosen.temperature)}
        options |= {"--max-answer-tokens": str(chosen.answer_tokens), "--problems": str(problems)}
        words = [*PROMPT, *self.scale.judging]
        options |= {"--store": str(self.own / f"{name}.db"), "--save-every": "5"}
        words += [word for option in options.items() for word in option]
        return self.training(stage, "grpo", sft, self.own / name, "online.json", "--online", *words)

    def split(self) -> tuple[Path, Path]:
        """Write the problems for reinforcement learning, and the conversations about the others; return the paths."""
        problems, conversations = self.own / "problems", self.own / "conversations.jsonl"
        aside = with_pairs_aside(self.rows("train"), self.scale.rl_problems, self.seed)
        self.copy(aside[: self.scale.rl_problems], problems)
        names = {row["name"] for row in aside}
        lines = (self.data / "conversations.jsonl").read_text().splitlines(keepends=True)
        conversations.write_text("".join(line for line in lines if json.loads(line)["problem"] not in names))
        return problems, conversations

    def rows(self, split: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.data / f"{split}.jsonl").read_text().splitlines()]

    def copy(self, rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        for row in rows:
            shutil.copy(self.data / "problems" / row["split"] / f"{row['name']}.py", folder)

    def evaluate(self, name: str, found: Mapping[str, Path], over: str = "sft", end: str = "") -> None:
        """Evaluate a policy on the held-out problems, and compare it with another one.

        `end` may be TIMED or GREEDY.
        """
        self.copy(self.rows("held_out")[: self.scale.evaluated], self.own / "held_out")
        asked = ("--problems", self.own / "held_out", "--turns", str(self.scale.turns))
        tries = [1] if end == GREEDY else [1, self.scale.samples]
        asked += ("--answers", str(tries[-1]), *(word for k in tries for word in ("--k", str(k))))
        asked += self.scale.judging
        compared = {over: found[over], name: found[name]}
        stage, store = "evaluate " + " over ".join(reversed(compared)) + end, self.own / "held_out.db"
        if end == TIMED:
            asked, store = (*asked, "--timed-on", "cuda"), self._copied(store)
        if end == GREEDY:
            store = self.own / "greedy.db"
        self.ask(stage, compared, store, asked, greedy=end == GREEDY)

    def _copied(self, store: Path) -> Path:
        """Copy the store once, since a second verdict on an answer counts in all later evaluations."""
        copy = store.with_name("timed.db")
        if not copy.exists():
            with (
                contextlib.closing(sqlite3.connect(store)) as there,
                contextlib.closing(sqlite3.connect(copy)) as here,
            ):
                there.backup(here)
        return copy

    def ask(
        self,
        stage: str,
        models: Mapping[str, Path],
        store: Path,
        asked: Sequence[str | Path],
        *,
        greedy: bool = False,
    ) -> Any:
        named = [word for path in models.values() for word in ("--model", path)]
        cpu = [word for word in self.scale.device if word == "--cpu"]
        limits = ("--max-tokens", str(self.scale.answer_tokens), "--seed", str(self.seed))
        limits += ("--temperature", str(0.0 if greedy else self.scale.temperature))
        return self.command(stage, "train", "eval", *named, *asked, *limits, "--store", store, *PROMPT, *cpu)


def with_pairs_aside(rows: Sequence[dict[str, Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """Return at least `count` problems: all those that have one of some pairs of steps, drawn by the seed."""
    by_pair: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        for pair in row["pairs"]:
            by_pair.setdefault(pair, []).append(place)
    found: set[int] = set()
    for pair in sorted(by_pair, key=lambda pair: hashlib.sha256(f"{seed}/{pair}".encode()).digest()):
        if len(found) >= count:
            return [rows[place] for place in sorted(found)]
        found.update(by_pair[pair])
    raise SystemExit(f"{len(found)} problems have a pair of steps, {count} wanted")


def rows_of(chain: Chain, scale: str, found: Mapping[str, Path]) -> list[dict[str, object]]:
    """Return the results of the stages: figures, gains, curves, costs."""
    rows: list[dict[str, object]] = []

    def add(kind: str, policy: str, name: str, value: Any, *, over: str = "", step: int | str = "") -> None:
        bounds = value if isinstance(value, dict) else {"median": value, "low": "", "high": ""}
        told = {key: f"{v:.6g}" if isinstance(v, float) else v for key, v in bounds.items()}
        row = {"scale": scale, "seed": chain.seed, "kind": kind, "policy": policy, "over": over, "figure": name}
        rows.append({**row, "step": step, "value": told["median"], "low": told["low"], "high": told["high"]})

    names = {str(path): name for name, path in found.items()}
    told: set[str] = set()
    records = sorted(chain.own.glob("*.json"), key=lambda path: path.stat().st_mtime)
    for path in [chain.out / "data.json", *records]:
        done = json.loads(path.read_text())
        if done["seconds"] is not None:  # unknown for a command that was interrupted
            add("cost", path.stem.replace("_", " "), "seconds", done["seconds"])
        if not path.stem.startswith("evaluate"):
            continue
        *earlier, (last, compared) = done["result"].items()
        ends = (end for end in (TIMED, GREEDY) if path.stem.endswith(end.replace(" ", "_")))
        place = next(ends, "")
        for model, found_figures in done["result"].items():
            name = names[model] + place
            if name not in told:
                told.add(name)
                for figure, value in found_figures["values"].items():
                    add("figure", name, figure, value)
                add("figure", name, "answers", found_figures["answers"])
                add("figure", name, "not measured", found_figures["unmeasured"])
        for first, _ in earlier:
            for figure, value in compared["gain"].items():
                add("gain", names[last] + place, figure, value, over=names[first])
    for name, value in dataclasses.asdict(chain.scale).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            add("setting", "", name, value)
    data = json.loads((chain.out / "data.json").read_text())["result"]
    for part in ("problems", "solved", "conversations", "devices"):
        for name, count in data[part].items():
            add("data", "", f"{part}: {name}", count)
    parameters = json.loads((chain.own / "policy.json").read_text())["result"]["parameters"]
    add("data", "", "parameters", parameters)
    for name, figure, step, value in curves(chain):
        add("curve", name, figure, value, step=step)
    return rows


def curves(chain: Chain) -> list[tuple[str, str, int, float]]:
    """Return the losses of fine-tuning and the lines of the online trainings, thinned."""
    found: list[tuple[str, str, int, float]] = []
    states = sorted(chain.own.glob("sft/checkpoint-*/trainer_state.json"), key=lambda p: int(p.parent.name[11:]))
    history = json.loads(states[-1].read_text())["log_history"] if states else []
    for figure in ("loss", "eval_loss"):
        found += thinned([("sft", figure, entry["step"], entry[figure]) for entry in history if figure in entry])
    for path in sorted(chain.own.glob("*/updates.jsonl")):
        name, lines = path.parent.name.replace("_", " "), [json.loads(line) for line in path.read_text().splitlines()]
        for figure in ("reward", "entropy", "ratio", "answer_tokens", "rows", "verdicts"):
            found += thinned([(name, figure, x["update"], x[figure]) for x in lines if x[figure] is not None])
        last = [(name, "correct", x["update"], x["correct"][-1]) for x in lines if x["correct"]]
        found += thinned([point for point in last if point[-1] is not None])
        whole = json.loads(path.parent.with_suffix(".json").read_text())["seconds"] is not None
        for part in ("generation", "verdicts", "update", "all") if whole else ():
            found.append((name, f"seconds: {part}", len(lines), sum(x["seconds"][part] for x in lines)))
        found.append((name, "answers", len(lines), float(sum(x["attempts"] for x in lines))))
        judged = sum(x["verdicts"] for x in lines)  # the same answer to a problem is judged once
        found.append((name, "verdicts reached", len(lines), float(judged)))
        if whole:
            found.append((name, "verdicts a second", len(lines), judged / sum(x["seconds"]["all"] for x in lines)))
    return found


def thinned(points: list[tuple[str, str, int, float]]) -> list[tuple[str, str, int, float]]:
    """Return at most CURVE_POINTS points, including the last one."""
    step = -(-len(points) // CURVE_POINTS) or 1
    return points[::-1][::step][::-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=SCALES, default="gpu", help="how much of everything; default: gpu")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="policies from scratch; default: 1")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the chain; default: build/learn/SCALE")
    told = "only these parts, and no rows; repeat for several; the middle three may run beside each other"
    parser.add_argument("--part", action="append", choices=PARTS, help=told)
    parser.add_argument("--no-rows", action="store_true", help="run the chain, and add no rows to the results")
    said = parser.parse_args()
    shared, out = provenance(), said.out or ROOT / "build" / "learn" / said.scale
    for seed in range(said.seeds):
        chain = Chain(SCALES[said.scale], out, seed)
        found = chain.run(tuple(said.part) if said.part else PARTS)
        if not said.no_rows and not said.part and not (chain.own / "rows_added").exists():
            append(CSV, shared, rows_of(chain, said.scale, found))
            (chain.own / "rows_added").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
