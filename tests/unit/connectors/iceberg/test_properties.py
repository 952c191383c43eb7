"""Values of table properties that neither Iceberg nor PyIceberg can read."""

from __future__ import annotations

import pytest

from lakeward.connectors.iceberg import properties
from lakeward.platform.errors import Refused

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
