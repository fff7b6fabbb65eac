"""Renders an observation as a system and a user message within a token budget.

`prompt.py` is the entry point. Templates are in `templates/`, quoting of foreign text is in `quoting.py`, and the
priorities of parts are in `forms.py`.
"""
