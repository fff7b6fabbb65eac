"""Whole benchmarks: every column and reason, and equal tables however the benchmark was run."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.runs.commands import call

from triton_agent.memory.store import Store
from triton_agent.runs.bench import command as bench_command
from triton_agent.runs.bench import runner
from triton_agent.runs.bench.baselines import references
from triton_agent.runs.bench.baselines.found import Baselines
from triton_agent.runs.bench.baselines.references import References, ReferenceSettings
from triton_agent.runs.bench.command import STORE, BenchRequest, run
from triton_agent.runs.bench.journal import Journal
from triton_agent.runs.bench.problems import Selection, of_clone
from triton_agent.runs.bench.public.layouts import Benchmark
from triton_agent.runs.bench.rows import FILE, Against, BaselineTime, Kind, ProblemRow, Record, read_record
from triton_agent.runs.bench.runner import side_by_side
from triton_agent.runs.bench.settings import BenchSettings
from triton_agent.runs.cli import exit_codes
from triton_agent.runs.cli.devices import Chosen
from triton_agent.tools.errors import InstrumentError, UsageError
from triton_agent.tools.machine.hardware import Gpu, gpus
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.results import Finding, Interval, Status

HERE = Path(__file__).parent
LAYOUTS = HERE.parent / "layouts"
KERNELBENCH, TRITONBENCH = LAYOUTS / "kernelbench", LAYOUTS / "tritonbench"
KERNELS, OPERATORS = HERE / "kernels", HERE / "operators"
LINEAR = HERE.parents[1] / "kernels" / "linear_relu_f32"
FEW = ("level1/2_bent_line", "level1/3_product_of_three", "level1/4_columns_by_length")

NO_CARD = Gpu(
    name="a card",
    uuid="GPU-0",
    compute_capability=None,
    memory_bytes=None,
    sm_count=None,
    l2_bytes=None,
    driver=None,
    max_sm_clock_mhz=None,
    max_memory_clock_mhz=None,
)

pytestmark = pytest.mark.xdist_group("bench_running")  # what is made once is made in one process

Ran = Callable[..., tuple[int, Record]]


def few(*names: str) -> Selection:
    return of_clone(KERNELBENCH, Benchmark.KERNELBENCH, [], names=names or FEW)


@pytest.fixture(scope="module")
def ran(nursery: Nursery) -> Ran:
    """Return a function that runs a benchmark in this process, on the CPU, and returns exit code and record."""

    def start(selection: Selection, out: Path, nurseries: Sequence[Nursery] = (), **said: Any) -> tuple[int, Record]:
        request = BenchRequest(out=str(out), device="cpu", **{"kernels": str(KERNELS), **said})
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = run(selection, request, nurseries=nurseries or [nursery])
        return code, read_record(out)

    return start


@pytest.fixture(scope="module")
def whole(ran: Ran, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a few problems with right, wrong, cheating and missing kernels without interruption."""
    out = tmp_path_factory.mktemp("whole")
    code, _ = ran(few(), out, clone=str(KERNELBENCH))
    assert code == exit_codes.GOOD
    return out


def of(record: Record, label: str) -> ProblemRow:
    return next(row for row in record.rows if row.label == label)


def table(folder: Path) -> str:
    """Return the summary without the figures that differ from run to run."""
    data = json.loads((folder / "summary.json").read_text())
    del data["spent"]
    data["settings"].pop("clone", None)
    return json.dumps(data)


# -- what a row says ---------------------------------------------------------------------------------------------------


def test_right_wrong_library_and_cheating_kernels_get_their_columns(whole: Path) -> None:
    record = read_record(whole)
    right, wrong = of(record, FEW[0]).samples
    assert (right.status, right.called, right.executed, right.speeds) == (Status.PASSED, True, True, ())
    assert (wrong.status, wrong.called, wrong.executed) == (Status.WRONG_VALUES, True, False)
    assert wrong.message and wrong.kernel == "level1/2_bent_line_1.py"
    (library,) = of(record, FEW[1]).samples
    assert (library.finding, library.called) == (Finding.NO_LAUNCH, True)
    (cheat,) = of(record, FEW[2]).samples
    assert (cheat.status, cheat.cheated, cheat.called) == (Status.CHEATED, True, False)


