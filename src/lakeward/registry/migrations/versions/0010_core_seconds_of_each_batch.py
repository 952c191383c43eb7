"""Core-seconds of each batch"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batches", sa.Column("core_s", sa.Float(), nullable=True))
