"""Ranges of sizes in a shipped file: brackets of lengths with one plan, fitted from tapes and judged at other lengths.

Imported by `runs/ship`; `brackets.py` is without torch.
"""
