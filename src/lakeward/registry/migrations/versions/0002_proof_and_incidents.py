"""Upgrades that must prove themselves, skipped batches, approvals, incidents, ticks"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _jsonb() -> postgresql.JSONB:
    return postgresql.JSONB(astext_type=sa.Text())


def upgrade() -> None:
    # Only additions with defaults: a driver of the version before goes on writing while people see more.
    op.add_column("streams", sa.Column("proving", _jsonb(), nullable=True))
    op.add_column("generations", sa.Column("failed_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("generations", sa.Column("failure", sa.Text(), nullable=True))
    op.add_column("batches", sa.Column("skipped", sa.BigInteger(), nullable=True))
    op.add_column("observations", sa.Column("watch", _jsonb(), nullable=True))
    op.add_column("operations", sa.Column("approved_by", sa.String(), nullable=True))
    op.add_column("operations", sa.Column("approved_at", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "incidents",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("fields", _jsonb(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("message", _jsonb(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incidents")),
    )
    op.create_index("ix_incidents_kind_subject_opened_at", "incidents", ["kind", "subject", "opened_at"], unique=False)
    # One incident is open for one thing, however many notice it in the same instant.
    op.create_index(
        "uq_incidents_open",
        "incidents",
        ["kind", "subject"],
        unique=True,
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_table(
        "ticks",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.Column("detail", _jsonb(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_ticks")),
    )
