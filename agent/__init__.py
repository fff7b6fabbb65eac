"""The search loop: a LangGraph graph around `policy/episode.py`, with search strategy, portfolio and budget.

May import `policy`, `memory` and `tools`. Knows no optimisers, model weights or terminals.
"""
