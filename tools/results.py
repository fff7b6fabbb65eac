"""The result of an evaluation as frozen values: status, finding and evidence.

Illegal combinations are refused at construction, so the store, rewards and reports can rely on them. "We could not
measure" is not a result but an `InstrumentError`. Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

from triton_agent.tools.kernel_profile import Profile, Roofline


class Status(enum.StrEnum):
    """The verdict on a candidate. Every candidate gets exactly one."""

    PASSED = "passed"
    NO_ANSWER = "no_answer"
    WRONG_VALUES = "wrong_values"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    CHEATED = "cheated"
    NOT_TRITON = "not_triton"


class Finding(enum.StrEnum):
    """The reason for a status, in more detail. `DECISIONS` maps each finding to its status."""

    NO_MODEL = "no_model"
    SYNTAX = "syntax"
    COMPILE = "compile"
    IMPORT = "import"
    CONSTRUCT = "construct"
    RAISED = "raised"
    OUT_OF_BOUNDS = "out_of_bounds"
    CRASHED = "crashed"
    TOO_SLOW = "too_slow"
    MEMORY = "memory"
    STRUCTURE = "structure"
    SHAPE = "shape"
    LAYOUT = "layout"
    DTYPE = "dtype"
    VALUES = "values"
    PRECISION = "precision"
    NON_FINITE = "non_finite"
    MUTATED_INPUT = "mutated_input"
    ALIASED_OUTPUT = "aliased_output"
    SHARED_OUTPUT = "shared_output"
    STALE_PARAMETER = "stale_parameter"
    UNWRITTEN_OUTPUT = "unwritten_output"
    STATE = "state"
    NO_LAUNCH = "no_launch"
    DEAD_KERNEL = "dead_kernel"
    LIBRARY_WORK = "library_work"
    RACE = "race"
    FORBIDDEN_ACCESS = "forbidden_access"
    TAMPERED = "tampered"
    FALSE_CLOCK = "false_clock"
    DISGUISED_TENSOR = "disguised_tensor"
    KERNEL_LANGUAGE = "kernel_language"
    READS_VALUES = "reads_values"
    NOT_RECORDED = "not_recorded"
    RETAINED_INPUT = "retained_input"
    ONE_SIDED = "one_sided"

    @classmethod
    def _missing_(cls, value: object) -> Finding | None:
        """Read findings of old stores that are no longer given. Each maps to a finding with the same status."""
        return {"device": cls.DTYPE, "stale_output": cls.RETAINED_INPUT}.get(str(value))


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """A row of the decision table."""

    status: Status
    means: str


DECISIONS: dict[Finding, Decision] = {
    Finding.NO_MODEL: Decision(Status.NO_ANSWER, "the text holds no class ModelNew"),
    Finding.SYNTAX: Decision(Status.COMPILE_ERROR, "the file is not valid Python"),
    Finding.COMPILE: Decision(Status.COMPILE_ERROR, "a kernel does not compile for the target"),
    Finding.KERNEL_LANGUAGE: Decision(Status.COMPILE_ERROR, "a kernel uses something outside of Triton's language"),
    Finding.IMPORT: Decision(Status.RUNTIME_ERROR, "the file raised while it was imported"),
    Finding.CONSTRUCT: Decision(Status.RUNTIME_ERROR, "ModelNew could not be made, or did not take the parameters"),
    Finding.RAISED: Decision(Status.RUNTIME_ERROR, "forward, or a launch in it, raised"),
    Finding.READS_VALUES: Decision(Status.RUNTIME_ERROR, "host code reads values of a tensor"),
    Finding.NOT_RECORDED: Decision(Status.RUNTIME_ERROR, "host code does something that a tape cannot hold"),
    Finding.OUT_OF_BOUNDS: Decision(Status.RUNTIME_ERROR, "a kernel touched memory outside its tensors"),
    Finding.CRASHED: Decision(Status.RUNTIME_ERROR, "the process died while the candidate ran, without a verdict"),
    Finding.TOO_SLOW: Decision(Status.TIMEOUT, "a stage ran past its time limit"),
    Finding.MEMORY: Decision(Status.OUT_OF_MEMORY, "more memory than allowed was used, on the host or on the GPU"),
    Finding.STRUCTURE: Decision(Status.WRONG_SHAPE, "outputs differ from the reference's in number or nesting"),
    Finding.SHAPE: Decision(Status.WRONG_SHAPE, "an output has another shape"),
    Finding.LAYOUT: Decision(
        Status.WRONG_SHAPE,
        "the reference's last step fixes the order of an output in memory, and the candidate's has another",
    ),
    Finding.DTYPE: Decision(Status.WRONG_DTYPE, "an output has another dtype"),
    Finding.VALUES: Decision(Status.WRONG_VALUES, "values differ from the float64 truth"),
    Finding.PRECISION: Decision(Status.WRONG_VALUES, "correct but less accurate than the reference: lower precision"),
    Finding.NON_FINITE: Decision(
        Status.WRONG_VALUES, "NaN or infinity where the reference is finite, or finite where it is not"
    ),
    Finding.MUTATED_INPUT: Decision(Status.WRONG_VALUES, "an input was changed that the reference leaves unchanged"),
    Finding.ALIASED_OUTPUT: Decision(
        Status.WRONG_VALUES, "an output shares memory with an input, a parameter or itself"
    ),
    Finding.SHARED_OUTPUT: Decision(Status.WRONG_VALUES, "a later call changed the output of an earlier one"),
    Finding.RETAINED_INPUT: Decision(Status.CHEATED, "a call uses what an earlier call computed from its inputs"),
    Finding.STALE_PARAMETER: Decision(Status.WRONG_VALUES, "the output does not follow a parameter's new value"),
    Finding.UNWRITTEN_OUTPUT: Decision(Status.WRONG_VALUES, "part of an output was never written"),
    Finding.STATE: Decision(Status.WRONG_VALUES, "buffers after the call differ from the reference's"),
    Finding.ONE_SIDED: Decision(
        Status.WRONG_VALUES, "the answer depends on a predicate on data that has one result in all checked calls"
    ),
    Finding.RACE: Decision(
        Status.WRONG_VALUES, "programs of a launch, or lanes of a store, store different values in one element"
    ),
    Finding.NO_LAUNCH: Decision(Status.NOT_TRITON, "no Triton kernel of the candidate's own was launched"),
    Finding.DEAD_KERNEL: Decision(Status.NOT_TRITON, "the output does not depend on the launched kernels"),
    Finding.LIBRARY_WORK: Decision(Status.NOT_TRITON, "torch operators do the work that the kernels should do"),
    Finding.FORBIDDEN_ACCESS: Decision(
        Status.CHEATED, "uses files, the network, the environment or another forbidden module"
    ),
    Finding.TAMPERED: Decision(Status.CHEATED, "interferes with the evaluator, torch, triton or the verdict"),
    Finding.FALSE_CLOCK: Decision(Status.CHEATED, "the measured time contradicts an independent clock"),
    Finding.DISGUISED_TENSOR: Decision(Status.CHEATED, "returns an object that only looks like a plain tensor"),
}
"""The decision table: every finding has exactly one status. Checks run in the order of the pipeline."""

GRADER = "27"
"""Version of the rules that decide verdicts. Raise it whenever an old verdict could come out differently."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CaseAccuracy:
    """The accuracy of one output in one case: a variant under a distribution."""

    variant: str
    distribution: str
    output: str
    """The output as an author would index it, such as `out`, `out[1]` or `buffer running_mean`."""
    metric: str
    """The metric that came closest to its limit: `l2`, `max` or `small` for floats, `mismatches` for integers."""
    error: float
    """The candidate's error against the float64 truth."""
    original_error: float
    """The reference's error against the float64 truth. The name is old, and kept because stores and exports use it."""
    limit: float
    """The largest error that the candidate may have."""
    ok: bool

    def __post_init__(self) -> None:
        for name in ("error", "original_error", "limit"):
            if math.isnan(getattr(self, name)):
                raise ValueError(f"{name} is NaN")
        if self.ok and self.error > self.limit:
            raise ValueError("a case beyond its limit cannot be ok")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelResources:
    """What the compiler reports for one kernel, specialised for one launch."""

    kernel: str
    target: str
    num_warps: int
    num_stages: int
    registers: int | None
    """Per thread; None where the toolchain does not report it."""
    spill_bytes: int | None
    shared_bytes: int
    stack_bytes: int | None
    compile_ms: float
    constants: str = ""
    """The tl.constexpr arguments, as in `BM=64, BN=64`. They distinguish the configurations of an autotuned kernel."""
    tensor_cores: bool | None = None
    """True if the kernel has instructions for tensor cores; None if the assembly was not kept, and in older records."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaunch:
    """Launches of one kernel during one call of the candidate."""

    kernel: str
    launches: int
    programs: int
    bytes_loaded: int | None
    """Counted for each lane in the interpreter; None on a GPU."""
    bytes_stored: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One reason for or against the candidate, in words."""

    finding: Finding
    detail: str


