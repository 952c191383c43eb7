"""Streams of files end to end: every format lands or says why not, once, whatever is restored, removed or repeated."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from lakeward.connectors.files import headers
from lakeward.connectors.iceberg.catalog import load_lake
from lakeward.connectors.plain import data_source
from lakeward.platform.errors import Blocked
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


class Folder:
    """A folder into which files are moved whole, the next one younger than the last."""

    def __init__(self, lab: Any) -> None:
        self.path = Path(lab.folder) / "in"
        self.path.mkdir()
        self._clock = 1_700_000_000

    def put(self, name: str, content: str | bytes, days_older: int = 0) -> Path:
        staged = self.path.parent / "staged"
        staged.write_bytes(content if isinstance(content, bytes) else content.encode())
        self._clock += 10
        modified = self._clock - days_older * 86_400
        os.utime(staged, (modified, modified))
        (self.path / name).parent.mkdir(exist_ok=True)
        return staged.rename(self.path / name)


@pytest.fixture
def folder(lab: Any) -> Folder:
    return Folder(lab)


def spec(lab: Any, folder: Folder, format: str, **more: Any) -> dict[str, Any]:
    document = lab.spec("none", **more)
    files = {"path": str(folder.path), "format": format, "max_files_per_trigger": 1, **more.pop("files", {})}
    document.pop("files", None)
    if format != "json":
        document.pop("decode")
    return document | {"source": {"files": files}}


def position(lab: Any, document: dict[str, Any]) -> dict[str, Any]:
    rows = lab.spark.sql(f"SHOW TBLPROPERTIES lake.{lab.namespace}.t").collect()
    key = f"lakeward.stream.{document['id']}.position"
    return dict(json.loads(next(row["value"] for row in rows if row["key"] == key)))


def records(*numbers: int) -> str:
    return "".join(json.dumps({"n": number, "s": f"row {number}"}) + "\n" for number in numbers)


@pytest.mark.parametrize(
    "steps",
    [
        ("before-return",),
        pytest.param(
            ("after-quarantine", "before-return"),
            marks=pytest.mark.campaign(held_by="test_json_lands_once_also_when_a_batch_runs_twice"),
        ),
    ],
    ids=["a step", "each step"],
)
def test_json_lands_once_also_when_a_batch_runs_twice(lab: Any, folder: Folder, steps: tuple[str, ...]) -> None:
    folder.put("a.json", records(1, 2) + "\njunk\njunk\n" + '{"n": "x"}\n')
    folder.put("below/b c%.json", records(3))
    document = spec(lab, folder, "json", rules={"small": "n < 900"})

    def die() -> None:
        raise RuntimeError("died")

    for step in steps:
        with failpoints.on(step, die):
            lab.fail(document)
        lab.started.clear()
    lab.run(document, 6)  # the first file's five once more, and the second file's one
    folder.put("c.json", records(4, 901), days_older=30)  # which Spark by itself passes over
    lab.run(document, 2)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3, 4]
    paths = {row["n"]: row["_file_path"] for row in lab.rows()}
    assert paths[3] == f"file://{folder.path}/below/b%20c%25.json"
    assert lab.rows()[0]["_file_modified"].year == 2023
    kept = sorted((row["_file_path"][-6:], row["reason"], row["error"]) for row in lab.rows("q"))
    assert kept == [
        ("a.json", "decode", 'n: not INT: "x"'),
        ("a.json", "decode", "not one JSON object"),
        ("a.json", "decode", "not one JSON object"),
        ("c.json", "small", "not: n < 900"),
    ], "two equal lines are two records, and a repeated batch adds none"
    assert json.loads(position(lab, document)["end"]["source"])["files"] == 3


def test_csv_values_are_as_declared_or_quarantined(lab: Any, folder: Folder) -> None:
    columns = "n INT, d DECIMAL(5,2), f DOUBLE, at TIMESTAMP, day DATE, s STRING"
    folder.put(
        "a.csv",
        "n,d,f,at,day,s\n"
        '1,1.25,1e3,2013-01-01T05:00:00Z,2013-01-01,"two\nlines, ""quoted"""\n'
        "2,NA,NA,NA,NA,NA\n"
        "3.5,1,1,2013-01-01T05:00:00Z,2013-01-01,x\n"
        "4,1000,1,2013-01-01T05:00:00Z,2013-01-01,x\n"
        "5,1,1e999,2013-01-01T05:00:00Z,2013-01-01,x\n"
        "6,1,1,12:30,2013-01-01,x\n"
        "7,1,1,2013-01-01T05:00:00Z,2013-01-01 05:00,x\n"
        "8,1,1\n"
        "9,1,1,2013-01-01T05:00:00Z,2013-01-01,x,more\n",
    )
    folder.put("b.csv", b"n,d,f,at,day,s\n10,1,1,2013-01-01T05:00:00Z,2013-01-01,\xff\n")
    document = spec(lab, folder, "csv", files={"columns": columns, "nulls": "NA"})
    lab.run(document, 10)
    rows = {row["n"]: row for row in lab.rows()}
    assert sorted(rows) == [1, 2]
    assert (str(rows[1]["d"]), rows[1]["f"], rows[1]["at"].hour, rows[1]["s"]) == (
        "1.25",
        1000.0,
        5,
        'two\nlines, "quoted"',
    )
    assert [rows[2][name] for name in ("d", "f", "at", "day", "s")] == [None] * 5
    errors = sorted(row["error"] for row in lab.rows("q"))
    assert errors == sorted(
        [
            "n: not INT: 3.5",
            "d: not DECIMAL(5,2): 1000",
            "f: number too large for DOUBLE: 1e999",
            "at: not TIMESTAMP: 12:30",
            "day: not DATE: 2013-01-01 05:00, it would become 2013-01-01",
            "another number of values than the 6 columns",
            "another number of values than the 6 columns",
            "s: not UTF-8: \ufffd",
        ]
    )

    folder.put("c.csv", "d,n,f,at,day,s\n")
    error = lab.fail(document)
    assert isinstance(error, Blocked)
    assert error.reason == "file-unfit"
    assert "its header is d, n, f, at, day, s; declared are n, d, f, at, day, s" in error.why

    for content, words in (
        ('11,1,1,,,"never closed\n12,1,1,,,x\n', "line 2: a quoted value has no end"),
        ('11,1,1,,,"open\n12,1,1,,,"x"\n', "line 2: a quoted value spans lines and has a quote that is not doubled"),
        ("11,1,1,,,a\r\n", "line 2: it ends in CR LF, and the first one in LF"),
        ('11,1,1,,,"a\r\nb"\n', None),
    ):
        folder.put("c.csv", f"n,d,f,at,day,s\n{content}")
        lab.started.clear()  # a failure of an earlier query is no answer
        if words is None:
            lab.run(document, 1)
        else:
            error = lab.fail(document)
            assert isinstance(error, Blocked)
            assert words in error.why
    assert [row["s"] for row in lab.rows() if row["n"] > 10] == ["a\r\nb"]


