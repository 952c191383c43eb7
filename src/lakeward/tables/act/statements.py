"""The Iceberg procedures as statements: fixed text, every value bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakeward.runtime import CATALOG
from lakeward.spec.policy import Policy
from lakeward.spec.sql import quote
from lakeward.tables.plan.model import Action, Rewrite

_AT_ONCE = 2  # file groups rewritten at a time: the server is shared


@dataclass(frozen=True)
class Statement:
    """SQL with named parameters, as `SparkSession.sql` takes it."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


def statements(table: str, action: Action, policy: Policy) -> list[Statement]:
    """What has to be run for a planned action, in order."""
    if action.action == "compact":
        return [rewrite(table, each, policy) for each in action.rewrites]
    if action.action == "manifests":
        return [_call("rewrite_manifests", table)]
    assert action.older_than is not None  # the planner sets it for every expiry
    return [expire(table, action.older_than, action.retain_last)]


def rewrite(table: str, wanted: Rewrite, policy: Policy) -> Statement:
    """Compaction of some partitions, in one commit unless it is more than a group's worth of bytes."""
    options = {
        "target-file-size-bytes": wanted.target,
        "min-file-size-bytes": wanted.below,
        "min-input-files": 2,
        "max-file-group-size-bytes": policy.compact.max_group_size.bytes,
        "max-concurrent-file-group-rewrites": _AT_ONCE,
        "rewrite-job-order": "files-desc",
    }
    if wanted.takes_bytes > policy.compact.max_group_size.bytes:
        # What is done stays done; and never Iceberg's default, under which every commit may fail and the run is green.
        options |= {
            "partial-progress.enabled": "true",
            "partial-progress.max-commits": policy.compact.max_commits,
            "partial-progress.max-failed-commits": policy.compact.max_failed_commits,
        }
    if wanted.delete_files:
        options |= {"delete-file-threshold": policy.deletes.min_delete_files, "remove-dangling-deletes": "true"}
    arguments: dict[str, Any] = {}
    if wanted.where:
        arguments["where"] = " OR ".join(f"({condition})" for condition in wanted.where)
    return _call("rewrite_data_files", table, arguments, {key: str(value) for key, value in options.items()})


def expire(table: str, older_than: datetime, retain_last: int) -> Statement:
    """Expiry with both bounds said: never the procedure's own defaults."""
    return _call(
        "expire_snapshots", table, {"older_than": older_than, "retain_last": retain_last, "stream_results": True}
    )


def _call(
    procedure: str,
    table: str,
    arguments: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> Statement:
    values: dict[str, Any] = {"table": f"{CATALOG}.{table}", **(arguments or {})}
    parts = [f"{name} => :{name}" for name in values]
    if options:
        pairs = []
        for number, (key, value) in enumerate(options.items()):
            values |= {f"key{number}": key, f"value{number}": value}
            pairs.append(f":key{number}, :value{number}")
        parts.append(f"options => map({', '.join(pairs)})")
    return Statement(f"CALL {quote(CATALOG)}.{quote('system')}.{quote(procedure)}({', '.join(parts)})", values)
