"""Commands on a Delta table with a property that Delta cannot read, in a log that Spark did not write."""

from __future__ import annotations

from typing import Any

import pytest
import restored_delta as rig

from lakeward.connectors.delta import location, log
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.delta.position_store import DeltaPositionStore
from lakeward.connectors.delta.properties import KEPT

TABLE, STREAM = "nyc.landings", "flights"
FILES = "delta.deletedFileRetentionDuration"
ODD = {FILES: "one week", "delta.appendOnly": "ja", "owner": "ann"}


@pytest.fixture
def odd(site: Any) -> Folder:
    folder = location.folder_of(site.runtime.lake, TABLE)
    rig.create(folder, **ODD)
    rig.land(folder, STREAM, 1, 0, 5, topic=site.topic, source="flights")
    return folder


def test_maintenance_sets_them_right_and_every_command_goes_on(site: Any, odd: Folder) -> None:
    store = DeltaPositionStore(odd, TABLE, STREAM)
    halt = store.read().halt
    assert halt is not None and halt.reason == "property-unreadable"
    assert halt.next.startswith(f"lakeward tables maintain {TABLE} --actions metadata")

    assert site.lakeward("tables", "health", "-o", "json").code == 0
    planned = site.lakeward("tables", "plan", TABLE, "-o", "json")
    assert planned.code == 0 and "delta.appendOnly is 'ja'; valid is true or false" in planned.out

    done = site.lakeward("tables", "maintain", TABLE, "--actions", "metadata", "-o", "json")
    assert done.code == 0, done.err
    head = log.head(odd)
    assert head is not None and head.version == 2
    assert head.properties == {
        FILES: KEPT, "delta.appendOnly": "false", "owner": "ann",
    }  # fmt: skip
    assert store.read().halt is None and store.read().raw, "the position stays"
    again = site.lakeward("tables", "maintain", TABLE, "--actions", "metadata", "-o", "json")
    assert again.code == 0 and rig.head(odd) == 2
    back = site.lakeward("tables", "restore", TABLE, "--to", "1", "--dry-run")
    assert back.code == 0, back.err
