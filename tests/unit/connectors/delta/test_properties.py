"""Values of properties that Delta cannot read. That Spark fails by them: tests/spark/connectors/delta."""

from __future__ import annotations

import pytest

from lakeward.connectors.delta import properties

FILES, INTERVAL, LENGTH = (
    "delta.deletedFileRetentionDuration", "delta.checkpointInterval", "delta.dataSkippingStringPrefixLength",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("interval 7 days", 604_800), ("1 week 12 hours", 648_000), ("INTERVAL 2 DAYS", 172_800), ("1.5 seconds", 1.5),
        ("3 days - 1 day", 172_800), (" 500 milliseconds ", 0.5), ("7d", None), ("one week", None), ("-5 days", None),
        ("interval 3 months", None), ("1 year", None), ("", None), ("7 days and more", None), ("7", None),
    ],
)  # fmt: skip
def test_an_interval_is_what_delta_can_compute(text: str, seconds: float | None) -> None:
    assert properties.seconds(text) == seconds


@pytest.mark.parametrize(
    ("name", "value", "mended"),
    [
        (FILES, "one week", properties.KEPT), (INTERVAL, "x", "10"), (INTERVAL, "0", "10"),
        ("delta.appendOnly", "ja", "false"), ("delta.enableDeletionVectors", "1", "false"),
        ("delta.dataSkippingNumIndexedCols", "all", "32"), ("delta.isolationLevel", "Sometimes", "Serializable"),
        ("delta.checkpointPolicy", "", "classic"),
        ("delta.dataSkippingNumIndexedCols", "9999999999", "32"), ("delta.parquet.format.version", "9", "1.0.0"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_read_is_named_with_what_is_valid(name: str, value: str, mended: str) -> None:
    assert properties.unreadable({name: value, "owner": "x"}) == {name: mended}
    said = properties.words(properties.stopping({name: value}, "land"))
    assert said.startswith(f"{name} is {value!r}; valid is ")
    assert not properties.unreadable({name: mended}), "what is set instead can be read"


def test_a_negative_retention_stops_vacuum_alone() -> None:
    odd = {FILES: "-5 days"}
    assert properties.unreadable(odd) == {FILES: properties.KEPT}
    assert properties.stopping(odd, "expire") == odd
    assert properties.stopping(odd, "land") == properties.stopping(odd, "compact") == {}
    assert properties.stopping({FILES: "-5 months"}, "land"), "that is no interval for Delta"


def test_what_only_its_owner_may_set_right_is_not_offered_to_a_command() -> None:
    coordinator, constraint = "delta.coordinatedCommits.commitCoordinator-preview", "delta.constraints.odd"
    odd = {coordinator: "no", "delta.coordinatedCommits.tableConf-preview": "no"}
    assert properties.stopping(odd, "land") == odd
    assert properties.unreadable(odd) == {"delta.coordinatedCommits.tableConf-preview": "{}"}
    for name in (coordinator, constraint):
        said = properties.words({name: "n >"})
        assert said.startswith(f"{name} is 'n >'; valid is ")
        assert f"set {name} right" in properties.mended_by("n.t", {name: "n >"})


def test_what_can_be_read_or_is_not_read_stops_nothing() -> None:
    plain = {
        "delta.appendOnly": "TRUE", INTERVAL: "100", FILES: "interval 1 week", "delta.columnMapping.mode": "Name",
        "delta.dataSkippingNumIndexedCols": "-5", "delta.isolationLevel": "writeserializable",
        "delta.logRetentionDuration": "7d", "delta.targetFileSize": "100 Elephants", "delta.minReaderVersion": "x",
        "delta.enableExpiredLogCleanup": "ja",
    }  # fmt: skip
    assert not properties.unreadable(plain)
    assert not any(properties.stopping(plain, act) for act in properties.ACTS)


def test_no_command_guesses_how_columns_are_stored() -> None:
    odd = {properties.MODE: "foo", "delta.appendOnly": "ja"}
    assert properties.unreadable(odd) == {"delta.appendOnly": "false"}
    assert properties.stopping(odd, "land") == properties.stopping(odd, "expire") == odd
    assert "maintain" not in properties.mended_by("n.t", odd)
    mended = properties.mended_by("n.t", {"delta.appendOnly": "ja"})
    assert mended.startswith("lakeward tables maintain n.t --actions metadata")


def test_only_what_an_act_reads_stops_it() -> None:
    assert properties.stopping({LENGTH: "x"}, "land") and properties.stopping({LENGTH: "x"}, "compact")
    assert not properties.stopping({LENGTH: "x"}, "expire"), "VACUUM writes no statistics"
