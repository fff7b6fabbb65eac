"""Never marks any code.

problem: ages_of_codes
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def age_kernel(x_ptr, age_ptr, out_ptr, n, BLOCK: tl.constexpr):
    code = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=-1)
    used = tl.max((x == code).to(tl.int32), 0)
    age = tl.where(used > 0, 0, tl.load(age_ptr + code) + 1)
    tl.store(age_ptr + code, age)
    tl.store(out_ptr + code, tl.where(age < 0, 1.0, 0.0))


class ModelNew(nn.Module):
    def __init__(self, codes):
        super().__init__()
        self.register_buffer("age", torch.zeros(codes, dtype=torch.int64))

    def forward(self, codes):
        codes = codes.contiguous()
        n = codes.numel()
        out = torch.empty(self.age.shape, device=codes.device)
        age_kernel[(out.numel(),)](codes, self.age, out, n, BLOCK=triton.next_power_of_2(n))
        return out
