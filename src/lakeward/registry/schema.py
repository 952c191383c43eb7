"""Schema of the registry: desired state, observed state and history.

The tables of the lake (Iceberg, Delta) are authoritative about what has landed; a driver continues while the registry
is down. All times are the database's (`now()`), so that no clock of a driver or of Airflow decides about a lease.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _at(name: str = "at", *, nullable: bool = False) -> Column[object]:
    default = None if nullable else func.now()
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=default)


streams = Table(
    "streams",
    metadata,
    Column("id", String, primary_key=True),
    Column("desired", String, nullable=False, server_default="stopped"),  # running | stopped
    Column("generation", Integer, nullable=False),  # the accepted generation a driver should run
    Column("pending_generation", Integer),  # deployed while running: waits for `upgrade`
    Column("driver", String, nullable=False),  # name of the driver that hosts it
    Column("state", String, nullable=False, server_default="stopped"),
    Column("why", Text, nullable=False, server_default=""),
    _at("since"),  # since when it has this state
    Column("run_after", DateTime(timezone=True)),  # a failed query is not started again in its driver before this
    Column("hold_until", DateTime(timezone=True)),  # no automatic restart before this
    Column("blocked", JSONB),  # {reason, what, why, next, batch, offsets}: waits for a person
    Column("removed_at", DateTime(timezone=True)),  # its spec file was removed; the row is history
    Column("proving", JSONB),  # an upgrade that is not proven yet: `supervision.decide.stability.Proving`
    _at("updated_at"),
)

generations = Table(
    "generations",
    metadata,
    Column("stream", String, ForeignKey("streams.id"), primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("spec", JSONB, nullable=False),  # the resolved spec
    Column("digest", String, nullable=False),  # of spec, SQL text, code digests: equal digest = same generation
    Column("sql", Text),
    Column("code", JSONB, nullable=False, server_default=text("'{}'::jsonb")),  # digests of Python code and jars
    Column("versions", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("author", String, nullable=False),
    Column("checkpoint", String, nullable=False),  # folder of its checkpoint: changes only through reset
    _at("created_at"),
    Column("stable_at", DateTime(timezone=True)),  # when it became stable: target of a rollback
    Column("failed_at", DateTime(timezone=True)),  # when it was rolled back automatically, which happens once
    Column("failure", Text),  # why
)

leases = Table(
    "leases",
    metadata,
    Column("scope", String, primary_key=True),  # stream | driver | table | reconcile
    Column("name", String, primary_key=True),
    Column("token", String, nullable=False),
    Column("holder", String, nullable=False),
    Column("until", DateTime(timezone=True), nullable=False),
    _at("since"),
)

drivers = Table(
    "drivers",
    metadata,
    Column("name", String, primary_key=True),
    Column("token", String, nullable=False),  # of the newest launch: a driver with another token is fenced
    Column("backend", String, nullable=False),
    Column(
        "handle", JSONB
    ),  # the backend's identity: {pid, start_time, boot_id} locally; null between intent and start
    Column("host", String),
    Column("log", String),
    Column("state", String, nullable=False),  # launching | running | stuck | stopping | exited | buried
    _at("launched_at"),
    Column("heartbeat", DateTime(timezone=True)),
    Column("exit_code", Integer),
    Column("error", Text),
    Column("spark_ui", String),
)

launches = Table(
    "launches",  # of drivers that a cluster starts on a machine of its own: no folder is shared with them
    metadata,
    Column("id", String, primary_key=True),  # on the driver's command line; not secret
    Column("driver", String, nullable=False),
    Column("token", String, nullable=False),
    _at(),
    Column("document", JSONB, nullable=False),  # what the driver runs by: its launch file
    Column("place", JSONB, nullable=False),  # {master, rest, ui}: where it was submitted
    Column("handle", JSONB),  # {submission, master}; null until the starter or the driver records it
    Column("host", String),  # these two are written by the driver
    Column("log", String),
    Column("end_requested_at", DateTime(timezone=True)),
    Column("dump_requested_at", DateTime(timezone=True)),
    Column("exit", JSONB),  # its exit.json
    Column("log_tail", Text),  # the end of driver.log, masked
    Column("printed", Text),  # the end of what Python and the JVM printed, masked
    Column("dump", Text),  # the newest thread dump
    Column("dumped_at", DateTime(timezone=True)),
    Index("ix_launches_driver", "driver", "at"),
)

batches = Table(
    "batches",
    metadata,
    Column("stream", String, primary_key=True),
    Column("query_id", String, primary_key=True),
    Column("batch_id", BigInteger, primary_key=True),
    Column("seq", BigInteger),  # the table's count of batches; null for sinks without a position
    Column("generation", Integer, nullable=False),
    Column("snapshot_id", BigInteger),
    Column("start_offsets", JSONB),
    Column("end_offsets", JSONB),
    Column("consumed", BigInteger),
    Column("landed", BigInteger),
    Column("quarantined", BigInteger),
    Column("filtered", BigInteger),
    Column("late_dropped", BigInteger),
    Column("skipped", BigInteger),  # records that a person gave up (skip-batch); null: none
    Column("duration_s", Float),
    Column("phases", JSONB(none_as_null=True)),  # phase -> seconds, as in observations.watch
    Column("core_s", Float),  # how long its tasks occupied a core
    Column("replayed", Boolean, nullable=False, server_default=text("false")),
    Column("complete_through", DateTime(timezone=True)),
    # {check: [failing rows, rows]}, counted while landing; null: not counted. Drivers of 0.1 write it and nothing reads
    # it since. Code may be one version older than the registry, and 0.1 selects this column: a later version drops it.
    Column("advisory", JSONB(none_as_null=True)),
    _at("committed_at"),
    Index("ix_batches_stream_committed_at", "stream", "committed_at"),
)

observations = Table(
    "observations",
    metadata,
    Column("stream", String, primary_key=True),
    _at("at"),
    Column("run_id", String),
    Column("query_id", String),
    Column("batch_id", BigInteger),
    Column("seq", BigInteger),
    Column("snapshot_id", BigInteger),
    Column("committed_at", DateTime(timezone=True)),  # of the newest landed batch
    Column("progress", JSONB),  # Spark's StreamingQueryProgress, whole
    Column("lag_records", BigInteger),
    Column("lag_s", Float),
    Column("complete_through", DateTime(timezone=True)),
    Column("query_state", String),  # running | idle | failed | stopped | completed, by its driver
    Column("error", JSONB),  # {class, error, batch_id, offsets} of the last failure
    Column("watch", JSONB),  # what only the driver observes: {partitions, retention_s, oldest, phases, state}
)

lag_history = Table(
    "lag_history",
    metadata,
    Column("stream", String, primary_key=True),
    Column("at", DateTime(timezone=True), primary_key=True, server_default=func.now()),
    Column("lag_records", BigInteger),  # null: not known at that time
    Column("lag_s", Float),
    Column("state_rows", BigInteger),  # null: the stream keeps no state
    Column("state_bytes", BigInteger),
)

events = Table(
    "events",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _at("at"),
    Column("scope", String, nullable=False),  # stream | driver | table | quality | stack
    Column("name", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("fields", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Index("ix_events_scope_name_at", "scope", "name", "at"),
)

restarts = Table(
    "restarts",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("driver", String, nullable=False),
    Column("stream", String),  # null: the whole driver
    _at("at"),
    Column("failure_class", String, nullable=False),  # infra | dependency | poison | config | fenced
    Column("error", Text, nullable=False),
    Column("exit_code", Integer),
    Column("attempt", Integer, nullable=False),
    Column("next_attempt_at", DateTime(timezone=True)),
    Index("ix_restarts_driver_at", "driver", "at"),
)

operations = Table(
    "operations",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("stream", String, nullable=False),
    Column("operation", String, nullable=False),
    Column("params", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("author", String, nullable=False),
    Column("comment", Text, nullable=False, server_default=""),
    _at("requested_at"),
    Column("result", String),  # done | refused | failed | timed_out | skipped; null while under way
    Column("detail", Text, nullable=False, server_default=""),
    Column("finished_at", DateTime(timezone=True)),
    Column("approved_by", String),  # who approved an operation that needs approval
    Column("approved_at", DateTime(timezone=True)),
    Index("ix_operations_stream_requested_at", "stream", "requested_at"),
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("kind", String, nullable=False),  # stream | dependency | thrash | reconcile | operation | quality | waiver
    Column("subject", String, nullable=False),  # the stream, the dependency, the table, or `streams`
    _at("opened_at"),
    Column("text", Text, nullable=False),
    Column("fields", JSONB, nullable=False, server_default=text("'{}'::jsonb")),  # {streams, next, ...}
    _at("updated_at"),
    Column("closed_at", DateTime(timezone=True)),  # null: open
    Column("message", JSONB),  # what a notifier needs to update its message: {channel, id, text}
    Index("ix_incidents_kind_subject_opened_at", "kind", "subject", "opened_at"),
    Index("uq_incidents_open", "kind", "subject", unique=True, postgresql_where=text("closed_at IS NULL")),
)

ticks = Table(
    "ticks",
    metadata,
    Column("name", String, primary_key=True),  # of a periodic task: reconcile
    _at("at"),  # when it last succeeded
    Column("duration_s", Float),
    Column("detail", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
)

tables = Table(
    "tables",
    metadata,
    Column("name", String, primary_key=True),  # namespace.table
    Column("format", String, nullable=False),  # iceberg | delta
    Column("location", String),
    Column("table_class", String),
    Column("hold_until", DateTime(timezone=True)),
    Column("expiry_hold", Text),  # why expiry is held (a verification failed); a person clears it
    _at("registered_at"),
)

facts = Table(
    "facts",
    metadata,
    Column("table", String, primary_key=True),
    Column("at", DateTime(timezone=True), primary_key=True, server_default=func.now()),
    Column("snapshot_id", BigInteger),
    Column("facts", JSONB, nullable=False),
)

plans = Table(
    "plans",
    metadata,
    Column("id", String, primary_key=True),
    Column("table", String, nullable=False),
    _at("at"),
    Column("plan", JSONB, nullable=False),
    Index("ix_plans_table_at", "table", "at"),
)

actions = Table(
    "actions",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("plan", String, nullable=False),
    Column("table", String, nullable=False),
    Column("action", String, nullable=False),
    Column("session_id", String),  # Spark Connect session: a successor interrupts it first
    Column("result", String),  # done | refused | failed | timed_out | skipped; null while under way
    Column("verified", Boolean),
    Column("why", Text, nullable=False, server_default=""),
    Column("before", JSONB),
    Column("after", JSONB),
    _at("started_at"),
    Column("finished_at", DateTime(timezone=True)),
    Column("duration_s", Float),
    Column("cpu_s", Float),
    Index("ix_actions_table_started_at", "table", "started_at"),
)

verifications = Table(
    "verifications",
    metadata,
    Column("run", String, primary_key=True),
    Column("table", String, nullable=False),
    Column("suite", String, nullable=False),  # digest of the suite
    Column("scope", String, nullable=False),  # increment | window | table
    _at("at"),
    Column("from_snapshot", BigInteger),  # exclusive; null: from the first
    Column("to_snapshot", BigInteger),
    Column("to_sequence", BigInteger),
    Column("to_commit", String),  # <table id>/<commit id> for Delta, whose versions can repeat; otherwise null
    Column("verdict", String, nullable=False),  # pass | warn | hold | error
    Column("first_bad_snapshot", BigInteger),
    Column("verified_snapshot", BigInteger),  # the snapshot of `verified` after this run
    Column("batches", JSONB),  # [{stream, seq, start, end}] of the snapshots checked
    Column("spark_jobs", Integer),
    Column("duration_s", Float),
    Column(
        "note", Text, nullable=False, server_default=""
    ),  # waivers, releases with author and reason, reasons of skipped checks
    Column("cpu_s", Float),  # of the checking process, without Spark
    Column("published_at", DateTime(timezone=True)),  # when its results were written to the lake's table
    Index("ix_verifications_table_at", "table", "at"),
    Index("ix_verifications_unpublished", "at", postgresql_where=text("published_at IS NULL")),
)

checks = Table(
    "checks",
    metadata,
    Column("run", String, ForeignKey("verifications.run", ondelete="CASCADE"), primary_key=True),
    Column("check", String, primary_key=True),  # stable id: a hash of type and kwargs
    Column("expectation", String, nullable=False),
    Column("severity", String, nullable=False),
    Column("state", String, nullable=False),  # pass | fail | error | skipped
    Column("observed", JSONB),
    Column("unexpected_count", BigInteger),
    Column("sample", JSONB),
)

check_runs = Table(
    "check_runs",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("place", String, nullable=False),  # digest of project and lake: a checker serves one
    Column("request", JSONB, nullable=False),  # {tables, scope, suite}
    Column("asked_by", String, nullable=False),
    _at(),
    Column("wanted_until", DateTime(timezone=True), nullable=False),  # renewed by the waiting requester
    Column("deadline", DateTime(timezone=True), nullable=False),  # the run times out then
    Column("state", String, nullable=False, server_default="asked"),  # asked | working | done | failed | timed_out
    Column("claim", Integer, nullable=False, server_default="0"),  # number of claims: an older claim is fenced
    Column("owner", String),  # of the newest claim, for display
    Column("claimed_until", DateTime(timezone=True)),  # heartbeat expiry: then another worker may take over the run
    Column("session_id", String),  # Spark Connect session: a successor ends it first
    Column("told", JSONB, nullable=False, server_default=text("'[]'::jsonb")),  # [[level, sentence, fields], ...]
    Column("answer", JSONB),  # {results: [...]} or {failed: {...}}
    Column("finished_at", DateTime(timezone=True)),
    Index("ix_check_runs_open", "place", "id", postgresql_where=text("finished_at IS NULL")),
)

waivers = Table(
    "waivers",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("table", String, nullable=False),
    Column("check", String, nullable=False),  # as in `checks`
    Column("name", String, nullable=False),  # the expectation with its columns, for display
    Column("author", String, nullable=False),
    Column("reason", Text, nullable=False),
    _at(),
    Column("until", DateTime(timezone=True), nullable=False),  # a failure counts again after this time
    Column("ended_at", DateTime(timezone=True)),  # ended early, by a person or by a newer waiver
    Column("told_at", DateTime(timezone=True)),  # when people were notified of its end
    Index("ix_waivers_table_until", "table", "until"),
)

changes = Table(
    "changes",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _at("at"),
    Column("scope", String, nullable=False),
    Column("name", String, nullable=False),
    Column("change", String, nullable=False),
    Column("author", String, nullable=False),
    Column("comment", Text, nullable=False, server_default=""),
    Column("detail", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Index("ix_changes_scope_name_at", "scope", "name", "at"),
)