AHEAD = "ahead"
"""Prefix of the stage that reports, before the verdict, that a candidate is correct and faster than the reference."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """Wall time of one stage of the pipeline."""

    stage: str
    wall_ms: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A measured figure with its confidence interval."""

    median: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.median <= self.high:
            raise ValueError(f"not an interval: {self.low} <= {self.median} <= {self.high}")


KINDS_OF_TIME = {"device": "device time", "latency": "call latency", "back_to_back": "back-to-back calls"}
"""The three clocks. Device time is the time on the GPU. Latency is the host's time of one call, from an idle GPU until
the result is there. Back to back is the time per call of many calls queued without waiting, host cost included; it is
measured for shipped files only, and older stores lack it."""


def asked_as(baseline: str) -> str:
    """Return the name by which a baseline is requested, without its precision: `compile-max-autotune`, `eager`."""
    return baseline.partition(" ")[0]


def baseline_name(baseline: str) -> str:
    """Return the kind of a baseline, without its compiler's mode: `compile`, `eager`."""
    return asked_as(baseline).partition("-")[0]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A paired measurement of the candidate against one baseline, as distributions."""

    baseline: str
    """The baseline with its precision: `eager (float32 matmul, tf32 conv)`; `eager` is the reference as written."""
    kind: str
    """One of `KINDS_OF_TIME`."""
    candidate_ms: Interval
    baseline_ms: Interval
    speedup: Interval
    """The baseline's time over the candidate's time, from the paired runs."""
    pairs: int
    cold_l2: bool
    method: str
    clocks_mhz: tuple[int, ...] = ()
    input_set: str = ""
    """The measured set of inputs. Empty if the problem has one set, and for the figure over all sets."""
    weight: float = 1.0
    """Weight of that set in the figure over all sets."""

    @property
    def baseline_name(self) -> str:
        """Kind of the baseline: `eager` (the reference as written) or `compile`."""
        return baseline_name(self.baseline)


class Determinism(enum.StrEnum):
    """How repeated calls compare bit by bit. Atomic sums may make them differ, which is allowed."""

    IDENTICAL = "identical"
    DIFFERS = "differs"
    NOT_MEASURED = "not measured"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Facts that a kernel author can act on. If nothing was measured it holds only the floor."""

    floor_bytes: int
    floor_flops: int
    floor_ms: float | None
    """Time of the floor at the measured rates of this GPU; None without a GPU."""
    traffic_ratio: float | None
    """Bytes that the kernels moved over the fewest bytes, counted in the interpreter."""
    launches: tuple[KernelLaunch, ...]
    torch_operators: tuple[str, ...]
    """Operators of torch that did arithmetic besides the kernels."""
    notes: tuple[str, ...]
    """Lines for a prompt, the most useful first."""
    peak_bytes: int | None = None
    """Device memory of a call, outputs included, inputs and parameters excluded; None without a GPU."""
    original_peak_bytes: int | None = None
    """Device memory of a call of the reference. The name is old, and kept because stores and exports use it."""
    roofline: Roofline | None = None
    """The floor against this GPU's measured rates; None without a GPU."""
    profile: Profile | None = None
    """Measured on request, and only on a GPU."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where a verdict was reached. It belongs to the verdict, which may not hold elsewhere."""

    mode: str
    """`interpreter` or `gpu`."""
    device: str
    """The GPU's model, or `cpu`."""
    python: str
    torch: str
    triton: str
    target: str | None
    sandbox: tuple[str, ...]
    """The layers of isolation that were active."""
    grader: str
    """Version of the rules that decide verdicts."""
    precision: str = "same"
    """`tf32` if the user allowed TF32, which then holds for the reference as well."""
    autocast: str = ""
    """The dtype of autocast, if forward was called under it."""
    gpu: str = ""
    """UUID of the card, since cards of one model have the same name; empty for the interpreter."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The verdict on one candidate."""

    candidate: str
    """Hash of its source."""
    problem: str
    """Hash of the problem."""
    status: Status
    finding: Finding | None
    """The row of the decision table that applies; None only for `passed`."""
    message: str
    """What went wrong, where, and the likely cause, for the author. Empty only for `passed`."""
    environment: Environment
    accuracy: tuple[CaseAccuracy, ...] = ()
    resources: tuple[KernelResources, ...] = ()
    timings: tuple[Timing, ...] = ()
    diagnosis: Diagnosis | None = None
    evidence: tuple[Evidence, ...] = ()
    determinism: Determinism = Determinism.NOT_MEASURED
    """Found by several calls in one process on a GPU."""
    stages: tuple[StageTime, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks that a reader needs beyond the status: a scaled-down shape, a distribution that could not be used."""

    def __post_init__(self) -> None:
        passed = self.status is Status.PASSED
        if passed != (self.finding is None):
            raise ValueError("exactly the candidates that did not pass have a finding")
        if self.finding is not None and DECISIONS[self.finding].status is not self.status:
            raise ValueError(f"{self.finding} means {DECISIONS[self.finding].status}, not {self.status}")
        if passed != (self.message == ""):
            raise ValueError("exactly the candidates that did not pass have a message")
        if passed and not self.accuracy:
            raise ValueError("nothing was checked, so nothing can have passed")
        if passed and not all(case.ok for case in self.accuracy):
            raise ValueError("a case failed, so the candidate cannot have passed")
        if self.timings and not passed:
            raise ValueError("only what passed is timed")

    def against(self, name: str, kind: str) -> tuple[Timing, ...]:
        """Return the measurements by one clock against `eager` (the reference as it is) or `compile`.

        With several sets of inputs, return the figure over all sets; `by_set` has the figures of each set.
        """
        found = (item for item in self.timings if item.baseline_name == name and item.kind == kind)
        return tuple(item for item in found if not item.input_set)

    def timing(self, name: str, kind: str) -> Timing | None:
        """Return the first measurement of `against`, or None."""
        return next(iter(self.against(name, kind)), None)

    def by_set(self) -> dict[str, tuple[Timing, ...]]:
        """Return the measurements of each set of inputs; empty for a problem with a single set."""
        found: dict[str, tuple[Timing, ...]] = {}
        for item in self.timings:
            if item.input_set:
                found[item.input_set] = (*found.get(item.input_set, ()), item)
        return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A quick look at one variant, used for sorting and not a verdict: one call was checked and a few pairs timed."""

    candidate: str
    finding: Finding | None
    """None if nothing was wrong."""
    message: str
    timings: tuple[Timing, ...]
    """Device time and latency, without confidence intervals; empty if something was wrong."""
    stages: tuple[StageTime, ...]


def to_json(value: Any) -> Any:
    """Return plain data for JSON: dataclasses become objects, enums their values, tuples lists, NaN and inf text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
