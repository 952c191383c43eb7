"""Alembic's environment: runs on the connection `lakeward.registry.engine.migrate` hands over."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

from lakeward.registry.schema import metadata

MIGRATION_LOCK = 0x1A4E_0A9D  # any constant: two `stack up` at once migrate one after the other

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata)
with context.begin_transaction():
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
    context.run_migrations()
