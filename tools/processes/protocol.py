"""The messages between our processes: who asks whom for what, and what comes back.

`codec.py` makes JSON of them and reads them, `wire.py` carries them. Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, ClassVar

from triton_agent.tools.audit.report import AuditReport
from triton_agent.tools.compile.failure import CompileFailure
from triton_agent.tools.errors import TritonAgentError
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
    """Fork a process of this role; its end of a channel comes with the message. Answered by `Forked`."""

    role: str
    settings: Any
    """`CheckerSettings` or `WorkerSettings`, encoded: the process decodes what it needs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ForkZygote:
    """Fork a zygote of this mode; its end of a channel comes with the message. Answered by `Forked`."""

    mode: str
    target: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reap:
    """End a process, by force once `grace_s` is over. Answered by `Reaped`."""

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
    """What a checker is started with."""

    problem: ProblemSpec
    settings: EvaluatorSettings
    confinement: Confinement | None = None
    """For a problem that is not trusted."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadProblem:
    """Load the problem. Answered by `ProblemLoaded`, `Refused` or `Bug`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Try wrong answers on the problem. Answered by many `AuditStep`, then `Audited`, `Refused` or `Bug`."""


class Wanted(enum.StrEnum):
    """What a candidate is handed over for."""

    VERDICT = "verdict"
    TRIAL = "trial"
    """The stages up to the first call, as for a verdict; its evaluation is none."""
    SKETCH = "sketch"
    TAPES = "tapes"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A process of a candidate; its socket comes with the message."""

    kind: str
    is_warm: bool
    """True if it has reported before that it is ready."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judge a candidate. Answered by `AtStage` at each stage, then by one `JobAnswer`.

    The workers are a tracer, an executor, and any number of compile workers.
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
    """Where tapes are wanted: of these lengths of the problem's ranges, in place of its own sizes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemLoaded:
    facts: ProblemFacts
    card: dict[str, Any]
    """Properties of the GPU that host code is given, as `machine/card_facts.py` names them."""
    lent: tuple[tuple[int, int, int], ...]
    """Device, number and size of the files in memory that workers will be given."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuditStep:
    tried: int
    answers: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    report: AuditReport


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AtStage:
    job: int
    stage: str


class WorkerState(enum.StrEnum):
    """Where the checker left a worker."""

    ENDED = "ended"
    NEW = "new"
    """It was asked nothing, and may not be ready yet."""
    WARM = "warm"
    """It may serve another candidate."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    job: int
    workers: tuple[WorkerState, ...] = ()
    evaluation: Evaluation
    ending: Ending | None = None
    """Set if a process of the candidate ended; the driver then finds out how, see `deaths.py`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sketched:
    job: int
    workers: tuple[WorkerState, ...] = ()
    sketch: Sketch


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
    """The configuration of each autotuned launch by the number of its step; empty where nothing ran."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TapedModule:
    """The reference's module made in one way, and its calls."""

    constructor: Any
    """Its arguments, encoded."""
    state: tuple[StateTensor, ...]
    parameters: tuple[str, ...]
    """Names of forward's parameters."""
    forms: tuple[TapedForm, ...]
    """None where the candidate could not be traced at the lengths asked for."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tapes:
    """A candidate's tapes, from which `runs/ship/plan_file.py` writes a file."""

    modules: tuple[TapedModule, ...]
    message: str = ""
    """Why there are none."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taped:
    job: int
    workers: tuple[WorkerState, ...] = ()
    tapes: Tapes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The problem, or an instrument, failed."""

    error: TritonAgentError
    job: int = 0
    """0 where no candidate was judged."""
    workers: tuple[WorkerState, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """The checker failed."""

    trace: str
    job: int = 0
    workers: tuple[WorkerState, ...] = ()


JobAnswer = Judged | Sketched | Taped | Refused | Bug


# -- the checker asks the workers of a candidate ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What a tracer, a compile worker or an executor is started with."""

    kind: str
    """`tracer`, `compiler`, `interpreter` or `gpu`."""
    scratch: str
    target: str
    card: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Properties of the GPU that host code is given, as `machine/card_facts.py` names them."""
    cache: str = ""
    """Folder of Triton's cache that compile workers and executors share; empty for one of their own."""
    gpu: str = ""
    """UUID of the GPU that an executor makes a context on."""
    confinement: Confinement | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The first message of a worker. If a worker ends before it, the candidate did not cause that."""

    layers: tuple[str, ...]
    """Layers of the sandbox that are in force."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line that an exception passed through."""

    line: int | None
    function: str
    code: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The candidate's code, its tape or its kernel raised an exception."""

    kind: str
    kinds: tuple[str, ...]
    """Names of its class and of that class's bases."""
    text: str
    lines: tuple[SourceLine, ...]
    """The last ones in the candidate's file."""
    phase: str = ""
    """`import`, `construct` or `forward`."""
    ending: str = ""
    """Why there is no tape, by the names in `tape/tracer.py`; empty for another exception."""
    unsupported: bool = False
    """True if the kernel uses what cannot be run without a GPU."""


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
    """Trace one form of call. With it come the outlines of the constructor's and of the call's arguments."""

    does: ClassVar[str] = "trace"
    seed: int
    train: bool
    given: tuple[str, ...]
    """Names of the reference's parameters and buffers."""
    by_keyword: tuple[str, ...] = ()
    """Names under which forward gets the last arguments of the call."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A tape. The candidate's process wrote it, so it is open data until `tape/admission.py` has checked it."""

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
    """A tape, admitted and encoded, with what it runs with. The constructor's arguments come with the message."""

    tape: Any
    kernels: Any
    seed: int
    conditions: Conditions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Make a tape ready to run under a name, or set its parameters, or both."""

    does: ClassVar[str] = "prepare"
    name: str
    tape: SentTape | None = None
    parameters: bool = False
    """True if parameters come with the message."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UseFile:
    """Import a shipped file in place of a tape. With it come the constructor's arguments and an outline of a call."""

    does: ClassVar[str] = "file"
    name: str
    text: str
    train: bool
    by_keyword: tuple[str, ...] = ()
    """Names under which forward gets the last arguments of the call."""
    seed: int
    conditions: Conditions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """It was done, and there is nothing to report."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Run a program once, after preparing it. With it come what `prepare` needs, then the inputs."""

    does: ClassVar[str] = "call"
    prepare: Prepare
    silenced: bool = False
    """Launches do nothing."""
    salt: int
    """Which of two fills fresh memory of one-byte types gets."""
    seed: int
    order: int
    """Seed of the order in which the interpreter runs programs."""
    measure: bool = False
    """Report memory and resources."""
    only: tuple[int, ...] | None = None
    """Numbers of the programs to run, in the interpreter; None for all."""
    keep: bool = False
    """Keep the inputs for the next call, unless this one changes them."""
    again: bool = False
    """Use the inputs that were kept; none come with the request."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SentTensor:
    """What the bytes of a tensor mean."""

    dtype: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeenLaunch:
    """One launch in a call."""

    kernel: str
    programs: int
    bytes_loaded: int | None = None
    """Counted for each lane in the interpreter; None on a GPU."""
    bytes_stored: int | None = None
    contested: tuple[str, ...] = ()
    """Arguments in which programs stored different values in one element."""
    read_beside_stores: tuple[str, ...] = ()
    """Arguments in which programs read what others stored."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """The outputs of a call, and the inputs that it changed, come with the message."""

    outputs: tuple[SentTensor, ...]
    changed: tuple[int, ...]
    """Numbers of the inputs that it changed."""
    inputs: tuple[SentTensor, ...]
    """These inputs."""
    stored: tuple[int, ...] = ()
    """Numbers of the inputs that kernels stored into, as far as that is known."""
    stored_state: tuple[str, ...] = ()
    """Names of the parameters and buffers that kernels stored into, as far as that is known."""
    launches: tuple[SeenLaunch, ...] = ()
    peak_bytes: int = 0
    process_bytes: int = 0
    resources: tuple[KernelResources, ...] = ()
    chosen: dict[int, int] = dataclasses.field(default_factory=dict)
    """The configuration of each autotuned launch, by the number of its step."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GetState:
    """Return the present parameters and buffers of a program."""

    does: ClassVar[str] = "state"
    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class State:
    tensors: dict[str, SentTensor]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StartClock:
    """Prepare a program for timing, on sets of inputs that come with the message."""

    does: ClassVar[str] = "time"
    name: str
    calibration: Calibration
    renewed: bool
    """Inputs are changed before every call."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """Make some calls without reading the clock."""

    does: ClassVar[str] = "time"
    calls: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadClock:
    """Take a sample for each turn. If inputs come with the message, one call gets these, and its outputs come back."""

    does: ClassVar[str] = "time"
    turns: tuple[int, ...]
    later: int = 0
    """0: the call for the device time gets the inputs; 1: the one for the latency."""
    keep: bool = False
    """Keep the outputs until they are fetched: gigabytes find no room beside calls that are timed."""
    series: int = 0
    """Number of calls that each sample makes back to back."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    samples: tuple[Sample, ...]
    outputs: tuple[SentTensor, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Hand over the oldest outputs that were kept."""

    does: ClassVar[str] = "time"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    unchanged: bool
    """False if later calls wrote into them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TakeProfile:
    """Time each step of the tape that the clock was started with, in some calls on the same inputs."""

    does: ClassVar[str] = "profile"
    calls: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    steps: tuple[StepTime, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Drop the programs of a candidate."""

    does: ClassVar[str] = "forget"


ExecutorRequest = Prepare | UseFile | Call | GetState | StartClock | WarmUp | ReadClock | Fetch | TakeProfile | Forget
WorkerRequest = Load | Trace | Compile | ExecutorRequest

# -- the process that runs what torch.compile made of the reference; see `race/compiled_process.py` --------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EnterRaces:
    """Draw inputs and warm the compiled baselines up, unless that was done."""

    calibration: Calibration


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    troubles: dict[str, str]
    """By the names of the baselines: why one cannot be timed, or nothing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CountSeries:
    """Say how many calls back to back show what one of them costs."""

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRaces:
    """Give large inputs back until the next race."""


BaselineRequest = EnterRaces | CountSeries | ReadBaseline | LeaveRaces

# -- a large answer, in memory that is lent; see `answers.py` ----------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Write the answer to the memory that comes with the message, or send bytes if none does."""

    on_card: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    written: bool
    """False if the answer did not fit there, or comes as bytes."""
