"""Shows evaluations, outcomes of `optimize`, runs and attempts as HTML in notebooks.

`cards.py` draws them; it needs nothing but their values.
"""
