"""Computes the advantage of every token from rewards, before the first step of a training.

`recipes.py` names the choices, `credit.py` computes, `prepared.py` writes the rows.
"""
