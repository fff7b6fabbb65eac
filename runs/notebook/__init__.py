"""Results as a notebook shows them: evaluations, outcomes of `optimize`, runs and attempts as HTML.

`cards.py` draws them from values alone; `triton_agent.optimize` and its like bring them. Begin there.
"""
