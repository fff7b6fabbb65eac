"""How the tables came to be, one step after the other; run by Alembic through `memory/schema.py`."""
