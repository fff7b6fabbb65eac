"""The executor: replays tapes on real inputs, on a GPU or in the interpreter. No candidate's Python runs in it.

It never holds an expected value.
"""
