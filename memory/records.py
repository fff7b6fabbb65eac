"""The records of the store: runs, attempts, completions, gradings. Frozen values.

An attempt holds the observation and the answer. It is written once and never changed. Its result is a grading; an
attempt may have several, since graders, drivers and GPUs change. A trajectory is a path through parents.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import hashlib
from typing import Any

from triton_agent.memory.observation import Observation, ProblemView
from triton_agent.tools.errors import InstrumentError
from triton_agent.tools.results import Evaluation


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool that a model asked for."""

    id: str
    """The server's name for this call; the result refers to it."""
    name: str
    arguments: str
    """JSON, as the model wrote it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of the conversation a model was shown."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str
    calls: tuple[ToolCall, ...] = ()
    """Tools that an assistant's message asks for."""
    answers_call: str = ""
    """Id of the call whose result a tool's message is."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Cost of an answer, over all requests that it took; the cost of a request for several answers is divided among
    them.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the server had in its cache, if it reports them."""
    completion_tokens: int = 0
    """Tokens of the answer, thoughts included."""
    reasoning_tokens: int = 0
    """Tokens of thoughts, if the server reports them."""
    cost: float = 0.0
    """Cost in the currency of the policy's price list; 0 if unknown."""
    wall_s: float = 0.0


class Distribution(enum.StrEnum):
    """The distribution that stored log-probabilities belong to."""

    UNKNOWN = ""
    """The engine does not say, or the record is older than this field."""
    SAMPLED = "sampled"
    """The distribution that the tokens were drawn from: after temperature, cut-offs and penalties."""
    MODEL = "model"
    """The model's own distribution, before any of these: temperature 1."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRecord:
    """Settings with which an answer was drawn; None where unknown."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    """0 for no limit."""
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    pattern: str | None = None
    """Regular expression that the answer had to match; empty for none."""
    tokens_at_most: int | None = None
    """Token limit of the answer, thoughts included."""
    thinking_tokens_at_most: int | None = None
    """Part of that limit for thoughts."""
    reasoning_effort: str | None = None
    extra_body: str | None = None
    """Additional fields of the request, as JSON text; see `--extra-body`."""
    seed: int | None = None
    """Seed of the engine's random draws: equal prompts, settings and seeds are one draw, not two."""

    @property
    def reshaped(self) -> bool:
        """True if more than the temperature is known to have changed the model's distribution."""
        unchanged: dict[str, tuple[object, ...]] = {
            "top_p": (None, 1.0),
            "top_k": (None, 0, -1),
            "min_p": (None, 0.0),
            "frequency_penalty": (None, 0.0),
            "presence_penalty": (None, 0.0),
            "repetition_penalty": (None, 1.0),
            "pattern": (None, ""),
        }
        return any(getattr(self, name) not in values for name, values in unchanged.items())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """An answer as a policy gave it, and how it was drawn."""

    text: str
    """The answer, without thoughts."""
    reasoning: str = ""
    """The model's thoughts before it answered; no later prompt shows them."""
    policy: str
    """Name of the policy, as in `--policy`."""
    policy_version: str = ""
    """Version of its weights or code, adapter included; importance weights and staleness limits refer to it."""
    adapter_version: str = ""
    """Version of the adapter on the weights; empty without one, or if unknown."""
    prompt_version: str = ""
    """Version of the prompt's templates."""
    tokenizer: str = ""
    """Digest of the vocabulary that the token ids belong to; empty if unknown."""
    sampling: SamplingRecord = dataclasses.field(default_factory=SamplingRecord)
    group: str = ""
    """Digest of the question: completions with the same group answered the same messages. Empty if unknown."""
    messages: tuple[Message, ...] = ()
    """The conversation shown to the model; empty for policies that read the observation itself."""
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    """Sampled tokens; None if the policy has none or its server does not return them."""
    log_probabilities: tuple[float, ...] | None = None
    """Log-probability of each token under the policy that sampled it."""
    log_probabilities_of: Distribution = Distribution.UNKNOWN
    """The distribution that the log-probabilities belong to, as reported by the engine."""
    mask: tuple[bool, ...] | None = None
    """True for tokens that the policy chose itself; None if it chose all of them."""
    finish_reason: str = "stop"
    missing: str = ""
    """Why expected tokens or log-probabilities are missing, or may not belong to the text."""
    usage: Usage = dataclasses.field(default_factory=Usage)

    def __post_init__(self) -> None:
        if self.token_ids is None and (self.log_probabilities is not None or self.mask is not None):
            raise ValueError("log-probabilities and masks belong to tokens, and there are none")
        for name in ("log_probabilities", "mask"):
            values = getattr(self, name)
            if values is not None and self.token_ids is not None and len(values) != len(self.token_ids):
                raise ValueError(f"{len(values)} {name} for {len(self.token_ids)} tokens")

    @property
    def whole(self) -> str:
        """Thoughts and answer together, from which the file is read: some models write it into their thoughts."""
        if not self.reasoning:
            return self.text
        return f"<think>{self.reasoning}</think>\n{self.text}" if self.text else f"<think>{self.reasoning}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One answer of an author within a run."""

    run: str
    turn: int
    index: int
    """Position among the turn's answers."""
    parent: str | None
    """Key of the attempt it builds on, in this run or the one it was forked from."""
    observation: Observation
    completion: Completion
    plan: str = ""
    """What the author wrote beside the code."""
    source: str | None = None
    """Text of the candidate; None if the answer holds none."""
    created_at: datetime.datetime

    @property
    def key(self) -> str:
        """Unique key, known before the attempt is made, so that a resumed run can look it up first."""
        return attempt_key(self.run, self.turn, self.index)


