"""The migrations, in the order of their numbers.

A released step is never edited.
"""
