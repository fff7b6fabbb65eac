"""Chains of turns: which turns the search chose, and which turn each one continues."""

from __future__ import annotations

import dataclasses

import pytest
from tests.policy.train.evaluations import failed, timing
from tests.policy.train.logged import attempt, grading
from tests.verdicts import passed

from triton_agent.policy.train.prepare.credit import assign, returns
from triton_agent.policy.train.prepare.recipes import RECIPES
from triton_agent.policy.train.record.chains import Link, own_parents, progress_before, searched_runs, twins
from triton_agent.policy.train.record.trajectories import collect
from triton_agent.tools.results import Finding

DEFAULT = RECIPES["default"]


def links(*chain: str, run: str = "r", author: str = "llm") -> list[Link]:
    """Return links: `0a` begins a chain, `1b<0a` continues `0a`, and a third word names the author."""
    found = []
    for text in chain:
        place, _, rest = text.partition("<")
        parent, _, who = rest.partition(" ")
        name = f"{run}/{place}"
        found.append(
            Link(
                key=name,
                run=run,
                number=int(place[0]),
                parent=f"{run}/{parent}" if parent else None,
                author=who or author,
            )
        )
    return found


@pytest.mark.parametrize(
    ("chain", "searched"),
    [
        (("0a", "1a<0a", "2a<1a"), False),
        (("0a", "0b", "1a<0a", "1b<0b"), False),
        (("0a",), False),
        (("0a", "0b", "1a<0a", "1b<0a"), True),  # the search dropped b and extended a twice
        (("0a", "0b", "1a<0a"), True),  # the search dropped b
        (("0a", "1a<0a", "2a<0a"), True),  # the search went back
        (("0a", "1a"), True),  # the search started afresh
        (("0a", "2a<0a"), True),  # a turn between them is missing
    ],
)
def test_a_run_in_which_search_cut_or_extended_chains_is_known(chain: tuple[str, ...], searched: bool) -> None:
    assert searched_runs(links(*chain)) == ({"r"} if searched else set())


def test_an_author_s_turn_follows_its_own_last_turn_across_those_of_others() -> None:
    mixed = links("0a", "1b<0a builtin", "2c<1b builtin", "3d<2c", "4e<3d")
    assert own_parents(mixed) == {"r/0a": None, "r/1b": None, "r/2c": "r/1b", "r/3d": "r/0a", "r/4e": "r/3d"}


def test_what_a_run_was_forked_from_is_no_turn_of_it() -> None:
    forked = dataclasses.replace(links("0a", run="s")[0], parent="r/3d")
    old = links("3d")
    assert own_parents([*old, forked])["s/0a"] is None
    assert searched_runs([*old, forked]) >= {"s"}, "somebody chose where to begin"


def test_a_turn_cannot_set_out_from_a_later_one() -> None:
    with pytest.raises(ValueError, match="not an earlier turn"):
        own_parents(links("0a<1b", "1b"))


def test_progress_before_a_turn_is_that_of_all_authors_on_its_path() -> None:
    mixed = links("0a", "1b<0a builtin", "2c<1b", "1d<0a", "2e<1d")
    reached = {"r/0a": 0.2, "r/1b": 0.5, "r/1d": 0.1}
    mixed = [dataclasses.replace(link, progress=reached.get(link.key, 0.0)) for link in mixed]
    assert progress_before(mixed) == {"r/0a": 0.0, "r/1b": 0.2, "r/1d": 0.2, "r/2c": 0.5, "r/2e": 0.2}


def test_shaping_credits_no_turn_with_what_another_author_reached_before_it() -> None:
    """The model begins its second turn from a kernel that passed, once its own and once the built-in author's."""
    shaped = dataclasses.replace(RECIPES["kevin"], potentials=DEFAULT.potentials)
    records = []
    for run, second in (("a", "builtin"), ("b", "llm")):
        parent = None
        for turn, (policy, verdict) in enumerate((("llm", WRONG), (second, FAST), ("llm", FAST))):
            made = attempt(run, turn, parent=parent, policy=policy, token_ids=(5, turn), source=f"{run} = {turn}")
            records.append((made, (grading(made.key, verdict),)))
            parent = made.key
    turns = [sample.turn for sample in collect(records, shaped).samples]
    found = returns(turns, shaped.gamma, lambda paid: paid.total, shaped=True)
    assert found["a/2.0"] == found["b/2.0"]
    assert found["a/0.0"] == pytest.approx(returns(turns, shaped.gamma, lambda paid: paid.total)["a/0.0"] or 0.0)


