"""The first registry"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "actions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("plan", sa.String(), nullable=False),
        sa.Column("table", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=True),
        sa.Column("result", sa.String(), nullable=True),
        sa.Column("verified", sa.Boolean(), nullable=True),
        sa.Column("why", sa.Text(), server_default="", nullable=False),
        sa.Column("before", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("after", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.Column("cpu_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_actions")),
    )
    op.create_index("ix_actions_table_started_at", "actions", ["table", "started_at"], unique=False)
    op.create_table(
        "batches",
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("query_id", sa.String(), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("start_offsets", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("end_offsets", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("consumed", sa.BigInteger(), nullable=True),
        sa.Column("landed", sa.BigInteger(), nullable=True),
        sa.Column("quarantined", sa.BigInteger(), nullable=True),
        sa.Column("filtered", sa.BigInteger(), nullable=True),
        sa.Column("late_dropped", sa.BigInteger(), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.Column("replayed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("complete_through", sa.DateTime(timezone=True), nullable=True),
        sa.Column("committed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("stream", "query_id", "batch_id", name=op.f("pk_batches")),
    )
    op.create_index("ix_batches_stream_committed_at", "batches", ["stream", "committed_at"], unique=False)
    op.create_table(
        "changes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("change", sa.String(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("comment", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_changes")),
    )
    op.create_index("ix_changes_scope_name_at", "changes", ["scope", "name", "at"], unique=False)
    op.create_table(
        "drivers",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("backend", sa.String(), nullable=False),
        sa.Column("handle", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("host", sa.String(), nullable=True),
        sa.Column("log", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("launched_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("heartbeat", sa.DateTime(timezone=True), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("spark_ui", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_drivers")),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column(
            "fields", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index("ix_events_scope_name_at", "events", ["scope", "name", "at"], unique=False)
    op.create_table(
        "facts",
        sa.Column("table", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("facts", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("table", "at", name=op.f("pk_facts")),
    )
    op.create_table(
        "leases",
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("scope", "name", name=op.f("pk_leases")),
    )
    op.create_table(
        "observations",
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("run_id", sa.String(), nullable=True),
        sa.Column("query_id", sa.String(), nullable=True),
        sa.Column("batch_id", sa.BigInteger(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("snapshot_id", sa.BigInteger(), nullable=True),
        sa.Column("committed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("progress", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("lag_records", sa.BigInteger(), nullable=True),
        sa.Column("lag_s", sa.Float(), nullable=True),
        sa.Column("complete_through", sa.DateTime(timezone=True), nullable=True),
        sa.Column("query_state", sa.String(), nullable=True),
        sa.Column("error", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.PrimaryKeyConstraint("stream", name=op.f("pk_observations")),
    )
    op.create_table(
        "operations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("operation", sa.String(), nullable=False),
        sa.Column(
            "params", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("comment", sa.Text(), server_default="", nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("result", sa.String(), nullable=True),
        sa.Column("detail", sa.Text(), server_default="", nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
    )
    op.create_index("ix_operations_stream_requested_at", "operations", ["stream", "requested_at"], unique=False)
    op.create_table(
        "plans",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("table", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("plan", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plans")),
    )
    op.create_index("ix_plans_table_at", "plans", ["table", "at"], unique=False)
    op.create_table(
        "restarts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("driver", sa.String(), nullable=False),
        sa.Column("stream", sa.String(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("failure_class", sa.String(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_restarts")),
    )
    op.create_index("ix_restarts_driver_at", "restarts", ["driver", "at"], unique=False)
    op.create_table(
        "streams",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("desired", sa.String(), server_default="stopped", nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("pending_generation", sa.Integer(), nullable=True),
        sa.Column("driver", sa.String(), nullable=False),
        sa.Column("state", sa.String(), server_default="stopped", nullable=False),
        sa.Column("why", sa.Text(), server_default="", nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("run_after", sa.DateTime(timezone=True), nullable=True),
        sa.Column("hold_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("blocked", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_streams")),
    )
    op.create_table(
        "tables",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("format", sa.String(), nullable=False),
        sa.Column("location", sa.String(), nullable=True),
        sa.Column("table_class", sa.String(), nullable=True),
        sa.Column("hold_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expiry_hold", sa.Text(), nullable=True),
        sa.Column("registered_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_tables")),
    )
    op.create_table(
        "verifications",
        sa.Column("run", sa.String(), nullable=False),
        sa.Column("table", sa.String(), nullable=False),
        sa.Column("suite", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("from_snapshot", sa.BigInteger(), nullable=True),
        sa.Column("to_snapshot", sa.BigInteger(), nullable=True),
        sa.Column("to_sequence", sa.BigInteger(), nullable=True),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("first_bad_snapshot", sa.BigInteger(), nullable=True),
        sa.Column("verified_snapshot", sa.BigInteger(), nullable=True),
        sa.Column("batches", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("spark_jobs", sa.Integer(), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("run", name=op.f("pk_verifications")),
    )
    op.create_index("ix_verifications_table_at", "verifications", ["table", "at"], unique=False)
    op.create_table(
        "checks",
        sa.Column("run", sa.String(), nullable=False),
        sa.Column("check", sa.String(), nullable=False),
        sa.Column("expectation", sa.String(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("observed", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("unexpected_count", sa.BigInteger(), nullable=True),
        sa.Column("sample", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.ForeignKeyConstraint(["run"], ["verifications.run"], name=op.f("fk_checks_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "check", name=op.f("pk_checks")),
    )
    op.create_table(
        "generations",
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("spec", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("sql", sa.Text(), nullable=True),
        sa.Column(
            "code", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "versions", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("checkpoint", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("stable_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["stream"], ["streams.id"], name=op.f("fk_generations_stream")),
        sa.PrimaryKeyConstraint("stream", "generation", name=op.f("pk_generations")),
    )
