"""`lakeward tables restore` of a Delta table: its stream follows, a kill at each step, other writers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import object_store
import pytest
import restored_delta as rig
import sqlalchemy as sa
from object_store import Weed
from sqlalchemy import func

from lakeward.connectors.commit_protocol.position import Position, key, parse
from lakeward.connectors.delta import folder as places
from lakeward.connectors.delta import location, log
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.delta.position_store import DeltaPositionStore
from lakeward.operations.restore.restorable import MARKER
from lakeward.platform.runtime import Lake
from lakeward.quality.delta.table import DeltaTable
from lakeward.registry import batches, changes, generations, maintenance, streams, verifications
from lakeward.registry.schema import generations as stored
from lakeward.telemetry import failpoints

TABLE, STREAM = "nyc.landings", "flights"


class Killed(BaseException):
    """Nobody cleans up after it: as after SIGKILL."""


def die() -> None:
    raise Killed


@dataclass
class Rig:
    """A Delta table with seq 1 (offsets 0 to 5, version 1) and seq 2 (5 to 8, version 2) of stream flights."""

    site: Any
    folder: Folder

    def land(self, seq: int, start: int, end: int) -> Position:
        at = rig.land(self.folder, STREAM, seq, start, end, topic=self.site.topic, source="flights")
        with self.site.registry() as connection:
            batches.record(
                connection, stream=STREAM, query_id="q", batch_id=seq - 1, seq=seq, generation=1,
                snapshot_id=at.snapshot, start_offsets={"flights": self.offsets(start)},
                end_offsets={"flights": self.offsets(end)}, consumed=end - start, landed=end - start, quarantined=0,
                filtered=0, committed_at=func.now(),
            )  # fmt: skip
        return at

    def offsets(self, at: int) -> str:
        return rig.offsets(self.site.topic, at)

    def restore(self, to: int, *more: str) -> Any:
        return self.site.lakeward("tables", "restore", TABLE, "--to", str(to), "-o", "json", *more)

    def done(self, to: int) -> Any:
        answer = self.restore(to, "--yes", "--comment", "bad rows")
        assert answer.code == 0, answer.err
        return answer.json

    def refused(self, to: int) -> str:
        answer = self.restore(to, "--dry-run")
        assert answer.code == 4, answer
        return str(answer.err)

    def position(self) -> Position:
        return parse(self.domains()[key(STREAM)], STREAM, TABLE)

    def domains(self) -> dict[str, str]:
        found = log.domains(self.folder, rig.head(self.folder))
        assert found is not None
        return found

    def stand(self, **more: Any) -> None:
        """The position, changed as by another program."""
        at = self.position().model_copy(update=more)
        domain = {"domain": key(STREAM), "configuration": at.to_json(), "removed": False}
        rig.commit(self.folder, "LAKEWARD MOVE POSITION", {"domainMetadata": domain})


@pytest.fixture
def delta(site: Any) -> Rig:
    return _landed(site)


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    with object_store.running(tmp_path_factory.mktemp("weed")) as made:
        yield made


@pytest.fixture
def on_s3(site: Any, weed: Weed) -> Rig:
    """The same table in a warehouse on an object store."""
    lake = site.runtime.lake.model_copy(update={"warehouse": f"s3://lake/{site.topic}", "store": weed.store})
    moved = replace(site, runtime=site.runtime.model_copy(update={"lake": lake}))
    (site.home / "runtime.json").write_text(moved.runtime.model_dump_json())
    return _landed(moved)


def _landed(site: Any) -> Rig:
    folder = location.folder_of(site.runtime.lake, TABLE)
    rig.create(folder)
    with site.registry() as connection:
        found = generations.get(connection, STREAM, 1)
        assert found is not None
        spec = {**found.spec, "sink": {"delta": {"table": TABLE}}}
        connection.execute(sa.update(stored).where(stored.c.stream == STREAM).values(spec=spec))
    made = Rig(site, folder)
    made.land(1, 0, 5)
    made.land(2, 5, 8)
    return made


def test_the_stream_follows_and_each_record_lands_again(delta: Rig) -> None:
    shown = delta.restore(1, "--dry-run")
    assert (shown.json["records_before"], shown.json["records_after"], shown.json["commits"]) == (8, 5, 1)
    assert f"{delta.site.topic}/0: 3 records (5 to 7)" in shown.err
    assert f"roll {TABLE} back from version 2 to 1" in shown.json["detail"]
    assert delta.restore(1, "--comment", "x").code == 4, "it waits for a yes"
    assert rig.head(delta.folder) == 2

    found = delta.done(1)

    assert found["detail"].startswith(f"{TABLE} is at version 1 again (8 to 5 rows)")
    assert rig.values(delta.folder) == [0, 1, 2, 3, 4]
    at = delta.position()
    assert (at.seq, at.query_id, at.batch, at.snapshot, at.totals.landed) == (3, "", -1, 3, 5)
    assert at.end == {"flights": delta.offsets(5)}
    assert MARKER not in delta.domains()
    read = DeltaPositionStore(delta.folder, TABLE, STREAM).read()
    assert (read.halt, read.position) == (None, at), "a driver may land again"
    with delta.site.registry() as connection:
        row = streams.get(connection, STREAM)
        kept = generations.get(connection, STREAM, row.generation)
        assert changes.newest(connection, "table", TABLE)[0].comment == "bad rows"
        assert maintenance.newest_actions(connection, TABLE, 1)[0]["result"] == "done"
    assert kept is not None
    assert (row.generation, kept.checkpoint.endswith("flights.2")) == (2, True)

    delta.land(4, 5, 8)
    assert rig.values(delta.folder) == list(range(8))
    again = delta.done(1)
    assert again["streams"][0]["replayed"][0]["from"] == 5, "once more, by the same record"
    assert again["of_nobody"] == [], "of the restore before nothing is lost"
    assert rig.values(delta.folder) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "step",
    [
        "restore-before-commit",
        "restore-moved",
        *(
            pytest.param(
                each,
                marks=pytest.mark.campaign(held_by="test_wherever_it_is_killed_the_same_command_finishes_it"),
            )
            for each in ("restore-stopped", "restore-one-settled")
        ),
    ],
)
def test_wherever_it_is_killed_the_same_command_finishes_it(delta: Rig, step: str) -> None:
    _killed_and_finished(delta, step)


@pytest.mark.campaign(
    held_by="test_on_an_object_store_a_compaction_may_come_first_and_a_kill_after_the_commit_is_finished"
)
@pytest.mark.parametrize("step", ["restore-before-commit", "restore-stopped", "restore-one-settled"])
def test_on_an_object_store_too(on_s3: Rig, step: str) -> None:
    _killed_and_finished(on_s3, step)


def _killed_and_finished(delta: Rig, step: str) -> None:
    with failpoints.on(step, die), suppress(Killed):
        delta.restore(1, "--yes", "--comment", "bad rows")
    moved = step in ("restore-moved", "restore-one-settled")
    assert rig.values(delta.folder) == list(range(5 if moved else 8)), "rows and position move at once"
    assert delta.position().end == {"flights": delta.offsets(5 if moved else 8)}
    assert (MARKER in delta.domains()) == moved
    _long_ago(delta)

    delta.done(1)

    assert rig.values(delta.folder) == [0, 1, 2, 3, 4]
    assert MARKER not in delta.domains()
    with delta.site.registry() as connection:
        row = streams.get(connection, STREAM)
        made = [each for each in changes.newest(connection, "table", TABLE) if each.change == "restore"]
    assert (row.generation, len(made)) == (2, 1)


def _long_ago(delta: Rig) -> None:
    """The killed run and its leases are of an hour ago."""
    with delta.site.registry() as connection:
        connection.execute(sa.text("UPDATE leases SET until = now() - interval '1 s'"))
        connection.execute(sa.text("UPDATE operations SET requested_at = requested_at - interval '1 h'"))


def _compact(delta: Rig) -> None:
    adds = [{"add": {"path": path}} for path in log.read(delta.folder).files]
    rewritten = rig.file(delta.folder, range(8), delta.site.topic, dataChange=False)
    rig.commit(delta.folder, "OPTIMIZE", *(rig.removal(add, rewrite=True) for add in adds), rewritten)


@pytest.mark.parametrize("single_requests", [0, pytest.param(50, marks=pytest.mark.campaign)])
def test_on_an_object_store_a_compaction_may_come_first_and_a_kill_after_the_commit_is_finished(
    on_s3: Rig, weed: Weed, monkeypatch: pytest.MonkeyPatch, single_requests: int
) -> None:
    """The store refuses the version that the compaction took, and the position moves in the commit of the rows.

    Files of the version are looked for in a listing of the folder; at night by a request for each, too.
    """
    monkeypatch.setattr(places, "SINGLE_REQUESTS", single_requests)
    with (
        failpoints.on("restore-before-commit", _once(lambda: _compact(on_s3))),
        failpoints.on("restore-moved", die),
        suppress(Killed),
    ):
        on_s3.restore(1, "--yes", "--comment", "bad rows")
    assert [log.commit(on_s3.folder, version).operation for version in (3, 4)] == ["OPTIMIZE", "RESTORE"]
    assert rig.values(on_s3.folder) == [0, 1, 2, 3, 4]
    at = on_s3.position()
    assert (at.seq, at.snapshot, at.end) == (3, 4, {"flights": on_s3.offsets(5)}), "in the commit of the rows"
    assert MARKER in on_s3.domains()
    _long_ago(on_s3)

    on_s3.done(1)

    assert MARKER not in on_s3.domains()
    assert on_s3.position() == at
    with on_s3.site.registry() as connection:
        assert streams.get(connection, STREAM).generation == 2
    assert not [each for each in weed.names("lake") if "lakeward-trial" in each]

    again = on_s3.land(4, 5, 8).snapshot
    (path,) = {*_at(on_s3, again)} - {*_at(on_s3, 1)}
    gone = rig.commit(on_s3.folder, "DELETE", rig.removal({"add": {"path": path}}))
    weed.system().delete_file(f"{on_s3.folder}/{path}".removeprefix("s3a://"))  # as VACUUM does
    assert "1 file no longer exist" in on_s3.refused(again)
    assert max(DeltaLog(on_s3.folder).listing().versions) == gone


@pytest.mark.parametrize("single_requests", [0, 50])
def test_files_on_an_object_store_are_found_in_a_listing_as_by_requests(
    weed: Weed, monkeypatch: pytest.MonkeyPatch, single_requests: int
) -> None:
    monkeypatch.setattr(places, "SINGLE_REQUESTS", single_requests)
    folder = places.StorePath("s3a://lake/listed/t", Lake(warehouse="s3://lake/w", store=weed.store))
    for there in ("lake/listed/t/day=O%27Hare é/a b.parquet", "lake/listed/other/a", "lake/listed/t/plain"):
        weed.put(there, "x")
    of_log = (
        "day=O%2527Hare%20%C3%A9/a%20b.parquet",
        "s3a://lake/listed/other/a",
        "day=1/gone",
        "s3://lake/listed/gone",
    )
    files = {path: log.absolute(folder, path) for path in of_log}
    found = places.existing(folder, list(files.values()))
    assert [path for path in of_log if files[path] in found] == list(of_log[:2])


def _once(hook: Callable[[], Any]) -> Callable[[], None]:
    left = [hook]
    return lambda: left.pop()() if left else None


def test_a_compaction_that_commits_first_changes_nothing(delta: Rig) -> None:
    with failpoints.on("restore-before-commit", _once(lambda: _compact(delta))):
        delta.done(1)
    assert rig.values(delta.folder) == [0, 1, 2, 3, 4]
    assert delta.position().snapshot == 4, "version 3 is the compaction"


def test_rows_of_another_writer_are_not_removed_without_a_yes(delta: Rig) -> None:
    def insert() -> None:
        rig.commit(delta.folder, "WRITE", rig.file(delta.folder, range(90, 92)))

    with failpoints.on("restore-before-commit", _once(insert)):
        answer = delta.restore(1, "--yes", "--comment", "bad rows")
    assert answer.code == 75
    assert "another commit came first" in answer.err
    assert "1 file with 2 rows added, 0 files removed) is not of a stream: it is lost" in answer.err
    assert rig.values(delta.folder) == [*range(8), 90, 91]
    assert delta.done(1)["of_nobody"] == [3]


def test_a_manual_restore_is_followed_by_the_stream(delta: Rig) -> None:
    """Spark's RESTORE leaves the position behind: the stream is blocked. Restoring to the same version repairs it."""
    (path,) = {*log.read(delta.folder).files} - {*_at(delta, 1)}
    version = rig.commit(delta.folder, "WRITE", rig.removal({"add": {"path": path}}))
    file = delta.folder / log.LOG / f"{version:020d}.json"
    file.write_text(file.read_text().replace('"WRITE"', '"RESTORE"').replace("{},", '{"version":1},', 1))
    halt = DeltaPositionStore(delta.folder, TABLE, STREAM).read().halt
    assert halt is not None
    assert halt.reason == "rolled-back"
    assert "not an ancestor" in delta.refused(2)
    delta.done(version)
    assert DeltaPositionStore(delta.folder, TABLE, STREAM).read().halt is None
    assert delta.position().end == {"flights": delta.offsets(5)}


