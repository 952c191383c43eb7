"""Check runs that are asked for, claimed and answered"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "check_runs",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("place", sa.String(), nullable=False),
        sa.Column("request", postgresql.JSONB(), nullable=False),
        sa.Column("asked_by", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("wanted_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deadline", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.String(), server_default="asked", nullable=False),
        sa.Column("claim", sa.Integer(), server_default="0", nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("session_id", sa.String(), nullable=True),
        sa.Column("told", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column("answer", postgresql.JSONB(), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_check_runs"),
    )
    op.create_index(
        "ix_check_runs_open", "check_runs", ["place", "id"], unique=False,
        postgresql_where=sa.text("finished_at IS NULL"),
    )  # fmt: skip
