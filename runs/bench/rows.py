"""What a benchmark records: a row for each problem, below a head that says what was asked for; and their JSON lines.

Rows hold what was seen, statistics are made of them later (`figures.py`). A file `rows.jsonl` begins with its head;
rows follow in the order in which their problems were finished, each on disk before the next is begun. A problem may
have several rows, where it could not be measured at first: the last one counts. What was cut off while it was being
written, at the end of the file, is passed over.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from triton_agent.memory.sql.encoding import from_plain, to_text
from triton_agent.tools.errors import UsageError
from triton_agent.tools.results import Finding, Interval, Status

FORMAT = 1
"""Of the file; raised whenever an old one could be misread."""
FILE = "rows.jsonl"


class Mode(enum.StrEnum):
    """What a kernel may leave to torch."""

    OWN_KERNELS = "own-kernels"
    ALLOW_LIBRARY = "allow-library"
    """Heavy work may go to cuBLAS and cuDNN, beside a kernel of its own."""


class Against(enum.StrEnum):
    """What speed is stated against."""

    EAGER = "eager"
    """The reference as written, at torch's defaults."""
    EAGER_TF32 = "eager-tf32"
    """The same where float32 products may run in TF32."""
    COMPILE = "compile"
    """The reference by `torch.compile` at its defaults."""


