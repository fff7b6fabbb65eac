"""Reads stored attempts as training samples: tokens, their roles, and the turn's reward.

Uses only the records of `memory/records.py`, wherever they come from (a store, an import, a test). Attempts that cannot
be trained on are counted by reason.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from triton_agent.memory.records import Attempt, Distribution, Grading, Message, SamplingRecord
from triton_agent.policy.train.prepare.credit import TokenRole, Turn
from triton_agent.policy.train.prepare.recipes import Recipe, grade
from triton_agent.policy.train.record import novelty
from triton_agent.policy.train.record.rewards import Facts
from triton_agent.tools.results import Evaluation

Decode = Callable[[Sequence[int]], str]
"""Decodes tokens to text, special tokens included."""
Encode = Callable[[Sequence[Message]], Sequence[int]]
"""Encodes messages as the prompt for the next answer."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSample:
    """One turn to train on."""

    turn: Turn
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    roles: tuple[TokenRole, ...]
    log_probabilities: tuple[float, ...] | None
    """Log-probabilities at sampling; None if they were not kept."""
    log_probabilities_of: Distribution = Distribution.UNKNOWN
    sampling: SamplingRecord = SamplingRecord()
    tokenizer: str = ""
    """Digest of the vocabulary of the token ids; empty if unknown."""
    policy_version: str = ""
    kernel_share: float | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.token_ids), len(self.roles), len(self.log_probabilities or self.token_ids)}
        if len(lengths) != 1:
            raise ValueError(f"{self.turn.key}: tokens, roles and log-probabilities differ in number")
        if not self.prompt_ids or not any(self.chosen):
            raise ValueError(f"{self.turn.key}: a prompt and at least one token of the policy's own are needed")

    @property
    def chosen(self) -> tuple[bool, ...]:
        """True for tokens that the policy chose itself."""
        return tuple(role is not TokenRole.FEEDBACK for role in self.roles)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Samples, and counts of attempts left out."""

    samples: tuple[TrainingSample, ...]
    left_out: Mapping[str, int]
    """Attempts that cannot be trained on, by reason."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Facts beside the records."""

    decode: Decode | None = None
    """Without it, plan and code cannot be told apart, and all tokens count as code."""
    encode: Encode | None = None
    """Used for attempts with messages but without prompt tokens."""
    sound: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    """Result of `check-problem` by the problem's digest."""
    plan_gains: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    """Log-likelihood of a right answer with and without the attempt's plan, by the attempt's key."""
    token_limit: int | None = None


def collect(
    records: Iterable[tuple[Attempt, Sequence[Grading]]], recipe: Recipe, knowledge: Knowledge | None = None
) -> Collection:
    """Collect samples of all attempts that have tokens, graded by the recipe, in the order of creation."""
    knowledge = knowledge or Knowledge()
    left_out: Counter[str] = Counter()
    usable: list[tuple[Attempt, Evaluation | None, tuple[int, ...]]] = []
    for attempt, gradings in sorted(records, key=lambda record: (record[0].created_at, record[0].key)):
        prompt = _prompt_ids(attempt, knowledge.encode)
        if not attempt.completion.token_ids or not any(attempt.completion.mask or (True,)):
            left_out[attempt.completion.missing or "no tokens were stored"] += 1
        elif not prompt:
            left_out["no prompt was stored"] += 1
        else:
            usable.append((attempt, latest_evaluation(gradings), prompt))
    alike = _alike([attempt for attempt, _, _ in usable])
    samples = [
        _sample(attempt, evaluation, prompt, earlier, recipe, knowledge)
        for (attempt, evaluation, prompt), earlier in zip(usable, alike)
    ]
    return Collection(samples=tuple(samples), left_out=dict(left_out))


def latest_evaluation(gradings: Sequence[Grading]) -> Evaluation | None:
    """Return the newest evaluation by any grader; None without one."""
    reached = [grading for grading in gradings if grading.evaluation is not None]
    return max(reached, key=lambda grading: grading.graded_at).evaluation if reached else None