def test_every_verdict_is_in_the_store_with_its_kernel(whole: Path) -> None:
    sample = of(read_record(whole), FEW[0]).samples[1]
    with Store.open(whole / STORE) as store:
        attempts = list(store.attempts(sample.run))
        gradings = store.gradings(attempts[1].key)
    assert attempts[1].source == (KERNELS / sample.kernel).read_text()
    assert gradings[0].evaluation is not None and gradings[0].evaluation.status is sample.status


def test_summary_counts_what_the_rows_say_and_leaves_speed_out(whole: Path) -> None:
    everything = json.loads((whole / "summary.json").read_text())["groups"][0]
    assert (everything["judged"], everything["unusable"], everything["speeds"]) == (3, 0, [])
    assert everything["solved"]["value"]["median"] == pytest.approx(1 / 3)
    assert everything["pass_at"]["pass@2"]["of"] == 1
    assert everything["hack"]["value"]["median"] == pytest.approx(1 / 3)
    with (whole / "rows.csv").open(newline="") as file:
        lines = {line["label"]: line for line in csv.DictReader(file)}
    assert [lines[label]["status"] for label in FEW] == ["passed", "not_triton", "cheated"]
    assert {line["eager_device_speedup"] for line in lines.values()} == {""}
    assert {(line["mode"], line["precision"]) for line in lines.values()} == {("own-kernels", "same")}


# -- the same table ----------------------------------------------------------------------------------------------------


def test_killed_while_writing_a_row_and_started_again_gives_the_same_table(
    ran: Ran, whole: Path, tmp_path: Path
) -> None:
    lines = (whole / FILE).read_text().splitlines(keepends=True)
    (tmp_path / FILE).write_text("".join(lines[:3]) + lines[3][:50])
    assert read_record(tmp_path).missing == FEW[2:]
    code, record = ran(few(), tmp_path)
    assert code == exit_codes.GOOD and record.missing == ()
    assert of(record, FEW[0]).samples[0].run == of(read_record(whole), FEW[0]).samples[0].run  # not judged again
    assert table(tmp_path) == table(whole)


def test_parts_of_a_record_are_joined_to_the_same_table(whole: Path, tmp_path: Path) -> None:
    head, *rows = (whole / FILE).read_text().splitlines(keepends=True)
    parts = {"one": rows[::2], "two": rows[1::2]}
    for name, lines in parts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_text(head + "".join(lines))
    folders = [str(tmp_path / name) for name in parts]
    done = call("bench", "table", *folders, "--out", str(tmp_path / "both"))
    assert done.code == exit_codes.GOOD and "solved (fast_0)" in done.stdout
    assert table(tmp_path / "both") == table(whole)
    assert call("bench", "table", folders[0]).code == exit_codes.NOT_MEASURED


@pytest.mark.slow
@pytest.mark.parametrize("folders", [("one", "two"), ("same", "same")])
def test_shards_give_the_same_table_in_one_folder_or_in_several(
    ran: Ran, whole: Path, tmp_path: Path, folders: tuple[str, str]
) -> None:
    for number, folder in enumerate(folders, start=1):
        code, _ = ran(few(), tmp_path / folder, shard=f"{number}/2")
        assert code == exit_codes.GOOD
    parts = [str(tmp_path / folder) for folder in dict.fromkeys(folders)]
    assert call("bench", "table", *parts, "--out", str(tmp_path / "both")).code == exit_codes.GOOD
    assert table(tmp_path / "both") == table(whole)


def test_joining_different_benchmarks_is_refused(whole: Path, tmp_path: Path) -> None:
    text = (whole / FILE).read_text().replace('"turns":12', '"turns":13')
    (tmp_path / FILE).write_text(text)
    with pytest.raises(UsageError, match="turns 12 there, 13 now"):
        call("bench", "table", str(whole), str(tmp_path))


