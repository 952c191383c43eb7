from __future__ import annotations

import pytest

from lakeward.spec.checks.stream import property_refusal

OWNED = """\
owner: me
source:
  kafka: {topics: [t], max_offsets_per_trigger: 100}
decode: {json: "a INT"}
sink:
  iceberg: {table: n.t}
"""


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("write.wap.enabled", "true", "it stages every batch"),
        ("gc.enabled", "false", "maintenance needs it"),
        ("lakeward.position", "x", "Lakeward's record"),
        ("write.data.path", "s3a://b", "maintenance expects them"),
        ("write.metadata.path", "s3a://b", "maintenance expects them"),
        ("write.metadata.delete-after-commit.enabled", "false", "must be true"),
        ("format-version", "1", "must be 2 or 3"),
        ("format-version", "9", "must be 2 or 3"),
        ("commit.retry.num-retries", "0", "a whole number above 0"),
        ("write.target-file-size-bytes", "128MB", "a whole number above 0"),
        ("history.expire.min-snapshots-to-keep", "٣", "in digits"),
        ("", "x", "needs a name"),
    ],
)
def test_what_would_break_the_table_is_refused(key, value, words):
    assert words in (property_refusal(key, value) or "")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format-version", "3"),
        ("write.metadata.delete-after-commit.enabled", "TRUE"),
        ("commit.retry.num-retries", "20"),
        ("write.parquet.compression-codec", "zstd"),
        ("owner", "ops"),
    ],
)
def test_the_others_are_the_users(key, value):
    assert property_refusal(key, value) is None


@pytest.mark.parametrize(
    ("given", "key", "words", "valid"),
    [
        ("write.merge.mode: foo", "write.merge.mode", "none of copy-on-write", ("copy-on-write", "merge-on-read")),
        ("write.distribution-mode: ranges", "write.distribution-mode", "none of hash", ("hash", "none", "range")),
        ("write.object-storage.enabled: ja", "write.object-storage.enabled", "neither true nor false", ()),
        ("read.split.planning-lookback: '99999999999'", "read.split.planning-lookback", "up to 2,147,483,647", ()),
        ("write.parquet.compression-level: x", "write.parquet.compression-level", "no whole number", ()),
    ],
)
def test_a_property_that_iceberg_cannot_read_is_refused_at_its_line_with_what_is_valid(
    stream, given, key, words, valid
):
    [problem] = stream(OWNED.replace("n.t", "n.t, properties: {" + given + "}")).problems
    assert (problem.path, problem.line) == (f"sink.iceberg.properties[{key}]", 6)
    assert words in problem.message and tuple(problem.valid) == valid


def test_a_property_that_iceberg_reads_is_the_users(stream):
    given = "write.merge.mode: MERGE-ON-READ, write.parquet.compression-level: '9', write.distribution-mode: none"
    assert stream(OWNED.replace("n.t", "n.t, properties: {" + given + "}")).problems == ()
