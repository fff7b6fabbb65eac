"""Migrations of the store's tables, run by Alembic through `memory/sql/schema.py`.

`versions` holds one step a file.
"""
