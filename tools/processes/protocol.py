"""The messages between our processes: requests and their answers.

`codec.py` converts them to JSON and back, `wire.py` carries them. Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any, ClassVar

from triton_agent.tools.audit.report import AuditReport
from triton_agent.tools.compile.failure import CompileFailure
from triton_agent.tools.errors import InstrumentError, TritonAgentError
from triton_agent.tools.kernel_profile import StepTime
from triton_agent.tools.problem.facts import ProblemFacts
from triton_agent.tools.problem.problem import ProblemSpec
from triton_agent.tools.processes.deaths import Ending
from triton_agent.tools.processes.torch_switches import Conditions
from triton_agent.tools.race.readings import Calibration, Sample
from triton_agent.tools.results import Evaluation, KernelResources, Sketch
from triton_agent.tools.sandbox.sandbox import Confinement
from triton_agent.tools.settings import EvaluatorSettings

# -- the driver asks a zygote -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ZygoteReady:
    """The first message of a zygote: its imports are done."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Fork a process with this role; its end of a channel comes with the message. Answered by `Forked`."""

    role: str
    settings: Any
    """`CheckerSettings` or `WorkerSettings`, encoded; the forked process decodes them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ForkZygote:
    """Fork a zygote for this mode; its end of a channel comes with the message. Answered by `Forked`."""

    mode: str
    target: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reap:
    """End a process, killing it after `grace_s`. Answered by `Reaped`."""

    pid: int
    grace_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    pid: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    status: int
    """Exit status, or the negative number of a signal."""


# -- the driver asks the checker --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckerSettings:
    """The settings that a checker is started with."""

    problem: ProblemSpec
    settings: EvaluatorSettings
    confinement: Confinement | None = None
    """Set for an untrusted problem."""
    seed: int | None = None
    """Set by tests only: draw from this seed in place of the system's source."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadProblem:
    """Load the problem. Answered by `ProblemLoaded`, `Refused` or `Bug`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Try wrong answers on the problem. Answered by many `AuditStep`, then `Audited`, `Refused` or `Bug`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Predict the memory of one call of the reference. Answered by `Sized`, `Refused` or `Bug`."""


