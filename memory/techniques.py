"""Finds the techniques that a plan names, in a small fixed vocabulary.

Plans are prose, and no two are alike; they are compared by what they try. A plan that names no known technique counts
as its own first sentence without figures, so that an author with plans of a fixed form is counted, too. Only words are
read: nothing checks that the kernel does what its plan says.
"""

from __future__ import annotations

import re

MOST = 4
"""Techniques counted per plan, since a plan that names everything is about nothing in particular."""
CHARACTERS_READ = 600
"""Characters of a plan that are read: the beginning states its subject, and models write long plans."""
LONGEST_OWN_WORDS = 80

_PATTERNS: dict[str, str] = {
    "autotuning": r"auto-?tun",
    "larger blocks": r"(larger|bigger|wider|increas\w+)( the)? (block|tile)|(block|tile)s?( size)? (larger|bigger|up)",
    "smaller blocks": r"(smaller|reduc\w+|shrink\w*)( the)? (block|tile)|(block|tile)s?( size)? (smaller|down)",
    "more warps": r"(more|increas\w+) (num_)?warps",
    "fewer warps": r"(fewer|less|reduc\w+) (num_)?warps",
    "software pipelining": r"num_stages|pipelin",
    "fusion": r"\bfus(e|es|ed|ing|ion)\b|one (kernel|pass|launch)|single (kernel|pass|launch)",
    "splitting into passes": r"two[- ]pass|split.{0,20}(passes|kernels)",
    "split-k": r"split[- _]?k\b",
    "stream-k": r"stream[- _]?k\b",
    "persistent kernel": r"persistent",
    "grouped tile order": r"swizzl|group(ed)?[_ -](m|order|ordering)\b|l2[- ](reuse|locality)",
    "vectorised access": r"vectori[sz]|(128|64)-bit (load|store)|wide(r)? (load|store)",
    "coalesced access": r"coalesc",
    "several rows per program": r"(several|multiple|many|more) rows",
    "online algorithm": r"online (softmax|algorithm|normali)|welford|running (max|mean|sum)",
    "tensor cores": r"tensor[- ]?core|\btl\.dot\b|\bmma\b",
    "block pointers": r"block[_ ](ptr|pointer)|tensor descriptor|\btma\b",
    "cache hints": r"evict(ion)?[_ ]|cache[_ ]modifier|streaming (load|store)",
    "atomics": r"\batomic",
    "recomputation": r"recomput",
    "shared loads": r"(reuse|share|keep)\w*.{0,30}(register|shared memory|load)",
    "masks avoided": r"(avoid|remov|drop|without)\w*.{0,20}mask",
    "index arithmetic": r"(index|address|pointer) (arithmetic|comput)|strength reduc",
    "constant specialisation": r"constexpr|speciali[sz]",
    "unrolling": r"unroll|static_range",
    "layout change": r"(transpos|layout|re-?order)\w*",
    "exp2": r"\bexp2\b|base[- ]two",
}
_VOCABULARY = {name: re.compile(pattern) for name, pattern in _PATTERNS.items()}


def techniques_of(plan: str) -> tuple[str, ...]:
    """Return names in the order of the vocabulary; empty for an empty plan."""
    beginning = plan[:CHARACTERS_READ].lower()
    named = tuple(name for name, pattern in _VOCABULARY.items() if pattern.search(beginning))
    if named:
        return named[:MOST]
    own = own_words(plan)
    return (own,) if own else ()


def own_words(plan: str) -> str:
    """Return the first sentence in lower case, with `#` for each figure."""
    sentence = re.split(r"(?<=[.!?;])\s|\n", plan[:CHARACTERS_READ].strip(), maxsplit=1)[0]
    plain = re.sub(r"\s+", " ", re.sub(r"\d+(\.\d+)?", "#", sentence.lower()))
    return "".join(letter for letter in plain if letter.isprintable())[:LONGEST_OWN_WORDS].strip(" .;:")
