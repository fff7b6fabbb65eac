"""Computes the advantage of every token from rewards, before the first step of a training.

`recipes.py` defines the methods, `credit.py` computes advantages, `prepared.py` writes the rows, and `token_batches.py`
divides them into batches of equal numbers of tokens.
"""
