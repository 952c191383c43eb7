"""Facts of a Delta table, from logs written by hand; real ones are read in tests/spark/tables."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from delta_log import START_MS, add, commit, remove, table

from lakeward.connectors.delta import state
from lakeward.tables.facts import Profile, TableFacts, Thresholds, profile_of
from lakeward.tables.observe.delta import table_facts

MB = 1 << 20
SIZES = Thresholds(target=128 * MB, small=96 * MB, fragment=16 * MB)
START = datetime.fromtimestamp(START_MS / 1000, UTC)


def look(folder: Path, known: Profile | None = None) -> TableFacts:
    read = state.read(folder)
    assert read is not None
    return table_facts("nyc.flights", read, lambda size, properties: SIZES, known)


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def test_partitions_are_judged_by_the_files_of_the_newest_version(tmp_path: Path) -> None:
    commit(tmp_path, 0, table())
    commit(tmp_path, 1, add("a", MB, at=1, day="2013-01-01"), add("b", MB, at=1, day="2013-01-02"))
    commit(tmp_path, 2, add("c", MB, at=2, day="2013-01-01"))
    found = look(tmp_path)
    assert (found.snapshot_id, found.format, found.profile.files, found.profile.records) == (2, "delta", 3, 30)
    first = found.profile.partitions[0]
    assert (first.key, first.where) == ("day=2013-01-01", "`day` = CAST('2013-01-01' AS DATE)")
    assert (first.fragments, first.last_written, first.last_rewritten) == (2, at(2), None)
    assert [each.operation for each in found.snapshots] == ["metadata", "append", "append"]


def test_a_rewrite_is_distinguished_from_a_write_and_remembered_after_its_commit_is_cleaned_up(tmp_path: Path) -> None:
    commit(tmp_path, 0, table(""), add("a", MB, at=0), add("b", MB, at=0))
    commit(
        tmp_path,
        1,
        remove("a", at=1, rewrite=True),
        remove("b", at=1, rewrite=True),
        add("ab", 20 * MB, at=1, rewrite=True),
    )
    seen = look(tmp_path)
    assert [each.operation for each in seen.snapshots] == ["append", "replace"]
    [part] = seen.profile.partitions
    assert (part.small, part.last_written, part.last_rewritten) == (1, at(0), at(1)), (
        "20 MB is below half of the target"
    )
    assert set(seen.tombstones.values()) == {at(1)}

    commit(tmp_path, 2, add("c", MB, at=2))
    # What a checkpoint keeps: the files, and no word of which rewrite made them.
    commit(tmp_path, 0, table(""), add("ab", 20 * MB, at=1))
    commit(tmp_path, 1)
    known = profile_of(seen.profile.document())
    assert known == seen.profile
    [part] = look(tmp_path, known).profile.partitions
    assert (part.last_written, part.last_rewritten) == (at(2), at(1))
    assert look(tmp_path, known).profile.outputs == ("ab",)


def test_what_is_written_again_is_no_tombstone(tmp_path: Path) -> None:
    commit(tmp_path, 0, table(""), add("a", MB))
    commit(tmp_path, 1, remove("a", at=1))
    commit(tmp_path, 2, add("a", MB))
    assert look(tmp_path).tombstones == {}


def test_minus_zero_is_a_partition_of_its_own_and_every_nan_is_the_same(tmp_path: Path) -> None:
    values = ("-0.0", "0.0", "-0.0", "0", "NaN", "NaN")
    files = [add(f"f{number}", MB, at=1, p=value) for number, value in enumerate(values)]
    commit(tmp_path, 0, table("p", "double"), *files)
    assert {part.key: part.files for part in look(tmp_path).profile.partitions} == {"p=-0.0": 2, "p=0.0": 2, "p=NaN": 2}


def test_a_table_that_maps_column_names_is_observed_by_the_names_of_today(tmp_path: Path) -> None:
    made = table()
    metadata = made["metaData"]
    schema = json.loads(metadata["schemaString"])
    for field in schema["fields"]:
        field["metadata"] = {"delta.columnMapping.physicalName": f"col-{field['name']}"}
    metadata |= {"schemaString": json.dumps(schema), "configuration": {"delta.columnMapping.mode": "name"}}
    commit(tmp_path, 0, made)
    mapped = add("a", MB, at=1, day="2013-01-01")
    mapped["add"]["partitionValues"] = {"col-day": "2013-01-01"}
    commit(tmp_path, 1, mapped)
    (part,) = look(tmp_path).profile.partitions
    assert (part.key, part.where) == ("day=2013-01-01", "`day` = CAST('2013-01-01' AS DATE)")
