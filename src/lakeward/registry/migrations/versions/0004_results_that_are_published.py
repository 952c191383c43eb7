"""What a quality run cost, and whether its results stand in the lake"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("verifications", sa.Column("cpu_s", sa.Float(), nullable=True))
    op.add_column("verifications", sa.Column("published_at", sa.DateTime(timezone=True), nullable=True))
    # Runs of before this version are history in the registry only: the lake's table begins here.
    op.execute("UPDATE verifications SET published_at = now()")
    op.create_index(
        "ix_verifications_unpublished",
        "verifications",
        ["at"],
        unique=False,
        postgresql_where=sa.text("published_at IS NULL"),
    )
