"""What keeps expiry from taking what somebody needs; each test fails without its guard."""

from __future__ import annotations

import pytest

from lakeward.connectors.iceberg.source.position import Offset
from lakeward.platform.errors import Refused
from lakeward.registry import batches, generations, maintenance, streams, verifications
from lakeward.tables.maintain import maintain_table
from lakeward.tables.run import health


def roll_back(table, snapshot) -> None:
    table.sql(f"CALL lake.system.rollback_to_snapshot('{table.name}', {snapshot.snapshot_id})")


def test_a_rolled_back_table_keeps_its_history_and_blocks_the_stream(site, make_table, stream):
    table, name = make_table(), stream()
    table.append(times=2)
    early = table.head()
    table.append()
    table.put_position(name, table.head())
    roll_back(table, early)
    before = table.snapshots()
    done = maintain_table(site, table.name, ["expire"])
    assert [each["result"] for each in done["actions"]] == ["refused"]
    assert table.snapshots() == before
    with site.registry() as connection:
        blocked = streams.get(connection, name).blocked
    assert blocked is not None
    assert blocked["reason"] == "rolled-back"
    assert name in blocked["what"]


def test_a_stopped_streams_expired_position_is_remembered_as_seen(site, make_table, stream):
    table, name = make_table(), stream(desired="stopped")
    table.append()
    table.put_position(name, table.head())
    table.append(times=3)
    first = maintain_table(site, table.name, ["expire"])["actions"][0]
    assert first["result"] == "done", first
    assert int(first["after"]["positions"][name]) not in table.snapshots()
    table.append(times=2)
    second = maintain_table(site, table.name, ["expire"])["actions"][0]
    assert second["result"] == "done", second


def test_somebody_elses_expiry_over_a_position_is_found(site, make_table, stream):
    table, name = make_table(), stream(desired="stopped")
    table.append()
    table.put_position(name, table.head())
    table.append(times=3)
    table.sql(
        f"CALL lake.system.expire_snapshots(table => '{table.name}', "
        "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
    )
    table.append(times=2)
    done = maintain_table(site, table.name, ["expire"])
    assert [each["result"] for each in done["actions"]] == ["refused"]
    with site.registry() as connection:
        assert (streams.get(connection, name).blocked or {})["reason"] == "expired-unseen"


def test_a_running_streams_newest_publication_stays(site, make_table, stream):
    table, name = make_table(), stream()
    table.append(times=2)
    published = table.head()
    table.put_position(name, published)
    table.append(times=3)
    done = maintain_table(site, table.name, ["expire"])["actions"][0]
    assert done["result"] == "done", done
    assert published.snapshot_id in table.snapshots()
    assert name in done["why"] or len(table.snapshots()) == 4


def test_what_a_stream_of_the_table_has_not_read_stays_until_it_is_retired(site, make_table, stream):
    table, name = make_table(), stream(desired="stopped")
    table.append(times=2)
    read = table.head()
    spec = {"sources": {"source": {"iceberg": {"table": table.name}}}}
    with site.registry() as connection:
        generations.add(
            connection, stream=name, generation=1, spec=spec, digest="d", sql=None, code={}, versions={},
            author="t", checkpoint=name,
        )  # fmt: skip
        at = Offset(read.snapshot_id, 1).text
        batches.record(connection, stream=name, query_id="q", batch_id=1, generation=1, end_offsets={"source": at})
    table.append(times=3)
    done = maintain_table(site, table.name, ["expire"])["actions"][0]
    assert done["result"] == "done", done
    assert read.snapshot_id in table.snapshots()
    assert len(table.snapshots()) == 4
    [reader] = next(each for each in health(site.runtime, site.project, table.name)["tables"])["readers"]
    assert (reader["stream"], reader["snapshot_id"], reader["lost"]) == (name, read.snapshot_id, False)
    with site.registry() as connection:
        streams.remove(connection, name)
    table.append()
    assert maintain_table(site, table.name, ["expire"])["actions"][0]["result"] == "done"
    assert read.snapshot_id not in table.snapshots()


