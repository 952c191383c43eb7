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
            for name in properties.PARSED
            if name not in GATE
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


def test_a_name_within_another_one_is_no_property(rig: Rig) -> None:
    rig.land(0)
    planted(rig, "our.delta.appendOnly", "x y")
    assert rig.land(1).seq == 2