def test_parquet_lands_and_what_does_not_fit_is_refused_by_name(lab: Any, folder: Folder) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def put(name: str, **columns: Any) -> None:
        staged = Path(lab.folder) / "p"
        pq.write_table(pa.table(columns), staged)
        folder.put(name, staged.read_bytes())

    document = spec(lab, folder, "parquet", files={"columns": "n BIGINT, s STRING NOT NULL, at TIMESTAMP"})
    at = pa.array([0, 1_000_000], pa.timestamp("us"))
    put("a.parquet", n=pa.array([1, 2], pa.int32()), s=["x", None], at=at, more=[1, 2])
    put("b.parquet", n=pa.array([3, 4], pa.int64()), s=["y", "z"], at=at.cast(pa.timestamp("us", "UTC")))
    lab.run(document, 4)
    assert sorted((row["n"], row["s"], row["at"].second) for row in lab.rows()) == [
        (1, "x", 0),
        (3, "y", 0),
        (4, "z", 1),
    ]
    assert [row["error"] for row in lab.rows("q")] == ["s: required, but missing or null"]
    put("c.parquet", n=["5"], at=at[:1])
    error = lab.fail(document)
    assert isinstance(error, Blocked)
    assert error.reason == "file-unfit"
    assert "c.parquet: n is STRING, declared is BIGINT; it has no column s" in error.why
    put("c.parquet", n=pa.array([5], pa.int64()), s=["w"], at=at[:1])
    lab.started.clear()
    lab.run(document, 1)
    assert sorted(row["n"] for row in lab.rows()) == [1, 3, 4, 5], "a right file in its place lands"


