"""Values of table properties that neither Iceberg nor PyIceberg can read."""

from __future__ import annotations

import pytest

from lakeward.platform.errors import Refused
from lakeward.spec.model import iceberg_properties as properties

RETRIES, OLD = "commit.retry.num-retries", "write.metadata.delete-after-commit.enabled"
MERGE, SPLIT = "commit.manifest-merge.enabled", "read.split.target-size"


@pytest.mark.parametrize("value", ["x", " 4", "4.0", "1e3", "10s", "0x4", "\u0664", "None"])
def test_a_number_that_cannot_be_read_is_named_with_its_value(value: str) -> None:
    found = {RETRIES: value, "write.metadata.previous-versions-max": "100"}
    assert properties.unreadable(found) == {RETRIES: "4"}
    with pytest.raises(Refused) as refused:
        properties.check("nyc.flights", found, "restore")
    assert (refused.value.code, refused.value.exit_code) == ("LW-3488", 4)
    assert refused.value.why == f"{RETRIES} is {value!r}, which is no whole number"
    assert refused.value.next.startswith("lakeward tables maintain nyc.flights --actions metadata")


@pytest.mark.parametrize("value", ["0", "-1", "10", "2147483647"])
def test_a_number_is_what_its_owner_decided(value: str) -> None:
    assert not properties.unreadable({RETRIES: value})


@pytest.mark.parametrize("value", ["", "rel/x", "file:rel", " /lake", "x/y"])
def test_a_path_that_is_not_absolute_stops_commits(value: str) -> None:
    for name, folder in properties.PLACES.items():
        assert properties.unreadable({name: value}, "s3://lake/n/t/") == {name: f"s3://lake/n/t/{folder}"}
        said = properties.stop_commits({name: value})
        assert said == f"{name} is {value!r}, which is no absolute path or URL"
    for right in ("/lake/x", "file:/lake", "file:///lake", "s3://bucket/x", "hdfs://h:9/x"):
        assert not properties.stop_commits(dict.fromkeys(properties.PLACES, right))


PARQUET, AVRO = "write.parquet.compression-", "write.avro.compression-"


@pytest.mark.parametrize(
    ("given", "mended"),
    [
        ({PARQUET + "level": "x"}, {PARQUET + "level": "3"}),
        ({PARQUET + "level": ""}, {PARQUET + "level": "3"}),
        ({PARQUET + "level": "3.5"}, {PARQUET + "level": "3"}),
        ({PARQUET + "level": " 3"}, {}),
        ({PARQUET + "level": "-5"}, {}),
        ({PARQUET + "codec": "GZIP", PARQUET + "level": "5"}, {PARQUET + "level": "DEFAULT_COMPRESSION"}),
        ({PARQUET + "codec": "gzip", PARQUET + "level": "BEST_SPEED"}, {}),
        ({PARQUET + "codec": "snappy", PARQUET + "level": "x"}, {}),
        ({"write.format.default": "avro", AVRO + "level": "x"}, {AVRO + "level": "9"}),
        ({"write.format.default": "avro", AVRO + "level": "99"}, {AVRO + "level": "9"}),
        ({"write.format.default": "avro", AVRO + "codec": "zstd", AVRO + "level": "x"}, {AVRO + "level": "3"}),
        ({"write.format.default": "avro", AVRO + "codec": "snappy", AVRO + "level": "x"}, {}),
        ({"write.format.default": "orc", PARQUET + "level": "x", "write.orc.compression-level": "x"}, {}),
        ({AVRO + "level": "x"}, {}),
    ],
)  # fmt: skip
def test_a_level_of_compression_is_what_the_codec_in_use_reads(given: dict[str, str], mended: dict[str, str]) -> None:
    """As Iceberg wrote, or failed to, with each: tests/spark/connectors/iceberg/test_properties.py has some."""
    assert properties.unreadable(given) == mended
    assert bool(properties.stop_commits(given)) == bool(mended)


def test_a_switch_is_what_pyiceberg_reads() -> None:
    assert not properties.unreadable({OLD: "FALSE"}) and not properties.unreadable({OLD: "yes"})
    assert properties.unreadable({OLD: "x"}) == {OLD: "false"}, "as Iceberg reads it"
    assert properties.unreadable({MERGE: "disabled"}) == {MERGE: "false"}, "its default is true: not what Iceberg reads"
    assert properties.unreadable({RETRIES: ""}), "Iceberg reads it as a number"
    properties.check("nyc.flights", {RETRIES: "", "owner": "x", "delta.logRetentionDuration": "x"}, "restore")


def test_only_what_a_commit_reads_as_a_number_stops_commits() -> None:
    found = properties.stop_commits({RETRIES: "x", SPLIT: "x", MERGE: "x"})
    assert found == f"{RETRIES} is 'x', which is no whole number"
    assert not properties.stop_commits({SPLIT: "128mb", MERGE: "disabled", OLD: "x"}), "a stream goes on landing"


@pytest.mark.parametrize(
    ("name", "value", "default", "valid", "stops"),
    [
        (RETRIES, "99999999999", "4", "no whole number up to 2,147,483,647", True),
        ("write.target-file-size-bytes", str(2**63), "536870912", "no whole number up to 9,223,", True),
        ("read.split.planning-lookback", "99999999999", "10", "no whole number up to", True),
        (SPLIT, str(2**64), "134217728", "no whole number up to", False),
        ("write.parquet.page-row-limit", "0", "20000", "no whole number from 1 up to 2,147,483,647", True),
        ("write.parquet.row-group-size-bytes", "-1", "134217728", "no whole number from 1 up to 9,223,", True),
        ("write.parquet.page-version", "V2", "v1", "none of v1, v2", True),
        ("write.manifest.compression-codec", "foo", "gzip", "none of gzip, uncompressed, snappy, zstd", True),
        ("write.format.default", "parkett", "parquet", "none of parquet, avro, orc", True),
        ("write.delete.format.default", "parkett", "parquet", "none of parquet", True),
        ("write.parquet.compression-codec", "foo", "zstd", "none of zstd", True),
        ("write.metadata.compression-codec", "foo", "none", "none of none, gzip", True),
        ("write.distribution-mode", "foo", "hash", "none of hash, none, range", True),
        ("write.merge.mode", "foo", "copy-on-write", "none of copy-on-write, merge-on-read", False),
        ("write.delete.isolation-level", "foo", "serializable", "none of serializable", False),
    ],
)
def test_words_and_large_numbers_are_what_iceberg_knows(
    name: str, value: str, default: str, valid: str, stops: bool
) -> None:
    assert properties.unreadable({name: value}) == {name: default}
    assert f"{name} is {value!r}, which is {valid}" in properties.words({name: value}, [name])
    assert bool(properties.stop_commits({name: value})) == stops
    assert bool(properties.unreadable({name: default.upper()})) == name.endswith("page-version")
    properties.check("nyc.flights", {name: value}, "restore")  # PyIceberg reads it, or does not ask
