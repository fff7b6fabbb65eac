"""The executor: replays tapes on real inputs, on a GPU or in the interpreter, without running a candidate's Python.

It never holds an expected value.
"""
