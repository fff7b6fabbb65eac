"""Pointwise steps of composed problems: activations, arithmetic with numbers, other inputs and earlier values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from triton_agent.policy.train.data.blueprint import ONE, Blueprint, Value

Move = Callable[[Blueprint, Value], Value | None]
"""Adds a step to a blueprint and returns its result; adds nothing and returns None if the step does not fit."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pointwise:
    """A pointwise function of one tensor."""

    word: str
    phrase: str
    names: tuple[str, ...]
    text: str
    """Template with `{x}` for the tensor and `{a}` for one of the numbers."""
    numbers: tuple[float, ...] = (0.0,)
    takes_positive: bool = False
    """True if the function is defined for positive numbers only."""
    gives_positive: bool = False
    changes_positive: bool = True
    """False if the function leaves positive numbers unchanged."""

    def __call__(self, blueprint: Blueprint, x: Value) -> Value | None:
        if (self.takes_positive and not x.positive) or (x.positive and not self.changes_positive):
            return None
        expression = self.text.format(x=x.name, a=blueprint.chance.choice(self.numbers))
        return blueprint.step(self.word, self.phrase, [x], self.names, expression, positive=self.gives_positive)


def _functions(lines: str, **traits: bool) -> list[Pointwise]:
    """Parse a table with the columns word, phrase, names, text and numbers, separated by bars."""
    found = []
    for line in lines.strip().splitlines():
        word, phrase, names, text, *numbers = (cell.strip() for cell in line.split(" | "))
        choices = tuple(map(float, numbers[0].split())) if numbers else (0.0,)
        found.append(
            Pointwise(word=word, phrase=phrase, names=tuple(names.split()), text=text, numbers=choices, **traits)
        )
    return found


ACTIVATIONS: Sequence[Pointwise] = (
    *_functions(
        """
        leaky_relu | applies a leaky ReLU | activated leaky | F.leaky_relu({x}, {a}) | 0.01 0.1 0.2
        elu | applies ELU | activated bent | F.elu({x}, alpha={a}) | 0.5 1.0
        celu | applies CELU | activated bent | F.celu({x}, alpha={a}) | 0.5 1.0 2.0
        selu | applies SELU | activated scaled | F.selu({x})
        gelu | applies GELU | activated hidden | F.gelu({x})
        tanh_gelu | applies GELU by its tanh formula | activated hidden | F.gelu({x}, approximate="tanh")
        quick_gelu | applies the sigmoid form of GELU | activated hidden | {x} * torch.sigmoid(1.702 * {x})
        silu | applies SiLU | activated hidden | F.silu({x})
        mish | applies Mish | activated smooth | F.mish({x})
        tanh | applies tanh | squashed bounded | torch.tanh({x})
        softsign | applies softsign | squashed bounded | F.softsign({x})
        hardswish | applies hard swish | activated hidden | F.hardswish({x})
        hardtanh | clips to a range | clipped bounded | {x}.clamp(-{a}, {a}) | 0.5 1.0 2.0
        softshrink | shrinks towards zero | shrunk kept | F.softshrink({x}, {a}) | 0.1 0.3 0.5
        tanhshrink | applies tanhshrink | shrunk residue | F.tanhshrink({x})
        log_sigmoid | takes the log of the sigmoid | log_gate scores | F.logsigmoid({x})
        sine | takes the sine | wave phase | torch.sin({a} * {x}) | 0.5 1.0 2.0
        cosine | takes the cosine | wave phase | torch.cos({a} * {x}) | 0.5 1.0 2.0
        arc_tangent | takes the arc tangent | angle bounded | torch.atan({x})
        error_function | applies the error function | squashed bounded | torch.erf({x})
        symmetric_log | compresses by a signed logarithm | compressed logs | torch.sign({x}) * torch.log1p({x}.abs())
        soft_cap | caps softly | capped bounded | {a} * torch.tanh({x} / {a}) | 2.0 5.0 15.0
        cube | takes the cube | cubed powers | {x} * {x} * {x}
        snake | adds a squared sine | periodic wave | {x} + torch.sin({x}).square()
        negated | changes the sign | negated opposite | -{x}
        """
    ),
    *_functions(
        """
        relu | applies ReLU | rectified activated | F.relu({x})
        relu6 | applies ReLU6 | rectified activated | F.relu6({x})
        squared_relu | applies a squared ReLU | rectified activated | F.relu({x}).square()
        magnitude | takes the magnitude | magnitude sizes | {x}.abs()
        """,
        gives_positive=True,
        changes_positive=False,
    ),
    *_functions(
        """
        sigmoid | applies a sigmoid | gate probability | torch.sigmoid({x})
        hard_sigmoid | applies a hard sigmoid | gate opened | F.hardsigmoid({x})
        softplus | applies softplus | softened positive | F.softplus({x})
        square | squares | squares energy | {x}.square()
        bell | takes a Gaussian | bell closeness | torch.exp(-{a} * {x}.square()) | 0.25 0.5 1.0
        decay | decays exponentially with the magnitude | decayed faded | torch.exp(-{x}.abs())
        pseudo_huber | takes the smooth magnitude | smooth length | torch.sqrt({x}.square() + {a}) | 0.5 1.0 2.0
        inverse_root | takes an inverse square root | damping factor | torch.rsqrt({x}.square() + {a}) | 0.5 1.0
        cauchy | takes a Cauchy weight | closeness damping | 1.0 / (1.0 + {x}.square())
        """,
        gives_positive=True,
    ),
    *_functions("log | takes the logarithm | logs log_value | torch.log({x} + {a}) | 0.1 0.5", takes_positive=True),
    *_functions(
        """
        square_root | takes the square root | roots rooted | torch.sqrt({x} + {a}) | 0.01 0.1 1.0
        power | takes a power | powers curved | torch.pow({x} + 0.01, {a}) | 0.75 1.5
        reciprocal | takes the reciprocal | inverse reciprocal | 1.0 / ({x} + {a}) | 0.5 1.0
        """,
        takes_positive=True,
        gives_positive=True,
    ),
)
AFFINE: Sequence[Pointwise] = _functions(
    """
    scale | multiplies by a number | scaled weighted | {x} * {a} | 0.125 0.25 0.7 1.5 2.0 3.0
    shift | adds a number | shifted moved | {x} + {a} | 0.1 0.5 1.0 2.0
    scale_shift | scales and shifts by numbers | mapped adjusted | {a} * {x} + 0.5 | 0.5 0.8 1.2 2.0
    complement | subtracts from a number | rest complement | {a} - {x} | 0.5 1.0 2.0
    divide | divides by a number | reduced divided | {x} / {a} | 1.7 3.0 6.0
    """
)

