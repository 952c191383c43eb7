"""Rows that delete files of every kind delete, and the files a reader opens for them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DATA_FILE_TYPE, DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from lakeward.spec.model.policy import Compact
from lakeward.tables.facts import DeleteFiles, File, Thresholds, summarise
from lakeward.tables.observe import deletes
from lakeward.tables.observe.deletes import Held, OfFile, deletes_of, spot
from lakeward.tables.plan.compact import plan_compact
from lakeward.tables.plan.delete_writers import deleting, writer_of
from lakeward.tables.plan.model import Action, History

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "origin", StringType()))
PARTED = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "origin"), spec_id=1)
DROPPED = PartitionSpec(PartitionField(2, 1000, VoidTransform(), "origin"), spec_id=2)
TABLE = SimpleNamespace(specs=lambda: {0: UNPARTITIONED_PARTITION_SPEC, 1: PARTED, 2: DROPPED}, schema=lambda: SCHEMA)
FILE_PATH = 2147483546
EWR = (1, ("EWR",))


def held(path: str, records: int = 100, sequence: int = 1, spot=EWR, ids=None, added=0, **more) -> Held:
    low, high = ({1: to_bytes(LongType(), each)} for each in ids) if ids else ({}, {})
    made = DataFile.from_args(
        content=more.pop("content", DataFileContent.DATA), file_path=path,
        file_format=more.pop("file_format", FileFormat.PARQUET), partition=Record(*spot[1]), record_count=records,
        file_size_in_bytes=1, null_value_counts={1: more.pop("nulls", 0)}, lower_bounds=more.pop("low", low),
        upper_bounds=more.pop("high", high), equality_ids=more.pop("by", None),
    )  # fmt: skip
    return Held(made, spot, sequence, None, added or sequence)


def by_value(n: int, records: int, sequence: int = 2, **more) -> Held:
    return held(f"e{n}", records, sequence, content=DataFileContent.EQUALITY_DELETES, by=[1], **more)


def positions(n: int, records: int, low: str, high: str, sequence: int = 2, **more) -> Held:
    bounds = {"low": {FILE_PATH: low.encode()}, "high": {FILE_PATH: high.encode()}}
    return held(f"p{n}", records, sequence, content=DataFileContent.POSITION_DELETES, **bounds, **more)


@pytest.fixture
def found(monkeypatch):
    def read(data, made, about=None):
        entries = [(each, about) for each in made]
        monkeypatch.setattr(deletes, "_entries", lambda table, manifests: entries)
        return deletes_of(TABLE, [], data)

    return read


def test_equality_deletes_are_shared_by_records_among_older_files_of_the_partition(found):
    data = [held("a", 300), held("b", 100), held("young", 100, 9), held("other", 100, spot=(1, ("JFK",)))]
    seen = found(data, [by_value(n, 10) for n in range(8)])
    assert seen.spots == {EWR: DeleteFiles(8, 0, 8)}
    assert seen.files == {"a": OfFile(60, 8, True), "b": OfFile(20, 8, True)}


def test_equality_deletes_without_a_partition_apply_to_all(found):
    data = [held("a"), held("b", spot=(1, ("JFK",))), held("c", spot=(0, ()))]
    seen = found(data, [by_value(1, 30, spot=(0, ()))])
    assert {path: (of.rows, of.equality) for path, of in seen.files.items()} == dict.fromkeys("abc", (10, 1))


def test_equality_deletes_of_a_spec_whose_fields_were_dropped_apply_to_all(found):
    data = [held("a"), held("b", spot=(1, ("JFK",))), held("c", spot=(2, (None,)))]
    seen = found(data, [by_value(1, 30, spot=(2, (None,)))])
    assert {path: (of.rows, of.equality) for path, of in seen.files.items()} == dict.fromkeys("abc", (10, 1))


def test_files_of_nan_are_one_partition():
    manifest = SimpleNamespace(partition_spec_id=1)
    made = [held("a", spot=(1, (float(text),))).data for text in ("nan", "-nan", "nan")]
    spots = [spot(manifest, each, TABLE.specs()) for each in made]
    assert len({*spots}) == 1 and spots[0] == spots[1]


def test_equality_deletes_of_other_values_are_not_opened(found):
    data = [held("a", ids=(0, 99)), held("b", ids=(100, 199)), held("unknown")]
    seen = found(data, [by_value(1, 10, ids=(150, 160))])
    assert set(seen.files) == {"b", "unknown"}


def test_one_record_by_a_value_that_is_no_key_counts_for_all_its_rows(found):
    """A null, or the value of a whole file: otherwise a delete of every second row counts as one row, for ever."""
    data = [held("nulls", nulls=60, ids=(5, 9)), held("one", ids=(7, 7)), held("many", ids=(5, 9))]
    seen = found(data, [by_value(1, 1, nulls=1), by_value(2, 1, nulls=1), by_value(3, 1, ids=(7, 7))])
    assert {path: of.rows for path, of in seen.files.items()} == {"nulls": 60, "one": 100, "many": 1}
    two = by_value(1, 2, nulls=1)
    two.data[next(at for at, each in enumerate(DATA_FILE_TYPE[2].fields) if each.name == "equality_ids")] = [1, 2]
    assert found(data[:1], [two]).files["nulls"].rows == 2, "a record of two columns removes what has both values"


def test_a_position_delete_file_for_several_is_shared_among_those_it_may_name(found):
    data = [held("a"), held("b"), held("c"), held("b2", sequence=2, added=3)]
    seen = found(data, [positions(1, 40, "a", "b9"), positions(2, 5, "c", "c"), positions(3, 5, "c", "c")])
    young = "a rewrite keeps the sequence number of the delete, and no delete names what came later"
    assert seen.files == {"a": OfFile(20, 0, True), "b": OfFile(20, 0, True), "c": OfFile(10)}, young
    assert seen.spots == {EWR: DeleteFiles(3, 1)}


def test_a_deletion_vector_counts_for_its_file(found):
    vector = positions(1, 30, "", "", file_format=FileFormat.PUFFIN)
    assert found([held("a")], [vector], "a").files == {"a": OfFile(30)}


def test_forty_equality_deletes_over_a_fifth_of_the_rows_are_due_with_advice(found, facts, chain, now):
    data = [held("a", 1000), held("b", 1000)]
    seen = found(data, [by_value(n, 10, 2 + n) for n in range(40)])
    sizes = Thresholds(target=128, small=96, fragment=16)
    files = [
        File(120, each.data.record_count, now, False, of.rows, of.equality, of.shared)
        for each in data
        for of in [seen.files[each.data.file_path]]
    ]
    part = summarise("origin=EWR", "`origin` = 'EWR'", files, sizes, seen.spots[EWR])
    old = replace(part, last_written=now, last_rewritten=None)
    summary = {"added-equality-delete-files": "1", "flink.job-id": "4f2a"}
    made = facts(chain(3, **summary), partitions=(old,), thresholds=sizes)
    made = replace(made, profile=replace(made.profile, equality_deletes=40, records=2000, delete_files=40))
    due = plan_compact(made, Compact(), History(), now)
    assert isinstance(due, Action)
    assert "open up to 40 equality-delete files (limit 5), 400 of 2000 rows deleted" in due.why
    [rewrite] = due.rewrites
    assert (rewrite.mode, rewrite.shared_deletes, rewrite.takes) == ("deletes", True, 2)
    [said] = deleting(made)
    assert "40 equality-delete files by Flink job 4f2a (snapshot 3)" in said


@pytest.mark.parametrize(
    ("summary", "name"),
    [
        ({"flink.job-id": "4f"}, "Flink job 4f"),
        ({"engine-name": "spark", "engine-version": "4.1", "spark.app.id": "local-1"}, "spark 4.1"),
        ({"spark.app.id": "local-1"}, "Spark application local-1"),
        ({"trino_query_id": "2026_1"}, "Trino query 2026_1"),
        ({"kafka.connect.offsets.x": "{}"}, "Kafka Connect"),
        ({"lakeward.attempt": "orders/4/ab", "engine-name": "spark"}, "stream orders"),
        ({}, "an unnamed writer"),
    ],
)
def test_the_writer_of_a_commit_is_named(chain, summary, name):
    [snapshot] = chain(1, **summary)
    assert writer_of(snapshot) == name


@pytest.mark.parametrize(("opened", "due"), [(4, 0), (5, 1)])
def test_many_equality_delete_files_of_few_rows_make_a_file_due(now, opened, due):
    one = File(120, 1000, now, deleted=1, opened=opened, shared=True)
    part = summarise("p", "x", [one], Thresholds(target=128, small=96, fragment=16), DeleteFiles(opened, 0, opened))
    assert (part.deleted, part.opened, part.deleted_rows) == (due, opened, 1)
