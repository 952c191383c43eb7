"""Facts of real Iceberg tables, written and read by PyIceberg alone."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.spec.model.policy import Policy
from lakeward.tables.facts import Thresholds, profile_of
from lakeward.tables.observe.commits import moved_by
from lakeward.tables.observe.iceberg import table_facts
from lakeward.tables.plan import compact
from lakeward.tables.plan.expire import expirable

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "origin", StringType()))
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "origin"))
SIZES = Thresholds(1 << 20, 1 << 19, 1 << 18)


@pytest.fixture
def table(tmp_path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("nyc")
    yield catalog.create_table("nyc.flights", SCHEMA, partition_spec=SPEC)
    catalog.close()


def append(table, *origins: str | None) -> None:
    rows = {"id": list(range(len(origins))), "origin": list(origins)}
    table.append(pa.table(rows, schema=pa.schema([("id", pa.int64()), ("origin", pa.string())])))


def judge(size, properties):
    return SIZES


def test_an_empty_table_has_no_files(table):
    found = table_facts(table, judge)
    assert (found.table, found.snapshot_id, found.sequence, found.profile.files) == ("nyc.flights", None, 0, 0)
    assert found.last_commit is None


def test_files_are_counted_by_partition_with_the_time_they_came(table):
    append(table, "EWR", "JFK")
    append(table, "EWR", None)
    found = table_facts(table, judge)
    parts = {part.key: part for part in found.profile.partitions}
    assert {name: part.files for name, part in parts.items()} == {"origin=EWR": 2, "origin=JFK": 1, "origin=null": 1}
    assert parts["origin=EWR"].where == "`origin` = 'EWR'"
    assert parts["origin=EWR"].last_written == found.head.at
    assert parts["origin=JFK"].last_written == found.snapshots[0].at
    assert (found.profile.files, found.profile.small_files, found.profile.records) == (4, 4, 4)
    assert (found.profile.data_manifests, len(found.snapshots), found.metadata_files) == (2, 2, 3)


def test_the_kept_profile_is_used_only_while_nothing_changed(table):
    append(table, "EWR")
    first = table_facts(table, judge)
    assert table_facts(table, judge, first.profile).profile is first.profile
    other = Thresholds(2 << 20, 1 << 19, 1 << 18)
    assert table_facts(table, lambda *_: other, first.profile).profile.thresholds == other
    append(table, "EWR")
    assert table_facts(table, judge, first.profile).profile.files == 2


def test_facts_survive_the_registry(table):
    append(table, "EWR", None)
    found = table_facts(table, judge)
    stored = json.loads(json.dumps(found.document(datetime.now(UTC))))
    assert profile_of(stored["profile"]) == found.profile
    assert (stored["files"], stored["commits_last_hour"], stored["snapshots"]) == (2, 1, 1)


def test_positions_are_seen(table):
    held = Position(seq=1, query_id="q", batch=0, end={}, snapshot=1, snapshot_seq=1)
    with table.transaction() as change:
        change.set_properties({key("s"): held.to_json()})
    assert table_facts(table, judge).streams == ("s",)


def test_what_a_commit_moved_is_read_from_its_own_manifests(table):
    append(table, "EWR", "EWR", "JFK")
    append(table, "EWR")
    table.delete("origin = 'EWR'")
    found = table_facts(table, judge)
    moved = moved_by(table, found.snapshots)
    first, second, third = ({str(part): did for part, did in moved[each.id].items()} for each in found.snapshots)
    assert (first["origin=EWR"].rows_in, first["origin=EWR"].files_in, first["origin=JFK"].rows_in) == (2, 1, 1)
    assert list(second) == ["origin=EWR"]
    assert (third["origin=EWR"].rows_out, third["origin=EWR"].files_out, "origin=JFK" in third) == (3, 2, False)


@pytest.mark.parametrize("age", [2**63 - 1, 10**13])
def test_an_age_of_for_ever_is_no_date(table, age):
    append(table, "EWR")
    head = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(head, "kept", max_ref_age_ms=age).create_branch(
        head, "side", max_snapshot_age_ms=age
    ).commit()
    with table.transaction() as change:
        change.set_properties({"history.expire.max-ref-age-ms": "1"})
    found = table_facts(table, judge)
    now = datetime.now(UTC)
    assert found.outlived(now) == {"side"}, "the table's default is for refs without an age"
    assert found.refs["kept"].expires_after_ms is None
    side = replace(found.refs["side"], expires_after_ms=None)
    assert expirable(replace(found, refs={"side": side}), now, 1, now) == set()


def test_a_partition_with_a_file_that_is_named_twice_is_not_rewritten(table):
    append(table, "EWR", "JFK")
    [again] = [task.file.file_path for task in table.scan("origin = 'EWR'").plan_files()]
    table.add_files([again], check_duplicate_files=False)
    found = table_facts(table, judge)
    parts = {part.key: part for part in found.profile.partitions}
    assert parts["origin=JFK"].untouched == ""
    why = parts["origin=EWR"].untouched
    assert "1 data file named more than once" in why and again in why
    many = replace(parts["origin=EWR"], fragments=99, oldest_fragment=found.head.at)
    verdict = compact.judge(many, Policy().compact, SIZES, None, found.head.at + timedelta(days=2))
    assert (verdict.mode, verdict.why) == ("", why)
    assert compact.judge(replace(many, untouched=""), Policy().compact, SIZES, None, found.head.at).mode
