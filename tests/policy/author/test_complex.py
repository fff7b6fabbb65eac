"""Own kernels compute complex inputs, results and intermediate values as pairs of real numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.policy.author.briefs import brief_of, problem
from tests.policy.author.test_author import check_passes

from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import write
from triton_agent.tools.evaluate.evaluator import Evaluator
from triton_agent.tools.processes.zygotes import Nursery
from triton_agent.tools.settings import EvaluatorSettings

ROTARY = """
BATCH, STEPS, HEADS, WIDTH = 2, 6, 3, 8


class Model(nn.Module):
    def __init__(self, width, longest):
        super().__init__()
        angles = torch.outer(torch.arange(longest).float(), 1.0 / 100.0 ** (torch.arange(0, width, 2).float() / width))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, q, k):
        turns = self.turns[: q.shape[1]].view(1, q.shape[1], 1, -1)
        q_pairs = torch.view_as_complex(q.reshape(*q.shape[:-1], -1, 2))
        k_pairs = torch.view_as_complex(k.float().reshape(*k.shape[:-1], -1, 2))
        turned = torch.view_as_real(k_pairs * turns.conj()).flatten(3)
        return torch.view_as_real(q_pairs * turns).flatten(3), turned.type_as(k)


def get_inputs():
    return [torch.randn(BATCH, STEPS, HEADS, WIDTH), torch.randn(BATCH, STEPS, HEADS, WIDTH).half()]


def get_init_inputs():
    return [WIDTH, 50]
"""

ARITHMETIC = """
ROWS, WIDTH = 6, 10


class Model(nn.Module):
    def forward(self, z, x, angle):
        w = torch.complex(x, x + 1.0) * 0.5 - z / 2.0
        made = torch.polar(torch.ones_like(angle), angle) * w.conj() + 1j * z
        return made, -z.t(), (z * w).abs(), made.sum(1).angle(), z.real * z.imag, torch.exp(z).mean(0)


def get_inputs():
    z = torch.randn(ROWS, WIDTH, dtype=torch.complex64)
    return [z, torch.randn(ROWS, WIDTH), torch.randn(WIDTH)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("text", [ROTARY, pytest.param(ARITHMETIC, marks=pytest.mark.slow)])
def test_complex_numbers_are_pairs(text: str, tmp_path: Path, nursery: Nursery) -> None:
    check_passes(tmp_path, nursery, text)


def test_complex_numbers_are_seen_as_pairs_once_by_torch(tmp_path: Path) -> None:
    brief = brief_of(problem(tmp_path, ROTARY))
    source = write(brief, first_choice(brief)).source
    assert source.count("torch.ops.") == source.count("aten.view_as_real") == 1


FREQUENCIES = """
BATCH, CHANNELS, LENGTH, KEPT = 2, 3, 16, 5


class Model(nn.Module):
    def __init__(self, inputs, outputs, kept):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(inputs, outputs, kept, dtype=torch.cfloat))
        self.skip = nn.Conv1d(inputs, outputs, 1)

    def forward(self, x):
        found = torch.fft.rfft(x)
        kept = self.weight.shape[2]
        made = torch.zeros(x.shape[0], self.weight.shape[1], x.shape[-1] // 2 + 1, dtype=torch.cfloat)
        made[:, :, :kept] = torch.einsum("bix,iox->box", found[:, :, :kept], self.weight)
        return F.gelu(torch.fft.irfft(made, n=x.shape[-1]) + self.skip(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [CHANNELS, 4, KEPT]
"""


def test_between_two_transforms_frequencies_are_multiplied_by_own_kernels(tmp_path: Path, nursery: Nursery) -> None:
    """Only the transforms stay in torch; own kernels compute the products of complex matrices and the slice
    assignment.
    """
    spec = problem(tmp_path, FREQUENCIES)
    brief = brief_of(spec, allow_library=True)
    source = write(brief, first_choice(brief)).source
    called = set(re.findall(r"torch\.ops\.aten\.(\w+)", source))
    assert called == {"_fft_r2c", "_fft_c2r", "view_as_real", "view_as_complex"}
    with Evaluator(spec, EvaluatorSettings(target=None, allow_library=True), nursery=nursery) as evaluator:
        verdict = evaluator.evaluate(source)
    assert verdict.status == "passed", f"{verdict.message}\n{source}"
