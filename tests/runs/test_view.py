"""`triton-agent view`: live pages over a store, for this machine's user only; in a real browser if there is one."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.runs import reported_run as sample
from tests.runs.bench import made_records
from tests.runs.browser import Page, browser
from tests.runs.pages import BROWSER, Outline

from triton_agent.memory.records import Message, ToolCall
from triton_agent.memory.store import Store
from triton_agent.policy.train.online.rollouts import runs_of_update
from triton_agent.runs.jobs import Jobs
from triton_agent.runs.serve.actions import Actions, CommandJob
from triton_agent.runs.serve.app import COOKIE
from triton_agent.tools.errors import UsageError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DRAFT = "20260201-090000-aaaaaa"
IN_A_BROWSER = pytest.mark.skipif(BROWSER is None, reason="needs chromium on the PATH")


def fill(path: Path) -> None:
    """Store a run with a GPU that ended, and an open one without."""
    timed, draft = sample.history(), sample.history(gpu=False, ended=False)
    with Store.open(path) as store:
        store.add_run(timed.run)
        for item in timed.attempts:
            ids = tuple(range(200))
            said = dataclasses.replace(
                item.attempt.completion,
                token_ids=ids,
                log_probabilities=tuple(-0.01 * number for number in ids),
                reasoning=f"Think of rows first. {sample.HOSTILE}",
                messages=(
                    Message(role="user", content=f"Make it fast. {sample.HOSTILE}"),
                    Message(role="assistant", content="", calls=(ToolCall(id="1", name="evaluate", arguments="{}"),)),
                ),
            )
            store.add_attempt(dataclasses.replace(item.attempt, completion=said), item.gradings[0])
        assert timed.end is not None
        store.end_run(timed.end)
        began = sample.BEGAN + datetime.timedelta(days=1)
        view = sample.problem(name=f"named {sample.HOSTILE}", digest="d" * 64, floor_ms=None, device="cpu")
        store.add_run(
            dataclasses.replace(draft.run, id=DRAFT, policy=f"model {sample.HOSTILE}", started_at=began, problem=view)
        )
        for item in draft.attempts[:4]:
            parent = item.attempt.parent and item.attempt.parent.replace(sample.RUN, DRAFT)
            attempt = dataclasses.replace(item.attempt, run=DRAFT, parent=parent)
            store.add_attempt(attempt, dataclasses.replace(item.gradings[0], attempt=attempt.key))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    url: str
    """Address with the token."""
    base: str
    token: str
    store: Path
    out: Path

    def client(self, *, entered: bool = True) -> httpx.Client:
        client = httpx.Client(base_url=self.base, timeout=60, trust_env=False)
        if entered:
            client.cookies.set(f"{COOKIE}-{self.base.rpartition(':')[2]}", self.token)
        return client

    def text(self, place: str) -> str:
        return self.outline(place).text

    def outline(self, place: str) -> Outline:
        with self.client() as client:
            answer = client.get(place)
            assert answer.status_code == 200, answer.text
            outline = Outline(answer.text)
            assert not outline.open
            return outline


@contextlib.contextmanager
def serve(folder: Path, store: Path, *more: str) -> Iterator[Served]:
    out = folder / "out"
    arguments = ["view", "--port", "0", "--store", str(store), "--folder", str(folder), "--out", str(out), *more]
    process = subprocess.Popen(
        [sys.executable, "-m", "triton_agent", *arguments], stderr=subprocess.PIPE, text=True, cwd=folder
    )
    assert process.stderr is not None
    try:
        url = process.stderr.readline().strip()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=(\S+)", url)
        assert "Ctrl-C" in process.stderr.readline()
        assert found, url
        yield Served(url=url, base=found[1], token=found[2], store=store, out=out)
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode in (0, 130), said


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("view")
    fill(folder / "runs.db")
    with serve(folder, folder / "runs.db") as running:
        yield running


@pytest.fixture
def tab(served: Served, tmp_path: Path) -> Iterator[Page]:
    with browser(tmp_path) as opened:
        opened.open(served.url)
        yield opened


# -- who may ask -------------------------------------------------------------------------------------------------------


def test_without_the_token_nothing_is_shown(served: Served) -> None:
    with served.client(entered=False) as client:
        for place in ("/", f"/run?id={DRAFT}", "/export?id=last", "/nothing", "/?token=wrong"):
            answer = client.get(place)
            assert answer.status_code == 403 and "softmax" not in answer.text


def test_the_token_leaves_the_address_and_stays_in_a_cookie_no_other_site_can_use(served: Served) -> None:
    with served.client(entered=False) as client:
        answer = client.get(f"/?token={served.token}")
        assert answer.headers["location"] == "/"
        kept = answer.headers["set-cookie"].lower()
        assert "httponly" in kept and "samesite=strict" in kept
        deep = client.get("/attempt", params={"token": served.token, "key": "last/best"})
        assert deep.headers["location"] == "/attempt?key=last%2Fbest"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_page_whose_name_was_pointed_here_is_refused(served: Served, host: str) -> None:
    with served.client() as client:
        assert client.get("/", headers={"Host": host}).status_code == 400


def test_every_answer_forbids_what_the_page_does_not_need(served: Served) -> None:
    with served.client() as client:
        for place in ("/", f"/run?id={sample.RUN}", "/bench", "/missing", "/attempt?key=x"):
            headers = client.get(place).headers
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
            assert headers["x-frame-options"] == "DENY" and headers["cache-control"] == "no-store"


def test_a_server_that_reads_only_starts_nothing(served: Served) -> None:
    with served.client() as client:
        for name in ("fork", "regrade", "promote", "cancel"):
            assert client.post(f"/act/{name}", data={"run": "last", "token": served.token}).status_code in (404, 405)
        assert "<form" in client.get("/").text and 'method="post"' not in client.get(f"/run?id={sample.RUN}").text


def test_a_port_in_use_is_named_with_a_way_out(served: Served) -> None:
    port = served.base.rpartition(":")[2]
    command = [sys.executable, "-m", "triton_agent", "view", "--port", port, "--store", str(served.store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and f"port {port} cannot be had" in done.stderr and "--port 0" in done.stderr


# -- pages -------------------------------------------------------------------------------------------------------------


def test_the_list_finds_runs_by_problem_run_policy_and_state(served: Served) -> None:
    assert "2 runs" in served.text("/")
    assert "1 run," in served.text("/?q=SOFT") and "1.61x [1.56, 1.66]" in served.text("/?q=soft")
    assert DRAFT in served.text(f"/?q={DRAFT[:10]}") and DRAFT not in served.text("/?policy=author")
    assert "1 run," in served.text("/?state=open") and "1 run," in served.text("/?q=dddddddd")
    assert "No run matches." in served.text("/?q=100%25&state=ended")


def test_a_run_shows_speed_tree_and_attempts(served: Served) -> None:
    text = served.text(f"/run?id={sample.RUN[:9]}")
    assert "1.61x [1.56, 1.66] as fast as the reference" in text
    assert "5 passed of 9 judged" in text and "all turns were used" in text
    assert "Speed-up over the turns" in text and "Tree of attempts" in text and "Roofline" in text
    assert text.index("Times, median and confidence interval") < text.index("Tree of attempts")
    assert "uses files, the network, the environment or another forbidden module" in text
    failed = served.text(f"/run?id={sample.RUN}&status=compile_error")
    assert "1 of 10 attempts" in failed and "a kernel does not compile" in failed


def test_an_attempt_shows_verdict_changes_prompt_and_tokens(served: Served) -> None:
    text = served.text(f"/attempt?key={sample.RUN}/3.1")
    assert "passed ★ the best of its run" in text and "1.61x device time" in text
    assert "Changes to its parent 2.1 (+1 -1 lines)" in text and "Changes to the reference" in text
    assert "user, " in text and "Make it fast." in text
    assert "asks for evaluate: {}" in text and "Think of rows first." in text
    assert "200 sampled tokens; mean log-probability -0.995" in text
    assert "Errors and their limits" in text and "Times, median and confidence interval" in text
    lost = served.text(f"/attempt?key={sample.RUN}/2.0")
    assert "Could not be measured (WorkerLost): the GPU was busy" in lost
    assert "Changes to the best, 3.1" in lost


def test_a_run_is_replayed_attempt_by_attempt(served: Served) -> None:
    (first,) = {place for place in served.outline(f"/run?id={sample.RUN}").links if place.endswith("%2F0.0")}
    seen, place = [], first
    while place is not None:
        seen.append(place.rpartition("%2F")[2])
        with served.client() as client:
            elements = Outline(client.get(place).text).elements
        steps = {shown["rel"]: shown["href"] for tag, shown in elements if tag == "a" and "rel" in shown}
        assert ("prev" in steps) is (len(seen) > 1)
        place = steps.get("next")
    assert seen == [f"{turn}.{index}" for turn in range(5) for index in range(2)]


def test_a_failed_attempt_says_why_before_what_was_meant(served: Served) -> None:
    text = served.text(f"/attempt?key={sample.RUN}/0.0")
    assert text.index("Because values differ") < text.index("Read each row once")


def test_two_attempts_and_two_runs_stand_side_by_side(served: Served) -> None:
    text = served.text(f"/compare?a={sample.RUN}/2.1&b={sample.RUN}/best")
    assert "Attempts 2.1 and 3.1" in text and "1.38x [1.34, 1.42]" in text and "num_warps=8" in text
    text = served.text(f"/compare?a={sample.RUN}&b={DRAFT}")
    assert "They are of different problems." in text and "The best so far over the turns" in text


def test_what_cannot_be_shown_is_said_in_a_sentence(served: Served) -> None:
    with served.client() as client:
        for place in ("/run?id=nothing", "/attempt?key=x", f"/attempt?key={DRAFT}/9.9", "/compare?a=x", "/report?id=z"):
            answer = client.get(place)
            assert answer.status_code == 404 and "This cannot be shown" in answer.text, place
            assert "Traceback" not in answer.text


def test_report_and_export_are_files(served: Served) -> None:
    with served.client() as client:
        report = client.get(f"/report?id={sample.RUN}")
        assert f'filename="{sample.RUN}.html"' in report.headers["content-disposition"]
        assert "default-src" in report.text and "1.61x" in report.text
        export = client.get(f"/export?id={sample.RUN}")
        assert gzip.decompress(export.content).count(b'"kind":"attempt"') == 10


def test_an_unchanged_page_is_not_sent_again(served: Served) -> None:
    with served.client() as client:
        mark = client.get(f"/run?id={DRAFT}").headers["etag"]
        assert client.get(f"/run?id={DRAFT}", headers={"If-None-Match": mark}).status_code == 304


def test_records_and_trainings_are_found_in_the_folder_and_nowhere_else(tmp_path: Path) -> None:
    fill(tmp_path / "runs.db")
    checkpoint = tmp_path / "grpo" / "checkpoint-20"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text(
        '{"log_history": [{"step": 10, "loss": 0.5, "reward": 0.1}, {"step": 20, "loss": 0.25, "reward": 0.4}]}'
    )
    with serve(tmp_path, tmp_path / "runs.db") as running:
        assert "grpo 20 checkpoint-20" in running.text("/training")
        text = running.text("/training/run?name=grpo")
        assert "from 0.5 at step 10 to 0.25 at step 20" in text and "reward" in text
        assert "No record of a benchmark lies in" in running.text("/bench")
        for name, factor in (("first", 1.0), ("second", 1.5)):
            rows = [made_records.row(f"gemm/{sample.HOSTILE}", made_records.right(made_records.speed(factor)))]
            made_records.written(tmp_path / name, made_records.record(rows))
        text = running.text("/bench")
        assert "first" in text and "1 of 1" in text and "before" in text
        assert "1 of 1 problems solved" in running.text("/bench/record?name=first")
        assert "first and" in running.text("/bench/compare?a=first&b=second")
        for place in ("/bench/record?name=first", "/bench/compare?a=first&b=second"):
            assert {"/", "/bench", "/training"} <= set(running.outline(place).links), "no page is a dead end"
        with running.client() as client:
            for place in ("/training/run?name=../grpo", "/training/run?name=/etc", "/bench/record?name=.."):
                assert client.get(place).status_code == 404


def updates_of(folder: Path, training: str, count: int) -> None:
    """Write the lines of an online training, the last one cut off by a kill."""
    folder.mkdir()
    lines = [
        {
            "update": number,
            "version": f"{training}+{number}",
            "reward": -0.2 + 0.05 * number,
            "correct": [0.1, 0.1 + 0.05 * number],
            "entropy": 1.0 - 0.05 * number,
            "ratio": 1.0,
            "answer_tokens": 200.0 + number,
            "attempts": 128,
            "verdicts": 90,
            "seconds": {"all": 30.0},
        }
        for number in range(count)
    ]
    (folder / "updates.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"update": 99, "rew')


def test_points_of_an_online_training_lead_to_their_rollouts(tmp_path: Path) -> None:
    fill(tmp_path / "runs.db")
    training = "20260301-100000-abcdef"
    with Store.open(tmp_path / "runs.db") as store:
        drawn = sample.history(gpu=False, ended=False).run
        for update, number in ((2, 0), (2, 1), (3, 0)):
            run = f"{runs_of_update(training, update)}00000-{number:03}"
            store.add_run(dataclasses.replace(drawn, id=run, policy="hf:tiny", started_at=sample.BEGAN))
    updates_of(tmp_path / "grpo", training, 6)
    updates_of(tmp_path / "hostile", f"<b>{sample.HOSTILE}", 2)
    with serve(tmp_path, tmp_path / "runs.db") as running:
        assert "grpo 0 6" in running.text("/training")
        outline = running.outline("/training/run?name=grpo")
        assert "from -0.2 at update 0 to 0.05 at update 5" in outline.text and "10%, 35%" in outline.text
        places = [place for place in outline.links if "00002-" in place]
        assert len(set(places)) == 1 and len(places) > 3, "every curve and the table lead there"
        text = running.text(places[0])
        assert "2 runs, newest first" in text
        assert not [place for place in running.outline("/training/run?name=hostile").links if "q=" in place]


# -- what can be started ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("fork", {"run": "--help", "attempt": "0.1", "turns": "1"}),
        ("fork", {"run": "last", "attempt": "0.1", "turns": "-1"}),
        ("fork", {"run": "last", "attempt": "0.1", "turns": "1000000"}),
        ("regrade", {}),
        ("shell", {"run": "last"}),
    ],
)
def test_fields_of_a_form_are_never_options(tmp_path: Path, name: str, given: dict[str, str]) -> None:
    with Jobs[CommandJob]() as jobs:
        actions = Actions(jobs, str(tmp_path / "runs.db"), tmp_path / "out", "token", write=True)
        with pytest.raises(UsageError):
            actions.start(name, given)
        assert jobs.all() == [] and not (tmp_path / "out").exists()


def test_a_job_says_what_its_command_says(tmp_path: Path) -> None:
    fill(tmp_path / "runs.db")
    with serve(tmp_path, tmp_path / "runs.db", "--write") as running, running.client() as client:
        page = client.get(f"/attempt?key={sample.RUN}/3.1").text
        assert "Fork from here" in page and "Judge again" in page
        given = {"run": "nothing", "attempt": "0.1", "turns": "2"}
        assert client.post("/act/fork", data=given).status_code == 403
        assert client.post("/act/fork", data={**given, "token": "wrong"}).status_code == 403
        assert client.post("/act/fork", data={**given, "token": running.token, "turns": "x"}).status_code == 400
        answer = client.post("/act/fork", data={**given, "token": running.token})
        assert answer.status_code == 303
        end = time.monotonic() + 120
        while "running" in (text := Outline(client.get(answer.headers["location"]).text).text):
            assert time.monotonic() < end
            time.sleep(0.2)
        assert "triton-agent replay --fork=0.1 --turns=2 -- nothing" in text
        assert "failed with exit code 2" in text and "there is no run" in text
        assert "replay-" in running.text("/jobs")


# -- in a browser ------------------------------------------------------------------------------------------------------


@IN_A_BROWSER
def test_a_person_filters_opens_and_compares(served: Served, tab: Page) -> None:
    assert "token" not in tab.run("location.href")
    tab.fill("input[name=q]", "softmax")
    tab.click(".filters button")
    assert tab.run("document.querySelectorAll('tbody tr').length") == 1
    tab.click("tbody a")
    assert "softmax" in tab.run("document.querySelector('h1').textContent")
    tab.open(f"{served.base}/attempt?key={sample.RUN}/3.1")
    assert tab.run("document.querySelector('.diff ins').textContent").strip().endswith("num_warps=8)")
    assert tab.run("[...document.querySelectorAll('details')].filter((d) => d.open).length") == 1
    tab.click(".filters button")
    assert "Attempts 2.1 and 3.1" in tab.text


@IN_A_BROWSER
def test_nothing_foreign_runs_and_no_request_leaves_the_machine(served: Served, tab: Page) -> None:
    places = (
        *("/", "/?q=%3Cscript%3Ealert(1)%3C/script%3E", f"/run?id={DRAFT}", f"/run?id={sample.RUN}"),
        *(f"/attempt?key={sample.RUN}/{name}" for name in ("0.0", "3.1", "4.0")),
        *(f"/compare?a={sample.RUN}/1.1&b={DRAFT}/0.1", f"/attempt?key={DRAFT}/0.0", "/training", "/bench"),
    )
    for place in places:
        tab.open(served.base + place)
        assert tab.run("document.title") != "taken over"
        assert tab.run("document.querySelectorAll('img, iframe, object, script:not(body > script)').length") == 0
    assert tab.complaints == []
    assert {url.split("/")[2] for url in tab.requests} == {served.base.split("/")[2]}


@IN_A_BROWSER
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (375, False)])
def test_pages_fit_the_screen(served: Served, tab: Page, width: int, dark: bool) -> None:
    tab.look(width=width, dark=dark)
    for place in ("/", f"/run?id={sample.RUN}", f"/attempt?key={sample.RUN}/3.1", f"/compare?a={DRAFT}&b={sample.RUN}"):
        tab.open(served.base + place)
        assert tab.run("document.documentElement.scrollWidth <= innerWidth"), place
        cells = "[...document.querySelectorAll('table.rows td')]"
        assert tab.run(f"{cells}.every((cell) => cell.getBoundingClientRect().right <= innerWidth)"), place
        shade = tab.run("getComputedStyle(document.body).backgroundColor")
        assert (shade == "rgb(13, 17, 23)") is dark


@IN_A_BROWSER
def test_an_open_run_is_seen_growing_without_a_reload(tmp_path: Path) -> None:
    fill(tmp_path / "runs.db")
    with serve(tmp_path, tmp_path / "runs.db") as running, browser(tmp_path) as tab:
        tab.open(running.url)
        tab.open(f"{running.base}/run?id={DRAFT}")
        tab.run("window.stayed = true, document.querySelector('#problem details').open = true")
        late = sample.history(gpu=False, ended=False).attempts[5]
        attempt = dataclasses.replace(late.attempt, run=DRAFT, parent=f"{DRAFT}/0.1")
        with Store.open(running.store) as store:
            store.add_attempt(attempt, dataclasses.replace(late.gradings[0], attempt=attempt.key))
        tab.wait("document.querySelector('#attempts').textContent.includes('5 of 5 attempts')")
        assert tab.run("window.stayed && document.querySelector('#problem details').open")
        assert tab.complaints == []


@IN_A_BROWSER
@pytest.mark.slow
def test_a_running_optimize_is_watched_and_forked_from_the_page(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    with Store.open(store):
        pass
    with serve(tmp_path, store, "--write") as running, browser(tmp_path) as tab:
        tab.open(running.url)
        assert "There are no runs yet." in tab.text
        command = ["optimize", str(EXAMPLES / "softmax.py"), "--turns", "2", "--parallel", "2", "--device", "cpu"]
        search = subprocess.Popen(
            [sys.executable, "-m", "triton_agent", *command, "--store", str(store), "--out", str(tmp_path / "shipped")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            tab.wait("document.querySelector('tbody .live')", patience_s=300)  # the machine may be busy
            tab.click("tbody a")
            end = time.monotonic() + 300
            while search.poll() is None and time.monotonic() < end:
                tab.run("0")  # the browser talks all the while
                time.sleep(0.2)
            assert search.returncode == 0
        finally:
            search.kill()
        tab.wait("document.querySelector('#summary dl').textContent.includes('ended because')")
        tab.click("#summary dl a")
        assert "passed" in tab.text
        tab.fill("input[name=turns]", "1")
        tab.click("form[action='/act/fork'] button")
        tab.wait("/state(ended|failed)/.test(document.querySelector('dl').textContent)", patience_s=300)
        assert "stateended" in tab.run("document.querySelector('dl').textContent"), tab.text
        tab.open(running.base)
        assert tab.run("document.querySelectorAll('tbody tr').length") == 2
        assert os.listdir(running.out)
