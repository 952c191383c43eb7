"""Tables in one folder, and copies of a table's metadata: no file of one goes with a commit or a VACUUM of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import delta_log
import pytest
from shared_files import SharedLake, entry, rows

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.delta import location as delta_location
from lakeward.operations.context import Context
from lakeward.operations.restore import plan as restoring
from lakeward.platform.errors import Refused
from lakeward.registry import generations, streams
from lakeward.tables import run
from lakeward.tables.plan.metadata import DELETE, KEPT


@pytest.fixture
def base(lake: SharedLake) -> tuple[str, Path]:
    """A Delta table with a removed file, so that a VACUUM is due: its name and folder."""
    folder = delta_location.folder_of(lake.runtime.lake, "shared.base")
    delta_log.commit(folder, 0, delta_log.table(""), delta_log.add("a.parquet", 1), delta_log.add("b.parquet", 1))
    delta_log.commit(folder, 1, delta_log.remove("a.parquet"))
    return "shared.base", folder


def planned(lake: SharedLake, name: str, action: str) -> tuple[bool, str]:
    """Whether an action is planned, and why or why not."""
    plan = run.why(lake.runtime, lake.project, name)["plan"]
    [found] = [each for each in (*plan["actions"], *plan["not_planned"]) if each["action"] == action]
    return found in plan["actions"], found["why"]


@pytest.mark.parametrize("below", ["sub/t", "."])
def test_no_vacuum_where_an_iceberg_table_is_that_was_never_observed(
    lake: SharedLake, base: tuple[str, Path], below: str
) -> None:
    """VACUUM deletes whatever the Delta log does not name: all files of the Iceberg table."""
    name, folder = base
    assert planned(lake, name, "expire")[0]
    guest = lake.table(rows(1), location=str((folder / below).resolve()))
    due, why = planned(lake, name, "expire")
    assert not due and f"table {guest} is in " in why and "VACUUM deletes every file of the folder" in why
    assert run.maintain(lake.runtime, lake.project, name, ["expire"])["actions"] == []


@pytest.mark.parametrize(
    ("stranger", "said"),
    [
        ("year=2026/deep/copy/_delta_log/0.json", "a Delta table at year=2026/deep/copy"),
        ("hadoop/t/metadata/v1.metadata.json", "an Iceberg table at hadoop/t"),
        ("offsets/0 commits/0", "a checkpoint at the location itself"),
        ("states/offsets/0 states/commits/0", "a checkpoint at states"),
    ],
)
def test_no_vacuum_where_files_of_others_are(
    lake: SharedLake, base: tuple[str, Path], stranger: str, said: str
) -> None:
    name, folder = base
    for file in stranger.split():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("{}")
    done = entry(dict(run.maintain(lake.runtime, lake.project, name, ["expire"])))
    assert done["result"] == "refused" and f"its folder has {said}, whose files VACUUM would delete" in done["why"]


def land(lake: SharedLake, stream: str, table: str, **spec: Any) -> None:
    """Deploy a stream that lands in a table, unless the spec says otherwise."""
    spec = {"sink": {"iceberg": {"table": table, "mode": "append"}}} | spec
    with lake.site.registry() as connection:
        streams.accept(connection, stream, generation=1, driver="d", desired="running")
        generations.add(
            connection, stream=stream, generation=1, spec=spec, digest="d", sql=None, code={}, versions={}, author="x",
            checkpoint="/c",
        )  # fmt: skip


def test_a_copy_that_was_rolled_back_blocks_no_stream(lake: SharedLake) -> None:
    """`register_table` copies the position too: what is done to the copy says nothing of the stream's own table."""
    raw = lake.table(rows(1))
    first = lake.load(raw).current_snapshot()
    lake.load(raw).append(rows(2))
    head = lake.load(raw).current_snapshot()
    held = Position(seq=1, query_id="q", batch=0, end={}, snapshot=head.snapshot_id, snapshot_seq=head.sequence_number)
    with lake.load(raw).transaction() as change:
        change.set_properties({key("lands"): held.to_json()})
    land(lake, "lands", raw)
    copy = f"{raw}_copy"
    lake.site.catalog.register_table(copy, lake.load(raw).metadata_location)
    lake.made.append(copy)
    lake.load(copy).manage_snapshots().set_current_snapshot(first.snapshot_id).commit()

    run.observe(lake.runtime, lake.project)
    with lake.site.registry() as connection:
        assert streams.get(connection, "lands").blocked is None
    pins = run.pins(lake.runtime, lake.project, copy)
    said = " ".join(pins["refusals"])
    assert f"{copy} has a position of stream lands, which lands in {raw}" in said
    assert f"UNSET TBLPROPERTIES ('{key('lands')}')" in said
    newer = f"{raw}_newer"
    lake.site.catalog.register_table(newer, lake.load(raw).metadata_location)
    lake.made.append(newer)
    context = Context(lake.site.registry, lake.runtime, author="ann", holder="a test")
    with pytest.raises(Refused, match="it has the position of stream lands") as refused:
        restoring.plan(context, newer, first.snapshot_id)
    assert refused.value.code == "LW-2528" and f"that stream lands in {raw}" in refused.value.why

    lake.load(raw).manage_snapshots().set_current_snapshot(first.snapshot_id).commit()
    run.observe(lake.runtime, lake.project)
    with lake.site.registry() as connection:
        assert (streams.get(connection, "lands").blocked or {})["reason"] == "rolled-back"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"sources": {"a": {"files": {"path": "file:{}/landing/*.json"}}}}, "files that stream files reads"),
        ({"sink": {"files": {"path": "{}/out", "format": "json"}}}, "files that stream files lands"),
        ({"reference": {"r": {"csv": "{}/names/n.csv", "columns": "n INT"}}}, "files that stream files looks up"),
    ],
)
def test_files_of_a_stream_are_no_orphans_of_the_table_in_whose_folder_they_are(
    lake: SharedLake, spec: dict[str, Any], said: str
) -> None:
    table, other = lake.table(rows(1)), lake.table(rows(1))
    folder = str(lake.folder(table))
    land(lake, "files", other, **json.loads(json.dumps(spec).replace("{}", folder)))
    with pytest.raises(Refused, match="Cannot maintain") as refused:
        lake.expire(table)
    assert f"{said} lie under its location" in refused.value.why
    [swept] = lake.orphans(table)["actions"]
    assert swept["result"] == "refused" and said in swept["why"]
    assert "lie under" not in planned(lake, other, "expire")[1]