def attempt_key(run: str, turn: int, index: int) -> str:
    return f"{run}/{turn}.{index}"


def run_of(key: str) -> str:
    """Return the run id in an attempt's key."""
    return key.rpartition("/")[0]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InstrumentFailure:
    """The reason why an attempt could not be measured; never a verdict, never a reward."""

    kind: str
    what: str
    where: str = ""
    remedy: str = ""

    @classmethod
    def of(cls, error: InstrumentError) -> InstrumentFailure:
        return cls(kind=type(error).__name__, what=error.what, where=error.where, remedy=error.remedy)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GradingMachine:
    """The machine that made a grading, beyond what the evaluation itself says."""

    gpu: str = ""
    driver: str = ""
    commit: str = ""
    """Commit of this project."""
    seed: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """One evaluation of an attempt, or the reason why there is none."""

    attempt: str
    """Key of the attempt."""
    evaluation: Evaluation | None = None
    failure: InstrumentFailure | None = None
    machine: GradingMachine = dataclasses.field(default_factory=GradingMachine)
    grader: str
    """Version of the grader; see `GRADER` in `tools/results.py`."""
    graded_at: datetime.datetime

    def __post_init__(self) -> None:
        if (self.evaluation is None) == (self.failure is None):
            raise ValueError("a grading holds an evaluation, or the failure to make one")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One request of a person: the root of a tree of attempts."""

    id: str
    problem: ProblemView
    policy: str
    settings: dict[str, Any]
    """Settings of the command, with which `--resume` continues after a crash."""
    started_at: datetime.datetime
    forked_from: str | None = None
    """Key of the attempt of another run that this one continues."""
    commit: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of a run. A killed run has none and continues with `--resume`."""

    run: str
    stop_reason: str
    best: str | None
    """Key of the attempt that was shipped; None if nothing better was found."""
    ended_at: datetime.datetime
    summary: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a run, for live display and history."""

    run: str
    kind: str
    at: datetime.datetime
    data: dict[str, Any] = dataclasses.field(default_factory=dict)


def new_run_id(now: datetime.datetime, salt: str) -> str:
    """Return an id that sorts by time, is easy to read, and differs among machines: `20260131-154500-3fa9c1`."""
    return f"{now:%Y%m%d-%H%M%S}-{hashlib.sha256(f'{now.isoformat()}{salt}'.encode()).hexdigest()[:6]}"
