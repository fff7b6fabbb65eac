"""The store of runs, attempts and gradings, and what earlier runs teach about a problem (recall).

`records.py` holds the types, `store.py` keeps them (tables and queries are in `sql`), `recall.py` reads lessons. May
import only `tools`. `exchange` holds formats for export and import, `migrations` the versions of the tables.
"""
