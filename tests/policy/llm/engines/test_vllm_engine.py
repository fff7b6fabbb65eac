"""Real vLLM engines with a small model: exact tokens, new weights, speculative decoding, and engines that die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.policy.llm.engines.real_engines import BFLOAT16, assert_exact, second_opinion, vllm_python

from triton_agent.memory.records import Distribution, Message
from triton_agent.policy.answer import ANSWER_PATTERN
from triton_agent.policy.llm.engine import EngineError, ModelQuestion, Sampled, Sampling
from triton_agent.policy.llm.engines.vllm_engine import VllmEngine, VllmSettings
from triton_agent.tools.errors import UsageError

pytestmark = pytest.mark.slow

TIE = 1e-5
"""If the log-probabilities of the two most likely tokens differ by less, rounding may swap them."""
KERNEL = "def kernel(x, y, n):\n    for i in range(n):\n        y[i] = x[i] + x[i]\n    return y\n" * 8


def question(text: str, n: int = 1, **changes: Any) -> ModelQuestion:
    sampling = Sampling(**{"temperature": 1.0, "max_tokens": 24, "seed": 1} | changes)
    return ModelQuestion(messages=(Message(role="user", content=text),), n=n, sampling=sampling)


def settings(**changes: Any) -> VllmSettings:
    return VllmSettings(**{"python": vllm_python(), "dtype": "float32", "eager": True, "cpu_cache_gb": 1} | changes)


def ask(engine: VllmEngine, *questions: ModelQuestion) -> list[list[Sampled]]:
    return asyncio.run(engine.answer(questions))


@contextlib.contextmanager
def running(model: Path, **changes: Any) -> Iterator[VllmEngine]:
    engine = VllmEngine(str(model), settings(**changes))
    try:
        yield engine
    finally:
        asyncio.run(engine.close())


@pytest.fixture(scope="module")
def engine(served_model: Path) -> Iterator[VllmEngine]:
    with running(served_model) as made:
        yield made


def status(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state on; nothing if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def began(pid: int) -> str:
    """Return when a process began; empty if it has ended, even if its parent has not noticed."""
    said = status(pid)
    return said[19] if said and said[0] not in "ZX" else ""


def family_of(pid: int) -> dict[int, str]:
    """Return the process and its descendants with the times when they began, since numbers are used again."""
    children = [int(path.name) for path in Path("/proc").glob("[0-9]*") if status(int(path.name))[1:2] == [str(pid)]]
    found = {pid: began(pid)}
    for child in children:
        found |= family_of(child)
    return {number: at for number, at in found.items() if at}


def computing(family: dict[int, str]) -> list[int]:
    """Return those processes that vLLM has named as its own."""
    return [pid for pid in family if Path(f"/proc/{pid}/cmdline").read_text().startswith("VLLM::")]


def left_of(family: dict[int, str], within_s: float = 60.0) -> dict[int, str]:
    """Wait until these processes have ended; return the commands of those that have not."""
    deadline = time.monotonic() + within_s
    while left := [pid for pid, at in family.items() if began(pid) == at]:
        if time.monotonic() > deadline:
            return {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in left}
        time.sleep(0.1)
    return {}


def test_all_questions_of_a_turn_are_one_batch(engine: VllmEngine, served_model: Path) -> None:
    short, long, greedy = ask(
        engine, question("Write.", 3), question(KERNEL, 2), question("x", 1, temperature=0.0, max_tokens=5)
    )
    assert [len(answers) for answers in (short, long, greedy)] == [3, 2, 1]
    assert len({answer.token_ids for answer in (*short, *long)}) == 5
    assert_exact(served_model, [*short, *long, *greedy], temperature=1.0)


def test_a_temperature_and_a_cut_off_are_part_of_the_log_probabilities(engine: VllmEngine, served_model: Path) -> None:
    warm, narrow = ask(engine, question(KERNEL, 2, temperature=0.7), question(KERNEL, 1, top_p=1e-6))
    assert_exact(served_model, warm, temperature=0.7)
    assert warm[0].log_probabilities_of is Distribution.SAMPLED and warm[0].sampling.temperature == 0.7
    assert narrow[0].sampling.reshaped and len(narrow[0].tokenizer) == 16
    assert narrow[0].log_probabilities == pytest.approx([0.0] * len(narrow[0].token_ids or ()), abs=1e-6)


def test_answers_are_held_to_a_pattern(engine: VllmEngine) -> None:
    (answer,) = ask(engine, question("Write.", pattern="a plan: [a-z ]{3,9}[.]", max_tokens=100))[0]
    assert answer.text.startswith("a plan: ") and answer.text.endswith(".")


def test_the_form_of_an_answer_is_a_pattern_that_the_engine_takes(engine: VllmEngine) -> None:
    plans = ask(engine, question("Write.", 3, pattern=ANSWER_PATTERN, max_tokens=32))[0]
    assert all(plan.token_ids and "`" not in plan.text.partition("\n```python\n")[0] for plan in plans)


def test_a_pattern_that_is_none_is_refused_and_the_engine_lives(engine: VllmEngine) -> None:
    with pytest.raises(EngineError, match="refuses the question"):
        ask(engine, question("Write.", pattern="(unclosed"))
    assert ask(engine, question("Write."))[0][0].token_ids


def test_a_question_that_does_not_fit_is_trouble_and_the_others_are_answered(engine: VllmEngine) -> None:
    too_long, fits = ask(engine, question("word " * 9000, 2), question("Write."))
    assert [answer.trouble.too_long for answer in too_long if answer.trouble] == [True]
    assert fits[0].token_ids


def test_what_is_called_off_stops_and_the_rest_goes_on(engine: VllmEngine) -> None:
    async def both() -> list[list[Sampled]]:
        endless = asyncio.ensure_future(engine.answer([question("Write.", 8, max_tokens=6000)]))
        await asyncio.sleep(0.3)
        wanted = asyncio.ensure_future(engine.answer([question(KERNEL, 2)]))
        endless.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await endless
        assert endless.cancelled()
        return await wanted

    assert all(answer.token_ids for answer in asyncio.run(both())[0])


def test_new_weights_give_exactly_their_own_answers(engine: VllmEngine, served_model: Path, varied_model: Path) -> None:
    asked = question(KERNEL, 2)
    before = ask(engine, asked)[0]
    asyncio.run(engine.reload(varied_model))
    after = ask(engine, asked)[0]
    assert {answer.version for answer in after} == {engine.version} != {answer.version for answer in before}
    assert_exact(varied_model, after, temperature=1.0)
    asyncio.run(engine.reload(served_model))
    assert [answer.token_ids for answer in ask(engine, asked)[0]] == [answer.token_ids for answer in before]


def test_an_engine_without_adapters_takes_none(engine: VllmEngine, adapter: Path) -> None:
    with pytest.raises(UsageError, match="without adapters"):
        asyncio.run(engine.reload(adapter))


@pytest.mark.parametrize("victim", ["the process we talk to", "the one that computes"])
def test_an_engine_that_is_killed_is_started_again_for_what_it_owed(engine: VllmEngine, victim: str) -> None:
    asked = question(KERNEL, 2)
    before = ask(engine, asked)[0]
    assert engine._process
    talked_to = engine._process.pid
    family = family_of(talked_to)

    async def ask_and_kill() -> list[list[Sampled]]:
        owed = asyncio.ensure_future(engine.answer([question("Write.", 2, max_tokens=3000), asked]))
        while engine._process and not engine._process._pending:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not owed.done(), "an engine that owes nothing may stay as it is until the next question"
        os.kill(talked_to if victim == "the process we talk to" else computing(family)[-1], signal.SIGKILL)
        return await owed

    after = asyncio.run(ask_and_kill())[1]
    assert [answer.token_ids for answer in after] == [answer.token_ids for answer in before]
    assert not left_of(family)


def test_closing_leaves_no_process(engine: VllmEngine) -> None:
    ask(engine, question("Write."))
    assert engine._process
    family = family_of(engine._process.pid)
    asyncio.run(engine.close())
    asyncio.run(engine.close())
    assert len(family) > 1 and not left_of(family)


def test_guesses_ahead_change_no_greedy_answer_but_at_ties(
    served_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model with random weights soon repeats itself, so speculation finds matches. The test prints both speeds."""
    asked = [question(KERNEL + "x" * n, temperature=0.0, max_tokens=400) for n in range(4)]
    found: dict[int, list[Sampled]] = {}
    for guesses in (0, 8):
        with running(served_model, guess_ahead=guesses) as engine:
            ask(engine, question("Write."))  # the first question compiles everything
            began = time.monotonic()
            found[guesses] = [answers[0] for answers in ask(engine, *asked)]
            wall_s = time.monotonic() - began
        assert_exact(served_model, found[guesses], temperature=0.0)
        tokens = sum(len(answer.token_ids or ()) for answer in found[guesses])
        with capsys.disabled():
            print(f"\n{guesses} tokens guessed ahead: {tokens / wall_s:.0f} tokens/s ({tokens} in {wall_s:.2f} s)")
    for plain, guessed, opinion in zip(found[0], found[8], second_opinion(served_model, found[0], temperature=0.0)):
        at = _first_difference(plain, guessed)
        if at is not None:
            with capsys.disabled():
                print(f"token {at}: the likeliest leads by {opinion.leads[at]:.1e} nats")
            assert opinion.leads[at] < TIE


