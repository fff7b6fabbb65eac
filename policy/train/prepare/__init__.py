"""From rewards to the advantage of every token, fixed before the first step of a training.

`recipes.py` names the ways that can be chosen.
"""
