"""The checker: the trusted process that takes one candidate after another through the stages of a verdict.

`pipeline.py` lists the stages.
"""
