"""Launches of drivers that a cluster starts on a machine of its own, and lag of each stream over time"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "launches",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("driver", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("document", postgresql.JSONB(), nullable=False),
        sa.Column("place", postgresql.JSONB(), nullable=False),
        sa.Column("handle", postgresql.JSONB(), nullable=True),
        sa.Column("host", sa.String(), nullable=True),
        sa.Column("log", sa.String(), nullable=True),
        sa.Column("end_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("dump_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("exit", postgresql.JSONB(), nullable=True),
        sa.Column("log_tail", sa.Text(), nullable=True),
        sa.Column("printed", sa.Text(), nullable=True),
        sa.Column("dump", sa.Text(), nullable=True),
        sa.Column("dumped_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_launches"),
    )
    op.create_index("ix_launches_driver", "launches", ["driver", "at"], unique=False)
    op.create_table(
        "lag_history",
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("lag_records", sa.BigInteger(), nullable=True),
        sa.Column("lag_s", sa.Float(), nullable=True),
        sa.Column("state_rows", sa.BigInteger(), nullable=True),
        sa.Column("state_bytes", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("stream", "at", name="pk_lag_history"),
    )
