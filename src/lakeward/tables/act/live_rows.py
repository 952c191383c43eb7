"""Whether a rewrite kept the live rows of a table that has delete files: metadata counts rows before deletes alone.

A delete that is dropped brings rows back, and no summary says so. So the engine reads both snapshots: of a merge of
delete files every data file must have the same rows left, of a compaction the table as many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.statements import quote_table
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan.model import Action
from lakeward.tables.verify import Verdict, between

Execute = Callable[[str], list[dict[str, Any]]]


def proven(execute: Execute, action: Action, before: TableFacts, after: TableFacts, verdict: Verdict) -> Verdict:
    """The verdict on an action, once the engine has read what every rewrite since left of the live rows.

    Also of those that are not among the verdict's: a compaction removes dangling delete files by a commit of its own.

    Args:
        execute: runs a statement and returns its rows.
        action: what was done.
        before, after: the table at both ends.
        verdict: by the metadata.
    """
    from grpc import RpcError
    from pyspark.errors import PySparkException

    asked = action.action in ("compact", "deletes") and before.format != "delta" and before.profile.delete_files > 0
    if verdict.harmed or not asked:
        return verdict
    try:
        for each in between(before, after) or ():
            if each.operation != "replace" or each.parent is None:
                continue
            files = each.count("added-data-files") or each.count("deleted-data-files")
            wrong = (same_in_all if files else same_in_each_file)(execute, before.table, each.parent, each.id)
            if wrong:
                return replace(verdict, ok=False, why=wrong, harmed=True)
    except (PySparkException, RpcError) as error:  # not proven is not done: it is taken back
        why = f"{verdict.why}; which rows it left could not be read: {str(error).splitlines()[0][:200]}"
        return replace(verdict, ok=False, why=why, harmed=True)
    return verdict


def same_in_each_file(execute: Execute, table: str, before: int, after: int) -> str:
    """What differs between two snapshots of the same data files, in a sentence; empty for nothing.

    Args:
        execute: runs a statement and returns its rows.
        table: `namespace.table`.
        before, after: snapshots.
    """
    of_file = "SELECT _file, count(*) AS live, sum(_pos) AS spots FROM {} GROUP BY _file"
    then, now = (of_file.format(_at(table, each)) for each in (before, after))
    found = execute(
        f"SELECT count(*) AS files, sum(now.live) AS now, sum(then.live) AS then, min(_file) AS example FROM ({then}) "  # noqa: S608  # names are quoted
        f"then FULL OUTER JOIN ({now}) now USING (_file) "
        "WHERE NOT (then.live <=> now.live AND then.spots <=> now.spots)"
    )[0]
    if not found["files"]:
        return ""
    return (
        f"other rows are live in {found['files']} data files ({found['now'] or 0}, {found['then'] or 0} before), "
        f"for example in {str(found['example']).rsplit('/', 1)[-1]}"
    )


def same_in_all(execute: Execute, table: str, before: int, after: int) -> str:
    """What differs between the numbers of live rows of two snapshots, in a sentence; empty for nothing."""
    counted = "SELECT count(*) AS live FROM {}"
    then, now = (int(execute(counted.format(_at(table, each)))[0]["live"]) for each in (before, after))
    return "" if then == now else f"{now} rows are live, {then} before: the rewrite lost deletes, or rows"


def _at(table: str, snapshot: int) -> str:
    return f"{quote_table(table, CATALOG)} VERSION AS OF {snapshot:d}"