def test_other_options_in_the_same_folder_are_refused_and_resuming_takes_its_own(ran: Ran, whole: Path) -> None:
    with pytest.raises(UsageError, match="mode own-kernels there, allow-library now"):
        ran(few(), whole, allow_library=True)
    before = (whole / FILE).read_bytes()
    done = call("bench", "kernelbench", "--resume", str(whole))
    assert (done.code, (whole / FILE).read_bytes()) == (exit_codes.GOOD, before)
    assert "3 of them are finished" in done.stderr


def test_without_a_folder_or_a_record_that_names_one_nothing_can_be_run() -> None:
    with pytest.raises(UsageError, match="no folder of problems"):
        call("bench", "kernelbench")


def test_precision_holds_for_verdicts_and_is_part_of_what_was_asked(ran: Ran, tmp_path: Path) -> None:
    for folder, name in (("clone", "problem.py"), ("kernels", "wrong_default_tf32.py")):
        (tmp_path / folder / "level1").mkdir(parents=True)
        (tmp_path / folder / "level1" / "1_linear.py").write_text((LINEAR / name).read_text())
    clone = of_clone(tmp_path / "clone", Benchmark.KERNELBENCH, [])
    found = {}
    for precision in (None, "tf32"):
        _, record = ran(clone, tmp_path / f"{precision}", kernels=str(tmp_path / "kernels"), precision=precision)
        found[precision] = record.rows[0].samples[0].status
    assert found == {None: Status.WRONG_VALUES, "tf32": Status.PASSED}
    with pytest.raises(UsageError, match="precision same there, tf32 now"):
        ran(clone, tmp_path / "None", kernels=str(tmp_path / "kernels"), precision="tf32")
    with pytest.raises(UsageError, match="--precision fp8"):
        ran(clone, tmp_path / "other", kernels=str(tmp_path / "kernels"), precision="fp8")


# -- problems that cannot be used --------------------------------------------------------------------------------------


def test_operators_of_both_channels_are_rows_with_their_reasons(ran: Ran, tmp_path: Path) -> None:
    names = ("scaled_bend", "looped_only", "never_written", "row_peaks")
    selection = of_clone(TRITONBENCH, Benchmark.TRITONBENCH, [], names=names)
    code, record = ran(selection, tmp_path, kernels=str(OPERATORS))
    assert code == exit_codes.GOOD and len(record.rows) == 4
    assert of(record, "T/1_scaled_bend").samples[0].executed  # a function: its class came from the problem
    assert of(record, "G/1_row_peaks").needs_gpu and "needs a GPU" in of(record, "G/1_row_peaks").unusable
    assert "outside loops" in of(record, "T/4_looped_only").unusable
    assert "no such file" in of(record, "T/never_written").unusable
    summary = json.loads((tmp_path / "summary.json").read_text())["groups"][0]
    assert (summary["judged"], summary["unusable"], summary["needs_gpu"]) == (1, 3, 1)


def test_a_problem_that_does_not_run_says_so_and_the_next_one_goes_on(ran: Ran, tmp_path: Path) -> None:
    level = tmp_path / "clone" / "level1"
    level.mkdir(parents=True)
    (level / "1_broken.py").write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        raise ValueError('never')\n"
        "def get_inputs():\n    return [torch.ones(2)]\n"
    )
    (level / "2_no_model.py").write_text("x = 1\n")
    selection = of_clone(tmp_path / "clone", Benchmark.KERNELBENCH, ["level1"])
    code, record = ran(selection, tmp_path / "out", kernels=None, policy="builtin")
    assert code == exit_codes.GOOD
    assert "never" in record.rows[0].unusable and "no class Model" in record.rows[1].unusable


# -- policies, and what could not be measured --------------------------------------------------------------------------

BENT = (KERNELS / "level1" / "2_bent_line_0.py").read_text()
ASSEMBLY = BENT.replace(
    "x * x * x, x)",
    'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1), x)',
)
"""A kernel with inline assembly, which the interpreter cannot run."""