def _at(delta: Rig, version: int) -> list[str]:
    from lakeward.connectors.delta import rollback

    return list(rollback.at_version(delta.folder, version).files)


def test_what_is_proven_is_the_newest_proof_that_stays(delta: Rig) -> None:
    def prove(version: int) -> None:
        with delta.site.registry() as connection:
            verifications.record(connection, _proof(version), [])

    prove(2)
    assert _verified(delta) == 2
    assert "`verified` is dropped until the next quality run" in delta.restore(1, "--dry-run").err
    prove(1)
    assert "`verified` moves back to version 1" in delta.restore(1, "--dry-run").err
    delta.done(1)
    assert _verified(delta) == 1


def _proof(version: int) -> Any:
    return {
        "run": f"r{version}", "table": TABLE, "suite": "s", "scope": "rows", "at": func.now(), "from_snapshot": None,
        "to_snapshot": version, "to_sequence": version, "to_commit": f"u-1/tx{version}", "verdict": "pass",
        "first_bad_snapshot": None, "verified_snapshot": version, "batches": None, "spark_jobs": None,
        "duration_s": None, "note": "", "cpu_s": None,
    }  # fmt: skip


def _verified(delta: Rig) -> int | None:
    with delta.site.registry() as connection:
        proofs = verifications.proofs(connection, TABLE)
    history, _ = DeltaTable(TABLE, delta.folder).look(proofs)
    return history.verified


