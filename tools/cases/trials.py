"""Makes the trial of one variant: the reference's modules, the cases, and what is made later for one candidate."""

from __future__ import annotations

from collections.abc import Callable

import torch

from triton_agent.tools.answers.timed_looks import LOOKS
from triton_agent.tools.cases.case_maker import CaseMaker, mode_name
from triton_agent.tools.cases.distributions import draw
from triton_agent.tools.cases.layouts import LAYOUTS, OTHER_VALUES, relaid
from triton_agent.tools.cases.plan import AS_GIVEN, Case, Trial, Verify
from triton_agent.tools.cases.state_cases import StateCases
from triton_agent.tools.cases.versions import versions_of
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.processes.payloads import Payload, pack
from triton_agent.tools.processes.tensors import nested_tensors
from triton_agent.tools.reference.reference import Reference
from triton_agent.tools.reference.reference_runs import OriginalRuns
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import Expectation, state_of


def make_trial(
    reference: Reference,
    name: str,
    settings: EvaluatorSettings,
    notes: list[str],
    *,
    main: bool,
    pause: Callable[[], None] = lambda: None,
) -> tuple[Trial, torch.nn.Module]:
    """Return the cases of one variant, and the reference. `pause` is called before each run of the reference."""
    build_seed = secret_seed()
    models = [model.to(settings.device) for model in versions_of(reference, build_seed, settings, main=main)]
    maker = CaseMaker(reference, name, models, settings, notes, pause, build_seed)
    cases = maker.main_cases() if main else maker.variant_cases()
    looks = maker.looks(LOOKS, cases) if main and settings.device == "cuda" else []
    maker.runs = OriginalRuns(reference=reference, settings=settings)  # candidates wait for what is made later
    trial = Trial(
        variant=name,
        packed_init=pack(reference.told_arguments()),
        by_keyword=reference.keyword_only(),
        build_seed=build_seed,
        states=tuple(pack(state_of(model)) for model in models),
        cases=tuple(cases),
        modes=tuple(map(mode_name, maker.modes)),
        other_mode=maker.in_other_mode(cases) if main else (),
        looks=tuple(looks),
        holding=maker.number_cases.holding if settings.remedies else None,
        meeting=maker.number_cases.meeting if settings.remedies else None,
        at_other_branches=maker.cases_in_second_mode if main else maker.cases_at_other_branches,
        with_other_parameters=maker.with_other_parameters,
        chain=maker.chain if settings.remedies else None,
        own_limits=maker.own_limits,
        following=StateCases(maker).following if settings.remedies else None,
    )
    return trial, models[0].train(cases[0].train)


def _asking(reference: Reference, dense: Payload) -> Verify:
    """Return the problem's own function, called with these inputs in place of those of the call."""
    return lambda _, outputs: reference.verify(dense.unpack(), outputs)


def make_verifier_trial(reference: Reference, name: str) -> Trial:
    """Return a trial with three draws of inputs, for a problem that judges outputs itself.

    More draws lie otherwise in memory, which the problem's own function does not see: it may ask for dense inputs.
    """
    cases, layout_seed = [], secret_seed()
    for number, layout in enumerate(("", "", "", *(it for it in LAYOUTS if it not in OTHER_VALUES)), 1):
        inputs = draw(reference, AS_GIVEN, secret_seed())
        given = relaid(layout, inputs, layout_seed) if layout else inputs
        if given is None:
            continue
        verify = _asking(reference, pack(inputs))
        after = tuple(tensor.clone() for tensor in nested_tensors(given))
        expectation = Expectation(packed_inputs=pack(given), inputs_after=after)
        title = f"{name} / {layout or f'draw {number}'}"
        cases.append(
            Case(name=title, variant=name, distribution=layout or AS_GIVEN, expectation=expectation, verify=verify)
        )
    return Trial(
        variant=name,
        packed_init=pack(reference.told_arguments()),
        by_keyword=reference.keyword_only(),
        build_seed=secret_seed(),
        states=(pack({}),),
        cases=tuple(cases),
    )