def scripted(folder: Path, *texts: str) -> str:
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.py").write_text(text)
    return f"scripted:{folder}"


def test_a_policy_goes_through_the_loop_and_its_failures_count(ran: Ran, tmp_path: Path) -> None:
    wrong = (KERNELS / "level1" / "2_bent_line_1.py").read_text()
    policy = scripted(tmp_path / "kernels", wrong, BENT)
    said = {"kernels": None, "policy": policy, "turns": 3, "parallel": 1}
    code, record = ran(few(FEW[0]), tmp_path / "out", **said)
    (sample,) = record.rows[0].samples
    assert (code, sample.status) == (exit_codes.GOOD, Status.PASSED)
    assert sample.statuses == {"passed": 1, "wrong_values": 1} and sample.kernel == f"{sample.run}/1.0"
    assert record.rows[0].policy == policy and record.rows[0].policy_version


def test_what_could_not_be_measured_is_no_failure_and_is_asked_again(ran: Ran, tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "bent_line.py").write_text(ASSEMBLY)
    code, record = ran(few(FEW[0]), tmp_path / "out", kernels=str(folder))
    (sample,) = record.rows[0].samples
    assert code == exit_codes.NOT_MEASURED and record.missing == FEW[:1]
    assert sample.status is None and "without a GPU" in sample.not_measured
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())["groups"][0]
    assert (summary["judged"], summary["not_measured"]) == (0, 1)
    ran(few(FEW[0]), tmp_path / "out", kernels=str(folder))
    assert (tmp_path / "out" / FILE).read_text().count('"kind":"row"') == 2


# -- several places ----------------------------------------------------------------------------------------------------


def test_two_places_side_by_side_give_the_same_table(ran: Ran, whole: Path, nursery: Nursery, tmp_path: Path) -> None:
    code, record = ran(few(), tmp_path, nurseries=[nursery, nursery])
    assert code == exit_codes.GOOD and not record.missing
    assert (tmp_path / FILE).read_text().count('"kind":"row"') == len(FEW)
    assert table(tmp_path) == table(whole)