def test_what_cannot_be_taken_back_is_refused_with_the_reason(delta: Rig) -> None:
    assert "the version has expired or never was one of this table" in delta.refused(17)
    assert "DESCRIBE HISTORY" in delta.refused(17)
    assert delta.site.lakeward("tables", "restore", "nyc.none", "--to", "1", "--dry-run").code == 2

    delta.stand(end={"flights": delta.offsets(9)})
    assert "its position was moved after its last batch" in delta.refused(1)
    delta.stand(end={"flights": delta.offsets(8)}, topic_ids={delta.site.topic: "another"})
    assert f"a topic of stream {STREAM} was deleted and created again" in delta.refused(1)
    delta.stand(topic_ids={})
    assert delta.restore(1, "--dry-run").code == 0

    with delta.site.registry() as connection:
        kept = generations.get(connection, STREAM, 1)
        spec = {**kept.spec, "lineage": "none", "transform": {"sql": "SELECT count(*) AS n FROM flights"}}
        connection.execute(sa.update(stored).where(stored.c.stream == STREAM).values(spec=spec))
    assert "it keeps state" in delta.refused(1)


def test_a_backfill_is_taken_out_and_run_again(delta: Rig) -> None:
    rig.land(delta.folder, f"{STREAM}@b1", 1, 0, 4, topic=delta.site.topic, source="flights")
    assert "4 rows removed; run that backfill again" in delta.restore(2, "--dry-run").err
    delta.done(2)
    assert sorted(delta.domains()) == [key(STREAM)]
    assert delta.position().snapshot == 2, "the stream is at that version and stays"
    document = json.loads(delta.restore(2, "--dry-run").out)
    assert document["streams"] == []


