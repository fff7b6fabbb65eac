"""An attempt as markup: the verdict with its evidence, the code and its changes, what the author was shown, its
answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from triton_agent.memory.observation import Observation, Tried
from triton_agent.memory.records import Completion, Grading, SamplingRecord
from triton_agent.policy.answer import without_notes
from triton_agent.runs.history.records import StoredAttempt
from triton_agent.runs.report import bars, lines
from triton_agent.runs.report.code import changes, count_changes, highlighted
from triton_agent.runs.report.evidence import evidence, reasons, stages
from triton_agent.runs.report.markup import Html, facts, folded, join, table, tag
from triton_agent.runs.report.words import interval, plain

TEXT_AT_MOST = 60_000
"""Characters of one message on a page."""


def verdict(item: StoredAttempt, *more: tuple[str, object], fold: bool) -> Iterator[object]:
    """Yield the evidence for the verdict that counts, then instrument failures and other gradings.

    `more` are further pictures, each with its name.
    """
    if item.evaluation is not None:
        shown = [part for part in evidence(item.evaluation, *more) if part]
        if shown and fold:
            yield folded("Evidence for the verdict", *shown)
        else:
            yield from shown
        yield stages(item.evaluation)
    for grading in item.gradings:
        if grading.failure is not None:
            yield _failure(grading)
    if len(item.gradings) > 1:
        yield _gradings(item)
    if not item.gradings:
        yield tag("p", "Not judged yet.")


def _failure(grading: Grading) -> Html:
    failure = grading.failure
    assert failure is not None
    said = [f"Could not be measured ({failure.kind}): {failure.what}", failure.where, failure.remedy]
    return tag("p", "\n".join(filter(None, said)), class_="said")


def _gradings(item: StoredAttempt) -> Html:
    rows = [
        (
            f"{grading.graded_at:%Y-%m-%d %H:%M:%S}",
            plain(grading.evaluation.status) if grading.evaluation else "not measured",
            grading.grader,
            grading.machine.gpu or "no GPU",
        )
        for grading in item.gradings
    ]
    return table(("judged", "status", "rules", "on"), rows, caption="Judged more than once")


# -- code --------------------------------------------------------------------------------------------------------------


def code(item: StoredAttempt, others: list[tuple[str, str | None]], *, whole_open: bool = False) -> Iterator[object]:
    """Yield the differences to other texts, given with what they are (`attempt 2.1`), and the whole code."""
    source = item.attempt.source
    if source is None:
        yield tag("p", "The answer held no code.")
        yield folded("The answer", tag("pre", item.attempt.completion.whole[:TEXT_AT_MOST]))
        return
    source = without_notes(source)
    for place, (name, text) in enumerate(others):
        if text is not None:
            yield difference(without_notes(text), source, name, opened=place == 0 and not whole_open)
    yield folded("Code", highlighted(source), class_="paper", open="open" if whole_open else None)


def difference(before: str, after: str, name: str, *, opened: bool = False) -> Html:
    found = changes(before, after)
    if found is None:
        return tag("p", f"The same code as {name}.")
    summary = f"Changes to {name} ({count_changes(before, after)} lines)"
    return folded(summary, found, open="open" if opened else None)


# -- what the author was shown, and what it answered -------------------------------------------------------------------


def asked(seen: Observation, said: Completion, own: str, address: lines.Address) -> Iterator[object]:
    """Yield what the author was shown: rules, budget, earlier attempts, lessons, messages."""
    rules, left = seen.rules, seen.budget
    amounts = {"turns": left.turns, "seconds": left.seconds, "tokens": left.tokens, "cost": left.cost}
    yield facts(
        [
            ("target", rules.target),
            ("library calls", "allowed beside own kernels" if rules.allow_library else "not allowed"),
            ("precision", "as accurate as the reference" if rules.precision == "same" else rules.precision),
            ("budget left", ", ".join(f"{value:,.6g} {name}" for name, value in amounts.items() if value is not None)),
        ]
    )
    rows = [_tried(one, own, address) for one in seen.tried]
    yield table(
        ("attempt", "as", "status", "speed-up", "plan"), rows, right=(3,), caption="Earlier attempts it was shown"
    )
    for lesson in seen.recalled:
        yield folded(f"Recalled {lesson.kind}: {lesson.why}", tag("pre", lesson.text[:TEXT_AT_MOST]))
    if not said.messages:
        yield tag("p", "This author reads the observation itself; no messages were written for it.", class_="soft")
    for message in said.messages:
        calls = [f"asks for {call.name}: {call.arguments}" for call in message.calls]
        text = "\n".join([message.content, *calls]) if calls else message.content
        yield folded(f"{message.role}, {len(text):,} characters", tag("pre", text[:TEXT_AT_MOST], class_="wrapped"))


def _tried(one: Tried, own: str, address: lines.Address) -> tuple[object, ...]:
    status = plain(one.status.value) if one.status else "not measured"
    plan = without_notes(one.plan).strip().partition("\n")[0]
    return lines.link(one.attempt, own, address), one.role.value, status, interval(one.speedup), plan[:160]


def answered(said: Completion) -> Iterator[object]:
    """Yield the answer as it was sampled, with its tokens where they are kept."""
    usage = said.usage
    tokens = f"{usage.prompt_tokens:,} read, {usage.completion_tokens:,} written" if usage.completion_tokens else ""
    yield facts(
        [
            ("author", f"{said.policy} {said.policy_version}".strip()),
            ("tokens", tokens),
            ("cost", f"{usage.cost:.4g}" if usage.cost else ""),
            ("written in", f"{usage.wall_s:.1f} s" if usage.wall_s else ""),
            ("sampling", _sampling(said.sampling)),
            ("finished", "" if said.finish_reason == "stop" else f"cut off: {said.finish_reason}"),
        ]
    )
    if said.reasoning:
        thoughts = tag("pre", said.reasoning[:TEXT_AT_MOST], class_="wrapped")
        yield folded(f"Its thoughts, {len(said.reasoning):,} characters", thoughts)
    if said.text:
        shown = without_notes(said.text)[:TEXT_AT_MOST]
        yield folded(f"The answer, {len(said.text):,} characters", tag("pre", shown, class_="wrapped"))
    if said.token_ids and said.log_probabilities is not None:
        scores = said.log_probabilities
        mean = sum(scores) / len(scores)
        lead = f"{len(scores):,} sampled tokens; mean log-probability {mean:.3f}, the least likely {min(scores):.2f}."
        yield tag("p", lead, " A stronger colour was less likely; point at a cell to see it.")
        yield bars.token_scores(said.token_ids, scores)
    elif said.missing:
        yield tag("p", f"Tokens are not kept: {said.missing}", class_="soft")


def _sampling(settings: SamplingRecord) -> str:
    named = {
        "temperature": settings.temperature,
        "top p": settings.top_p,
        "top k": settings.top_k,
        "seed": settings.seed,
    }
    return ", ".join(f"{name} {value:g}" for name, value in named.items() if value is not None)


# -- in a report -------------------------------------------------------------------------------------------------------


def article(item: StoredAttempt, parent: StoredAttempt | None, *, best: bool, address: lines.Address) -> Html:
    """Return an attempt as a part of a report, folded unless it is the best.

    Its anchor is inside, so that a browser that follows a link unfolds it.
    """
    name = tag("strong", f"Attempt {item.name}", " ★ best" if best else None)
    title = join([name, lines.status_mark(item.header), tag("small", " ", interval(item.speedup))])
    completion = item.attempt.completion
    plan = without_notes(item.attempt.plan).strip()
    before = [(parent.name, parent.attempt.source)] if parent is not None else []
    said = f"{completion.policy} {completion.policy_version}".strip()
    origin = lines.link(item.attempt.parent, item.key, address) if item.attempt.parent else "a fresh start"
    inside = tag(
        "div",
        *(reasons(item.evaluation) if item.evaluation is not None else ()),
        tag("p", plan, class_="said") if plan else None,
        *verdict(item, fold=True),
        *code(item, before),
        tag("p", "by ", said, ", from ", origin, class_="soft"),
        id=address(item.key).lstrip("#"),
    )
    return tag("article", folded(title, inside, open="open" if best else None, class_="paper" if best else None))