def _first_difference(one: Sampled, other: Sampled) -> int | None:
    pairs = enumerate(zip(one.token_ids or (), other.token_ids or ()))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), None)


def test_an_adapter_changes_the_answers_and_the_version(served_model: Path, adapter: Path, tmp_path: Path) -> None:
    asked = question(KERNEL, 2)
    with running(served_model, adapter=str(adapter), adapter_rank=8) as engine:
        adapted = ask(engine, asked)[0]
        assert_exact(served_model, adapted, temperature=1.0, adapter=adapter)
        other = Path(shutil.copytree(adapter, tmp_path / "other"))
        os.utime(other / "adapter_model.safetensors", ns=(1, 1))
        process = engine._process
        asyncio.run(engine.reload(other))
        again = ask(engine, asked)[0]
        assert engine._process is process
    assert [answer.token_ids for answer in again] == [answer.token_ids for answer in adapted]
    assert again[0].version != adapted[0].version and again[0].adapter_version != adapted[0].adapter_version
    base = VllmEngine(str(served_model), settings())
    assert adapted[0].version.startswith(f"{base.version}+")


def test_log_probabilities_in_bfloat16_are_those_of_the_model(served_model: Path) -> None:
    with running(served_model, dtype="bfloat16") as engine:
        answers = ask(engine, question("Write.", 2), question(KERNEL, 2))
    assert_exact(served_model, [*answers[0], *answers[1]], temperature=1.0, within=BFLOAT16, dtype="bfloat16")


