"""Who writes kernels (`author`, `llm`, `scripted.py`) and how policies learn (`train`).

`protocol.py` is the interface of all authors, `episode.py` one step of an episode. May import `memory` and `tools`.
"""
