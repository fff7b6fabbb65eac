"""The text of a candidate: the screen that reads it first, its identity, and its failures in words.

Nothing here runs a candidate.
"""
