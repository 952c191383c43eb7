"""The results table `lakeward.quality_results`: every check of every run, for queries in the lake.

The registry is the outbox: a run is recorded there, appended here afterwards, and marked. Each run is appended once:
its rows are locked in the registry during the append; a run that the table already has is only marked (an earlier
publisher died before it could); and the append is refused if another commit came after the read, because the table
disables retries (`commit.retry.num-retries=0`). Failing rows are not copied: their retention is shorter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.connectors.iceberg.catalogs.routed import own
from lakeward.registry import verifications
from lakeward.registry.verifications import CheckResult, Verification
from lakeward.spec.sql.names import name_parts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from sqlalchemy import Connection

log = structlog.get_logger(__name__)

TABLE = "lakeward.quality_results"
TRIES = 4
_MOST = 500  # runs in one commit
_PROPERTIES = {
    "format-version": "2",
    "commit.retry.num-retries": "0",  # PyIceberg would retry the append on an unread head
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
# name, type, required; `observed`, `kwargs` and `batches` are JSON
_COLUMNS = (
    ("run", "string", True),
    ("at", "timestamptz", True),
    ("month", "string", True),  # of `at`, 2026-11: the partition column, so that months are removed as whole files
    ("table", "string", True),
    ("suite", "string", True),
    ("scope", "string", True),
    ("verdict", "string", True),
    ("from_snapshot", "long", False),
    ("to_snapshot", "long", False),
    ("first_bad_snapshot", "long", False),
    ("verified_snapshot", "long", False),
    ("batches", "string", False),
    ("check", "string", False),
    ("expectation", "string", False),
    ("kwargs", "string", False),
    ("severity", "string", False),
    ("state", "string", False),
    ("check_scope", "string", False),
    ("observed", "string", False),
    ("rows", "long", False),
    ("unexpected_count", "long", False),
    ("waived", "boolean", False),
    ("error", "string", False),
    ("run_checks", "int", True),
    ("spark_jobs", "int", False),
    ("duration_s", "double", False),
    ("cpu_s", "double", False),
)


def publish(connection: Connection, lake: Catalog) -> int:
    """Append every run the table does not have yet; returns the number of runs. Call it in one registry transaction.

    Raises:
        CommitFailedException: concurrent commits won every time; the next run publishes these runs too.
    """
    from pyiceberg.exceptions import CommitFailedException

    waiting = verifications.unpublished(connection, _MOST)
    if not waiting:
        return 0
    names = [each["run"] for each in waiting]
    checks = verifications.checks_of_runs(connection, names)
    for attempt in range(TRIES):
        table = _table(lake)
        missing = set(names) - present(table, names, waiting[0]["at"])
        if not missing:
            break
        rows = [row for each in waiting if each["run"] in missing for row in lines(each, checks.get(each["run"], ()))]
        try:
            table.append(_arrow(rows))
            break
        except CommitFailedException:
            if attempt == TRIES - 1:
                raise
    verifications.mark_published(connection, names)
    return len(names)


def remove_before(lake: Catalog, moment: datetime) -> None:
    """Remove the months that ended before `moment`, as whole files."""
    from pyiceberg.expressions import LessThan

    old = LessThan(term="month", value=_month(moment))
    table = _table(lake)
    if table.current_snapshot() is not None and next(iter(table.scan(row_filter=old).plan_files()), None):
        table.delete(old)
        log.info("Old results removed", table=TABLE, before=_month(moment))


def present(table: Table, runs: Sequence[str], since: datetime) -> set[str]:
    """The runs that the table has; only files of the month of `since` and later are opened."""
    from pyiceberg.expressions import And, GreaterThanOrEqual, In

    if table.current_snapshot() is None:
        return set()
    condition = And(GreaterThanOrEqual(term="month", value=_month(since)), In(term="run", literals=list(runs)))
    found = table.scan(row_filter=condition, selected_fields=("run",)).to_arrow()
    return set(found.column("run").to_pylist())


def lines(run: Verification, checks: Sequence[CheckResult]) -> list[dict[str, object]]:
    """One row a check; for a run without checks one row without a check, so that queries see the run."""
    columns: Mapping[str, object] = run
    whole = {name: columns[name] for name, _, _ in _COLUMNS if name in columns} | {
        "month": _month(run["at"]),
        "batches": _json(run["batches"]),
        "run_checks": len(checks),
    }
    return [whole | _of(check) for check in checks] or [whole]


def _of(check: CheckResult) -> dict[str, object]:
    facts = check["observed"] or {}
    return {
        "check": check["check"],
        "expectation": check["expectation"],
        "severity": check["severity"],
        "state": check["state"],
        "unexpected_count": check["unexpected_count"],
        "rows": facts.get("rows"),
        "waived": facts.get("waived"),
        "error": facts.get("error"),
        "kwargs": _json(facts.get("kwargs")),
        "observed": _json(facts.get("value")),
        "check_scope": facts.get("scope"),
    }


def _month(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m")


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _table(lake: Catalog) -> Table:
    from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    lake = own(lake, name_parts(TABLE))
    try:
        return lake.load_table(TABLE)
    except NoSuchTableError:
        pass
    lake.create_namespace_if_not_exists(TABLE.partition(".")[0])
    schema = _schema()
    month = PartitionField(schema.find_field("month").field_id, 1000, IdentityTransform(), "month")
    try:
        made = lake.create_table(TABLE, schema, partition_spec=PartitionSpec(month), properties=_PROPERTIES)
        log.info("Results table created", table=TABLE)
        return made
    except TableAlreadyExistsError:  # another run was faster
        return lake.load_table(TABLE)


@cache
def _schema() -> Any:
    from pyiceberg import types
    from pyiceberg.schema import Schema

    kinds = {
        "string": types.StringType(), "long": types.LongType(), "int": types.IntegerType(),
        "double": types.DoubleType(), "boolean": types.BooleanType(), "timestamptz": types.TimestamptzType(),
    }  # fmt: skip
    fields = [
        types.NestedField(number, name, kinds[kind], required=required)
        for number, (name, kind, required) in enumerate(_COLUMNS, 1)
    ]
    return Schema(*fields)


def _arrow(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    target = schema_to_pyarrow(_schema(), include_field_ids=False)
    return pa.Table.from_pylist(list(rows), schema=target)
