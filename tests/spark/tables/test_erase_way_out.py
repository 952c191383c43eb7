"""What erase names as the way out for files that it cannot rewrite makes the table one whose rows can be erased."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest
from equality_deletes import delete_by_id

from lakeward.tables.context import MaintenanceContext
from lakeward.tables.erase import files, settings

FAR = 1 << 40


def orc(spark: Any, table: Any) -> None:
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default' = 'orc')")
    table.sql(f"INSERT INTO {{t}} VALUES ({FAR + 9}, 'JFK', null)")
    table.sql("ALTER TABLE {t} UNSET TBLPROPERTIES ('write.format.default')")


def equality(spark: Any, table: Any) -> None:
    delete_by_id(spark, f"lake.{table.name}", [FAR + 1])


def partitioning(spark: Any, table: Any) -> None:
    table.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)")


@pytest.mark.timeout(600)  # two JVMs start for it
@pytest.mark.parametrize(
    ("harm", "words", "rows"),
    [(orc, "files of ORC", 4), (equality, "equality deletes", 2), (partitioning, "earlier partitioning", 3)],
)
def test_the_way_out_leads_out(
    spark: Any,
    site: MaintenanceContext,
    make_table: Callable[..., Any],
    harm: Callable[..., None],
    words: str,
    rows: int,
) -> None:
    table = make_table("")
    table.sql(f"INSERT INTO {{t}} VALUES ({FAR}, 'EWR', null), ({FAR + 1}, 'EWR', null), ({FAR + 2}, 'JFK', null)")
    harm(spark, table)
    why = files.obstacle(site.load(table.name))
    assert words in why
    said = settings.way_out(site.load(table.name), why)
    [statement] = shlex.split(said.split("   ")[0].removeprefix("lakeward sql --write "))
    table.sql("REFRESH TABLE {t}")
    table.sql(statement)
    assert f"lakeward tables maintain {table.name} --actions expire" in said
    expire = "CALL lake.system.expire_snapshots(table => '%s', older_than => now(), retain_last => 1)"
    table.sql(expire % table.name)  # as time does it
    assert files.obstacle(site.load(table.name)) == ""
    assert table.rows() == rows
