"""The records of a benchmark: a row for each problem, after a head with the request; and their JSON lines.

Rows hold observations; `figures.py` computes statistics from them. A file `rows.jsonl` begins with its head; rows
follow in the order in which problems were finished, each on disk before the next problem begins. A problem may have
several rows if it could not be measured at first: the last one counts. A line that was cut off at the end of the file
is ignored.
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
"""Version of the file format; raised when an old file could be misread."""
FILE = "rows.jsonl"


class Mode(enum.StrEnum):
    """Work that a kernel may leave to torch."""

    OWN_KERNELS = "own-kernels"
    ALLOW_LIBRARY = "allow-library"
    """Heavy work may be done by cuBLAS and cuDNN if the candidate also has a kernel of its own."""


class Against(enum.StrEnum):
    """The baseline of a speed-up."""

    EAGER = "eager"
    """The reference as written, at torch's defaults."""
    EAGER_TF32 = "eager-tf32"
    """The reference with float32 products allowed in TF32."""
    COMPILE = "compile"
    """The reference under `torch.compile` at its defaults."""


class Kind(enum.StrEnum):
    """The kind of time that a speed-up is measured in."""

    DEVICE = "device"
    """Time on the GPU."""
    LATENCY = "latency"
    """Time of a whole call, measured on the host."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The speed of a kernel against one baseline, measured in turns."""

    against: Against
    kind: Kind
    speedup: Interval
    """Baseline's time over kernel's time: above 1 the kernel is faster."""
    kernel_ms: Interval
    baseline_ms: Interval
    baseline: str
    """Full name of the baseline, with its precision."""


