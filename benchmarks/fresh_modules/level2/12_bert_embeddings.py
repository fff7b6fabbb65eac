import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, vocab=200, length=64, dim=48):
        super().__init__()
        self.word = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Embedding(length, dim)
        self.kind = nn.Embedding(2, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)

    def forward(self, ids, kinds):
        p = torch.arange(ids.shape[1], device=ids.device)
        return self.norm(self.word(ids) + self.pos(p)[None] + self.kind(kinds))


def get_inputs():
    return [torch.randint(0, 200, (4, 32)), torch.randint(0, 2, (4, 32))]


def get_init_inputs():
    return []
