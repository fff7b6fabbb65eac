"""`triton-agent verify FILE`: judges a shipped file again, measures it on this GPU, and stamps the result into it.

Nothing in the file is trusted. Its kernels and plans are judged as a candidate, by their tapes. Then the file is
written again from these tapes; only if that gives equal code is the file itself imported and measured, by the
executor. A file that was changed by hand is therefore detected.

Not covered: files for several sets of inputs or for ranges of sizes, whose plans were found by a search.
"""

from __future__ import annotations

import ast
import dataclasses
import datetime
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from triton_agent import __version__
from triton_agent.memory.errors import NotInStore
from triton_agent.runs.cli import exit_codes
from triton_agent.runs.cli.store_option import open_store
from triton_agent.runs.history.stored_problem import restored
from triton_agent.runs.optimize.request import COMPARED_WITH
from triton_agent.runs.ship import call_form, evidence
from triton_agent.runs.ship.artefact import (
    forced,
    has_cuda_graphs,
    is_shipped,
    measured_key,
    measured_on,
    measured_table,
    ship,
    switched_on,
)
from triton_agent.runs.ship.facts import NotEmitted, ShippedFacts
from triton_agent.runs.ship.plan_file import plans_of
from triton_agent.runs.ship.shipped import gpu_of, no_faster, write_file
from triton_agent.tools.errors import NotJudgeableHere, UsageError
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.ranking import standing
from triton_agent.tools.results import Evaluation, Status
from triton_agent.tools.settings import EvaluatorSettings

NOT_COMPARED = ("USE_KERNELS", "MEASURED", "DETERMINISTIC", "OPERATOR")
"""Constants of a shipped file that depend on measurements, and a name with a hash of its text."""
END_OF_HEADER = '\n"""\n'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Result of a verification."""

    code: int
    """Exit code of the command."""
    message: str
    evaluation: Evaluation | None = None
    stamped: bool = False


def read(path: Path) -> str:
    """Return the text of a shipped file; raise `UsageError` for any other file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("the file cannot be read", where=str(path), remedy="name a file that was shipped") from error
    if not is_shipped(text):
        raise UsageError("not a file that optimize wrote", where=str(path), remedy="name a file that was shipped")
    return text


def problem_of(text: str, path: Path, given: ProblemSpec | None, store: str | None, folder: Path) -> ProblemSpec:
    """Return the problem that the file was made for: the given one, or the one of the file's run in the store."""
    if given is None:
        try:
            with open_store(store) as opened:
                given = restored(opened.run(_named(text, "Run")).problem, folder)
        except NotInStore as error:
            remedy = "name the problem as optimize was given it: triton-agent verify FILE PROBLEM"
            raise UsageError(
                "the run that made the file is not in the store", where=str(path), remedy=remedy
            ) from error
    if not given.digest.startswith(_named(text, "Problem") or "none"):
        raise UsageError(
            "the file was made for another problem", where=str(path), remedy="name that one, with its inputs"
        )
    if given.sets or given.ranges:
        remedy = "run `triton-agent optimize` on this machine"
        raise NotJudgeableHere(
            "a file for several sets or ranges cannot be verified alone", where=str(path), remedy=remedy
        )
    return given