_WITH_ANOTHER = (
    # word, phrase, names of the other input, names of the result, text
    ("add_input", "adds another input", "residual skip other", "summed joined", "{x} + {y}"),
    ("scaled_residual", "adds a scaled input", "residual skip branch", "summed joined", "{x} + 0.5 * {y}"),
    ("subtract_input", "subtracts another input", "target reference", "difference error", "{x} - {y}"),
    ("multiply_input", "multiplies by another input", "weight factor", "product weighted", "{x} * {y}"),
    ("sigmoid_gate", "gates by a sigmoid", "gate control", "gated passed", "torch.sigmoid({y}) * {x}"),
    ("silu_gate", "gates by SiLU", "gate control", "gated passed", "F.silu({y}) * {x}"),
    ("tanh_gate", "gates by tanh", "gate control", "gated passed", "{x} * torch.tanh({y})"),
    ("maximum_input", "takes the larger of two", "floor lower", "larger upper", "torch.maximum({x}, {y})"),
    ("minimum_input", "takes the smaller of two", "ceiling upper", "smaller lower", "torch.minimum({x}, {y})"),
    ("blend", "blends with another input", "other target", "blended mixed", "torch.lerp({x}, {y}, 0.3)"),
    ("squared_error", "squares the difference", "target reference", "error penalty", "({x} - {y}).square()"),
    ("distance", "takes the length of the pair", "other", "length radius", "torch.sqrt({x} * {x} + {y} * {y} + 1e-3)"),
    ("damped_ratio", "divides by one plus a magnitude", "scale strength", "ratio damped", "{x} / (1.0 + {y}.abs())"),
    ("squared_sum", "squares the sum with another input", "other partner", "energy squares", "({x} + {y}).square()"),
)  # fmt: skip


def _with_input(word: str, phrase: str, others: str, names: str, text: str) -> Move:
    def move(blueprint: Blueprint, x: Value) -> Value | None:
        if ONE in x.axes or not x.axes or len(blueprint.inputs) > 3:
            return None
        y = blueprint.input(others.split(), x.axes)
        return blueprint.step(word, phrase, [x, y], names.split(), text.format(x=x.name, y=y.name))

    return move


BINARY: Sequence[Move] = tuple(_with_input(*row) for row in _WITH_ANOTHER)


def masked(blueprint: Blueprint, x: Value) -> Value | None:
    """Replace masked elements by a number."""
    if ONE in x.axes or not x.axes:
        return None
    text = f"torch.rand({', '.join(x.axes)}) < {blueprint.chance.choice((0.25, 0.4))}"
    mask = blueprint.special_input(("mask", "dropped"), text, x.axes)
    fill = blueprint.chance.choice((0.0, 0.0, -1.0))
    word, phrase = "masked_fill", "fills masked elements with a number"
    return blueprint.step(word, phrase, [x, mask], ("masked", "kept"), f"{x.name}.masked_fill({mask.name}, {fill})")


def selected(blueprint: Blueprint, x: Value) -> Value | None:
    """Choose between two tensors by a mask."""
    if ONE in x.axes or not x.axes or len(blueprint.inputs) > 2:
        return None
    other = blueprint.input(("other", "fallback"), x.axes)
    mask = blueprint.special_input(("keep", "mask"), f"torch.rand({', '.join(x.axes)}) < 0.5", x.axes)
    expression = f"torch.where({mask.name}, {x.name}, {other.name})"
    return blueprint.step("where", "chooses by a mask", [x, other, mask], ("chosen", "selected"), expression)


def signed_branch(blueprint: Blueprint, x: Value) -> Value | None:
    """Apply another function to negative elements."""
    if x.positive:
        return None
    slope = blueprint.chance.choice((0.05, 0.3, 0.6))
    expression = f"torch.where({x.name} > 0, {x.name}, {slope} * torch.sin({x.name}))"
    return blueprint.step("branch", "bends negative numbers by a sine", [x], ("bent", "branched"), expression)


def with_earlier(blueprint: Blueprint, x: Value, earlier: Value) -> Value | None:
    """Combine the value with an earlier one of the same shape."""
    if earlier.axes != x.axes or earlier.name == x.name:
        return None
    a, b = x.name, earlier.name
    word, phrase, names, text = blueprint.chance.choice(
        (
            ("residual", "adds an earlier value back", ("residual_sum", "joined"), f"{b} + {a}"),
            ("reweighted", "multiplies by an earlier value", ("reweighted", "modulated"), f"{b} * {a}"),
            ("remainder", "subtracts from an earlier value", ("remainder", "left_over"), f"{b} - {a}"),
        )
    )
    return blueprint.step(word, phrase, [x, earlier], names, text)
