"""Alembic's environment: migrates over the connection that it is given, in the open transaction.

There is no command line and no .ini file; `memory/sql/schema.py` is the only caller.
"""

from alembic import context

from triton_agent.memory.sql.tables import SCHEMA_TABLE, TableBase

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=TableBase.metadata,
    version_table=SCHEMA_TABLE,
    version_table_pk=True,
)
context.run_migrations()