def verify(
    path: Path,
    given: ProblemSpec | None,
    *,
    device: str,
    card: str,
    store: str | None,
    trust: bool,
    say: Callable[[str], None],
) -> Verified:
    """Judge the file, measure it if there is a GPU, and write the measurement into it."""
    text = read(path)
    with tempfile.TemporaryDirectory(prefix="triton-agent-") as folder:
        spec = problem_of(text, path, given, store, Path(folder))
        form = call_form.find(spec, trust=trust)
        say(f"judging {path.name}")
        with Evaluator(spec, _settings(text, device, card, trust), say=say) as evaluator:
            source, known = forced(text), evaluator.facts
            found = evaluator.evaluate(source, as_given=True)
            if found.status is not Status.PASSED:
                return _refused(f"the kernels did not pass: {found.message}", found)
            facts = ShippedFacts(
                call=form,
                evaluation=found,
                variants=known.variants,
                scaled=known.scaled,
                gpu=gpu_of(known.gpu) if device == "cuda" else None,
                run=_named(text, "Run"),
                date=datetime.date.today(),
                version=__version__,
                cuda_graph=has_cuda_graphs(text),
            )
            try:
                plans = plans_of(evaluator, source)
            except NotEmitted as reason:
                return _refused(f"the file cannot be written once more: {reason}", found)
            again = ship(spec, plans, facts, draft=False)
            if line := first_difference(text, again):
                return _refused(f"line {line} is not what triton-agent {__version__} writes for these kernels", found)
            if facts.gpu is not None:
                say(f"measuring it on {facts.gpu.name}")
            on_cpu = "" if known.scaled else switched_on(again)
            found = evaluator.evaluate(source, as_given=True, file=on_cpu if facts.gpu is None else again)
        if found.status is not Status.PASSED:
            return _refused(f"the kernels passed, but not inside the file: {found.message}", found)
        if facts.gpu is None:
            said = "right, and as it was written; without a GPU its speed was not measured"
            return Verified(code=exit_codes.GOOD, message=said, evaluation=found)
        faster, facts = standing(found).faster_than_reference, dataclasses.replace(facts, evaluation=found)
        if faster and not _constants(text)["MEASURED"]:  # a draft, whose header speaks of no measurement
            header, _, _ = ship(spec, plans, facts, draft=False).partition(END_OF_HEADER)
            body = text.partition(END_OF_HEADER)[2].replace(
                '\nUSE_KERNELS = "never"\n', '\nUSE_KERNELS = "verified"\n', 1
            )
            text = f"{header}{END_OF_HEADER}{body}"
        else:
            header = evidence.verified_again(facts, faster=faster).replace("\\", "\\\\").replace('"""', "'''")
            text = text.replace(END_OF_HEADER, f"\n\n{header}{END_OF_HEADER}", 1)
        write_file(path.parent, path.name, stamped(text, facts, faster=faster))
    said = "right, and faster than the reference on this GPU" if faster else no_faster(found)
    code = exit_codes.GOOD if faster else exit_codes.NOT_PASSED
    return Verified(code=code, message=f"{said}\nstamped into {path}", evaluation=found, stamped=True)


def stamped(text: str, facts: ShippedFacts, *, faster: bool) -> str:
    """Return the file with this GPU's measurement in its table and header."""
    assert facts.gpu is not None
    rows = {measured_key(*key): value for key, value in _constants(text)["MEASURED"].items()}
    rows[measured_on(facts.gpu, facts.evaluation.environment)] = faster
    table = next(node for node in ast.parse(text).body if _target(node) == "MEASURED")
    lines = text.split("\n")
    lines[table.lineno - 1 : table.end_lineno] = measured_table(rows).split("\n")
    return "\n".join(lines)


def first_difference(text: str, again: str) -> int:
    """Return the line of the first statement that differs, without header and measurements; 0 if none differs."""
    ours, theirs = ([*_compared(one)] for one in (again, text))
    for (mine, _), (found, line) in zip(ours, theirs):
        if mine != found:
            return line
    return 0 if len(ours) == len(theirs) else (theirs[-1][1] if theirs else 1)


def _compared(text: str) -> Iterator[tuple[str, int]]:
    """Yield the statements of a shipped file with their lines, without the header and the constants not compared."""
    for node in ast.parse(text).body[1:]:
        if _target(node) not in NOT_COMPARED or not isinstance(node, ast.Assign) or not _is_literal(node.value):
            yield ast.dump(node), node.lineno


def _target(node: ast.stmt) -> str:
    return ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _constants(text: str) -> dict[str, Any]:
    """Return the constants of a shipped file that say how its kernels run and where they were measured."""
    found: dict[str, Any] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and _target(node) in ("MEASURED", "TF32") and _is_literal(node.value):
            found[_target(node)] = ast.literal_eval(node.value)
        elif isinstance(node, ast.Assign) and _target(node) == "AUTOCAST":
            found["AUTOCAST"] = ast.unparse(node.value)
    return found


def _settings(text: str, device: str, card: str, trust: bool) -> EvaluatorSettings:
    """Return the evaluator's settings that the file's constants describe."""
    constants = _constants(text)
    if constants.keys() != {"MEASURED", "TF32", "AUTOCAST"}:
        raise UsageError("the file was written by another version of triton-agent", remedy="run optimize again")
    return EvaluatorSettings(
        device=device,
        card=card,
        allow_library=True,
        baselines=COMPARED_WITH if device == "cuda" else (),
        precision="tf32" if constants["TF32"] else "same",
        autocast=constants["AUTOCAST"].removeprefix("torch.").removeprefix("None"),
        trust=trust,
    )


def _named(text: str, word: str) -> str:
    """Return the word after `Run` or `Problem` in the header."""
    found = re.search(rf"^{word} ([\w-]+)", text, re.MULTILINE)
    return found[1] if found else ""


def _refused(message: str, found: Evaluation) -> Verified:
    return Verified(code=exit_codes.NOT_PASSED, message=message, evaluation=found)