def test_a_twin_repeats_an_earlier_turn_and_not_a_sibling() -> None:
    named = [dataclasses.replace(one, program="same") for one in links("0a", "0b", "1c<0a", "2d<1c")]
    assert twins(named) == {"r/1c", "r/2d"}
    assert twins([dataclasses.replace(one, program="") for one in named]) == frozenset()


def collected(*turns: tuple[str, int, int, str | None, str, object]) -> dict[str, object]:
    """Return the advantages of turns given as (run, turn, index, parent, policy, verdict)."""
    records = []
    for number, (run, turn, index, parent, policy, verdict) in enumerate(turns):
        made = attempt(run, turn, parent=parent, policy=policy, token_ids=(5, number), source=f"x = {number}")
        if policy == "builtin":
            completion = dataclasses.replace(made.completion, token_ids=None, log_probabilities=None)
            made = dataclasses.replace(made, completion=completion)
        made = dataclasses.replace(made, index=index)
        records.append((made, (grading(made.key, verdict),)))  # type: ignore[arg-type]
    credit = assign([sample.turn for sample in collect(records, RECIPES["kevin"]).samples], RECIPES["kevin"])
    return {key: advantage.code for key, advantage in credit.advantages.items()}


FAST, WRONG = passed(timing(2, 2, 2)), failed(Finding.VALUES)


def test_being_followed_by_a_search_is_no_advantage() -> None:
    beam = collected(
        ("r", 0, 0, None, "llm", FAST),
        ("r", 0, 1, None, "llm", FAST),
        ("r", 0, 2, None, "llm", WRONG),
        ("r", 1, 0, "r/0.0", "llm", FAST),
        ("r", 1, 1, "r/0.0", "llm", FAST),
    )
    assert beam["r/0.0"] == beam["r/0.1"] > beam["r/0.2"]  # type: ignore[operator]


def test_chains_without_search_are_credited_with_what_followed_and_not_compared_with_searched_turns() -> None:
    chains = [
        ("a", 0, 0, None, "llm", WRONG),
        ("a", 1, 0, "a/0.0", "llm", FAST),
        ("b", 0, 0, None, "llm", WRONG),
        ("b", 1, 0, "b/0.0", "llm", WRONG),
    ]
    alone = collected(*chains)
    assert alone["a/0.0"] > alone["b/0.0"]  # type: ignore[operator]
    beam = [("r", 0, i, None, "llm", v) for i, v in enumerate((FAST, WRONG))] + [("r", 1, 0, "r/0.0", "llm", FAST)]
    both = collected(*chains, *beam)
    assert {key: both[key] for key in alone} == alone


def test_each_author_of_a_chain_is_credited_by_its_own_turns() -> None:
    """The authors are the model, the built-in author and the model again. The model gets no credit for the built-in
    author.
    """
    mixed = [
        ("a", 0, 0, None, "llm", WRONG),
        ("a", 1, 0, "a/0.0", "builtin", FAST),
        ("a", 2, 0, "a/1.0", "llm", WRONG),
        ("b", 0, 0, None, "llm", WRONG),
        ("b", 1, 0, "b/0.0", "builtin", WRONG),
        ("b", 2, 0, "b/1.0", "llm", WRONG),
    ]
    assert collected(*mixed) == {}, "the built-in author's success makes no difference among the model's turns"
    mixed[2] = ("a", 2, 0, "a/1.0", "llm", FAST)
    found = collected(*mixed)
    assert found["a/2.0"] > found["a/0.0"] > found["b/0.0"] == found["b/2.0"], "its own later turn does, discounted"  # type: ignore[operator]
