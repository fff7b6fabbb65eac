"""Tiles of a planned kernel: what each program takes, in which steps, and how many programs share a row.

The tables of measurements behind the choices are here, too. Imports `ir` and `plan`.
"""