class Kind(enum.StrEnum):
    """Which time it is."""

    DEVICE = "device"
    """On the GPU."""
    LATENCY = "latency"
    """Of a whole call, seen from the host."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A kernel and one baseline, measured in turns."""

    against: Against
    kind: Kind
    speedup: Interval
    """Baseline over kernel: above 1 the kernel is faster."""
    kernel_ms: Interval
    baseline_ms: Interval
    baseline: str
    """The baseline's name in full, with the precision that it ran in."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BaselineTime:
    """A baseline of a problem, with no kernel beside it."""

    against: Against
    kind: Kind
    ms: Interval
    over_eager: Interval
    """The speed-up of this baseline over the reference as written, measured in turns; 1 for the reference itself."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublicCheck:
    """What a public benchmark's own, weaker check says of a kernel; see `public/protocol.py`. Nothing rests on it."""

    correct: bool
    """`allclose` on five draws, 1e-4 for float32 and 1e-2 for halves."""
    correct_at_first: bool
    """The same with 1e-2 throughout, as in its first version."""
    why: str = ""
    """One line, where it is not correct."""
    kernel_ms: float | None = None
    """Mean of a hundred calls; None without a GPU, and where the kernel is wrong."""
    original_ms: float | None = None

    @property
    def speedup(self) -> float | None:
        return self.original_ms / self.kernel_ms if self.original_ms and self.kernel_ms else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One independent go at a problem: a whole run of a policy, or one kernel file that somebody else made."""

    index: int
    """From 0. pass@k is about samples."""
    kernel: str = ""
    """What stands for the sample: the key of the run's best attempt, or the file's name; empty where there is none."""
    run: str = ""
    """In the store, where every attempt is kept; empty where nothing was kept."""
    status: Status | None = None
    """Of that kernel; where none passed, of the one that came furthest. None: it could not be measured."""
    finding: Finding | None = None
    message: str = ""
    """One line on why it did not pass."""
    not_measured: str = ""
    """Why there is no status. Such a problem is asked again when the benchmark goes on."""
    called: bool = False
    """The kernel was called and returned: what TritonBench counts as call accuracy."""
    executed: bool = False
    """It passed: what TritonBench counts as execution accuracy, by a stricter check."""
    speeds: tuple[Speed, ...] = ()
    """Empty where it did not pass, and where there was no GPU."""
    floor_ms: float | None = None
    """What the least work takes on this GPU; None without one."""
    floor_fraction: float | None = None
    """Floor over the kernel's device time: 1 is as fast as the hardware allows."""
    copy_fraction: float | None = None
    """What a copy of as many bytes takes, over the kernel's device time; None where memory does not bind."""
    peak_memory_ratio: float | None = None
    """Device memory that a call takes over what the reference's takes; None without a GPU."""
    behind: str = ""
    """One line on what is known of why, where `torch.compile` is faster on the GPU."""
    cheated: bool = False
    """At least one of its kernels tried to cheat the check or the clock."""
    statuses: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Of every kernel judged on the way, by status: what hack rates are counted from."""
    unmeasured: int = 0
    """Kernels on the way that could not be judged."""
    public: PublicCheck | None = None
    """None unless the benchmark's own protocol was asked for as well."""
    seconds: float = 0.0
    tokens: int = 0
    """Read and written by a language model."""

    def __post_init__(self) -> None:
        if (self.status is None) != bool(self.not_measured):
            raise ValueError("a sample has a status, or a reason why it has none")
        if self.executed != (self.status is Status.PASSED):
            raise ValueError("what passed was executed, and nothing else was")
        if self.executed and not self.called:
            raise ValueError("what passed was called")
        if self.speeds and not self.executed:
            raise ValueError("only what passed has a speed")

    def speed(self, against: Against, kind: Kind = Kind.DEVICE) -> Speed | None:
        """None where that was not measured."""
        return next((item for item in self.speeds if item.against is against and item.kind is kind), None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The machine and the code a row was made with."""

    device: str
    """`cpu`: nothing is known of speed; `cuda`."""
    gpu: str = ""
    driver: str = ""
    python: str = ""
    torch: str = ""
    triton: str = ""
    commit: str = ""
    """Of this project."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemRow:
    """One problem, finished."""

    label: str
    """Unique in its benchmark: `norms/group_norm_silu`, `level1/3_name`, `T/7_name`."""
    group: str
    """The family, level or channel, by which figures are told apart."""
    digest: str
    """Of the problem as it was judged; of its file where it could not be."""
    policy: str
    """As `--policy` takes it, or `kernels:FOLDER`."""
    policy_version: str
    """Of its code or weights; of the files, for kernels by someone else."""
    mode: Mode
    where: Where
    dominant: str = ""
    """What most of its arithmetic is, where the benchmark says so: gemm, conv, attention, memory."""
    dtype: str = ""
    unusable: str = ""
    """Why it cannot serve as a problem here; then there are no samples. It says nothing of the policy."""
    needs_gpu: bool = False
    """It could not be used for want of a GPU, and may serve elsewhere."""
    samples: tuple[Sample, ...] = ()
    baselines: tuple[BaselineTime, ...] = ()
    """Empty without a GPU."""
    notes: tuple[str, ...] = ()
    """What a reader must know: a size scaled down, a baseline that could not be compiled."""
    seconds: float = 0.0

    @property
    def measured(self) -> bool:
        """Nothing is left to be asked again."""
        return bool(self.unusable) or all(sample.status is not None for sample in self.samples)

    @property
    def solved(self) -> bool:
        return any(sample.executed for sample in self.samples)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What was asked for. Rows of heads with other `settings` or `digest` are not of the same benchmark."""

    benchmark: str
    """`suite`, `suite-large`, `kernelbench` or `tritonbench`."""
    title: str
    """In words: `KernelBench levels 1, 2`."""
    digest: str
    """Of the problems asked for, by label and content."""
    labels: tuple[str, ...]
    """All problems asked for, in order, whichever shard runs them: those without a row are still to be run."""
    settings: Mapping[str, Any]
    """What decides how it goes: policy, mode, samples, turns, parallel, budget_s, device, target, seed, timeout_s."""
    format: int = FORMAT


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A benchmark as far as it has come."""

    head: Head
    rows: tuple[ProblemRow, ...]
    """One for each problem that has one, in the head's order."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Problems without a row, or whose row holds what could not be measured."""
        done = {row.label for row in self.rows if row.measured}
        return tuple(label for label in self.head.labels if label not in done)


def head_line(head: Head) -> str:
    """As it stands in the file, without the end of the line."""
    return _line("head", head)


def row_line(row: ProblemRow) -> str:
    return _line("row", row)


def _line(kind: str, value: Head | ProblemRow) -> str:
    return f'{{"kind":"{kind}",{to_text(value)[1:]}'


def read_record(path: Path) -> Record:
    """What a `rows.jsonl`, or a folder with one in it, holds."""
    path = path / FILE if path.is_dir() else path
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        remedy = "name the folder given as --out to a benchmark"
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path), remedy=remedy) from None
    found = [_parsed(path, number, text) for number, text in enumerate(lines, start=1) if text.endswith("\n")]
    if not found or not isinstance(found[0], Head):
        raise UsageError("does not begin with a head", where=str(path), remedy="it is no record of a benchmark")
    return record_of(found[0], (item for item in found if isinstance(item, ProblemRow)))


def record_of(head: Head, rows: Iterable[ProblemRow]) -> Record:
    """The last row of each problem, in the head's order."""
    last = {row.label: row for row in rows}
    return Record(head=head, rows=tuple(last[label] for label in head.labels if label in last))


def _parsed(path: Path, number: int, text: str) -> Head | ProblemRow:
    try:
        data = json.loads(text)
        kind = data.pop("kind")
        if kind == "head" and data.get("format") != FORMAT:
            raise ValueError(f"format {data.get('format')}, and this version reads {FORMAT}")
        return from_plain(Head, data) if kind == "head" else from_plain(ProblemRow, data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        what = f"is not what a benchmark writes: {type(error).__name__}: {error}"
        raise UsageError(what, where=f"{path}:{number}", remedy="restore the file, or begin anew elsewhere") from None