def test_a_staged_batch_survives_and_can_be_published(site, make_table, stream):
    table, name = make_table(**{"write.wap.enabled": "true"}), stream(desired="stopped")
    table.append(times=2)
    table.put_position(name, table.head(), seq=7)
    spark = table.spark
    spark.conf.set("spark.wap.id", f"{name}/8/nonce")
    try:
        table.sql("INSERT INTO {t} VALUES (1, 'EWR', timestamp'2013-01-15 10:00:00')")
    finally:
        spark.conf.unset("spark.wap.id")
    rows = table.rows()
    table.append(times=3)
    done = maintain_table(site, table.name, ["expire"])["actions"][0]
    assert done["result"] == "done", done
    table.sql(f"CALL lake.system.publish_changes('{table.name}', '{name}/8/nonce')")
    assert table.rows() == rows + 3 * 6 + 1


def verified_run(table: str, snapshot: int) -> dict[str, object]:
    return {
        "run": f"r-{snapshot}", "table": table, "suite": "x", "scope": "increment", "verdict": "pass",
        "to_snapshot": snapshot, "verified_snapshot": snapshot,
    }  # fmt: skip


@pytest.mark.parametrize("proof", ["branch", "results"])
def test_snapshots_no_check_has_seen_stay(site, make_table, proof):
    table = make_table()
    table.append(times=3)
    seen = table.head()
    if proof == "branch":
        table.sql(f"ALTER TABLE {{t}} CREATE BRANCH verified AS OF VERSION {seen.snapshot_id}")
    else:
        with site.registry() as connection:
            verifications.record(connection, verified_run(table.name, seen.snapshot_id), [])
    table.append(times=3)
    unseen = {each.snapshot_id for each in site.load(table.name).metadata.snapshots[3:]}
    done = maintain_table(site, table.name, ["expire"])["actions"][0]
    assert done["result"] == "done", done
    assert unseen <= table.snapshots()
    assert done["before"]["snapshots"] - done["after"]["snapshots"] == 2


def test_a_tag_keeps_its_snapshot(site, make_table):
    table = make_table()
    table.append()
    tagged = table.head().snapshot_id
    table.sql("ALTER TABLE {t} CREATE TAG daily")
    table.append(times=3)
    assert maintain_table(site, table.name, ["expire"])["actions"][0]["result"] == "done"
    assert tagged in table.snapshots()


def test_files_that_may_belong_to_others_are_not_expired(site, make_table):
    table = make_table(**{"gc.enabled": "false"})
    table.append(times=4)
    done = maintain_table(site, table.name, ["expire"])
    assert done["actions"] == []
    assert "gc.enabled" in done["plan"]["not_planned"][0]["why"]


def test_expiry_waits_while_a_person_has_to_look(site, make_table):
    table = make_table()
    table.append(times=4)
    with site.registry() as connection:
        maintenance.register(connection, table.name, format="iceberg", location=None, table_class=None)
        maintenance.hold_expiry(connection, table.name, "row count differs")
    done = maintain_table(site, table.name, ["expire"])
    assert done["actions"] == []
    assert "row count differs" in done["plan"]["not_planned"][0]["why"]


def test_a_table_over_a_checkpoint_is_refused(site, make_table):
    from dataclasses import replace

    table = make_table()
    table.append(times=4)
    inside = site.load(table.name).metadata.location + "/checkpoints"
    over = replace(site, runtime=site.runtime.model_copy(update={"checkpoints": inside}))
    with pytest.raises(Refused, match="Cannot maintain"):
        maintain_table(over, table.name, ["compact"])
    assert table.files() == 8


def test_a_table_over_another_is_refused(site, make_table):
    table = make_table()
    table.append(times=4)
    inner = site.load(table.name).metadata.location + "/inner"
    other = make_table().name
    site.catalog.drop_table(other)
    site.catalog.create_table(other, site.load(table.name).schema(), location=inner)
    with site.registry() as connection:
        maintenance.register(connection, other, format="iceberg", location=inner, table_class=None)
    try:
        with pytest.raises(Refused, match="Cannot maintain"):
            maintain_table(site, table.name, ["compact"])
    finally:
        with site.registry() as connection:
            maintenance.register(connection, other, format="iceberg", location=None, table_class=None)
