"""Which commit was proven, where its number is one that other tables have too"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("verifications", sa.Column("to_commit", sa.String(), nullable=True))
