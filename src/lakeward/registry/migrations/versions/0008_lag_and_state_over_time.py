"""Lag and state size of each stream over time"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
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
