"""The Iceberg maintenance procedures as SQL statements.

`CALL` takes no bound values once a second SQL extension (Delta) wraps the parser, so every value is written by
`literal`, and the name of the table by `call_name`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from lakeward.platform.errors import Internal
from lakeward.spec.model.policy import Policy
from lakeward.spec.sql.names import name_parts
from lakeward.spec.sql.statements import call_name, quote, quote_table, quote_text
from lakeward.tables.observe.predicate import in_catalog
from lakeward.tables.plan.model import Action, Rewrite, Tag

_AT_ONCE = 2  # file groups rewritten in parallel: the server is shared


def statements(table: str, action: Action, policy: Policy, catalog: str) -> list[str]:
    """The statements of a planned action, in order.

    Args:
        catalog: `catalogs.prefix_in` of the table.
    """
    if action.action == "compact":
        return [rewrite(table, each, policy, catalog) for each in action.rewrites]
    if action.action == "deletes":
        return [merge_deletes(table, action.where, catalog)]
    if action.action == "manifests":
        return [_call("rewrite_manifests", table, catalog)]
    if action.action == "metadata":
        return [set_properties(quote_table(table, catalog), action.properties)]
    if action.action == "tags":
        return [make_tag(table, action.made_tag, catalog)]
    raise Internal(f"Action {action.action} of an Iceberg table has no statement", code="LW-4102")


def rewrite(table: str, planned: Rewrite, policy: Policy, catalog: str) -> str:
    """Compaction of partitions, in one commit unless it exceeds the bytes of one file group."""
    options: dict[str, str | int | float] = {
        "target-file-size-bytes": planned.target,
        "min-file-size-bytes": planned.below,
        "min-input-files": 2,
        "max-file-group-size-bytes": policy.compact.max_group_size.bytes,
        "max-concurrent-file-group-rewrites": _AT_ONCE,
        "rewrite-job-order": "files-desc",
    }
    if planned.takes_bytes > policy.compact.max_group_size.bytes:
        # Finished groups stay committed. Iceberg's default would report success even if every commit failed.
        options |= {
            "partial-progress.enabled": "true",
            "partial-progress.max-commits": policy.compact.max_commits,
            "partial-progress.max-failed-commits": policy.compact.max_failed_commits,
        }
    if planned.delete_files:
        options |= {
            "delete-file-threshold": 1 if planned.shared_deletes else policy.deletes.min_delete_files,
            "delete-ratio-threshold": policy.deletes.deleted_rows_ratio,
            "remove-dangling-deletes": "true",
        }
    if planned.mode == "layout":
        options["rewrite-all"] = "true"
    order = {"strategy": "sort", "sort_order": planned.order.iceberg} if planned.order is not None else {}
    chosen = {key: str(option) for key, option in options.items()}
    return _call(
        "rewrite_data_files",
        table,
        catalog,
        {**order, **_where(planned.where, table, catalog)},
        chosen,
    )


def merge_deletes(table: str, where: Sequence[str], catalog: str) -> str:
    """Merge of the position deletes of partitions into as few files as the table's granularity allows."""
    return _call(
        "rewrite_position_delete_files",
        table,
        catalog,
        _where(where, table, catalog),
        {"min-input-files": "2"},
    )


def _where(conditions: Sequence[str], table: str, catalog: str) -> dict[str, str | int | datetime]:
    there = _catalog_of(table, catalog)
    return {"where": " OR ".join(f"({in_catalog(each, there)})" for each in conditions)} if conditions else {}


def _catalog_of(table: str, catalog: str) -> str:
    """The name of the table's catalog: the first part of the name of a table in a further one."""
    return catalog or name_parts(table)[0]


def set_properties(place: str, properties: Mapping[str, str]) -> str:
    """Table properties, set in one commit; `place`: the table as SQL names it, quoted."""
    pairs = ", ".join(f"{quote_text(name)} = {quote_text(value)}" for name, value in properties.items())
    return f"ALTER TABLE {place} SET TBLPROPERTIES ({pairs})"


def make_tag(table: str, tag: Tag, catalog: str) -> str:
    """A tag that expiry drops once its snapshot is old enough. An existing tag is left alone, to keep its snapshot."""
    max_age = f"{tag.max_age // timedelta(minutes=1)} MINUTES"
    at = f"AS OF VERSION {tag.snapshot_id:d} RETAIN {max_age}"
    return f"ALTER TABLE {quote_table(table, catalog)} CREATE TAG IF NOT EXISTS {quote(tag.name)} {at}"


def literal(value: str | int | datetime) -> str:
    """A value as a Spark SQL literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        # Snapshot times are in milliseconds; truncated, not rounded, so that the cutoff is never exceeded.
        return f"TIMESTAMP {quote_text(value.astimezone(UTC).isoformat(sep=' ', timespec='milliseconds'))}"
    return quote_text(value)


def _call(
    procedure: str,
    table: str,
    catalog: str,
    arguments: Mapping[str, str | int | datetime] | None = None,
    options: Mapping[str, str] | None = None,
) -> str:
    values = {"table": call_name(table, catalog), **(arguments or {})}
    parts = [f"{name} => {literal(value)}" for name, value in values.items()]
    if options:
        pairs = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in options.items())
        parts.append(f"options => map({pairs})")
    return f"CALL {quote(_catalog_of(table, catalog))}.{quote('system')}.{quote(procedure)}({', '.join(parts)})"
