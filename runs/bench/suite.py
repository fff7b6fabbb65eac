"""The frozen suite of benchmark problems: lists and selects them, and checks that no file has changed.

A suite is a folder with problems as `family/name.py` and a manifest, `suite.toml`, which `benchmarks/freeze.py` writes.
Figures of two commits can be compared only if the problems are the same, so a changed, missing or added file is
refused, and the selected problems have one digest. Reads text only and needs no torch. Not covered: whether the
problems are worth judging by, which `triton-agent check-problem` examines.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import hashlib
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from triton_agent.tools.errors import UsageError

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "problems"
"""The project's own problems, in a clone and in the installed package."""
CORE, LARGE = "core", "large"
PARTS = (CORE, LARGE)
"""Parts of the suite. Each has its own digest, so its figures stay comparable when another part is added."""
MANIFEST = "suite.toml"
FREEZE = "python benchmarks/freeze.py"
MOST_NAMED = 5
"""Files that a message names."""


class Dominant(enum.StrEnum):
    """What most of a problem's arithmetic is."""

    GEMM = "gemm"
    CONV = "conv"
    ATTENTION = "attention"
    """Attention, fused or as batched products around a softmax."""
    MEMORY = "memory"
    """No other kind makes up half of it; moving data takes most of the time."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SuiteProblem:
    """One problem in the manifest."""

    key: str
    """`family/name`."""
    path: Path
    dominant: Dominant
    dtype: str
    """Dtype of most of its floating-point inputs and parameters, as torch names it."""
    quick: bool
    """True for the stratified third that `--quick` runs."""
    sha256: str
    """Hash of the frozen file."""

    @property
    def family(self) -> str:
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of `count` parts that together are the whole and do not overlap."""

    index: int
    """Number of the part, from 1."""
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise ValueError(f"no part {self.index} of {self.count}")

    def of(self, problems: Sequence[SuiteProblem]) -> tuple[SuiteProblem, ...]:
        """Every `count`-th problem, so that each part has some of every family."""
        return tuple(problems[self.index - 1 :: self.count])


def parse_shard(text: str) -> Shard:
    """Parse the value of `--shard`: `2/8` is the second of eight parts."""
    match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    try:
        if match:
            return Shard(index=int(match[1]), count=int(match[2]))
    except ValueError:
        pass
    remedy = "write part/parts, counted from 1: 2/8 is the second of eight"
    raise UsageError(f"not a shard: {text!r}", where="--shard", remedy=remedy)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """All problems of a suite, sorted by key."""

    folder: Path
    problems: tuple[SuiteProblem, ...]

    @property
    def digest(self) -> str:
        return digest_of(self.problems)

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(problem.family for problem in self.problems))

    def pick(
        self, *, quick: bool = False, names: Sequence[str] = (), shard: Shard | None = None
    ) -> tuple[SuiteProblem, ...]:
        """Return the problems by name, family or `family/name` (all without names), only quick ones, or of one
        shard.
        """
        wanted = self._named(names) if names else {problem.key for problem in self.problems}
        chosen = [problem for problem in self.problems if problem.key in wanted and (problem.quick or not quick)]
        return shard.of(chosen) if shard else tuple(chosen)

    def _named(self, names: Sequence[str]) -> set[str]:
        wanted: set[str] = set()
        for name in names:
            found = {p.key for p in self.problems if name in (p.key, p.name, p.family)}
            if not found:
                known = [word for p in self.problems for word in (p.name, p.key, p.family)]
                close = list(dict.fromkeys(difflib.get_close_matches(name, known, n=6)))[:3]
                hint = f"did you mean {' or '.join(close)}?" if close else f"families: {', '.join(self.families)}"
                raise UsageError(f"no problem or family {name!r}", where=str(self.folder), remedy=hint)
            wanted |= found
        return wanted


def digest_of(problems: Iterable[SuiteProblem]) -> str:
    """Return one hash of the problems' keys and contents; their order and their folder do not matter."""
    lines = sorted(f"{problem.key} {problem.sha256}\n" for problem in problems)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_of(part: str) -> Path:
    """Return where the problems of one part lie; raise `UsageError` if there is no such part."""
    if part not in PARTS:
        raise UsageError(f"no part {part!r} of the suite", remedy=f"one of {', '.join(PARTS)}")
    return FOLDER if part == CORE else FOLDER / part


def load_suite(folder: Path = FOLDER) -> Suite:
    """Load the suite and check that every file is the frozen one."""
    suite = read_manifest(folder)
    changes = drift(suite)
    if changes:
        more = f" and {len(changes) - MOST_NAMED} more" if len(changes) > MOST_NAMED else ""
        raise UsageError(
            f"the suite is not as it was frozen: {', '.join(changes[:MOST_NAMED])}{more}",
            where=str(folder / MANIFEST),
            remedy=f"undo that, or freeze the suite anew ({FREEZE}): its figures then start over",
        )
    return suite


def read_manifest(folder: Path) -> Suite:
    """Read the manifest and check that it agrees with itself."""
    path = folder / MANIFEST
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        remedy = "reinstall triton-agent, which brings them, or name another folder with a manifest"
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path), remedy=remedy) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"is not TOML: {error}", where=str(path), remedy=f"write it anew: {FREEZE}") from None
    try:
        problems = tuple(_problem(folder, key, entry) for key, entry in sorted(data["problems"].items()))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"an entry is not what it should be: {type(error).__name__}: {error}"
        raise UsageError(what, where=str(path), remedy=f"write it anew: {FREEZE}") from None
    suite = Suite(folder=folder, problems=problems)
    if data.get("digest") != suite.digest:
        raise UsageError("entries were edited by hand", where=str(path), remedy=f"write it anew: {FREEZE}")
    return suite


def _problem(folder: Path, key: str, entry: dict[str, Any]) -> SuiteProblem:
    family, name = key.split("/")
    return SuiteProblem(
        key=key,
        path=folder / family / f"{name}.py",
        dominant=Dominant(entry["dominant"]),
        dtype=str(entry["dtype"]),
        quick=entry["quick"] is True,
        sha256=str(entry["sha256"]),
    )


def problem_files(folder: Path) -> dict[str, Path]:
    """Return the path of every problem in the folder by key, listed or not; other parts lie deeper and are left out."""
    files = sorted(folder.glob("*/*.py"))
    return {f"{path.parent.name}/{path.stem}": path for path in files if path.stem != "__init__"}


def drift(suite: Suite) -> list[str]:
    """Describe how the folder differs from the frozen suite, a phrase for each file; empty if it does not."""
    listed = {problem.key: problem for problem in suite.problems}
    present = problem_files(suite.folder)
    found = [f"{key}.py is missing" for key in listed.keys() - present.keys()]
    found += [f"{key}.py is not in the manifest" for key in present.keys() - listed.keys()]
    both = listed.keys() & present.keys()
    found += [f"{key}.py was changed" for key in both if hash_of(present[key]) != listed[key].sha256]
    return sorted(found)
