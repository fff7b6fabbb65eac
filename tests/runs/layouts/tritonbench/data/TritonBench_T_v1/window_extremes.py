# ruff: noqa: E402, F811
import torch


def window_extremes(input, size, step=1, dtype=None):
    """The largest and smallest value of every window along the last dimension."""
    windows = input.unfold(-1, size, step).to(dtype or input.dtype)
    return windows.amax(dim=-1), windows.amin(dim=-1)


##################################################################################################################################################

import torch


def make_signal(length):
    return torch.randn(3, length)


def test_window_extremes():
    size, step = 5, 2
    signal = make_signal(40).to("cuda")
    return {
        "test_case_1": window_extremes(signal, size, step),
        "test_case_2": window_extremes(signal, size, dtype=torch.float64),
    }


test_results = test_window_extremes()
