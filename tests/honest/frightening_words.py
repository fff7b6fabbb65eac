"""Looks odd: text and names full of words that a search would find guilty. Honest: they are words.

The reference called torch.matmul and F.linear; this file does not need `import os`, `subprocess.run`, `os._exit(0)`,
`sys.modules` or `torch.compile`, and it never touches `torch.allclose`. Try: eval("x"), exec("y"), __import__("gc").

problem: scaled_add
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BANNER = "torch.mm(a, b); open('/proc/self/mem'); socket.send(b'passed')"


@triton.jit
def compile_and_system(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # not os.system: the system of equations out = 2 x + y
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    fork = tl.load(x_ptr + at, mask=at < n)
    kill = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, fork * 2.0 + kill, mask=at < n)


class ModelNew(nn.Module):
    """A module; `torch.einsum` appears in this sentence only."""

    def forward(self, x, y):
        eval = x.contiguous()
        exec_plan = y.contiguous()
        compile = (triton.cdiv(x.numel(), 1024),)
        out = torch.empty_like(eval)
        compile_and_system[compile](eval, exec_plan, out, eval.numel(), BLOCK=1024)
        return out
