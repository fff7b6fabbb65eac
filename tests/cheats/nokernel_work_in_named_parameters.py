"""forward only launches a canary; the answer is written into the output later, by torch, when the harness asks the
module for its parameters and no longer looks at operators. Without the canary (kernels silenced) nothing is written.

problem: softmax
expect: not_triton|cheated|wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    pending = None

    def named_parameters(self, *args, **kwargs):
        self.finish()
        return super().named_parameters(*args, **kwargs)

    def named_buffers(self, *args, **kwargs):
        self.finish()
        return super().named_buffers(*args, **kwargs)

    def finish(self):
        if self.pending is not None:
            x, out = self.pending
            self.pending = None
            if torch.equal(x, out):  # the canary sang
                out.copy_(torch.softmax(x, dim=-1))

    def forward(self, x):
        out = triton_copy(x)
        self.pending = (x, out)
        return out
