"""An Avro file says what its columns are, and a file that is none or only a part of one is told. Spark's own reading of
the types is compared in `tests/spark/driver/test_files.py`."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from lakeward.connectors.files.headers import avro_columns_of

ROWS = {"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "int"]}]}


def written(schema: Any, *records: Any, codec: str = "null") -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, schema, records, codec=codec, sync_interval=1)
    return file.getvalue()


@pytest.mark.parametrize("records", [(), ({"n": 1}, {"n": None})], ids=["no block", "two blocks"])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_whole_file_has_columns(records: tuple[Any, ...], codec: str) -> None:
    assert avro_columns_of(io.BytesIO(written(ROWS, *records, codec=codec))) == {"n": "int"}


WHOLE = written(ROWS, {"n": 1}, {"n": 2})
TREE = {"type": "record", "name": "tree", "fields": [{"name": "below", "type": ["null", "tree"]}]}
NOT_WHOLE = [
    (b"", "does not begin with"),
    (b"PAR1" + WHOLE, "does not begin with"),
    (WHOLE[:10], "header cannot be read"),
    (b"Obj\x01" + b"\xff" * 40, "header cannot be read"),
    (WHOLE.replace(b'"int"', b'"odd"'), "header cannot be read"),
    (WHOLE[:-1], "in the middle of a block"),
    (WHOLE + b"more", "in the middle of a block"),
    (written("long", 1), "its records are BIGINT"),
]


@pytest.mark.parametrize(("content", "words"), NOT_WHOLE, ids=range(len(NOT_WHOLE)))
def test_what_is_no_whole_file_is_reported(content: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        avro_columns_of(io.BytesIO(content))


def test_a_record_inside_itself_is_its_own_name() -> None:
    assert avro_columns_of(io.BytesIO(written(TREE))) == {"below": "tree"}
