"""Every command of `tables` and `quality` on a table whose names need quoting: namespace, table, columns, partition."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lakeward.cli.app import main
from lakeward.spec.sql.names import dotted
from lakeward.spec.sql.statements import quote, quote_table
from lakeward.tables.context import MaintenanceContext

ODD = 'o\'c`k "${spark.app.name}" 100% \\z'
"""Both kinds of quotation marks, a backtick, a variable of Spark's, a format's sign and an escape."""
NAMES = [("maintained", "eu-west", f"{ODD} v1.2"), ("maintained", "sel`ect"), ("maintained", "größe 表😀")]


@dataclass(frozen=True)
class Odd:
    """A table with odd names, four commits of ten rows each.

    Attributes:
        name: as a command takes it.
        sql_name: as a statement takes it.
        number, text: two columns, as SQL takes them; the table is partitioned by the second.
        run: runs a command, demands its exit code and returns its JSON.
    """

    name: str
    sql_name: str
    number: str
    text: str
    run: Callable[..., Any]


@pytest.fixture
def odd(
    request: pytest.FixtureRequest, site: MaintenanceContext, remote, command, capsys: pytest.CaptureFixture[str]
) -> Iterator[Odd]:
    parts = request.param
    name = dotted((*parts[:-1], parts[-1] + uuid.uuid4().hex[:6]))
    number, text = quote(f"n.{ODD.replace('`', '')}"), quote(f"t {ODD}")  # GX reads no backtick
    sql_name = quote_table(name, "lake")
    remote.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote_table(dotted(parts[:-1]), 'lake')}")
    remote.sql(
        f"CREATE TABLE {sql_name} ({number} INT, {text} STRING) USING iceberg PARTITIONED BY ({text}) TBLPROPERTIES ("
        "'format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition')"
    )

    def run(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*words, *command])
        printed = capsys.readouterr()
        assert end.value.code == code, f"{words}: {printed.out[-3000:]} {printed.err[-3000:]}"
        return json.loads(printed.out) if printed.out.startswith(("{", "[")) else printed.out

    table = Odd(name, sql_name, number, text, run)
    for commit in range(4):
        land(remote, table, commit)
    yield table
    remote.sql(f"DROP TABLE {sql_name}")


def land(remote: Any, odd: Odd, commit: int) -> None:
    """Commit ten rows over two partitions, of which the value of one is as odd as the names."""
    value = ODD.replace("\\", "\\\\").replace("'", "\\'")
    remote.sql(
        f"INSERT INTO {odd.sql_name} SELECT CAST(id AS INT) + {commit * 10}, IF(id % 2 = 0, '{value}', 'b') "
        "FROM range(0, 10, 1, 1)"
    )


named = pytest.mark.parametrize(
    "odd", [NAMES[0], *(pytest.param(each, marks=pytest.mark.campaign) for each in NAMES[1:])], ids=".".join,
    indirect=True,
)  # fmt: skip


@named
def test_every_command_of_tables(remote, odd: Odd) -> None:
    name, run = odd.name, odd.run
    remote.sql(f"DELETE FROM {odd.sql_name} WHERE {odd.number} = 3")
    rows = f"SELECT * FROM {odd.sql_name} ORDER BY {odd.number}"
    before = remote.sql(rows).collect()
    for what in ("health", "plan", "policy", "readers", "why"):
        assert json.dumps(name) in json.dumps(run("tables", what, name)), what
    done = run("tables", "maintain", name)
    assert {(each["action"], each["result"]) for each in done["actions"]} >= {("compact", "done"), ("expire", "done")}
    run("tables", "maintain", name, "--actions", "deletes,orphans", "--dry-run")
    for what in ("history", "savings"):
        run("tables", what, name)
    assert remote.sql(rows).collect() == before
    run("tables", "hold", name, "--for", "1h", "--comment", "a test")
    run("tables", "unhold", name, "--comment", "a test")
    kept = remote.sql(f"SELECT snapshot_id FROM {odd.sql_name}.history ORDER BY made_current_at DESC").collect()[0][0]
    land(remote, odd, 4)
    run("tables", "restore", name, "--to", str(kept), "--yes", "--comment", "a test")
    assert remote.sql(rows).collect() == before
    value = ODD.replace("'", "''")
    run("tables", "erase", name, "--where", f"{odd.text} = '{value}'", "--yes", "--comment", "a test")
    assert remote.sql(rows).collect() == [row for row in before if row[1] == "b"]
    assert run("sql", f"SELECT count(*) AS n FROM {odd.sql_name} WHERE {odd.text} = 'b'")["rows"] == [[19]]


@named
def test_every_command_of_quality(site: MaintenanceContext, remote, odd: Odd) -> None:
    name, run = odd.name, odd.run
    run("quality", "profile", name, "--owner", "a@b.c")
    run("quality", "lint")
    suite = site.project.root / "expectations" / f"{name}.yaml"
    stricter = suite.read_text().replace("severity: warning", "severity: critical")
    suite.write_text(stricter.replace("on_fail: warn", "on_fail: hold"))
    remote.sql(f"INSERT INTO {odd.sql_name} VALUES (NULL, 'c')")
    checks = run("quality", "run", name, code=3)  # each run starts a process with Great Expectations: one is enough
    [failed] = [each for each in checks["checks"] if each["state"] == "fail"]
    for what in ("show", "history", "export", "docs"):
        run("quality", what, name)
    run("quality", "status", code=3)  # it is held
    run("quality", "waive", name, failed["id"], "--for", "1h", "--comment", "a test")
    run("quality", "unwaive", name, failed["id"], "--comment", "a test")
    run("quality", "release", name, "--yes", "--comment", "a test")
