"""A position moved in a log written by hand. Spark reads such versions in tests/spark/connectors/delta and driver."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import delta_log
import pytest

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.delta import log
from lakeward.connectors.delta.check import DOMAINS
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.position_store import OPERATION, DeltaPositionStore, state_at
from lakeward.platform.errors import Blocked, Fenced, Refused

STREAM = "flights"


def _protocol(*features: str) -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [DOMAINS, *features]}}


def _landed(folder: Path, version: int, seq: int) -> Position:
    """A batch of the stream, as a driver commits it."""
    at = Position(
        seq=seq, query_id="q", batch=seq - 1, end={"source": f'{{"t":{{"0":{seq}}}}}'}, snapshot=version,
        snapshot_seq=version, attempt=f"{STREAM}/{seq}/x",
    )  # fmt: skip
    domain = {"domain": key(STREAM), "configuration": at.to_json(), "removed": False}
    about = {"operation": "STREAMING UPDATE", "userMetadata": at.attempt}
    delta_log.commit(
        folder, version, {"commitInfo": about}, delta_log.add(f"f{version}", 1), {"domainMetadata": domain}
    )
    return at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    delta_log.commit(tmp_path, 0, {"commitInfo": {"operation": "CREATE TABLE"}}, _protocol("appendOnly"),
                     delta_log.table(""))  # fmt: skip
    _landed(tmp_path, 1, 1)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> DeltaPositionStore:
    return DeltaPositionStore(folder, "n.t", STREAM)


def _moved(position: Position | None, author: str = "ann") -> Position:
    assert position is not None
    return position.moved("reset", author, end={"source": "-"})


def test_a_move_is_the_next_version_and_names_it(store: DeltaPositionStore, folder: Path) -> None:
    before = store.read()
    stored = store.compare_and_set(before, _moved(before.position))

    assert (stored.seq, stored.query_id, stored.batch, stored.snapshot, stored.snapshot_seq) == (2, "", -1, 2, 2)
    assert store.read().position == stored
    assert store.read().halt is None
    commit = log.commit(folder, 2)
    assert commit is not None
    assert (commit.operation, commit.attempt) == (OPERATION, "reset/2/ann")
    assert [set(action) for action in DeltaLog(folder).actions(2)] == [{"commitInfo"}, {"domainMetadata"}]
    assert {each.name for each in (folder / log.LOG).iterdir()} == {f"{version:020d}.json" for version in range(3)}


def test_of_two_that_move_it_at_once_one_wins(store: DeltaPositionStore, folder: Path) -> None:
    before, barrier = store.read(), threading.Barrier(2)

    def move(author: str) -> str:
        barrier.wait(10)
        try:
            return store.compare_and_set(before, _moved(before.position, author)).attempt
        except Fenced:
            return "fenced"

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(move, ("ann", "bob")))
    assert outcomes[0] == "fenced" and outcomes[1].startswith("reset/2/")
    position = store.read().position
    assert position is not None and position.attempt == outcomes[1]
    assert log.commit(folder, 3) is None, "the other one wrote nothing"


def test_a_version_that_is_taken_is_not_written_over(folder: Path) -> None:
    text = (folder / log.LOG / f"{1:020d}.json").read_text()
    assert not DeltaLog(folder).put(1, [{"commitInfo": {}}])
    assert (folder / log.LOG / f"{1:020d}.json").read_text() == text
    assert not [each for each in (folder / log.LOG).iterdir() if each.name.startswith(".")]


def test_a_batch_that_lands_meanwhile_wins(store: DeltaPositionStore, folder: Path) -> None:
    before = store.read()
    landed = _landed(folder, 2, 2)
    with pytest.raises(Fenced, match="moved its position"):
        store.compare_and_set(before, _moved(before.position))
    assert store.read().position == landed


def test_another_writers_version_only_moves_it_further_down_the_log(
    store: DeltaPositionStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = store.read(), DeltaLog.put

    def beaten(files: DeltaLog, version: int, actions: Any) -> bool:
        """OPTIMIZE takes the version between the look and the commit."""
        monkeypatch.setattr(DeltaLog, "put", real)
        delta_log.commit(files.folder, version, {"commitInfo": {"operation": "OPTIMIZE"}},
                         delta_log.remove("f1", rewrite=True), delta_log.add("g", 1, rewrite=True))  # fmt: skip
        return real(files, version, actions)

    monkeypatch.setattr(DeltaLog, "put", beaten)
    assert store.compare_and_set(before, _moved(before.position)).snapshot == 3


def test_a_version_that_another_process_wrote_over_is_no_success(
    store: DeltaPositionStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = store.read(), DeltaLog.put

    def overwritten(files: DeltaLog, version: int, actions: Any) -> bool:
        done = real(files, version, actions)
        delta_log.commit(files.folder, version, {"commitInfo": {"operation": "WRITE"}})
        return done

    monkeypatch.setattr(DeltaLog, "put", overwritten)
    with pytest.raises(Fenced, match="moved its position") as fenced:
        store.compare_and_set(before, _moved(before.position))
    assert "version 2 of n.t was overwritten" in fenced.value.why


def test_a_seq_that_does_not_rise_fences_nobody_and_is_refused(store: DeltaPositionStore) -> None:
    before = store.read()
    assert before.position is not None
    with pytest.raises(Refused, match="seq 1 to 1"):
        store.compare_and_set(before, before.position)


def test_rows_that_are_gone_halt_it_before_and_at_the_commit(store: DeltaPositionStore, folder: Path) -> None:
    before = store.read()
    restore = {"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": 0}}}
    delta_log.commit(folder, 2, restore, delta_log.remove("f1"))
    halt = store.read().halt
    assert halt is not None and halt.reason == "rolled-back"
    with pytest.raises(Refused, match="was not moved") as refused:
        store.compare_and_set(before, _moved(before.position))
    assert "was restored to an older version" in refused.value.why


def test_a_table_that_is_not_there_and_one_without_a_position(tmp_path: Path) -> None:
    store = DeltaPositionStore(tmp_path, "n.t", STREAM)
    halt = store.read().halt
    assert halt is not None and halt.reason == "table-missing"
    delta_log.commit(tmp_path, 0, _protocol(), delta_log.table(""))
    empty = store.read()
    assert (empty.raw, empty.halt) == (None, None)
    assert store.compare_and_set(empty, Position.before_first(1, {}).moved("reset", "ann")).seq == 1


@pytest.mark.parametrize(
    ("features", "configuration", "named"),
    [
        (("catalogManaged",), {}, "catalogManaged"),
        (("inCommitTimestamp",), {"delta.enableInCommitTimestamps": "true"}, "inCommitTimestamp"),
        (("inCommitTimestamp",), {}, None),
    ],
)
def test_what_the_protocol_asks_of_a_writer_is_not_ignored(
    tmp_path: Path, features: tuple[str, ...], configuration: dict[str, str], named: str | None
) -> None:
    table = delta_log.table("")
    table["metaData"]["configuration"] = configuration
    delta_log.commit(tmp_path, 0, _protocol(*features), table)
    _landed(tmp_path, 1, 1)
    halt = DeltaPositionStore(tmp_path, "n.t", STREAM).read().halt
    assert (None if halt is None else halt.reason) == (named and "features")
    assert named is None or (halt is not None and named in halt.why)


def test_the_position_is_read_behind_a_checkpoint_of_the_log(store: DeltaPositionStore, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    before = store.read()
    rows = [
        {"protocol": _protocol()["protocol"]},
        {"metaData": delta_log.table("")["metaData"] | {"configuration": None}},
        {"add": {"path": "f1", "partitionValues": None}},
        {"domainMetadata": {"domain": key(STREAM), "configuration": before.raw, "removed": False}},
    ]
    empty = dict.fromkeys(("protocol", "metaData", "add", "domainMetadata"))
    checkpoint = folder / log.LOG / f"{1:020d}.checkpoint.parquet"
    pq.write_table(pa.Table.from_pylist([empty | row for row in rows]), checkpoint)
    for version in (0, 1):
        (folder / log.LOG / f"{version:020d}.json").unlink()
    delta_log.commit(folder, 2, {"commitInfo": {"operation": "WRITE"}})
    assert store.read().raw == before.raw
    assert json.loads(str(store.read().raw))["seq"] == 1
    assert store.compare_and_set(store.read(), _moved(before.position)).snapshot == 3


def test_a_position_that_cannot_be_read_is_looked_for_in_the_log(tmp_path: Path) -> None:
    with pytest.raises(Blocked) as blocked:
        state_at(tmp_path, 1, "{", True, STREAM, "nyc.flights", {})
    assert "domain metadata" in blocked.value.why and "_delta_log" in blocked.value.next
