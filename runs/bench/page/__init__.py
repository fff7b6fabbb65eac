"""A benchmark record, or a comparison of two, as one self-contained HTML page.

`page.py` puts it together.
"""
