"""Rows that a check will call failing, counted while they land"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batches", sa.Column("advisory", postgresql.JSONB(none_as_null=True), nullable=True))
