"""Sources of files, as a user writes them."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.spec.model.file_paths import archive_of, folder_of

SINK = "sink: {iceberg: {table: n.t}}\n"


def text(keys: str, more: str = "") -> str:
    return f"owner: x\nsource: {{files: {{path: in, max_files_per_trigger: 5, {keys}}}}}\n{SINK}{more}"


def errors(loaded: Any) -> list[str]:
    return [problem.message for problem in loaded.problems if problem.severity == "error"]


GOOD = [
    ("format: json", 'decode: {json: "n INT"}\n'),
    ("format: text", ""),
    ('format: csv, columns: "n INT, d DECIMAL(8, 2)", nulls: NA, header: false', ""),
    ('format: parquet, columns: "n INT, a ARRAY<INT>", after: archive', ""),
    ('format: avro, columns: "n INT, at TIMESTAMP, a MAP<STRING, INT>"', ""),
]


@pytest.mark.parametrize(("keys", "more"), GOOD, ids=[keys.split(",")[0] for keys, _ in GOOD])
def test_what_is_done(stream, tmp_path, keys, more):
    (tmp_path / "in").mkdir()
    loaded = stream(text(keys, more))
    assert not loaded.problems
    assert loaded.specs[0].sources["source"].files.path == f"{tmp_path.resolve()}/in"
    assert loaded.specs[0].lineage == "none"


BAD = [
    ("format: json", "", "need decode: {json:"),
    ("format: text", 'decode: {json: "n INT"}\n', "of files of text a line is one column, value"),
    ("format: csv", "", "csv needs columns"),
    ('format: csv, columns: "n INT, a ARRAY<INT>"', "", "a is nested"),
    ('format: csv, columns: "n INT"', 'decode: {json: "n INT"}\n', "their columns are declared under files: columns:"),
    ('format: parquet, columns: "n INT", nulls: NA', "", "header and nulls belong to csv, not to parquet"),
    (
        'format: text, columns: "n INT"',
        "",
        "columns belongs to csv, parquet, orc and avro; of text it has one column, value",
    ),
    ('format: csv, columns: "_file_path STRING"', "", "_file_path is a column that Lakeward adds"),
    ("format: orc", "", "orc needs columns"),
    ("format: avro", "", "avro needs columns"),
    ('format: avro, columns: "n INT"', 'decode: {json: "n INT"}\n', "their columns are declared under files: columns:"),
    ('format: orc, columns: "n INT, at TIMESTAMP"', "", "ORC keeps a time without a zone"),
    ("format: text", "lineage: rows\n", "files has no position for its records"),
]


@pytest.mark.parametrize(("keys", "more", "words"), BAD, ids=[words for *_, words in BAD])
def test_what_does_not_go_together(stream, keys, more, words):
    assert any(words in message for message in errors(stream(text(keys, more)))), errors(stream(text(keys, more)))


def on(path: str, more: str = "format: text") -> str:
    return text(more).replace("path: in", f"path: '{path}'")


def test_files_on_s3(stream):
    loaded = stream(on("s3://lake/in/*/x.json", "format: text, after: archive"))
    assert not loaded.problems
    assert loaded.specs[0].sources["source"].files.path == "s3://lake/in/*/x.json"
    assert archive_of("s3://lake/in/*/x.json") == "s3://lake/in.archived"
    assert not stream(on("s3a://lake")).problems


@pytest.mark.parametrize(
    ("path", "more", "words"),
    [
        ("hdfs://b/in", "format: text", "not yet: files that are neither on the file system of the driver's machine"),
        ("s3://*/in", "format: text", "a place on S3 is s3://BUCKET/PREFIX"),
        ("s3://La_ke/in", "format: text", "a place on S3 is s3://BUCKET/PREFIX"),
        ("s3://lake", "format: text, after: archive", "beside a bucket is another one: read a prefix of it"),
        ("s3://lake/*.json", "format: text, after: archive", "beside a bucket is another one: read a prefix of it"),
    ],
)
def test_places_that_are_refused(stream, path, more, words):
    [message] = errors(stream(on(path, more)))
    assert words in message


def test_a_folder_that_is_not_there_yet_is_a_warning(stream):
    [problem] = stream(text("format: text")).problems
    assert (problem.severity, problem.path) == ("warning", "source.files.path")


def test_made_up_rows_are_a_warning_and_are_not_decoded(stream):
    text = f"owner: x\nsource: {{rate: {{rows_per_second: 5}}}}\n{SINK}"
    [problem] = stream(text).problems
    assert (problem.severity, problem.path) == ("warning", "source.rate")
    assert errors(stream(text + 'decode: {json: "n INT"}\n')) == [
        "decode belongs to records of bytes; rate has columns"
    ]


def test_nobody_takes_files_another_stream_has_not_landed(project, tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    taking = text("format: text, after: delete")
    other = text("format: text").replace("path: in", "path: in/deep/*.txt").replace("n.t", "n.u")
    loaded = project({"conf/streams/a.yaml": taking, "conf/streams/b.yaml": other})
    [problem] = loaded.problems
    assert (problem.file, problem.path) == ("conf/streams/a.yaml", "source.files.after")
    assert "stream b reads there too" in problem.message
    taking, deep = on("s3://lake/in", "format: text, after: delete"), on("s3a://lake/in/deep").replace("n.t", "n.u")
    [problem] = project({"conf/streams/a.yaml": taking, "conf/streams/b.yaml": deep}).problems
    assert "stream b reads there too" in problem.message
    kept = project({"conf/streams/a.yaml": text("format: text"), "conf/streams/b.yaml": other})
    assert not kept.problems, "files that stay may be read by anybody"


@pytest.mark.parametrize(
    ("path", "folder"), [("/a/b", "/a/b"), ("/a/b/", "/a/b"), ("/a/*/c.csv", "/a"), ("/a/x{1,2}", "/a"), ("/*.csv", "")]
)
def test_the_folder_of_a_pattern(path, folder):
    assert folder_of(path) == folder
    assert archive_of(path) == f"{folder}.archived", "beside it: what is archived is not read again"


def test_one_topic_name_of_two_clusters_is_refused_because_a_position_would_name_two_records(stream):
    def found(connection: str, topic: str) -> list[str]:
        east = "kafka: {topics: [t], max_offsets_per_trigger: 5, connection: east}"
        west = f"kafka: {{topics: [{topic}], max_offsets_per_trigger: 5, connection: {connection}}}"
        sources = f"sources:\n  a: {{{east}}}\n  b: {{{west}}}\n"
        sql = 'transform: {sql: "SELECT * FROM a UNION ALL SELECT * FROM b"}\n'
        return [each for each in errors(stream(f"owner: x\n{sources}{sql}{SINK}")) if "two connections" in each]

    [message] = found("west", "t")
    assert "sources a and b read topic t by two connections, east and west" in message
    assert found("west", "u") == found("east", "t") == []