def test_baselines_come_into_rows_that_were_there_before_and_are_asked_for_once(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Baselines that cannot be measured as well: the row has the reason, and the record keeps it for a continued
    run.
    """
    asked: list[str] = []

    class Failing:
        def __init__(self, card: str) -> None:
            self.card = card

        async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
            asked.append(Path(question["measure"]["path"]).stem)
            return {"times": [], "failure": "torch.compile does not finish"}

        async def close(self) -> None:
            return

    def with_a_card(journal: Journal, settings: BenchSettings, *rest: Any, again: bool) -> References:
        how = ReferenceSettings(workspace=tmp_path / "problems", again=again, leases=tmp_path / "leases")
        return References(Chosen(device="cuda", gpus=(NO_CARD,)), how, print)

    monkeypatch.setattr(references, "Worker", Failing)
    monkeypatch.setattr(bench_command, "_references", with_a_card)
    for number, again in ((1, False), (1, False), (2, True)):
        _, record = ran(few(), tmp_path / "out", baselines_again=again)
        assert len(asked) == number * len(FEW)
    reason = "its baselines were not measured: torch.compile does not finish"
    assert len(record.rows) == len(FEW)
    assert all(reason in row.notes and row.measured and row.samples for row in record.rows)


def test_without_a_compiled_baseline_the_checker_is_not_asked_for_one(tmp_path: Path) -> None:
    one = Interval(median=1.0, low=1.0, high=1.0)
    eager = BaselineTime(against=Against.EAGER, kind=Kind.DEVICE, ms=one, over_eager=one)
    found = Baselines(times=(eager,), notes=("torch.compile took longer than 60 s",), limit_s=60.0)
    assert found.not_compiled and found.settles(60.0) and not found.settles(61.0)
    assert not Baselines(times=()).not_compiled


def test_what_fails_in_one_place_is_measured_in_another(
    ran: Ran, whole: Path, nursery: Nursery, tmp_path: Path
) -> None:
    dead = Nursery(str(tmp_path / "log"))
    dead.close()
    code, record = ran(few(), tmp_path / "out", nurseries=[dead, nursery])
    assert code == exit_codes.GOOD and not record.missing
    assert table(tmp_path / "out") == table(whole)
    unmeasured = [line for line in (tmp_path / "out" / FILE).read_text().splitlines() if "a zygote does not" in line]
    assert 1 <= len(unmeasured) <= 2  # then it is left out


def test_what_fails_beside_others_is_tried_again_alone_at_the_end(
    ran: Ran, whole: Path, nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_now, failed, evaluator = set[str](), list[str](), runner.Evaluator

    class InNeedOfTheCard(evaluator):  # type: ignore[misc, valid-type]
        """The first problem fails as long as another one is open, as one does that lacks memory on a card."""

        def __init__(self, spec: ProblemSpec, *rest: Any, **more: Any) -> None:
            open_now.add(spec.name)
            if spec.name in FEW[0] and (len(open_now) > 1 or len(failed) < 2):
                failed.append(spec.name)
                raise InstrumentError("other processes hold the GPU's memory")
            super().__init__(spec, *rest, **more)

        def close(self) -> None:
            open_now.discard(self.spec.name)
            super().close()

    monkeypatch.setattr(runner, "Evaluator", InNeedOfTheCard)
    code, record = ran(few(), tmp_path / "out", nurseries=[nursery, nursery])
    assert code == exit_codes.GOOD and not record.missing and len(failed) >= 2
    assert table(tmp_path / "out") == table(whole)


def test_where_one_of_several_raises_the_others_end_and_its_error_is_told() -> None:
    numbers, ended = iter(range(3)), []

    async def work() -> None:
        number = next(numbers)
        try:
            if number == 1:
                raise InstrumentError("nothing could be measured")
            await asyncio.sleep(60)
        finally:
            ended.append(number)

    with pytest.raises(InstrumentError, match="nothing could be measured"):
        asyncio.run(side_by_side(work, 3))
    assert sorted(ended) == [0, 1, 2]


def test_a_record_goes_on_with_other_cards(ran: Ran, whole: Path, tmp_path: Path) -> None:
    """A record names its cards, but may be continued on others, because they are not part of what is measured."""
    lines = (whole / FILE).read_text().splitlines(keepends=True)
    head = json.loads(lines[0])
    assert head["settings"]["cards"] == ""
    head["settings"]["cards"] = "0,1"
    (tmp_path / FILE).write_text(json.dumps(head) + "\n" + "".join(lines[1:]))
    code, record = ran(few(), tmp_path)
    assert code == exit_codes.GOOD and len(record.rows) == len(FEW)


# -- words on the command line -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("kernelbench", str(KERNELBENCH), "--level", "9"), "has no level9"),
        (("kernelbench", str(KERNELBENCH), "--problem", "bent_lime"), "no problem 'bent_lime'"),
        (("kernelbench", str(TRITONBENCH)), "holds no kernelbench problems"),
        (("kernelbench", str(HERE)), "no benchmark in a known layout"),
        (("tritonbench", str(TRITONBENCH), "--channel", "x"), "has no X"),
        (("suite", "--problem", "nothing_like_it"), "no problem or family"),
        (("suite", "--shard", "3/2"), "not a shard"),
        (("suite", "--attempts", "0"), "--attempts 0"),
        (("suite", "--kernels", "/nowhere"), "no such folder of kernels"),
        (("suite", "--policy", "builtin", "--kernels", str(KERNELS)), "both given"),
        (("suite", "--policy", "nobody"), "no such policy"),
        (("suite", "--resume", "/nowhere"), "cannot be read"),
        (("suite", "--budget", "soon"), "--budget soon"),
        (("suite", "--target", "cuda:1"), "cuda:1"),
        (("suite", "--device", "cuda:all,1"), "--device cuda:all,1"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_written(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        call("bench", *arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(bool(gpus()), reason="there is a GPU")
def test_baselines_without_a_gpu_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="need a GPU"):
        call("bench", "baselines", "--problem", "group_norm_silu", "--out", str(tmp_path / "made.csv"))
    assert not list(tmp_path.iterdir())


# -- slow --------------------------------------------------------------------------------------------------------------


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "triton_agent", "bench", *map(str, arguments)]


@pytest.mark.slow
def test_interrupted_policy_goes_on_with_the_run_it_was_in(tmp_path: Path) -> None:
    names = ("--problem", "level1/2_bent_line", "--problem", "level1/7_every_other_summed")
    how = ("--turns", 1, "--parallel", 2, "--attempts", 2, "--device", "cpu")
    argv = command("kernelbench", KERNELBENCH, *names, *map(str, how), "--out", tmp_path / "cut")
    process = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts its background jobs with Ctrl-C ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    begun = tmp_path / "cut" / "begun.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (begun.exists() and begun.read_text().count("\n") >= 3):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == exit_codes.INTERRUPTED, said
    assert "--resume" in said
    before = [json.loads(line) for line in begun.read_text().splitlines()]
    subprocess.run(command("kernelbench", "--resume", tmp_path / "cut"), check=True, capture_output=True)
    after = [json.loads(line) for line in begun.read_text().splitlines()]
    assert after[: len(before)] == before and len(after) == 4
    uncut = command("kernelbench", KERNELBENCH, *names, *map(str, how), "--out", tmp_path / "uncut")
    subprocess.run(uncut, check=True, capture_output=True)
    assert table(tmp_path / "cut") == table(tmp_path / "uncut")


@pytest.mark.slow
def test_where_a_model_cannot_be_asked_nothing_is_held_against_it_and_its_run_goes_on(tmp_path: Path) -> None:
    server = ("--policy", "openai:any", "--base-url", "http://127.0.0.1:9/v1", "--device", "cpu", "--turns", "1")
    argv = command("kernelbench", KERNELBENCH, "--problem", FEW[0], *server, "--out", tmp_path)
    env = {**os.environ, "OPENAI_API_KEY": "none"}
    for _ in range(2):
        done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=300)
        assert done.returncode == exit_codes.NOT_MEASURED, done.stderr
        (sample,) = read_record(tmp_path).rows[0].samples
        assert sample.status is None and "no connection" in sample.not_measured
    assert (tmp_path / "begun.jsonl").read_text().count("\n") == 1  # the second time the same run was taken up


@pytest.mark.slow
def test_whole_folders_run_through_every_column_without_a_gpu(tmp_path: Path) -> None:
    how = ("--turns", "1", "--parallel", "2", "--device", "cpu")
    for name, folder, count in (("kernelbench", KERNELBENCH, 20), ("tritonbench", TRITONBENCH, 7)):
        done = subprocess.run(
            command(name, folder, *how, "--out", tmp_path / name, "--json"), capture_output=True, text=True
        )
        assert done.returncode == exit_codes.GOOD, done.stderr
        *rows, summary = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(rows) == count and summary["missing"] == []
        assert summary["groups"][0]["solved"] is not None and summary["groups"][0]["speeds"] == []


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not gpus(), reason="needs a GPU")
def test_whole_folders_run_through_every_column_on_a_gpu(tmp_path: Path) -> None:
    done = subprocess.run(
        command("kernelbench", KERNELBENCH, "--level", "1", "--kernels", KERNELS, "--out", tmp_path / "k"),
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert done.returncode == exit_codes.GOOD, done.stderr
    row = of(read_record(tmp_path / "k"), FEW[0])
    assert {(item.against.value, item.kind.value) for item in row.baselines} == {
        (against, kind) for against in ("eager", "eager-tf32", "compile") for kind in ("device", "latency")
    }
    assert {speed.against.value for speed in row.samples[0].speeds} == {"eager", "eager-tf32", "compile"}
    assert row.samples[0].floor_fraction is not None and row.samples[0].peak_memory_ratio is not None
