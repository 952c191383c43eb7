"""Who reads what is proven, and how, while main goes on: the page `read-proven-data` of the documentation, run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakeward.quality.ranges import metadata


def test_every_reader_sees_the_proven_rows_and_expiry_takes_none_of_them_away(table) -> None:
    name, pointer = f"lake.{table.name}", f"lake.{table.name}__verified"
    file = table.project / "expectations" / f"{table.name}.yaml"
    file.write_text(f"pointer_table: true\n{file.read_text()}")
    try:
        proven = table.append(10)
        assert table.check()["verdict"] == "pass"
        table.append(7, bad=1)
        assert table.check()["verdict"] == "hold"
        spark = table.spark
        counts = {
            "main": spark.table(name).count(),
            "branch": spark.read.option("branch", "verified").table(name).count(),
            "version": spark.sql(f"SELECT * FROM {name} VERSION AS OF 'verified'").count(),
            "pointer": spark.table(pointer).count(),
        }
        assert counts == {"main": 17, "branch": 10, "version": 10, "pointer": 10}
        lake = metadata.catalog(table.runtime)
        scan = lake.load_table(table.name).scan().use_ref("verified")
        with scan.to_duckdb("t") as connection:
            assert connection.sql("SELECT count(*), count(carrier) FROM t").fetchall() == [(10, 10)]
        assert lake.load_table(f"{table.name}__verified").scan().to_arrow().num_rows == 10

        with pytest.raises(Exception, match="GC is disabled"):
            spark.sql(f"DROP TABLE {pointer} PURGE").collect()
        # The worst of days: the branch is dropped, every row replaced, and all history expired at once.
        table.sql("ALTER TABLE {t} DROP BRANCH verified")
        table.sql("INSERT OVERWRITE {t} SELECT 1, 'ZZ', 1D, 0, 1")
        moment = datetime.now(UTC) + timedelta(minutes=1)
        spark.sql(
            f"CALL lake.system.expire_snapshots(table => '{name}', retain_last => 1, "
            f"older_than => TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}')"
        ).collect()
        assert proven in table.history.snapshots, "a tag names it"
        assert spark.table(pointer).where("carrier = 'AA'").count() == 10

        passed = table.check()
        assert passed["verified_snapshot"] == table.verified == table.head
        assert [row.carrier for row in spark.table(pointer).collect()] == ["ZZ"]
        assert sum(each.startswith("verified_table_") for each in lake.load_table(table.name).metadata.refs) == 2
    finally:
        table.sql(f"DROP TABLE IF EXISTS {pointer}")
