"""Tables of any name, in nested namespaces: seen, merged, compacted, expired, orphans listed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakeward.cli.app import main
from lakeward.spec.sql.names import dotted, name_parts
from lakeward.spec.sql.statements import quote_table
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext

NAMES = [
    ("maintained", "eu-west", "t-{}"), ("maintained", "v1.2 {}"), ("maintained", "o'clock ${{spark.app.name}}{}"),
    ("maintained", "ta`ck{}"),
    ("maintained", "select", "größe\"{}"), ("maintained", "back\\slash{}"), ("maintained", "order"),
]  # fmt: skip


IN_GATE = NAMES[4]
"""A quotation mark, a keyword, a letter that is not ASCII, a namespace of two levels; `test_any_names.py` has the other
quotation marks and a variable."""


@pytest.fixture
def name(request: pytest.FixtureRequest, remote) -> Iterator[str]:
    made = dotted(part.format(uuid.uuid4().hex[:6]) for part in request.param)
    remote.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote_table(dotted(request.param[:-1]), 'lake')}")
    sql_name = quote_table(made, "lake")
    remote.sql(
        f"CREATE TABLE {sql_name} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '2', "
        "'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition')"
    )
    yield made
    remote.sql(f"DROP TABLE {sql_name}")


@pytest.mark.parametrize(
    "name",
    [
        each
        if each == IN_GATE
        else pytest.param(each, marks=pytest.mark.campaign(held_by="test_a_table_of_any_name_is_maintained"))
        for each in NAMES
    ],
    ids=".".join,
    indirect=True,
)
def test_a_table_of_any_name_is_maintained(site: MaintenanceContext, remote, name: str) -> None:
    sql_name = quote_table(name, "lake")
    for n in range(4):
        remote.sql(f"INSERT INTO {sql_name} SELECT id + {100 * n} FROM range(0, 100, 1, 1)")
    for n in range(6):
        remote.sql(f"DELETE FROM {sql_name} WHERE id IN ({n}, {100 + n})")
    rows = remote.sql(f"SELECT * FROM {sql_name} ORDER BY id").collect()
    seen = run.observe(site.runtime, site.project)
    assert name in {each["table"] for each in seen["tables"]}, seen["errors"]
    assert name in seen["due"]
    done = run.maintain(site.runtime, site.project, name, ["deletes"])["actions"]
    done += run.maintain(site.runtime, site.project, name)["actions"]
    results = [(each["action"], each["result"], each["verified"]) for each in done]
    assert {action for action, _, _ in results} >= {"deletes", "compact", "expire"}, results
    assert [each for each in results if each[1:] != ("done", True)] == [], done
    assert remote.sql(f"SELECT * FROM {sql_name} ORDER BY id").collect() == rows
    listed = run.maintain(site.runtime, site.project, name, ["orphans"], dry_run=True)
    assert listed["table"] == name
    assert run.why(site.runtime, site.project, name)["plan"]["table"] == name


@pytest.mark.campaign(held_by="tests/spark/tables/test_any_names.py::test_every_command_of_tables")
@pytest.mark.parametrize("parts", NAMES[:4], ids=".".join)
def test_a_table_of_any_name_is_restored_and_erased_from(
    site: MaintenanceContext, remote, command, parts: tuple[str, ...]
) -> None:
    name = dotted(part.format(uuid.uuid4().hex[:6]) for part in parts)
    namespace = name_parts(name)[:-1]
    remote.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote_table(dotted(namespace), 'lake')}")
    table = site.catalog.create_table(name_parts(name), pa.schema({"id": pa.int64()}))
    for n in range(3):
        table.append(pa.table({"id": pa.array(range(n * 10, n * 10 + 10), pa.int64())}))
    second = table.history()[1].snapshot_id
    for words in (["restore", name, "--to", str(second)], ["erase", name, "--where", "id = 5"]):
        with pytest.raises(SystemExit) as end:
            main(["tables", *words, "--yes", "--comment", "a test", *command])
        assert end.value.code == 0, words
    rows = remote.sql(f"SELECT id FROM {quote_table(name, 'lake')} ORDER BY id").collect()
    assert [row.id for row in rows] == [each for each in range(20) if each != 5]
    remote.sql(f"DROP TABLE {quote_table(name, 'lake')}")
