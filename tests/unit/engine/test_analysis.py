"""What Spark's analysis refuses comes back as findings."""

from __future__ import annotations

from typing import Any

from lakeward.engine.analysis import findings
from lakeward.spec.model.stream import StreamSpec


class Refuses:
    """A Spark that reads no column."""

    def newSession(self) -> Refuses:
        return self

    def createDataFrame(self, rows: list[Any], schema: str) -> Any:
        from pyspark.errors import ParseException

        raise ParseException(f"[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601\n== SQL ==\n{schema}")


def test_columns_that_spark_cannot_read_are_reported():
    spec = StreamSpec.model_validate({
        "id": "s", "owner": "o", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 1}},
        "decode": {"json": "a INT"}, "sink": {"iceberg": {"table": "n.t"}},
    })  # fmt: skip
    (found,) = findings(Refuses(), spec)  # type: ignore[arg-type]  # only what is called first
    assert found.path == ("sources", "source", "decode", "json")
    assert found.message == "Spark cannot read these columns: Syntax error at or near 'x'"
    assert found.value == "a INT"
