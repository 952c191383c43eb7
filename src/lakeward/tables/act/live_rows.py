"""Compares live rows before and after a rewrite of a table with delete files: metadata counts rows before deletes only.

A lost delete brings rows back, and no summary shows it. The engine therefore reads both snapshots: after a merge of
delete files every data file must have the same live rows, after a compaction the table the same number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakeward.spec.sql.statements import quote_table
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan.model import Action
from lakeward.tables.verify import Verdict, between

Execute = Callable[[str], list[dict[str, object]]]


def verify_live_rows(
    execute: Execute, action: Action, before: TableFacts, after: TableFacts, verdict: Verdict
) -> Verdict:
    """The verdict on an action, after the engine has compared the live rows of every rewrite since.

    This includes rewrites that are not among the verdict's own: a compaction removes dangling delete files in a
    separate commit.

    Args:
        execute: runs a statement and returns its rows.
        action: the action.
        before, after: the table before and after it.
        verdict: the verdict by metadata.
    """
    from grpc import RpcError
    from pyspark.errors import PySparkException

    commits = between(before, after) or ()
    deletes = before.profile.delete_files > 0 or any(each.count("added-delete-files") for each in commits)
    required = action.action in ("compact", "deletes") and before.format != "delta" and deletes
    if verdict.harmed or not required:
        return verdict
    place = quote_table(before.table, before.catalog)
    try:
        for each in commits:
            if each.operation != "replace" or each.parent is None:
                continue
            if each.parent not in after.by_id():
                why = f"{verdict.why}; its live rows cannot be compared: snapshot {each.parent} was expired meanwhile"
                return replace(verdict, ok=False, why=why)
            files = each.count("added-data-files") or each.count("deleted-data-files")
            wrong = (same_in_all if files else same_in_each_file)(execute, place, each.parent, each.id)
            if wrong:
                return replace(verdict, ok=False, why=wrong, harmed=True)
    except (PySparkException, RpcError) as error:  # an unproven rewrite counts as harmful: it is rolled back
        why = f"{verdict.why}; its live rows could not be read: {str(error).splitlines()[0][:200]}"
        return replace(verdict, ok=False, why=why, harmed=True)
    return verdict


def same_in_each_file(execute: Execute, table: str, before: int, after: int) -> str:
    """The difference of live rows between two snapshots of the same data files, as a sentence; empty for none.

    Args:
        execute: runs a statement and returns its rows.
        table: the table, quoted, with its catalog.
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
    """The difference of the number of live rows of two snapshots, as a sentence; empty for none."""
    counted = "SELECT count(*) AS live FROM {}"
    then, now = (execute(counted.format(_at(table, each)))[0]["live"] for each in (before, after))
    return "" if then == now else f"{now} rows are live, {then} before: the rewrite lost deletes, or rows"


def _at(table: str, snapshot: int) -> str:
    return f"{table} VERSION AS OF {snapshot:d}"
