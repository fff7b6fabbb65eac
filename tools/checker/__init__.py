"""The checker: the trusted process that takes candidates one by one through the stages of a verdict.

`pipeline.py` lists the stages.
"""
