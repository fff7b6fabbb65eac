"""Training at real size: tokens per second and memory per card, on rows of 16k tokens, and whether a kill is survived.

The model has a billion parameters, drawn at random, and the vocabulary of a current one. Each step has four rows,
however many processes share them, so losses can be compared: `torchrun` starts the processes, and several shard the
model with --fsdp. With --kill each training is done once more, killed halfway and resumed, and its weights are compared
with those of the first. If they differ, the training is done a third time, undisturbed, to see how far two such ones
differ. A stage that takes longer than --stage-s is stopped and has no row.

    python benchmarks/train_size.py --processes 1
    python benchmarks/train_size.py --processes 4 --kill
    python benchmarks/train_size.py --size tiny --tokens 64 --steps 2 --cpu --kill      # tries the script out
"""

from __future__ import annotations

import argparse
import array
import contextlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KINDS = ("sft", "sft-lora", "grpo", "grpo-lora")
ROWS_A_STEP = 4
ROWS = 16
ANSWER_SHARE = 0.25
"""Share of a row's tokens that are the answer's; the rest is the prompt's, with earlier kernels in it."""
RANK = 16
BILLION = {"layers": 16, "width": 2048, "inner": 6144, "heads": 16, "key_value_heads": 8, "vocabulary": 151_936}
"""1.1 billion parameters: layers of Qwen3-1.7B, a little more than half as many."""
GIGABYTE = 1e9
EQUAL = "bit-equal"


def main() -> int:
    options = _options()
    if options.worker:
        _work(options)
        return 0
    import rows

    shared = rows.provenance()
    missed = []
    with tempfile.TemporaryDirectory(dir=options.scratch) as name:
        folder = Path(name)
        began = time.monotonic()
        parameters = _make_model(folder / "model", options.size)
        print(f"made a model of {parameters:,} parameters in {time.monotonic() - began:.0f} s", flush=True)
        for kind in options.kind or KINDS:
            found = _measured(folder, kind, options)
            if found is None:
                missed.append(kind)
                continue
            shape = {"kind": kind, "parameters": parameters, "tokens": options.tokens, "processes": options.processes}
            rows.append(options.out, shared, [{**shape, **found}])
            print(json.dumps({**shape, **found}), flush=True)
    if missed:
        print(f"no figures: {', '.join(missed)}")
    return 1 if missed else 0


