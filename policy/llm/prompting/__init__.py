"""Renders an observation as a system and a user message within a number of tokens.

`prompt.py` is the entry; words are in `templates/`, quoting of foreign text in `quoting.py`, priorities in `forms.py`.
"""