def test_what_is_accepted_of_numbers_without_a_sign_is_read_exactly_by_both_readers(lab: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    reader = "spark.sql.parquet.enableVectorizedReader"
    for bits, kind in enumerate((pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()), start=3):
        most = 2 ** (2**bits) - 1
        folder = str(tmp_path / str(kind))
        pq.write_to_dataset(pa.table({"n": pa.array([most, 0, None], kind)}), folder)
        for declared in [each for each, narrower in headers._WIDER.items() if str(kind) in narrower]:
            for vectorized in ("true", "false"):
                lab.spark.conf.set(reader, vectorized)
                rows = lab.spark.read.schema(f"n {declared}").parquet(folder).collect()
                lab.spark.conf.unset(reader)
                assert [row["n"] for row in rows] == [most, 0, None], (kind, declared, vectorized)


def test_orc_lands_and_what_does_not_fit_is_refused_by_name(lab: Any, folder: Folder) -> None:
    import pyarrow as pa
    from pyarrow import orc

    def put(name: str, **columns: Any) -> None:
        staged = Path(lab.folder) / "p"
        orc.write_table(pa.table(columns), staged)
        folder.put(name, staged.read_bytes())

    document = spec(lab, folder, "orc", files={"columns": "n BIGINT, s STRING NOT NULL, d DATE"})
    day = pa.array([0, 1], pa.date32())
    put("a.orc", n=pa.array([1, 2], pa.int32()), s=["x", None], d=day, more=[1, 2])
    put("b.orc", n=pa.array([3, 4], pa.int64()), s=["y", "z"], d=day)
    lab.run(document, 4)
    assert sorted((row["n"], row["s"], row["d"].day) for row in lab.rows()) == [(1, "x", 1), (3, "y", 1), (4, "z", 2)]
    assert [row["error"] for row in lab.rows("q")] == ["s: required, but missing or null"]
    put("c.orc", n=["5"], d=day[:1])
    folder.put("d.orc", "no ORC")
    error = lab.fail(document)
    assert isinstance(error, Blocked)
    assert "c.orc: n is STRING, declared is BIGINT; it has no column s" in error.why
    put("c.orc", n=pa.array([5], pa.int64()), s=["w"], d=day[:1])
    lab.started.clear()
    error = lab.fail(document)
    assert isinstance(error, Blocked)
    assert "d.orc: it is not a valid ORC file" in error.why


EVERY_TYPE: dict[str, Any] = {
    "type": "record", "name": "every", "namespace": "n", "fields": [{"name": name, "type": kind} for name, kind in {
        "b": "boolean", "i": "int", "l": "long", "f": "float", "d": ["null", "double"], "s": "string", "y": "bytes",
        "x": {"type": "fixed", "name": "four", "size": 4}, "again": "four",
        "e": {"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]},
        "day": {"type": "int", "logicalType": "date"}, "clock": {"type": "int", "logicalType": "time-millis"},
        "ms": {"type": "long", "logicalType": "timestamp-millis"}, "u": {"type": "string", "logicalType": "uuid"},
        "us": {"type": "long", "logicalType": "timestamp-micros"},
        "here": {"type": "long", "logicalType": "local-timestamp-micros"},
        "money": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
        "price": {"type": "fixed", "name": "cents", "size": 6, "logicalType": "decimal", "precision": 9},
        "many": {"type": "array", "items": ["null", "int"]}, "map": {"type": "map", "values": "long"},
        "part": {"type": "record", "name": "inner", "fields": [{"name": "c", "type": "colour"}]},
        "number": ["int", "null", "long"], "either": ["string", "long"], "real": ["float", "double"], "void": "null",
    }.items()]}  # fmt: skip


def avro(schema: dict[str, Any], *rows: dict[str, Any], codec: str = "null") -> bytes:
    import fastavro

    written = io.BytesIO()
    fastavro.writer(written, schema, rows, codec=codec, sync_interval=1)
    return written.getvalue()


def test_avro_lands_and_what_does_not_fit_is_refused_by_name(lab: Any, folder: Folder, tmp_path: Path) -> None:
    def records_of(**fields: Any) -> dict[str, Any]:
        each = [{"name": name, "type": kind} for name, kind in fields.items()]
        return {"type": "record", "name": "r", "fields": each}

    (tmp_path / "every.avro").write_bytes(avro(EVERY_TYPE))
    spark_says = lab.spark.read.format("avro").load(str(tmp_path / "every.avro")).schema
    with (tmp_path / "every.avro").open("rb") as file:
        assert headers.columns_of(file, "avro") == {each.name: each.dataType.simpleString() for each in spark_says}

    at = {"type": "long", "logicalType": "timestamp-millis"}
    document = spec(lab, folder, "avro", files={"columns": "n BIGINT, s STRING NOT NULL, at TIMESTAMP"})
    narrow = records_of(n="int", s=["null", "string"], at=at, more="int")
    folder.put("a.avro", avro(narrow, {"n": 1, "s": "x", "at": 0, "more": 1}, {"n": 2, "s": None, "at": 0, "more": 2}))
    data_source.write(
        lab.spark.sql("SELECT 3L AS n, 'y' AS s, TIMESTAMP '1970-01-01 00:00:01 UTC' AS at").coalesce(1), "avro",
        {"path": str(tmp_path / "out")},
    )  # fmt: skip
    [spark_wrote] = (tmp_path / "out").glob("*.avro")
    folder.put("b without an ending", spark_wrote.read_bytes())
    lab.run(document, 3)
    assert sorted((row["n"], row["s"], row["at"].second) for row in lab.rows()) == [(1, "x", 0), (3, "y", 1)]
    assert [row["error"] for row in lab.rows("q")] == ["s: required, but missing or null"]

    fits = records_of(n="long", s="string", at=at)
    whole = avro(fits, *({"n": number, "s": "w", "at": 0} for number in (5, 6)))
    for content, words in (
        (avro(records_of(n="string", at="long")), "n is STRING, declared is BIGINT; it has no column s; at is BIGINT"),
        (whole[:-20], "it is not a valid Avro file: it is truncated: it ends in the middle of a block"),
        (b"no Avro", "it is not a valid Avro file: it does not begin with b'Obj"),
    ):
        folder.put("c.avro", content)
        lab.started.clear()
        error = lab.fail(document)
        assert isinstance(error, Blocked)
        assert error.reason == "file-unfit"
        assert f"c.avro: {words}" in error.why
    folder.put("c.avro", whole)
    lab.started.clear()
    lab.run(document, 2)
    assert sorted(row["n"] for row in lab.rows()) == [1, 3, 5, 6], "a right file in its place lands"


def test_values_that_the_reader_cannot_read_block_with_the_file_and_their_place(lab: Any, folder: Folder) -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    fields = [{"name": "n", "type": "long"}, {"name": "price", "type": price}]
    kind = {"type": "record", "name": "r", "fields": fields}
    plain = {**kind, "fields": [fields[0], {"name": "price", "type": "bytes"}]}
    document = spec(lab, folder, "avro", files={"columns": "n BIGINT, price DECIMAL(6,2)"})

    def written(schema: dict[str, Any], *prices: bytes) -> bytes:
        import fastavro

        made = io.BytesIO()
        rows = [{"n": n, "price": each} for n, each in enumerate(prices)]
        fastavro.writer(made, schema, rows, sync_marker=b"0123456789abcdef")
        return made.getvalue()

    def file(*prices: bytes) -> bytes:
        return written(kind) + written(plain, *prices)[len(written(plain)) :]

    folder.put("a.avro", file(b"\x01", b"\x7f\xff\xff\xff"))
    error = lab.fail(document)
    assert isinstance(error, Blocked), error
    assert (error.reason, error.code) == ("file-unfit", "LW-3490")
    assert "a.avro: record 2: price: 2147483647 has more digits than decimal(6,2); Spark says " in error.why
    folder.put("a.avro", file(b"\x01", b"\x02"))
    lab.started.clear()
    lab.run(document, 2)
    assert sorted((row["n"], str(row["price"])) for row in lab.rows()) == [(0, "0.01"), (1, "0.02")]


def test_an_older_copy_of_the_checkpoint_is_refused_also_with_other_caps(lab: Any, folder: Folder) -> None:
    for number in range(4):
        folder.put(f"{number}.json", records(number))
    document = spec(lab, folder, "json")
    lab.run(document, 2)
    checkpoint = Path(lab.wanted(document).checkpoint)
    copy = checkpoint.with_name("copy")
    shutil.copytree(checkpoint, copy)
    before = sorted(row["n"] for row in lab.rows())
    lab.run(document, 4 - len(before))
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    document["source"]["files"]["max_files_per_trigger"] = 3
    with pytest.raises(Blocked) as raised:
        lab.start(document)
    assert raised.value.reason == "older-checkpoint"
    assert sorted(row["n"] for row in lab.rows()) == [0, 1, 2, 3]


def test_a_file_that_is_gone_before_it_landed_blocks_and_lands_when_it_is_back(lab: Any, folder: Folder) -> None:
    file = folder.put("a.json", records(1))
    document = spec(lab, folder, "json")

    def take_away() -> None:
        file.unlink(missing_ok=True)
        raise RuntimeError("died")

    with failpoints.on("batch-start", take_away):
        lab.fail(document)
    error = lab.fail(document)
    assert isinstance(error, Blocked), error
    assert error.reason == "source-files-gone"
    assert f"file://{file}" in error.why
    lab.started.clear()
    folder.put("a.json", records(1))
    lab.run(document, 1)
    assert [row["n"] for row in lab.rows()] == [1]


def test_what_has_landed_is_archived_and_nothing_else(lab: Any, folder: Folder) -> None:
    document = spec(
        lab, folder, "text", files={"after": "archive"}, transform={"sql": "SELECT value, _file_path FROM source"}
    )
    archived = Path(f"{folder.path}.archived{folder.path}/a.txt")
    file = folder.put("a.txt", "one\n\n  \n")

    def die() -> None:
        assert file.exists()
        raise RuntimeError("died")

    with failpoints.on("after-publish", die):
        lab.fail(document)
    assert file.exists(), "Spark does not know yet that it landed"
    lab.started.clear()
    folder.put("b.txt", "two\n")
    lab.start(document)
    lab.until_rows(4)
    lab.until("the first to be archived", archived.exists)
    assert not file.exists()
    assert sorted(row["value"] for row in lab.rows()) == ["", "  ", "one", "two"]


def test_a_file_that_a_table_took_in_blocks_the_stream_before_it_is_deleted(lab: Any, folder: Folder) -> None:
    files = {"columns": "n INT, s STRING", "after": "delete"}
    document = spec(lab, folder, "parquet", files=files)
    taken, free = folder.put("a.parquet", parquet(1)), folder.put("b.parquet", parquet(2))
    catalog = load_lake(lab.runtime.lake, lab.runtime.pgpass)
    guest = catalog.create_table(f"{lab.namespace}.guest", pyarrow.schema([("n", "int32"), ("s", "string")]))
    guest.add_files([str(taken)])
    with pytest.raises(Blocked, match=f"{taken}: table {lab.namespace}.guest names it"):
        lab.start(document)
    catalog.drop_table(f"{lab.namespace}.guest")
    lab.start(document)
    lab.until_rows(2)
    lab.until("the first file to be deleted", lambda: not taken.exists())
    assert free.exists(), "Spark has not committed its batch"
    guest = catalog.create_table(f"{lab.namespace}.late", pyarrow.schema([("n", "int32"), ("s", "string")]))
    guest.add_files([str(free)])  # while the stream runs
    folder.put("c.parquet", parquet(3))
    error = lab.failed(lab.started[-1])
    assert isinstance(error, Blocked) and error.reason == "files-of-a-table", error
    assert [row["n"] for row in lab.rows("late")] == [2]
    lab.started.clear()
    document["source"]["files"]["after"] = "keep"
    lab.run(document, 1)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3]


def parquet(*numbers: int) -> bytes:
    file = io.BytesIO()
    columns = {"n": pyarrow.array(numbers, "int32"), "s": [f"row {number}" for number in numbers]}
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_landing.py::test_windows_land_once_final_late_rows_are_counted_and_bad_ones_kept"
)
def test_windows_over_files_count_their_records_and_keep_bad_ones(lab: Any, folder: Folder) -> None:
    document = spec(
        lab, folder, "json",
        decode={"json": "t TIMESTAMP, temp DOUBLE"},
        watermark={"column": "t", "delay": "1h"},
        transform={"sql": "SELECT window(t, '1 hour').start AS hour, avg(temp) AS temp FROM source "
                          "GROUP BY window(t, '1 hour')"},
    )  # fmt: skip

    def hour(number: int) -> str:
        return json.dumps({"t": f"2013-01-01T{number:02d}:10:00Z", "temp": number}) + "\n"

    folder.put("a.json", hour(1) + "junk\n" + hour(1))
    folder.put("b.json", hour(2) + hour(9))
    folder.put("c.json", hour(9))
    running = lab.start(document)
    lab.until("both windows", lambda: sum(done.outcome.landed for done in lab.done) == 2)
    assert running.stop(60)
    assert sorted((row["hour"].hour, row["temp"]) for row in lab.rows()) == [(1, 1.0), (2, 2.0)]
    assert [row["_file_path"][-6:] for row in lab.rows("q")] == ["a.json"]
    assert sum(done.consumed for done in lab.done) == 6


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_available_now.py::test_a_run_lands_what_is_there_under_its_cap_once_and_completes"
)
def test_a_run_by_schedule_lands_the_files_that_are_there_one_by_one(lab: Any, folder: Folder) -> None:
    document = spec(lab, folder, "json", trigger={"available_now": True, "schedule": "0 * * * *"})

    def run() -> Any:
        running = lab.start(document)
        lab.until("the end", lambda: not running.active)
        assert running.completed
        return running.function.landed

    folder.put("a.json", records(1, 2))
    folder.put("b.json", records(3))
    assert run() == (2, 3)
    assert run() == (0, 0)
    folder.put("c.json", records(4))
    assert run() == (1, 1)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2, 3, 4]