class Wanted(enum.StrEnum):
    """The kind of answer that is requested for a candidate."""

    VERDICT = "verdict"
    TRIAL = "trial"
    """Run the same stages as for a verdict, but only up to the first call; the evaluation is not a verdict."""
    SKETCH = "sketch"
    TAPES = "tapes"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A worker of a candidate; its socket comes with the message."""

    kind: str
    is_warm: bool
    """True if it has already reported that it is ready."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judge a candidate. Answered by `AtStage` at each stage, then by one `JobAnswer`.

    The workers are a tracer, an executor, for a verdict on a GPU another one with the interpreter, and any number of
    compile workers.
    """

    job: int
    source: str
    workers: tuple[HandedOver, ...]
    wanted: Wanted = Wanted.VERDICT
    as_given: bool = False
    """Check the problem's own sizes only."""
    file: str = ""
    """Text of a shipped file with the same kernels; it is checked and timed in their place."""
    lengths: tuple[tuple[int, ...], ...] = ()
    """For tapes: the lengths of the problem's ranges to trace at, instead of its own sizes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemLoaded:
    facts: ProblemFacts
    card: dict[str, Any]
    """Properties of the GPU for host code, named as in `machine/card_facts.py`."""
    lent: tuple[tuple[int, int, int], ...]
    """Device, inode and size of the in-memory files that workers will receive."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuditStep:
    tried: int
    answers: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    report: AuditReport


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    peak_bytes: int | None
    """Peak memory of one call; None if the reference does not run on fake tensors."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AtStage:
    job: int
    stage: str


class WorkerState(enum.StrEnum):
    """State of a worker when the checker returns it."""

    ENDED = "ended"
    NEW = "new"
    """It received no request, and may not be ready yet."""
    WARM = "warm"
    """It may serve another candidate."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    job: int
    workers: tuple[WorkerState, ...] = ()
    evaluation: Evaluation
    ending: Ending | None = None
    """Set if a worker of the candidate ended; the driver then finds out the cause, see `deaths.py`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sketched:
    job: int
    workers: tuple[WorkerState, ...] = ()
    sketch: Sketch
    ending: Ending | None = None
    """As in `Judged`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateTensor:
    """A parameter or buffer of the reference."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_buffer: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TapedForm:
    """One form of call of a module; tape, kernels and arguments are encoded."""

    tape: Any
    kernels: Any
    call: Any
    train: bool
    chosen: dict[int, int]
    """Configuration of each autotuned launch by step number; empty if nothing ran."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TapedModule:
    """The reference's module at one set of sizes, with its calls."""

    constructor: Any
    """Arguments of the constructor, encoded."""
    state: tuple[StateTensor, ...]
    parameters: tuple[str, ...]
    """Names of forward's parameters."""
    forms: tuple[TapedForm, ...]
    """The calls; empty if the candidate could not be traced at the requested lengths."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tapes:
    """A candidate's tapes, from which `runs/ship/plan_file.py` writes a shipped file."""

    modules: tuple[TapedModule, ...]
    message: str = ""
    """Why there are no tapes; empty if there are."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taped:
    job: int
    workers: tuple[WorkerState, ...] = ()
    tapes: Tapes
    ending: Ending | None = None
    """As in `Judged`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The problem or an instrument failed."""

    error: TritonAgentError
    job: int = 0
    """0 if no candidate was being judged."""
    workers: tuple[WorkerState, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """The checker itself failed."""

    trace: str
    job: int = 0
    workers: tuple[WorkerState, ...] = ()


JobAnswer = Judged | Sketched | Taped | Refused | Bug


# -- the checker asks the workers of a candidate ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings that a tracer, a compile worker or an executor is started with."""

    kind: str
    """`tracer`, `compiler`, `interpreter` or `gpu`."""
    scratch: str
    target: str
    card: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Properties of the GPU for host code, named as in `machine/card_facts.py`."""
    cache: str = ""
    """Folder of Triton's cache, shared by compile workers and executors; empty for a private one."""
    gpu: str = ""
    """UUID of the GPU on which an executor creates its context."""
    confinement: Confinement | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The first message of a worker. If a worker ends before sending it, the candidate is not the cause."""

    layers: tuple[str, ...]
    """Active layers of the sandbox."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line in an exception's traceback."""

    line: int | None
    function: str
    code: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRefusal:
    """An allocation on the GPU that failed in an executor, as measured there at that moment."""

    held_bytes: int
    """Memory that torch held in this process."""
    asked_bytes: int | None
    """Size of the allocation; None for one of a library or of the driver, whose size is unknown."""
    limit_bytes: int
    """Memory that the process may hold."""
    free_bytes: int
    """Free memory of the card."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The candidate's code, its tape or its kernel raised an exception."""

    kind: str
    kinds: tuple[str, ...]
    """Names of its class and of all base classes."""
    text: str
    lines: tuple[SourceLine, ...]
    """The last lines of the traceback that are in the candidate's file."""
    phase: str = ""
    """`import`, `construct` or `forward`."""
    ending: str = ""
    """Why there is no tape, by the names in `tape/tracer.py`; empty for any other exception."""
    unsupported: bool = False
    """True if the kernel uses a feature that needs a GPU."""
    refusal: MemoryRefusal | None = None
    """Set by an executor if memory of the GPU was refused."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The worker itself failed, which says nothing about the candidate."""

    error: TritonAgentError
    """An `InstrumentError`: a worker knows nothing of the problem or of its user."""

    def __post_init__(self) -> None:
        if not isinstance(self.error, InstrumentError):
            raise ValueError(f"a worker that blames something else: {type(self.error).__name__}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Import the candidate."""

    does: ClassVar[str] = "load"
    source: str
    conditions: Conditions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    has_model: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Trace one form of call. The outlines of the constructor's and the call's arguments come with the message."""

    does: ClassVar[str] = "trace"
    seed: int
    train: bool
    given: tuple[str, ...]
    """Names of the reference's parameters and buffers."""
    by_keyword: tuple[str, ...] = ()
    """Names of the last arguments of the call, which forward takes by keyword only."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A tape. The candidate's process wrote it, so it is untrusted until `tape/admission.py` has checked it."""

    tape: Any
    kernels: Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Compile:
    """Compile the kernels of a tape."""

    does: ClassVar[str] = "compile"
    tape: Any
    kernels: Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    kernels: tuple[KernelResources, ...]
    failure: CompileFailure | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SentTape:
    """An admitted tape, encoded, with its settings. The constructor's arguments come with the message."""

    tape: Any
    kernels: Any
    seed: int
    conditions: Conditions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Prepare a tape under a name, or set its parameters, or both."""

    does: ClassVar[str] = "prepare"
    name: str
    tape: SentTape | None = None
    parameters: bool = False
    """True if parameters come with the message."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UseFile:
    """Import a shipped file in place of a tape. The message also carries the constructor's arguments and a call's
    outline.
    """

    does: ClassVar[str] = "file"
    name: str
    text: str
    train: bool
    by_keyword: tuple[str, ...] = ()
    """Names of the last arguments of the call, which forward takes by keyword only."""
    seed: int
    conditions: Conditions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The request was carried out; there is nothing to report."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Run a program once, after preparing it. The payloads of `prepare` come with the message, then the inputs."""

    does: ClassVar[str] = "call"
    prepare: Prepare
    silenced: bool = False
    """Skip all launches."""
    salt: int
    """Selects one of two fill values for fresh memory of one-byte types."""
    seed: int
    order: int
    """Seed of the order in which the interpreter runs programs."""
    measure: bool = False
    """Report memory and resources."""
    only: tuple[int, ...] | None = None
    """Numbers of the programs to run, in the interpreter; None for all."""
    whole: tuple[int, ...] = ()
    """Numbers of the steps whose launches run all programs, whatever `only` says."""
    keep: bool = False
    """Keep the inputs for the next call, unless this one changes them."""
    again: bool = False
    """Use the kept inputs; none come with the message."""
    note_numbers: bool = False
    """Report the numbers that kernels combine blocks with, and their predicates on data, in the interpreter."""
    forced: str = ""
    """Place at which an operation in a kernel gives another result, in the interpreter; see `Predicate`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SentTensor:
    """Dtype and shape of a tensor that is sent as bytes."""

    dtype: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MetNumbers:
    """Elements of one input of a call, each with the number that a kernel combined it, or a sum it is part of, with."""

    input: int
    """Number of the input."""
    at: tuple[int, ...]
    """Indices in memory."""
    numbers: tuple[float, ...]
    """Finite numbers."""

    def __post_init__(self) -> None:
        if len(self.at) != len(self.numbers) or not all(map(math.isfinite, self.numbers)):
            raise ValueError("elements without a number of their own")
        if self.at and not -(1 << 63) <= min(self.at) <= max(self.at) < 1 << 63:
            raise ValueError("an index beyond 64 bits")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeenLaunch:
    """One launch in a call."""

    kernel: str
    programs: int
    bytes_loaded: int | None = None
    """Counted for each lane in the interpreter; None on a GPU."""
    bytes_stored: int | None = None
    contested: tuple[str, ...] = ()
    """Arguments with an element in which programs stored different values."""
    read_beside_stores: tuple[str, ...] = ()
    """Arguments in which programs read elements that others stored."""


class PredicateKind(enum.StrEnum):
    COMPARISON = "comparison"
    EXTREMUM = "extremum"
    """Which of two values is the larger or the smaller one, or which is too small to change a sum."""
    JOINT = "joint"
    """Flags that are joined, or choices within each other."""
    OPERAND = "operand"
    """A flag that is joined and no predicate itself. Where it never changes, nothing else can be expected of both."""
    OPERATION = "operation"
    LIMIT = "limit"
    """A constant that takes the place of a total beyond it, by an extremum."""
    BOUND = "bound"
    """A bound of a loop, which is above zero or not."""
    GUARD = "guard"
    """One that tells of NaN, infinities or nothing at all, and did not. Such places are never one-sided."""


OPERANDS = (" first", " second")
"""Endings of the places of two flags that are joined."""
NEARLY = 1e-5
"""Results of an operation that differ by less, relative to their size, count as one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """An operation of a kernel on data that may decide what it does; see `noting/predicates.py`."""

    place: str
    line: int
    kind: PredicateKind
    only: float | None
    """The result that it always had in this call; None if it had several."""
    lanes: int = 0
    """Number of results."""
    limit: tuple[float, str] | None = None
    """The number that a comparison compares values with, and the last letters of its name: `LT` for `x < 1`."""
    between: tuple[float, float] = (0.0, 0.0)
    """The least and the largest of the compared values."""
    asked: tuple[str, ...] = ()
    """Places of the comparisons that joined flags come from."""
    of_itself: bool = False
    """True for a choice within the value that an outer choice compares and takes: an activation of another one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """The outputs of a call, and the inputs that it changed, which come with the message."""

    outputs: tuple[SentTensor, ...]
    changed: tuple[int, ...]
    """Numbers of the changed inputs."""
    inputs: tuple[SentTensor, ...]
    """Descriptions of the changed inputs."""
    stored: tuple[int, ...] = ()
    """Numbers of the inputs that kernels stored into, as far as known."""
    stored_state: tuple[str, ...] = ()
    """Names of the parameters and buffers that kernels stored into, as far as known."""
    launches: tuple[SeenLaunch, ...] = ()
    peak_bytes: int = 0
    process_bytes: int = 0
    resources: tuple[KernelResources, ...] = ()
    chosen: dict[int, int] = dataclasses.field(default_factory=dict)
    """Configuration of each autotuned launch, by step number."""
    numbers: tuple[float, ...] = ()
    """Numbers that a whole block, or a whole row of one, was compared or combined with, where that was asked for."""
    counterparts: tuple[MetNumbers, ...] = ()
    """For elements that a kernel combined with numbers, if asked for."""
    counterparts_of_sums: tuple[MetNumbers, ...] = ()
    """For elements of sums: each number makes the sum equal to one that a kernel combined it with, if no other element
    of the sum changes."""
    predicates: tuple[Predicate, ...] = ()
    """The predicates of kernels on data, if numbers were noted."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GetState:
    """Return the current parameters and buffers of a program."""

    does: ClassVar[str] = "state"
    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class State:
    tensors: dict[str, SentTensor]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StartClock:
    """Prepare a program for timing on the sets of inputs that come with the message."""

    does: ClassVar[str] = "time"
    name: str
    calibration: Calibration
    renewed: bool
    """Change the inputs before every call."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """Make some calls without timing them."""

    does: ClassVar[str] = "time"
    calls: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HoldInputs:
    """Hold the inputs that come with the message for a later reading. Gigabytes take half a second to copy."""

    does: ClassVar[str] = "time"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadClock:
    """Take a sample for each turn. One call uses inputs that come with the message; its outputs are returned."""

    does: ClassVar[str] = "time"
    turns: tuple[int, ...]
    held: bool = False
    """The inputs came with an earlier message."""
    later: int = 0
    """Which call gets the inputs. 0: the one for the device time; 1: the one for the latency."""
    keep: bool = False
    """Keep the outputs until they are fetched: gigabytes would not fit beside the calls that are timed."""
    series: int = 0
    """Number of back-to-back calls in each sample."""
    one_call: bool = False
    """Read both times from one call."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    samples: tuple[Sample, ...]
    outputs: tuple[SentTensor, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Return the oldest kept outputs."""

    does: ClassVar[str] = "time"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    unchanged: bool
    """False if a later call changed the outputs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TakeProfile:
    """Time each step of the tape for which timing was started, in some calls on the inputs of the timing."""

    does: ClassVar[str] = "profile"
    calls: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    steps: tuple[StepTime, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Drop the programs of a candidate."""

    does: ClassVar[str] = "forget"


ExecutorRequest = (
    Prepare | UseFile | Call | GetState | StartClock | WarmUp | HoldInputs | ReadClock | Fetch | TakeProfile | Forget
)
WorkerRequest = Load | Trace | Compile | ExecutorRequest

# -- the process that runs the reference compiled by torch.compile; see `race/compiled_process.py` ---------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EnterRaces:
    """Draw inputs and warm up the compiled baselines, unless that was done before."""

    calibration: Calibration


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    troubles: dict[str, str]
    """For each baseline, why it cannot be timed; empty if it can."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CountSeries:
    """Return the number of back-to-back calls needed to measure the cost of one."""

    baseline: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeriesCounted:
    calls: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadBaseline:
    """Take a sample of a compiled baseline for each turn."""

    baseline: str
    turns: tuple[int, ...]
    series: int = 0
    one_call: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRaces:
    """Free large inputs until the next race."""


BaselineRequest = EnterRaces | CountSeries | ReadBaseline | LeaveRaces

# -- a large answer, in lent memory; see `answers.py` ------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Write the answer to the memory that comes with the message; send bytes if none does."""

    on_card: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    written: bool
    """False if the answer did not fit, or is sent as bytes."""
