# ruff: noqa: E402, F811
import torch
import triton
import triton.language as tl


@triton.jit
def row_peaks_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(out_ptr + row, tl.max(x, axis=0))


def write_row_peaks(x, out):
    """Writes the largest value of each row into out."""
    row_peaks_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))


##################################################################################################################################################

import torch


def test_row_peaks():
    x = torch.randn(7, 100, dtype=torch.float32, device="cuda")
    peaks = torch.empty(7, dtype=torch.float32, device="cuda")
    write_row_peaks(x, peaks)
    return {"test_case_1": peaks.clone()}


result_gold = test_row_peaks()