def test_a_stream_that_has_read_removed_versions_is_named(delta: Rig) -> None:
    name = "delay_alerts"
    with delta.site.registry() as connection:
        kept = generations.get(connection, name, 1)
        assert kept is not None
        spec = {**kept.spec, "sources": {"source": {"delta": {"table": TABLE}}}}
        connection.execute(sa.update(stored).where(stored.c.stream == name).values(spec=spec))

    def read(version: int, index: int, seq: int) -> list[str]:
        end = {"reservoirId": "u-1", "reservoirVersion": version, "isStartingVersion": False, "index": index}
        with delta.site.registry() as connection:
            batches.record(
                connection, stream=name, query_id="q", batch_id=seq, seq=seq, generation=1, snapshot_id=seq,
                start_offsets={}, end_offsets={"source": json.dumps(end)}, consumed=1, landed=1, quarantined=0,
                filtered=0, committed_at=func.now(),
            )  # fmt: skip
        found: list[str] = delta.restore(1, "--dry-run").json["readers"]
        return found

    assert read(2, -1, 1) == [], "version 2 is next, and no file of it was read"
    assert read(2, 0, 2) == [name]
    assert read(3, -1, 3) == [name]


def test_a_version_whose_files_were_vacuumed_is_refused_with_their_number(delta: Rig) -> None:
    (path,) = _at(delta, 1)
    rig.commit(delta.folder, "DELETE", rig.removal({"add": {"path": path}}))
    (delta.folder / path).unlink()
    assert "1 file no longer exist" in delta.refused(1)


@pytest.mark.parametrize("name", [f"{2:020d}.json", f"{2:020d}.checkpoint.parquet"])
def test_a_damaged_file_of_the_log_is_named_by_each_command(delta: Rig, name: str) -> None:
    (delta.folder / log.LOG / name).write_bytes(b"{\xff cut")
    for words in (
        ("streams", "audit", STREAM),
        ("streams", "recover", STREAM, "--dry-run"),
        ("tables", "health", TABLE),
        ("tables", "restore", TABLE, "--to", "1", "--dry-run"),
        ("tables", "restore", TABLE, "--to", "1", "--yes", "--comment", "bad rows"),
    ):
        done = delta.site.lakeward(*words)
        assert (done.code, f"{name} is damaged" in done.err) == (3, True), done.err