def kernel_share(evaluation: Evaluation | None) -> float | None:
    """Return the share of device time in the candidate's own kernels; None if it was not profiled."""
    profile = evaluation.diagnosis.profile if evaluation and evaluation.diagnosis else None
    return min(profile.own_share, 1.0) if profile else None


def group_of(attempt: Attempt) -> str:
    """Name the group of an attempt: same problem, kind of device and rules."""
    problem, rules = attempt.observation.problem, attempt.observation.rules
    return f"{problem.digest}|{problem.device}|{rules.allow_library}|{rules.precision}|{rules.target}"


def _prompt_ids(attempt: Attempt, encode: Encode | None) -> tuple[int, ...]:
    completion = attempt.completion
    if completion.prompt_ids is None and completion.messages and encode is not None:
        return tuple(encode(completion.messages))
    return completion.prompt_ids or ()


def _alike(attempts: Sequence[Attempt]) -> list[int | None]:
    """Count for each attempt the earlier ones of its group with equal structure."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, attempt in enumerate(attempts):
        places[group_of(attempt)].append(place)
    counts: list[int | None] = [None] * len(attempts)
    for own in places.values():
        for place, count in zip(own, novelty.earlier_alike(attempts[place].source for place in own)):
            counts[place] = count
    return counts


def _sample(
    attempt: Attempt,
    evaluation: Evaluation | None,
    prompt: tuple[int, ...],
    earlier_alike: int | None,
    recipe: Recipe,
    knowledge: Knowledge,
) -> TrainingSample:
    completion = attempt.completion
    tokens = completion.token_ids or ()
    with_plan, without_plan = knowledge.plan_gains.get(attempt.key, (None, None))
    facts = Facts(
        source=attempt.source or "",
        problem_sound=knowledge.sound.get(attempt.observation.problem.digest),
        kernel_share=kernel_share(evaluation),
        tokens=len(tokens),
        token_limit=knowledge.token_limit,
        earlier_alike=earlier_alike,
        log_likelihood_with_plan=with_plan,
        log_likelihood_without_plan=without_plan,
    )
    roles = token_roles(tokens, completion.mask, attempt.source, knowledge.decode)
    turn = Turn(
        key=attempt.key,
        group=group_of(attempt),
        number=attempt.turn,
        parent=attempt.parent,
        reward=grade(recipe, evaluation, facts),
        potential=recipe.potentials.get(evaluation.status, 0.0) if evaluation else 0.0,
        has_plan=TokenRole.PLAN in roles,
    )
    return TrainingSample(
        turn=turn,
        prompt_ids=prompt,
        token_ids=tokens,
        roles=roles,
        log_probabilities=completion.log_probabilities,
        log_probabilities_of=completion.log_probabilities_of,
        sampling=completion.sampling,
        tokenizer=completion.tokenizer,
        policy_version=completion.policy_version,
        kernel_share=facts.kernel_share,
    )


def token_roles(
    tokens: Sequence[int],
    mask: Sequence[bool] | None,
    source: str | None,
    decode: Decode | None,
) -> tuple[TokenRole, ...]:
    """Label tokens: code from where the source begins, plan before it, feedback where the policy did not choose.

    An answer without code is all plan; without a decoder, all is code.
    """
    begin = _code_begins(tokens, source, decode)
    chosen = mask if mask is not None else [True] * len(tokens)
    return tuple(
        TokenRole.FEEDBACK if not own else TokenRole.PLAN if place < begin else TokenRole.CODE
        for place, own in enumerate(chosen)
    )


def _code_begins(tokens: Sequence[int], source: str | None, decode: Decode | None) -> int:
    """Return the first token that holds part of the source."""
    if decode is None:
        return 0
    if not source or not source.strip():
        return len(tokens)
    said = decode(tokens)
    at = said.rfind(source.strip())
    if at < 0:  # the source was reformatted: use the last fence before the class
        model = said.rfind("class ModelNew")
        at = said.rfind("```", 0, model) if model >= 0 else -1
    if at < 0:
        return 0
    return bisect.bisect_left(range(len(tokens)), True, key=lambda place: len(decode(tokens[: place + 1])) > at)
