"""The store of runs, attempts and gradings, and what earlier runs teach about a problem (recall).

May import only `tools`. `exchange` holds the formats for export and import, `migrations` the versions of the tables.
"""
