"""One Spark session with Glue's catalog and a REST catalog of signed requests. Prints what it did, as JSON.

python aws_catalogs_program.py FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rest_fence_program import started

sys.path.append(str(Path(__file__).parents[1] / "support"))  # of the tests, which alone have it on their path
import glue
import object_store
import signed_rest

from lakeward.connectors.iceberg import jvm
from lakeward.platform.errors import LakewardError
from lakeward.platform.failures import classify
from lakeward.platform.runtime import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAKEN_UP_S = 30.0
REFUSALS = {
    "denied": ("AccessDeniedException", "not authorized to perform: glue:GetTable"),
    "expired": ("ExpiredTokenException", "The security token included in the request is expired"),
}


def written(spark: SparkSession, catalog: str) -> list[int]:
    """The rows of a table that was made, written twice and compacted there."""
    spark.sql(f"CREATE NAMESPACE {catalog}.db")
    spark.sql(f"CREATE TABLE {catalog}.db.t (id BIGINT) USING iceberg")
    for value in (1, 2):
        spark.sql(f"INSERT INTO {catalog}.db.t VALUES ({value})")
    spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    return rows(spark, catalog)


def rows(spark: SparkSession, catalog: str) -> list[int]:
    return sorted(row.id for row in spark.sql(f"SELECT id FROM {catalog}.db.t").collect())


def refused(spark: SparkSession, rig: glue.Glue, code: str, message: str) -> dict[str, str]:
    """What a driver says of a table when Glue refuses it, and the class of the text of Spark's own error."""
    rig.answer = lambda operation, given: (400, code, message)
    try:
        jvm.load(spark, "db.t")
        said = "nothing"
    except LakewardError as error:
        said = f"{error.code} {classify(error=error)}"
    try:
        rows(spark.newSession(), "lake")
        text = "nothing"
    except Exception as error:  # noqa: BLE001  # its text is what a failed query leaves
        origin: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
        text = str(classify(text=f"{error} {origin.toString()}"))
    rig.answer = lambda operation, given: None
    return {"said": said, "text": text}


def rotated(spark: SparkSession, server: signed_rest.Signed) -> dict[str, Any]:
    """A key that is not known any more, and then one that is: how the session takes both up."""
    found: dict[str, Any] = {}
    for name, key in (("wrong", "OTHER"), ("right", object_store.KEY)):
        server.weed.connect(aws_access_key_id=key)
        end = time.monotonic() + TAKEN_UP_S
        while (found.get(name) != ("refused" if name == "wrong" else "read")) and time.monotonic() < end:
            try:
                spark.newSession().sql("SHOW NAMESPACES IN prod").collect()
                found[name] = "read"
            except Exception as error:  # noqa: BLE001  # its text says what was refused
                found[name] = "refused" if "security token" in str(error) else str(error)[:200]
            time.sleep(0.5)
    return found


def main(folder: Path) -> None:
    with (
        object_store.running(folder / "store", catalog=True) as weed,
        signed_rest.running(weed) as server,
        glue.running(folder / "glue") as rig,
    ):
        weed.system().create_dir("files")
        properties = {**rig.lake.properties, "warehouse": "s3://files/w"}
        other = Lake(name="prod", warehouse="", properties=server.properties, store=weed.store)
        lake = rig.lake.model_copy(update={"properties": properties, "store": weed.store, "others": (other,)})
        with started(folder, lake) as spark:
            done: dict[str, Any] = {"glue": written(spark, "lake"), "rest": written(spark, "prod")}
            done["unsigned"] = list(server.refused)
            done["signed"] = len(server.taken) > 0
            done |= {name: refused(spark, rig, *how) for name, how in REFUSALS.items()}
            done["rotated"] = rotated(spark, server)
            shown = str(spark.sparkContext.getConf().getAll()) + str(spark.sql("SET -v").collect())
            done["shown"] = [secret for secret in (object_store.SECRET, object_store.KEY) if secret in shown]
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