def test_a_model_that_vllm_does_not_take_is_refused_with_its_reason(served_model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(served_model, tmp_path / "unknown"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["NobodyKnows"], "model_type": "gone"}))
    engine = VllmEngine(str(folder), settings())
    with pytest.raises(EngineError, match=r"does not start|ended while it started") as caught:
        ask(engine, question("Write."))
    assert "gone" in str(caught.value) or "NobodyKnows" in str(caught.value)
    asyncio.run(engine.close())


def test_an_engine_ends_with_the_process_that_started_it(served_model: Path, tmp_path: Path) -> None:
    """The process is killed, so it cannot clean up."""
    script = tmp_path / "asker.py"
    script.write_text(
        "import asyncio, sys, time\n"
        "from tests.policy.llm.engines.test_vllm_engine import question, settings\n"
        "from triton_agent.policy.llm.engines.vllm_engine import VllmEngine\n"
        f"engine = VllmEngine({str(served_model)!r}, settings())\n"
        "asyncio.run(engine.answer([question('Write.')]))\n"
        "print(engine._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    root = Path(__file__).resolve().parents[4]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
    asker = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment)
    assert asker.stdout
    pid = int(asker.stdout.readline())
    family = family_of(pid)
    asker.kill()
    asker.wait()
    asker.stdout.close()
    assert len(family) > 1 and not left_of(family)
