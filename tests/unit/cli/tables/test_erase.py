"""`lakeward tables erase`: the rows are in no file any more, every record is still explained, and no value is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import BucketTransform
from sqlalchemy import text, update

from lakeward.connectors.commit_protocol.ancestry import Finding
from lakeward.connectors.iceberg.check import check_table
from lakeward.connectors.iceberg.pyiceberg_table import state_of
from lakeward.registry import changes, generations, incidents, maintenance, schema, streams, verifications
from lakeward.tables.erase import files
from lakeward.telemetry import failpoints

WHERE = "_kafka_offset IN (1, 3) AND _kafka_partition = 0"
_WORDS = ("tables", "erase", "nyc.flights", "--where", WHERE, "--comment", "ticket 7", "-o", "json")
_YES = (*_WORDS, "--yes")


@pytest.fixture
def table(landed: Callable[..., Any]) -> Any:
    """Offsets 0 to 4 of a stream in one file, under a history of three snapshots."""
    found = landed({0: 5, 1: 0}, rows=[(0, each) for each in range(4)])
    found.append(rows_of(found, [4]))
    return found.refresh()


def rows_of(table: Any, offsets: list[int]) -> pa.Table:
    topic = table.scan().to_arrow().column("_kafka_topic")[0].as_py()
    number = len(offsets)
    return pa.table(
        {
            "_kafka_topic": pa.array([topic] * number, pa.string()),
            "_kafka_partition": pa.array([0] * number, pa.int32()),
            "_kafka_offset": pa.array(offsets, pa.int64()),
        }
    )


def physical(table: Any) -> list[int]:
    """The offsets in every Parquet file below the table, named by anything or not."""
    found = root(table).rglob("*.parquet")
    return sorted(each for file in found for each in pq.ParquetFile(file).read().column("_kafka_offset").to_pylist())


def root(table: Any) -> Path:
    return Path(table.location().removeprefix("file://"))


def test_it_shows_what_would_go_and_waits_for_a_yes(site: Any, table: Any) -> None:
    shown = site.lakeward(*_WORDS, "--dry-run")
    assert (shown.code, shown.json["rows"], shown.json["files"], shown.json["result"]) == (0, 2, 1, "skipped")
    refused = site.lakeward(*_WORDS)
    assert refused.code == 4 and "needs a person's approval" in refused.err
    assert physical(table) == [0, 1, 2, 3, 4]


def test_no_file_holds_the_rows_and_the_audit_explains_them(site: Any, table: Any) -> None:
    table.append(rows_of(table, [1]))  # once more, in a file of its own that goes whole
    done = site.lakeward(*_YES)
    assert (done.code, done.json["result"], done.json["rows"]) == (0, "done", 3)
    assert physical(table) == [0, 2, 4]
    assert len(table.refresh().metadata.snapshots) == 1
    assert not [each for each in table.properties if "erase" in each and "stream" not in each]
    audit = site.lakeward("streams", "audit", "flights", "-o", "json").json
    assert (audit["landed"], audit["erased"]) == (3, 3)


def test_an_erased_record_is_not_missing(site: Any, table: Any) -> None:
    assert site.lakeward(*_YES).code == 0
    audit = site.lakeward("streams", "audit", "flights", "-o", "json")
    assert (audit.code, audit.json["missing"], audit.json["erased"]) == (0, 0, 2)


def test_who_why_and_how_many_is_kept_and_no_value(site: Any, table: Any) -> None:
    assert site.lakeward(*_YES).code == 0
    with site.registry() as connection:
        change = changes.newest(connection, "table", "nyc.flights")[0]
        ledger = maintenance.newest_actions(connection, "nyc.flights")[0]
        everything = json.dumps([change, ledger], default=str)
    assert (change.change, change.comment, change.detail["rows"]) == ("erase", "ticket 7", 2)
    assert (ledger["action"], ledger["result"], ledger["verified"]) == ("erase", "done", True)
    assert WHERE not in everything and "IN (1" not in everything


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.parquet.page-row-limit", "0"),  # Arrow writes with it for ever
        *(
            pytest.param(*each, marks=pytest.mark.campaign(held_by="test_what_pyiceberg_cannot_write_by_is_refused"))
            for each in (
                ("write.target-file-size-bytes", "128 MB"), ("write.target-file-size-bytes", "0"),
                ("write.parquet.compression-level", "high"), ("write.parquet.row-group-limit", "-1"),
                ("write.parquet.compression-codec", "lzo"), ("write.metadata.previous-versions-max", "x"),
                ("write.object-storage.enabled", "maybe"), ("commit.retry.num-retries", "none"),
                ("write.metadata.metrics.default", "truncate(x)"), ("write.py-location-provider.impl", "acme.Mine"),
            )
        ),
    ],
)  # fmt: skip
def test_what_pyiceberg_cannot_write_by_is_refused(site: Any, table: Any, key: str, value: str) -> None:
    owned(table, key, value)
    refused = site.lakeward(*_YES)
    assert refused.code == 4 and "LW-2020" in refused.err and "its propert" in refused.err
    assert physical(table) == [0, 1, 2, 3, 4], "nor is any file written"


def test_a_setting_of_other_writers_and_an_empty_one_keep_no_row(site: Any, table: Any) -> None:
    owned(table, "write.parquet.row-group-size-bytes", "1048576")
    owned(table, "write.target-file-size-bytes", "")
    done = site.lakeward(*_YES)
    assert (done.code, physical(table)) == (0, [0, 2, 4])


def owned(table: Any, key: str, value: str) -> None:
    """Set a property as any writer can: PyIceberg would refuse to commit some of them."""
    file = Path(table.refresh().metadata_location.removeprefix("file://"))
    document = json.loads(file.read_text())
    document["properties"][key] = value
    file.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "step",
    [
        "erase-before-commit",
        "erase-one-deleted",
        *(
            pytest.param(each, marks=pytest.mark.campaign(held_by="test_killed_anywhere_the_same_command_goes_on"))
            for each in ("erase-stopped", "erase-rewritten", "erase-forgotten")
        ),
    ],
)
def test_killed_anywhere_the_same_command_goes_on(site: Any, table: Any, step: str) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    with failpoints.on(step, die):
        assert site.lakeward(*_YES).code != 0
    done = site.lakeward(*_YES)
    assert (done.code, done.json["rows"]) == (0, 2)
    assert physical(table) == [0, 2, 4], "nor are there two of what stays, one of them named by nothing"
    assert not [each.name for each in (root(table) / "metadata").iterdir() if "erase" in each.name]
    audit = site.lakeward("streams", "audit", "flights", "-o", "json")
    assert (audit.json["missing"], audit.json["erased"]) == (0, 2)


def test_no_metadata_has_bounds_of_what_went_and_the_position_is_on_the_new_beginning(site: Any, table: Any) -> None:
    assert site.lakeward(*_YES).code == 0
    head = table.refresh().current_snapshot()
    assert not [
        each
        for manifest in head.manifests(table.io)
        for each in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        if each.status.name == "DELETED"
    ]
    assert len(list(root(table).rglob("*-m*.avro"))) == len(head.manifests(table.io))
    state = state_of(table.metadata, "flights", "nyc.flights")
    assert (state.ancestry.finding, state.position.snapshot) == (Finding.MET, head.snapshot_id)
    assert check_table(replace(state, staging=True), "lake") is None, "a driver goes on"


def test_a_partitioned_table_and_old_delete_files_in_it(site: Any, landed: Callable[..., Any]) -> None:
    table = landed({0: 5, 1: 3}, rows=[])
    with table.update_spec() as change:
        change.add_identity("_kafka_partition")
    made = pa.table(
        {
            "_kafka_topic": pa.array([site.topic] * 8, pa.string()),
            "_kafka_partition": pa.array([0] * 5 + [1] * 3, pa.int32()),
            "_kafka_offset": pa.array([*range(5), *range(3)], pa.int64()),
        }
    )
    table.append(made)
    stray = root(table) / "data" / "00001-deletes.parquet"
    fields = [  # as Iceberg writes them: none of the table's own columns
        pa.field(name, kind, metadata={"PARQUET:field_id": number})
        for name, kind, number in (("file_path", pa.string(), "2147483546"), ("pos", pa.int64(), "2147483545"))
    ]
    pq.write_table(pa.table([["x"], [1]], schema=pa.schema(fields)), stray)
    aside = root(table) / ".lakeward_orphans" / "20261101T000000Z" / "data" / "old.parquet"
    aside.parent.mkdir(parents=True)
    aside.write_bytes(stray.read_bytes())
    stray.unlink()
    done = site.lakeward(*_YES)
    assert (done.code, done.json["rows"]) == (0, 2)
    left = table.refresh().scan().to_arrow()
    pairs = zip(left.column("_kafka_partition").to_pylist(), left.column("_kafka_offset").to_pylist(), strict=True)
    assert sorted(pairs) == [(0, 0), (0, 2), (0, 4), (1, 0), (1, 1), (1, 2)]
    aside.unlink()
    assert physical(table) == [0, 0, 1, 2, 2, 4]
    audit = site.lakeward("streams", "audit", "flights", "-o", "json")
    assert (audit.json["missing"], audit.json["erased"]) == (0, 2)


def test_files_elsewhere_and_other_formats_are_refused_by_name(site: Any, table: Any) -> None:
    for name, value in (
        ("write.data.path", "/elsewhere"), ("gc.enabled", "false"), ("write.format.default", "avro"),
    ):  # fmt: skip
        with table.transaction() as change:
            change.set_properties({name: value})
        refused = site.lakeward(*_YES)
        assert refused.code == 4 and name in refused.err
        with table.transaction() as change:
            change.remove_properties(name)
    assert physical(table) == [0, 1, 2, 3, 4]
    with table.update_spec() as change:
        change.add_field("_kafka_offset", BucketTransform(4), "bucketed")
    refused = site.lakeward(*_YES)
    assert refused.code == 4 and "earlier partitioning" in refused.err
    unknown = site.lakeward("tables", "erase", "nyc.nothing", "--where", WHERE, "--yes", "--comment", "x")
    assert unknown.code == 2 and "no Iceberg table 'nyc.nothing'" in unknown.err


def test_files_that_another_table_names_or_that_lie_elsewhere_are_not_erased(
    site: Any, table: Any, tmp_path: Path
) -> None:
    guest = table.catalog.create_table("nyc.guest", schema=table.schema())
    try:
        guest.add_files([task.file.file_path for task in table.scan().plan_files()])
        refused = site.lakeward(*_YES)
        assert refused.code == 4 and "table nyc.guest names" in refused.err
        assert len(guest.scan().to_arrow()) == 5 and physical(table) == [0, 1, 2, 3, 4]
    finally:
        table.catalog.drop_table("nyc.guest")
    elsewhere = tmp_path / "part-0.parquet"
    pq.write_table(rows_of(table, [1]), elsewhere)
    table.refresh().add_files([str(elsewhere)])
    refused = site.lakeward(*_YES)
    assert refused.code == 4 and str(elsewhere) in refused.err and "expire.outside_files" in refused.err
    assert elsewhere.exists()


def test_a_file_that_another_table_takes_in_meanwhile_stays(site: Any, table: Any) -> None:
    [file, *_] = [task.file.file_path for task in table.scan().plan_files()]
    guest = table.catalog.create_table("nyc.guest", table.schema().as_arrow())
    try:
        with failpoints.on("erase-forgotten", lambda: guest.add_files([file])):
            refused = site.lakeward(*_YES)
        assert refused.code == 4 and "table nyc.guest names" in refused.err
        assert Path(file.removeprefix("file://")).exists() and guest.refresh().scan().to_arrow().num_rows > 0
    finally:
        table.catalog.drop_table("nyc.guest")
    assert site.lakeward(*_YES).code == 0
    assert physical(table) == [0, 2, 4]


def test_a_table_whose_metadata_is_cut_is_not_called_missing(site: Any, table: Any) -> None:
    file = Path(table.metadata_location.removeprefix("file://"))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    refused = site.lakeward(*_WORDS, "--dry-run")
    assert (
        refused.code != 0 and "Cannot read table nyc.flights" in refused.err and "restore its metadata" in refused.err
    )
    file.write_bytes(whole)
    gone = site.lakeward("tables", "erase", "nyc.none", "--where", WHERE, "--dry-run")
    assert gone.code != 0 and "Delta tables cannot be erased from yet" in gone.err


def test_a_tag_that_holds_them_is_named_and_goes_only_when_asked(site: Any, table: Any) -> None:
    table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "2026-close").commit()
    refused = site.lakeward(*_YES)
    assert refused.code == 4 and "2026-close" in refused.err
    assert physical(table) == [0, 1, 2, 3, 4]
    assert site.lakeward(*_YES, "--drop-refs").code == 0
    assert physical(table) == [0, 2, 4] and set(table.refresh().metadata.refs) == {"main"}


def test_verified_goes_with_them_and_a_tag_without_them_stays(site: Any, table: Any) -> None:
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "verified").commit()
    table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "lakeward-2026-03-01").commit()  # ours
    assert site.lakeward(*_YES).code == 0
    head = table.refresh().current_snapshot().snapshot_id
    assert set(table.metadata.refs) == {"main"}
    table.manage_snapshots().create_tag(head, "clean").commit()
    assert site.lakeward(*_YES[:4], "_kafka_offset = 99", *_YES[5:]).code == 0
    assert set(table.refresh().metadata.refs) == {"main", "clean"}


def test_a_held_table_is_refused(site: Any, table: Any) -> None:
    with site.registry() as connection:
        maintenance.register(connection, "nyc.flights", format="iceberg", location=None, table_class=None)
    assert site.lakeward("tables", "hold", "nyc.flights", "--for", "1d", "--comment", "audit").code == 0
    refused = site.lakeward(*_YES)
    assert refused.code == 4 and "held until" in refused.err
    assert physical(table) == [0, 1, 2, 3, 4]


def test_a_file_set_aside_goes_and_a_young_stranger_keeps_it_open(site: Any, table: Any) -> None:
    made = next(root(table).rglob("*.parquet"))
    aside = root(table) / ".lakeward_orphans" / "20261101T000000Z" / "data" / "old.parquet"
    aside.parent.mkdir(parents=True)
    aside.write_bytes(made.read_bytes())
    young = root(table) / "data" / "young.parquet"
    young.write_bytes(next(each for each in root(table).rglob("*.parquet") if holds(each, 1)).read_bytes())
    refused = site.lakeward(*_YES)
    assert refused.code == 3 and "young.parquet" in refused.err
    young.unlink()
    assert site.lakeward(*_YES).code == 0
    assert 1 not in physical(table) and 3 not in physical(table)


def holds(file: Path, offset: int) -> bool:
    return offset in pq.ParquetFile(file).read().column("_kafka_offset").to_pylist()


def test_samples_of_checks_go(site: Any, table: Any) -> None:
    with site.registry() as connection:
        connection.execute(text("SET CONSTRAINTS ALL DEFERRED"))
        verifications.record(
            connection,
            {"run": "r", "table": "nyc.flights", "suite": "s", "scope": "range", "verdict": "hold"},
            [{"check": "c", "expectation": "e", "severity": "critical", "state": "fail", "sample": [{"x": 1}],
              "observed": {"value": "3", "rows": 5}}],
        )  # fmt: skip
        told = 'nyc.flights: a row fails\nrow: {"x": 1}\nfor example 3\nchanged: nothing'
        known = incidents.opened(connection, "quality", "nyc.flights", told)
        incidents.remember_message(connection, known, {"text": told, "id": "17"})
    pages = site.runtime.data_docs
    pages.mkdir()
    (pages / ".lakeward-data-docs").touch()
    (pages / "index.html").write_text("x is 1")
    done = site.lakeward(*_YES)
    assert (done.code, done.json["samples"]) == (0, 1)
    assert not pages.exists()
    with site.registry() as connection:
        (check,) = verifications.checks_of(connection, "r")
        (left,) = incidents.open_ones(connection).values()
        assert incidents.pending(connection) == [], "no message is sent because of it"
    assert (check["sample"], check["observed"]) == (None, {"rows": 5})
    assert left.text == "nyc.flights: a row fails\nchanged: nothing"
    assert left.message == {"text": left.text, "id": "17"}


@pytest.mark.parametrize("where", ["nonsense = 1", "_kafka_offset = 'x'", "1 = 1", "DROP TABLE x"])
def test_what_is_no_condition_is_reported(site: Any, table: Any, where: str) -> None:
    refused = site.lakeward("tables", "erase", "nyc.flights", "--where", where, "--yes", "--comment", "x")
    assert refused.code == 2 and "Traceback" not in refused.err
    assert physical(table) == [0, 1, 2, 3, 4]


def test_a_condition_in_a_file_is_the_same_condition(site: Any, table: Any, tmp_path: Path) -> None:
    file = tmp_path / "request-118.sql"
    command = ("tables", "erase", "nyc.flights", "--where", f"@{file}", "--dry-run")
    missing = site.lakeward(*command)
    assert (missing.code, "No such file" in missing.err) == (2, True)
    file.write_bytes(b"\xff")
    assert "not UTF-8" in site.lakeward(*command).err
    file.write_text("\n")
    assert "it is empty" in site.lakeward(*command).err
    values = ", ".join(map(str, (1, 3, *range(100, 60_000))))  # longer than an argument may be
    file.write_text(f"_kafka_offset IN ({values})\n")
    found = site.lakeward(*command, "-o", "json")
    assert (found.code, found.json["rows"]) == (0, 2)


def test_rows_with_a_null_in_the_condition_stay(site: Any, table: Any) -> None:
    table.append(rows_of(table, [7]).set_column(1, "_kafka_partition", pa.array([None], pa.int32())))
    found = site.lakeward("tables", "erase", "nyc.flights", "--where", "_kafka_partition != 5 AND _kafka_offset = 7",
                          "--dry-run", "-o", "json")  # fmt: skip
    assert found.code == 0 and found.json["rows"] == 0
    assert files.obstacle(table.refresh()) == ""


@pytest.mark.parametrize(
    ("key", "now"),
    [
        pytest.param("late", True, id="late"),
        pytest.param("quarantine", False, id="quarantine-of an earlier generation"),
        *(
            pytest.param(
                *each,
                marks=pytest.mark.campaign(held_by="test_late_and_quarantined_records_of_its_streams_go_too"),
            )
            for each in (("late", False), ("quarantine", True))
        ),
    ],
)
def test_late_and_quarantined_records_of_its_streams_go_too(site: Any, table: Any, key: str, now: bool) -> None:
    """Those that the condition holds for, of the streams of this table: others may share it."""
    name = "nyc.flights_beside"
    with site.registry() as connection:
        own = generations.get(connection, "flights", 1)
        changed = {**own.spec, key: {"table": name}}
        connection.execute(
            update(schema.generations).where(schema.generations.c.stream == "flights").values(spec=changed)
        )
        if not now:
            generations.add(
                connection, stream="flights", generation=2, spec=own.spec, digest="2", sql=own.sql, code={},
                versions={}, author="test", checkpoint=own.checkpoint,
            )  # fmt: skip
            streams.accept(connection, "flights", generation=2, driver="demo")
    late = table.catalog.create_table(name, LATE)
    late.append(pa.Table.from_pylist([_late("flights", 1), _late("flights", 2), _late("other", 3)], LATE))

    shown = site.lakeward(*_WORDS, "--dry-run")
    kinds = ("rows", "late", "quarantined")
    assert [shown.json[kind] for kind in kinds] == ([2, 1, 0] if key == "late" else [2, 0, 1])
    assert name in shown.json["tables"]
    done = site.lakeward(*_YES)
    assert (done.code, done.json["by_table"]) == (0, {"nyc.flights": 2, name: 1})
    assert physical(late.refresh()) == [2, 3]
    assert len(late.metadata.snapshots) == 1
    if key == "late":  # a late record counts as filtered
        audit = site.lakeward("streams", "audit", "flights", "-o", "json").json
        assert (audit["landed"], audit["erased"], audit["missing"]) == (3, 2, 0)


def test_a_table_that_took_the_name_of_a_quarantine_is_no_quarantine(site: Any, table: Any) -> None:
    with site.registry() as connection:
        spec = {**generations.get(connection, "flights", 1).spec, "late": {"table": "nyc.other"}}
        connection.execute(update(schema.generations).where(schema.generations.c.stream == "flights").values(spec=spec))
    other = table.catalog.create_table("nyc.other", pa.schema([("n", pa.int64())]))
    other.append(pa.table({"n": [1]}))
    done = site.lakeward(*_YES)
    assert (done.code, done.json["by_table"]) == (0, {"nyc.flights": 2})


_TEXTS = ("stream", "reason", "_kafka_topic", "row", "replay", "became")
LATE = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        ("_kafka_partition", pa.int32()),
        ("_kafka_offset", pa.int64()),
        ("raw", pa.binary()),
        ("replayed_at", pa.timestamp("us", "UTC")),
    ]
)


def _late(stream: str, offset: int) -> dict[str, Any]:
    row = {"_kafka_partition": 0, "_kafka_offset": offset, "carrier": "AA"}
    return {"stream": stream, "reason": "late", "row": json.dumps(row), "raw": b"{}", **row}
