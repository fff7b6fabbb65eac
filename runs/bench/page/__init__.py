"""A benchmark record, or two compared, as one HTML page that needs nothing else.

`page.py` puts it together.
"""