ONE = Interval(median=1.0, low=1.0, high=1.0)
"""Speed-up of the reference as written over itself."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BaselineTime:
    """The time of a problem's baseline, without a kernel."""

    against: Against
    kind: Kind
    ms: Interval
    over_eager: Interval
    """Speed-up of this baseline over the reference as written, measured in turns; 1 for the reference itself."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PublicCheck:
    """Result of a public benchmark's own, weaker check of a kernel; see `public/protocol.py`. Nothing depends on it."""

    correct: bool
    """`allclose` on five draws, with 1e-4 for float32 and 1e-2 for half precision."""
    correct_at_first: bool
    """`allclose` with 1e-2 for every dtype, as in the check's first version."""
    why: str = ""
    """One line on why it is not correct."""
    kernel_ms: float | None = None
    """Mean time of a hundred calls; None without a GPU, and for a wrong kernel."""
    original_ms: float | None = None

    @property
    def speedup(self) -> float | None:
        return self.original_ms / self.kernel_ms if self.original_ms and self.kernel_ms else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One independent attempt at a problem: a whole run of a policy, or one kernel file by somebody else."""

    index: int
    """Number of the sample, from 0; pass@k counts samples."""
    kernel: str = ""
    """The kernel that represents the sample: key of the run's best attempt, or the file's name; empty without one."""
    run: str = ""
    """Id of the run in the store, which holds every attempt; empty if nothing was stored."""
    status: Status | None = None
    """Status of that kernel; if none passed, of the one that came furthest. None if nothing could be measured."""
    finding: Finding | None = None
    message: str = ""
    """One line on why it did not pass."""
    not_measured: str = ""
    """Why there is no status. The problem is judged again when the benchmark is continued."""
    called: bool = False
    """True if the kernel was called and returned: TritonBench's call accuracy."""
    executed: bool = False
    """True if it passed: TritonBench's execution accuracy, by a stricter check."""
    speeds: tuple[Speed, ...] = ()
    """Empty if it did not pass, or without a GPU."""
    floor_ms: float | None = None
    """Time that the least work takes on this GPU; None without one."""
    floor_fraction: float | None = None
    """Floor over the kernel's device time; 1 is as fast as the hardware allows."""
    copy_fraction: float | None = None
    """Time of a copy of as many bytes over the kernel's device time; None unless memory binds."""
    peak_memory_ratio: float | None = None
    """Device memory of a call over that of the reference; None without a GPU."""
    behind: str = ""
    """The likely reason in one line, if `torch.compile` is faster on the GPU."""
    cheated: bool = False
    """True if at least one of its kernels tried to cheat the check or the clock."""
    statuses: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Number of kernels judged, by status; the share of cheats is counted from it."""
    unmeasured: int = 0
    """Number of kernels that could not be judged."""
    public: PublicCheck | None = None
    """None unless the benchmark's own protocol was asked for."""
    seconds: float = 0.0
    tokens: int = 0
    """Tokens read and written by a language model."""

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
        """Return the speed against a baseline; None if it was not measured."""
        return next((item for item in self.speeds if item.against is against and item.kind is kind), None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The machine and the code that made a row."""

    device: str
    """`cuda`, or `cpu`, where speed is not measured."""
    gpu: str = ""
    driver: str = ""
    python: str = ""
    torch: str = ""
    triton: str = ""
    commit: str = ""
    """Commit of this project."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemRow:
    """A finished problem."""

    label: str
    """Unique name in its benchmark: `norms/group_norm_silu`, `level1/3_name`, `T/7_name`."""
    group: str
    """Family, level or channel, by which figures are grouped."""
    digest: str
    """Digest of the problem as it was judged; of its file if it could not be judged."""
    policy: str
    """The policy as in `--policy`, or `kernels:FOLDER`."""
    policy_version: str
    """Version of the policy's code or weights; for kernels of others a hash of the files."""
    mode: Mode
    where: Where
    dominant: str = ""
    """Kind of most of its arithmetic, if the benchmark says so: gemm, conv, attention, memory."""
    dtype: str = ""
    unusable: str = ""
    """Why it cannot be used as a problem here, without samples; this says nothing about the policy."""
    needs_gpu: bool = False
    """True if it is unusable only because there is no GPU."""
    samples: tuple[Sample, ...] = ()
    baselines: tuple[BaselineTime, ...] = ()
    """Times of the baselines; empty without a GPU."""
    notes: tuple[str, ...] = ()
    """Notes for the reader, such as a size scaled down or a baseline that could not be compiled."""
    seconds: float = 0.0

    @property
    def measured(self) -> bool:
        """True if nothing has to be judged again."""
        return bool(self.unusable) or all(sample.status is not None for sample in self.samples)

    @property
    def solved(self) -> bool:
        return any(sample.executed for sample in self.samples)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The request. Rows under heads with other `settings` or `digest` are not of the same benchmark."""

    benchmark: str
    """`suite`, `suite-large`, `kernelbench` or `tritonbench`."""
    title: str
    """Title in words: `KernelBench levels 1, 2`."""
    digest: str
    """Hash of the problems asked for, by label and content."""
    labels: tuple[str, ...]
    """All problems asked for, in order, also those of other shards; those without a row are still to be run."""
    settings: Mapping[str, Any]
    """Settings that decide the results: policy, mode, samples, turns, parallel, budget_s, device, target, ..."""
    format: int = FORMAT


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A benchmark as far as it has been run."""

    head: Head
    rows: tuple[ProblemRow, ...]
    """The row of each problem that has one, in the head's order."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Problems without a row, or whose row holds something that could not be measured."""
        done = {row.label for row in self.rows if row.measured}
        return tuple(label for label in self.head.labels if label not in done)


def head_line(head: Head) -> str:
    """Return the line of the file, without its end."""
    return _line("head", head)


def row_line(row: ProblemRow) -> str:
    return _line("row", row)


def _line(kind: str, value: Head | ProblemRow) -> str:
    return f'{{"kind":"{kind}",{to_text(value)[1:]}'


def read_record(path: Path) -> Record:
    """Read the record in a `rows.jsonl`, or in a folder with one."""
    path = path / FILE if path.is_dir() else path
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        remedy = "name the folder given as --out to a benchmark"
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path), remedy=remedy) from None
    found = [_parsed(path, number, text) for number, text in enumerate(lines, start=1) if text.endswith("\n")]
    if not found or not isinstance(found[0], Head):
        raise UsageError("does not begin with a head", where=str(path), remedy="it is not the record of a benchmark")
    return record_of(found[0], (item for item in found if isinstance(item, ProblemRow)))


def record_of(head: Head, rows: Iterable[ProblemRow]) -> Record:
    """Return the record with the last row of each problem, in the head's order."""
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
        raise UsageError(what, where=f"{path}:{number}", remedy="restore the file, or start again elsewhere") from None
