"""A property that Delta cannot read, in a log that Spark did not write: named before a row is written, and mended."""

from __future__ import annotations

import pytest
from delta_rig import ROWS, Rig

from lakeward.connectors.delta import jvm, log, properties
from lakeward.connectors.delta.amend import amend
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.platform.errors import Blocked

GATE = ("delta.appendOnly", "delta.checkpointInterval")


def planted(rig: Rig, name: str, value: str) -> None:
    """A commit of another writer."""
    head = log.head(rig.folder)
    assert head is not None
    metadata = {**head.metadata, "configuration": {**head.properties, name: value}}
    assert DeltaLog(rig.folder).put(head.version + 1, [{"commitInfo": {"operation": "SET"}}, {"metaData": metadata}])
    jvm.invalidate_cache(rig.spark, rig.folder)


@pytest.mark.parametrize(
    "name",
    [
        *GATE,
        *(
            pytest.param(name, marks=pytest.mark.campaign(held_by="test_a_property_that_delta_cannot_read_is_named"))
            for name, parsed in properties.PARSED.items()
            if name not in GATE and (parsed.mended is not None or name == properties.MODE)
        ),
    ],
)
def test_a_property_that_delta_cannot_read_is_named(rig: Rig, name: str) -> None:
    value = "0" if name == "delta.checkpointInterval" else "x y"
    rig.land(0)
    planted(rig, name, value)
    with pytest.raises(Blocked) as blocked:
        rig.land(1)
    assert blocked.value.reason == "property-unreadable"
    assert f"{name} is {value!r}; valid is " in (blocked.value.why or "")
    amend(rig.table, rig.folder, {name: properties.PARSED[name].mended or "none"}, {name: value})
    assert rig.position().seq == 1, "no batch was committed"
    assert rig.land(1).seq == 2
    assert rig.values() == list(range(2 * ROWS))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta.constraints.odd", "value >"),
        ("delta.coordinatedCommits.commitCoordinator-preview", "no"),
        ("delta.coordinatedCommits.tableConf-preview", "no"),
    ],
)
def test_what_stops_a_batch_without_being_a_number_or_a_word_is_named_too(rig: Rig, name: str, value: str) -> None:
    rig.land(0)
    planted(rig, name, value)
    with pytest.raises(Blocked) as blocked:
        rig.land(1)
    assert blocked.value.reason == "property-unreadable"
    assert f"{name} is {value!r}; valid is " in (blocked.value.why or "")


def test_a_negative_retention_stops_no_batch(rig: Rig) -> None:
    rig.land(0)
    planted(rig, "delta.deletedFileRetentionDuration", "-5 days")
    assert rig.land(1).seq == 2
    rig.spark.sql(f"OPTIMIZE delta.`{rig.folder}`")
    assert rig.values() == list(range(2 * ROWS))


def test_a_name_within_another_one_is_no_property(rig: Rig) -> None:
    rig.land(0)
    planted(rig, "our.delta.appendOnly", "x y")
    assert rig.land(1).seq == 2
