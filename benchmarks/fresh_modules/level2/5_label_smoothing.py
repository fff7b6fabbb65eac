import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, eps=0.1, ignore=-100):
        super().__init__()
        self.eps, self.ignore = eps, ignore

    def forward(self, logits, target):
        lp = F.log_softmax(logits.float(), dim=-1)
        keep = target != self.ignore
        nll = -lp.gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        smooth = -lp.mean(-1)
        loss = (1 - self.eps) * nll + self.eps * smooth
        return (loss * keep).sum() / keep.sum()


def get_inputs():
    return [torch.randn(128, 200), torch.randint(0, 200, (128,))]


def get_init_inputs():
    return []
