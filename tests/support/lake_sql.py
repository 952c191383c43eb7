"""Runs SQL on the lake of a deployment: `python lake_sql.py LAUNCH.json FOLDER STATEMENT...`, in a Spark of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from lakeward.connectors.delta import location
from lakeward.engine import session
from lakeward.platform.runtime import Launch


def main(file: str, folder: str, *statements: str) -> None:
    launch = Launch.read(Path(file)).model_copy(update={"folder": Path(folder), "driver": "maintenance"})
    spark = session.start(launch)
    for table in location.tables_of(launch.runtime.lake):
        location.register(spark, launch.runtime.lake, table)
    for statement in statements:
        print(statement, spark.sql(statement).collect())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
