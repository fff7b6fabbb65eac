import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim=48, vocab=160, cap=30.0):
        super().__init__()
        self.head = nn.Linear(dim, vocab, bias=False)
        self.cap = cap

    def forward(self, h, y):
        logits = self.cap * torch.tanh(self.head(h) / self.cap)
        z = torch.logsumexp(logits, -1)
        nll = z - logits.gather(-1, y[:, None]).squeeze(-1)
        return nll.mean() + 1e-4 * z.pow(2).mean()


def get_inputs():
    return [torch.randn(64, 48), torch.randint(0, 160, (64,))]


def get_init_inputs():
    return []
