"""The tables, transactions and queries behind `memory/store.py`, on SQLite and PostgreSQL.

`tables.py` holds the schema, `writing.py` one transaction, `commits.py` groups them, `reading_*.py` the queries. Only
`memory` imports from here, and code that needs the store's location.
"""