def test_a_metadata_file_at_which_another_table_is_is_kept_until_it_left_the_log(lake: SharedLake) -> None:
    raw = lake.table(rows(1), **{DELETE: "true", "write.metadata.previous-versions-max": "3"})
    copy = f"{raw}_copy"
    lake.site.catalog.register_table(copy, lake.load(raw).metadata_location)
    lake.made.append(copy)
    assert planned(lake, raw, "metadata") == (False, "2 metadata files, the oldest is deleted with each commit")
    lake.load(raw).append(rows(2))
    run.observe(lake.runtime, lake.project)  # both are in one folder: nothing else is done to them
    due, why = planned(lake, raw, "metadata")
    assert due and f"{copy} is at metadata files of this table" in why

    lake.load(raw).transaction().set_properties({DELETE: "false", KEPT: copy}).commit_transaction()
    for number in range(3, 7):
        lake.load(raw).append(rows(number))
    assert lake.ids(copy) == [1]
    due, why = planned(lake, raw, "metadata")
    assert due and f"the metadata files kept for {copy} have left the log" in why and "on again" in why
    with lake.load(raw).transaction() as change:
        change.set_properties({DELETE: "true", KEPT: ""})
    for number in range(7, 12):
        lake.load(raw).append(rows(number))
    assert lake.ids(copy) == [1] and not planned(lake, raw, "metadata")[0]


def test_no_vacuum_is_due_for_files_of_the_base_of_a_clone(lake: SharedLake, base: tuple[str, Path]) -> None:
    """The VACUUM of a clone leaves them: one that is judged by them fails each time."""
    _, folder = base
    clone = delta_location.folder_of(lake.runtime.lake, "shared.clone")
    taken = f"file:{folder}/b.parquet"
    delta_log.commit(clone, 0, delta_log.table(""), delta_log.add(taken, 1), delta_log.add("own.parquet", 1))
    delta_log.commit(clone, 1, delta_log.remove(taken))
    assert planned(lake, "shared.clone", "expire") == (False, "no file waits to be deleted")
    delta_log.commit(clone, 2, delta_log.remove(f"file://{clone}/own.parquet"))
    assert planned(lake, "shared.clone", "expire")[0]


@pytest.mark.parametrize("how", ["renamed", "dropped"])
def test_a_table_that_is_no_longer_there_stops_no_maintenance(lake: SharedLake, how: str) -> None:
    """An observation recorded it at the location that another name has now."""
    before = lake.table(rows(1), rows(2))
    run.observe(lake.runtime, lake.project)
    if how == "renamed":
        now = f"{before}_new"
        lake.site.catalog.rename_table(before, now)
        lake.made.append(now)
    else:
        folder = lake.load(before).metadata.location
        lake.site.catalog.drop_table(before)
        now = lake.table(rows(3), rows(4), location=folder)
    assert run.observe(lake.runtime, lake.project)["errors"] == {}
    due, why = planned(lake, now, "expire")
    assert due, why
    assert entry(lake.expire(now))["result"] == "done"
