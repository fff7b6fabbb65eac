"""The text of a candidate: the screen, its identity, and its failures condensed for the author.

Nothing here runs a candidate.
"""