def _measured(folder: Path, kind: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """Train, and with --kill once more with an interruption; return the figures, None without any."""
    whole, killed = folder / f"{kind}-whole", folder / f"{kind}-killed"
    if _train(options, folder, kind, whole) != 0:
        return None
    found = json.loads((whole / "figures.json").read_text())
    found["resumed"] = ""
    if options.kill:
        _train(options, folder, kind, killed, "--dies-after", str(_saved_at(options)))
        done = _train(options, folder, kind, killed, "--resume")
        found["resumed"] = _difference(whole, killed) if done == 0 else f"failed with exit code {done}"
        again = folder / f"{kind}-again"
        if done == 0 and found["resumed"] != EQUAL and _train(options, folder, kind, again) == 0:
            found["resumed"] += f"; two undisturbed ones: {_difference(whole, again)}"
    return found


def _train(options: argparse.Namespace, folder: Path, kind: str, output: Path, *more: str) -> int | None:
    """Run the processes of one training; return the exit code, None if it took too long."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.processes}"]
    command = [sys.executable, *(launcher if options.processes > 1 else []), __file__, "--worker", str(folder)]
    command += ["--kind", kind, "--output", str(output), "--processes", str(options.processes)]
    command += ["--tokens", str(options.tokens), "--steps", str(options.steps), "--size", options.size]
    command += [*(["--cpu"] if options.cpu else []), *(["--kill"] if options.kill else []), *more]
    process = subprocess.Popen(command, start_new_session=True, env={**os.environ, "PYTHONFAULTHANDLER": "1"})
    try:
        return process.wait(timeout=options.stage_s)
    except subprocess.TimeoutExpired:
        print(f"{kind}: stopped after {options.stage_s:g} s", flush=True)
        os.killpg(process.pid, signal.SIGABRT)  # the processes print where they are
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5.0)
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _saved_at(options: argparse.Namespace) -> int:
    """Return the step of the only checkpoint: writing one takes longer than a few steps."""
    return int(options.steps // 2 + 1)


def _difference(one: Path, other: Path) -> str:
    """Compare the weights of two trainings."""
    from safetensors.torch import load_file

    [name] = {path.name for path in (one / "final").glob("*.safetensors")}
    first, second = (load_file(folder / "final" / name) for folder in (one, other))
    most = max(float((first[key] - second[key]).abs().max()) for key in first)
    return EQUAL if most == 0.0 and first.keys() == second.keys() else f"differs by at most {most:.2g}"


# -- one process of a training -----------------------------------------------------------------------------------------


def _work(options: argparse.Namespace) -> None:
    """Train as one of the processes; the first writes the figures."""
    from triton_agent.policy.train.extra import require_training

    require_training()
    import torch
    from accelerate import PartialState
    from accelerate.utils import gather_object
    from transformers import TrainerCallback

    from triton_agent.policy.train.prepare.recipes import RECIPES
    from triton_agent.policy.train.update.grpo import GRPOSettings
    from triton_agent.policy.train.update.session import Adapter, train_grpo
    from triton_agent.policy.train.update.sft import SFTSettings, train_sft

    class Clock(TrainerCallback):
        """Notes when each step ended, and dies after one if asked to."""

        def __init__(self) -> None:
            self.moments: list[float] = []

        def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            if not self.moments:
                self._note()

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            self._note()

        def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            if state.global_step == options.dies_after:
                PartialState().wait_for_everyone()
                os.kill(os.getpid(), signal.SIGKILL)

        def _note(self) -> None:
            if not options.cpu:
                torch.cuda.synchronize()
            self.moments.append(time.monotonic())
            if PartialState().is_main_process:
                print(f"{kind}: {len(self.moments) - 1} steps done", flush=True)

    clock, [kind] = Clock(), options.kind
    settings: dict[str, Any] = {
        "output": options.output,
        "steps": options.steps,
        "batch_size": 1,
        "accumulation": ROWS_A_STEP // options.processes,
        "learning_rate": 1e-5,
        "bf16": not options.cpu,
        "gradient_checkpointing": True,
        "save_every": _saved_at(options) if options.kill else 10**6,
        "cpu": options.cpu,
        "fsdp": options.processes > 1 and not options.cpu,
    }
    shared: dict[str, Any] = {"adapter": Adapter(rank=RANK) if "lora" in kind else None, "resume": options.resume}
    shared["callbacks"] = [clock]
    model = str(options.worker / "model")
    if kind.startswith("sft"):
        rows = _conversations(model, options.tokens)
        result = train_sft(model, rows, SFTSettings(**settings, tokens_at_most=options.tokens), **shared)
    else:
        prepared = None if options.resume else _prepared(model, options.tokens)
        result = train_grpo(model, prepared, RECIPES["default"], GRPOSettings(**settings), **shared)
    peak = 0 if options.cpu else torch.cuda.max_memory_allocated()
    peaks = gather_object([peak])
    if PartialState().is_main_process:
        seconds = [after - before for before, after in zip(clock.moments, clock.moments[1:])]
        a_step = statistics.median(seconds[1:] or seconds)
        figures = {
            "step_s": round(a_step, 3),
            "tokens_per_second": round(ROWS_A_STEP * options.tokens / a_step),
            "peak_gb_per_card": round(max(peaks) / GIGABYTE, 2),
            "losses": " ".join(f"{entry['loss']:.4f}" for entry in result.history if "loss" in entry),
        }
        (options.output / "figures.json").write_text(json.dumps(figures))


def _make_model(folder: Path, size: str) -> int:
    """Write a model with random weights and a small tokenizer; return the number of parameters."""
    from triton_agent.policy.train.extra import require_training

    require_training()
    from triton_agent.policy.train.update.fresh import make_policy

    text = "import triton\nimport triton.language as tl\n" * 20
    if size == "tiny":
        return make_policy("tiny", [text], folder)
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    with tempfile.TemporaryDirectory() as small:
        make_policy("tiny", [text], Path(small) / "tiny")
        tokenizer = AutoTokenizer.from_pretrained(Path(small) / "tiny")
    tokenizer.model_max_length = 1 << 20
    config = Qwen3Config(
        vocab_size=BILLION["vocabulary"],
        hidden_size=BILLION["width"],
        intermediate_size=BILLION["inner"],
        num_hidden_layers=BILLION["layers"],
        num_attention_heads=BILLION["heads"],
        num_key_value_heads=BILLION["key_value_heads"],
        head_dim=BILLION["width"] // BILLION["heads"],
        max_position_embeddings=1 << 17,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        dtype="bfloat16",
    )
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def _conversations(model: str, tokens: int) -> Iterator[Mapping[str, Any]]:
    """Yield conversations of at least so many tokens, which are cut; the last quarter is the answer."""
    from transformers import AutoTokenizer

    chance, tokenizer = random.Random(0), AutoTokenizer.from_pretrained(model)

    def text(wanted: int) -> str:
        words: list[str] = []
        while len(tokenizer.encode(" ".join(words))) < wanted:
            words += chance.choices(("triton", "tl", "import", "language", "as", "x7", "q3"), k=wanted // 8 + 1)
        return " ".join(words)

    answer = int(tokens * ANSWER_SHARE)
    for _ in range(ROWS):
        prompt, said = text(tokens - 2 * answer), text(2 * answer)
        yield {"messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": said}]}


def _prepared(model: str, tokens: int) -> Any:
    """Return rows of so many tokens, drawn at random, with advantages of both signs."""
    from transformers import AutoConfig

    from triton_agent.policy.train.prepare.credit import Advantage, TokenRole
    from triton_agent.policy.train.prepare.prepared import Prepared, TrainingRow
    from triton_agent.policy.train.record.spool import Numbers

    chance, vocabulary = random.Random(0), AutoConfig.from_pretrained(model).vocab_size
    answer = int(tokens * ANSWER_SHARE)

    def ids(count: int) -> array.array[int]:
        return array.array("I", chance.choices(range(vocabulary), k=count))

    rows = tuple(
        TrainingRow(
            key=str(number),
            numbers=Numbers(
                prompt_ids=ids(tokens - answer),
                token_ids=ids(answer),
                log_probabilities=array.array("f", [-math.log(vocabulary)] * answer),
            ),
            roles=bytes((TokenRole.CODE,)) * answer,
            advantage=Advantage(plan=0.0, code=1.0 if number % 2 else -1.0),
            reward=float(number % 2),
            parts={},
            hack=False,
            passed=bool(number % 2),
        )
        for number in range(ROWS)
    )
    return Prepared(rows=rows, left_out={}, groups=1, flat_groups=0)


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1, choices=(1, 2, 4), help="one for each card (default: 1)")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this training; repeatable")
    parser.add_argument("--size", choices=("1b", "tiny"), default="1b", help="of the model (default: 1b)")
    parser.add_argument("--tokens", type=int, default=16_384, help="of a row (default: 16384)")
    parser.add_argument("--steps", type=int, default=6, help="of a training (default: 6)")
    parser.add_argument("--kill", action="store_true", help="kill each training once more, resume it, and compare")
    parser.add_argument("--stage-s", type=float, default=140.0, help="limit of one training (default: 140)")
    parser.add_argument("--cpu", action="store_true", help="on the CPU, where nothing is sharded")
    parser.add_argument("--scratch", type=Path, help="folder with room for models (default: the system's)")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "train_size.csv", help="the CSV file for rows")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--dies-after", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
